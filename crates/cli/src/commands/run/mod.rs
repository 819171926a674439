//! `pario run`: starts the processes of a job and waits for them.

mod cluster;
mod output;
mod program;
mod ranks;

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, CommandFactory};
use pario::JOB_SIZE_LIMIT;
use serde_json::json;

use crate::arguments::{Arguments, GlobalOptions, parse_seconds};
use crate::exit::AlreadyReported;
use cluster::JobCluster;
use ranks::{JobReport, JobSpec};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario run -n 4 ./solver input.toml\n  \
                            pario run -np 4 ./solver input.toml\n  \
                            pario run -n 4 --prefix sh -c 'echo rank $PARIO_RANK of $PARIO_SIZE'\n  \
                            pario run -n 8 --data /mnt/ssd/pario ./solver\n  \
                            pario run -n 8 --cluster tcp:10.0.0.1:7411 --key lab.key ./solver";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Number of processes; -np N and --np N mean the same
    #[arg(
        short = 'n',
        long = "processes",
        alias = "np",
        value_name = "N",
        value_parser = parse_processes
    )]
    processes: u32,

    /// Print the rank before every line
    #[arg(long)]
    prefix: bool,

    /// Let the other processes continue when one fails
    #[arg(long)]
    keep_going: bool,

    /// Seconds that processes have to end before they are killed
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

/// Runs the command. The exit code is that of the first process that failed.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    program::check(&options.program[0])?;
    let cluster = JobCluster::find(global)?;
    let job = format!("{}-{:06x}", std::process::id(), fastrand::u32(..1 << 24));
    let spec = JobSpec {
        job: &job,
        size: options.processes,
        program: &options.program,
        environment: cluster.environment(global)?,
        is_prefixed: options.prefix,
        keeps_going: options.keep_going,
        grace: Duration::from_secs_f64(options.grace),
    };
    let report = ranks::run(&spec)?;
    let address = cluster.address.clone();
    cluster.stop();
    if global.json {
        eprintln!("{:#}", as_json(&job, &address, &report));
    }
    match report.code() {
        0 => Ok(()),
        code => Err(AlreadyReported(code).into()),
    }
}

/// Rewrites `-np 4` of `pario run`, as mpirun has it, to `-n 4`. Arguments of the program stay
/// unchanged.
pub fn accept_np(mut typed: Vec<OsString>) -> Vec<OsString> {
    let mut root = Arguments::command();
    root.build();
    let Some(run) = root.find_subcommand("run") else { return typed };
    let takes_value = |word: &OsString| {
        let is_it = |arg: &clap::Arg| {
            let long = arg.get_long().is_some_and(|long| *word == *format!("--{long}"));
            let short = arg.get_short().is_some_and(|short| *word == *format!("-{short}"));
            (long || short) && arg.get_action().takes_values()
        };
        run.get_arguments().chain(root.get_arguments()).any(is_it)
    };
    let mut is_run = false;
    let mut at = 1;
    while let Some(word) = typed.get_mut(at) {
        at += 1;
        if *word == "--" {
            break;
        } else if is_run && *word == "-np" {
            *word = "-n".into();
            at += 1;
        } else if word.as_encoded_bytes().starts_with(b"-") {
            at += usize::from(takes_value(word));
        } else if is_run || *word != "run" {
            break;
        } else {
            is_run = true;
        }
    }
    typed
}

fn as_json(job: &str, address: &str, report: &JobReport) -> serde_json::Value {
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
    let number = text.parse().ok().filter(|number| (1..=JOB_SIZE_LIMIT).contains(number));
    number.ok_or_else(|| format!("it must be a number of processes from 1 to {JOB_SIZE_LIMIT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn np_of_mpirun_is_understood_before_the_program_only() {
        for (typed, expected) in [
            ("pario run -np 4 prog", "pario run -n 4 prog"),
            (
                "pario --data d run --prefix -np 4 prog -np 2",
                "pario --data d run --prefix -n 4 prog -np 2",
            ),
            ("pario run -n 4 prog -np 2", "pario run -n 4 prog -np 2"),
            ("pario run -n 4 -- -np", "pario run -n 4 -- -np"),
            ("pario run --grace 3 -np 4 prog", "pario run --grace 3 -n 4 prog"),
            ("pario ls -np", "pario ls -np"),
            ("pario", "pario"),
        ] {
            let words = accept_np(typed.split(' ').map(OsString::from).collect());
            let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(words.join(" "), expected);
        }
    }
}
