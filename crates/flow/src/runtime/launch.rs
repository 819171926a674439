//! Starting the threads of a program where they belong.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pario_net::{Credit, InputPort, PortOptions, RecvError, Space};

use super::board::Board;
use super::ids::{CallId, SpaceNumber, ThreadNumber};
use super::message::{Message, Plain};
use super::recorder::Recorder;
use super::role::{DIRECTORY_VARIABLE, Role, SPACE_VARIABLE};
use super::run::Run;
use super::shared::{PlacedSlot, PlacedSpace, PlacedThread, Shared, port_name, steward_name};
use super::steward::{FIRST, Over, Questions, Steward};
use super::worker::{Worker, panic_message};
use crate::error::LaunchError;
use crate::placement::{Launcher, Placement, Started, ThreadSlot};
use crate::program::Program;

/// How long the other processes have to report.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a process that has not reported is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Where a trace of the run goes: `trace.json`, `trace.svg`, or `trace` for both.
const TRACE_VARIABLE: &str = "PARIO_TRACE";

impl Program {
    /// Starts the program: all threads in this process, or where the placement puts them.
    ///
    /// With a placement the other processes are started too, unless `mpirun` or `srun` has done
    /// so: then the rank is the number of the process. They run the same executable up to this
    /// call, which does not return there: they serve until the first process has ended, and end.
    ///
    /// If the environment variable `PARIO_TRACE` names a file, what runs when is written there at
    /// the end: to `.json` for Chrome and Perfetto, to `.svg` as a timing diagram, without an
    /// ending to both.
    pub fn launch(self, placement: Option<Placement>) -> Result<Run, LaunchError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let placement = placement.unwrap_or_else(Placement::single_process);
        let role = Role::find(self.name(), &placement, &variable)?;
        let trace_to = variable(TRACE_VARIABLE);
        let space = role.open_space(&placement)?;
        let prepared = self.place(&placement, role.me(), space, trace_to.is_some())?;
        if role.me() != FIRST {
            prepared.follow();
        }
        let children =
            role.start_others(&placement, &prepared.shared.space, trace_to.as_deref())?;
        prepared.lead(children, trace_to.map(PathBuf::from))
    }

    /// Makes the ports and tables of one process.
    fn place(
        self,
        placement: &Placement,
        me: SpaceNumber,
        space: Space,
        is_traced: bool,
    ) -> Result<Prepared, LaunchError> {
        let fingerprint = self.fingerprint();
        let sized = |slot: &crate::program::Slot| {
            slot.pool.map(|size| placement.pool_size(&slot.name).unwrap_or(size))
        };
        let wanted: Vec<ThreadSlot> = self
            .slots
            .iter()
            .map(|slot| ThreadSlot { name: slot.name.clone(), pool: sized(slot) })
            .collect();
        let assigned = placement.assign(&wanted)?;
        let mut slots = Vec::new();
        let mut threads = Vec::new();
        let mut jobs = Vec::new();
        for ((slot, wanted), processes) in self.slots.iter().zip(&wanted).zip(&assigned) {
            let first = u32::try_from(threads.len()).expect("programs have fewer threads");
            for (index, process) in processes.iter().enumerate() {
                let name = match wanted.pool {
                    Some(_) => format!("{}[{index}]", slot.name),
                    None => slot.name.clone(),
                };
                let home = SpaceNumber(u32::try_from(*process).expect("there are fewer processes"));
                let number = ThreadNumber(u32::try_from(threads.len()).expect("as above"));
                let mut thread = PlacedThread {
                    name: name.clone(),
                    space: home,
                    port: OnceLock::new(),
                    board: None,
                };
                if home == me {
                    let port = open_port(&space, &self.name, &name)?;
                    let _ = thread.port.set(port.output());
                    let board =
                        Arc::new(Board::new(name, &self.operations, is_traced.then(Recorder::new)));
                    thread.board = Some(board.clone());
                    jobs.push(Job { number, index, make: slot.make.clone(), port, board });
                }
                threads.push(thread);
            }
            slots.push(PlacedSlot {
                name: slot.name.clone(),
                first,
                size: processes.len(),
                is_pool: wanted.pool.is_some(),
            });
        }
        let names = placement.processes().iter().map(|process| process.name.clone());
        let spaces: Vec<PlacedSpace> =
            names.map(|name| PlacedSpace { name, port: OnceLock::new() }).collect();
        let steward = steward_name(&spaces[me.0 as usize].name);
        let port = open_port(&space, &self.name, &steward)?;
        let _ = spaces[me.0 as usize].port.set(port.output());
        let shared = Shared::new(
            self.name,
            self.operations,
            slots,
            threads,
            spaces,
            me,
            space,
            self.max_calls,
        );
        Ok(Prepared { shared: Arc::new(shared), jobs, port, fingerprint })
    }
}

/// A process whose threads have not been started yet.
struct Prepared {
    shared: Arc<Shared>,
    jobs: Vec<Job>,
    /// The steward's port.
    port: InputPort<Message>,
    fingerprint: u64,
}

struct Job {
    number: ThreadNumber,
    index: usize,
    make: Arc<dyn Fn(usize) -> Box<dyn Any> + Send + Sync>,
    port: InputPort<Message>,
    board: Arc<Board>,
}

impl Prepared {
    /// The first process: waits for the others, and runs.
    fn lead(
        self,
        mut children: Vec<Started>,
        trace_to: Option<PathBuf>,
    ) -> Result<Run, LaunchError> {
        let workers = start_threads(&self.shared, self.jobs)?;
        wait_for_others(&self.shared, &self.port, self.fingerprint, &mut children)?;
        let questions = Arc::new(Questions::default());
        let steward = Steward::new(self.shared.clone(), self.port, questions.clone());
        let steward = thread::Builder::new()
            .name("steward".into())
            .spawn(move || steward.run())
            .map_err(|error| thread_error("steward", &error.to_string()))?;
        let steward = Some(steward);
        Ok(Run { shared: self.shared, questions, steward, workers, children, trace_to })
    }

    /// Another process: serves until the first one has ended, and ends.
    fn follow(self) -> ! {
        let name = self.shared.spaces[self.shared.me.0 as usize].name.clone();
        let shared = self.shared;
        let serve = || {
            let _workers = start_threads(&shared, self.jobs)?;
            let ready = Plain::Ready { space: shared.me, fingerprint: self.fingerprint };
            let nobody = CallId { origin: shared.me, number: u64::MAX };
            shared.tell(FIRST, nobody, Message::Plain(ready)).map_err(|error| {
                LaunchError::Space { space: name.clone(), message: error.to_string() }
            })?;
            Ok(Steward::new(shared.clone(), self.port, Arc::new(Questions::default())).run())
        };
        match serve() {
            Ok(Over::Stopped) => {
                shared.space.close();
                std::process::exit(0)
            }
            Ok(Over::Alone) => {
                print_line(&format!(
                    "pario: process {name}: the first process is gone, so this one ends"
                ));
                std::process::exit(1)
            }
            Err(error) => {
                let error: LaunchError = error;
                print_line(&format!("pario: process {name}: {error}"));
                std::process::exit(1)
            }
        }
    }
}

fn open_port(space: &Space, program: &str, owner: &str) -> Result<InputPort<Message>, LaunchError> {
    // The windows of the splits bound what can be in a queue.
    let options = PortOptions { credit_bytes: Credit::Unlimited };
    space.input_with(&port_name(program, owner), options).map_err(|error| LaunchError::Space {
        space: space.name().to_owned(),
        message: error.to_string(),
    })
}

/// Starts the threads of this process, and waits until each has made its state.
fn start_threads(shared: &Arc<Shared>, jobs: Vec<Job>) -> Result<Vec<JoinHandle<()>>, LaunchError> {
    let (made, states) = mpsc::channel();
    let mut workers = Vec::new();
    for job in jobs {
        let shared = shared.clone();
        let made = made.clone();
        let name = job.board.name.clone();
        let started = thread::Builder::new().name(name.clone()).spawn(move || {
            let state = catch_unwind(AssertUnwindSafe(|| (job.make)(job.index)));
            let name = job.board.name.clone();
            match state {
                Ok(state) => {
                    let worker =
                        Worker::new(job.number, job.index, shared, job.board, job.port, state);
                    let _ = made.send((name, None));
                    drop(made);
                    worker.run();
                }
                Err(panic) => {
                    let message =
                        format!("its state could not be made: {}", panic_message(&*panic));
                    let _ = made.send((name, Some(message)));
                }
            }
        });
        workers.push(started.map_err(|error| thread_error(&name, &error.to_string()))?);
    }
    drop(made);
    let failed = states.iter().find_map(|(name, failed)| Some(thread_error(&name, &failed?)));
    match failed {
        None => Ok(workers),
        Some(error) => {
            stop_threads(shared);
            Err(error)
        }
    }
}

fn thread_error(thread: &str, message: &str) -> LaunchError {
    LaunchError::Thread { thread: thread.to_owned(), message: message.to_owned() }
}

/// Tells the threads of this process to stop after what is in their queues.
pub(super) fn stop_threads(shared: &Shared) {
    let nobody = CallId { origin: shared.me, number: u64::MAX };
    for (number, thread) in (0u32..).map(ThreadNumber).zip(&shared.threads) {
        if thread.space == shared.me {
            // A thread that has ended needs not be told.
            let _ = shared.send(number, nobody, Message::Plain(Plain::Stop));
        }
    }
}

/// Waits until every other process has reported that it runs the same program.
fn wait_for_others(
    shared: &Shared,
    port: &InputPort<Message>,
    fingerprint: u64,
    children: &mut [Started],
) -> Result<(), LaunchError> {
    let began = Instant::now();
    let mut is_ready = vec![false; shared.spaces.len()];
    is_ready[shared.me.0 as usize] = true;
    while let Some(missing) = is_ready.iter().position(|ready| !ready) {
        match port.recv_timeout(LOOK_EVERY) {
            Ok(Message::Plain(Plain::Ready { space, fingerprint: theirs })) => {
                let process = shared.spaces[space.0 as usize].name.clone();
                if theirs != fingerprint {
                    return Err(LaunchError::OtherProgram {
                        process,
                        program: shared.program.clone(),
                    });
                }
                is_ready[space.0 as usize] = true;
                let nobody = CallId { origin: shared.me, number: u64::MAX };
                let welcome = Message::Plain(Plain::Welcome);
                shared.tell(space, nobody, welcome).map_err(|error| LaunchError::NotReady {
                    process,
                    waited_s: began.elapsed().as_secs_f64(),
                    message: error.to_string(),
                })?;
            }
            Ok(_) | Err(RecvError::Timeout { .. }) => {}
            Err(error) => tracing::warn!(program = %shared.program, "{error}"),
        }
        let not_ready = |process: &str, message: String| LaunchError::NotReady {
            process: process.to_owned(),
            waited_s: began.elapsed().as_secs_f64(),
            message,
        };
        for child in children.iter_mut() {
            let space = shared.space_named(child.name());
            let is_missing = space.is_some_and(|space| !is_ready[space.0 as usize]);
            if is_missing && let Ok(Some(status)) = child.try_status() {
                return Err(not_ready(child.name(), format!("it has ended: {status}")));
            }
        }
        if began.elapsed() > READY_TIMEOUT {
            let name = &shared.spaces[missing].name;
            return Err(not_ready(name, "it has not reported; look at what it printed".into()));
        }
    }
    Ok(())
}

impl Role {
    /// Starts the other processes, unless somebody else does.
    fn start_others(
        &self,
        placement: &Placement,
        space: &Space,
        trace_to: Option<&str>,
    ) -> Result<Vec<Started>, LaunchError> {
        let Self::First { starts_others: true, key } = self else {
            return Ok(Vec::new());
        };
        let mut children = Vec::new();
        for process in &placement.processes()[1..] {
            let mut environment = vec![
                (SPACE_VARIABLE, process.name.clone()),
                (DIRECTORY_VARIABLE, space.address().to_string()),
            ];
            environment.extend(trace_to.map(|path| (TRACE_VARIABLE, path.to_owned())));
            let secret = key.as_ref().map(|key| key.to_hex()).unwrap_or_default();
            let child = Launcher::start(process, &environment, &secret).map_err(|error| {
                LaunchError::Start { process: process.name.clone(), message: error.to_string() }
            })?;
            children.push(child);
        }
        Ok(children)
    }
}

/// Prints a line with one write, so that lines of several processes do not mix.
fn print_line(line: &str) {
    let _ = io::Write::write_all(&mut io::stderr(), format!("{line}\n").as_bytes());
}
