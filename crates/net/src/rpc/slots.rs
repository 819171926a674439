//! The requests of a client that are under way, and the waiters for their replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use super::message::ReplyBody;
use crate::error::RpcError;
use crate::waiter::{Waiter, Waiters};

/// A callback for a reply.
pub(crate) type ReplyCallback<R> = Box<dyn FnOnce(Result<R, RpcError>) + Send>;

/// A number that no request has.
pub(crate) const NO_REQUEST: u64 = 0;

/// All requests of a client whose replies were not taken yet.
pub(crate) struct ReplySlots<R> {
    by_number: HashMap<u64, ReplySlot<R>>,
    last_number: u64,
    /// The requests for whose replies threads wait.
    awaited_by_threads: Vec<u64>,
    /// The thread to wake when replies come. There is one whenever any thread waits.
    watcher: Option<Arc<Waiter>>,
    /// Why no more replies come.
    end: Option<RpcError>,
    pub callback_thread: CallbackThread,
    /// The number of requests that have a future or a callback, but no waiting thread.
    pub unattended: usize,
    /// Callbacks to be called, with their replies.
    pub ready: Vec<(ReplyCallback<R>, Result<R, RpcError>)>,
    /// No client is left that could send requests.
    pub is_abandoned: bool,
}

pub(crate) enum ReplySlot<R> {
    /// No thread, future or callback waits yet.
    Unwatched,
    Thread(Arc<Waiter>),
    Future(Waker),
    Callback(ReplyCallback<R>),
    Finished(Result<R, RpcError>),
}

/// The thread that receives for futures and callbacks.
#[derive(Default)]
pub(crate) enum CallbackThread {
    #[default]
    Absent,
    /// It runs callbacks, or sleeps.
    Idle,
    /// It waits for replies.
    Waiting(Arc<Waiter>),
}

/// Waiters to wake and replies to drop after all locks are released.
pub(crate) struct Wakeups<R> {
    pub waiters: Waiters,
    pub wakers: Vec<Waker>,
    /// Whether to wake the callback thread.
    pub wakes_callback_thread: bool,
    pub unwanted: Vec<ReplyBody<R>>,
}

impl<R> Default for Wakeups<R> {
    fn default() -> Self {
        Self {
            waiters: Waiters::new(),
            wakers: Vec::new(),
            wakes_callback_thread: false,
            unwanted: Vec::new(),
        }
    }
}

impl<R> ReplySlots<R> {
    pub fn new() -> Self {
        Self {
            by_number: HashMap::new(),
            last_number: NO_REQUEST,
            awaited_by_threads: Vec::new(),
            watcher: None,
            end: None,
            callback_thread: CallbackThread::Absent,
            unattended: 0,
            ready: Vec::new(),
            is_abandoned: false,
        }
    }

    /// Why no more requests can be sent.
    pub fn end(&self) -> Option<&RpcError> {
        self.end.as_ref()
    }

    /// Adds a request for whose reply nothing waits yet.
    pub fn add(&mut self) -> u64 {
        self.last_number += 1;
        self.by_number.insert(self.last_number, ReplySlot::Unwatched);
        self.last_number
    }

    /// Forgets a request and returns its slot.
    pub fn remove(&mut self, number: u64, wakeups: &mut Wakeups<R>) -> Option<ReplySlot<R>> {
        let slot = self.by_number.remove(&number)?;
        if matches!(slot, ReplySlot::Callback(_) | ReplySlot::Future(_)) {
            self.count_attended(wakeups);
        }
        Some(slot)
    }

    /// Takes the reply, once.
    pub fn take(&mut self, number: u64) -> Option<Result<R, RpcError>> {
        if !self.is_finished(number) {
            return None;
        }
        match self.by_number.remove(&number) {
            Some(ReplySlot::Finished(result)) => Some(result),
            _ => None,
        }
    }

    pub fn is_finished(&self, number: u64) -> bool {
        matches!(self.by_number.get(&number), Some(ReplySlot::Finished(_)))
    }

    /// Puts a reply, or the error that ends its request, into its slot.
    pub fn finish(
        &mut self,
        number: u64,
        body: ReplyBody<R>,
        result: impl FnOnce(ReplyBody<R>) -> Result<R, RpcError>,
        wakeups: &mut Wakeups<R>,
    ) {
        match self.by_number.get_mut(&number) {
            // The request was given up, was never sent, or has its reply already.
            None | Some(ReplySlot::Finished(_)) => wakeups.unwanted.push(body),
            Some(slot) => match std::mem::replace(slot, ReplySlot::Unwatched) {
                ReplySlot::Callback(callback) => {
                    self.by_number.remove(&number);
                    self.count_attended(wakeups);
                    self.ready.push((callback, result(body)));
                    wakeups.wakes_callback_thread = true;
                }
                before => {
                    *slot = ReplySlot::Finished(result(body));
                    match before {
                        ReplySlot::Thread(waiter) => wakeups.waiters.add(&waiter),
                        ReplySlot::Future(waker) => {
                            wakeups.wakers.push(waker);
                            self.count_attended(wakeups);
                        }
                        _ => {}
                    }
                }
            },
        }
    }

    /// Ends all requests with an error, because no more replies come. The first error stays.
    pub fn end_with(&mut self, error: RpcError, wakeups: &mut Wakeups<R>) {
        if self.end.is_some() {
            return;
        }
        let numbers: Vec<u64> = self.by_number.keys().copied().collect();
        for number in numbers {
            if !self.is_finished(number) {
                self.finish(number, ReplyBody::Dropped, |_| Err(error.clone()), wakeups);
            }
        }
        self.end = Some(error);
    }

    /// Counts one unattended request less.
    fn count_attended(&mut self, wakeups: &mut Wakeups<R>) {
        self.unattended -= 1;
        wakeups.wakes_callback_thread |= self.unattended == 0;
    }

    /// Registers a thread that waits for this reply.
    pub fn wait(&mut self, number: u64, waiter: &Arc<Waiter>, wakeups: &mut Wakeups<R>) {
        let Some(slot) = self.by_number.get_mut(&number) else { return };
        match std::mem::replace(slot, ReplySlot::Thread(waiter.clone())) {
            ReplySlot::Thread(_) => return,
            ReplySlot::Future(_) => self.count_attended(wakeups),
            _ => {}
        }
        self.awaited_by_threads.push(number);
    }

    /// Removes the thread that waited for this reply.
    pub fn stop_waiting(&mut self, number: u64) {
        if let Some(index) = self.awaited_by_threads.iter().position(|known| *known == number) {
            self.awaited_by_threads.remove(index);
        }
        if let Some(slot @ ReplySlot::Thread(_)) = self.by_number.get_mut(&number) {
            *slot = ReplySlot::Unwatched;
        }
    }

    /// Registers a future that waits for this reply. Returns whether this is new.
    pub fn wait_with(&mut self, number: u64, waker: &Waker) -> bool {
        let Some(slot) = self.by_number.get_mut(&number) else { return false };
        match slot {
            ReplySlot::Future(known) => {
                known.clone_from(waker);
                false
            }
            _ => {
                *slot = ReplySlot::Future(waker.clone());
                self.unattended += 1;
                true
            }
        }
    }

    /// Registers a callback for this reply.
    pub fn call_back(&mut self, number: u64, callback: ReplyCallback<R>) {
        if let Some(result) = self.take(number) {
            return self.ready.push((callback, result));
        }
        let before = self.by_number.insert(number, ReplySlot::Callback(callback));
        if !matches!(before, Some(ReplySlot::Future(_))) {
            self.unattended += 1;
        }
    }

    pub fn is_watched_by_another(&self, waiter: &Arc<Waiter>) -> bool {
        self.watcher.as_ref().is_some_and(|known| !Arc::ptr_eq(known, waiter))
    }

    pub fn watch(&mut self, waiter: &Arc<Waiter>) {
        if !self.watcher.as_ref().is_some_and(|known| Arc::ptr_eq(known, waiter)) {
            self.watcher = Some(waiter.clone());
        }
    }

    /// Removes a thread that waits no more. If it was the watcher, wakes another thread.
    pub fn unwatch(&mut self, waiter: &Arc<Waiter>, wakeups: &mut Wakeups<R>) {
        if !self.watcher.as_ref().is_some_and(|known| Arc::ptr_eq(known, waiter)) {
            return;
        }
        self.watcher = None;
        let next =
            self.awaited_by_threads.iter().find_map(|number| match self.by_number.get(number) {
                Some(ReplySlot::Thread(other)) if !Arc::ptr_eq(other, waiter) => Some(other),
                _ => None,
            });
        match (next, &self.callback_thread) {
            (Some(next), _) => wakeups.waiters.add(next),
            (None, CallbackThread::Waiting(next)) if !Arc::ptr_eq(next, waiter) => {
                wakeups.waiters.add(next);
            }
            _ => {}
        }
    }
}
