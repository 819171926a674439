//! The viewer: a page with slices through volumes, and its server.
//!
//! `access_gate` decides whether a request is answered. A request for a slice is parsed and checked
//! (`query`), waits in a fair queue (`queue`), is computed by a slice worker (`workers`) and
//! returned as a picture (`picture`).
//!
//! Invariants: requests reach only the volumes on the command line; waiting requests, slices in
//! progress, and pictures on their way to slow readers each have a limit, beyond which requests are
//! refused with an explanation.

mod access_gate;
mod page;
pub mod picture;
mod query;
mod queue;
mod refusal;
mod routes;
mod volumes;
mod workers;

use std::io;
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::runtime;
use tokio::sync::oneshot;

pub use access_gate::AccessGate;
pub use volumes::ViewedVolume;
use workers::RenderWorkers;

use crate::http::{self, ConnectionTable};

/// The state behind the answers.
#[derive(Debug)]
struct Viewer {
    volumes: Vec<ViewedVolume>,
    gate: AccessGate,
    workers: RenderWorkers,
}

/// Serves until `end` resolves. Finishes slices in progress, and refuses requests that wait.
pub fn serve(
    listener: TcpListener,
    volumes: Vec<ViewedVolume>,
    gate: AccessGate,
    workers: NonZeroUsize,
    end: oneshot::Receiver<()>,
) -> io::Result<()> {
    let table = Arc::new(ConnectionTable::default());
    let workers = RenderWorkers::start(workers, table.clone())?;
    let viewer = Arc::new(Viewer { volumes, gate, workers });
    let run = runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let routes = routes::all(viewer.clone());
    let served = run.block_on(http::serve(listener, routes, table, end));
    viewer.workers.end();
    // The nodes may still be computing the values of a volume; no client waits for them.
    run.shutdown_background();
    served
}
