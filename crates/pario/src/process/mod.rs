//! Work that is done where the extents of a file lie.

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
pub use report::Report;

/// Extents that are to be worked with; made by [`Cluster::process`].
#[derive(Debug)]
pub struct Process<'f> {
    file: &'f File,
    extents: ExtentSelection,
}

/// An operation that is to be done with extents, where they lie; made by [`Process::operation`].
///
/// Nothing happens before one of the last four calls: [`collect`](Work::collect),
/// [`merge`](Work::merge), [`for_each`](Work::for_each), [`write_to`](Work::write_to). All wait until
/// everything is done. The first failure, at whichever node, stops the others.
pub struct Work<'f> {
    file: &'f File,
    target: Option<&'f File>,
    extents: ExtentSelection,
    operation: String,
    parameters: Result<Vec<u8>, String>,
    is_traced: bool,
    stopper: Stopper,
    watch: Option<Box<Watch<'f>>>,
}

type Watch<'f> = dyn FnMut(&Report) + 'f;

/// Gives work up, from any thread; made by [`Work::stopper`].
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<AtomicBool>);

impl Cluster {
    /// Work with the extents of a file, done by the nodes that hold them. What they can do they know
    /// by name: every node can `count` extents, make a `byte histogram` and `copy` extents to another
    /// file; nodes of your own can do more (`pario_server::Node::new`).
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
    ///     tiles.write_extent(place, b"", &[7; 1000])?;
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
    pub fn process<'f>(&self, file: &'f File) -> Process<'f> {
        Process { file, extents: ExtentSelection::All }
    }
}

impl Cluster {
    /// Adds an operation to the node of an embedded cluster. Nodes in other processes do not change:
    /// they have the operations that their program was built with.
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

impl<'f> Process<'f> {
    /// Only these extents.
    pub fn extents(mut self, places: impl IntoIterator<Item = ExtentPlacement>) -> Self {
        self.extents = ExtentSelection::These(places.into_iter().collect());
        self
    }

    /// What is to be done with them, and how.
    pub fn operation(self, name: &str, parameters: impl Serialize) -> Work<'f> {
        let parameters = postcard::to_allocvec(&parameters).map_err(|error| error.to_string());
        self.work(name, parameters)
    }

    /// The same with parameters that are bytes already.
    pub fn operation_with(self, name: &str, parameters: Vec<u8>) -> Work<'f> {
        self.work(name, Ok(parameters))
    }

    fn work(self, name: &str, parameters: Result<Vec<u8>, String>) -> Work<'f> {
        Work {
            file: self.file,
            target: None,
            extents: self.extents,
            operation: name.to_owned(),
            parameters,
            is_traced: false,
            stopper: Stopper::default(),
            watch: None,
        }
    }
}

impl<'f> Work<'f> {
    /// Notes what was done when: it is in the [`Report`].
    pub fn trace(mut self, is_traced: bool) -> Self {
        self.is_traced = is_traced;
        self
    }

    /// Is told how far the work has come, several times a second, and at the end.
    pub fn watch(mut self, watch: impl FnMut(&Report) + 'f) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// What gives the work up.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The results of all extents, in the order of their places.
    pub fn collect<T: DeserializeOwned>(self) -> Result<Vec<(ExtentPlacement, T)>, Error> {
        let mut collected = Vec::new();
        self.for_each(|place, result| {
            collected.extend(place.map(|place| (place, result)));
            Ok(())
        })?;
        collected.sort_by_key(|(place, _)| *place);
        Ok(collected)
    }

    /// One result of all nodes: `join` adds those of a node to those before. Nothing if no node had
    /// one.
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

    /// Does something with each result, in the order in which they come. The place says of which
    /// extent it is; what a node has put together of many has none. An error stops the work.
    pub fn for_each<T: DeserializeOwned>(
        self,
        mut work: impl FnMut(Option<ExtentPlacement>, T) -> Result<(), Error>,
    ) -> Result<Report, Error> {
        let operation = self.operation.clone();
        self.for_each_bytes(|place, bytes| {
            let result = postcard::from_bytes(&bytes).map_err(|error| {
                let text = "its results are of another type than what was expected";
                Error::invalid(format!("operation {operation:?}: {text}: {error}"))
            })?;
            work(place, result)
        })
    }

    /// The same with results as the operation has sent them.
    pub fn for_each_bytes(
        self,
        work: impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<Report, Error> {
        if self.file.record().kind != FileKind::Extents {
            let path = self.file.path();
            let text = "this is a file of bytes; work is done with the extents of files that were \
                        created with `extents()`";
            return Err(Error::invalid(format!("{path}: {text}")));
        }
        call::run(self, work)
    }

    /// Writes the extents that the operation makes to a file; it has the same layout as the one
    /// that is worked with. They are durable when the file was synced or closed.
    pub fn write_to(mut self, target: &'f File) -> Result<Report, Error> {
        self.target = Some(target);
        self.for_each_bytes(|_, _| Ok(()))
    }
}

impl Stopper {
    /// Gives the work up: the call that waits for it fails within a moment.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was given up.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({:?} with {})", self.operation, self.file.path())
    }
}
