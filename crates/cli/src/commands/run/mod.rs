//! `pario run`

mod home;
mod output;
mod program;
mod ranks;

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use pario::GROUP_LIMIT;
use serde_json::json;

use crate::arguments::{Global, parse_seconds};
use crate::exit::Told;
use home::Home;
use ranks::{Plan, Report};

/// Lines for the help.
pub const EXAMPLES: &str = "pario run -n 4 ./solver input.toml\n  \
                            pario run -n 4 --prefix sh -c 'echo rank $PARIO_RANK of $PARIO_SIZE'\n  \
                            pario run -n 8 --data /mnt/ssd/pario ./solver\n  \
                            pario run -n 8 --cluster tcp:10.0.0.1:7411 --key lab.key ./solver";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// How many processes
    #[arg(short = 'n', long = "processes", value_name = "N", value_parser = parse_processes)]
    processes: u32,

    /// Put the rank before every line that a process prints
    #[arg(long)]
    prefix: bool,

    /// Let the others go on when a process fails
    #[arg(long)]
    keep_going: bool,

    /// How long processes that are to end may take, before they are killed
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    grace: f64,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// Does it. The exit code is the first bad one of the processes.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    program::check(&options.program[0])?;
    let home = Home::find(global)?;
    let job = format!("{}-{:06x}", std::process::id(), fastrand::u32(..1 << 24));
    let plan = Plan {
        job: &job,
        size: options.processes,
        program: &options.program,
        environment: home.environment(global)?,
        is_prefixed: options.prefix,
        keeps_going: options.keep_going,
        grace: Duration::from_secs_f64(options.grace),
    };
    let report = ranks::run(&plan)?;
    let address = home.address.clone();
    home.leave();
    if global.json {
        eprintln!("{:#}", as_json(&job, &address, &report));
    }
    match report.code() {
        0 => Ok(()),
        code => Err(Told(code).into()),
    }
}

fn as_json(job: &str, address: &str, report: &Report) -> serde_json::Value {
    let ranks = report.ends.iter().zip(0..).map(|(end, rank)| {
        json!({
            "rank": rank, "pid": end.pid, "exit_code": end.status.code(), "signal": end.signal(),
            "seconds": end.took.as_secs_f64(),
        })
    });
    json!({
        "job": job,
        "cluster": address,
        "exit_code": report.code(),
        "first_failed": report.first_failed,
        "ranks": ranks.collect::<Vec<_>>(),
    })
}

fn parse_processes(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=GROUP_LIMIT).contains(number));
    number.ok_or_else(|| format!("it is not a number of processes, which is 1 to {GROUP_LIMIT}"))
}
