//! `pfsdexit`: another name for `pario stop`.
#![forbid(unsafe_code)]

#[path = "../pfsd.rs"]
mod pfsd;

use std::process::ExitCode;

fn main() -> ExitCode {
    pfsd::run("pfsdexit")
}
