//! The metrics of a node: `/metrics` for Prometheus, `/health` for monitors and load balancers.
//!
//! The server listens before the node starts, so that `/health` can report the recovery. It reads
//! the node through a monitor, which does not keep the node running.

mod exposition;
mod families;
mod process;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pario_server::NodeMonitor;
use tokio::runtime;
use tokio::sync::{Mutex, oneshot};

use crate::exit::UsageError;
use crate::http::{
    self, AccessToken, ConnectionActivity, ConnectionTable, HttpRefusal, is_for_this_machine,
    read_token,
};

/// Default port: that of nodes, plus one.
pub const DEFAULT_PORT: u16 = 7412;

/// The variable with the token.
const TOKEN_VARIABLE: &str = "PARIO_METRICS_TOKEN";

/// The media type of Prometheus' text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A running metrics server; dropping it ends the server.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    /// The file or variable with the token.
    token_source: Option<String>,
    state: Arc<MetricsState>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state behind the answers.
#[derive(Debug)]
struct MetricsState {
    token: Option<AccessToken>,
    /// Whether the server listens on a loopback address.
    is_private: bool,
    /// The node, once it has started.
    node: OnceLock<NodeMonitor>,
    /// Held while the status of the node is collected, so that many requests cost as much as one.
    collecting: Mutex<()>,
    process: process::ProcessMetrics,
}

impl MetricsServer {
    /// Starts to listen; until [`Self::show`], answers say that the node is starting. Other than
    /// loopback addresses require a token.
    pub fn start(address: SocketAddr, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let token = read_token(token_file, TOKEN_VARIABLE)?;
        if token.is_none() && !address.ip().is_loopback() {
            let text = format!(
                "--metrics {address} is reachable from other machines, so a token is required: put \
                 12 or more letters and digits into a file of mode 600 and use \
                 --metrics-token-file FILE, or into the variable {TOKEN_VARIABLE}; or use a \
                 loopback address, such as 127.0.0.1:{DEFAULT_PORT}"
            );
            return Err(UsageError(text).into());
        }
        let listener = TcpListener::bind(address).with_context(|| {
            format!("cannot listen on {address} for metrics: choose another address or port")
        })?;
        let address =
            listener.local_addr().context("cannot get the address of the metrics listener")?;
        listener.set_nonblocking(true)?;
        let (token, token_source) = token.unzip();
        let state = Arc::new(MetricsState {
            token,
            is_private: address.ip().is_loopback(),
            node: OnceLock::new(),
            collecting: Mutex::default(),
            process: process::ProcessMetrics::begin(),
        });
        let run = runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let routes = routes(state.clone());
        let work = move || {
            let table = Arc::new(ConnectionTable::default());
            if let Err(error) = run.block_on(http::serve(listener, routes, table, ended)) {
                eprintln!("pario: the metrics server has failed: {error}");
            }
            // A collection that waits for a disk must not delay the end of the node.
            run.shutdown_background();
        };
        let thread = thread::Builder::new().name("metrics".into()).spawn(work)?;
        Ok(Self { address, token_source, state, end: Some(end), thread: Some(thread) })
    }

    /// Sets the node that answers are about.
    pub fn show(&self, node: NodeMonitor) {
        // There is one node per process.
        let _ = self.state.node.set(node);
    }

    /// Returns the URL of the metrics.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Returns the file or variable that holds the token, if one is required.
    pub fn token_source(&self) -> Option<&str> {
        self.token_source.as_deref()
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

fn routes(state: Arc<MetricsState>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state.clone(), guard))
        .with_state(state)
}

async fn guard(State(state): State<Arc<MetricsState>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = if state.is_private && !is_for_this_machine(&parts) {
        let why = "these metrics are for this machine: use localhost or 127.0.0.1 in the address";
        HttpRefusal::new(StatusCode::FORBIDDEN, why).into_response()
    } else if state.token.as_ref().is_some_and(|token| !is_known(token, &parts.headers)) {
        let why = "a token is required: send the header `Authorization: Bearer TOKEN`";
        let mut response = HttpRefusal::new(StatusCode::UNAUTHORIZED, why).into_response();
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        response
    } else {
        if let Some(progress) = parts.extensions.get::<Arc<ConnectionActivity>>() {
            progress.authorize();
        }
        next.run(Request::from_parts(parts, body)).await
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns whether a request has the token.
fn is_known(token: &AccessToken, headers: &axum::http::HeaderMap) -> bool {
    let values = headers.get_all(header::AUTHORIZATION).into_iter();
    values
        .filter_map(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .any(|given| token.is(given))
}

async fn metrics(State(state): State<Arc<MetricsState>>) -> Response {
    let _collecting = state.collecting.lock().await;
    let of = state.clone();
    // This may read the namespace from its disk.
    let text = tokio::task::spawn_blocking(move || -> io::Result<Option<String>> {
        let Some(node) = of.node.get() else { return Ok(None) };
        let Some(report) = node.report() else { return Ok(None) };
        let is_healthy = node.problems().is_empty();
        Ok(Some(families::text(&report, is_healthy, &of.process.usage()?)))
    });
    match text.await {
        Ok(Ok(Some(text))) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Ok(Ok(None)) => unavailable(&state.problems().join("\n")),
        Ok(Err(error)) => unavailable(&format!("/proc cannot be read: {error}")),
        Err(_) => {
            let why = "the metrics server has a bug; see the node's stderr";
            HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
        }
    }
}

/// Answers 200 and `ok`, or 503 and one line per problem.
async fn health(State(state): State<Arc<MetricsState>>) -> Response {
    let problems = state.problems();
    if problems.is_empty() { "ok\n".into_response() } else { unavailable(&problems.join("\n")) }
}

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

async fn not_found() -> HttpRefusal {
    HttpRefusal::not_found("there is no such page; the pages are /metrics and /health")
}

async fn wrong_method() -> HttpRefusal {
    HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed")
}

impl MetricsState {
    /// Returns the problems of the node.
    fn problems(&self) -> Vec<String> {
        match self.node.get() {
            Some(node) => node.problems(),
            None => vec!["the node is starting".to_owned()],
        }
    }
}
