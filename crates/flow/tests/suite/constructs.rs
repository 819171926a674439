//! Each construct compared with the same computation as a plain function.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use pario_flow::{Program, StepContext, Window};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[test]
fn pipeline() -> Outcome {
    let mut program = Program::new("pipeline");
    let first = program.thread("First", || 0u64);
    let second = program.pool("Second", 3, |index| index as u64);
    let count = program.operation("count", |b| {
        b.on(first)
            .run(|seen: &mut u64, n: u64| {
                *seen += 1;
                (n, *seen)
            })
            .on(second.at(|(n, _): &(u64, u64)| *n as usize % 3))
            .run(|me, (n, seen)| (n, seen, *me))
    });
    let run = program.launch(None)?;
    for n in 0..9 {
        assert_eq!(run.call(count, n)?, (n, n + 1, n % 3));
    }
    Ok(())
}

#[test]
fn if_else_takes_one_way() -> Outcome {
    let mut program = Program::new("if-else");
    let even = program.thread("Even", || "even");
    let odd = program.thread("Odd", || "odd");
    let name = program.operation("name", |b| {
        b.on(even).if_else(
            |n: &u32| n.is_multiple_of(2),
            |b| b.run(|me, n| format!("{n} {me}")),
            |b| b.on(odd).run(|me, n| format!("{n} {me}")),
        )
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(name, 4)?, "4 even");
    assert_eq!(run.call(name, 7)?, "7 odd");
    Ok(())
}

#[test]
fn while_asks_before_each_round() -> Outcome {
    let mut program = Program::new("while");
    let ring = program.pool("Ring", 3, |_| ());
    let collatz = program.operation("collatz", |b| {
        b.on(ring.thread(0)).repeat_while(
            |(n, _): &(u64, u64)| *n != 1,
            |b| {
                b.on(ring.at(|(_, steps): &(u64, u64)| *steps as usize % 3))
                    .run(|_, (n, steps)| (if n % 2 == 0 { n / 2 } else { 3 * n + 1 }, steps + 1))
            },
        )
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(collatz, (27, 0))?, (1, 111));
    assert_eq!(run.call(collatz, (1, 0))?, (1, 0));
    Ok(())
}

#[test]
fn for_counts_and_tells_the_index() -> Outcome {
    let mut program = Program::new("for");
    let worker = program.pool("Worker", 2, |_| ());
    let list = program.operation("list", |b| {
        b.on(worker.thread(0)).repeat(
            |list: &Vec<u64>| 3..3 + list.len() as u64,
            |b| {
                b.on(worker.at_indexed(|_: &Vec<u64>, at| at[0] as usize % 2)).run_with(
                    |_, mut list: Vec<u64>, context: &StepContext<'_>| {
                        let index = context.indices()[0];
                        assert_eq!(context.thread(), format!("Worker[{}]", index % 2));
                        list.push(index);
                        Ok::<_, String>(list)
                    },
                )
            },
        )
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(list, vec![0, 0, 0, 0])?, [0, 0, 0, 0, 3, 4, 5, 6]);
    assert_eq!(run.call(list, vec![])?, [0u64; 0]);
    Ok(())
}

#[test]
fn loops_nest() -> Outcome {
    let mut program = Program::new("nested");
    let worker = program.thread("Worker", || ());
    let pairs = program.operation("pairs", |b| {
        b.on(worker).repeat(
            |_: &Vec<(u64, u64)>| 0..3,
            |b| {
                b.repeat(
                    |_| 0..2,
                    |b| {
                        b.on(worker).run_with(|_, mut list: Vec<_>, context: &StepContext<'_>| {
                            list.push((context.indices()[0], context.indices()[1]));
                            Ok::<_, String>(list)
                        })
                    },
                )
            },
        )
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(pairs, vec![])?, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    Ok(())
}

#[test]
fn every_window_merges_every_token_once() -> Outcome {
    let windows = [
        (Window::automatic(), 256),
        (Window::automatic_up_to(4), 4),
        (Window::fixed(1), 1),
        (Window::fixed(7), 7),
        (Window::batches(2, 5), 10),
        (Window::batches(1, 1), 1),
    ];
    for (window, limit) in windows {
        for merges_elsewhere in [false, true] {
            let mut program = Program::new("sum");
            let client = program.thread("Client", || ());
            let other = program.thread("Other", || ());
            let worker = program.pool("Worker", 3, |_| ());
            let at = if merges_elsewhere { other } else { client };
            let squares = program.operation("squares", |b| {
                b.on(client)
                    .window(window)
                    .split_while(|n: &mut u64| n.checked_sub(1).inspect(|less| *n = *less))
                    .on(worker.at(|n: &u64| *n as usize % 3))
                    .run(|_, n| n * n)
                    .merge(
                        at,
                        |n| (*n, 0, 0),
                        |(_, sum, count): &mut (u64, u64, u64), n| {
                            *sum += n;
                            *count += 1;
                        },
                    )
            });
            let run = program.launch(None)?;
            for n in [0u64, 1, 2, 9, 10, 11, 1000] {
                let sum = (0..n).map(|n| n * n).sum();
                assert_eq!(run.call(squares, n)?, (n, sum, n), "{window}");
            }
            let peak = run.snapshot().steps.iter().map(|step| step.peak).max().unwrap_or(0);
            assert!(peak <= limit, "{window}: {peak}");
            assert!(peak > 0);
        }
    }
    Ok(())
}

#[test]
fn the_output_can_be_made_at_the_merging_thread() -> Outcome {
    fn here() -> String {
        std::thread::current().name().unwrap_or("?").to_owned()
    }
    let mut program = Program::new("there");
    let client = program.thread("Client", || ());
    let merger = program.thread("Merger", || ());
    let name = |_: &u64| vec![here()];
    let add = |names: &mut Vec<String>, _: u64| names.push(here());
    let made_here = program.operation("here", |b| {
        b.on(client).split_indexed(|n: &u64| 0..*n, |_, i| Some(i)).merge(merger, name, add)
    });
    let made_there = program.operation("there", |b| {
        b.on(client).split_indexed(|n: &u64| 0..*n, |_, i| Some(i)).merge_there(merger, name, add)
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(made_here, 1)?, ["Client", "Merger"]);
    assert_eq!(run.call(made_there, 1)?, ["Merger", "Merger"]);
    assert_eq!(run.call(made_there, 0)?, ["Merger"]);
    Ok(())
}

#[test]
fn indexed_splits_skip_and_tell_all_indices() -> Outcome {
    let mut program = Program::new("indexed");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 4, |_| ());
    let cells = program.operation("cells", |b| {
        b.on(client)
            .split_indexed(
                |(rows, columns): &(u64, u64)| (1..*rows, 0..*columns, 0..2),
                |_, (row, column, side)| ((row + column) % 2 == side).then_some(row * 100 + column),
            )
            .on(worker.at_indexed(|_: &u64, at| (at[0] + at[1]) as usize % 4))
            .run_with(|_, cell, context: &StepContext<'_>| {
                assert_eq!(context.indices()[0] * 100 + context.indices()[1], cell);
                Ok::<_, String>(cell)
            })
            .merge_indexed(
                client,
                |_| Vec::new(),
                |cells: &mut Vec<_>, cell, at: (u64, u64, u64)| cells.push((at, cell)),
            )
    });
    let run = program.launch(None)?;
    let mut found = run.call(cells, (4, 3))?;
    found.sort();
    let mut expected = Vec::new();
    for row in 1..4 {
        for column in 0..3 {
            expected.push(((row, column, (row + column) % 2), row * 100 + column));
        }
    }
    assert_eq!(found, expected);
    assert!(run.call(cells, (1, 3))?.is_empty());
    Ok(())
}

#[test]
fn splits_nest_and_operations_are_used_inside_others() -> Outcome {
    let mut program = Program::new("nested splits");
    let client = program.thread("Client", || ());
    let middle = program.pool("Middle", 2, |_| ());
    let worker = program.pool("Worker", 2, |_| ());
    let by_row = |(y, _): &(u64, u64)| *y as usize % 2;
    let row = program.operation("row", |b| {
        b.on(middle.at(by_row))
            .split_indexed(|(_, width): &(u64, u64)| 0..*width, |(y, _), x| Some((x, *y)))
            .on(worker.any())
            .run(|_, (x, y)| x * y)
            .merge(middle.at(by_row), |_| 0, |sum: &mut u64, n| *sum += n)
    });
    let table = program.operation("table", |b| {
        b.on(client)
            .split_indexed(|(_, height): &(u64, u64)| 0..*height, |(width, _), y| Some((y, *width)))
            .call(row)
            .merge(client, |_| 0, |sum: &mut u64, n| *sum += n)
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(table, (20, 30))?, (0..20).sum::<u64>() * (0..30).sum::<u64>());
    let requests: Result<Vec<_>, _> = (0..50).map(|n| run.start(table, (n, n))).collect();
    for (n, request) in (0..50).zip(requests?) {
        assert_eq!(request.wait()?, (0..n).sum::<u64>().pow(2));
    }
    Ok(())
}

#[test]
fn parallel_runs_different_bodies() -> Outcome {
    let mut program = Program::new("parallel");
    let client = program.thread("Client", || ());
    let left = program.thread("Left", || 10u64);
    let right = program.thread("Right", || 20u64);
    let both = program.operation("both", |b| {
        b.on(client)
            .parallel(
                right,
                |text: &String| (text.len() as u64, 0, String::new()),
                |branches| {
                    branches
                        .branch(
                            |text| text.len() as u64,
                            |b| b.on(left).run(|me, n| n * *me),
                            |out: &mut (u64, u64, String), n| out.1 = n,
                        )
                        .branch(
                            String::clone,
                            |b| b.on(right).run(|me, text: String| format!("{text}{me}")),
                            |out, text| out.2 = text,
                        )
                },
            )
            .run(|me, (length, n, text): (u64, u64, String)| format!("{length} {n} {text} {me}"))
    });
    let run = program.launch(None)?;
    assert_eq!(run.call(both, "abc".into())?, "3 30 abc20 20");
    Ok(())
}

#[test]
fn operations_and_threads_are_found_by_name() -> Outcome {
    let mut program = Program::new("extended");
    let mut server = program.scope("Server");
    let disk = server.thread("Disk", || 3u64);
    server.operation("read", |b| b.on(disk).run(|me, n: u64| n * *me));
    // As another crate would: it knows names and types only.
    let disk = program.find_thread::<u64>("Server.Disk")?;
    let read = program.find_operation::<u64, u64>("Server.read")?;
    let twice =
        program.operation("twice", |b| b.call(read).on(disk).run(|me, n| n + *me).call(read));
    let error = program.find_thread::<String>("Server.Disk").err().map(|e| e.to_string());
    assert_eq!(
        error.as_deref(),
        Some("thread \"Server.Disk\" is a u64, not a alloc::string::String")
    );
    let error = program.find_operation::<u64, u64>("Server.write").err().map(|e| e.to_string());
    assert_eq!(
        error.as_deref(),
        Some("program extended has no operation \"Server.write\"; it has Server.read, twice")
    );
    let run = program.launch(None)?;
    assert_eq!(run.call(twice, 5)?, 54);
    Ok(())
}

#[test]
fn a_started_call_can_be_looked_at_waited_for_and_awaited() -> Outcome {
    use std::future::Future;
    use std::sync::{Arc, Mutex, mpsc};
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Duration;

    struct Signal(mpsc::Sender<()>);
    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let mut program = Program::new("gate");
    let keeper = program.thread("Keeper", || ());
    let pass = program.operation("pass", move |b| {
        b.on(keeper).run(move |_, n: u64| {
            gate.lock().unwrap().recv().unwrap();
            n
        })
    });
    let run = program.launch(None)?;
    let first = run.start(pass, 1)?;
    let mut second = Box::pin(run.start(pass, 2)?);
    assert!(!first.is_done());
    let first = first.wait_timeout(Duration::ZERO).unwrap_err();
    let (woken, wakes) = mpsc::channel();
    let waker = Waker::from(Arc::new(Signal(woken)));
    let mut context = Context::from_waker(&waker);
    assert!(second.as_mut().poll(&mut context).is_pending());
    open.send(())?;
    assert_eq!(first.wait()?, 1);
    open.send(())?;
    wakes.recv()?;
    let Poll::Ready(result) = second.as_mut().poll(&mut context) else { panic!("it was woken") };
    assert_eq!(result?, 2);
    Ok(())
}

#[test]
fn many_threads_call_at_once() -> Outcome {
    let mut program = Program::new("many");
    program.limit_calls(5);
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 3, |_| ());
    let sum = program.operation("sum", |b| {
        b.on(client)
            .split_indexed(|n: &u64| 0..*n, |_, i| Some(i))
            .on(worker.any())
            .run(|_, n| n)
            .merge(client, |_| 0, |sum: &mut u64, n| *sum += n)
    });
    let run = program.launch(None)?;
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let run = &run;
            scope.spawn(move || {
                for n in 0..100 {
                    let n = n + thread;
                    assert_eq!(run.call(sum, n).unwrap(), n * n.saturating_sub(1) / 2);
                }
            });
        }
    });
    assert!(run.snapshot().calls.is_empty());
    Ok(())
}
