//! Selecting the thread of a step: a named thread, a thread of a pool computed from the token, or
//! the first free thread of a pool.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::token::{ErasedToken, Token, downcast_ref};

/// A thread of a program, with a state of type `S`.
pub struct ThreadRef<S> {
    pub(crate) slot: usize,
    state: PhantomData<fn(S)>,
}

/// A pool of threads of a program, each with a state of type `S`.
pub struct PoolRef<S> {
    pub(crate) slot: usize,
    state: PhantomData<fn(S)>,
}

impl<S> Clone for ThreadRef<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for ThreadRef<S> {}
impl<S> Clone for PoolRef<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for PoolRef<S> {}

impl<S> ThreadRef<S> {
    pub(crate) fn new(slot: usize) -> Self {
        Self { slot, state: PhantomData }
    }
}

impl<S> PoolRef<S> {
    pub(crate) fn new(slot: usize) -> Self {
        Self { slot, state: PhantomData }
    }

    /// Selects the thread whose number `choose` computes from the token. A number that the pool
    /// does not have fails the call.
    pub fn at<O: Token>(
        self,
        choose: impl Fn(&O) -> usize + Send + Sync + 'static,
    ) -> PoolAt<S, O> {
        self.at_indexed(move |token, _| choose(token))
    }

    /// Like [`at`](Self::at); `choose` also receives the indices of the loops and indexed splits
    /// around the step, outermost first.
    pub fn at_indexed<O: Token>(
        self,
        choose: impl Fn(&O, &[u64]) -> usize + Send + Sync + 'static,
    ) -> PoolAt<S, O> {
        let choose =
            move |token: &ErasedToken, indices: &[u64]| choose(downcast_ref::<O>(token), indices);
        PoolAt { slot: self.slot, choose: Arc::new(choose), kind: PhantomData }
    }

    /// Always selects the same thread of the pool.
    pub fn thread(self, index: usize) -> PoolThread<S> {
        PoolThread { slot: self.slot, index, state: PhantomData }
    }

    /// Selects the first free thread of the pool: tokens wait in the sending process, and each
    /// thread that finishes a token receives the next. Use it where tokens differ in cost or
    /// machines in speed.
    pub fn any(self) -> PoolAny<S> {
        PoolAny { slot: self.slot, state: PhantomData }
    }
}

/// A thread of a pool, computed from the token; see [`PoolRef::at`].
pub struct PoolAt<S, O> {
    slot: usize,
    choose: Choose,
    kind: PhantomData<fn(S, O)>,
}

/// One thread of a pool; see [`PoolRef::thread`].
pub struct PoolThread<S> {
    slot: usize,
    index: usize,
    state: PhantomData<fn(S)>,
}

/// The first free thread of a pool; see [`PoolRef::any`].
pub struct PoolAny<S> {
    slot: usize,
    state: PhantomData<fn(S)>,
}

/// Selects the thread that runs a step with a token of type `O`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not select a thread for a token of type `{O}`",
    label = "cannot choose a thread here",
    note = "give a thread, or a pool with `.at(|token: &{O}| index)`, `.thread(index)` or `.any()`"
)]
pub trait ThreadSelector<O> {
    /// The state of the selected threads.
    type State: 'static;

    #[doc(hidden)]
    fn selection(self) -> ThreadSelection;
}

impl<S: 'static, O> ThreadSelector<O> for ThreadRef<S> {
    type State = S;
    fn selection(self) -> ThreadSelection {
        ThreadSelection { slot: self.slot, choice: PoolChoice::Index(0) }
    }
}

impl<S: 'static, O> ThreadSelector<O> for PoolThread<S> {
    type State = S;
    fn selection(self) -> ThreadSelection {
        ThreadSelection { slot: self.slot, choice: PoolChoice::Index(self.index) }
    }
}

impl<S: 'static, O> ThreadSelector<O> for PoolAt<S, O> {
    type State = S;
    fn selection(self) -> ThreadSelection {
        ThreadSelection { slot: self.slot, choice: PoolChoice::Computed(self.choose) }
    }
}

impl<S: 'static, O> ThreadSelector<O> for PoolAny<S> {
    type State = S;
    fn selection(self) -> ThreadSelection {
        ThreadSelection { slot: self.slot, choice: PoolChoice::Any }
    }
}

type Choose = Arc<dyn Fn(&ErasedToken, &[u64]) -> usize + Send + Sync>;

/// A [`ThreadSelector`] without its types.
#[doc(hidden)]
#[derive(Clone)]
pub struct ThreadSelection {
    pub(crate) slot: usize,
    pub(crate) choice: PoolChoice,
}

/// Which thread of a slot.
#[derive(Clone)]
pub(crate) enum PoolChoice {
    Index(usize),
    Computed(Choose),
    Any,
}

impl ThreadSelection {
    /// Returns the text for pictures and messages.
    pub(crate) fn label(&self, slot_name: &str, is_pool: bool) -> String {
        match &self.choice {
            PoolChoice::Index(_) if !is_pool => slot_name.to_owned(),
            PoolChoice::Index(index) => format!("{slot_name}[{index}]"),
            PoolChoice::Computed(_) => format!("{slot_name}[·]"),
            PoolChoice::Any => format!("{slot_name}[any]"),
        }
    }
}
