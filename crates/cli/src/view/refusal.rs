//! Requests that get no picture, and why.

use axum::http::StatusCode;
use pario_image::ImageError;

use crate::http::Refusal;

impl Refusal {
    /// A newer request of the same view has come.
    pub fn stale() -> Self {
        Self::new(StatusCode::CONFLICT, "a newer request of this view came before its turn")
    }

    /// The viewer ends.
    pub fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the viewer is ending")
    }

    /// The viewer is wrong.
    pub fn bug() -> Self {
        let why = "the viewer has a bug that this slice shows; what it says of it is on its stderr";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    }

    /// A slice could not be had. What the asker can put right is theirs, the rest is ours.
    pub fn of_slice(error: &ImageError) -> Self {
        let status = match error {
            ImageError::Plane(_) | ImageError::Cut(_) | ImageError::Invalid(_) => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, error.to_string())
    }
}
