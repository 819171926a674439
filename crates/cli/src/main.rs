//! `pario`: the one binary of Pario.
//!
//! It prints, and nothing else in Pario does; what it prints about is done by the libraries. Here
//! it is only decided how the process ends:
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | everything is fine |
//! | 1 | it failed; the reason is on stderr |
//! | 2 | wrong usage |
//! | 130 | interrupted, mostly with Ctrl-C |

#![forbid(unsafe_code)]

mod arguments;
mod demo;
mod interrupt;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use interrupt::Interrupted;

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(asked_or_wrong) => {
            let is_wrong = asked_or_wrong.use_stderr();
            // Where nobody reads it, nobody misses it.
            let _ = asked_or_wrong.print();
            return if is_wrong { WRONG_USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let done = match arguments.command {
        Command::Demo(options) => demo::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !nobody_listens(&error) {
                eprintln!("pario: {error:#}");
            }
            if error.is::<Interrupted>() { INTERRUPTED.into() } else { FAILED.into() }
        }
    }
}

/// Whether all that failed is that the reader of the output has gone, as in `pario demo | head`.
fn nobody_listens(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
