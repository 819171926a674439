//! Refused requests: a status and an explanation, as JSON.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The reason for refusing a request.
#[derive(Debug)]
pub struct HttpRefusal {
    status: StatusCode,
    why: String,
}

impl HttpRefusal {
    /// Creates a refusal with a status and an explanation.
    pub fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    /// The request is invalid.
    pub fn wrong(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    /// There is no such resource.
    pub fn not_found(why: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, why)
    }

    /// A limit is reached.
    pub fn full(why: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, why)
    }
}

impl IntoResponse for HttpRefusal {
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
