//! `pfsdstat`: another name for `pario status`.
#![forbid(unsafe_code)]

#[path = "../pfsd.rs"]
mod pfsd;

use std::process::ExitCode;

fn main() -> ExitCode {
    pfsd::run("pfsdstat")
}
