//! Steps that call a function: run, try-run, run-with, run-async, map.

use std::any::{Any, type_name};
use std::fmt::Display;
use std::marker::PhantomData;

use super::{Chain, HasThread, OnThread};
use crate::graph::{GraphShape, RunKind};
use crate::runtime::ErasedContinuation;
use crate::schedule::{StepAction, StepContext};
use crate::token::{ErasedToken, Token, downcast, function_name, short_name};

impl<I, O: Token, S: 'static, K> Chain<I, O, OnThread<S>, K> {
    /// Runs a function with the state of the thread.
    pub fn run<O2: Token>(
        self,
        function: impl Fn(&mut S, O) -> O2 + Send + Sync + 'static,
    ) -> Chain<I, O2, OnThread<S>, K> {
        let name = name_of(&function, "run");
        self.add_run(name, move |state, token, _| Ok::<_, String>(function(state, token)))
    }

    /// Runs a function with the state of the thread; its error fails the call.
    pub fn try_run<O2: Token, E: Display>(
        self,
        function: impl Fn(&mut S, O) -> Result<O2, E> + Send + Sync + 'static,
    ) -> Chain<I, O2, OnThread<S>, K> {
        let name = name_of(&function, "run");
        self.add_run(name, move |state, token, _| function(state, token))
    }

    /// Like [`try_run`](Self::try_run); the function also receives its thread and the indices of
    /// the loops around it.
    pub fn run_with<O2: Token, E: Display>(
        self,
        function: impl Fn(&mut S, O, &StepContext<'_>) -> Result<O2, E> + Send + Sync + 'static,
    ) -> Chain<I, O2, OnThread<S>, K> {
        let name = name_of(&function, "run");
        self.add_run(name, move |state, token, context| {
            function(state, token, context).map_err(|error| error.to_string())
        })
    }

    /// Runs a function that starts work and returns at once; the thread continues with other
    /// tokens. The function passes the [`Continuation`] on; its holder calls it with the new token,
    /// once, from any thread.
    pub fn run_async<O2: Token>(
        mut self,
        function: impl Fn(&mut S, O, Continuation<O2>) + Send + Sync + 'static,
    ) -> Chain<I, O2, OnThread<S>, K> {
        let name = name_of(&function, "start");
        let step = move |state: &mut dyn Any, token: ErasedToken, raw: ErasedContinuation| {
            function(state_of(state), downcast(token), Continuation { raw, kind: PhantomData });
        };
        self.draw::<O2>(&name, RunKind::Asynchronous);
        self.draft.push::<O>(StepAction::RunAsync(Box::new(step)), name);
        self.into_other()
    }

    fn add_run<O2: Token, E: Display>(
        mut self,
        name: String,
        function: impl Fn(&mut S, O, &StepContext<'_>) -> Result<O2, E> + Send + Sync + 'static,
    ) -> Chain<I, O2, OnThread<S>, K> {
        let step = move |state: &mut dyn Any, token: ErasedToken, context: &StepContext<'_>| {
            match function(state_of(state), downcast(token), context) {
                Ok(token) => Ok(Box::new(token) as ErasedToken),
                Err(error) => Err(error.to_string()),
            }
        };
        self.draw::<O2>(&name, RunKind::Synchronous);
        self.draft.push::<O>(StepAction::Run(Box::new(step)), name);
        self.into_other()
    }
}

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// Calls a function without state on the thread that has the token.
    pub fn map<O2: Token>(
        mut self,
        function: impl Fn(O) -> O2 + Send + Sync + 'static,
    ) -> Chain<I, O2, T, K>
    where
        T: HasThread,
    {
        let name = name_of(&function, "map");
        self.draw::<O2>(&name, RunKind::Inline);
        let step = move |token: ErasedToken| Box::new(function(downcast(token))) as ErasedToken;
        self.draft.push::<O>(StepAction::Map(Box::new(step)), name);
        self.into_other()
    }
}

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    fn draw<O2>(&mut self, name: &str, kind: RunKind) {
        let thread = self.draft.thread.clone();
        let output = short_name(type_name::<O2>());
        self.draft.add_shape(GraphShape::Run { name: name.to_owned(), thread, output, kind });
    }
}

/// The rest of the schedule after an asynchronous step; see [`Chain::run_async`].
///
/// It can be sent to any thread. If it is dropped, the call of the operation fails.
#[must_use = "the call waits until the continuation is called"]
pub struct Continuation<O> {
    raw: ErasedContinuation,
    kind: PhantomData<fn(O)>,
}

impl<O: Token> Continuation<O> {
    /// Continues the schedule with `token`.
    pub fn call(self, token: O) {
        self.raw.call(Box::new(token));
    }

    /// Fails the call of the operation.
    pub fn fail(self, error: impl Display) {
        self.raw.fail(error.to_string());
    }
}

fn state_of<S: 'static>(state: &mut dyn Any) -> &mut S {
    state.downcast_mut().unwrap_or_else(|| {
        unreachable!("a step ran on a thread whose state is not a {}", type_name::<S>())
    })
}

pub(crate) fn name_of<F>(_: &F, fallback: &str) -> String {
    function_name::<F>(fallback)
}
