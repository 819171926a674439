//! The time axis: round steps and readable units.

/// The units from small to large, in nanoseconds.
const UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];

/// The marks of an axis that begins at 0.
#[derive(Debug)]
pub(super) struct TimeAxis {
    /// The distance between two marks.
    pub(super) step_ns: f64,
    /// The number of marks after the mark at 0.
    pub(super) steps: u32,
}

impl TimeAxis {
    /// Chooses round steps for a time, about `wanted` of them.
    pub(super) fn new(total_ns: f64, wanted: f64) -> TimeAxis {
        let rough = (total_ns / wanted).max(1.0);
        let ten = 10f64.powf(rough.log10().floor());
        let step_ns = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * ten)
            .into_iter()
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * ten);
        let mut steps = 0;
        while f64::from(steps + 1) * step_ns <= total_ns * 1.000_001 && steps < 1_000 {
            steps += 1;
        }
        TimeAxis { step_ns, steps }
    }

    /// Returns the label of a mark. All marks of an axis have the same unit.
    pub(super) fn label(&self, step: u32) -> String {
        let last = self.step_ns * f64::from(self.steps.max(1));
        let (size, unit) = unit(last);
        let value = self.step_ns * f64::from(step) / size;
        if step == 0 { "0".to_owned() } else { format!("{} {unit}", digits(value)) }
    }
}

/// Formats a duration with three digits and its unit.
pub(super) fn duration(ns: f64) -> String {
    let (size, unit) = unit(ns);
    let value = ns / size;
    let digits = match value {
        v if v >= 100.0 || size == 1.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    format!("{digits} {unit}")
}

fn unit(ns: f64) -> (f64, &'static str) {
    UNITS.into_iter().rev().find(|(size, _)| ns >= *size).unwrap_or(UNITS[0])
}

/// Formats a number without trailing zeros.
fn digits(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(total_ns: f64) -> Vec<String> {
        let axis = TimeAxis::new(total_ns, 8.0);
        (0..=axis.steps).map(|step| axis.label(step)).collect()
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(
            labels(662e6),
            ["0", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms", "600 ms"]
        );
        assert_eq!(labels(3.0), ["0", "1 ns", "2 ns", "3 ns"]);
        assert_eq!(labels(2.4e9), ["0", "0.5 s", "1 s", "1.5 s", "2 s"]);
        assert_eq!(labels(1_000.0), ["0", "0.2 µs", "0.4 µs", "0.6 µs", "0.8 µs", "1 µs"]);
    }

    #[test]
    fn there_are_always_marks_but_not_many() {
        for exponent in 0..60u32 {
            let axis = TimeAxis::new(1.3 * 2f64.powi(exponent.try_into().unwrap()), 8.0);
            assert!((1..=10).contains(&axis.steps), "{axis:?}");
        }
    }

    #[test]
    fn durations_have_three_digits() {
        let cases =
            [(0.0, "0 ns"), (999.0, "999 ns"), (1_500.0, "1.50 µs"), (23_456_000.0, "23.5 ms")];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
    }
}
