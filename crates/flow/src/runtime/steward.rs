//! The steward of a process: it hears what concerns the process as a whole.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{InputPort, RecvError};
use parking_lot::{Condvar, Mutex};

use super::clock::now_ns;
use super::ids::{CallId, SpaceNumber};
use super::message::{Debt, Message, Plain};
use super::shared::Shared;
use super::snapshot::{Snapshot, SpaceView};
use crate::error::CallError;
use crate::trace::Trace;

/// The process that the user started.
pub(crate) const FIRST: SpaceNumber = SpaceNumber(0);
/// How often the steward looks whether anything moves.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A standstill of calls under way is reported after so many looks.
const STANDSTILL_LOOKS: u32 = 10;

pub(crate) struct Steward {
    shared: Arc<Shared>,
    port: InputPort<Message>,
    questions: Arc<Questions>,
    last_moves: u64,
    still: u32,
}

/// Why a steward's work is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Stopped,
    /// The first process is gone.
    Alone,
}

impl Steward {
    pub(crate) fn new(
        shared: Arc<Shared>,
        port: InputPort<Message>,
        questions: Arc<Questions>,
    ) -> Self {
        Self { shared, port, questions, last_moves: 0, still: 0 }
    }

    pub(crate) fn run(mut self) -> Over {
        loop {
            match self.port.recv_timeout(LOOK_EVERY) {
                Ok(Message::Plain(Plain::Stop)) | Err(RecvError::Closed { .. }) => {
                    return Over::Stopped;
                }
                Ok(Message::Plain(Plain::Gone { space })) if self.lose(space) => {
                    return Over::Alone;
                }
                Ok(message) => self.handle(message),
                Err(RecvError::Lost { peer, .. }) => {
                    if self.shared.space_named(&peer).is_some_and(|space| self.lose(space)) {
                        return Over::Alone;
                    }
                }
                Err(RecvError::Timeout { .. }) => self.look(),
                Err(error) => tracing::warn!(program = %self.shared.program, "{error}"),
            }
        }
    }

    /// A process is gone; whether it was the first, without which there is no program. The first
    /// hears of every loss, and tells the others: they know which calls need the lost one.
    fn lose(&self, lost: SpaceNumber) -> bool {
        let shared = &self.shared;
        if shared.lose(lost) && shared.me == FIRST {
            let nobody = CallId { origin: shared.me, number: u64::MAX };
            for space in (0u32..).map(SpaceNumber).take(shared.spaces.len()) {
                if space != FIRST && !shared.is_lost(space) {
                    let gone = Message::Plain(Plain::Gone { space: lost });
                    // If that one is lost as well, this will be heard too.
                    let _ = shared.tell(space, nobody, gone);
                }
            }
        }
        lost == FIRST
    }

    fn handle(&self, message: Message) {
        let shared = &self.shared;
        match message {
            Message::Plain(Plain::Welcome | Plain::Gone { .. }) => {}
            Message::Result(call, payload) => {
                let Some(operation) = shared.calls.operation(call.number) else {
                    return;
                };
                let operation = &shared.operations[operation];
                let result = payload.open(operation.output).map_err(|error| CallError::Transfer {
                    operation: operation.name.clone(),
                    from: "another process".into(),
                    to: "the caller".into(),
                    message: error.to_string(),
                });
                shared.calls.end(call.number, result);
            }
            Message::Plain(Plain::Failed { call, error }) => shared.fail(call, error),
            Message::Plain(Plain::Abort { call }) => shared.abort_here(call),
            Message::Plain(Plain::Settled { slot, thread }) => {
                shared.settle(Debt { to: shared.me, slot }, thread);
            }
            Message::Plain(Plain::Ask { question, wants_trace }) => {
                let answer = Plain::Answer {
                    question,
                    view: shared.view(),
                    trace: wants_trace.then(|| shared.trace()),
                    now_ns: now_ns(),
                };
                let nobody = CallId { origin: shared.me, number: u64::MAX };
                // If the first process is gone, this one will hear of it.
                let _ = shared.tell(FIRST, nobody, Message::Plain(answer));
            }
            Message::Plain(Plain::Answer { question, view, trace, now_ns }) => {
                self.questions.answer(question, Answer { view, trace, now_ns });
            }
            Message::Plain(_) | Message::Token(_) | Message::Begin(..) => {
                tracing::warn!(program = %shared.program, "a message for a thread came to a steward");
            }
        }
    }

    /// Says so if nothing moves though calls are under way.
    fn look(&mut self) {
        let moves = self.shared.moves();
        let is_still = moves == self.last_moves && self.shared.calls.is_any_open();
        self.last_moves = moves;
        self.still = if is_still { self.still + 1 } else { 0 };
        if self.still == STANDSTILL_LOOKS {
            let snapshot = snapshot(&self.shared, Vec::new(), Vec::new());
            tracing::warn!(
                program = %self.shared.program,
                "nothing has moved for {} s\n{}",
                STANDSTILL_LOOKS,
                snapshot.waits()
            );
        }
    }
}

/// Questions to other processes, and their answers.
#[derive(Default)]
pub(crate) struct Questions {
    state: Mutex<(u64, HashMap<u64, Vec<Answer>>)>,
    answered: Condvar,
}

pub(crate) struct Answer {
    pub(crate) view: SpaceView,
    pub(crate) trace: Option<Trace>,
    /// The time there.
    now_ns: u64,
}

impl Questions {
    fn answer(&self, question: u64, mut answer: Answer) {
        let now = now_ns();
        // Two machines count from different moments; one machine's processes do not.
        let ahead = answer.now_ns.abs_diff(now);
        if ahead > 100_000_000
            && let Some(trace) = &mut answer.trace
        {
            for span in &mut trace.spans {
                for time in [&mut span.begin_ns, &mut span.end_ns] {
                    *time = (*time).wrapping_add(now).wrapping_sub(answer.now_ns);
                }
            }
        }
        let mut state = self.state.lock();
        if let Some(answers) = state.1.get_mut(&question) {
            answers.push(answer);
            self.answered.notify_all();
        }
    }

    /// Asks all other processes, and waits for their answers, but not for long. Also the names of
    /// those that did not answer.
    pub(crate) fn ask(
        &self,
        shared: &Shared,
        wants_trace: bool,
        patience: Duration,
    ) -> (Vec<Answer>, usize) {
        let mut state = self.state.lock();
        let question = state.0;
        state.0 += 1;
        state.1.insert(question, Vec::new());
        drop(state);
        let nobody = CallId { origin: shared.me, number: u64::MAX };
        let mut asked = 0;
        for space in (0u32..).map(SpaceNumber).take(shared.spaces.len()) {
            let ask = Message::Plain(Plain::Ask { question, wants_trace });
            if space != shared.me
                && !shared.is_lost(space)
                && shared.tell(space, nobody, ask).is_ok()
            {
                asked += 1;
            }
        }
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        while state.1[&question].len() < asked {
            if self.answered.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        let answers = state.1.remove(&question).unwrap_or_default();
        let silent = asked - answers.len().min(asked);
        (answers, silent)
    }
}

/// What this process knows together with what others said.
pub(crate) fn snapshot(shared: &Shared, others: Vec<SpaceView>, silent: Vec<String>) -> Snapshot {
    let SpaceView { mut stages, mut threads, mut unassigned } = shared.view();
    for other in others {
        for (stage, more) in stages.iter_mut().zip(other.stages) {
            stage.tokens_in += more.tokens_in;
            stage.tokens_out += more.tokens_out;
            stage.busy_share += more.busy_share;
            stage.peak = stage.peak.max(more.peak);
        }
        for (pool, more) in unassigned.iter_mut().zip(other.unassigned) {
            pool.1 += more.1;
        }
        threads.extend(other.threads);
    }
    Snapshot {
        program: shared.program.clone(),
        calls: shared.calls.view(|operation| shared.operations[operation].name.clone()),
        stages,
        threads,
        unassigned,
        lost: shared.lost_names(),
        silent,
    }
}
