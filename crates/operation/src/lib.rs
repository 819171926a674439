//! Operations: what a node can do with extents where they lie.
//!
//! An [`Operation`] has a name and lives as long as its node. For each call it makes a [`Task`] of
//! the parameters; the task sees one extent after the other, in any order, from any compute thread.
//! Most operations need no more than one of the two functions here: [`each`] for a result per
//! extent, [`fold`] for one result per node.
//!
//! ```
//! use pario_operation::{Seen, each, fold};
//!
//! // How long the body of each extent is, in units that the caller chooses.
//! let lengths = each(|unit: &u64, seen: &Seen<'_>| {
//!     if *unit == 0 {
//!         return Err("the unit is 0: use 1 for bytes".to_owned());
//!     }
//!     Ok(seen.body().len() as u64 / unit)
//! });
//!
//! // The largest byte of a file.
//! let largest = fold(
//!     |_: &(), largest: &mut u8, seen: &Seen<'_>| {
//!         *largest = (*largest).max(seen.body().iter().copied().max().unwrap_or(0));
//!         Ok::<(), String>(())
//!     },
//!     |largest, other| *largest = (*largest).max(other),
//! );
//! # use pario_operation::Operation;
//! # fn both(_: impl Operation, _: impl Operation) {}
//! # both(lengths, largest);
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
pub use registry::Registry;

/// Something that nodes can do with extents.
pub trait Operation: Send + Sync + 'static {
    /// Makes a task of the parameters of a call. What is wrong with them is told to the caller.
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String>;

    /// The part of an extent that a task at another node wants: see [`Task::wants`].
    fn cut(&self, what: &[u8], extent: Option<Stored<'_>>) -> Result<Vec<u8>, String> {
        let _ = (what, extent);
        Err("it does not cut extents for others".to_owned())
    }
}

/// What a caller wants, as one node sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The parameters, as the caller has sent them.
    pub parameters: &'a [u8],
    here: &'a [bool],
}

impl<'a> Call<'a> {
    /// A call with these parameters, at a node that has some of the subfiles.
    pub fn new(parameters: &'a [u8], here: &'a [bool]) -> Self {
        Self { parameters, here }
    }

    /// How many subfiles the file has.
    pub fn subfiles(&self) -> usize {
        self.here.len()
    }

    /// Whether a subfile is at this node.
    pub fn is_here(&self, subfile: SubfileIndex) -> bool {
        self.here.get(subfile.0 as usize).copied().unwrap_or(false)
    }

    /// The parameters, as the library sends values.
    pub fn decode<P: serde::de::DeserializeOwned>(&self) -> Result<P, String> {
        postcard::from_bytes(self.parameters)
            .map_err(|error| format!("its parameters cannot be understood: {error}"))
    }
}

/// An operation with its parameters, for one call at one node.
pub trait Task: Send + Sync {
    /// The extents that are meant, if the task knows that better than the caller. Those that are
    /// not at this node are left out.
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        None
    }

    /// What each compute thread has for itself.
    fn scratch(&self) -> Scratch {
        Box::new(())
    }

    /// Whether extents that are meant, and are not there, are shown too.
    fn sees_absent(&self) -> bool {
        false
    }

    /// Parts of other extents, wherever they are, that are shown together with an extent.
    fn wants(&self, place: ExtentPlacement) -> Vec<Wanted> {
        let _ = place;
        Vec::new()
    }

    /// Is shown an extent.
    fn see(&self, seen: &Seen<'_>, scratch: &mut Scratch) -> Result<Outcome, String>;

    /// Makes the result of the node of what the compute threads have found.
    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let _ = scratches;
        Ok(None)
    }
}

/// What a compute thread keeps for a task from one extent to the next.
pub type Scratch = Box<dyn Any + Send>;

/// A part of an extent that a task wants to be shown with another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which extent.
    pub place: ExtentPlacement,
    /// What of it, for [`Operation::cut`].
    pub what: Vec<u8>,
}

/// The bytes of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Its header.
    pub header: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
}

/// An extent, as it is shown to a task.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Where it lies.
    pub place: ExtentPlacement,
    /// Its bytes; nothing if there is no such extent.
    pub extent: Option<Stored<'a>>,
    /// What the task wanted of others, in that order.
    pub neighbours: &'a [Bulk],
}

impl<'a> Seen<'a> {
    /// The header; empty if there is no such extent.
    pub fn header(&self) -> &'a [u8] {
        self.extent.map_or(&[], |extent| extent.header)
    }

    /// The body; empty if there is no such extent.
    pub fn body(&self) -> &'a [u8] {
        self.extent.map_or(&[], |extent| extent.body)
    }
}

/// What a task makes of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing, or something in the scratch.
    Nothing,
    /// Bytes for the caller.
    Result(Vec<u8>),
    /// An extent for the file that the caller has named, on a disk of the same node.
    Extent {
        /// Where it goes.
        place: ExtentPlacement,
        /// Its header.
        header: Vec<u8>,
        /// Its body.
        body: Vec<u8>,
    },
}
