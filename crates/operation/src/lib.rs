//! Operations on extents: what a node computes where the extents lie, so that only results cross the
//! network.
//!
//! An [`Operation`] has a name and lives as long as its node. For each call it creates an
//! [`OperationTask`] from the parameters; compute threads pass the extents to the task, one after
//! the other, in any order. Most operations need only one of two functions: [`each`] for one result
//! per extent, [`fold`] for one result per node. An operation that chooses its extents, needs parts
//! of other extents, or writes extents implements the two traits.
//!
//! This crate runs nothing: a node does, and clients call operations by name
//! (`pario::Cluster::process`). docs/processing.md explains how.
//!
//! ```
//! use pario_operation::{ExtentInput, OperationCall, OperationRegistry, each, fold};
//! # use pario_proto::{ExtentIndex, ExtentPlacement, SubfileIndex};
//! use pario_operation::{ExtentBytes, ExtentOutput};
//!
//! // The length of each extent's body, in units that the caller chooses.
//! let lengths = each(|unit: &u64, input: &ExtentInput<'_>| {
//!     if *unit == 0 {
//!         return Err("the unit is 0; give 1 for bytes".to_owned());
//!     }
//!     Ok(input.body().len() as u64 / unit)
//! });
//!
//! // The largest byte of the file.
//! let largest = fold(
//!     |_: &(), largest: &mut u8, input: &ExtentInput<'_>| {
//!         *largest = (*largest).max(input.body().iter().copied().max().unwrap_or(0));
//!         Ok::<(), String>(())
//!     },
//!     |largest, other| *largest = (*largest).max(other),
//! );
//!
//! let registry = OperationRegistry::new();
//! registry.add("lengths", lengths);
//! registry.add("largest byte", largest);
//!
//! // What a node with the only subfile of a file does for a call:
//! let task = registry.find("largest byte").unwrap().prepare(&OperationCall::new(&[], &[true]))?;
//! let mut scratch = task.scratch(); // one per compute thread
//! # let placement = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(7) };
//! let extent = Some(ExtentBytes { header: b"", body: b"abc" });
//! let input = ExtentInput { placement, extent, neighbours: &[] };
//! assert_eq!(task.process(&input, &mut scratch)?, ExtentOutput::Nothing);
//! assert_eq!(task.finish(vec![scratch])?, Some(vec![b'c']));
//! # Ok::<(), String>(())
//! ```
#![forbid(unsafe_code)]

mod built_in;
mod each;
mod fold;
mod registry;

use std::any::Any;

use pario_net::Bulk;
use pario_proto::{ExtentPlacement, SubfileIndex};

pub use each::{Each, each};
pub use fold::{Fold, fold};
pub use registry::OperationRegistry;

/// An operation on extents, which nodes run by its name.
pub trait Operation: Send + Sync + 'static {
    /// Creates the task of one call at one node. The caller gets the error, for example about wrong
    /// parameters.
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String>;

    /// Cuts the requested part from an extent, for a task at this or another node: see
    /// [`OperationTask::neighbours`]. `extent` is `None` if it does not exist.
    fn cut(&self, selection: &[u8], extent: Option<ExtentBytes<'_>>) -> Result<Vec<u8>, String> {
        let _ = (selection, extent);
        Err("the operation has no parts of extents for its neighbours; implement Operation::cut"
            .to_owned())
    }
}

/// One call of an operation, as one node sees it.
#[derive(Clone, Copy, Debug)]
pub struct OperationCall<'a> {
    /// The encoded parameters.
    pub parameters: &'a [u8],
    here: &'a [bool],
}

impl<'a> OperationCall<'a> {
    /// A call with these parameters at a node that has the subfiles for which `here` is true.
    pub fn new(parameters: &'a [u8], here: &'a [bool]) -> Self {
        Self { parameters, here }
    }

    /// The number of subfiles of the file.
    pub fn subfiles(&self) -> usize {
        self.here.len()
    }

    /// Whether this node has a subfile.
    pub fn is_here(&self, subfile: SubfileIndex) -> bool {
        self.here.get(subfile.0 as usize).copied().unwrap_or(false)
    }

    /// Decodes the parameters as the library encodes values.
    pub fn decode<P: serde::de::DeserializeOwned>(&self) -> Result<P, String> {
        postcard::from_bytes(self.parameters).map_err(|error| {
            format!(
                "the parameters of the operation cannot be decoded: {error}; give parameters of the \
                 type that it takes"
            )
        })
    }
}

/// An operation with its parameters, for one call at one node.
pub trait OperationTask: Send + Sync {
    /// Lists the extents to process, if the operation and not the caller chooses them. The node
    /// leaves out those that it does not have.
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        None
    }

    /// Creates the scratch of one compute thread.
    fn scratch(&self) -> Scratch {
        Box::new(())
    }

    /// Whether the task also processes extents of the call that do not exist.
    fn includes_absent(&self) -> bool {
        false
    }

    /// Lists the parts of other extents, on any node, that the task needs to process an extent. An
    /// error ends the call.
    fn neighbours(&self, placement: ExtentPlacement) -> Result<Vec<NeighbourRequest>, String> {
        let _ = placement;
        Ok(Vec::new())
    }

    /// Whether extents have neighbours; `None` if only [`neighbours`](Self::neighbours) can tell,
    /// which must be fast then: the thread that schedules the extents of all calls asks it.
    fn has_neighbours(&self) -> Option<bool> {
        None
    }

    /// Processes one extent. An error ends the call.
    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String>;

    /// Computes the result of the node from the scratches of all compute threads, after the last
    /// extent.
    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let _ = scratches;
        Ok(None)
    }
}

/// The state that a compute thread keeps for a task from one extent to the next.
pub type Scratch = Box<dyn Any + Send>;

/// A request for a part of another extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourRequest {
    /// The extent.
    pub placement: ExtentPlacement,
    /// Which part of it, as [`Operation::cut`] understands it.
    pub selection: Vec<u8>,
}

/// The bytes of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentBytes<'a> {
    /// The header.
    pub header: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// One extent, as a task gets it.
#[derive(Clone, Copy, Debug)]
pub struct ExtentInput<'a> {
    /// The subfile and index of the extent.
    pub placement: ExtentPlacement,
    /// Its bytes; `None` if the extent does not exist.
    pub extent: Option<ExtentBytes<'a>>,
    /// The requested parts of other extents, in the order of [`OperationTask::neighbours`].
    pub neighbours: &'a [Bulk],
}

impl<'a> ExtentInput<'a> {
    /// The header; empty if the extent does not exist.
    pub fn header(&self) -> &'a [u8] {
        self.extent.map_or(&[], |extent| extent.header)
    }

    /// The body; empty if the extent does not exist.
    pub fn body(&self) -> &'a [u8] {
        self.extent.map_or(&[], |extent| extent.body)
    }
}

/// What a task makes of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtentOutput {
    /// Nothing to send or write; the task may have changed its scratch.
    Nothing,
    /// A result for the caller.
    Result(Vec<u8>),
    /// An extent for the file that the caller has named, on a disk of the same node.
    Extent {
        /// The subfile and index of the new extent.
        placement: ExtentPlacement,
        /// Its header.
        header: Vec<u8>,
        /// Its body.
        body: Vec<u8>,
    },
}
