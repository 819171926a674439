//! Operations with one result per node.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Call, Operation, Outcome, Scratch, Seen, Task};

/// An operation that has one result per node; made by [`fold`].
pub struct Fold<P, A, E, F, J> {
    functions: Arc<(F, J)>,
    types: PhantomData<fn(P, A) -> E>,
}

/// An operation that adds each extent to what was found so far, beginning with the default, and
/// joins what the threads of a node have found.
pub fn fold<P, A, E, F, J>(add: F, join: J) -> Fold<P, A, E, F, J>
where
    F: Fn(&P, &mut A, &Seen<'_>) -> Result<(), E> + Send + Sync + 'static,
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
    F: Fn(&P, &mut A, &Seen<'_>) -> Result<(), E> + Send + Sync + 'static,
    J: Fn(&mut A, A) + Send + Sync + 'static,
{
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let (parameters, functions) = (call.decode::<P>()?, self.functions.clone());
        Ok(Box::new(FoldTask { parameters, functions, types: PhantomData }))
    }
}

impl<P, A, E, F, J> Task for FoldTask<P, A, E, F, J>
where
    P: Send + Sync,
    A: Default + Serialize + Send + 'static,
    E: Display,
    F: Fn(&P, &mut A, &Seen<'_>) -> Result<(), E> + Send + Sync,
    J: Fn(&mut A, A) + Send + Sync,
{
    fn scratch(&self) -> Scratch {
        Box::new(A::default())
    }

    fn see(&self, seen: &Seen<'_>, scratch: &mut Scratch) -> Result<Outcome, String> {
        let Some(found) = scratch.downcast_mut::<A>() else {
            unreachable!("a scratch is given to the task that has made it")
        };
        (self.functions.0)(&self.parameters, found, seen).map_err(|error| error.to_string())?;
        Ok(Outcome::Nothing)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let found = scratches.into_iter().filter_map(|scratch| scratch.downcast::<A>().ok());
        let joined = found.map(|found| *found).reduce(|mut all, more| {
            (self.functions.1)(&mut all, more);
            all
        });
        let joined = joined.unwrap_or_default();
        postcard::to_allocvec(&joined).map(Some).map_err(|error| error.to_string())
    }
}
