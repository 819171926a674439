//! What can go wrong with images and volumes.

use std::io;

use pario::ErrorKind;
use thiserror::Error;

use crate::filter::{FilterError, PixelsError, TileGridError};
use crate::formats::FormatError;
use crate::pixelwise::{HistogramError, PixelwiseError};
use crate::resample::{CanvasError, MapError, ResamplingError};
use crate::slice::{CutError, GridError, PartsError, PlaneError};

/// Why something with an image or volume failed. Each error says what happened, to what, and what to
/// do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The cluster cannot do it.
    #[error(transparent)]
    Cluster(#[from] pario::Error),
    /// The file is something else.
    #[error("{path}: this is no image or volume: {why}")]
    NotAnImage {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// A file of another program cannot be used.
    #[error(transparent)]
    Format(Box<FormatError>),
    /// The slice is impossible.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// The same.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// It cannot be cut into such tiles.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// An image cannot be cut into such tiles.
    #[error(transparent)]
    Tiles(#[from] TileGridError),
    /// The pixels do not fit.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
    /// The filter is none.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The pixel-wise operation is none, or one for other pixels.
    #[error(transparent)]
    Pixelwise(#[from] PixelwiseError),
    /// There is no such histogram.
    #[error(transparent)]
    Histogram(Box<HistogramError>),
    /// There is no such scale or turn.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The same.
    #[error(transparent)]
    Resampling(#[from] ResamplingError),
    /// The same.
    #[error(transparent)]
    Canvas(Box<CanvasError>),
    /// What nodes have sent does not fit together.
    #[error("what came from the nodes does not fit together: {0}")]
    Parts(#[from] PartsError),
    /// What was asked for is impossible.
    #[error("{0}")]
    Invalid(String),
    /// Anything else.
    #[error("{path}: {why}")]
    Other {
        /// The file.
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

    /// A local file cannot be used.
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
