//! Those who ask.
//!
//! *Waiting.* A thread that waits for its answer waits as every thread of a space does: it leads
//! if nobody does, reads the socket itself, and then takes all answers that came and puts them
//! into their slots. Of several threads that wait, one is woken when somebody else has read
//! answers: the watcher. A thread that leads makes itself the watcher, and a watcher that has its
//! answer wakes another.
//!
//! *Futures and callbacks.* If nobody waits for an answer, the attendant does: a thread of the
//! asker, which is started for the first of them and sleeps while there are none. Callbacks are
//! called by it alone, and with no lock held.
//!
//! *Locks*: `slots`, then those of the port. What users have given is called with none of them.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::answerer::Responder;
use super::question::{Answer, Body, Question, Reply};
use super::slots::{Attendant, Slot, Slots, Woken};
use crate::channel::Channel;
use crate::error::{AskError, InputError, OpenError, RecvError, SendError};
use crate::gathered;
use crate::landing::{Expected, Landing};
use crate::port::{InputPort, Nothing, OutputPort};
use crate::sender::User;
use crate::space::Space;
use crate::token::Token;
use crate::waiter::Waiter;

/// Asks an [`AnswerPort`](crate::AnswerPort), wherever it is. Clones share the way and are cheap;
/// they can be used from many threads at once.
///
/// Any number of questions can be under way, and their answers come in any order. Nothing but the
/// askers bounds how many: whoever asks bounds what it has under way.
///
/// ```
/// use std::time::Duration;
///
/// use pario_net::{AnswerPort, Asker, PortOptions, Space};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let home = Space::builder("home").host().build()?;
/// # let squares = AnswerPort::<u64, u64>::new(&home, "squares", PortOptions::default())?;
/// # let server = std::thread::spawn(move || {
/// #     while let Ok(asked) = squares.recv() {
/// #         asked.answer.send(asked.question * asked.question);
/// #     }
/// # });
/// let space = Space::builder("guest").join(&home.address()).build()?;
/// let asker = Asker::<u64, u64>::open(&space, "squares", Duration::from_secs(5))?;
/// assert_eq!(asker.ask(12)?.wait()?, 144);
///
/// let (answered, answers) = std::sync::mpsc::channel();
/// asker.ask_then(7, move |answer| answered.send(answer).unwrap());
/// assert_eq!(answers.recv()??, 49);
/// # home.close();
/// # server.join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct Asker<Q: Token, A: Token> {
    way: Arc<Way<Q, A>>,
}

/// What all clones of an asker share. Questions that were asked need only the answers.
struct Way<Q: Token, A: Token> {
    output: OutputPort<Question<Q, A>>,
    /// The channel for answers; none within the same space.
    channel: Option<u32>,
    answers: Arc<Answers<A>>,
}

struct Answers<A: Token> {
    port: String,
    peer: String,
    input: InputPort<Answer<A>>,
    slots: Mutex<Slots<A>>,
    /// The attendant sleeps here.
    work: Condvar,
    /// The way of the questions, which ends when no question is open.
    asking: Option<Arc<Channel>>,
}

impl<Q: Token, A: Token> Asker<Q, A> {
    /// Opens a way to the port of this name. If there is none yet, waits for it.
    pub fn open(space: &Space, port: &str, timeout: Duration) -> Result<Self, OpenError> {
        let output = space.output::<Question<Q, A>>(port, timeout)?;
        let peer = output.peer().to_owned();
        let (input, sink) = loop {
            match space.private_input::<Answer<A>>(port) {
                // The next one has another name.
                Err(InputError::NameTaken { .. }) => {}
                Err(_) => {
                    let (port, space) = (port.to_owned(), space.name().to_owned());
                    return Err(OpenError::Closed { port, space });
                }
                Ok(made) => break made,
            }
        };
        let asking = output.channel().cloned();
        let channel = match &asking {
            None => None,
            Some(asking) => match asking.expect_answers(&sink) {
                None => return Err(OpenError::Lost { port: port.to_owned(), peer }),
                number => number,
            },
        };
        let answers = Arc::new(Answers {
            port: port.to_owned(),
            peer,
            input,
            slots: Mutex::new(Slots::new()),
            work: Condvar::new(),
            asking,
        });
        Ok(Self { way: Arc::new(Way { output, channel, answers }) })
    }

    /// Asks. The question leaves at once when its answer is waited for or awaited, otherwise as
    /// every token does.
    pub fn ask(&self, question: Q) -> Result<Pending<A>, AskError> {
        self.ask_and_expect(question, None)
    }

    /// Asks, and has the answer's bytes read straight to where they are wanted: if the answer comes
    /// over a socket and has one long [`Bulk`](crate::Bulk) that is as long as the landing, that
    /// one is empty, and its bytes have landed. [`Landing::end`] says whether they have.
    pub fn ask_into(&self, question: Q, landing: &Arc<Landing>) -> Result<Pending<A>, AskError> {
        self.ask_and_expect(question, Some(landing))
    }

    fn ask_and_expect(
        &self,
        question: Q,
        landing: Option<&Arc<Landing>>,
    ) -> Result<Pending<A>, AskError> {
        let answers = &self.way.answers;
        let number = {
            let mut slots = answers.slots.lock();
            match slots.end() {
                Some(error) => return Err(error.clone()),
                None => slots.add(Slot::Asked),
            }
        };
        let expected = landing.and_then(|landing| {
            let landings = answers.asking.as_ref()?.link().landings()?;
            Some(landings.expect(self.way.channel?, number, landing))
        });
        match self.send(number, question) {
            Ok(()) => Ok(Pending { answers: answers.clone(), number, _expected: expected }),
            Err(error) => {
                let mut woken = Woken::default();
                let slot = answers.slots.lock().remove(number, &mut woken);
                drop(slot);
                Err(error)
            }
        }
    }

    /// Asks, and calls `then` with the answer, or with the error, once. It is called by a thread
    /// of the asker, which calls one after the other and meanwhile receives no answers for
    /// others: it should pass the answer on and not wait.
    pub fn ask_then(&self, question: Q, then: impl FnOnce(Result<A, AskError>) + Send + 'static) {
        let answers = &self.way.answers;
        let number = {
            let mut slots = answers.slots.lock();
            if let Err(error) = answers.ensure_attendant(&mut slots) {
                drop(slots);
                return then(Err(error));
            }
            match slots.end().cloned() {
                Some(error) => {
                    slots.ready.push((Box::new(then), Err(error)));
                    answers.call_attendant(slots);
                    return;
                }
                None => {
                    let number = slots.add(Slot::Then(Box::new(then)));
                    answers.call_attendant(slots);
                    number
                }
            }
        };
        match self.send(number, question) {
            Ok(()) => self.way.output.flush(),
            Err(error) => {
                let mut slots = answers.slots.lock();
                let mut woken = Woken::default();
                // Otherwise the end has come meanwhile, and was said.
                if let Some(Slot::Then(then)) = slots.remove(number, &mut woken) {
                    slots.ready.push((then, Err(error)));
                    answers.call_attendant(slots);
                }
            }
        }
    }

    /// Whether questions can be answered, as far as is known.
    pub fn is_alive(&self) -> bool {
        let answers = &self.way.answers;
        self.way.output.is_open() && answers.slots.lock().end().is_none()
    }

    /// Whether what is asked is given back when it was sent: the way leads over a socket.
    pub fn gives_back(&self) -> bool {
        self.way.answers.asking.as_ref().is_some_and(|asking| asking.link().is_socket())
    }

    /// Ends the link to the space that answers: whatever waits to be sent is dropped, and all that
    /// is asked over it is lost.
    pub fn cut(&self, reason: &str) {
        if let Some(asking) = &self.way.answers.asking {
            asking.cut(reason);
        }
    }

    /// The name of the space that answers.
    pub fn peer(&self) -> &str {
        &self.way.answers.peer
    }

    /// The user of the process that answers, as the kernel says; none over TCP.
    pub fn peer_user(&self) -> Option<User> {
        match &self.way.answers.asking {
            Some(asking) => asking.link().sender.user.clone(),
            None => Some(User::own()),
        }
    }

    /// The name of the port that is asked.
    pub fn name(&self) -> &str {
        &self.way.answers.port
    }

    fn send(&self, number: u64, question: Q) -> Result<(), AskError> {
        let Way { output, channel, answers } = &*self.way;
        let reply = match channel {
            Some(channel) => Reply::Channel(*channel),
            None => Reply::Here(Responder::new(Some(answers.input.output()), number)),
        };
        let error = match output.send(Question { number, reply, body: Ok(question) }) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let said = match &error {
            SendError::Lost { peer, .. } => AskError::Lost { peer: peer.clone() },
            SendError::Closed { port, .. } => AskError::Closed { port: port.clone() },
            error => AskError::Unsent { reason: error.to_string() },
        };
        if let Some(Question { reply: Reply::Here(responder), .. }) = error.into_token() {
            responder.discard();
        }
        Err(said)
    }
}

impl<Q: Token, A: Token> Clone for Asker<Q, A> {
    fn clone(&self) -> Self {
        Self { way: self.way.clone() }
    }
}

impl<Q: Token, A: Token> fmt::Debug for Asker<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asker({:?} in {:?})", self.name(), self.peer())
    }
}

impl<Q: Token, A: Token> Drop for Way<Q, A> {
    fn drop(&mut self) {
        let mut slots = self.answers.slots.lock();
        slots.is_abandoned = true;
        self.answers.call_attendant(slots);
    }
}

impl<A: Token> Answers<A> {
    /// Puts all answers that came into their slots. With a waiter, it will be woken for the next.
    fn sort(&self, slots: &mut Slots<A>, waiter: Option<&Arc<Waiter>>, woken: &mut Woken<A>) {
        if let Some(waiter) = waiter {
            slots.watch(waiter);
        }
        loop {
            let error = match self.input.next_or_watch(waiter) {
                Ok(Ok(Answer { number, body })) => {
                    slots.answer(number, body, |body| self.result(body), woken);
                    continue;
                }
                Err(Nothing::Yet) => return,
                Err(Nothing::Ever) => AskError::Closed { port: self.port.clone() },
                Ok(Err(RecvError::Lost { peer, .. })) => AskError::Lost { peer },
                Ok(Err(error)) => {
                    AskError::Unreadable { peer: self.peer.clone(), reason: error.to_string() }
                }
            };
            let is_last = matches!(error, AskError::Closed { .. });
            slots.end_with(error, woken);
            if is_last {
                return;
            }
        }
    }

    fn result(&self, body: Body<A>) -> Result<A, AskError> {
        let peer = || self.peer.clone();
        match body {
            Body::Given(answer) | Body::File(answer, _) => Ok(answer),
            Body::Dropped => Err(AskError::Dropped { peer: peer() }),
            Body::Refused(reason) => Err(AskError::Refused { peer: peer(), reason }),
            Body::Unreadable(error) => {
                Err(AskError::Unreadable { peer: peer(), reason: error.to_string() })
            }
        }
    }

    /// Wakes whoever is to be; no lock may be held.
    fn wake(&self, woken: Woken<A>) {
        self.input.core().wake(woken.waiters);
        woken.wakers.into_iter().for_each(|waker| waker.wake());
        if woken.is_attendant_called {
            self.call_attendant(self.slots.lock());
        }
    }

    fn flush(&self) {
        if let Some(asking) = &self.asking {
            asking.flush();
        }
    }

    /// Waits for an answer, but not longer than until the deadline.
    fn wait(&self, number: u64, deadline: Option<Instant>) -> Option<Result<A, AskError>> {
        self.flush();
        let found = self.input.core().wait(deadline, |waiter| {
            let mut woken = Woken::default();
            let mut slots = self.slots.lock();
            // Who leads looks anyway when something came.
            let watches = waiter.leads() || !slots.is_watched_by_another(waiter);
            self.sort(&mut slots, watches.then_some(waiter), &mut woken);
            let found = slots.take(number);
            if found.is_some() {
                slots.leave(number);
                slots.unwatch(waiter, &mut woken);
            } else {
                slots.wait(number, waiter, &mut woken);
            }
            drop(slots);
            self.wake(woken);
            found
        });
        if found.is_some() {
            return found;
        }
        let mut woken = Woken::default();
        let mut slots = self.slots.lock();
        slots.leave(number);
        slots.unwatch(&Waiter::current(), &mut woken);
        let found = slots.take(number);
        drop(slots);
        self.wake(woken);
        found
    }

    /// Sees to it that there is an attendant.
    fn ensure_attendant(self: &Arc<Self>, slots: &mut Slots<A>) -> Result<(), AskError> {
        if !matches!(slots.attendant, Attendant::Absent) {
            return Ok(());
        }
        let own = self.clone();
        let thread = std::thread::Builder::new().name(format!("ask {}", self.port));
        match thread.spawn(move || own.attend()) {
            Ok(_) => {
                slots.attendant = Attendant::Idle;
                Ok(())
            }
            Err(error) => {
                let reason = format!("no thread can be started for its answer: {error}");
                Err(AskError::Unsent { reason })
            }
        }
    }

    /// Gets the attendant to look at what there is to do.
    fn call_attendant(&self, slots: parking_lot::MutexGuard<'_, Slots<A>>) {
        match &slots.attendant {
            Attendant::Absent => {}
            Attendant::Idle => {
                drop(slots);
                self.work.notify_one();
            }
            Attendant::Waiting(waiter) => {
                let mut waiters = crate::waiter::Waiters::new();
                waiters.add(waiter);
                drop(slots);
                self.input.core().wake(waiters);
            }
        }
    }

    /// What the attendant does, until nobody asks any more.
    fn attend(self: Arc<Self>) {
        loop {
            let mut slots = self.slots.lock();
            while slots.ready.is_empty() && slots.unattended == 0 {
                if slots.is_abandoned {
                    slots.attendant = Attendant::Absent;
                    return;
                }
                self.work.wait(&mut slots);
            }
            let ready = std::mem::take(&mut slots.ready);
            drop(slots);
            for (then, result) in ready {
                // What panics here must not end the thread, which has others to serve.
                if catch_unwind(AssertUnwindSafe(|| then(result))).is_err() {
                    tracing::error!(
                        port = self.port,
                        "what was to be done with an answer panicked"
                    );
                }
            }
            self.wait_for_others();
        }
    }

    /// Receives while there are questions for whose answers nobody waits.
    fn wait_for_others(&self) {
        self.input.core().wait(None, |waiter| {
            let mut woken = Woken::default();
            let mut slots = self.slots.lock();
            let watches = waiter.leads() || !slots.is_watched_by_another(waiter);
            self.sort(&mut slots, watches.then_some(waiter), &mut woken);
            // This thread looks itself.
            woken.is_attendant_called = false;
            let is_over = !slots.ready.is_empty() || slots.unattended == 0;
            if is_over {
                slots.attendant = Attendant::Idle;
                slots.unwatch(waiter, &mut woken);
            } else if !matches!(slots.attendant, Attendant::Waiting(_)) {
                slots.attendant = Attendant::Waiting(waiter.clone());
            }
            drop(slots);
            self.wake(woken);
            is_over.then_some(())
        });
    }
}

/// A question that was asked. Its answer can be waited for, looked for or awaited; if this is
/// dropped, the answer is dropped when it comes.
#[must_use = "the answer comes by waiting"]
pub struct Pending<A: Token> {
    answers: Arc<Answers<A>>,
    number: u64,
    /// Ends when nobody wants the answer any more.
    _expected: Option<Expected>,
}

impl<A: Token> Pending<A> {
    /// Waits for the answer.
    pub fn wait(self) -> Result<A, AskError> {
        let found = self.answers.wait(self.number, None);
        found.unwrap_or_else(|| unreachable!("without a deadline, an answer or an error comes"))
    }

    /// Waits for the answer, but not longer than until the deadline; then the question comes back.
    pub fn wait_until(self, deadline: Instant) -> Result<Result<A, AskError>, Self> {
        self.answers.wait(self.number, Some(deadline)).ok_or(self)
    }

    /// Whether the answer is there. What has arrived at this process but was not looked at yet is
    /// not there yet; the space looks at it within a few milliseconds at most.
    pub fn is_done(&self) -> bool {
        // What this thread has sent has left: what it sends next need not wait for more.
        gathered::flush();
        self.answers.flush();
        let mut woken = Woken::default();
        let mut slots = self.answers.slots.lock();
        self.answers.sort(&mut slots, None, &mut woken);
        let is_done = slots.is_answered(self.number);
        drop(slots);
        self.answers.wake(woken);
        is_done
    }
}

impl<A: Token> Future for Pending<A> {
    type Output = Result<A, AskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answers = &self.answers;
        let mut slots = answers.slots.lock();
        if let Some(result) = slots.take(self.number) {
            return Poll::Ready(result);
        }
        if let Err(error) = answers.ensure_attendant(&mut slots) {
            return Poll::Ready(Err(error));
        }
        if slots.wait_with(self.number, context.waker()) {
            answers.call_attendant(slots);
            answers.flush();
        }
        Poll::Pending
    }
}

impl<A: Token> Drop for Pending<A> {
    fn drop(&mut self) {
        let mut woken = Woken::default();
        let slot = self.answers.slots.lock().remove(self.number, &mut woken);
        drop(slot);
        self.answers.wake(woken);
    }
}

impl<A: Token> fmt::Debug for Pending<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({} to {:?})", self.number, self.answers.port)
    }
}
