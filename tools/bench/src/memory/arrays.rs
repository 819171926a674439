//! Global Arrays as a peer: Debian's, over its ARMCI on Open MPI.
//!
//! The two processes are a small C program, `peers/arrays.c`. Puts and gets need not be atomic, as
//! ours are not. Global Arrays on MPICH is left out: there every access is a message that the other
//! process has to answer, which takes at least ten times as long.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::modes::mpi::{Mpi, install};
use crate::modes::turn_processes::{TurnListener, TurnProcesses};
use crate::partner::PartnerProcess;

/// Starts two processes; the inner error says why that is impossible here.
pub fn start(dir: &Path) -> Result<Result<TurnProcesses, String>> {
    if let Err(why) = install("arrays", dir)? {
        return Ok(Err(format!("no Global Arrays: {why}")));
    }
    let listener = TurnListener::open(dir, "arrays.sock")?;
    let mut command = Command::new(Mpi::Ompio.launcher());
    command.env("ARMCI_RMA_ATOMICITY", "0").args(Mpi::Ompio.words(2));
    command.arg(dir.join("arrays")).arg(listener.path()?).arg(dir);
    let gathered = listener.gather(2, vec![PartnerProcess::spawn(&mut command)?]);
    Ok(gathered.map_err(|error| format!("no Global Arrays: {error:#}")))
}
