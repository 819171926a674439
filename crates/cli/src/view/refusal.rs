//! Requests that get no picture, and why: a status and a sentence, as JSON.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pario_image::ImageError;
use serde_json::json;

/// Why a request is refused.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    why: String,
}

impl Refusal {
    /// With a status, and what to do.
    pub fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    /// What was asked for makes no sense.
    pub fn wrong(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    /// There is no such thing.
    pub fn not_found(why: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, why)
    }

    /// A newer request of the same view has come.
    pub fn stale() -> Self {
        Self::new(StatusCode::CONFLICT, "a newer request of this view came before its turn")
    }

    /// Too much waits.
    pub fn full(why: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, why)
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

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.why }))).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
