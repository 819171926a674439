//! Serves connections: a limited number in all and per address; closes those that neither send
//! requests nor read answers.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time;

use super::connection_table::{ADDRESS_LIMIT, ConnectionActivity, ConnectionSlot, ConnectionTable};
use super::refusal::HttpRefusal;
use super::watched_stream::WatchedStream;

/// Time limit for the head of a request, after the connection or the previous answer.
const SILENCE_LIMIT: Duration = Duration::from_secs(15);

/// The same for a refused connection, and its limit in all.
const REFUSED_LIMIT: Duration = Duration::from_secs(2);

/// Limit for the head of a request.
const HEAD_LIMIT_BYTES: usize = 64 << 10;

/// Kernel send buffer: what it holds of an answer that a client does not read.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Interval at which a new connection retries to enter the table, and pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves all connections until `end` resolves.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    table: Arc<ConnectionTable>,
    mut end: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, slot) = tokio::select! {
            // A dropped sender also means the end.
            _ = &mut end => return Ok(()),
            accepted = accept(&listener, &table) => accepted,
        };
        // Without TCP_NODELAY small answers are only a little slower.
        let _ = stream.set_nodelay(true);
        let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
        if slot.is_refused {
            tokio::spawn(time::timeout(REFUSED_LIMIT, refuse(stream, slot)));
        } else {
            tokio::spawn(answer(stream, routes.clone(), slot));
        }
    }
}

/// Accepts the next connection, when the table has an entry for it.
async fn accept(
    listener: &tokio::net::TcpListener,
    table: &Arc<ConnectionTable>,
) -> (TcpStream, ConnectionSlot) {
    loop {
        if let Ok((stream, address)) = listener.accept().await {
            loop {
                if let Some(slot) = table.admit(address.ip(), Instant::now()) {
                    return (stream, slot);
                }
                time::sleep(PAUSE).await;
            }
        }
        // Most likely the process has no descriptors left.
        time::sleep(PAUSE).await;
    }
}

/// Answers the requests of a connection until it ends or must close.
async fn answer(stream: TcpStream, routes: Router, mut slot: ConnectionSlot) {
    let activity = slot.activity.clone();
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|mut request: Request<Incoming>| {
        activity.begin();
        request.extensions_mut().insert::<Arc<ConnectionActivity>>(activity.clone());
        let (answer, activity) = (routes.call(request), activity.clone());
        async move {
            let answer = answer.await;
            activity.answer();
            answer
        }
    });
    let watched = WatchedStream::new(stream, activity.clone());
    let connection = protocol(SILENCE_LIMIT).serve_connection(TokioIo::new(watched), service);
    tokio::select! {
        // A broken connection has ended.
        _ = connection => {}
        _ = &mut slot.cut => {}
    }
}

/// Refuses a client whose address has too many connections.
async fn refuse(stream: TcpStream, mut slot: ConnectionSlot) {
    let activity = slot.activity.clone();
    let service = service_fn(|_: Request<Incoming>| {
        activity.begin();
        activity.answer();
        std::future::ready(Ok::<_, Infallible>(too_many()))
    });
    let watched = WatchedStream::new(stream, activity.clone());
    let connection = protocol(REFUSED_LIMIT).serve_connection(TokioIo::new(watched), service);
    tokio::select! {
        _ = connection => {}
        _ = &mut slot.cut => {}
    }
}

fn too_many() -> Response<Body> {
    let why = format!(
        "your address has {ADDRESS_LIMIT} connections to this server: close some and ask again"
    );
    let mut response = HttpRefusal::full(why).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn protocol(silence_limit: Duration) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(silence_limit);
    protocol.max_buf_size(HEAD_LIMIT_BYTES);
    protocol
}
