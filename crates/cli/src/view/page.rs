//! The files of the page, embedded in the program.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// Content security policy: the page may load only files of this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Path, media type and text of each file.
const FILES: [(&str, &str, &str); 16] = [
    ("/", "text/html", include_str!("page/index.html")),
    ("/style.css", "text/css", include_str!("page/style.css")),
    ("/viewer.js", "text/javascript", include_str!("page/viewer.js")),
    ("/vectors.js", "text/javascript", include_str!("page/vectors.js")),
    ("/state.js", "text/javascript", include_str!("page/state.js")),
    ("/section.js", "text/javascript", include_str!("page/section.js")),
    ("/slices.js", "text/javascript", include_str!("page/slices.js")),
    ("/overlay.js", "text/javascript", include_str!("page/overlay.js")),
    ("/box.js", "text/javascript", include_str!("page/box.js")),
    ("/gestures.js", "text/javascript", include_str!("page/gestures.js")),
    ("/keys.js", "text/javascript", include_str!("page/keys.js")),
    ("/lengths.js", "text/javascript", include_str!("page/lengths.js")),
    ("/windowing.js", "text/javascript", include_str!("page/windowing.js")),
    ("/readout.js", "text/javascript", include_str!("page/readout.js")),
    ("/measure.js", "text/javascript", include_str!("page/measure.js")),
    ("/screenshot.js", "text/javascript", include_str!("page/screenshot.js")),
];

/// Returns the paths of all files.
pub fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, ..)| *path)
}

/// Returns a file of the page.
pub fn file(path: &str) -> Option<Response> {
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == path)?;
    let mut response = text.into_response();
    let headers = response.headers_mut();
    let kind = format!("{kind}; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(&kind).expect("plain text"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(response)
}
