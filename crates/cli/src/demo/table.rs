//! A report as tables for people.

use std::io::{self, Write};

use indicatif::{DecimalBytes, HumanCount};

use super::report::{PhaseReport, Report, SpaceReport};

/// Stands where there is nothing to say.
const NOTHING: &str = "-";

/// Prints a report.
pub fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let phases = report.phases.iter().map(phase_row).collect();
    let heads = ["phase", "extents", "bytes", "time", "speed", "cache hits"];
    print_table(out, heads, phases)?;
    writeln!(out)?;
    let disks = report.disks.iter().chain([&report.total]);
    let heads = ["disk", "extents", "live bytes", "before compact", "bytes on disk", "ratio"];
    print_table(out, heads, disks.map(space_row).collect())?;
    writeln!(out)?;
    writeln!(
        out,
        "Served by {}: one queue, up to {} requests under way on each disk.\n\
         Every byte read was compared with what was written.\n\
         Filling the cold cache includes getting memory for it.",
        report.engine, report.depth_per_disk
    )?;
    if let Some(path) = &report.kept {
        writeln!(out, "The disks are kept in {}.", path.display())?;
    }
    Ok(())
}

fn phase_row(phase: &PhaseReport) -> [String; 6] {
    let speed = phase.bytes_per_second.map(speed);
    let hits = phase.cache_hits.map(|hits| HumanCount(hits).to_string());
    [
        phase.phase.to_string(),
        HumanCount(phase.extents).to_string(),
        DecimalBytes(phase.bytes).to_string(),
        format!("{:.3} s", phase.seconds),
        speed.unwrap_or_else(|| NOTHING.into()),
        hits.unwrap_or_else(|| NOTHING.into()),
    ]
}

fn space_row(disk: &SpaceReport) -> [String; 6] {
    [
        disk.space.disk.clone(),
        HumanCount(disk.space.extents).to_string(),
        DecimalBytes(disk.space.live_bytes).to_string(),
        DecimalBytes(disk.before_bytes).to_string(),
        DecimalBytes(disk.space.disk_bytes).to_string(),
        format!("{:.3}", disk.ratio),
    ]
}

fn speed(bytes_per_second: u64) -> String {
    let mb_per_second = bytes_per_second as f64 / 1e6;
    if mb_per_second < 999.5 {
        format!("{mb_per_second:.0} MB/s")
    } else {
        format!("{:.2} GB/s", mb_per_second / 1e3)
    }
}

/// Prints columns as wide as they need to be: names to the left, figures to the right.
fn print_table<const COLUMNS: usize>(
    out: &mut impl Write,
    heads: [&str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
) -> io::Result<()> {
    let heads = heads.map(str::to_owned);
    let lines = || [&heads].into_iter().chain(&rows);
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = lines().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0)
    });
    for line in lines() {
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            match column {
                0 => write!(out, "{cell:<width$}")?,
                _ => write!(out, "   {cell:>width$}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        let rows = vec![["fill".into(), "7".into()], ["a longer one".into(), "1,234".into()]];
        print_table(&mut out, ["phase", "no."], rows).unwrap();
        let expected = "\
phase            no.
fill               7
a longer one   1,234
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn speeds_have_three_digits_or_so() {
        assert_eq!(speed(412_300_000), "412 MB/s");
        assert_eq!(speed(999_600_000), "1.00 GB/s");
        assert_eq!(speed(12_345_000_000), "12.35 GB/s");
    }
}
