//! Processing of extents by the nodes that store them.

mod call;
mod report;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use pario_proto::{ExtentPlacement, ExtentSelection, FileKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::file::File;
pub use report::ProcessReport;

/// A selection of extents to be processed; made by [`Cluster::process`].
#[derive(Debug)]
pub struct ProcessSelection<'f> {
    file: &'f File,
    extents: ExtentSelection,
}

/// A call of an operation on extents, run by the nodes that store them; made by
/// [`ProcessSelection::operation`].
///
/// [`collect`](Self::collect), [`merge`](Self::merge), [`for_each`](Self::for_each) and
/// [`write_to`](Self::write_to) start the call and wait until it is over. The first failure, at any
/// node, stops the others.
pub struct ProcessCall<'f> {
    file: &'f File,
    target: Option<&'f File>,
    extents: ExtentSelection,
    operation: String,
    parameters: Result<Vec<u8>, String>,
    is_traced: bool,
    stopper: ProcessStopper,
    watch: Option<Box<Watch<'f>>>,
}

type Watch<'f> = dyn FnMut(&ProcessReport) + 'f;

/// Stops a call from any thread; made by [`ProcessCall::stopper`].
#[derive(Clone, Debug, Default)]
pub struct ProcessStopper(Arc<AtomicBool>);

impl Cluster {
    /// Processes the extents of a file at the nodes that store them. Operations have names: every
    /// node has `count`, `byte histogram` and `copy` (to another file); a node that you build can
    /// have more (`pario_server::Node::new`).
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};
    ///
    /// let tiles =
    ///     cluster.options().read(true).write(true).create(true).extents().open("/tiles")?;
    /// for extent in 0..100 {
    ///     let place = ExtentPlacement { subfile: SubfileIndex(2), extent: ExtentIndex(extent) };
    ///     tiles.write_extent(b"", &[7; 1000], place)?;
    /// }
    /// let histogram: Vec<u64> = cluster
    ///     .process(&tiles)
    ///     .operation("byte histogram", ()) // runs at the nodes
    ///     .merge(|all: &mut Vec<u64>, more| {
    ///         all.iter_mut().zip(more).for_each(|(count, other)| *count += other);
    ///     })?
    ///     .expect("there is a node");
    /// assert_eq!(histogram[7], 100_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn process<'f>(&self, file: &'f File) -> ProcessSelection<'f> {
        ProcessSelection { file, extents: ExtentSelection::All }
    }
}

impl Cluster {
    /// Adds an operation to the node of an embedded cluster. Nodes in other processes have the
    /// operations that their program was built with.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use pario::operation::{ExtentInput, each};
    ///
    /// let cluster = pario::Cluster::embedded(dir.path())?;
    /// let lengths = each(|_: &(), input: &ExtentInput<'_>| Ok::<_, String>(input.body().len()));
    /// cluster.add_operation("lengths", std::sync::Arc::new(lengths));
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_operation(&self, name: &str, operation: Arc<dyn pario_operation::Operation>) {
        #[cfg(feature = "embedded")]
        if let Some(node) = &self.shared.embedded {
            node.operations().add_shared(name, operation);
        }
        #[cfg(not(feature = "embedded"))]
        let _ = (name, operation);
    }
}

impl<'f> ProcessSelection<'f> {
    /// Selects only these extents.
    pub fn extents(mut self, places: impl IntoIterator<Item = ExtentPlacement>) -> Self {
        self.extents = ExtentSelection::These(places.into_iter().collect());
        self
    }

    /// Chooses the operation and its parameters.
    pub fn operation(self, name: &str, parameters: impl Serialize) -> ProcessCall<'f> {
        let parameters = postcard::to_allocvec(&parameters).map_err(|error| error.to_string());
        self.call(name, parameters)
    }

    /// Like [`operation`](Self::operation), with encoded parameters.
    pub fn operation_with(self, name: &str, parameters: Vec<u8>) -> ProcessCall<'f> {
        self.call(name, Ok(parameters))
    }

    fn call(self, name: &str, parameters: Result<Vec<u8>, String>) -> ProcessCall<'f> {
        ProcessCall {
            file: self.file,
            target: None,
            extents: self.extents,
            operation: name.to_owned(),
            parameters,
            is_traced: false,
            stopper: ProcessStopper::default(),
            watch: None,
        }
    }
}

impl<'f> ProcessCall<'f> {
    /// Records a trace, which is in the [`ProcessReport`].
    pub fn trace(mut self, is_traced: bool) -> Self {
        self.is_traced = is_traced;
        self
    }

    /// Calls a function with the progress several times a second, and at the end.
    pub fn watch(mut self, watch: impl FnMut(&ProcessReport) + 'f) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Returns a handle that stops the call.
    pub fn stopper(&self) -> ProcessStopper {
        self.stopper.clone()
    }

    /// Runs the call, and returns the results of all extents in the order of their placements.
    pub fn collect<T: DeserializeOwned>(self) -> Result<Vec<(ExtentPlacement, T)>, Error> {
        let mut collected = Vec::new();
        self.for_each(|place, result| {
            collected.extend(place.map(|place| (place, result)));
            Ok(())
        })?;
        collected.sort_by_key(|(place, _)| *place);
        Ok(collected)
    }

    /// Runs the call, and returns one result of all nodes: `join` adds the result of a node to the
    /// earlier ones. None if no node had a result.
    pub fn merge<T: DeserializeOwned>(
        self,
        mut join: impl FnMut(&mut T, T),
    ) -> Result<Option<T>, Error> {
        let mut merged: Option<T> = None;
        self.for_each(|_, result| {
            match &mut merged {
                Some(merged) => join(merged, result),
                None => merged = Some(result),
            }
            Ok(())
        })?;
        Ok(merged)
    }

    /// Runs the call, and passes each result to a function in the order of arrival, with the
    /// placement of its extent; none for a result that a node has combined from many extents. An
    /// error of the function stops the call.
    pub fn for_each<T: DeserializeOwned>(
        self,
        mut consume: impl FnMut(Option<ExtentPlacement>, T) -> Result<(), Error>,
    ) -> Result<ProcessReport, Error> {
        let operation = self.operation.clone();
        self.for_each_bytes(|place, bytes| {
            let result = postcard::from_bytes(&bytes).map_err(|error| {
                let text = "its results have another type than the caller expects";
                Error::invalid(format!("operation {operation:?}: {text}: {error}"))
            })?;
            consume(place, result)
        })
    }

    /// Like [`for_each`](Self::for_each), with results as the operation has sent them.
    pub fn for_each_bytes(
        self,
        consume: impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<ProcessReport, Error> {
        if self.file.record().kind != FileKind::Extents {
            let path = self.file.path();
            let text = "this is a file of bytes; operations process the extents of files that \
                        were created with `extents()`";
            return Err(Error::invalid(format!("{path}: {text}")));
        }
        call::run(self, consume)
    }

    /// Runs the call, and writes the extents that the operation makes to a file of the same layout.
    /// They are durable when that file was synced or closed.
    pub fn write_to(mut self, target: &'f File) -> Result<ProcessReport, Error> {
        self.target = Some(target);
        self.for_each_bytes(|_, _| Ok(()))
    }
}

impl ProcessStopper {
    /// Stops the call, which fails soon afterwards.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the call was stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for ProcessCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessCall({:?} with {})", self.operation, self.file.path())
    }
}
