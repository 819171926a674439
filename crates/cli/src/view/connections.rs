//! Connections of browsers: a limited number, and none that says nothing for long.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, oneshot};
use tokio::time;

/// So many connections at once; who comes then waits for one of them to end.
const LIMIT: usize = 512;

/// A request must have come so long after the connection or the one before.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Addresses and headers of a request are at most so long together.
const HEAD_LIMIT_BYTES: usize = 64 << 10;

/// When no connection can be accepted, somebody must end one of theirs first.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers all who come until `end` says so.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    mut end: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(LIMIT));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(SILENCE_LIMIT);
    protocol.max_buf_size(HEAD_LIMIT_BYTES);
    loop {
        let accept = async {
            let place = places.clone().acquire_owned().await.expect("it is never closed");
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            // Whoever has the other side and lets it go means the end as well.
            _ = &mut end => return Ok(()),
            accepted = accept => accepted,
        };
        let Ok((stream, _)) = accepted else {
            time::sleep(PAUSE).await;
            continue;
        };
        // Small answers leave at once; where that cannot be had, they leave a little later.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let connection = protocol.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A connection that breaks is the end of it.
            let _ = connection.await;
            drop(place);
        });
    }
}
