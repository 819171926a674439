//! Errors of operations on images and volumes.

use std::io;

use pario::ErrorKind;
use thiserror::Error;

use crate::filter::{FilterError, PixelsError, TileGridError};
use crate::formats::FormatError;
use crate::pixelwise::{HistogramError, PixelwiseError};
use crate::resample::{CanvasError, MapError, ResamplingError};
use crate::slice::{BoxGridError, CutError, PartsError, PlaneError};

/// An error of an operation on an image or volume. The message says what happened, to which object,
/// and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The cluster reported an error.
    #[error(transparent)]
    Cluster(#[from] pario::Error),
    /// The file is not an image or volume.
    #[error("{path}: not an image or volume: {why}")]
    NotAnImage {
        /// The path of the file.
        path: String,
        /// Why it is not one.
        why: String,
    },
    /// A file of another program cannot be read or written.
    #[error(transparent)]
    Format(Box<FormatError>),
    /// The plane of a slice is not valid.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// The slice is not valid.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// A volume cannot be cut into these boxes.
    #[error(transparent)]
    BoxGrid(#[from] BoxGridError),
    /// An image cannot be cut into these tiles.
    #[error(transparent)]
    Tiles(#[from] TileGridError),
    /// Pixels do not fit an image or a window.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
    /// The filter is not valid.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The pixel-wise operation is not valid, or not for these pixels.
    #[error(transparent)]
    Pixelwise(#[from] PixelwiseError),
    /// The histogram is not valid.
    #[error(transparent)]
    Histogram(Box<HistogramError>),
    /// The scale or angle is not valid.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The resampling is not valid.
    #[error(transparent)]
    Resampling(#[from] ResamplingError),
    /// The output of a resampling is not valid.
    #[error(transparent)]
    Canvas(Box<CanvasError>),
    /// Parts of a slice that nodes sent contradict each other.
    #[error("the parts that the nodes sent do not fit together: {0}")]
    Parts(#[from] PartsError),
    /// An argument is not valid.
    #[error("{0}")]
    Invalid(String),
    /// Another failure.
    #[error("{path}: {why}")]
    Other {
        /// The path of the file.
        path: String,
        /// What happened.
        why: String,
    },
}

impl ImageError {
    /// Returns what a program can react to.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cluster(error) => error.kind(),
            Self::Format(error) => match &**error {
                FormatError::Io { source, .. } => source.kind().into(),
                FormatError::Damaged { .. } | FormatError::Short { .. } => ErrorKind::Damaged,
                _ => ErrorKind::Invalid,
            },
            Self::Parts(_) | Self::Other { .. } => ErrorKind::Other,
            _ => ErrorKind::Invalid,
        }
    }

    pub(crate) fn other(path: impl std::fmt::Display, why: impl Into<String>) -> Self {
        Self::Other { path: path.to_string(), why: why.into() }
    }

    /// Returns the error of a local file.
    pub(crate) fn file(name: &str, action: &'static str, source: io::Error) -> Self {
        FormatError::Io { name: name.to_owned(), action, source }.into()
    }
}

impl From<HistogramError> for ImageError {
    fn from(error: HistogramError) -> Self {
        Self::Histogram(error.into())
    }
}

impl From<CanvasError> for ImageError {
    fn from(error: CanvasError) -> Self {
        Self::Canvas(error.into())
    }
}

impl From<FormatError> for ImageError {
    fn from(error: FormatError) -> Self {
        Self::Format(error.into())
    }
}
