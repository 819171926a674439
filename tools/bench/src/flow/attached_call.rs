//! What a call to another process costs an attached process, against the same call in a program
//! that was launched in two processes.
//!
//! Both run one empty step on a thread of the other process, over Unix sockets, with one call under
//! way.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario_flow::placement::Placement;
use pario_flow::{AttachOptions, OperationRef, Program, ResidentAddress, RunningProgram};

use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};
use crate::report::Report;
use crate::turns::alternate;

/// The resident process.
pub const RESIDENT_ROLE: PartnerRole = PartnerRole { name: "attached-call", run: reside };
/// The second process of the launched program.
pub const LAUNCHED_ROLE: PartnerRole = PartnerRole { name: "launched-call", run: serve };

/// The share of the launched program's speed to reach.
const GOAL: f64 = 0.9;
/// Calls before the measurement, which wake a sleeping core.
const BEFORE: u64 = 20;

const PLACEMENT: &str = r#"
[processes]
near = "user"
far = { arguments = ["--partner", "launched-call"] }

[threads]
There = "far"
"#;

/// Describes the program; the thread is in the other process.
fn describe(name: &str) -> (Program, OperationRef<u64, u64>) {
    let mut program = Program::new(name);
    let there = program.thread("There", || ());
    let echo = program.operation("echo", |chain| chain.on(there).run(|(), token: u64| token));
    (program, echo)
}

fn launch() -> Result<(RunningProgram, OperationRef<u64, u64>)> {
    let (program, echo) = describe("launched call");
    Ok((program.launch(Some(Placement::parse(PLACEMENT, "two processes")?))?, echo))
}

/// Runs the second process of the launched program, until the first ends.
fn serve(_words: &[String]) -> Result<()> {
    // It does not return in this process.
    launch()?;
    Ok(())
}

/// Runs the resident process, until its parent ends.
fn reside(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let (mut program, _) = describe(&words.concat());
    program.allow_attach(AttachOptions::this_user());
    let _run = program.launch(None)?;
    parent.send_line("resident")?;
    parent.receive_line()?;
    Ok(())
}

/// Measures `attached-call`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let calls: u64 = setting.choose(500, 200);
    let name = format!("attached call of {}", std::process::id());
    let mut resident = PartnerProcess::start(RESIDENT_ROLE.name, &[&name])?;
    ensure!(resident.receive_line()? == "resident", "the resident program did not start");
    let (program, attached_echo) = describe(&name);
    let attached = program.attach(&ResidentAddress::ThisMachine)?;
    let (launched, launched_echo) = launch()?;
    let comparison = alternate(
        setting.choose(201, 61),
        &mut || timed(&attached, attached_echo, calls),
        &mut || timed(&launched, launched_echo, calls),
    )?;
    report.measured("attached-call", comparison, Quantity::Operations(calls as f64), GOAL);
    Ok(())
}

fn timed(run: &RunningProgram, echo: OperationRef<u64, u64>, calls: u64) -> Result<Duration> {
    for number in 0..BEFORE {
        run.call(echo, number)?;
    }
    let start = Instant::now();
    for number in 0..calls {
        ensure!(run.call(echo, number)? == number, "another result came back");
    }
    Ok(start.elapsed())
}
