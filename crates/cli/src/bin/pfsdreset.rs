//! `pfsdreset`: another name for `pario reset`.
#![forbid(unsafe_code)]

#[path = "../pfsd.rs"]
mod pfsd;

use std::process::ExitCode;

fn main() -> ExitCode {
    pfsd::run("pfsdreset")
}
