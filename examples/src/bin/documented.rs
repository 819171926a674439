//! Runs the Rust programs of README.md and of the documents in `docs`, unchanged.
//!
//! ```text
//! cargo run -p pario-examples --bin documented                  # lists them
//! cargo run -p pario-examples --bin documented -- README.md:57  # runs one
//! ```

use std::process::ExitCode;

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

fn main() -> ExitCode {
    let Some(wanted) = std::env::args().nth(1) else {
        PROGRAMS.iter().for_each(|(place, _)| println!("{place}"));
        return ExitCode::SUCCESS;
    };
    match PROGRAMS.iter().find(|(place, _)| *place == wanted) {
        Some((_, entry)) => entry(),
        None => {
            eprintln!(
                "documented: no Rust program begins at {wanted}; run it without arguments for a list"
            );
            ExitCode::from(2)
        }
    }
}
