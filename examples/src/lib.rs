//! The options that all examples share: placement and pictures.
//!
//! The examples are in `src/bin`, one file each:
//!
//! ```text
//! cargo run -p pario-examples --bin sieve -- --placement examples/sieve.toml
//! ```
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, FromArgMatches};
use pario_flow::graph::OperationGraph;
use pario_flow::{Placement, Program, RunningProgram};

/// The options that every example has.
#[derive(Args)]
pub struct Options {
    /// Placement file: the process of each thread; without it, all run in this process
    #[arg(long, value_name = "FILE.toml")]
    placement: Option<PathBuf>,

    /// Draw the operation as .svg or .dot; a second operation goes to FILE-2
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

impl Options {
    /// Reads the command line of an example without options of its own.
    pub fn parse(example: &'static str, about: &'static str) -> Self {
        let help = format!(
            "Example: cargo run -p pario-examples --bin {example} -- \
             --placement examples/{example}.toml"
        );
        let command = Command::new(example).about(about).after_help(help);
        let matches = Self::augment_args(command).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Starts the program according to the placement file. It does not return in the other
    /// processes, so an example prints nothing before.
    pub fn launch(&self, program: Program) -> anyhow::Result<RunningProgram> {
        let placement = self.placement.as_ref().map(Placement::from_file).transpose()?;
        Ok(program.launch(placement)?)
    }

    /// Draws operations if `--picture` is given.
    pub fn draw(&self, graphs: &[&OperationGraph]) -> anyhow::Result<()> {
        let Some(first) = &self.picture else { return Ok(()) };
        for (number, graph) in (1..).zip(graphs) {
            let path = if number == 1 { first.clone() } else { numbered(first, number) };
            graph.save(&path).with_context(|| format!("cannot draw {}", path.display()))?;
        }
        Ok(())
    }
}

/// Returns the path of a further picture: `pictures/sieve-2.svg` for `pictures/sieve.svg`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.{ending}"))
}
