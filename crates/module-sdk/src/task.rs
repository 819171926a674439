//! What an operation is, for the author of a module.

use std::fmt::Display;

use crate::Parameters;

/// The subfile and index of an extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// The subfile.
    pub subfile: u32,
    /// The index in the subfile.
    pub extent: u64,
}

/// An extent, as a task gets it.
#[derive(Clone, Debug, Default)]
pub struct Extent<'a> {
    /// Where it is.
    pub placement: Placement,
    /// The number of subfiles of the file.
    pub subfiles: u32,
    /// Whether it exists.
    pub is_present: bool,
    /// The header.
    pub header: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// The requested parts of other extents, in the order of the requests.
    pub neighbours: Vec<&'a [u8]>,
}

/// A request for a part of another extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The extent.
    pub placement: Placement,
    /// Which part of it, as [`Task::cut`] understands it.
    pub selection: Vec<u8>,
}

/// What a task makes of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing to send or write.
    Nothing,
    /// A result for the caller.
    Result(Vec<u8>),
    /// A new extent, on a disk of the same node.
    Extent {
        /// Where it is written.
        placement: Placement,
        /// Its header.
        header: Vec<u8>,
        /// Its body.
        body: Vec<u8>,
    },
}

/// An operation with its parameters, for one compute thread of one call.
///
/// ```
/// use pario_module_sdk::{Extent, Output, Parameters, Task, operation};
///
/// /// Counts the bytes that are above a level.
/// struct Count {
///     level: u8,
///     count: u64,
/// }
///
/// #[operation]
/// impl Task for Count {
///     fn prepare(parameters: &Parameters<'_>) -> Result<Self, String> {
///         Ok(Self { level: parameters.get("level")?, count: 0 })
///     }
///
///     fn process(&mut self, extent: &Extent<'_>) -> Result<Output, String> {
///         self.count += extent.body.iter().filter(|byte| **byte > self.level).count() as u64;
///         Ok(Output::Nothing)
///     }
///
///     fn finish(&mut self) -> Result<Option<Vec<u8>>, String> {
///         Ok(Some(self.count.to_le_bytes().to_vec()))
///     }
///
///     fn merge(&mut self, partial: &[u8]) -> Result<(), String> {
///         let other = partial.try_into().map_err(|_| "a count has eight bytes")?;
///         self.count += u64::from_le_bytes(other);
///         Ok(())
///     }
/// }
/// # fn main() {
/// #     let mut count = Count::prepare(&Parameters::new(b"level=7")).unwrap();
/// #     count.process(&Extent { body: &[7, 8, 9], ..Extent::default() }).unwrap();
/// #     count.merge(&5_u64.to_le_bytes()).unwrap();
/// #     assert_eq!(count.finish().unwrap().unwrap(), 7_u64.to_le_bytes());
/// # }
/// ```
pub trait Task: Sized {
    /// Creates the task of a compute thread. The caller gets the error.
    fn prepare(parameters: &Parameters<'_>) -> Result<Self, String>;

    /// Processes an extent. An error ends the call.
    fn process(&mut self, extent: &Extent<'_>) -> Result<Output, String>;

    /// Processes an extent that does not exist. Without this function the node leaves such extents
    /// out.
    fn process_absent(&mut self, extent: &Extent<'_>) -> Result<Output, String> {
        self.process(extent)
    }

    /// Lists the parts of other extents that an extent needs. A task with this function has
    /// [`cut`](Self::cut) too. The extent has a placement, but no bytes.
    fn neighbours(&mut self, extent: &Extent<'_>) -> Result<Vec<Neighbour>, String> {
        let _ = extent;
        Ok(Vec::new())
    }

    /// Cuts a part from an extent, at the node that stores it.
    fn cut(selection: &[u8], extent: &Extent<'_>) -> Result<Vec<u8>, String> {
        let _ = (selection, extent);
        Ok(Vec::new())
    }

    /// Returns the result of this compute thread, after its last extent. A task with this function
    /// has [`merge`](Self::merge) too.
    fn finish(&mut self) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    /// Adds the result of another compute thread.
    fn merge(&mut self, partial: &[u8]) -> Result<(), String> {
        let _ = partial;
        Ok(())
    }
}

/// What a function with the attribute can return.
pub trait IntoOutput {
    /// Returns the output, or an error for the caller of the operation.
    fn into_output(self) -> Result<Output, String>;
}

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output, String> {
        Ok(self)
    }
}

impl IntoOutput for Vec<u8> {
    fn into_output(self) -> Result<Output, String> {
        Ok(Output::Result(self))
    }
}

impl IntoOutput for Option<Vec<u8>> {
    fn into_output(self) -> Result<Output, String> {
        Ok(self.map_or(Output::Nothing, Output::Result))
    }
}

impl<T: IntoOutput, E: Display> IntoOutput for Result<T, E> {
    fn into_output(self) -> Result<Output, String> {
        self.map_err(|error| error.to_string())?.into_output()
    }
}
