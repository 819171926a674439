//! Global Arrays as a peer: Debian's, over its ARMCI on Open MPI.
//!
//! The two processes are a small C program, `peers/arrays.c`. Puts and gets need not be atomic, as
//! ours are not. Those with MPICH take no part: there every access is a message that the other
//! process has to answer, which takes ten times as long and more.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::modes::mpi::{Mpi, install};
use crate::modes::turn_processes::{TurnListener, TurnProcesses};
use crate::partner::PartnerProcess;

/// Starts two processes, or says why they cannot be had.
pub fn start(dir: &Path) -> Result<Result<TurnProcesses, String>> {
    if let Err(why) = install("arrays", dir)? {
        return Ok(Err(format!("no Global Arrays: {why}")));
    }
    let door = TurnListener::open(dir, "arrays.door")?;
    let mut command = Command::new(Mpi::Ompio.launcher());
    command.env("ARMCI_RMA_ATOMICITY", "0").args(Mpi::Ompio.words(2));
    command.arg(dir.join("arrays")).arg(door.path()?).arg(dir);
    let gathered = door.gather(2, vec![PartnerProcess::spawn(&mut command)?]);
    Ok(gathered.map_err(|error| format!("no Global Arrays: {error:#}")))
}
