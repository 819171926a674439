//! Calls under way, and those who wait for them.

use std::any::type_name;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::clock::now_ns;
use super::ids::SpaceNumber;
use super::snapshot::CallView;
use crate::error::CallError;
use crate::token::{Parcel, Token, open};

/// The calls that a process has made and that have not ended.
pub(crate) struct Calls {
    open: Mutex<Open>,
    room: Condvar,
    limit: usize,
    /// All calls before this one have ended.
    oldest: AtomicU64,
}

struct Open {
    calls: BTreeMap<u64, OpenCall>,
    next: u64,
    is_stopped: bool,
}

struct OpenCall {
    operation: usize,
    since_ns: u64,
    outcome: Arc<Outcome>,
}

/// The result of a call, when it is there.
pub(crate) struct Outcome {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    result: Option<Result<Parcel, CallError>>,
    is_done: bool,
    waker: Option<Waker>,
    /// What is done with the result, if nobody holds a request.
    then: Option<Then>,
}

/// What is done with the result of a call.
pub(crate) type Then = Box<dyn FnOnce(Result<Parcel, CallError>) + Send>;

impl Calls {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            open: Mutex::new(Open { calls: BTreeMap::new(), next: 0, is_stopped: false }),
            room: Condvar::new(),
            limit,
            oldest: AtomicU64::new(0),
        }
    }

    /// A new call, once there is room; nothing if the program has stopped. With `then`, this is
    /// what is done with its result, by the thread that ends the call; it is never called if
    /// nothing begins.
    pub(crate) fn begin(
        &self,
        operation: usize,
        then: Option<Then>,
    ) -> Option<(u64, Arc<Outcome>)> {
        let mut open = self.open.lock();
        while open.calls.len() >= self.limit && !open.is_stopped {
            self.room.wait(&mut open);
        }
        if open.is_stopped {
            return None;
        }
        let number = open.next;
        open.next += 1;
        let outcome = Arc::new(Outcome {
            state: Mutex::new(State { then, ..State::default() }),
            done: Condvar::new(),
        });
        let call = OpenCall { operation, since_ns: now_ns(), outcome: outcome.clone() };
        open.calls.insert(number, call);
        self.note_oldest(&open);
        Some((number, outcome))
    }

    /// Ends a call; `false` if it has ended before.
    pub(crate) fn end(&self, number: u64, result: Result<Parcel, CallError>) -> bool {
        let mut open = self.open.lock();
        let Some(call) = open.calls.remove(&number) else {
            return false;
        };
        self.note_oldest(&open);
        self.room.notify_one();
        drop(open);
        call.outcome.set(result);
        true
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// The operation of a call that is under way.
    pub(crate) fn operation(&self, number: u64) -> Option<usize> {
        self.open.lock().calls.get(&number).map(|call| call.operation)
    }

    pub(crate) fn is_any_open(&self) -> bool {
        !self.open.lock().calls.is_empty()
    }

    /// Ends all calls, and lets no new ones begin.
    pub(crate) fn stop(&self, error: &CallError) {
        let mut open = self.open.lock();
        open.is_stopped = true;
        let calls = std::mem::take(&mut open.calls);
        self.room.notify_all();
        drop(open);
        for call in calls.into_values() {
            call.outcome.set(Err(error.clone()));
        }
    }

    pub(crate) fn view(&self, names: impl Fn(usize) -> String) -> Vec<CallView> {
        let now = now_ns();
        let open = self.open.lock();
        let view = |(number, call): (&u64, &OpenCall)| CallView {
            number: *number,
            operation: names(call.operation),
            age_ns: now.saturating_sub(call.since_ns),
        };
        open.calls.iter().map(view).collect()
    }

    fn note_oldest(&self, open: &Open) {
        let oldest = open.calls.keys().next().copied().unwrap_or(open.next);
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}

impl Outcome {
    /// Called once, by whoever took the call out of those that are open, and without any lock.
    fn set(&self, result: Result<Parcel, CallError>) {
        let mut state = self.state.lock();
        state.is_done = true;
        if let Some(then) = state.then.take() {
            drop(state);
            // What panics here must not end the thread, which has other calls to serve.
            if catch_unwind(AssertUnwindSafe(|| then(result))).is_err() {
                tracing::error!("what was to be done with the result of a call has panicked");
            }
            return;
        }
        state.result = Some(result);
        let waker = state.waker.take();
        self.done.notify_all();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A call that was started: it can be waited for, looked at, or awaited.
///
/// Dropping it does not stop the call.
#[must_use = "the result comes by waiting"]
pub struct Request<O> {
    outcome: Arc<Outcome>,
    number: u64,
    kind: PhantomData<fn() -> O>,
}

impl<O: Token> Request<O> {
    pub(crate) fn new(number: u64, outcome: Arc<Outcome>) -> Self {
        Self { outcome, number, kind: PhantomData }
    }

    /// The number of the call, as snapshots and traces show it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Waits for the result.
    pub fn wait(self) -> Result<O, CallError> {
        let mut state = self.outcome.state.lock();
        while !state.is_done {
            self.outcome.done.wait(&mut state);
        }
        Self::take(&mut state)
    }

    /// Waits for the result, but not longer than `timeout`; then the request comes back.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<O, CallError>, Self> {
        let deadline = Instant::now() + timeout;
        let mut state = self.outcome.state.lock();
        while !state.is_done {
            if self.outcome.done.wait_until(&mut state, deadline).timed_out() && !state.is_done {
                drop(state);
                return Err(self);
            }
        }
        Ok(Self::take(&mut state))
    }

    /// Whether the result is there.
    pub fn is_done(&self) -> bool {
        self.outcome.state.lock().is_done
    }

    fn take(state: &mut State) -> Result<O, CallError> {
        state.result.take().expect("a result is taken once").map(open)
    }
}

impl<O: Token> Future for Request<O> {
    type Output = Result<O, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.outcome.state.lock();
        if state.is_done {
            return Poll::Ready(Self::take(&mut state));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<O> std::fmt::Debug for Request<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request {} for {}", self.number, type_name::<O>())
    }
}

/// Which calls are over, as far as this process has heard: their tokens are dropped.
#[derive(Default)]
pub(crate) struct Ended {
    /// Whether there ever was a call that did not end well; until then no token is without one.
    is_used: AtomicBool,
    origins: Mutex<HashMap<SpaceNumber, Origin>>,
}

#[derive(Default)]
struct Origin {
    /// All calls before this one have ended.
    oldest: u64,
    /// Calls that were given up, not before `oldest`; never more than calls are under way.
    aborted: Vec<u64>,
    is_lost: bool,
}

impl Ended {
    /// Hears that all calls before `oldest` have ended.
    pub(crate) fn note_oldest(&self, origin: SpaceNumber, oldest: u64) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let mut origins = self.origins.lock();
        let origin = origins.entry(origin).or_default();
        if oldest > origin.oldest {
            origin.oldest = oldest;
            origin.aborted.retain(|number| *number >= oldest);
        }
    }

    pub(crate) fn abort(&self, origin: SpaceNumber, number: u64) {
        self.is_used.store(true, Ordering::Release);
        let mut origins = self.origins.lock();
        let origin = origins.entry(origin).or_default();
        if number >= origin.oldest && !origin.aborted.contains(&number) {
            origin.aborted.push(number);
        }
    }

    pub(crate) fn lose(&self, origin: SpaceNumber) {
        self.is_used.store(true, Ordering::Release);
        self.origins.lock().entry(origin).or_default().is_lost = true;
    }

    pub(crate) fn contains(&self, origin: SpaceNumber, number: u64) -> bool {
        self.is_used.load(Ordering::Acquire)
            && self.origins.lock().get(&origin).is_some_and(|origin| {
                origin.is_lost || number < origin.oldest || origin.aborted.contains(&number)
            })
    }
}
