//! The coordinator of a process: it handles the start, stop and loss of the program's processes.
//!
//! Each process has one coordinator thread with its own port. It receives the results and failures
//! of calls that its process made, frees pool threads, answers report requests, and warns if open
//! calls make no progress. The coordinator of the first process hears of every lost process and
//! informs the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::clock::monotonic_ns;
use pario_net::{InputPort, RecvError};
use parking_lot::{Condvar, Mutex};

use super::ids::{CallId, ProcessNumber};
use super::message::{ControlMessage, FlowMessage, ThreadClaim};
use super::process_runtime::ProcessRuntime;
use super::snapshot::{ProcessStatus, ProgramSnapshot};
use crate::error::CallError;
use crate::trace::Trace;

/// The process that the user started.
pub(crate) const FIRST: ProcessNumber = ProcessNumber(0);
/// Interval of the progress checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Checks without progress before the coordinator reports a stall.
const STALL_CHECKS: u32 = 10;
/// Clock difference between two processes above which they run on different machines.
const OTHER_CLOCK_NS: u64 = 100_000_000;

pub(crate) struct ProcessCoordinator {
    runtime: Arc<ProcessRuntime>,
    port: InputPort<FlowMessage>,
    report_requests: Arc<ReportRequests>,
    /// Messages that the threads had handled at the last check.
    last_handled: u64,
    /// Consecutive checks without progress.
    stalled_checks: u32,
}

/// Why a coordinator ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CoordinatorEnd {
    Stopped,
    FirstProcessLost,
}

impl ProcessCoordinator {
    pub(crate) fn new(
        runtime: Arc<ProcessRuntime>,
        port: InputPort<FlowMessage>,
        report_requests: Arc<ReportRequests>,
    ) -> Self {
        Self { runtime, port, report_requests, last_handled: 0, stalled_checks: 0 }
    }

    pub(crate) fn run(mut self) -> CoordinatorEnd {
        loop {
            match self.port.recv_timeout(CHECK_INTERVAL) {
                Ok(FlowMessage::Control(ControlMessage::Stop)) => return CoordinatorEnd::Stopped,
                Err(RecvError::Closed { .. }) => {
                    self.runtime.lose_program();
                    return CoordinatorEnd::Stopped;
                }
                Ok(FlowMessage::Control(ControlMessage::ProcessLost { process }))
                    if self.handle_loss(process) =>
                {
                    return CoordinatorEnd::FirstProcessLost;
                }
                Ok(message) => self.handle(message),
                Err(RecvError::Lost { .. }) if self.runtime.entrance.is_some() => {
                    self.runtime.lose_program();
                    return CoordinatorEnd::FirstProcessLost;
                }
                Err(RecvError::Lost { peer, .. }) => {
                    let lost = self.runtime.process_named(&peer);
                    if lost.is_some_and(|process| self.handle_loss(process)) {
                        return CoordinatorEnd::FirstProcessLost;
                    }
                }
                Err(RecvError::Timeout { .. }) => self.check_progress(),
                Err(error) => tracing::warn!(program = %self.runtime.program, "{error}"),
            }
        }
    }

    /// Fails the calls that need a lost process. The first process informs the others, which know
    /// which of their calls need it. Returns whether the first process itself was lost.
    fn handle_loss(&self, lost: ProcessNumber) -> bool {
        let runtime = &self.runtime;
        if runtime.mark_lost(lost) && runtime.me == FIRST {
            let no_call = CallId::none(runtime.me);
            for process in (0u32..).map(ProcessNumber).take(runtime.processes.len()) {
                if process != FIRST && !runtime.is_lost(process) {
                    let message =
                        FlowMessage::Control(ControlMessage::ProcessLost { process: lost });
                    // If this process is lost too, its own loss arrives here as well.
                    let _ = runtime.send_to_coordinator(process, no_call, message);
                }
            }
        }
        lost == FIRST
    }

    fn handle(&self, message: FlowMessage) {
        let runtime = &self.runtime;
        match message {
            FlowMessage::Control(ControlMessage::Welcome | ControlMessage::ProcessLost { .. }) => {}
            FlowMessage::Result(call, payload) => {
                let Some(operation) = runtime.calls.operation(call.number) else {
                    return;
                };
                let operation = &runtime.operations[operation];
                let result =
                    payload.decode(operation.output).map_err(|error| CallError::Transfer {
                        operation: operation.name.clone(),
                        from: "another process".into(),
                        to: "the caller".into(),
                        message: error.to_string(),
                    });
                runtime.calls.end(call.number, result);
            }
            FlowMessage::Control(ControlMessage::Failed { call, error }) => {
                runtime.fail(call, error)
            }
            FlowMessage::Control(ControlMessage::Abort { call }) => runtime.abort_here(call),
            FlowMessage::Control(ControlMessage::ThreadFree { process, slot, thread }) => {
                let claim = ThreadClaim { claimed_by: runtime.me, slot };
                runtime.release_thread_of(process, claim, thread);
            }
            FlowMessage::Routed(to, message) => runtime.pass_on(to, *message),
            FlowMessage::Token(envelope) if runtime.entrance.is_some() => {
                runtime.continue_token(envelope);
            }
            FlowMessage::Control(ControlMessage::RequestReport { request, wants_trace }) => {
                let report = ControlMessage::Report {
                    request,
                    status: runtime.status(),
                    trace: wants_trace.then(|| runtime.trace()),
                    now_ns: monotonic_ns(),
                };
                let no_call = CallId::none(runtime.me);
                // If the first process is lost, its loss arrives here and ends this process.
                let _ = runtime.send_to_coordinator(FIRST, no_call, FlowMessage::Control(report));
            }
            FlowMessage::Control(ControlMessage::Report { request, status, trace, now_ns }) => {
                self.report_requests.add(request, RuntimeReport { status, trace, now_ns });
            }
            FlowMessage::Control(_) | FlowMessage::Token(_) | FlowMessage::MergeBegin(..) => {
                tracing::warn!(
                    program = %runtime.program,
                    "the coordinator received a message for a thread"
                );
            }
        }
    }

    /// Warns if calls are open and no thread has handled a message for [`STALL_CHECKS`] checks.
    fn check_progress(&mut self) {
        let handled = self.runtime.messages_handled();
        let is_stalled = handled == self.last_handled && self.runtime.calls.is_any_open();
        self.last_handled = handled;
        self.stalled_checks = if is_stalled { self.stalled_checks + 1 } else { 0 };
        if self.stalled_checks == STALL_CHECKS {
            let snapshot = snapshot(&self.runtime, Vec::new(), Vec::new());
            tracing::warn!(
                program = %self.runtime.program,
                "no progress for {} s\n{}",
                STALL_CHECKS,
                snapshot.waits()
            );
        }
    }
}

/// Open requests for the reports of other processes, and the reports received so far.
#[derive(Default)]
pub(crate) struct ReportRequests {
    /// The number of the next request, and the reports of each open request.
    state: Mutex<(u64, HashMap<u64, Vec<RuntimeReport>>)>,
    received: Condvar,
}

pub(crate) struct RuntimeReport {
    pub(crate) status: ProcessStatus,
    pub(crate) trace: Option<Trace>,
    /// The time on the clock of that process.
    now_ns: u64,
}

impl ReportRequests {
    fn add(&self, request: u64, mut report: RuntimeReport) {
        let now = monotonic_ns();
        // The processes of one machine share a clock; two machines count from different times.
        if report.now_ns.abs_diff(now) > OTHER_CLOCK_NS
            && let Some(trace) = &mut report.trace
        {
            for span in &mut trace.spans {
                for time in [&mut span.begin_ns, &mut span.end_ns] {
                    *time = (*time).wrapping_add(now).wrapping_sub(report.now_ns);
                }
            }
        }
        let mut state = self.state.lock();
        if let Some(reports) = state.1.get_mut(&request) {
            reports.push(report);
            self.received.notify_all();
        }
    }

    /// Requests a report from all other processes and waits for at most `timeout`. Returns the
    /// reports and the number of processes that did not answer.
    pub(crate) fn collect(
        &self,
        runtime: &ProcessRuntime,
        wants_trace: bool,
        timeout: Duration,
    ) -> (Vec<RuntimeReport>, usize) {
        let mut state = self.state.lock();
        let request = state.0;
        state.0 += 1;
        state.1.insert(request, Vec::new());
        drop(state);
        let no_call = CallId::none(runtime.me);
        let mut requested = 0;
        // An attached process reports only itself.
        let others = if runtime.me.is_attached() { 0 } else { runtime.processes.len() };
        for process in (0u32..).map(ProcessNumber).take(others) {
            let message =
                FlowMessage::Control(ControlMessage::RequestReport { request, wants_trace });
            if process != runtime.me
                && !runtime.is_lost(process)
                && runtime.send_to_coordinator(process, no_call, message).is_ok()
            {
                requested += 1;
            }
        }
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        while state.1[&request].len() < requested {
            if self.received.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        let reports = state.1.remove(&request).unwrap_or_default();
        let silent = requested - reports.len().min(requested);
        (reports, silent)
    }
}

/// Combines the status of this process with the status of the others.
pub(crate) fn snapshot(
    runtime: &ProcessRuntime,
    others: Vec<ProcessStatus>,
    silent: Vec<String>,
) -> ProgramSnapshot {
    let ProcessStatus { mut steps, mut threads, mut unassigned } = runtime.status();
    for other in others {
        for (step, more) in steps.iter_mut().zip(other.steps) {
            step.tokens_in += more.tokens_in;
            step.tokens_out += more.tokens_out;
            step.busy_share += more.busy_share;
            step.peak = step.peak.max(more.peak);
        }
        for (pool, more) in unassigned.iter_mut().zip(other.unassigned) {
            pool.1 += more.1;
        }
        threads.extend(other.threads);
    }
    ProgramSnapshot {
        program: runtime.program.clone(),
        calls: runtime.calls.status(|operation| runtime.operations[operation].name.clone()),
        steps,
        threads,
        unassigned,
        lost: runtime.lost_names(),
        silent,
        attached: runtime.attached.names(),
    }
}
