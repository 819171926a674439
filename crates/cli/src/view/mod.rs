//! The viewer: a page with slices through volumes, and the server behind it.
//!
//! A request for a slice is checked (`query`), waits its turn (`queue`), is done by a slice worker
//! (`workers`) and comes back as a picture (`picture`). Who may ask at all is decided before
//! (`door`).
//!
//! Invariants: no request works on anything but the volumes that were given; what waits, what is
//! being computed and what is on its way to slow readers each have a limit, beyond which requests are
//! refused with a sentence.

mod door;
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

pub use door::Door;
pub use volumes::Shown;
use workers::Workers;

use crate::http::{self, ConnectionTable};

/// All that the answers come from.
#[derive(Debug)]
struct Viewer {
    volumes: Vec<Shown>,
    door: Door,
    workers: Workers,
}

/// Serves until `end` says so. What is being computed is finished, what waits is told to go.
pub fn serve(
    listener: TcpListener,
    volumes: Vec<Shown>,
    door: Door,
    workers: NonZeroUsize,
    end: oneshot::Receiver<()>,
) -> io::Result<()> {
    let table = Arc::new(ConnectionTable::default());
    let workers = Workers::start(workers, table.clone())?;
    let viewer = Arc::new(Viewer { volumes, door, workers });
    let run = runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let routes = routes::all(viewer.clone());
    let served = run.block_on(http::serve(listener, routes, table, end));
    viewer.workers.end();
    // The nodes may still be finding the values of a volume: nobody waits for them any more.
    run.shutdown_background();
    served
}
