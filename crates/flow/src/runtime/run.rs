//! A program that runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::calls::{Outcome, Request, Then};
use super::ids::{CallId, Position, SpaceNumber};
use super::message::{Envelope, Journey, Message, Payload, Plain, Route};
use super::shared::Shared;
use super::snapshot::Snapshot;
use super::stack::Stack;
use super::steward::{Over, Questions, snapshot};
use crate::error::CallError;
use crate::graph::OperationGraph;
use crate::place::PoolRef;
use crate::placement::Started;
use crate::program::OperationRef;
use crate::schedule::Step;
use crate::token::{Token, open};
use crate::trace::Trace;

/// How long other processes may take to answer a question.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How long other processes may take to end by themselves.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// A program whose threads are running; made by [`Program::launch`](crate::Program::launch).
///
/// It can be used from many threads at once. Dropping it stops the program: calls under way fail,
/// and the processes that were started end.
pub struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) steward: Option<JoinHandle<Over>>,
    pub(crate) workers: Vec<JoinHandle<()>>,
    pub(crate) children: Vec<Started>,
    /// Where the trace goes at the end.
    pub(crate) trace_to: Option<PathBuf>,
}

impl Run {
    /// Calls an operation and waits for its result.
    pub fn call<I: Token, O: Token>(
        &self,
        operation: OperationRef<I, O>,
        input: I,
    ) -> Result<O, CallError> {
        self.start(operation, input)?.wait()
    }

    /// Starts an operation; the result can be waited for, looked for or awaited. If too many calls
    /// are under way (see [`limit_calls`](crate::Program::limit_calls)), it waits for one to end,
    /// so an operation's own steps should not call it.
    pub fn start<I: Token, O: Token>(
        &self,
        operation: OperationRef<I, O>,
        input: I,
    ) -> Result<Request<O>, CallError> {
        let (number, outcome) = self.begin(operation, input, None)?;
        Ok(Request::new(number, outcome))
    }

    /// Starts an operation; `then` is called with the result by the thread that ends the call, or
    /// with the error if the call fails or the program stops. It is called once, and holds up that
    /// thread, which often is one of the program's own: it should only pass the result on, and
    /// must not wait for other calls.
    ///
    /// If the program has stopped already there is an error and `then` is not called. As with
    /// [`start`](Self::start), it waits while too many calls are under way.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut program = pario_flow::Program::new("doubling");
    /// let worker = program.thread("Worker", || ());
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
        then: impl FnOnce(Result<O, CallError>) + Send + 'static,
    ) -> Result<(), CallError> {
        let then: Then = Box::new(move |result| then(result.map(open)));
        self.begin(operation, input, Some(then)).map(drop)
    }

    fn begin<I: Token, O: Token>(
        &self,
        operation: OperationRef<I, O>,
        input: I,
        then: Option<Then>,
    ) -> Result<(u64, Arc<Outcome>), CallError> {
        let shared = &self.shared;
        let stopped = || CallError::Stopped { program: shared.program.clone() };
        let (number, outcome) = shared.calls.begin(operation.number, then).ok_or_else(stopped)?;
        let call = CallId { origin: shared.me, number };
        // Only operations and hops stand in front of the first thread.
        let mut position = Position::new(operation.number, 0);
        let mut stack = Stack::default();
        while let Step::Call(inner) = &shared.node(position).step {
            stack = stack.push(super::stack::FrameKind::Call { back: position.next() });
            position = Position::new(*inner, 0);
        }
        let Step::Hop(site) = &shared.node(position).step else {
            unreachable!("an operation begins with a hop")
        };
        let parcel: crate::token::Parcel = Box::new(input);
        let sent = shared.resolve(site, &parcel, Vec::new, position).and_then(|target| {
            let position = position.next();
            let route =
                Route { call, oldest: shared.calls.oldest(), position, trip: Journey::default() };
            let payload = Payload::Here(parcel, shared.node(position).input);
            let envelope = Envelope::now(route, stack, payload);
            match target {
                Some(thread) => shared.send(thread, call, Message::Token(envelope)),
                None => shared.send_to_any(site.slot, envelope),
            }
        });
        if let Err(error) = sent {
            shared.fail(call, error);
        }
        Ok((number, outcome))
    }

    /// How the program is doing: calls, stages, threads, and who waits for whom.
    pub fn snapshot(&self) -> Snapshot {
        let (answers, silent) = self.questions.ask(&self.shared, false, ANSWER_PATIENCE);
        let views: Vec<_> = answers.into_iter().map(|answer| answer.view).collect();
        let heard: Vec<&str> = views
            .iter()
            .flat_map(|view| &view.threads)
            .map(|thread| thread.space.as_str())
            .collect();
        let silent = if silent == 0 {
            Vec::new()
        } else {
            let me = &self.shared.spaces[self.shared.me.0 as usize].name;
            let lost = self.shared.lost_names();
            let names = self.shared.spaces.iter().map(|space| space.name.clone());
            names
                .filter(|name| {
                    name != me && !heard.contains(&name.as_str()) && !lost.contains(name)
                })
                .collect()
        };
        snapshot(&self.shared, views, silent)
    }

    /// What an operation looks like, to be drawn.
    pub fn graph<I, O>(&self, operation: OperationRef<I, O>) -> &OperationGraph {
        &self.shared.operations[operation.number].graph
    }

    /// How many threads a pool has in this placement.
    pub fn pool_size<S>(&self, pool: PoolRef<S>) -> usize {
        self.shared.slots[pool.slot].size
    }

    /// What has run so far, in all processes. Empty unless the program is traced.
    pub fn trace(&self) -> Trace {
        let (answers, _) = self.questions.ask(&self.shared, true, ANSWER_PATIENCE);
        let others = answers.into_iter().filter_map(|answer| answer.trace);
        Trace::merge(std::iter::once(self.shared.trace()).chain(others).collect())
    }

    /// The counters of the links and ports of this process.
    pub fn counters(&self) -> pario_net::Counters {
        self.shared.space.counters()
    }

    fn write_trace(&self, path: &Path) {
        let trace = self.trace();
        let paths = match path.extension() {
            Some(_) => vec![path.to_owned()],
            None => vec![path.with_extension("json"), path.with_extension("svg")],
        };
        for path in paths {
            if let Err(error) = trace.save(&path) {
                tracing::warn!("the trace could not be written to {}: {error}", path.display());
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(path) = self.trace_to.take() {
            self.write_trace(&path);
        }
        let shared = &self.shared;
        shared.calls.stop(&CallError::Stopped { program: shared.program.clone() });
        let nobody = CallId { origin: shared.me, number: u64::MAX };
        for space in (0u32..).map(SpaceNumber).take(shared.spaces.len()) {
            if !shared.is_lost(space) {
                // Whoever is gone has stopped already.
                let _ = shared.tell(space, nobody, Message::Plain(Plain::Stop));
            }
        }
        super::launch::stop_threads(shared);
        for worker in self.workers.drain(..) {
            // A panic in a step has been reported to its caller.
            let _ = worker.join();
        }
        if let Some(steward) = self.steward.take() {
            let _ = steward.join();
        }
        for mut child in self.children.drain(..) {
            if let Err(error) = child.stop(STOP_PATIENCE) {
                tracing::warn!("process {} could not be stopped: {error}", child.name());
            }
        }
    }
}
