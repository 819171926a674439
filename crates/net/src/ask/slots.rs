//! Questions under way, and those who wait for their answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use super::question::Body;
use crate::error::AskError;
use crate::waiter::{Waiter, Waiters};

/// What is done with an answer.
pub(crate) type Then<A> = Box<dyn FnOnce(Result<A, AskError>) + Send>;

/// All questions of an asker that were asked and whose answers were not taken.
pub(crate) struct Slots<A> {
    by_number: HashMap<u64, Slot<A>>,
    last: u64,
    /// The questions for whose answers threads wait.
    waited: Vec<u64>,
    /// Who is woken when answers come. While anybody waits there is one.
    watcher: Option<Arc<Waiter>>,
    /// Why there are no more answers.
    end: Option<AskError>,
    pub attendant: Attendant,
    /// How many questions nobody waits for, although something is to happen when they are answered.
    pub unattended: usize,
    /// What is to be called with which answer.
    pub ready: Vec<(Then<A>, Result<A, AskError>)>,
    /// Nobody asks any more.
    pub is_abandoned: bool,
}

pub(crate) enum Slot<A> {
    /// Nobody waits yet.
    Asked,
    /// A thread waits.
    Waited(Arc<Waiter>),
    /// A future waits.
    Awaited(Waker),
    /// Somebody is to be called.
    Then(Then<A>),
    Answered(Result<A, AskError>),
}

/// The thread that receives for futures and callbacks.
#[derive(Default)]
pub(crate) enum Attendant {
    /// There is none.
    #[default]
    Absent,
    /// It has something else to do, or sleeps.
    Idle,
    /// It waits for answers.
    Waiting(Arc<Waiter>),
}

/// Whom to wake, and what to drop, when no lock is held any more.
pub(crate) struct Woken<A> {
    pub waiters: Waiters,
    pub wakers: Vec<Waker>,
    /// Whether the attendant is to look at what there is to do.
    pub is_attendant_called: bool,
    pub unwanted: Vec<Body<A>>,
}

impl<A> Default for Woken<A> {
    fn default() -> Self {
        Self {
            waiters: Waiters::new(),
            wakers: Vec::new(),
            is_attendant_called: false,
            unwanted: Vec::new(),
        }
    }
}

impl<A> Slots<A> {
    pub fn new() -> Self {
        Self {
            by_number: HashMap::new(),
            last: 0,
            waited: Vec::new(),
            watcher: None,
            end: None,
            attendant: Attendant::Absent,
            unattended: 0,
            ready: Vec::new(),
            is_abandoned: false,
        }
    }

    /// Why nothing can be asked any more.
    pub fn end(&self) -> Option<&AskError> {
        self.end.as_ref()
    }

    pub fn add(&mut self, slot: Slot<A>) -> u64 {
        self.last += 1;
        if matches!(slot, Slot::Then(_)) {
            self.unattended += 1;
        }
        self.by_number.insert(self.last, slot);
        self.last
    }

    /// Forgets a question: what there was of it.
    pub fn remove(&mut self, number: u64, woken: &mut Woken<A>) -> Option<Slot<A>> {
        let slot = self.by_number.remove(&number)?;
        if matches!(slot, Slot::Then(_) | Slot::Awaited(_)) {
            self.attended(woken);
        }
        Some(slot)
    }

    /// The answer, once.
    pub fn take(&mut self, number: u64) -> Option<Result<A, AskError>> {
        if !self.is_answered(number) {
            return None;
        }
        match self.by_number.remove(&number) {
            Some(Slot::Answered(result)) => Some(result),
            _ => None,
        }
    }

    pub fn is_answered(&self, number: u64) -> bool {
        matches!(self.by_number.get(&number), Some(Slot::Answered(_)))
    }

    /// An answer came, or will never come.
    pub fn answer(
        &mut self,
        number: u64,
        body: Body<A>,
        result: impl FnOnce(Body<A>) -> Result<A, AskError>,
        woken: &mut Woken<A>,
    ) {
        match self.by_number.get_mut(&number) {
            // It was given up, or a peer answers what was not asked, or twice.
            None | Some(Slot::Answered(_)) => woken.unwanted.push(body),
            Some(slot) => match std::mem::replace(slot, Slot::Asked) {
                Slot::Then(then) => {
                    self.by_number.remove(&number);
                    self.attended(woken);
                    self.ready.push((then, result(body)));
                    woken.is_attendant_called = true;
                }
                was => {
                    *slot = Slot::Answered(result(body));
                    match was {
                        Slot::Waited(waiter) => woken.waiters.add(&waiter),
                        Slot::Awaited(waker) => {
                            woken.wakers.push(waker);
                            self.attended(woken);
                        }
                        _ => {}
                    }
                }
            },
        }
    }

    /// There will be no more answers. What was said first stays.
    pub fn end_with(&mut self, error: AskError, woken: &mut Woken<A>) {
        if self.end.is_some() {
            return;
        }
        let numbers: Vec<u64> = self.by_number.keys().copied().collect();
        for number in numbers {
            if !self.is_answered(number) {
                self.answer(number, Body::Dropped, |_| Err(error.clone()), woken);
            }
        }
        self.end = Some(error);
    }

    /// One question less is unattended.
    fn attended(&mut self, woken: &mut Woken<A>) {
        self.unattended -= 1;
        woken.is_attendant_called |= self.unattended == 0;
    }

    /// A thread waits for this answer.
    pub fn wait(&mut self, number: u64, waiter: &Arc<Waiter>, woken: &mut Woken<A>) {
        let Some(slot) = self.by_number.get_mut(&number) else { return };
        match std::mem::replace(slot, Slot::Waited(waiter.clone())) {
            Slot::Waited(_) => return,
            Slot::Awaited(_) => self.attended(woken),
            _ => {}
        }
        self.waited.push(number);
    }

    /// A thread waits for this answer no more.
    pub fn leave(&mut self, number: u64) {
        if let Some(place) = self.waited.iter().position(|known| *known == number) {
            self.waited.remove(place);
        }
        if let Some(slot @ Slot::Waited(_)) = self.by_number.get_mut(&number) {
            *slot = Slot::Asked;
        }
    }

    /// A future waits for this answer: whether this is new.
    pub fn wait_with(&mut self, number: u64, waker: &Waker) -> bool {
        let Some(slot) = self.by_number.get_mut(&number) else { return false };
        match slot {
            Slot::Awaited(known) => {
                known.clone_from(waker);
                false
            }
            _ => {
                *slot = Slot::Awaited(waker.clone());
                self.unattended += 1;
                true
            }
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

    /// A thread does not wait any more. If it was the one to be woken, another one is to be.
    pub fn unwatch(&mut self, waiter: &Arc<Waiter>, woken: &mut Woken<A>) {
        if !self.watcher.as_ref().is_some_and(|known| Arc::ptr_eq(known, waiter)) {
            return;
        }
        self.watcher = None;
        let next = self.waited.iter().find_map(|number| match self.by_number.get(number) {
            Some(Slot::Waited(other)) if !Arc::ptr_eq(other, waiter) => Some(other),
            _ => None,
        });
        match (next, &self.attendant) {
            (Some(next), _) => woken.waiters.add(next),
            (None, Attendant::Waiting(next)) if !Arc::ptr_eq(next, waiter) => {
                woken.waiters.add(next);
            }
            _ => {}
        }
    }
}
