//! The chain: the builder of an operation, one method per construct.
//!
//! A chain has four type parameters: the token that enters the operation, the token that leaves the
//! last step so far, the thread of that step, and the open splits. A step that does not fit does
//! not compile.

mod branching;
mod calling;
mod draft;
mod indices;
mod running;
mod splitting;

use std::marker::PhantomData;

pub(crate) use draft::ScheduleDraft;
pub use indices::IndexRanges;
pub use running::Continuation;
pub use splitting::Branches;

use crate::schedule::StepAction;
use crate::thread_selector::ThreadSelector;
use crate::token::Token;
use crate::window::Window;

/// The builder of an operation from `I` to `O`. `T` says which thread has the token after the last
/// step, `K` which splits are open.
///
/// | step | meaning |
/// | --- | --- |
/// | [`on`](Self::on) | move to a thread |
/// | [`run`](Chain::run), [`try_run`](Chain::try_run), [`run_with`](Chain::run_with) | a function from token to token with the thread's state |
/// | [`run_async`](Chain::run_async) | a function that keeps the token and calls the continuation later |
/// | [`map`](Chain::map) | a function that needs no state |
/// | [`when`](Chain::when), [`if_else`](Chain::if_else) | a body, or one of two, by a condition |
/// | [`repeat_while`](Chain::repeat_while), [`repeat`](Chain::repeat) | a repeated body |
/// | [`parallel`](Chain::parallel) | different bodies at the same time |
/// | [`split_while`](Chain::split_while) ... [`merge`](Chain::merge) | one body for every token split off |
/// | [`split_indexed`](Chain::split_indexed) ... [`merge_indexed`](Chain::merge_indexed) | one body for every index |
/// | [`call`](Self::call), [`call_adapted`](Chain::call_adapted) | another operation |
///
/// A `run` step runs on the thread of the `on` before it. Conditions, split functions and `map`
/// functions run on the thread that has the token: the thread that produced it, or the thread of a
/// later `on`. Merge functions run on the merging thread.
#[must_use = "the operation is what the last step returns"]
pub struct Chain<I, O, T, K> {
    pub(crate) draft: ScheduleDraft,
    #[expect(clippy::type_complexity, reason = "four marks")]
    marks: PhantomData<fn(I) -> (O, T, K)>,
}

/// No thread has the token: the operation begins here.
pub struct NoThread;
/// A thread has the token; which one depends on the branch that the token took.
pub struct AnyThread;
/// A thread with state `S` has the token.
pub struct OnThread<S>(PhantomData<fn(S)>);
/// Outside of all splits.
pub struct TopLevel;
/// Between a split of a token `In` and its merge, itself inside `Outer`; `R` are the index ranges.
pub struct InSplit<Outer, In, R>(PhantomData<fn(Outer, In, R)>);
/// The tokens of a split have no indices.
pub struct NoIndices;

/// Implemented where a thread has the token.
#[diagnostic::on_unimplemented(
    message = "no thread has the token yet",
    label = "an operation begins with `.on(thread)`",
    note = "conditions and split functions run on the thread that has the token; begin with `.on(thread)` to say which"
)]
pub trait HasThread {}
impl HasThread for AnyThread {}
impl<S> HasThread for OnThread<S> {}

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// Moves the token to a thread: the following steps run there.
    pub fn on<P: ThreadSelector<O>>(mut self, thread: P) -> Chain<I, O, OnThread<P::State>, K> {
        let selection = thread.selection();
        self.draft.thread = self.draft.label(&selection);
        let name = self.draft.thread.clone();
        self.draft.push::<O>(StepAction::Hop(selection), name);
        self.into_other()
    }

    /// Sets the window of the next split: the limit of its tokens under way. The default is
    /// [`Window::automatic`].
    pub fn window(mut self, window: Window) -> Self {
        self.draft.window = window;
        self
    }

    /// Names the last step for messages, pictures and traces. Without it, a step has the name of
    /// its function, or for a closure the name of the construct.
    pub fn named(mut self, name: &str) -> Self {
        self.draft.rename_last(name);
        self
    }
}

impl<I, O, T, K> Chain<I, O, T, K> {
    pub(crate) fn start(draft: ScheduleDraft) -> Self {
        Self { draft, marks: PhantomData }
    }

    pub(crate) fn finish(self) -> ScheduleDraft {
        self.draft
    }

    pub(crate) fn into_other<I2, O2, T2, K2>(self) -> Chain<I2, O2, T2, K2> {
        Chain::start(self.draft)
    }
}
