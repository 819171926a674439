//! Processes that attach to a resident program, call its operations, add threads and leave.
//!
//! Attached programs in the process of the test reach the resident one over its Unix socket, as
//! other processes do. Where a process is killed, the test starts its own executable again.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_flow::{
    AttachError, AttachOptions, CallError, Continuation, Key, LaunchError, OperationRef, Placement,
    PoolRef, Program, ResidentAddress, RunningProgram, Window,
};

use crate::warnings::Warnings;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SOON: Duration = Duration::from_secs(20);

/// The operations of the program that both sides build.
#[derive(Clone, Copy)]
struct Operations {
    square: OperationRef<u64, u64>,
    fail: OperationRef<u64, u64>,
    /// Splits and merges in the calling process.
    sum: OperationRef<u64, u64>,
    /// Splits in the resident program; the calling process runs the body; merges there again.
    round: OperationRef<u64, u64>,
    /// Keeps its token for ever.
    keep: OperationRef<u64, u64>,
    /// Never ends, with tokens under way in both directions.
    endless: OperationRef<u64, u64>,
    /// Returns this many bytes.
    bytes: OperationRef<usize, Vec<u8>>,
    /// Returns the process of the caller thread and of the worker.
    processes: OperationRef<u32, (u32, u32)>,
}

fn name(test: &str) -> String {
    format!("{test} of {}", std::process::id())
}

fn program(name: &str) -> (Program, Operations) {
    let mut program = Program::new(name);
    let caller = program.caller_thread("Caller", std::process::id);
    let helper: PoolRef<u64> = program.caller_pool("Helper", 3, |_| 0);
    let worker = program.pool("Worker", 3, |_| ());
    let keeper = program.thread("Keeper", Vec::<Continuation<u64>>::new);
    let square = program
        .operation("square", |b| b.on(worker.at(|n: &u64| *n as usize % 3)).run(|_, n: u64| n * n));
    let fail = program.operation("fail", |b| {
        b.on(worker.thread(1)).try_run(|_, n: u64| Err::<u64, _>(format!("{n} is too much")))
    });
    let sum = program.operation("sum", |b| {
        b.on(caller)
            .split_indexed(|n: &u64| 0..*n, |_, i| Some(i))
            .on(worker.any())
            .run(|_, i: u64| 2 * i)
            .merge(caller, |_| 0, |sum: &mut u64, i| *sum += i)
    });
    let round = program.operation("round", |b| {
        b.on(worker.thread(0))
            .window(Window::fixed(8))
            .split_indexed(|n: &u64| 0..*n, |_, i| Some(i))
            .on(helper.any())
            .run(|handled: &mut u64, i: u64| {
                *handled += 1;
                i + 1
            })
            .merge(worker.thread(2), |_| 0, |sum: &mut u64, i| *sum += i)
    });
    let keep = program.operation("keep", |b| {
        b.on(keeper).run_async(|kept: &mut Vec<Continuation<u64>>, _: u64, next| kept.push(next))
    });
    let endless = program.operation("endless", |b| {
        b.on(worker.thread(0))
            .window(Window::fixed(32))
            .split_while(|n: &mut u64| Some(*n))
            .on(helper.any())
            .run(|_, n: u64| n)
            .on(worker.any())
            .run(|_, n: u64| n)
            .merge(caller, |_| 0, |sum: &mut u64, n| *sum = sum.wrapping_add(n))
    });
    let bytes =
        program.operation("bytes", |b| b.on(worker.thread(2)).run(|_, n: usize| vec![7; n]));
    let processes = program.operation("processes", |b| {
        b.on(caller)
            .run(|process: &mut u32, _: u32| *process)
            .on(worker.thread(1))
            .run(|_, caller: u32| (caller, std::process::id()))
    });
    let operations = Operations { square, fail, sum, round, keep, endless, bytes, processes };
    (program, operations)
}

fn resident(name: &str) -> Result<(RunningProgram, Operations), LaunchError> {
    let (mut program, operations) = program(name);
    program.allow_attach(AttachOptions::this_user());
    Ok((program.launch(None)?, operations))
}

fn attached(name: &str) -> Result<(RunningProgram, Operations), AttachError> {
    let (program, operations) = program(name);
    Ok((program.attach(&ResidentAddress::ThisMachine)?, operations))
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < SOON, "not within {SOON:?}: {what}");
        std::thread::yield_now();
    }
}

/// The resident program serves everyone, and no call of a process that has left is under way.
fn serves(run: &RunningProgram, operations: Operations) {
    assert_eq!(run.call(operations.square, 5).unwrap(), 25);
    assert_eq!(run.call(operations.sum, 10).unwrap(), 90);
    assert_eq!(run.call(operations.round, 10).unwrap(), 55);
}

#[test]
fn attached_programs_call_operations_from_many_threads() -> Outcome {
    let name = name("calls");
    let (resident, operations) = resident(&name)?;
    std::thread::scope(|scope| {
        for client in 0..3_u64 {
            let name = &name;
            scope.spawn(move || {
                let (run, operations) = attached(name).unwrap();
                std::thread::scope(|scope| {
                    for thread in 0..3_u64 {
                        let run = &run;
                        scope.spawn(move || {
                            for n in 0..30 {
                                let n = n + 100 * thread + 1000 * client;
                                assert_eq!(run.call(operations.square, n).unwrap(), n * n);
                                let error = run.call(operations.fail, n).unwrap_err();
                                let expected = CallError::Failed {
                                    operation: "fail".into(),
                                    step: "run".into(),
                                    thread: "Worker[1]".into(),
                                    message: format!("{n} is too much"),
                                };
                                assert_eq!(error, expected);
                            }
                            assert_eq!(run.call(operations.sum, 200).unwrap(), 200 * 199);
                            assert_eq!(run.call(operations.round, 200).unwrap(), 200 * 201 / 2);
                        });
                    }
                });
                let pending: Vec<_> =
                    (0..100).map(|n| run.start(operations.square, n).unwrap()).collect();
                for (n, call) in (0..).zip(pending) {
                    assert_eq!(call.wait().unwrap(), n * n);
                }
                let snapshot = run.snapshot();
                let names: Vec<&str> =
                    snapshot.threads.iter().map(|thread| thread.name.as_str()).collect();
                assert_eq!(names, ["Caller", "Helper[0]", "Helper[1]", "Helper[2]"]);
                let handled: u64 =
                    snapshot.threads.iter().skip(1).map(|thread| thread.handled).sum();
                assert!(handled >= 600, "the helpers of this client ran its bodies: {snapshot}");
            });
        }
        for _ in 0..20 {
            serves(&resident, operations);
        }
    });
    until("all have left", || resident.snapshot().attached.is_empty());
    serves(&resident, operations);
    Ok(())
}

#[test]
fn an_operation_with_caller_threads_runs_in_the_calling_process() -> Outcome {
    let name = name("processes");
    let (resident, operations) = resident(&name)?;
    let mut child = ClientProcess::start("processes", &name);
    let line = child.read_line();
    let processes: Vec<u32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    assert_eq!(processes, [child.process.id(), std::process::id()]);
    let own = std::process::id();
    assert_eq!(resident.call(operations.processes, 0)?, (own, own));
    let snapshot = resident.snapshot();
    assert_eq!(snapshot.attached, [format!("process {}", child.process.id())]);
    let line = format!("attached: process {}\n", child.process.id());
    assert!(snapshot.to_string().contains(&line), "{snapshot}");
    child.leave();
    until("it has left", || resident.snapshot().attached.is_empty());
    Ok(())
}

#[test]
fn a_client_may_know_fewer_operations_and_add_its_own() -> Outcome {
    let name = name("own");
    let (_resident, _) = resident(&name)?;
    // Other numbers than in the resident program: fewer operations, in another order.
    let mut program = Program::new(&name);
    let own = program.pool("Own", 2, |_| 0_u64);
    let worker = program.pool("Worker", 3, |_| ());
    let double = program.operation("double", |b| {
        b.on(own.thread(1)).run(|calls: &mut u64, n: u64| {
            *calls += 1;
            2 * n
        })
    });
    let square = program
        .operation("square", |b| b.on(worker.at(|n: &u64| *n as usize % 3)).run(|_, n: u64| n * n));
    // After an operation of the resident program: a hop, a merge, nothing, a step without a hop.
    let then_own = program.operation("then own", |b| {
        b.call(square).on(own.at(|n: &u64| *n as usize % 2)).run(|_, n: u64| n + 1)
    });
    let split = program.operation("split", |b| {
        b.on(own.thread(0)).split_indexed(|n: &u64| 0..*n, |_, i| Some(i)).call(square).merge(
            own.thread(1),
            |_| 0,
            |sum: &mut u64, n| *sum += n,
        )
    });
    let nested = program.operation("nested", |b| b.call(then_own).call(double).call(square));
    let mapped = program.operation("mapped", |b| {
        b.on(own.any()).run(|_, n: u64| n).call(square).map(|n: u64| n.to_string())
    });
    let any = program.operation("any", |b| b.call(square).on(own.any()).run(|_, n: u64| n + 7));
    let run = program.attach(&ResidentAddress::ThisMachine)?;
    assert_eq!(run.call(double, 4)?, 8);
    assert_eq!(run.call(square, 4)?, 16);
    assert_eq!(run.call(then_own, 4)?, 17);
    assert_eq!(run.call(split, 100)?, (0..100).map(|n| n * n).sum::<u64>());
    assert_eq!(run.call(nested, 2)?, 100);
    assert_eq!(run.call(mapped, 9)?, "81");
    assert_eq!(run.call(any, 3)?, 16);
    assert!(run.graph(nested).name.contains("nested"));
    Ok(())
}

#[test]
fn operations_that_cannot_run_are_refused_with_a_reason() -> Outcome {
    let name = name("differences");
    let (_resident, _) = resident(&name)?;
    let attach = |build: &dyn Fn(&mut Program)| {
        let mut program = Program::new(&name);
        build(&mut program);
        program.attach(&ResidentAddress::ThisMachine).err().unwrap()
    };
    let error = attach(&|program| {
        let worker = program.pool("Worker", 3, |_| ());
        program.operation("square", |b| b.on(worker.thread(1)).map(|n: u64| n).run(|_, n: u64| n));
    });
    let text = error.to_string();
    assert!(
        matches!(error, AttachError::OtherOperation { operation, .. } if operation == "square")
    );
    assert!(text.starts_with("operation square of this process is not the one of"), "{text}");
    // Another type of token under the same names.
    let error = attach(&|program| {
        let worker = program.pool("Worker", 3, |_| ());
        program.operation("square", |b| {
            b.on(worker.at(|n: &u32| *n as usize % 3)).run(|_, n: u32| u64::from(n))
        });
    });
    assert!(
        matches!(error, AttachError::OtherOperation { operation, .. } if operation == "square")
    );
    // Another type of state.
    let error = attach(&|program| {
        let worker = program.pool("Worker", 3, |_| 1_u8);
        program.operation("square", |b| {
            b.on(worker.at(|n: &u64| *n as usize % 3)).run(|_, n: u64| n * n)
        });
    });
    assert!(
        matches!(error, AttachError::OtherOperation { operation, .. } if operation == "square")
    );
    let error = attach(&|program| {
        let worker = program.pool("Worker", 3, |_| ());
        program.operation("cube", |b| b.on(worker.any()).run(|_, n: u64| n * n * n));
    });
    let text = error.to_string();
    assert!(text.contains("has no operation cube, and cannot run its step Worker[any]"), "{text}");
    let error = attach(&|program| {
        program.thread("Worker", || ());
    });
    let text = error.to_string();
    assert!(text.starts_with("thread Worker is a thread in this process, but a pool"), "{text}");
    let error = attach(&|program| {
        let worker = program.pool("Worker", 3, |_| ());
        let square = program.operation("square", |b| {
            b.on(worker.at(|n: &u64| *n as usize % 3)).run(|_, n: u64| n * n)
        });
        program.operation("text", |b| b.call(square).map(|n: u64| n.to_string()));
    });
    let text = error.to_string();
    assert!(text.starts_with("operation text: no thread of this process is named for"), "{text}");
    Ok(())
}

#[test]
fn a_program_that_does_not_run_is_not_found() {
    let name = name("nowhere");
    let error = attached(&name).err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, AttachError::NotFound { .. }), "{text}");
    assert!(text.starts_with(&format!("program {name} was not found at unix=/")), "{text}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = ResidentAddress::Tcp(port, Key::random());
    let text = program(&name).0.attach(&to).err().unwrap().to_string();
    assert!(text.starts_with(&format!("program {name} was not found at tcp={port}")), "{text}");
}

#[test]
fn two_resident_programs_of_one_name_are_refused() -> Outcome {
    let name = name("twins");
    let (first, operations) = resident(&name)?;
    let error = resident(&name).err().unwrap();
    let own = std::process::id();
    let text = error.to_string();
    assert!(matches!(&error, LaunchError::NameInUse { .. }), "{text}");
    let expected = format!(
        "process {own} cannot start program {name}: process {own} runs a program of this name"
    );
    assert!(text.starts_with(&expected), "{text}");
    serves(&first, operations);
    drop(first);
    let (again, operations) = resident(&name)?;
    serves(&again, operations);
    Ok(())
}

#[test]
fn tcp_needs_the_key_of_the_program() -> Outcome {
    let warnings = Warnings::collect();
    let name = name("tcp");
    let key = Key::random();
    let (mut resident, operations) = program(&name);
    let options = AttachOptions::this_user().tcp("127.0.0.1:0".parse()?, key.clone());
    resident.allow_attach(options);
    let resident = resident.launch(None)?;
    let address = resident.tcp_address().unwrap();
    let (client, client_operations) = program(&name);
    let client = client.attach(&ResidentAddress::Tcp(address, key.clone()))?;
    assert_eq!(client.call(client_operations.sum, 100)?, 9900);
    assert_eq!(client.call(client_operations.round, 100)?, 5050);
    let began = Instant::now();
    let wrong = ResidentAddress::Tcp(address, Key::random());
    let error = program(&name).0.attach(&wrong).err().unwrap().to_string();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(error.starts_with(&format!("cannot attach to program {name} at tcp={address}")));
    assert!(error.contains("key"), "{error}");
    until("the refusal is recorded", || {
        resident.refusals().iter().any(|refusal| refusal.reason.contains("does not know the key"))
    });
    until("the refusal is logged", || warnings.contain(&name, "it does not know the key"));
    // Another program of the same key.
    let to = ResidentAddress::Tcp(address, key);
    let error = program("another").0.attach(&to).err().unwrap().to_string();
    assert!(error.contains(&format!("this is program {name:?}")), "{error}");
    until("the refusal is logged", || warnings.contain(&name, "may not attach: this is program"));
    assert_eq!(client.call(client_operations.square, 9)?, 81);
    serves(&resident, operations);
    Ok(())
}

#[test]
fn another_user_is_refused() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a thread as another user");
        return Ok(());
    }
    let warnings = Warnings::collect();
    let name = name("users");
    let (resident, operations) = resident(&name)?;
    // Only this user can enter the directory of the socket; a link to it is elsewhere.
    let public = tempfile::tempdir_in("/tmp")?;
    std::fs::set_permissions(public.path(), std::fs::Permissions::from_mode(0o755))?;
    let link = public.path().join("socket");
    std::fs::hard_link(resident.entrance_path().unwrap(), &link)?;
    std::fs::set_permissions(&link, std::fs::Permissions::from_mode(0o666))?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(54_321)).unwrap();
            let mut stream = std::os::unix::net::UnixStream::connect(&link).unwrap();
            let _ = stream.write_all(b"hello");
        });
    });
    until("the refusal is logged", || {
        warnings.contain(&name, "of user 54321: only the same user may come in here")
    });
    serves(&resident, operations);
    Ok(())
}

#[test]
fn leaving_ends_the_calls_of_this_process_and_no_others() -> Outcome {
    let name = name("leaving");
    let (resident, operations) = resident(&name)?;
    let (stays, stays_operations) = attached(&name)?;
    let kept = stays.start(stays_operations.keep, 1)?;
    let own = resident.start(operations.keep, 2)?;
    for _ in 0..5 {
        let (leaves, its_operations) = attached(&name)?;
        let call = leaves.start(its_operations.keep, 3)?;
        let endless = leaves.start(its_operations.endless, 3)?;
        assert_eq!(leaves.call(its_operations.sum, 50)?, 2450);
        drop(leaves);
        assert_eq!(call.wait(), Err(CallError::Stopped { program: name.clone() }));
        assert_eq!(endless.wait(), Err(CallError::Stopped { program: name.clone() }));
        assert_eq!(stays.call(stays_operations.round, 50)?, 1275);
    }
    until("their splits are gone", || {
        let snapshot = resident.snapshot();
        snapshot.attached.len() == 1 && snapshot.threads.iter().all(|t| t.splits.is_empty())
    });
    assert!(!kept.is_done() && !own.is_done());
    serves(&resident, operations);
    Ok(())
}

#[test]
fn a_killed_client_leaves_nothing_behind() -> Outcome {
    let name = name("killed");
    let (resident, operations) = resident(&name)?;
    let (other, other_operations) = attached(&name)?;
    for _ in 0..3 {
        let mut child = ClientProcess::start("endless", &name);
        assert_eq!(child.read_line(), "calls are under way");
        let merged = |run: &RunningProgram| {
            let snapshot = run.snapshot();
            let steps = snapshot.steps.iter().filter(|step| step.operation == "endless");
            steps.map(|step| step.tokens_out).sum::<u64>()
        };
        // Tokens come and go.
        let before = merged(&resident);
        until("tokens are under way", || merged(&resident) > before + 5_000);
        child.process.kill()?;
        child.process.wait()?;
        until("it is gone", || resident.snapshot().attached.len() == 1);
        until("its calls are gone", || {
            let snapshot = resident.snapshot();
            snapshot.threads.iter().all(|thread| thread.splits.is_empty() && thread.queued == 0)
                && snapshot.unassigned.iter().all(|(_, tokens)| *tokens == 0)
        });
        let quiet = merged(&resident);
        assert_eq!(other.call(other_operations.round, 100)?, 5050);
        serves(&resident, operations);
        assert_eq!(merged(&resident), quiet, "its calls have ended");
    }
    Ok(())
}

#[test]
fn a_client_that_does_not_read_is_cut_off() -> Outcome {
    let warnings = Warnings::collect();
    let name = name("deaf");
    let (resident, operations) = resident(&name)?;
    let (other, other_operations) = attached(&name)?;
    let mut child = ClientProcess::start("deaf", &name);
    assert_eq!(child.read_line(), "calls are under way");
    let pid = rustix::process::Pid::from_child(&child.process);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP)?;
    until("it is cut off", || {
        assert_eq!(other.call(other_operations.square, 3).unwrap(), 9);
        resident.snapshot().attached.len() == 1
    });
    until("it is logged", || warnings.contain(&name, "it does not read: "));
    child.process.kill()?;
    child.process.wait()?;
    serves(&resident, operations);
    Ok(())
}

#[test]
fn the_loss_of_the_resident_program_fails_calls() -> Outcome {
    let name = name("lost");
    let mut child = ClientProcess::start("resident", &name);
    assert_eq!(child.read_line(), "it is resident");
    let (run, operations) = attached(&name)?;
    serves(&run, operations);
    let kept = run.start(operations.keep, 1)?;
    let endless = run.start(operations.endless, 1)?;
    child.process.kill()?;
    child.process.wait()?;
    let lost = CallError::ProgramLost { program: name.clone() };
    assert_eq!(kept.wait(), Err(lost.clone()));
    assert_eq!(endless.wait(), Err(lost.clone()));
    assert_eq!(run.call(operations.square, 2), Err(lost.clone()));
    let text = lost.to_string();
    let expected = format!("program {name}, to which this process was attached, has ended");
    assert!(text.starts_with(&expected), "{text}");
    drop(run);
    assert!(matches!(attached(&name).err().unwrap(), AttachError::NotFound { .. }));
    // The socket of the killed program does not hinder its successor.
    let (again, operations) = resident(&name)?;
    serves(&again, operations);
    Ok(())
}

#[test]
fn a_thousand_clients_leave_no_threads_descriptors_or_memory() -> Outcome {
    if std::env::var_os(CYCLES).is_none() {
        // Alone in a process, where nothing else takes threads and descriptors.
        let status = Command::new(std::env::current_exe()?)
            .args([
                "--exact",
                "attaching::a_thousand_clients_leave_no_threads_descriptors_or_memory",
            ])
            .env(CYCLES, "1000")
            .status()?;
        assert!(status.success());
        return Ok(());
    }
    let cycles: u32 = std::env::var(CYCLES)?.parse()?;
    let name = name("cycles");
    let (resident, operations) = resident(&name)?;
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let memory_kb = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    let cycle = || {
        let (run, operations) = attached(&name).unwrap();
        assert_eq!(run.call(operations.square, 3).unwrap(), 9);
        assert_eq!(run.call(operations.round, 5).unwrap(), 15);
        let _kept_nowhere = run.start(operations.endless, 1).unwrap();
    };
    // The first ones fill pools and caches.
    (0..cycles / 5).for_each(|_| cycle());
    until("all have left", || resident.snapshot().attached.is_empty());
    let (threads, descriptors, memory) = (count("task"), count("fd"), memory_kb());
    (0..cycles - cycles / 5).for_each(|_| cycle());
    until("all have left", || resident.snapshot().attached.is_empty());
    until("their threads and descriptors are gone", || {
        count("task") <= threads && count("fd") <= descriptors
    });
    let grown = memory_kb().saturating_sub(memory);
    assert!(grown < 8 << 10, "{grown} kB more after {cycles} processes");
    serves(&resident, operations);
    Ok(())
}

const CYCLES: &str = "PARIO_TEST_CYCLES";

#[test]
fn a_resident_program_of_two_processes_serves_clients() -> Outcome {
    const TWO: &str = r#"
        [processes]
        A = "user"
        B = {}
        [threads]
        "Worker[0..2]" = "B"
        "Worker[2]" = "A"
        Keeper = "B"
    "#;
    // A started process has another number and takes part as B.
    let parent = std::env::var("PARIO_TEST_PARENT");
    let name = format!("two of {}", parent.unwrap_or_else(|_| std::process::id().to_string()));
    if std::env::var_os("PARIO_TEST_PARENT").is_none() {
        let status = Command::new(std::env::current_exe()?)
            .args(["--exact", "attaching::a_resident_program_of_two_processes_serves_clients"])
            .env("PARIO_TEST_PARENT", std::process::id().to_string())
            .status()?;
        assert!(status.success());
        return Ok(());
    }
    let (mut two, operations) = program(&name);
    two.allow_attach(AttachOptions::this_user());
    let resident = two.launch(Some(Placement::parse(TWO, "two.toml")?))?;
    serves(&resident, operations);
    let (client, client_operations) = attached(&name)?;
    let own = std::process::id();
    let (caller, worker) = client.call(client_operations.processes, 0)?;
    assert!(caller == own && worker != own, "{caller} {worker}");
    serves(&client, client_operations);
    let error = client.call(client_operations.fail, 3).unwrap_err().to_string();
    assert_eq!(error, "fail, step run on thread Worker[1]: 3 is too much");
    let kept = client.start(client_operations.keep, 3)?;
    let endless = client.start(client_operations.endless, 3)?;
    assert_eq!(client.call(client_operations.sum, 200)?, 200 * 199);
    drop(client);
    assert!(kept.wait().is_err() && endless.wait().is_err());
    until("its splits are gone in both", || {
        resident.snapshot().threads.iter().all(|thread| thread.splits.is_empty())
    });
    serves(&resident, operations);
    let (client, client_operations) = attached(&name)?;
    serves(&client, client_operations);
    Ok(())
}

#[test]
fn more_clients_than_the_limit_are_refused() -> Outcome {
    let name = name("limit");
    let (mut two, operations) = program(&name);
    two.allow_attach(AttachOptions::this_user().limit(2));
    let resident = two.launch(None)?;
    let first = attached(&name)?;
    let _second = attached(&name)?;
    let error = attached(&name).err().unwrap().to_string();
    assert!(error.contains("2 processes are attached, and that is the limit"), "{error}");
    drop(first);
    until("there is room", || attached(&name).is_ok());
    serves(&resident, operations);
    Ok(())
}

/// This test's executable in another role.
struct ClientProcess {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

const ROLE: &str = "PARIO_TEST_ATTACH_ROLE";
const NAME: &str = "PARIO_TEST_ATTACH_NAME";
/// Marks the lines of the process among those of the test harness.
const MARK: &str = "client: ";

impl ClientProcess {
    fn start(role: &str, name: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "attaching::runs_in_another_role", "--nocapture"])
            .env(ROLE, role)
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        while !line.contains(MARK) {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the process has ended");
        }
        line.split(MARK).nth(1).unwrap().trim().to_owned()
    }

    /// Ends its standard input, so that it leaves.
    fn leave(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// Does nothing unless a test has started it.
#[test]
fn runs_in_another_role() -> Outcome {
    let Ok(role) = std::env::var(ROLE) else { return Ok(()) };
    let name = std::env::var(NAME)?;
    let wait = || std::io::stdin().read_line(&mut String::new());
    if role == "resident" {
        let (_run, _) = resident(&name)?;
        println!("{MARK}it is resident");
        wait()?;
        return Ok(());
    }
    let (run, operations) = attached(&name)?;
    match role.as_str() {
        "processes" => {
            let (caller, worker) = run.call(operations.processes, 0)?;
            println!("{MARK}{caller} {worker}");
            wait()?;
        }
        "endless" => {
            let _calls: Vec<_> =
                (0..4).map(|n| run.start(operations.endless, n).unwrap()).collect();
            println!("{MARK}calls are under way");
            wait()?;
        }
        "deaf" => {
            // More results than may wait for a process that does not read are always under way.
            let run = Arc::new(run);
            (0..200).for_each(|_| start_again(&run, operations.bytes));
            println!("{MARK}calls are under way");
            wait()?;
        }
        _ => unreachable!("no role {role}"),
    }
    Ok(())
}

/// Starts a call whose end starts the next.
fn start_again(run: &Arc<RunningProgram>, bytes: OperationRef<usize, Vec<u8>>) {
    let again = run.clone();
    // It fails when the resident program has cut this process off.
    let _ = run.start_then(bytes, 1 << 20, move |result| {
        if result.is_ok() {
            start_again(&again, bytes);
        }
    });
}
