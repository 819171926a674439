//! Timely dataflow as a peer: one or two processes with two workers together, and the graph
//!
//! ```text
//! source on worker 0 -> exchange by number -> map: the task -> exchange to worker 0 -> sum
//! ```
//!
//! A token is a number. All tokens of a run are of one epoch and enter in batches of 1,024, between
//! which worker 0 steps; there is no flow control, which timely leaves to its users. An epoch with
//! one token for each worker goes before, so that the graph stands everywhere when the time begins
//! to count. Between two runs the workers wait in the kernel. Two processes are connected by a
//! Unix socket with the same room as ours. Nothing is bound to a core.

use std::cell::Cell;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use crossbeam_channel::{Receiver, Sender};
use timely::WorkerConfig;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::communication::{Config, Hooks};
use timely::dataflow::InputHandle;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{Exchange, Input, Probe};
use timely::worker::Worker;

use super::work::busy;
use crate::net::widen;
use crate::partner::{Partner, Role, Starter, next_word};

/// Workers of all processes together.
const WORKERS: usize = 2;
/// Tokens that enter before worker 0 steps.
const BATCH: u64 = 1024;

/// A process with workers.
pub const ROLE: Role = Role { name: "timely", run: serve };

/// Processes with workers that run the graph.
#[derive(Debug)]
pub struct TimelyGraph {
    processes: Vec<Partner>,
}

impl TimelyGraph {
    /// Starts so many processes, one or two.
    pub fn start(processes: usize, dir: &Path) -> Result<Self> {
        let socket = dir.join("timely.socket");
        let socket = socket.to_str().context("the directory has a readable name")?;
        let start = |process: usize| {
            let mut started = Partner::start(
                ROLE.name,
                &[process.to_string(), processes.to_string(), socket.to_owned()],
            )?;
            // The first one can be connected to, or is complete.
            let said = started.hear()?;
            ensure!(said == "ready", "a process of timely said {said:?}");
            Ok(started)
        };
        Ok(Self { processes: (0..processes).map(start).collect::<Result<_>>()? })
    }

    /// The time that so many tasks of so many rounds take.
    pub fn run(&mut self, rounds: u64, tasks: u64) -> Result<Duration> {
        for process in &mut self.processes {
            process.tell(format!("{rounds} {tasks}"))?;
        }
        let elapsed_ns = self.processes[0].hear_value()?;
        Ok(Duration::from_nanos(elapsed_ns))
    }
}

impl Drop for TimelyGraph {
    fn drop(&mut self) {
        // A process of timely does not bear that another one is gone: they end together.
        for process in &mut self.processes {
            // Whoever does not listen has ended.
            let _ = process.tell("end");
        }
        for process in &mut self.processes {
            let _ = process.hear();
        }
    }
}

/// What a worker is told: rounds and tasks.
type Order = (u64, u64);

/// One of the processes.
fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [process, processes, socket] = words else {
        bail!("needs its number, how many there are, and a socket");
    };
    let (process, processes): (usize, usize) = (process.parse()?, processes.parse()?);
    let (builders, others) = match processes {
        1 => {
            starter.say("ready")?;
            Config::Process(WORKERS).try_build().map_err(|error| anyhow!(error))?
        }
        2 => {
            let other = meet(process, socket, &starter)?;
            let mut sockets = vec![None, None];
            sockets[1 - process] = Some(other);
            let inner = Hooks::default();
            let local = ProcessBuilder::new_typed_vector(1, inner.refill, inner.spill);
            let hooks = Hooks::default();
            let (builders, guard) =
                initialize_networking_from_sockets(local, sockets, process, 1, hooks)?;
            let builders: Vec<_> = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
            (builders, Box::new(guard) as Box<dyn std::any::Any + Send>)
        }
        _ => bail!("one or two processes, not {processes}"),
    };
    let (orders, heard): (Vec<Sender<Order>>, Vec<_>) =
        builders.iter().map(|_| crossbeam_channel::unbounded()).unzip();
    let (answers, answered) = crossbeam_channel::unbounded();
    let heard: Mutex<Vec<Receiver<Order>>> = Mutex::new(heard);
    let workers =
        timely::execute::execute_from(builders, others, WorkerConfig::default(), move |worker| {
            let orders = heard.lock().expect("nobody panics with it").pop();
            for (rounds, tasks) in orders.expect("one for each worker") {
                let elapsed = run_graph(worker, rounds, tasks);
                if worker.index() == 0 && answers.send(elapsed).is_err() {
                    break;
                }
            }
        })
        .map_err(|error| anyhow!(error))?;
    loop {
        let order = starter.hear()?;
        if order == "end" {
            // The workers end when there can be no more orders.
            drop(orders);
            drop(workers);
            return starter.say("ended");
        }
        let mut words = order.split_whitespace();
        let order = (next_word(&mut words)?, next_word(&mut words)?);
        for worker in &orders {
            worker.send(order)?;
        }
        if process == 0 {
            starter.say(answered.recv()?.as_nanos().to_string())?;
        }
    }
}

/// Connects the two processes: the first one waits.
fn meet(process: usize, socket: &str, starter: &Starter) -> Result<UnixStream> {
    let stream = if process == 0 {
        let listener = UnixListener::bind(socket)?;
        starter.say("ready")?;
        listener.accept()?.0
    } else {
        let stream = UnixStream::connect(socket)?;
        starter.say("ready")?;
        stream
    };
    widen(&stream);
    Ok(stream)
}

/// Builds the graph and runs it; the answer is the time of the run.
fn run_graph(worker: &mut Worker, rounds: u64, tasks: u64) -> Duration {
    let (index, peers) = (worker.index(), worker.peers() as u64);
    let mut input = InputHandle::new();
    let merged = Rc::new(Cell::new(0));
    let sum = Rc::clone(&merged);
    let probe = worker.dataflow(|scope| {
        scope
            .input_from(&mut input)
            .container::<Vec<u64>>()
            .exchange(|number| *number)
            .map(move |number| {
                busy(rounds);
                number
            })
            .exchange(|_| 0)
            .map(move |number| {
                sum.set(sum.get() + number + 1);
                number
            })
            .probe()
            .0
    });
    if index == 0 {
        (0..peers).for_each(|number| input.send(number));
    }
    input.advance_to(1);
    input.flush();
    worker.step_or_park_while(None, || probe.less_than(&1));
    merged.set(0);
    let start = Instant::now();
    if index == 0 {
        for number in 0..tasks {
            input.send(number);
            if number % BATCH == BATCH - 1 {
                worker.step();
            }
        }
    }
    input.close();
    worker.step_or_park_while(None, || !probe.done());
    let elapsed = start.elapsed();
    assert!(index != 0 || merged.get() == tasks * (tasks + 1) / 2, "timely has lost a token");
    elapsed
}
