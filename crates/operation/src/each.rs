//! Operations with one result per extent.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch};

/// An operation with one result per extent, from [`each`].
pub struct Each<P, R, E, F> {
    function: Arc<F>,
    types: PhantomData<fn(P) -> Result<R, E>>,
}

/// Creates an operation whose function computes one result from the parameters and one extent.
pub fn each<P, R, E, F>(function: F) -> Each<P, R, E, F>
where
    F: Fn(&P, &ExtentInput<'_>) -> Result<R, E> + Send + Sync + 'static,
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
    F: Fn(&P, &ExtentInput<'_>) -> Result<R, E> + Send + Sync + 'static,
{
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let function = self.function.clone();
        Ok(Box::new(EachTask { parameters: call.decode::<P>()?, function, types: PhantomData }))
    }
}

impl<P, R, E, F> OperationTask for EachTask<P, R, E, F>
where
    P: Send + Sync,
    R: Serialize,
    E: Display,
    F: Fn(&P, &ExtentInput<'_>) -> Result<R, E> + Send + Sync,
{
    fn process(&self, input: &ExtentInput<'_>, _: &mut Scratch) -> Result<ExtentOutput, String> {
        let result = (self.function)(&self.parameters, input).map_err(|error| error.to_string())?;
        postcard::to_allocvec(&result).map(ExtentOutput::Result).map_err(|error| error.to_string())
    }
}
