//! Programs in several processes. The launch starts the test executable again with the same
//! arguments; such a process takes part in the program and exits in `launch`.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::time::{Duration, Instant};

use pario_flow::{
    Bulk, BulkBuffer, CallError, Continuation, Placement, Program, RunningProgram, Window,
};
use serde::{Deserialize, Serialize};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const THREE: &str = r#"
    [processes]
    A = "user"
    B = {}
    C = {}
    [threads]
    Client = "A"
    Merger = "C"
    "Worker[0..2]" = "B"
    "Worker[2..4]" = "C"
"#;

fn three() -> Option<Placement> {
    Some(Placement::parse(THREE, "three.toml").unwrap())
}

#[derive(Serialize, Deserialize)]
struct Tile {
    number: u64,
    pixels: Bulk,
}

fn tile(number: u64) -> Tile {
    let mut pixels = BulkBuffer::new(10_000);
    pixels.fill(number as u8);
    Tile { number, pixels: pixels.freeze() }
}

#[test]
fn the_same_program_runs_in_three_processes() -> Outcome {
    for window in [Window::automatic(), Window::fixed(3), Window::batches(2, 4)] {
        // A started process takes part in the first iteration of this loop, and then exits.
        let mut program = Program::new("tiles");
        let client = program.thread("Client", || ());
        let merger = program.thread("Merger", std::process::id);
        let worker = program.pool("Worker", 4, |_| std::process::id());
        let sum = program.operation("sum", |b| {
            b.on(client)
                .window(window)
                .split_indexed(|n: &u64| 0..*n, |_, i| Some(tile(i)))
                .on(worker.at(|tile: &Tile| tile.number as usize % 4))
                .run(|process, mut tile: Tile| {
                    assert!(tile.pixels.iter().all(|pixel| *pixel == tile.number as u8));
                    tile.number = tile.pixels.iter().map(|pixel| u64::from(*pixel)).sum();
                    (tile, *process)
                })
                .merge_there(
                    merger,
                    |_| (0, Vec::new()),
                    |(sum, processes): &mut (u64, Vec<u32>), (tile, process): (Tile, u32)| {
                        *sum += tile.number;
                        processes.push(process);
                    },
                )
                .run(|me, (sum, mut processes): (u64, Vec<u32>)| {
                    processes.push(*me);
                    processes.sort_unstable();
                    processes.dedup();
                    (sum, processes)
                })
        });
        let balanced = program.operation("balanced", |b| {
            b.on(client)
                .window(window)
                .split_indexed(|n: &u64| 0..*n, |_, i| Some(tile(i)))
                .on(worker.any())
                .run(|_, tile: Tile| u64::from(tile.pixels[0]))
                .merge(client, |_| 0, |sum: &mut u64, n| *sum += n)
        });
        let run = program.launch(three())?;
        for n in [0, 1, 100] {
            let (sum_of_pixels, processes) = run.call(sum, n)?;
            assert_eq!(sum_of_pixels, (0..n).map(|n| n % 256 * 10_000).sum::<u64>());
            assert_eq!(processes.len(), if n == 0 { 1 } else { 2 }, "{processes:?}");
            assert!(!processes.contains(&std::process::id()));
            assert_eq!(run.call(balanced, n)?, (0..n).map(|n| n % 256).sum::<u64>());
        }
        let snapshot = run.snapshot();
        assert_eq!(snapshot.threads.len(), 6, "{snapshot}");
        assert!(snapshot.silent.is_empty() && snapshot.lost.is_empty(), "{snapshot}");
        assert!(snapshot.threads.iter().all(|thread| thread.splits.is_empty()), "{snapshot}");
    }
    Ok(())
}

/// A program with operations that fail, keep a token for ever, or abort the process.
fn dangerous(name: &str) -> Result<(RunningProgram, Operations), Box<dyn std::error::Error>> {
    let mut program = Program::new(name);
    let client = program.thread("Client", || ());
    let merger = program.thread("Merger", || ());
    let worker = program.pool("Worker", 4, |_| Vec::<Continuation<u64>>::new());
    let echo = program.operation("echo", |b| {
        b.on(client)
            .split_indexed(|_: &u64| 0..8, |at, _| Some(*at))
            .on(worker.at(|at: &u64| *at as usize))
            .run(|_, at: u64| at)
            .merge(client, |_| 0, |sum: &mut u64, at| *sum += at)
    });
    let fail = program.operation("fail", |b| {
        b.on(merger)
            .on(worker.at(|at: &u64| *at as usize))
            .try_run(|_, _: u64| Err::<u64, _>("it was to be so"))
    });
    let keep = program.operation("keep", |b| {
        b.on(client)
            .on(worker.at(|at: &u64| *at as usize))
            .run_async(|kept: &mut Vec<Continuation<u64>>, _: u64, next| kept.push(next))
    });
    let die = program.operation("die", |b| {
        b.on(client)
            .split_indexed(|_: &u64| 0..8, |at, _| Some(*at))
            .on(worker.at(|at: &u64| *at as usize))
            .run(|_, _: u64| -> u64 { std::process::abort() })
            .merge(client, |_| 0, |sum: &mut u64, at| *sum += at)
    });
    let run = program.launch(three())?;
    Ok((run, Operations { echo, fail, keep, die }))
}

#[test]
fn the_loss_of_a_process_that_only_others_talk_to_is_noticed() -> Outcome {
    // The token goes from A over B to C, where it aborts the process: A sends nothing to C's threads.
    let mut program = Program::new("relay");
    let client = program.thread("Client", || ());
    let merger = program.thread("Merger", || ());
    let worker = program.pool("Worker", 4, |_| ());
    let relay = program.operation("relay", |b| {
        b.on(client)
            .on(worker.thread(0))
            .run(|_, n: u64| n)
            .on(merger)
            .run(|_, _: u64| -> u64 { std::process::abort() })
    });
    let echo = program.operation("echo", |b| b.on(client).on(worker.thread(1)).run(|_, n: u64| n));
    let run = program.launch(three())?;
    let began = Instant::now();
    let error = run.call(relay, 1).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    assert!(matches!(&error, CallError::ProcessLost { process, .. } if process == "C"), "{error}");
    assert_eq!(run.call(echo, 5)?, 5);
    Ok(())
}

#[test]
fn the_others_end_when_the_first_process_dies() -> Outcome {
    const HOLD: &str = "PARIO_TEST_HOLD";
    if let Ok(folder) = std::env::var(HOLD) {
        // The first process, or one that it has started: each writes its process id.
        let name = std::env::var("PARIO_SPACE").unwrap_or_else(|_| "A".into());
        std::fs::write(format!("{folder}/{name}"), std::process::id().to_string())?;
        let (_run, _) = dangerous("orphans")?;
        std::process::abort();
    }
    let folder = tempfile::tempdir()?;
    let status = std::process::Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(HOLD, folder.path())
        .status()?;
    assert!(!status.success());
    for name in ["B", "C"] {
        let pid = std::fs::read_to_string(folder.path().join(name))?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            assert!(Instant::now() < deadline, "process {name} is still there");
            std::thread::yield_now();
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Operations {
    echo: pario_flow::OperationRef<u64, u64>,
    fail: pario_flow::OperationRef<u64, u64>,
    keep: pario_flow::OperationRef<u64, u64>,
    die: pario_flow::OperationRef<u64, u64>,
}

#[test]
fn errors_of_other_processes_reach_the_caller() -> Outcome {
    let (run, operations) = dangerous("errors")?;
    for at in [0, 3] {
        let expected = CallError::Failed {
            operation: "fail".into(),
            step: "run".into(),
            thread: format!("Worker[{at}]"),
            message: "it was to be so".into(),
        };
        assert_eq!(run.call(operations.fail, at).unwrap_err(), expected);
        assert_eq!(run.call(operations.echo, at)?, 8 * at);
    }
    Ok(())
}

#[test]
fn a_process_that_dies_fails_the_calls_that_need_it_and_no_others() -> Outcome {
    let (run, operations) = dangerous("death")?;
    // One call waits in B, one in C; then B dies.
    let in_b = run.start(operations.keep, 0)?;
    let in_c = run.start(operations.keep, 2)?;
    assert_eq!(run.call(operations.echo, 1)?, 8);
    let began = Instant::now();
    let error = run.call(operations.die, 1).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    assert_eq!(error, CallError::ProcessLost { operation: "die".into(), process: "B".into() });
    let error = in_b.wait().unwrap_err();
    assert_eq!(error, CallError::ProcessLost { operation: "keep".into(), process: "B".into() });
    // Calls that do not need B continue; calls that need B fail at once.
    assert!(!in_c.is_done());
    assert_eq!(run.call(operations.echo, 3)?, 24);
    let error = run.call(operations.echo, 0).unwrap_err();
    assert_eq!(error, CallError::ProcessLost { operation: "echo".into(), process: "B".into() });
    let snapshot = run.snapshot();
    assert_eq!(snapshot.lost, ["B"]);
    assert!(snapshot.waits().contains("process B was lost"), "{snapshot}");
    drop(run);
    assert!(matches!(in_c.wait(), Err(CallError::Stopped { .. })));
    Ok(())
}

#[test]
fn traces_come_from_all_processes() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace");
    // A started process finds the variable set. It is set before a second thread could read the
    // environment.
    if std::env::var_os("PARIO_TRACE").is_none() {
        let status = std::process::Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env("PARIO_TRACE", &path)
            .status()?;
        assert!(status.success());
        let json = std::fs::read_to_string(path.with_extension("json"))?;
        let svg = std::fs::read_to_string(path.with_extension("svg"))?;
        for thread in ["Client", "Worker[0]", "Worker[3]"] {
            assert!(json.contains(thread) && svg.contains(thread), "{thread} is missing");
        }
        return Ok(());
    }
    let (run, operations) = dangerous("traced")?;
    for at in 0..4 {
        assert_eq!(run.call(operations.echo, at)?, 8 * at);
    }
    let trace = run.trace();
    let mut processes: Vec<&str> = trace.spans.iter().map(|span| span.process.as_str()).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes, ["A", "B", "C"]);
    Ok(())
}

#[test]
fn ranks_of_a_launcher_are_the_processes() -> Outcome {
    if std::env::var_os("OMPI_COMM_WORLD_RANK").is_some() {
        let (run, operations) = dangerous("ranks")?;
        assert_eq!(run.call(operations.echo, 3)?, 24);
        return Ok(());
    }
    // As mpirun -n 3 starts them.
    let start = |rank: u32| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(std::env::args_os().skip(1))
            .env("OMPI_COMM_WORLD_RANK", rank.to_string())
            .env("OMPI_COMM_WORLD_SIZE", "3")
            .env("PMIX_NAMESPACE", format!("test-{}", std::process::id()))
            .spawn()
            .unwrap()
    };
    for mut rank in [1, 2, 0].map(start) {
        assert!(rank.wait()?.success());
    }
    Ok(())
}

#[test]
fn a_process_that_ends_too_early_is_named() {
    if std::env::var_os("PARIO_SPACE").is_some() {
        std::process::exit(7);
    }
    let mut program = Program::new("early");
    program.thread("Client", || ());
    program.thread("Merger", || ());
    program.pool("Worker", 4, |_| ());
    let error = program.launch(three()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("process B was not ready after"), "{error}");
    assert!(error.contains("exit status: 7"), "{error}");
}

#[test]
fn another_program_is_refused() {
    let name = if std::env::var_os("PARIO_SPACE").is_some() { "old" } else { "new" };
    let mut program = Program::new("versions");
    let client = program.thread("Client", || ());
    program.thread("Merger", || ());
    program.pool("Worker", 4, |_| ());
    program.operation(name, |b| b.on(client).run(|_, n: u64| n));
    let error = program.launch(three()).err().map(|error| error.to_string()).unwrap_or_default();
    let wanted = "runs another version of program versions: start the same executable everywhere";
    assert!(error.contains(wanted), "{error}");
}
