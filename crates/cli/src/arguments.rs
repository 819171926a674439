//! What can be typed, and the help for it.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};

/// The smallest `--size`: some extents for every disk and every phase.
const SMALLEST_SIZE: ByteSize = ByteSize::mib(1);

const EXIT_CODES: &str = "\
Exit codes:
  0    everything is fine
  1    it failed; the reason is on stderr
  2    wrong usage
  130  interrupted (Ctrl-C)";

/// Parallel files, shared by many processes and processed where the data lies.
#[derive(Debug, Parser)]
#[command(name = "pario", version, max_term_width = 100, after_help = after_help("pario demo --size 256MiB"))]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what Pario's store does, on four small disks of its own
    ///
    /// Makes four disks in a new directory, spreads extents of 51 KiB over them, reads them back
    /// at random without and with the cache, rewrites a third with other sizes, deletes a tenth,
    /// compacts the disks, and checks every byte on the way. Then it removes the directory and
    /// prints how fast each phase was and how much space the disks took. Nothing needs to be
    /// configured.
    Demo(DemoOptions),
}

/// How the demo is to run.
#[derive(Args, Debug)]
#[command(after_help = after_help("pario demo --size 256MiB --dir /mnt/ssd\n  pario demo --json | jq '.phases[] | {phase, bytes_per_second}'"))]
pub struct DemoOptions {
    /// How much to store over all disks: 64MiB, 2GiB, ...
    #[arg(long, default_value = "1GiB", value_parser = parse_size, allow_hyphen_values = true)]
    pub size: ByteSize,

    /// Where to make the directory with the disks
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,

    /// Keep the directory with the disks
    #[arg(long)]
    pub keep: bool,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,

    /// What contents, sizes and orders are drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn after_help(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{EXIT_CODES}")
}

fn parse_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|_| "it is not a size; write a number and a unit, such as 64MiB or 2GiB")?;
    if size < SMALLEST_SIZE {
        return Err(format!("it is too small; the least is {SMALLEST_SIZE}"));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("2GiB", 2 << 30),
            ("2 gib", 2 << 30),
            ("1.5GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            ("1048576", 1 << 20),
        ] {
            assert_eq!(parse_size(text), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_a_reason() {
        for text in ["", "MiB", "much", "-1GiB", "1 parsec", "1GiB2", "nan", "inf"] {
            let refused = parse_size(text).expect_err(text);
            assert!(refused.contains("64MiB"), "{text}: {refused}");
        }
        for text in ["0", "1KiB", "1023KiB"] {
            let refused = parse_size(text).expect_err(text);
            assert!(refused.contains("too small"), "{text}: {refused}");
        }
    }
}
