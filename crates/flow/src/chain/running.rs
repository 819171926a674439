//! Steps that run a function.

use std::any::{Any, type_name};
use std::fmt::Display;
use std::marker::PhantomData;

use super::{At, Chain, Somewhere};
use crate::graph::{RunKind, Shape};
use crate::runtime::RawSuccessor;
use crate::schedule::{Context, Step};
use crate::token::{Parcel, Token, function_name, open, short_name};

impl<I, O: Token, S: 'static, K> Chain<I, O, At<S>, K> {
    /// Runs a function with the state of the thread.
    pub fn run<O2: Token>(
        self,
        function: impl Fn(&mut S, O) -> O2 + Send + Sync + 'static,
    ) -> Chain<I, O2, At<S>, K> {
        let name = name_of(&function, "run");
        self.add_run(name, move |state, token, _| Ok::<_, String>(function(state, token)))
    }

    /// Runs a function with the state of the thread; an error fails the call.
    pub fn try_run<O2: Token, E: Display>(
        self,
        function: impl Fn(&mut S, O) -> Result<O2, E> + Send + Sync + 'static,
    ) -> Chain<I, O2, At<S>, K> {
        let name = name_of(&function, "run");
        self.add_run(name, move |state, token, _| function(state, token))
    }

    /// Runs a function that is also told where it runs and for which indices; an error fails the
    /// call.
    pub fn run_with<O2: Token, E: Display>(
        self,
        function: impl Fn(&mut S, O, &Context<'_>) -> Result<O2, E> + Send + Sync + 'static,
    ) -> Chain<I, O2, At<S>, K> {
        let name = name_of(&function, "run");
        self.add_run(name, move |state, token, context| {
            function(state, token, context).map_err(|error| error.to_string())
        })
    }

    /// Starts something: the function returns at once, the thread goes on with other tokens, and
    /// whoever has the [`Successor`] calls it when the new token is there, from any thread.
    pub fn run_async<O2: Token>(
        mut self,
        function: impl Fn(&mut S, O, Successor<O2>) + Send + Sync + 'static,
    ) -> Chain<I, O2, At<S>, K> {
        let name = name_of(&function, "start");
        let step = move |state: &mut dyn Any, parcel: Parcel, raw: RawSuccessor| {
            function(state_of(state), open(parcel), Successor { raw, kind: PhantomData });
        };
        self.draw::<O2>(&name, RunKind::Asynchronous);
        self.draft.push::<O>(Step::Start(Box::new(step)), name);
        self.into_other()
    }

    fn add_run<O2: Token, E: Display>(
        mut self,
        name: String,
        function: impl Fn(&mut S, O, &Context<'_>) -> Result<O2, E> + Send + Sync + 'static,
    ) -> Chain<I, O2, At<S>, K> {
        let step = move |state: &mut dyn Any, parcel: Parcel, context: &Context<'_>| match function(
            state_of(state),
            open(parcel),
            context,
        ) {
            Ok(token) => Ok(Box::new(token) as Parcel),
            Err(error) => Err(error.to_string()),
        };
        self.draw::<O2>(&name, RunKind::Waiting);
        self.draft.push::<O>(Step::Run(Box::new(step)), name);
        self.into_other()
    }
}

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// Makes another token of the token, on the thread that has it.
    pub fn map<O2: Token>(
        mut self,
        function: impl Fn(O) -> O2 + Send + Sync + 'static,
    ) -> Chain<I, O2, T, K>
    where
        T: Somewhere,
    {
        let name = name_of(&function, "map");
        self.draw::<O2>(&name, RunKind::Inline);
        let step = move |parcel: Parcel| Box::new(function(open(parcel))) as Parcel;
        self.draft.push::<O>(Step::Map(Box::new(step)), name);
        self.into_other()
    }
}

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    fn draw<O2>(&mut self, name: &str, kind: RunKind) {
        let place = self.draft.place.clone();
        let output = short_name(type_name::<O2>());
        self.draft.add_shape(Shape::Run { name: name.to_owned(), place, output, kind });
    }
}

/// What goes on when an asynchronous step has its token: see [`Chain::run_async`].
///
/// It can be sent to any thread. Dropping it without a call fails the call it belongs to.
#[must_use = "the call waits until the successor is called"]
pub struct Successor<O> {
    raw: RawSuccessor,
    kind: PhantomData<fn(O)>,
}

impl<O: Token> Successor<O> {
    /// Goes on with `token`.
    pub fn call(self, token: O) {
        self.raw.call(Box::new(token));
    }

    /// Fails the call.
    pub fn fail(self, error: impl Display) {
        self.raw.fail(error.to_string());
    }

    /// Goes on with the token, or fails the call.
    pub fn complete<E: Display>(self, result: Result<O, E>) {
        match result {
            Ok(token) => self.call(token),
            Err(error) => self.fail(error),
        }
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
