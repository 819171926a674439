//! Formats and parses sizes, rates and durations.

use std::time::Duration;

use bytesize::ByteSize;

/// Formats a size in binary units with two or three digits: `486 MiB`, `1.9 GiB`, `64 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().unwrap_or(&"");
    // A value that would round to 1024 becomes 1 of the next unit.
    while value >= 1023.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1024.0, next);
    }
    let digits = if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    format!("{} {unit}", digits.trim_end_matches(".0"))
}

/// Formats a rate in bytes per second.
pub fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", size(bytes_per_second))
}

/// Returns the rate in bytes per second.
pub fn per_second(bytes: u64, took: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / took.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Formats a number with its noun: `1 disk`, `4 disks`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Formats a duration with one unit: `340 ms`, `12 s`, `3 min`, `5 h`, `2 d`.
pub fn elapsed(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0 => format!("{} ms", took.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns the fraction `part / whole` in units of `1 / steps`, rounded down.
pub fn share(part: u64, whole: u64, steps: u64) -> u64 {
    let steps = u128::from(steps) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(steps).unwrap_or(u64::MAX)
}

/// Parses a size: a number and an optional unit.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|_| "it is not a size; write a number and a unit, such as 64KiB or 2GiB")?;
    Ok(size.as_u64())
}

/// Parses a size and refuses 0.
pub fn parse_positive_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("it must be larger than 0".to_owned()),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_or_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (65_536, "64 KiB"),
            (1536, "1.5 KiB"),
            (10_239, "10 KiB"),
            (509_607_936, "486 MiB"),
            (2_040_109_465, "1.9 GiB"),
            ((1 << 20) - 1, "1 MiB"),
            (1 << 40, "1 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(rate(2_254_857_830), "2.1 GiB/s");
    }

    #[test]
    fn rates_come_from_bytes_and_times() {
        assert_eq!(per_second(1 << 30, Duration::from_millis(500)), 2 << 30);
        assert_eq!(per_second(u64::MAX, Duration::ZERO), u64::MAX);
        assert_eq!(per_second(0, Duration::ZERO), 0);
    }

    #[test]
    fn times_have_one_unit() {
        let texts = [0.34, 12.7, 119.0, 180.0, 7200.0, 200_000.0]
            .map(|seconds| elapsed(Duration::from_secs_f64(seconds)));
        assert_eq!(texts, ["340 ms", "12 s", "119 s", "3 min", "2 h", "2 d"]);
    }

    #[test]
    fn shares_are_whole_steps() {
        assert_eq!((share(1, 2, 10), share(0, 0, 10), share(9, 9, 10)), (5, 0, 10));
        assert_eq!(share(u64::MAX, u64::MAX, 100), 100);
    }

    #[test]
    fn typed_sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("2 gib", 2 << 30),
            ("1.5GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            ("0", 0),
            ("47008", 47_008),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "much", "-1GiB", "1 parsec", "1GiB2", "nan", "inf"] {
            let refused = parse_size(text).expect_err(text);
            assert!(refused.contains("64KiB"), "{text}: {refused}");
        }
        assert_eq!(parse_positive_size("0").unwrap_err(), "it must be larger than 0");
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!((count(1, "disk"), count(0, "disk")), ("1 disk".into(), "0 disks".into()));
    }
}
