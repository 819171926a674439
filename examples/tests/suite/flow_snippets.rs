//! The short programs quoted in docs/flow-model.md.

use std::sync::mpsc;
use std::time::Duration;

use pario_flow::{Continuation, Program, StepContext, Window};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// An asynchronous step: a thread passes its tokens to another thread and continues.
#[test]
fn an_asynchronous_step() -> Outcome {
    struct Disk {
        requests: mpsc::Sender<(u64, Continuation<Vec<u8>>)>,
    }

    impl Disk {
        fn read(&mut self, block: u64, next: Continuation<Vec<u8>>) {
            // Returns at once; the device thread calls `next` later.
            if let Err(mpsc::SendError((_, next))) = self.requests.send((block, next)) {
                next.fail("the disk has stopped");
            }
        }
    }

    let (requests, queue) = mpsc::channel::<(u64, Continuation<Vec<u8>>)>();
    let device = std::thread::spawn(move || {
        for (block, next) in queue {
            next.call(block.to_le_bytes().to_vec());
        }
    });
    let mut program = Program::new("disk");
    let disk = program.thread("Disk", move || Disk { requests: requests.clone() });
    let read = program.operation("read", |b| b.on(disk).run_async(Disk::read));
    let run = program.launch(None)?;
    assert_eq!(run.call(read, 3)?, [3, 0, 0, 0, 0, 0, 0, 0]);
    drop(run);
    device.join().unwrap();
    Ok(())
}

#[test]
fn calling() -> Outcome {
    let mut program = Program::new("calling");
    let worker = program.pool("Worker", 2, |_| ());
    let square = program.operation("square", |b| b.on(worker.any()).run(|_, n: u64| n * n));
    let run = program.launch(None)?;

    let nine = run.call(square, 3)?; // waits

    let request = run.start(square, 4)?; // does not wait
    let is_there = request.is_done();
    let sixteen = match request.wait_timeout(Duration::from_secs(60)) {
        Ok(result) => result?,
        Err(request) => request.wait()?, // not ended yet: wait on
    };

    let requests: Result<Vec<_>, _> = (0..10).map(|n| run.start(square, n)).collect();
    let squares: Result<Vec<u64>, _> =
        requests?.into_iter().map(|request| request.wait()).collect();

    let _ = is_there;
    assert_eq!((nine, sixteen, squares?[9]), (9, 16, 81));
    Ok(())
}

#[test]
fn a_hierarchy() -> Outcome {
    let mut program = Program::new("hierarchy");

    let mut server = program.scope("Server");
    let cache = server.thread("Cache", Vec::<u64>::new); // Server.Cache
    let mut storage = server.scope("Storage");
    let disk = storage.pool("Disk", 4, |index| index as u64); // Server.Storage.Disk[0] to [3]

    let read = program.operation("read", |b| {
        b.on(cache)
            .run(|seen, block: u64| {
                seen.push(block);
                block
            })
            .on(disk.at(|block: &u64| (*block % 4) as usize))
            .run(|number, block| block * 10 + *number)
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(read, 6)?, 62);
    Ok(())
}

/// Conditions and split functions run on the thread that has the token; an `on` moves the token.
#[test]
fn who_runs_what() -> Outcome {
    fn here() -> String {
        std::thread::current().name().unwrap_or("?").to_owned()
    }
    fn note(
        _: &mut (),
        mut names: Vec<String>,
        context: &StepContext<'_>,
    ) -> Result<Vec<String>, String> {
        names.push(format!("step on {}", context.thread()));
        Ok(names)
    }

    let mut program = Program::new("who");
    let a = program.thread("A", || ());
    let b_ = program.thread("B", || ());
    let c = program.thread("C", || ());
    let split = |_: &Vec<String>, _: u64| Some(vec![format!("split on {}", here())]);
    let merge = |all: &mut Vec<String>, mut one: Vec<String>| {
        all.append(&mut one);
        all.push(format!("merge on {}", here()));
    };

    #[rustfmt::skip]
    let where_it_is = program.operation("where it is", |b| b
        .on(a).run_with(note)
        .split_indexed(|_| 0..1, split)         // runs on A, which has the token
            .on(b_).run_with(note)
        .merge(c, |token| token.clone(), merge)); // runs on C

    #[rustfmt::skip]
    let moved = program.operation("moved", |b| b
        .on(a).run_with(note)
        .on(c)                                  // only a hop
        .split_indexed(|_| 0..1, split)         // runs on C
            .on(b_).run_with(note)
        .merge(c, |token| token.clone(), merge));

    let run = program.launch(None)?;
    let names = run.call(where_it_is, vec![])?;
    assert_eq!(names, ["step on A", "split on A", "step on B", "merge on C"]);
    let names = run.call(moved, vec![])?;
    assert_eq!(names, ["step on A", "split on C", "step on B", "merge on C"]);
    Ok(())
}

#[test]
fn windows() -> Outcome {
    let mut program = Program::new("windows");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 2, |_| ());

    #[rustfmt::skip]
    let sum = program.operation("sum", |b| b
        .on(client)
        .window(Window::batches(2, 10))
        .split_indexed(|n: &u64| 0..*n, |_, i| Some(i))
            .on(worker.any()).run(|_, n| n)
        .merge(client, |_| 0, |sum: &mut u64, n| *sum += n));

    let run = program.launch(None)?;
    assert_eq!(run.call(sum, 100)?, 4950);
    Ok(())
}

#[test]
fn errors() -> Outcome {
    let mut program = Program::new("errors");
    let disk = program.pool("Disk", 2, |_| ());
    let read = program.operation("read", |b| {
        b.on(disk.at(|block: &usize| *block / 100))
            .try_run(|_, block: usize| match block {
                13 => Err("bad sector"),
                14 => panic!("the head is lost"),
                block => Ok(block),
            })
            .named("read block")
    });
    let run = program.launch(None)?;
    let message = |block| run.call(read, block).unwrap_err().to_string();
    let said = [message(13), message(14), message(300)];
    assert_eq!(run.call(read, 15)?, 15);
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/flow-model.md");
    let document = std::fs::read_to_string(document)?;
    for message in said {
        assert!(document.contains(&message), "docs/flow-model.md lacks {message}");
    }
    Ok(())
}
