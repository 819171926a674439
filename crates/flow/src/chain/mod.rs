//! The text of an operation: steps, written one after the other.
//!
//! A chain knows four types: the token that enters the operation, the token that leaves the last
//! step so far, where that step runs, and which splits are open. A step that does not fit does not
//! compile.

mod branching;
mod calling;
mod draft;
mod indices;
mod running;
mod splitting;

use std::marker::PhantomData;

pub use branching::Otherwise;
pub(crate) use draft::Draft;
pub use indices::IndexRanges;
pub use running::Successor;
pub use splitting::Branches;

use crate::place::Place;
use crate::schedule::Step;
use crate::token::Token;
use crate::window::Window;

/// An operation while it is being written: from `I` to `O`, standing at `T`, inside the splits `K`.
///
/// | step | what it is |
/// | --- | --- |
/// | [`on`](Self::on) | go to a thread |
/// | [`run`](Chain::run), [`try_run`](Chain::try_run), [`run_with`](Chain::run_with) | a function from token to token with the thread's state |
/// | [`run_async`](Chain::run_async) | a function that keeps the token and calls the successor later |
/// | [`map`](Chain::map) | a function that needs no state |
/// | [`when`](Chain::when), [`if_else`](Chain::if_else) | a body, or one of two, by a condition |
/// | [`repeat_while`](Chain::repeat_while), [`repeat`](Chain::repeat) | a body again and again |
/// | [`parallel`](Chain::parallel) | different bodies at the same time |
/// | [`split_while`](Chain::split_while) ... [`merge`](Chain::merge) | one body for every token split off |
/// | [`split_indexed`](Chain::split_indexed) ... [`merge_indexed`](Chain::merge_indexed) | one body for every index |
/// | [`call`](Self::call), [`call_adapted`](Chain::call_adapted) | another operation |
///
/// Who runs what: a `run` step runs on the thread of the `on` before it. Everything between (the
/// conditions, the split functions) runs on the thread that produced the token; an `on` in front
/// moves it elsewhere. Merge functions run on the merging thread.
#[must_use = "the operation is what the last step returns"]
pub struct Chain<I, O, T, K> {
    pub(crate) draft: Draft,
    #[expect(clippy::type_complexity, reason = "four marks")]
    marks: PhantomData<fn(I) -> (O, T, K)>,
}

/// The beginning of an operation: no thread has the token yet.
pub struct Start;
/// Some thread has the token; which one depends on the way it took.
pub struct Anywhere;
/// A thread with state `S` has the token.
pub struct At<S>(PhantomData<fn(S)>);
/// Outside of all splits.
pub struct Top;
/// Inside a split of a token `In`, itself inside `Outer`; its tokens are numbered over `R`.
pub struct Inside<Outer, In, R>(PhantomData<fn(Outer, In, R)>);
/// The tokens of a split have no indices.
pub struct NoIndices;

/// Some thread has the token.
#[diagnostic::on_unimplemented(
    message = "no thread has the token yet",
    label = "an operation begins with `.on(thread)`",
    note = "conditions and split functions run on the thread that has the token; begin with `.on(thread)` to say which"
)]
pub trait Somewhere {}
impl Somewhere for Anywhere {}
impl<S> Somewhere for At<S> {}

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// Goes to a thread: the steps that follow run there.
    pub fn on<P: Place<O>>(mut self, place: P) -> Chain<I, O, At<P::State>, K> {
        let site = place.site();
        self.draft.place = self.draft.label(&site);
        let name = self.draft.place.clone();
        self.draft.push::<O>(Step::Hop(site), name);
        self.into_other()
    }

    /// How many tokens of the split that follows may be under way; [`Window::automatic`] if
    /// nothing is said.
    pub fn window(mut self, window: Window) -> Self {
        self.draft.window = window;
        self
    }

    /// Gives the last step a name for messages, pictures and traces. Functions have their own
    /// name already; closures are called after their step.
    pub fn named(mut self, name: &str) -> Self {
        self.draft.rename_last(name);
        self
    }
}

impl<I, O, T, K> Chain<I, O, T, K> {
    pub(crate) fn start(draft: Draft) -> Self {
        Self { draft, marks: PhantomData }
    }

    pub(crate) fn finish(self) -> Draft {
        self.draft
    }

    pub(crate) fn into_other<I2, O2, T2, K2>(self) -> Chain<I2, O2, T2, K2> {
        Chain::start(self.draft)
    }
}
