//! Calls with a callback, which the thread that ends the call runs.

use std::sync::mpsc;
use std::thread::ThreadId;
use std::time::Duration;

use pario_flow::{CallError, Continuation, Program};

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Ended = (u64, Result<u64, CallError>, ThreadId);

const SOON: Duration = Duration::from_secs(20);

/// Returns a callback that sends the result with `number` and the id of the thread that runs it.
fn pass_on(
    to: &mpsc::Sender<Ended>,
    number: u64,
) -> impl FnOnce(Result<u64, CallError>) + Send + 'static {
    let to = to.clone();
    move |result| to.send((number, result, std::thread::current().id())).unwrap()
}

#[test]
fn results_and_failures_reach_the_callback_once() -> Outcome {
    let mut program = Program::new("passing");
    let worker = program.pool("Worker", 2, |_| ());
    let halve = program.operation("halve", |b| {
        b.on(worker.any())
            .try_run(|_, n: u64| if n.is_multiple_of(2) { Ok(n / 2) } else { Err("odd") })
    });
    let run = program.launch(None)?;
    let (to, ended) = mpsc::channel();
    for n in 0..1_000 {
        run.start_then(halve, n, pass_on(&to, n))?;
    }
    drop(to);
    let mut all: Vec<Ended> = ended.iter().collect();
    all.sort_by_key(|(number, ..)| *number);
    assert_eq!(all.len(), 1_000);
    for (n, (number, result, thread)) in (0..).zip(all) {
        assert_eq!(number, n);
        assert_ne!(thread, std::thread::current().id(), "the thread that ends the call");
        match result {
            Ok(half) => assert_eq!(2 * half, n),
            Err(error) => {
                assert!(n % 2 == 1 && error.to_string().ends_with("odd"), "{error}");
            }
        }
    }
    assert!(run.snapshot().calls.is_empty());
    Ok(())
}

#[test]
fn stopping_passes_an_error_to_each_callback_once() -> Outcome {
    let (keep, kept) = mpsc::channel::<Continuation<u64>>();
    let mut program = Program::new("stopping");
    let worker = program.thread("Worker", || ());
    let wait = program.operation("wait", move |b| {
        b.on(worker).run_async(move |_, _: u64, next| keep.send(next).unwrap())
    });
    let run = program.launch(None)?;
    let (to, ended) = mpsc::channel();
    for n in 0..10 {
        run.start_then(wait, n, pass_on(&to, n))?;
    }
    drop(to);
    let nexts: Vec<_> = kept.iter().take(10).collect();
    drop(run);
    nexts.into_iter().for_each(|next| next.call(1));
    let mut numbers: Vec<u64> = ended
        .iter()
        .map(|(number, result, _)| {
            assert_eq!(result, Err(CallError::Stopped { program: "stopping".into() }));
            number
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    Ok(())
}

/// A callback starts another call, so no lock may be held; and its panic does not end the thread.
#[test]
fn a_callback_may_use_the_program_and_may_panic() -> Outcome {
    let mut program = Program::new("chain");
    program.limit_calls(1);
    let worker = program.thread("Worker", || ());
    let double = program.operation("double", |b| b.on(worker).run(|_, n: u64| 2 * n));
    let run = std::sync::Arc::new(program.launch(None)?);
    let (to, ended) = mpsc::channel();
    let inner = run.clone();
    run.start_then(double, 1, move |result| {
        inner.start_then(double, result.unwrap(), pass_on(&to, 2)).unwrap();
        drop(inner);
        panic!("it was to be so");
    })?;
    let (number, result, _) = ended.recv_timeout(SOON)?;
    assert_eq!((number, result), (2, Ok(4)));
    assert_eq!(run.call(double, 5)?, 10);
    Ok(())
}
