//! The metrics of a node: `/metrics` for Prometheus, `/health` for monitors and load balancers.
//!
//! The server listens before the node starts, so that `/health` says so while the node recovers. It
//! looks at the node through a monitor, which does not keep the node running.

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

use crate::exit::Usage;
use crate::http::{
    self, ConnectionTable, Progress, Refusal, Token, is_for_this_machine, read_token,
};

/// The port if the address has none: that of nodes, plus one.
pub const DEFAULT_PORT: u16 = 7412;

/// The variable with the token.
const TOKEN_VARIABLE: &str = "PARIO_METRICS_TOKEN";

/// The media type of Prometheus' text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A server of metrics; it ends when this is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    /// The file or variable with the token.
    token_place: Option<String>,
    shown: Arc<Shown>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What answers come from.
#[derive(Debug)]
struct Shown {
    token: Option<Token>,
    /// Whether only this machine reaches the server.
    is_private: bool,
    /// The node, once it has started.
    node: OnceLock<NodeMonitor>,
    /// Held while the status of the node is collected, so that many requests cost as much as one.
    collecting: Mutex<()>,
    process: process::Process,
}

impl MetricsServer {
    /// Listens, and answers from now on that the node is starting. Beyond loopback addresses a token
    /// is required.
    pub fn start(address: SocketAddr, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let token = read_token(token_file, TOKEN_VARIABLE)?;
        if token.is_none() && !address.ip().is_loopback() {
            let text = format!(
                "--metrics {address} is reachable from other machines, so a token is required: put \
                 12 or more letters and digits into a file of mode 600 and use \
                 --metrics-token-file FILE, or into the variable {TOKEN_VARIABLE}; or use a \
                 loopback address, such as 127.0.0.1:{DEFAULT_PORT}"
            );
            return Err(Usage(text).into());
        }
        let listener = TcpListener::bind(address).with_context(|| {
            format!("cannot listen on {address} for metrics: choose another address or port")
        })?;
        let address = listener.local_addr().context("cannot find the address for metrics")?;
        listener.set_nonblocking(true)?;
        let (token, token_place) = token.unzip();
        let shown = Arc::new(Shown {
            token,
            is_private: address.ip().is_loopback(),
            node: OnceLock::new(),
            collecting: Mutex::default(),
            process: process::Process::begin(),
        });
        let run = runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let routes = routes(shown.clone());
        let work = move || {
            let table = Arc::new(ConnectionTable::default());
            if let Err(error) = run.block_on(http::serve(listener, routes, table, ended)) {
                eprintln!("pario: no metrics any more: {error}");
            }
            // A collection that waits for a disk does not hold up the end of the node.
            run.shutdown_background();
        };
        let thread = thread::Builder::new().name("metrics".into()).spawn(work)?;
        Ok(Self { address, token_place, shown, end: Some(end), thread: Some(thread) })
    }

    /// From now on the answers are about this node.
    pub fn show(&self, node: NodeMonitor) {
        // There is one node in a process.
        let _ = self.shown.node.set(node);
    }

    /// Where metrics are, for people.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// The file or variable that holds the token, if one is required.
    pub fn token_place(&self) -> Option<&str> {
        self.token_place.as_deref()
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn routes(shown: Arc<Shown>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(shown.clone(), guard))
        .with_state(shown)
}

async fn guard(State(shown): State<Arc<Shown>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = if shown.is_private && !is_for_this_machine(&parts) {
        let why = "these metrics are for this machine: use localhost or 127.0.0.1 in the address";
        Refusal::new(StatusCode::FORBIDDEN, why).into_response()
    } else if shown.token.as_ref().is_some_and(|token| !is_known(token, &parts.headers)) {
        let why = "a token is needed: send the header `Authorization: Bearer TOKEN`";
        let mut response = Refusal::new(StatusCode::UNAUTHORIZED, why).into_response();
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        response
    } else {
        if let Some(progress) = parts.extensions.get::<Arc<Progress>>() {
            progress.authorize();
        }
        next.run(Request::from_parts(parts, body)).await
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Whether a request brings the token.
fn is_known(token: &Token, headers: &axum::http::HeaderMap) -> bool {
    let values = headers.get_all(header::AUTHORIZATION).into_iter();
    values
        .filter_map(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .any(|given| token.is(given))
}

async fn metrics(State(shown): State<Arc<Shown>>) -> Response {
    let _collecting = shown.collecting.lock().await;
    let of = shown.clone();
    // The namespace may have to be read from its disk.
    let text = tokio::task::spawn_blocking(move || -> io::Result<Option<String>> {
        let Some(node) = of.node.get() else { return Ok(None) };
        let Some(report) = node.report() else { return Ok(None) };
        let is_healthy = node.problems().is_empty();
        Ok(Some(families::text(&report, is_healthy, &of.process.usage()?)))
    });
    match text.await {
        Ok(Ok(Some(text))) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Ok(Ok(None)) => unavailable(&shown.problems().join("\n")),
        Ok(Err(error)) => unavailable(&format!("/proc cannot be read: {error}")),
        Err(_) => {
            let why = "the metrics have a bug; what the node says of it is on its stderr";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
        }
    }
}

/// 200 and `ok`, or 503 and one line for each reason.
async fn health(State(shown): State<Arc<Shown>>) -> Response {
    let problems = shown.problems();
    if problems.is_empty() { "ok\n".into_response() } else { unavailable(&problems.join("\n")) }
}

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

async fn nothing() -> Refusal {
    Refusal::not_found("there is no such page; there are /metrics and /health")
}

async fn wrong_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is known here")
}

impl Shown {
    /// Why the node does not serve as it should.
    fn problems(&self) -> Vec<String> {
        match self.node.get() {
            Some(node) => node.problems(),
            None => vec!["the node is starting".to_owned()],
        }
    }
}
