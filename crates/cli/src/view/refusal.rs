//! Refusals of the viewer.

use axum::http::StatusCode;
use pario_image::ImageError;

use crate::http::HttpRefusal;

impl HttpRefusal {
    /// A newer request of the same view has arrived.
    pub fn stale() -> Self {
        Self::new(StatusCode::CONFLICT, "a newer request of this view has replaced this one")
    }

    /// The viewer is ending.
    pub fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the viewer is ending")
    }

    /// The viewer has a bug.
    pub fn bug() -> Self {
        let why = "the viewer has a bug that this slice triggers; see the stderr of `pario view`";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    }

    /// A slice failed: 4xx if the client can correct the request, otherwise 5xx.
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
