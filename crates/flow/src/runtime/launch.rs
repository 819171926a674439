//! Launch: starts the processes and threads of a program according to its placement.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pario_net::{Credit, InputPort, PortOptions, RecvError, Space};

use super::activity::ThreadActivity;
use super::coordinator::{CoordinatorEnd, FIRST, ProcessCoordinator, ReportRequests};
use super::entrance::OpenEntrance;
use super::ids::{CallId, ProcessNumber, ThreadNumber};
use super::locality::LocalityCheck;
use super::message::{ControlMessage, FlowMessage};
use super::process_role::{DIRECTORY_VARIABLE, ProcessRole, SPACE_VARIABLE};
use super::process_runtime::{
    PlacedProcess, PlacedSlot, PlacedThread, ProcessRuntime, coordinator_name, port_name,
};
use super::running_program::RunningProgram;
use super::span_recorder::SpanRecorder;
use super::thread_worker::ThreadWorker;
use crate::error::LaunchError;
use crate::placement::{Placement, ProcessLauncher, StartedProcess, ThreadSlot};
use crate::program::{Program, SlotDeclaration};
use crate::schedule::Schedule;

/// Timeout for the other processes to report that they are ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the first process checks processes that have not reported.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The file for a trace of the program: `trace.json`, `trace.svg`, or `trace` for both.
const TRACE_VARIABLE: &str = "PARIO_TRACE";

impl Program {
    /// Starts the program: all threads in this process, or in the processes of the placement.
    ///
    /// With a placement, this call also starts the other processes, unless `mpirun` or `srun` has
    /// started them; then the rank is the number of the process. The other processes run the same
    /// executable up to this call, which does not return there: they serve until the first process
    /// ends, and then exit.
    ///
    /// If the environment variable `PARIO_TRACE` names a file, the program writes a trace to it when
    /// it stops: `.json` for Chrome and Perfetto, `.svg` as a timing diagram, no extension for both.
    pub fn launch(self, placement: Option<Placement>) -> Result<RunningProgram, LaunchError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let placement = placement.unwrap_or_else(Placement::single_process);
        let role = ProcessRole::find(&self.name, &placement, &variable)?;
        let trace_to = variable(TRACE_VARIABLE);
        let attach = self.attach.clone().filter(|_| role.me() == FIRST);
        let entrance = attach.map(|options| OpenEntrance::open(&self.name, options)).transpose()?;
        let fingerprints = self.operation_fingerprints();
        let space = role.open_space(&placement)?;
        let prepared = self.prepare(&placement, role.me(), space, trace_to.is_some())?;
        if role.me() != FIRST {
            prepared.serve();
        }
        let children =
            role.start_others(&placement, &prepared.runtime.space, trace_to.as_deref())?;
        let mut running = prepared.run_first(children, trace_to.map(PathBuf::from))?;
        if let Some(entrance) = entrance {
            let space = entrance.space.clone();
            let entrance = entrance.serve(running.runtime.clone(), fingerprints);
            let thread = thread::Builder::new()
                .name("entrance".into())
                .spawn(move || entrance.run())
                .map_err(|error| thread_error("entrance", &error.to_string()))?;
            running.entrance = Some((space, thread));
        }
        Ok(running)
    }

    /// Opens the ports of this process and builds its runtime.
    fn prepare(
        self,
        placement: &Placement,
        me: ProcessNumber,
        space: Space,
        is_traced: bool,
    ) -> Result<PreparedProcess, LaunchError> {
        let fingerprint = self.fingerprint();
        let sized = |slot: &SlotDeclaration| {
            slot.pool.map(|size| placement.pool_size(&slot.name).unwrap_or(size))
        };
        let declare =
            |slot: &SlotDeclaration| ThreadSlot { name: slot.name.clone(), pool: sized(slot) };
        let declared: Vec<ThreadSlot> = self.slots.iter().map(declare).collect();
        let placed = self.slots.iter().filter(|slot| !slot.is_caller).map(declare);
        let mut assigned = placement.assign(&placed.collect::<Vec<_>>())?.into_iter();
        // The threads of the caller run in the first process, whose calls these are.
        let assigned = self.slots.iter().map(|slot| match slot.is_caller {
            true => vec![FIRST.0 as usize; slot.pool.unwrap_or(1)],
            false => assigned.next().expect("every other slot is placed"),
        });
        let assigned: Vec<Vec<usize>> = assigned.collect();
        let mut slots = Vec::new();
        let mut threads = Vec::new();
        let mut starts = Vec::new();
        for ((slot, declared), processes) in self.slots.iter().zip(&declared).zip(&assigned) {
            let first = u32::try_from(threads.len()).expect("a program has fewer threads");
            for (index, process) in processes.iter().enumerate() {
                let name = match declared.pool {
                    Some(_) => format!("{}[{index}]", slot.name),
                    None => slot.name.clone(),
                };
                let home =
                    ProcessNumber(u32::try_from(*process).expect("a program has fewer processes"));
                let number = ThreadNumber(
                    u32::try_from(threads.len()).expect("a program has fewer threads"),
                );
                let mut thread = PlacedThread {
                    name: name.clone(),
                    process: home,
                    is_caller: slot.is_caller,
                    port: OnceLock::new(),
                    activity: None,
                };
                if home == me {
                    let port = open_port(&space, &self.name, &name)?;
                    let recorder = is_traced.then(SpanRecorder::new);
                    let make = slot.make.clone();
                    starts.push(ThreadStart::new(
                        &mut thread,
                        (number, index),
                        make,
                        port,
                        &self.operations,
                        recorder,
                    ));
                }
                threads.push(thread);
            }
            slots.push(PlacedSlot {
                name: slot.name.clone(),
                first,
                size: processes.len(),
                is_pool: declared.pool.is_some(),
                is_caller: slot.is_caller,
            });
        }
        let names = placement.processes().iter().map(|process| process.name.clone());
        let processes: Vec<PlacedProcess> =
            names.map(|name| PlacedProcess { name, port: OnceLock::new() }).collect();
        LocalityCheck {
            operations: &self.operations,
            slots: &slots,
            threads: &threads,
            processes: &processes,
            caller: FIRST,
        }
        .run()?;
        let process_name = processes[me.0 as usize].name.clone();
        let port = open_port(&space, &self.name, &coordinator_name(&process_name))?;
        let runtime = ProcessRuntime::new(
            self.name,
            self.operations,
            slots,
            threads,
            processes,
            me,
            process_name,
            port.output(),
            space,
            None,
            self.max_calls,
        );
        Ok(PreparedProcess { runtime: Arc::new(runtime), starts, port, fingerprint })
    }
}

/// A process whose threads have not started.
struct PreparedProcess {
    runtime: Arc<ProcessRuntime>,
    starts: Vec<ThreadStart>,
    /// The port of the coordinator.
    port: InputPort<FlowMessage>,
    fingerprint: u64,
}

/// What a thread needs to start.
pub(super) struct ThreadStart {
    number: ThreadNumber,
    index: usize,
    make: Arc<dyn Fn(usize) -> Box<dyn Any> + Send + Sync>,
    port: InputPort<FlowMessage>,
    activity: Arc<ThreadActivity>,
}

impl ThreadStart {
    /// Prepares a thread of this process: its number, and its number in its pool.
    pub(super) fn new(
        thread: &mut PlacedThread,
        (number, index): (ThreadNumber, usize),
        make: Arc<dyn Fn(usize) -> Box<dyn Any> + Send + Sync>,
        port: InputPort<FlowMessage>,
        operations: &[Arc<Schedule>],
        recorder: Option<SpanRecorder>,
    ) -> Self {
        let _ = thread.port.set(port.output());
        let activity = Arc::new(ThreadActivity::new(thread.name.clone(), operations, recorder));
        thread.activity = Some(activity.clone());
        Self { number, index, make, port, activity }
    }
}

impl PreparedProcess {
    /// Runs the first process: starts its threads and waits until the others are ready.
    fn run_first(
        self,
        mut children: Vec<StartedProcess>,
        trace_to: Option<PathBuf>,
    ) -> Result<RunningProgram, LaunchError> {
        let workers = start_threads(&self.runtime, self.starts)?;
        wait_for_others(&self.runtime, &self.port, self.fingerprint, &mut children)?;
        let report_requests = Arc::new(ReportRequests::default());
        let coordinator =
            ProcessCoordinator::new(self.runtime.clone(), self.port, report_requests.clone());
        let coordinator = thread::Builder::new()
            .name("coordinator".into())
            .spawn(move || coordinator.run())
            .map_err(|error| thread_error("coordinator", &error.to_string()))?;
        let coordinator = Some(coordinator);
        Ok(RunningProgram {
            runtime: self.runtime,
            report_requests,
            coordinator,
            workers,
            children,
            entrance: None,
            attachment: None,
            trace_to,
        })
    }

    /// Runs any other process: serves until the first process ends, then exits.
    fn serve(self) -> ! {
        let name = self.runtime.process_name.clone();
        let runtime = self.runtime;
        let serve = || {
            let _workers = start_threads(&runtime, self.starts)?;
            let ready =
                ControlMessage::Ready { process: runtime.me, fingerprint: self.fingerprint };
            let no_call = CallId::none(runtime.me);
            runtime.send_to_coordinator(FIRST, no_call, FlowMessage::Control(ready)).map_err(
                |error| LaunchError::AddressSpace {
                    process: name.clone(),
                    message: error.to_string(),
                },
            )?;
            Ok(ProcessCoordinator::new(
                runtime.clone(),
                self.port,
                Arc::new(ReportRequests::default()),
            )
            .run())
        };
        match serve() {
            Ok(CoordinatorEnd::Stopped) => {
                runtime.space.close();
                std::process::exit(0)
            }
            Ok(CoordinatorEnd::FirstProcessLost) => {
                print_line(&format!(
                    "pario: process {name}: the first process was lost, so this process exits"
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

pub(super) fn open_port(
    space: &Space,
    program: &str,
    owner: &str,
) -> Result<InputPort<FlowMessage>, LaunchError> {
    // The windows of the splits bound the queue.
    let options = PortOptions { credit_bytes: Credit::Unlimited };
    space.input_with(&port_name(program, owner), options).map_err(|error| {
        LaunchError::AddressSpace { process: space.name().to_owned(), message: error.to_string() }
    })
}

/// Starts the threads of this process and waits until each has made its state.
pub(super) fn start_threads(
    runtime: &Arc<ProcessRuntime>,
    starts: Vec<ThreadStart>,
) -> Result<Vec<JoinHandle<()>>, LaunchError> {
    let (made, states) = mpsc::channel();
    let mut workers = Vec::new();
    for start in starts {
        let runtime = runtime.clone();
        let made = made.clone();
        let name = start.activity.name.clone();
        let started = thread::Builder::new().name(name.clone()).spawn(move || {
            let state = catch_unwind(AssertUnwindSafe(|| (start.make)(start.index)));
            let name = start.activity.name.clone();
            match state {
                Ok(state) => {
                    let worker = ThreadWorker::new(
                        start.number,
                        start.index,
                        runtime,
                        start.activity,
                        start.port,
                        state,
                    );
                    let _ = made.send((name, None));
                    drop(made);
                    worker.run();
                }
                Err(panic) => {
                    let text = pario_net::panic_text(&*panic);
                    let message = format!("making its state panicked: {text}");
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
            stop_threads(runtime);
            Err(error)
        }
    }
}

pub(super) fn thread_error(thread: &str, message: &str) -> LaunchError {
    LaunchError::Thread { thread: thread.to_owned(), message: message.to_owned() }
}

/// Stops the threads of this process after the messages in their queues.
pub(super) fn stop_threads(runtime: &ProcessRuntime) {
    let no_call = CallId::none(runtime.me);
    for thread in runtime.own_threads() {
        // Sending fails only if the thread has ended.
        let _ = runtime.send_here(thread, no_call, FlowMessage::Control(ControlMessage::Stop));
    }
}

/// Waits until every other process has reported that it runs the same program.
fn wait_for_others(
    runtime: &ProcessRuntime,
    port: &InputPort<FlowMessage>,
    fingerprint: u64,
    children: &mut [StartedProcess],
) -> Result<(), LaunchError> {
    let began = Instant::now();
    let mut is_ready = vec![false; runtime.processes.len()];
    is_ready[runtime.me.0 as usize] = true;
    while let Some(missing) = is_ready.iter().position(|ready| !ready) {
        match port.recv_timeout(CHECK_INTERVAL) {
            Ok(FlowMessage::Control(ControlMessage::Ready {
                process: number,
                fingerprint: theirs,
            })) => {
                let process = runtime.processes[number.0 as usize].name.clone();
                if theirs != fingerprint {
                    return Err(LaunchError::OtherProgram {
                        process,
                        program: runtime.program.clone(),
                    });
                }
                is_ready[number.0 as usize] = true;
                let no_call = CallId::none(runtime.me);
                let welcome = FlowMessage::Control(ControlMessage::Welcome);
                runtime.send_to_coordinator(number, no_call, welcome).map_err(|error| {
                    LaunchError::NotReady {
                        process,
                        waited_s: began.elapsed().as_secs_f64(),
                        message: error.to_string(),
                    }
                })?;
            }
            Ok(_) | Err(RecvError::Timeout { .. }) => {}
            Err(error) => tracing::warn!(program = %runtime.program, "{error}"),
        }
        let not_ready = |process: &str, message: String| LaunchError::NotReady {
            process: process.to_owned(),
            waited_s: began.elapsed().as_secs_f64(),
            message,
        };
        for child in children.iter_mut() {
            let number = runtime.process_named(child.name());
            let is_missing = number.is_some_and(|number| !is_ready[number.0 as usize]);
            if is_missing && let Ok(Some(status)) = child.try_status() {
                return Err(not_ready(child.name(), format!("it has exited: {status}")));
            }
        }
        if began.elapsed() > READY_TIMEOUT {
            let name = &runtime.processes[missing].name;
            return Err(not_ready(name, "it has not reported; see its output".into()));
        }
    }
    Ok(())
}

impl ProcessRole {
    /// Starts the other processes, unless a launcher has started them.
    fn start_others(
        &self,
        placement: &Placement,
        space: &Space,
        trace_to: Option<&str>,
    ) -> Result<Vec<StartedProcess>, LaunchError> {
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
            let child =
                ProcessLauncher::start(process, &environment, &secret).map_err(|error| {
                    LaunchError::Start { process: process.name.clone(), message: error.to_string() }
                })?;
            children.push(child);
        }
        Ok(children)
    }
}

/// Prints a line with one write, so that the lines of several processes do not mix.
fn print_line(line: &str) {
    let _ = io::Write::write_all(&mut io::stderr(), format!("{line}\n").as_bytes());
}
