//! The HTTP routes of the viewer.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use pario_image::Volume;
use serde_json::{Value, json};

use super::access_gate::Admission;
use super::query::SliceRequest;
use super::volumes::ViewedVolume;
use super::workers::RenderedPicture;
use super::{Viewer, access_gate, page};
use crate::http::{ConnectionActivity, HttpRefusal};

/// The OpenAPI description of the routes.
const OPENAPI: &str = include_str!("../../../../docs/viewer-api.yaml");

/// Returns all routes, behind the access gate.
pub fn all(viewer: Arc<Viewer>) -> Router {
    let files = page::paths().fold(Router::new(), |router, path| router.route(path, get(file)));
    files
        .route("/api/openapi.yaml", get(openapi))
        .route("/api/status", get(status))
        .route("/api/volumes", get(volumes))
        .route("/api/volumes/{number}", get(volume))
        .route("/api/volumes/{number}/values", get(values))
        .route("/api/volumes/{number}/slice", get(slice))
        .route("/api/volumes/{number}/voxel", get(voxel))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(viewer.clone(), guard))
        .with_state(viewer)
}

async fn guard(State(viewer): State<Arc<Viewer>>, request: Request, next: Next) -> Response {
    let allowed = viewer.gate.allowed_origin(request.headers());
    let (parts, body) = request.into_parts();
    let is_preflight = parts.method == Method::OPTIONS && allowed.is_some();
    let mut response = match viewer.gate.check(&parts) {
        // A preflight request of a browser carries no token.
        _ if is_preflight => StatusCode::NO_CONTENT.into_response(),
        Ok(Admission::Redirect { location, cookie }) => redirect(&location, cookie.as_deref()),
        Ok(admission) => {
            if admission == Admission::Authorized
                && let Some(progress) = parts.extensions.get::<Arc<ConnectionActivity>>()
            {
                progress.authorize();
            }
            next.run(Request::from_parts(parts, body)).await
        }
        Err(refusal) => refusal.into_response(),
    };
    access_gate::set_headers(response.headers_mut(), allowed);
    response
}

/// Redirects a browser to the address of the page without the token.
fn redirect(location: &str, cookie: Option<&str>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let mut say = |name: HeaderName, value: &str| {
        // Every character of a query is also valid in a header.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    say(header::LOCATION, location);
    if let Some(cookie) = cookie {
        say(header::SET_COOKIE, cookie);
    }
    response
}

async fn file(uri: Uri) -> Response {
    page::file(uri.path()).unwrap_or_else(|| no_page().into_response())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/yaml")], OPENAPI).into_response()
}

async fn status(State(viewer): State<Arc<Viewer>>) -> Json<Value> {
    Json(viewer.workers.status())
}

async fn volumes(State(viewer): State<Arc<Viewer>>) -> Json<Value> {
    let all = viewer.volumes.iter().enumerate();
    Json(json!({ "volumes": all.map(|(number, shown)| shown.summary(number)).collect::<Vec<_>>() }))
}

async fn volume(
    State(viewer): State<Arc<Viewer>>,
    Path(number): Path<String>,
) -> Result<Json<Value>, HttpRefusal> {
    let (number, shown) = viewer.shown(&number)?;
    Ok(Json(shown.facts(number)))
}

async fn values(
    State(viewer): State<Arc<Viewer>>,
    Path(number): Path<String>,
) -> Result<Json<Value>, HttpRefusal> {
    let (_, shown) = viewer.shown(&number)?;
    Ok(Json(shown.values().await?))
}

async fn slice(
    State(viewer): State<Arc<Viewer>>,
    Path(number): Path<String>,
    query: ParsedQuery,
) -> Result<Response, HttpRefusal> {
    take(&viewer, &number, query, SliceRequest::read).await
}

async fn voxel(
    State(viewer): State<Arc<Viewer>>,
    Path(number): Path<String>,
    query: ParsedQuery,
) -> Result<Response, HttpRefusal> {
    take(&viewer, &number, query, SliceRequest::read_voxel).await
}

/// The query of a request, if it can be parsed.
type ParsedQuery = Result<Query<HashMap<String, String>>, QueryRejection>;

/// Lets a worker compute the picture of a query.
async fn take(
    viewer: &Viewer,
    number: &str,
    query: ParsedQuery,
    read: fn(&HashMap<String, String>, &Volume) -> Result<SliceRequest, HttpRefusal>,
) -> Result<Response, HttpRefusal> {
    let (_, shown) = viewer.shown(number)?;
    let Query(query) = query.map_err(|error| HttpRefusal::wrong(error.body_text()))?;
    let request = read(&query, &shown.volume)?;
    let media_type = request.format.media_type();
    let picture = viewer.workers.enqueue(&shown.volume, request)?.picture().await?;
    Ok(answer(picture, media_type))
}

fn answer(picture: RenderedPicture, media_type: &'static str) -> Response {
    let milliseconds = picture.time.as_secs_f64() * 1000.0;
    let figures = [
        ("x-pario-milliseconds", format!("{milliseconds:.1}")),
        ("x-pario-extents", picture.extents.to_string()),
        ("x-pario-cache-hits", picture.cache_hits.to_string()),
        ("x-pario-bytes-read", picture.read_bytes.to_string()),
        ("x-pario-turn", picture.turn.to_string()),
    ];
    let mut response = picture.bytes.into_response();
    let headers = response.headers_mut();
    for (name, value) in figures {
        let value = HeaderValue::from_str(&value).expect("digits are a valid header value");
        headers.insert(HeaderName::from_static(name), value);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    // The volume may change while it is viewed.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn not_found() -> HttpRefusal {
    no_page()
}

fn no_page() -> HttpRefusal {
    HttpRefusal::not_found("there is no such page; the API is described at /api/openapi.yaml")
}

async fn wrong_method() -> HttpRefusal {
    HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed")
}

impl Viewer {
    /// Returns the volume with a number.
    fn shown(&self, number: &str) -> Result<(usize, &ViewedVolume), HttpRefusal> {
        let found = number.parse().ok().and_then(|at: usize| Some((at, self.volumes.get(at)?)));
        found.ok_or_else(|| {
            HttpRefusal::not_found("there is no volume with this number; see /api/volumes")
        })
    }
}
