//! Failures: the error names the step and the reason, and other calls are not affected.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::sync::mpsc;

use pario_flow::{CallError, Continuation, Program, RunningProgram, Window};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Asserts that no call has left anything behind. Threads drop a failed call asynchronously, so
/// `flush` first sends a call through all queues.
fn assert_clean(run: &RunningProgram, flush: impl Fn()) {
    flush();
    let snapshot = run.snapshot();
    assert!(snapshot.calls.is_empty(), "{snapshot}");
    assert!(snapshot.threads.iter().all(|thread| thread.splits.is_empty()), "{snapshot}");
    assert!(snapshot.unassigned.iter().all(|(_, tokens)| *tokens == 0), "{snapshot}");
}

#[test]
fn an_error_fails_its_call_alone() -> Outcome {
    let mut program = Program::new("errors");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());
    let halve = program.operation("halve", |b| {
        b.on(worker.at(|n: &u64| *n as usize % 2))
            .try_run(|_, n: u64| if n == 13 { Err("thirteen cannot be halved") } else { Ok(n / 2) })
    });
    let all = program.operation("halve all", |b| {
        b.on(client).split_indexed(|n: &u64| 0..*n, |_, i| Some(i)).call(halve).merge(
            client,
            |_| 0,
            |sum: &mut u64, n| *sum += n,
        )
    });
    let run = program.launch(None)?;
    let good = run.start(all, 13)?;
    let expected = CallError::Failed {
        operation: "halve".into(),
        step: "run".into(),
        thread: "Worker[1]".into(),
        message: "thirteen cannot be halved".into(),
    };
    for n in [14, 20, 500] {
        assert_eq!(run.call(all, n).unwrap_err(), expected);
    }
    assert_eq!(
        expected.to_string(),
        "halve, step run on thread Worker[1]: thirteen cannot be halved"
    );
    assert_eq!(good.wait()?, 36);
    assert_clean(&run, || assert_eq!(run.call(all, 10).unwrap(), 20));
    Ok(())
}

#[derive(serde::Serialize, serde::Deserialize, Clone, Copy, PartialEq, Debug)]
enum Panics {
    Nowhere,
    Split,
    Selector,
    Run,
    Condition,
    Init,
    Merge,
}

impl Panics {
    fn unless(self, here: Self) -> Self {
        assert_ne!(self, here, "it was to be so");
        self
    }
}

#[test]
fn panics_anywhere_are_errors_of_the_call() -> Outcome {
    let mut program = Program::new("panics");
    let client = program.thread("Client", || ());
    let worker = program.thread("Worker", || 0u32);
    let pool = program.pool("Pool", 1, |_| ());
    let step = program.operation("step", |b| {
        b.on(client)
            .split_indexed(|_: &Panics| 0..3, |panics, _| Some(panics.unless(Panics::Split)))
            .on(worker)
            .run(|_, panics: Panics| panics.unless(Panics::Run))
            .when(
                |panics| panics.unless(Panics::Condition) == *panics,
                |b| {
                    b.on(pool.at(|panics: &Panics| {
                        usize::from(panics.unless(Panics::Selector) != *panics)
                    }))
                },
            )
            .merge(
                client,
                |panics| u32::from(panics.unless(Panics::Init) != *panics),
                |sum: &mut u32, panics: Panics| {
                    *sum += u32::from(panics.unless(Panics::Merge) == panics);
                },
            )
    });
    let run = program.launch(None)?;
    for (panics, thread) in [
        (Panics::Split, "Client"),
        (Panics::Selector, "Worker"),
        (Panics::Run, "Worker"),
        (Panics::Condition, "Worker"),
        (Panics::Init, "Client"),
        (Panics::Merge, "Client"),
    ] {
        match run.call(step, panics).unwrap_err() {
            CallError::Panicked { operation, thread: at, message, .. } => {
                assert_eq!((operation.as_str(), at.as_str()), ("step", thread), "{panics:?}");
                assert!(message.contains("it was to be so"), "{message}");
            }
            other => panic!("{panics:?}: {other}"),
        }
        assert_eq!(run.call(step, Panics::Nowhere)?, 3, "after {panics:?}");
    }
    assert_clean(&run, || assert_eq!(run.call(step, Panics::Nowhere).unwrap(), 3));
    Ok(())
}

#[test]
fn a_thread_that_does_not_exist_is_an_error() -> Outcome {
    let mut program = Program::new("places");
    let pool = program.pool("Pool", 3, |_| ());
    let go = program.operation("go", |b| b.on(pool.at(|n: &u64| *n as usize)).run(|_, n| n));
    let run = program.launch(None)?;
    assert_eq!(run.call(go, 2)?, 2);
    assert_eq!(
        run.call(go, 3).unwrap_err().to_string(),
        "go, step Pool[·]: thread 3 of pool Pool was selected, but the pool has 3 threads (0 to 2)"
    );
    assert_clean(&run, || ());
    Ok(())
}

#[test]
fn successors_may_be_called_later_from_anywhere_in_any_order() -> Outcome {
    let (keep, kept) = mpsc::channel::<(u64, Continuation<u64>)>();
    let mut program = Program::new("later");
    let client = program.thread("Client", || ());
    let disk = program.pool("Disk", 2, |_| ());
    let read = program.operation("read", move |b| {
        b.on(client)
            .window(Window::fixed(8))
            .split_indexed(|n: &u64| 0..*n, |_, i| Some(i))
            .on(disk.at(|n: &u64| *n as usize % 2))
            .run_async(move |_, n: u64, next| keep.send((n, next)).unwrap())
            .merge(client, |_| Vec::new(), |list: &mut Vec<u64>, n| list.push(n))
    });
    let completer = std::thread::spawn(move || {
        // Eight at a time, last first.
        loop {
            let batch: Vec<_> = kept.iter().take(8).collect();
            if batch.is_empty() {
                return;
            }
            for (n, next) in batch.into_iter().rev() {
                if n == 999 { next.fail("bad sector") } else { next.call(n) }
            }
        }
    });
    let run = program.launch(None)?;
    let mut list = run.call(read, 80)?;
    assert_ne!(list, (0..80).collect::<Vec<u64>>());
    list.sort_unstable();
    assert_eq!(list, (0..80).collect::<Vec<u64>>());
    let error = run.call(read, 2000).unwrap_err();
    assert_eq!(error.to_string(), "read, step start on thread Disk[1]: bad sector");
    assert!(run.snapshot().calls.is_empty());
    drop(run);
    completer.join().unwrap();
    Ok(())
}

#[test]
fn a_successor_that_is_dropped_fails_the_call() -> Outcome {
    let mut program = Program::new("dropped");
    let worker = program.thread("Worker", || ());
    let lose = program.operation("lose", |b| {
        b.on(worker).run_async(|_, _: u64, next: Continuation<u64>| drop(next))
    });
    let run = program.launch(None)?;
    assert_eq!(
        run.call(lose, 1).unwrap_err().to_string(),
        "lose, step start on thread Worker dropped its continuation: the step must call it or fail it"
    );
    assert_clean(&run, || ());
    Ok(())
}

#[test]
fn stopping_fails_what_is_under_way() -> Outcome {
    let (keep, kept) = mpsc::channel::<Continuation<u64>>();
    let mut program = Program::new("stopping");
    let worker = program.thread("Worker", || ());
    let wait = program.operation("wait", move |b| {
        b.on(worker).run_async(move |_, _: u64, next| keep.send(next).unwrap())
    });
    let run = program.launch(None)?;
    let request = run.start(wait, 1)?;
    let next = kept.recv()?;
    drop(run);
    assert_eq!(request.wait().unwrap_err(), CallError::Stopped { program: "stopping".into() });
    next.call(1);
    Ok(())
}

#[test]
fn a_state_that_cannot_be_made_is_an_error_of_the_launch() {
    let mut program = Program::new("states");
    program.pool("Disk", 3, |index| assert!(index < 2, "there is no disk {index}"));
    let error = program.launch(None).err().map(|error| error.to_string());
    assert_eq!(
        error.as_deref(),
        Some("cannot start thread Disk[2]: making its state panicked: there is no disk 2")
    );
}

#[test]
fn a_snapshot_says_who_waits_for_whom() -> Outcome {
    let (keep, kept) = mpsc::channel::<Continuation<u64>>();
    let mut program = Program::new("waits");
    let client = program.thread("Client", || ());
    let disk = program.thread("Disk", || ());
    let read = program.operation("read", move |b| {
        b.on(client)
            .window(Window::fixed(2))
            .split_indexed(|n: &u64| 0..*n, |_, i| Some(i))
            .on(disk)
            .run_async(move |_, _: u64, next| keep.send(next).unwrap())
            .named("read sector")
            .merge(client, |_| 0, |count: &mut u64, _| *count += 1)
    });
    let run = program.launch(None)?;
    let request = run.start(read, 5)?;
    let held = [kept.recv()?, kept.recv()?];
    // Wait until both threads are idle.
    let waits = loop {
        let snapshot = run.snapshot();
        let is_full = |thread: &pario_flow::ThreadStatus| thread.splits.iter().any(|s| s.is_full);
        let is_idle = snapshot.threads.iter().all(|t| t.doing.is_none() && t.queued == 0);
        if is_idle && snapshot.threads.iter().any(is_full) {
            break snapshot.waits();
        }
    };
    for part in [
        "call 0 of read: under way for ",
        "read split on Client: 2 split off, 0 merged, 2 of 2 under way (the window is full)",
        "all threads are idle: asynchronous steps keep 2 tokens",
        "read sector of read keeps 2",
    ] {
        assert!(waits.contains(part), "{part:?} is missing in\n{waits}");
    }
    held.into_iter().for_each(|next| next.call(0));
    (0..3).for_each(|_| kept.recv().unwrap().call(0));
    assert_eq!(request.wait()?, 5);
    Ok(())
}
