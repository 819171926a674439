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
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};

/// Workers of all processes together.
const WORKERS: usize = 2;
/// Tokens that enter before worker 0 steps.
const BATCH: u64 = 1024;

/// A process with workers.
pub const ROLE: PartnerRole = PartnerRole { name: "timely", run: serve };

/// The processes whose workers run the graph.
#[derive(Debug)]
pub struct TimelyGraph {
    processes: Vec<PartnerProcess>,
}

impl TimelyGraph {
    /// Starts one or two processes.
    pub fn start(processes: usize, dir: &Path) -> Result<Self> {
        let socket = dir.join("timely.socket");
        let socket = socket.to_str().context("the directory has a readable name")?;
        let start = |process: usize| {
            let mut started = PartnerProcess::start(
                ROLE.name,
                &[process.to_string(), processes.to_string(), socket.to_owned()],
            )?;
            // The first process can be connected to, or is complete.
            let said = started.receive_line()?;
            ensure!(said == "ready", "a process of timely sent the line {said:?}");
            Ok(started)
        };
        Ok(Self { processes: (0..processes).map(start).collect::<Result<_>>()? })
    }

    /// The time that the tasks take.
    pub fn run(&mut self, rounds: u64, tasks: u64) -> Result<Duration> {
        for process in &mut self.processes {
            process.send_line(format!("{rounds} {tasks}"))?;
        }
        let elapsed_ns = self.processes[0].receive_value()?;
        Ok(Duration::from_nanos(elapsed_ns))
    }
}

impl Drop for TimelyGraph {
    fn drop(&mut self) {
        // A process of timely does not tolerate that another one is gone: they end together.
        for process in &mut self.processes {
            // A process that does not read any more has ended.
            let _ = process.send_line("end");
        }
        for process in &mut self.processes {
            let _ = process.receive_line();
        }
    }
}

/// A run of the graph: rounds and tasks.
type GraphRun = (u64, u64);

/// Runs one of the processes.
fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [process, processes, socket] = words else {
        bail!("needs its number, how many there are, and a socket");
    };
    let (process, processes): (usize, usize) = (process.parse()?, processes.parse()?);
    let (builders, others) = match processes {
        1 => {
            parent.send_line("ready")?;
            Config::Process(WORKERS).try_build().map_err(|error| anyhow!(error))?
        }
        2 => {
            let other = meet(process, socket, &parent)?;
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
    let (orders, heard): (Vec<Sender<GraphRun>>, Vec<_>) =
        builders.iter().map(|_| crossbeam_channel::unbounded()).unzip();
    let (answers, answered) = crossbeam_channel::unbounded();
    let heard: Mutex<Vec<Receiver<GraphRun>>> = Mutex::new(heard);
    let workers =
        timely::execute::execute_from(builders, others, WorkerConfig::default(), move |worker| {
            let orders = heard.lock().expect("no worker panics while it holds the lock").pop();
            for (rounds, tasks) in orders.expect("one for each worker") {
                let elapsed = run_graph(worker, rounds, tasks);
                if worker.index() == 0 && answers.send(elapsed).is_err() {
                    break;
                }
            }
        })
        .map_err(|error| anyhow!(error))?;
    loop {
        let order = parent.receive_line()?;
        if order == "end" {
            // The workers end when no further run can come.
            drop(orders);
            drop(workers);
            return parent.send_line("ended");
        }
        let mut words = order.split_whitespace();
        let order = (next_word(&mut words)?, next_word(&mut words)?);
        for worker in &orders {
            worker.send(order)?;
        }
        if process == 0 {
            parent.send_line(answered.recv()?.as_nanos().to_string())?;
        }
    }
}

/// Connects the two processes; the first one listens.
fn meet(process: usize, socket: &str, parent: &ParentProcess) -> Result<UnixStream> {
    let stream = if process == 0 {
        let listener = UnixListener::bind(socket)?;
        parent.send_line("ready")?;
        listener.accept()?.0
    } else {
        let stream = UnixStream::connect(socket)?;
        parent.send_line("ready")?;
        stream
    };
    widen(&stream);
    Ok(stream)
}

/// Builds and runs the graph; returns the time of the run.
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
