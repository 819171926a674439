//! Operations with a result per extent.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Call, Operation, Outcome, Scratch, Seen, Task};

/// An operation that has a result for each extent; made by [`each`].
pub struct Each<P, R, E, F> {
    function: Arc<F>,
    types: PhantomData<fn(P) -> Result<R, E>>,
}

/// An operation that makes a result of the parameters and an extent.
pub fn each<P, R, E, F>(function: F) -> Each<P, R, E, F>
where
    F: Fn(&P, &Seen<'_>) -> Result<R, E> + Send + Sync + 'static,
{
    Each { function: Arc::new(function), types: PhantomData }
}

struct EachTask<P, R, E, F> {
    parameters: P,
    function: Arc<F>,
    types: PhantomData<fn() -> Result<R, E>>,
}

impl<P, R, E, F> Operation for Each<P, R, E, F>
where
    P: DeserializeOwned + Send + Sync + 'static,
    R: Serialize + 'static,
    E: Display + 'static,
    F: Fn(&P, &Seen<'_>) -> Result<R, E> + Send + Sync + 'static,
{
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let function = self.function.clone();
        Ok(Box::new(EachTask { parameters: call.decode::<P>()?, function, types: PhantomData }))
    }
}

impl<P, R, E, F> Task for EachTask<P, R, E, F>
where
    P: Send + Sync,
    R: Serialize,
    E: Display,
    F: Fn(&P, &Seen<'_>) -> Result<R, E> + Send + Sync,
{
    fn see(&self, seen: &Seen<'_>, _: &mut Scratch) -> Result<Outcome, String> {
        let result = (self.function)(&self.parameters, seen).map_err(|error| error.to_string())?;
        postcard::to_allocvec(&result).map(Outcome::Result).map_err(|error| error.to_string())
    }
}
