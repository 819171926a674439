//! Calls under way: the table of a process, the completion of a call, and ended calls.

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pario_net::clock::monotonic_ns;
use parking_lot::{Condvar, Mutex};

use super::ids::ProcessNumber;
use super::snapshot::CallStatus;
use crate::error::CallError;
use crate::token::{ErasedToken, Token, downcast};

/// The open calls of a process: those that it has made and that have not ended.
pub(crate) struct CallTable {
    open: Mutex<OpenCalls>,
    room: Condvar,
    limit: usize,
    /// All calls before this number have ended.
    oldest: AtomicU64,
}

struct OpenCalls {
    calls: BTreeMap<u64, OpenCall>,
    next: u64,
    /// The error of calls that come too late.
    stopped: Option<CallError>,
}

struct OpenCall {
    operation: usize,
    since_ns: u64,
    completion: Arc<CallCompletion>,
}

/// The result of a call, once the call has ended.
pub(crate) struct CallCompletion {
    state: Mutex<CompletionState>,
    done: Condvar,
}

#[derive(Default)]
struct CompletionState {
    result: Option<Result<ErasedToken, CallError>>,
    is_done: bool,
    waker: Option<Waker>,
    /// Receives the result, if the call has no [`PendingCall`].
    callback: Option<ResultCallback>,
}

/// The function that receives the result of a call.
pub(crate) type ResultCallback = Box<dyn FnOnce(Result<ErasedToken, CallError>) + Send>;

impl CallTable {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            open: Mutex::new(OpenCalls { calls: BTreeMap::new(), next: 0, stopped: None }),
            room: Condvar::new(),
            limit,
            oldest: AtomicU64::new(0),
        }
    }

    /// Waits until fewer calls than the limit are open, then opens one. Fails if the program
    /// has stopped; then the callback is not called. The thread that ends the call calls
    /// the callback.
    pub(crate) fn begin(
        &self,
        operation: usize,
        callback: Option<ResultCallback>,
    ) -> Result<(u64, Arc<CallCompletion>), CallError> {
        let mut open = self.open.lock();
        while open.calls.len() >= self.limit && open.stopped.is_none() {
            self.room.wait(&mut open);
        }
        if let Some(error) = &open.stopped {
            return Err(error.clone());
        }
        let number = open.next;
        open.next += 1;
        let completion = Arc::new(CallCompletion {
            state: Mutex::new(CompletionState { callback, ..CompletionState::default() }),
            done: Condvar::new(),
        });
        let call = OpenCall { operation, since_ns: monotonic_ns(), completion: completion.clone() };
        open.calls.insert(number, call);
        self.note_oldest(&open);
        Ok((number, completion))
    }

    /// Ends a call; returns `false` if it had already ended.
    pub(crate) fn end(&self, number: u64, result: Result<ErasedToken, CallError>) -> bool {
        let mut open = self.open.lock();
        let Some(call) = open.calls.remove(&number) else {
            return false;
        };
        self.note_oldest(&open);
        self.room.notify_one();
        drop(open);
        call.completion.set(result);
        true
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Returns the operation of an open call.
    pub(crate) fn operation(&self, number: u64) -> Option<usize> {
        self.open.lock().calls.get(&number).map(|call| call.operation)
    }

    pub(crate) fn is_any_open(&self) -> bool {
        !self.open.lock().calls.is_empty()
    }

    /// Ends all calls; no new call can begin.
    pub(crate) fn stop(&self, error: &CallError) {
        let mut open = self.open.lock();
        open.stopped.get_or_insert_with(|| error.clone());
        let calls = std::mem::take(&mut open.calls);
        self.room.notify_all();
        drop(open);
        for call in calls.into_values() {
            call.completion.set(Err(error.clone()));
        }
    }

    pub(crate) fn status(&self, names: impl Fn(usize) -> String) -> Vec<CallStatus> {
        let now = monotonic_ns();
        let open = self.open.lock();
        let status = |(number, call): (&u64, &OpenCall)| CallStatus {
            number: *number,
            operation: names(call.operation),
            age_ns: now.saturating_sub(call.since_ns),
        };
        open.calls.iter().map(status).collect()
    }

    fn note_oldest(&self, open: &OpenCalls) {
        let oldest = open.calls.keys().next().copied().unwrap_or(open.next);
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}

impl CallCompletion {
    /// Sets the result. The thread that removed the call from the open calls calls this once, and
    /// holds no lock.
    fn set(&self, result: Result<ErasedToken, CallError>) {
        let mut state = self.state.lock();
        state.is_done = true;
        if let Some(callback) = state.callback.take() {
            drop(state);
            // A panic must not end this thread, which serves other calls.
            if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
                tracing::error!("the callback for the result of a call panicked");
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

/// A started call, to be waited for, polled or awaited.
///
/// Dropping it does not stop the call.
#[must_use = "wait for the result"]
pub struct PendingCall<O> {
    completion: Arc<CallCompletion>,
    number: u64,
    kind: PhantomData<fn() -> O>,
}

impl<O: Token> PendingCall<O> {
    pub(crate) fn new(number: u64, completion: Arc<CallCompletion>) -> Self {
        Self { completion, number, kind: PhantomData }
    }

    /// Waits for the result.
    pub fn wait(self) -> Result<O, CallError> {
        let mut state = self.completion.state.lock();
        while !state.is_done {
            self.completion.done.wait(&mut state);
        }
        Self::take(&mut state)
    }

    /// Waits for the result for at most `timeout`; returns the pending call if it has not ended.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<O, CallError>, Self> {
        let deadline = Instant::now() + timeout;
        let mut state = self.completion.state.lock();
        while !state.is_done {
            if self.completion.done.wait_until(&mut state, deadline).timed_out() && !state.is_done {
                drop(state);
                return Err(self);
            }
        }
        Ok(Self::take(&mut state))
    }

    /// Returns whether the call has ended.
    pub fn is_done(&self) -> bool {
        self.completion.state.lock().is_done
    }

    fn take(state: &mut CompletionState) -> Result<O, CallError> {
        state.result.take().expect("a result is taken once").map(downcast)
    }
}

impl<O: Token> Future for PendingCall<O> {
    type Output = Result<O, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.completion.state.lock();
        if state.is_done {
            return Poll::Ready(Self::take(&mut state));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<O> std::fmt::Debug for PendingCall<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingCall {} for {}", self.number, type_name::<O>())
    }
}

/// The limit of aborted calls of an attached process since its oldest open call began.
const ABORTED_LIMIT: usize = 1 << 17;

/// The calls that have ended, as far as this process knows: it drops their tokens.
#[derive(Default)]
pub(crate) struct EndedCalls {
    /// Whether any call was ever aborted or lost; until then every token belongs to an open call.
    is_used: AtomicBool,
    origins: Mutex<Origins>,
}

/// The calling processes.
#[derive(Default)]
struct Origins {
    calls: HashMap<ProcessNumber, CallsOfOrigin>,
    /// The attached processes that have left: the first of each range of numbers, and the last.
    /// Ranges that touch are one, so there are at most as many as attached processes, and one more.
    left: BTreeMap<u32, u32>,
}

#[derive(Default)]
struct CallsOfOrigin {
    /// All calls before this number have ended.
    oldest: u64,
    /// Aborted calls from `oldest` on.
    aborted: BTreeSet<u64>,
    is_lost: bool,
}

impl EndedCalls {
    /// Notes that all calls of a process before `oldest` have ended.
    pub(crate) fn note_oldest(&self, origin: ProcessNumber, oldest: u64) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let mut origins = self.origins.lock();
        let Some(origin) = origins.calls_of(origin) else { return };
        if oldest > origin.oldest {
            origin.oldest = oldest;
            origin.aborted.retain(|number| *number >= oldest);
        }
    }

    pub(crate) fn abort(&self, origin: ProcessNumber, number: u64) {
        let is_attached = origin.is_attached();
        self.is_used.store(true, Ordering::Release);
        let mut origins = self.origins.lock();
        let Some(origin) = origins.calls_of(origin) else { return };
        if number >= origin.oldest {
            origin.aborted.insert(number);
        }
        // Above the limit of honest processes: drop all its calls.
        origin.is_lost |= is_attached && origin.aborted.len() > ABORTED_LIMIT;
    }

    pub(crate) fn mark_lost(&self, origin: ProcessNumber) {
        self.is_used.store(true, Ordering::Release);
        let mut origins = self.origins.lock();
        if origin.is_attached() {
            origins.leave(origin.0);
        } else if let Some(origin) = origins.calls_of(origin) {
            origin.is_lost = true;
        }
    }

    /// Whether an attached process has left.
    pub(crate) fn has_left(&self, process: ProcessNumber) -> bool {
        self.is_used.load(Ordering::Acquire) && self.origins.lock().has_left(process.0)
    }

    pub(crate) fn contains(&self, origin: ProcessNumber, number: u64) -> bool {
        if !self.is_used.load(Ordering::Acquire) {
            return false;
        }
        let origins = self.origins.lock();
        if origins.has_left(origin.0) {
            return true;
        }
        origins.calls.get(&origin).is_some_and(|origin| {
            origin.is_lost || number < origin.oldest || origin.aborted.contains(&number)
        })
    }
}

impl Origins {
    /// Returns the calls of a process; none if it has left.
    fn calls_of(&mut self, origin: ProcessNumber) -> Option<&mut CallsOfOrigin> {
        (!self.has_left(origin.0)).then(|| self.calls.entry(origin).or_default())
    }

    fn has_left(&self, process: u32) -> bool {
        self.left.range(..=process).next_back().is_some_and(|(_, last)| process <= *last)
    }

    /// Notes that an attached process has left.
    fn leave(&mut self, process: u32) {
        self.calls.remove(&ProcessNumber(process));
        if self.has_left(process) {
            return;
        }
        let before = self.left.range(..process).next_back().map(|(first, last)| (*first, *last));
        let first = match before {
            Some((first, last)) if last + 1 == process => first,
            _ => process,
        };
        let last = process.checked_add(1).and_then(|next| self.left.remove(&next));
        self.left.insert(first, last.unwrap_or(process));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_have_left_take_room_for_their_ranges_only() {
        let ended = EndedCalls::default();
        let first = ProcessNumber::FIRST_ATTACHED.0;
        // Every process but two leaves, in an order that is neither up nor down.
        let stays = [first + 300, first + 700];
        let leaves: Vec<u32> =
            (0..1000).map(|n| first + n * 7 % 1000).filter(|n| !stays.contains(n)).collect();
        for process in &leaves {
            ended.abort(ProcessNumber(*process), 5);
            assert!(!ended.contains(ProcessNumber(*process), 6));
            ended.mark_lost(ProcessNumber(*process));
            assert!(ended.contains(ProcessNumber(*process), 6));
            // A late message of its call takes no room.
            ended.abort(ProcessNumber(*process), 7);
        }
        assert!(leaves.iter().all(|process| ended.contains(ProcessNumber(*process), 0)));
        assert!(stays.iter().all(|process| !ended.contains(ProcessNumber(*process), 0)));
        let origins = ended.origins.lock();
        assert_eq!((origins.left.len(), origins.calls.len()), (3, 0));
    }
}
