//! Connections of clients: a limited number in all and of each address, and none that stays
//! without sending requests or reading answers.

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

use super::connection_table::{ADDRESS_LIMIT, ConnectionTable, Place, Progress};
use super::refusal::Refusal;
use super::watched_stream::WatchedStream;

/// The time in which the head of a request must have come, after the connection or the answer
/// before it.
const SILENCE_LIMIT: Duration = Duration::from_secs(15);

/// The same for a connection that is refused, and the most that it may take in all.
const REFUSED_LIMIT: Duration = Duration::from_secs(2);

/// The most bytes of the head of a request.
const HEAD_LIMIT_BYTES: usize = 64 << 10;

/// What the kernel keeps of an answer that a client does not read.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// How soon a new connection looks again for a place, and how long the server waits after it
/// could not accept one.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves all connections until `end` says so.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    table: Arc<ConnectionTable>,
    mut end: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, place) = tokio::select! {
            // A sender that is dropped means the end as well.
            _ = &mut end => return Ok(()),
            accepted = accept(&listener, &table) => accepted,
        };
        // Small answers leave at once; where that cannot be had, they leave a little later.
        let _ = stream.set_nodelay(true);
        let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
        if place.is_refused {
            tokio::spawn(time::timeout(REFUSED_LIMIT, refuse(stream, place)));
        } else {
            tokio::spawn(answer(stream, routes.clone(), place));
        }
    }
}

/// The next connection, when there is a place for it.
async fn accept(
    listener: &tokio::net::TcpListener,
    table: &Arc<ConnectionTable>,
) -> (TcpStream, Place) {
    loop {
        if let Ok((stream, address)) = listener.accept().await {
            loop {
                if let Some(place) = table.admit(address.ip(), Instant::now()) {
                    return (stream, place);
                }
                time::sleep(PAUSE).await;
            }
        }
        // Most likely there are no descriptors left.
        time::sleep(PAUSE).await;
    }
}

/// Answers the requests of a connection until it ends or loses its place.
async fn answer(stream: TcpStream, routes: Router, mut place: Place) {
    let progress = place.progress.clone();
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|mut request: Request<Incoming>| {
        progress.begin();
        request.extensions_mut().insert::<Arc<Progress>>(progress.clone());
        let (answer, progress) = (routes.call(request), progress.clone());
        async move {
            let answer = answer.await;
            progress.answer();
            answer
        }
    });
    let watched = WatchedStream::new(stream, progress.clone());
    let connection = protocol(SILENCE_LIMIT).serve_connection(TokioIo::new(watched), service);
    tokio::select! {
        // A connection that breaks has ended.
        _ = connection => {}
        _ = &mut place.cut => {}
    }
}

/// Tells a client whose address has too many connections.
async fn refuse(stream: TcpStream, mut place: Place) {
    let progress = place.progress.clone();
    let service = service_fn(|_: Request<Incoming>| {
        progress.begin();
        progress.answer();
        std::future::ready(Ok::<_, Infallible>(too_many()))
    });
    let watched = WatchedStream::new(stream, progress.clone());
    let connection = protocol(REFUSED_LIMIT).serve_connection(TokioIo::new(watched), service);
    tokio::select! {
        _ = connection => {}
        _ = &mut place.cut => {}
    }
}

fn too_many() -> Response<Body> {
    let why = format!(
        "your address has {ADDRESS_LIMIT} connections to this server: close some and ask again"
    );
    let mut response = Refusal::full(why).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn protocol(silence_limit: Duration) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(silence_limit);
    protocol.max_buf_size(HEAD_LIMIT_BYTES);
    protocol
}
