//! Where a step runs: a thread, a thread of a pool chosen by the token, or the first that is free.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::token::{Parcel, Token, peek};

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

    /// The thread whose number `choose` computes from the token. A number the pool does not have
    /// fails the call.
    pub fn at<O: Token>(
        self,
        choose: impl Fn(&O) -> usize + Send + Sync + 'static,
    ) -> PoolAt<S, O> {
        self.at_indexed(move |token, _| choose(token))
    }

    /// Like [`at`](Self::at), with the indices of the loops and indexed splits around the step,
    /// outermost first.
    pub fn at_indexed<O: Token>(
        self,
        choose: impl Fn(&O, &[u64]) -> usize + Send + Sync + 'static,
    ) -> PoolAt<S, O> {
        let choose = move |parcel: &Parcel, indices: &[u64]| choose(peek::<O>(parcel), indices);
        PoolAt { slot: self.slot, choose: Arc::new(choose), kind: PhantomData }
    }

    /// Always the same thread of the pool.
    pub fn thread(self, index: usize) -> PoolThread<S> {
        PoolThread { slot: self.slot, index, state: PhantomData }
    }

    /// Whichever thread of the pool is free first: tokens wait where they are chosen for, and each
    /// thread that has finished gets the next. Use it where jobs differ in length or machines in
    /// speed.
    pub fn any(self) -> PoolAny<S> {
        PoolAny { slot: self.slot, state: PhantomData }
    }
}

/// A thread of a pool, chosen by the token; see [`PoolRef::at`].
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

/// Where a step with a token of type `O` can run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a place for a token of type `{O}`",
    label = "cannot choose a thread here",
    note = "a place is a thread, or a pool with `.at(|token: &{O}| index)`, `.thread(index)` or `.any()`"
)]
pub trait Place<O> {
    /// The state of the threads there.
    type State: 'static;

    #[doc(hidden)]
    fn site(self) -> Site;
}

impl<S: 'static, O> Place<O> for ThreadRef<S> {
    type State = S;
    fn site(self) -> Site {
        Site { slot: self.slot, choice: Choice::Index(0) }
    }
}

impl<S: 'static, O> Place<O> for PoolThread<S> {
    type State = S;
    fn site(self) -> Site {
        Site { slot: self.slot, choice: Choice::Index(self.index) }
    }
}

impl<S: 'static, O> Place<O> for PoolAt<S, O> {
    type State = S;
    fn site(self) -> Site {
        Site { slot: self.slot, choice: Choice::Computed(self.choose) }
    }
}

impl<S: 'static, O> Place<O> for PoolAny<S> {
    type State = S;
    fn site(self) -> Site {
        Site { slot: self.slot, choice: Choice::Any }
    }
}

type Choose = Arc<dyn Fn(&Parcel, &[u64]) -> usize + Send + Sync>;

/// A place without its types.
#[doc(hidden)]
#[derive(Clone)]
pub struct Site {
    pub(crate) slot: usize,
    pub(crate) choice: Choice,
}

#[derive(Clone)]
pub(crate) enum Choice {
    Index(usize),
    Computed(Choose),
    Any,
}

impl Site {
    /// How the site is called in pictures and messages.
    pub(crate) fn label(&self, slot_name: &str, is_pool: bool) -> String {
        match &self.choice {
            Choice::Index(_) if !is_pool => slot_name.to_owned(),
            Choice::Index(index) => format!("{slot_name}[{index}]"),
            Choice::Computed(_) => format!("{slot_name}[·]"),
            Choice::Any => format!("{slot_name}[any]"),
        }
    }
}
