//! `pfsd`: another name for `pario serve`.
#![forbid(unsafe_code)]

#[path = "../pfsd.rs"]
mod pfsd;

use std::process::ExitCode;

fn main() -> ExitCode {
    pfsd::run("pfsd")
}
