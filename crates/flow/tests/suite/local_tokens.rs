//! Local tokens: they have no encoding, and a launch refuses placements that would need one.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_flow::{Continuation, LaunchError, Placement, Program, Token, Window};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A counter that threads of one process share.
#[derive(Clone)]
struct Counter(Arc<AtomicU64>);
impl Token for Counter {}

/// A share of the work on a counter.
struct Share {
    counter: Arc<AtomicU64>,
    number: u64,
}
impl Token for Share {}

impl Counter {
    fn share(&self, number: u64) -> Option<Share> {
        Some(Share { counter: self.0.clone(), number })
    }
}

fn add(_: &mut (), share: Share) -> Share {
    share.counter.fetch_add(share.number, Ordering::SeqCst);
    share
}

fn pass_on(_: &mut (), share: Share, next: Continuation<Share>) {
    next.call(share);
}

const TWO: &str = r#"
    [processes]
    A = "user"
    B = {}
    [threads]
"#;

fn placement(threads: &str) -> Option<Placement> {
    Some(Placement::parse(&format!("{TWO}{threads}"), "two.toml").unwrap())
}

/// Launches with a placement of `Client`, `Worker[0]` and `Worker[1]`; returns the refusal.
#[track_caller]
fn refusal(program: Program, threads: &str) -> String {
    match program.launch(placement(threads)) {
        Err(error @ LaunchError::LocalToken { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the placement is accepted"),
    }
}

#[test]
fn local_tokens_pass_all_constructs_in_one_process() -> Outcome {
    let mut program = Program::new("local");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 3, |_| ());
    let even = program.operation("even", |b| {
        b.on(client).when(
            |share: &Share| share.number.is_multiple_of(2),
            |b| b.on(worker.any()).run(add).run_async(pass_on),
        )
    });
    let count = program.operation("count", |b| {
        b.on(client)
            .window(Window::fixed(4))
            .split_indexed(|_: &Counter| 0..100, Counter::share)
            .call(even)
            .on(worker.at(|share: &Share| share.number as usize % 3))
            .run(add)
            .merge_there(client, Clone::clone, |_: &mut Counter, _: Share| ())
    });
    let run = program.launch(None)?;
    let counter = Counter(Arc::default());
    let counted = run.call(count, counter.clone())?;
    assert!(Arc::ptr_eq(&counter.0, &counted.0), "the token moved by pointer");
    let even: u64 = (0..100).filter(|number| number % 2 == 0).sum();
    assert_eq!(counter.0.load(Ordering::SeqCst), even + (0..100).sum::<u64>());
    Ok(())
}

#[test]
fn local_tokens_stay_in_the_process_that_makes_them() -> Outcome {
    let mut program = Program::new("local in B");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());
    let double = program.operation("double", |b| {
        b.on(client)
            .on(worker.thread(0))
            .run(|_, number: u64| Share { counter: Arc::default(), number })
            .on(worker.any())
            .run(|_, share: Share| add(&mut (), add(&mut (), share)))
            .on(worker.thread(1))
            .run(|_, share: Share| share.counter.load(Ordering::SeqCst))
    });
    let run = program.launch(placement("Client = \"A\"\n\"Worker[*]\" = \"B\""))?;
    assert_eq!(run.call(double, 21)?, 42);
    Ok(())
}

#[test]
fn a_hop_to_another_process_is_refused() {
    let mut program = Program::new("hop");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());
    program.operation("count", |b| {
        b.on(client)
            .run(|_, number: u64| Share { counter: Arc::default(), number })
            .on(worker.at(|share: &Share| share.number as usize))
            .run(|_, share: Share| share.number)
    });
    assert_eq!(
        refusal(program, "Client = \"A\"\n\"Worker[0]\" = \"A\"\n\"Worker[1]\" = \"B\""),
        "operation count would send a Share from thread Client in process A to thread Worker[1] in \
         process B, but a Share cannot leave its process: place both in one process, or derive \
         Serialize and Deserialize for Share"
    );
}

#[test]
fn a_merge_in_another_process_is_refused() {
    let mut program = Program::new("merge");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());
    program.operation("gather", |b| {
        b.on(client)
            .split_indexed(|_: &u64| 0..3, |_, number| Some(number))
            .on(worker.thread(0))
            .run(|_, number: u64| number)
            .merge(worker.thread(1), |_| Counter(Arc::default()), |_: &mut Counter, _: u64| ())
            .map(|counter| counter.0.load(Ordering::SeqCst))
    });
    let refused = refusal(program, "Client = \"A\"\n\"Worker[*]\" = \"B\"");
    let moved = "operation gather would send a Counter from thread Client in process A to thread \
                 Worker[1] in process B";
    assert!(refused.starts_with(moved), "{refused}");
}

#[test]
fn a_called_operation_in_another_process_is_refused() {
    let mut program = Program::new("call");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());
    let inner = program.operation("inner", |b| b.on(client).run(add));
    program.operation("outer", |b| {
        b.on(worker.thread(1))
            .run(|_, number: u64| Share { counter: Arc::default(), number })
            .call(inner)
            .on(client)
            .run(|_, share: Share| share.number)
    });
    let refused = refusal(program, "Client = \"A\"\n\"Worker[*]\" = \"B\"");
    let moved = "operation outer would send a Share from thread Worker[1] in process B to thread \
                 Client in process A";
    assert!(refused.starts_with(moved), "{refused}");
}

#[test]
fn an_input_or_result_in_another_process_is_refused() {
    let threads = "Client = \"A\"\n\"Worker[*]\" = \"B\"";
    let mut program = Program::new("input");
    program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());
    program.operation("count", |b| b.on(worker.any()).run(|_, share: Share| share.number));
    let refused = refusal(program, threads);
    assert!(
        refused.starts_with(
            "operation count would send a Share from the caller in process A to thread Worker[0] \
             in process B"
        ),
        "{refused}"
    );
    let mut program = Program::new("result");
    program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());
    program.operation("make", |b| {
        b.on(worker.thread(1)).run(|_, number: u64| Share { counter: Arc::default(), number })
    });
    let refused = refusal(program, threads);
    assert!(
        refused.starts_with(
            "operation make would send a Share from thread Worker[1] in process B to the caller in \
             process A"
        ),
        "{refused}"
    );
}
