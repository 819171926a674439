//! Operations with one result per node.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch};

/// An operation with one result per node, from [`fold`].
pub struct Fold<P, A, E, F, J> {
    functions: Arc<(F, J)>,
    types: PhantomData<fn(P, A) -> E>,
}

/// Creates an operation that accumulates. `add` adds one extent to the accumulator of a compute
/// thread, which begins with its default; `join` adds the accumulator of another thread.
pub fn fold<P, A, E, F, J>(add: F, join: J) -> Fold<P, A, E, F, J>
where
    F: Fn(&P, &mut A, &ExtentInput<'_>) -> Result<(), E> + Send + Sync + 'static,
    J: Fn(&mut A, A) + Send + Sync + 'static,
{
    Fold { functions: Arc::new((add, join)), types: PhantomData }
}

struct FoldTask<P, A, E, F, J> {
    parameters: P,
    functions: Arc<(F, J)>,
    types: PhantomData<fn(A) -> E>,
}

impl<P, A, E, F, J> Operation for Fold<P, A, E, F, J>
where
    P: DeserializeOwned + Send + Sync + 'static,
    A: Default + Serialize + Send + 'static,
    E: Display + 'static,
    F: Fn(&P, &mut A, &ExtentInput<'_>) -> Result<(), E> + Send + Sync + 'static,
    J: Fn(&mut A, A) + Send + Sync + 'static,
{
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let (parameters, functions) = (call.decode::<P>()?, self.functions.clone());
        Ok(Box::new(FoldTask { parameters, functions, types: PhantomData }))
    }
}

impl<P, A, E, F, J> OperationTask for FoldTask<P, A, E, F, J>
where
    P: Send + Sync,
    A: Default + Serialize + Send + 'static,
    E: Display,
    F: Fn(&P, &mut A, &ExtentInput<'_>) -> Result<(), E> + Send + Sync,
    J: Fn(&mut A, A) + Send + Sync,
{
    fn scratch(&self) -> Scratch {
        Box::new(A::default())
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(accumulator) = scratch.downcast_mut::<A>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        (self.functions.0)(&self.parameters, accumulator, input)
            .map_err(|error| error.to_string())?;
        Ok(ExtentOutput::Nothing)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let accumulators = scratches.into_iter().filter_map(|scratch| scratch.downcast::<A>().ok());
        let joined = accumulators.map(|accumulator| *accumulator).reduce(|mut all, more| {
            (self.functions.1)(&mut all, more);
            all
        });
        let joined = joined.unwrap_or_default();
        postcard::to_allocvec(&joined).map(Some).map_err(|error| error.to_string())
    }
}
