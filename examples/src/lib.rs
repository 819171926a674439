//! What the examples share: where their threads live, and the pictures of their operations.
//!
//! The examples themselves are in `src/bin`, one file each, and are run like this:
//!
//! ```text
//! cargo run -p pario-examples --bin sieve -- --placement examples/sieve.toml
//! ```
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, FromArgMatches};
use pario_flow::graph::OperationGraph;
use pario_flow::{Placement, Program, Run};

/// The options that every example has.
#[derive(Args)]
pub struct Options {
    /// Which threads live in which processes; without it all live in this one
    #[arg(long, value_name = "FILE.toml")]
    placement: Option<PathBuf>,

    /// Draw the operation before it is called, as .svg or .dot; a further one goes to FILE-2
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

impl Options {
    /// Reads the command line of an example that has no other options than these.
    pub fn parse(example: &'static str, about: &'static str) -> Self {
        let help = format!(
            "Example: cargo run -p pario-examples --bin {example} -- \
             --placement examples/{example}.toml"
        );
        let command = Command::new(example).about(about).after_help(help);
        let matches = Self::augment_args(command).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Starts the program where the placement file puts its threads. In the other processes this
    /// does not return, so an example prints nothing before.
    pub fn launch(&self, program: Program) -> anyhow::Result<Run> {
        let placement = self.placement.as_ref().map(Placement::from_file).transpose()?;
        Ok(program.launch(placement)?)
    }

    /// Draws operations, if a picture is wanted.
    pub fn draw(&self, graphs: &[&OperationGraph]) -> anyhow::Result<()> {
        let Some(first) = &self.picture else { return Ok(()) };
        for (number, graph) in (1..).zip(graphs) {
            let path = if number == 1 { first.clone() } else { numbered(first, number) };
            graph.save(&path).with_context(|| format!("{} cannot be drawn", path.display()))?;
        }
        Ok(())
    }
}

/// `pictures/sieve.svg` is `pictures/sieve-2.svg` as the second one.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.{ending}"))
}
