//! A running program: calls, snapshots and traces.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pario_net::{Refusal, Space};

use super::calls::{CallCompletion, PendingCall, ResultCallback};
use super::construct_stack::{ConstructKind, ConstructStack};
use super::coordinator::{CoordinatorEnd, ReportRequests, snapshot};
use super::ids::{CallId, ProcessNumber, StepPosition};
use super::message::{ControlMessage, Envelope, FlowMessage, HopWaits, Payload, TokenRoute};
use super::process_runtime::ProcessRuntime;
use super::snapshot::ProgramSnapshot;
use crate::error::CallError;
use crate::graph::OperationGraph;
use crate::placement::StartedProcess;
use crate::program::OperationRef;
use crate::schedule::StepAction;
use crate::token::{Token, downcast};
use crate::trace::Trace;

/// Timeout for the reports of other processes.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for other processes to exit before they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// A program whose threads run; [`Program::launch`](crate::Program::launch) and
/// [`Program::attach`](crate::Program::attach) return it.
///
/// Many threads can use it at once. Dropping it stops the program: calls under way fail, and the
/// other processes exit. In an attached process, dropping it leaves the resident program, which
/// runs on.
pub struct RunningProgram {
    pub(crate) runtime: Arc<ProcessRuntime>,
    pub(crate) report_requests: Arc<ReportRequests>,
    pub(crate) coordinator: Option<JoinHandle<CoordinatorEnd>>,
    pub(crate) workers: Vec<JoinHandle<()>>,
    pub(crate) children: Vec<StartedProcess>,
    /// In a resident program: the address space and the thread of its entrance.
    pub(crate) entrance: Option<(Space, JoinHandle<()>)>,
    /// In an attached process: the connection to the resident program, and the number of each
    /// operation there.
    pub(crate) attachment: Option<(Space, Vec<usize>)>,
    /// The file for the trace, written when the program stops.
    pub(crate) trace_to: Option<PathBuf>,
}

impl RunningProgram {
    /// Calls an operation and waits for the result.
    pub fn call<I: Token, O: Token>(
        &self,
        operation: OperationRef<I, O>,
        input: I,
    ) -> Result<O, CallError> {
        self.start(operation, input)?.wait()
    }

    /// Starts a call and returns it as a [`PendingCall`]. If too many calls are under way (see
    /// [`limit_calls`](crate::Program::limit_calls)), it waits until one ends. A step must not call
    /// it for that reason.
    pub fn start<I: Token, O: Token>(
        &self,
        operation: OperationRef<I, O>,
        input: I,
    ) -> Result<PendingCall<O>, CallError> {
        let (number, completion) = self.begin(operation, input, None)?;
        Ok(PendingCall::new(number, completion))
    }

    /// Starts a call; the thread that ends the call passes the result, or the error if the call fails
    /// or the program stops, to `callback`, once. That thread often is a thread of the program: the
    /// callback should only pass the result on, and must not wait for other calls.
    ///
    /// If the program has stopped, this returns an error and does not call `callback`. Like
    /// [`start`](Self::start), it waits while too many calls are under way.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut program = pario_flow::Program::new("doubling");
    /// let worker = program.thread("ThreadWorker", || ());
    /// let double = program.operation("double", |b| b.on(worker).run(|_, n: u64| 2 * n));
    /// let run = program.launch(None)?;
    /// let (results, received) = mpsc::channel();
    /// run.start_then(double, 21, move |result| results.send(result).unwrap())?;
    /// assert_eq!(received.recv()??, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_then<I: Token, O: Token>(
        &self,
        operation: OperationRef<I, O>,
        input: I,
        callback: impl FnOnce(Result<O, CallError>) + Send + 'static,
    ) -> Result<(), CallError> {
        let callback: ResultCallback = Box::new(move |result| callback(result.map(downcast)));
        self.begin(operation, input, Some(callback)).map(drop)
    }

    fn begin<I: Token, O: Token>(
        &self,
        operation: OperationRef<I, O>,
        input: I,
        callback: Option<ResultCallback>,
    ) -> Result<(u64, Arc<CallCompletion>), CallError> {
        let runtime = &self.runtime;
        let operation = self.number(operation);
        let (number, completion) = runtime.calls.begin(operation, callback)?;
        let call = CallId { origin: runtime.me, number };
        // An operation begins with a hop, or with a call of an operation that does.
        let mut position = StepPosition::new(operation, 0);
        let mut stack = ConstructStack::default();
        while let StepAction::Call(inner) = &runtime.step(position).action {
            stack = stack.push(ConstructKind::Call { back: position.next(), from: None });
            position = StepPosition::new(*inner, 0);
        }
        let StepAction::Hop(selection) = &runtime.step(position).action else {
            unreachable!("an operation begins with a hop")
        };
        let token: crate::token::ErasedToken = Box::new(input);
        let sent = runtime.resolve(selection, &token, Vec::new, position).and_then(|target| {
            let position = position.next();
            let route = TokenRoute {
                call,
                oldest: runtime.calls.oldest(),
                position,
                hop_waits: HopWaits::default(),
            };
            let payload = Payload::Local(token, runtime.step(position).input);
            let envelope = Envelope::now(route, stack, payload);
            match target {
                Some(thread) => runtime.send(thread, call, FlowMessage::Token(envelope)),
                None => runtime.send_to_any(selection.slot, envelope),
            }
        });
        if let Err(error) = sent {
            runtime.fail(call, error);
        }
        // The caller waits for the result, and not for tokens, which would send this one.
        if let Some(entrance) = &runtime.entrance {
            entrance.flush();
        }
        Ok((number, completion))
    }

    /// Returns the number of an operation in the schedules of this process.
    fn number<I, O>(&self, operation: OperationRef<I, O>) -> usize {
        match &self.attachment {
            Some((_, numbers)) => numbers[operation.number],
            None => operation.number,
        }
    }

    /// Returns the TCP address at which other processes can attach; none unless the program
    /// [allows it](crate::AttachOptions::tcp).
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.entrance.as_ref().and_then(|(space, _)| space.address().tcp)
    }

    /// Returns the path of the socket at which processes of this user attach; none unless the program
    /// [allows it](crate::Program::allow_attach).
    pub fn entrance_path(&self) -> Option<PathBuf> {
        self.entrance.as_ref().and_then(|(space, _)| space.address().unix)
    }

    /// Returns the last connections to this resident program that were refused or cut off, oldest
    /// first.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.entrance.as_ref().map(|(space, _)| space.refusals()).unwrap_or_default()
    }

    /// Returns the status of the program: calls, steps, threads, and what each call waits for.
    pub fn snapshot(&self) -> ProgramSnapshot {
        let (reports, silent) = self.report_requests.collect(&self.runtime, false, REPORT_TIMEOUT);
        let others: Vec<_> = reports.into_iter().map(|report| report.status).collect();
        let heard: Vec<&str> = others
            .iter()
            .flat_map(|status| &status.threads)
            .map(|thread| thread.process.as_str())
            .collect();
        let silent = if silent == 0 {
            Vec::new()
        } else {
            let me = &self.runtime.process_name;
            let lost = self.runtime.lost_names();
            let names = self.runtime.processes.iter().map(|process| process.name.clone());
            names
                .filter(|name| {
                    name != me && !heard.contains(&name.as_str()) && !lost.contains(name)
                })
                .collect()
        };
        snapshot(&self.runtime, others, silent)
    }

    /// Returns the graph of an operation, to be drawn.
    pub fn graph<I, O>(&self, operation: OperationRef<I, O>) -> &OperationGraph {
        &self.runtime.operations[self.number(operation)].graph
    }

    /// Returns the trace of all processes so far. It is empty unless `PARIO_TRACE` is set.
    pub fn trace(&self) -> Trace {
        let (reports, _) = self.report_requests.collect(&self.runtime, true, REPORT_TIMEOUT);
        let others = reports.into_iter().filter_map(|report| report.trace);
        Trace::merge(std::iter::once(self.runtime.trace()).chain(others).collect())
    }

    fn write_trace(&self, path: &Path) {
        let trace = self.trace();
        let paths = match path.extension() {
            Some(_) => vec![path.to_owned()],
            None => vec![path.with_extension("json"), path.with_extension("svg")],
        };
        for path in paths {
            if let Err(error) = trace.save(&path) {
                tracing::warn!("cannot write the trace to {}: {error}", path.display());
            }
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if let Some(path) = self.trace_to.take() {
            self.write_trace(&path);
        }
        let runtime = &self.runtime;
        runtime.calls.stop(&CallError::Stopped { program: runtime.program.clone() });
        if let Some((space, thread)) = self.entrance.take() {
            space.close();
            let _ = thread.join();
        }
        // No thread of this process waits until the resident program takes its token.
        if let Some((connection, _)) = self.attachment.take() {
            connection.close();
        }
        let no_call = CallId::none(runtime.me);
        let processes = (0u32..).map(ProcessNumber).take(runtime.processes.len());
        // An attached process stops only itself.
        let is_own = |process: &ProcessNumber| !runtime.me.is_attached() && *process != runtime.me;
        for process in processes.filter(is_own).chain([runtime.me]) {
            if !runtime.is_lost(process) {
                // Sending fails only if the process has exited.
                let _ = runtime.send_to_coordinator(
                    process,
                    no_call,
                    FlowMessage::Control(ControlMessage::Stop),
                );
            }
        }
        super::launch::stop_threads(runtime);
        for worker in self.workers.drain(..) {
            // The caller of the operation has received any panic of a step.
            let _ = worker.join();
        }
        if let Some(coordinator) = self.coordinator.take() {
            let _ = coordinator.join();
        }
        for mut child in self.children.drain(..) {
            if let Err(error) = child.stop(STOP_TIMEOUT) {
                tracing::warn!("cannot stop process {}: {error}", child.name());
            }
        }
    }
}
