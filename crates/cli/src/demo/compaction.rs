//! All disks compacted side by side. Compacting a subfile waits for its disk, so each has a
//! thread; the calling thread looks after the user meanwhile.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use pario_store::ExtentFile;

use super::progress::Progress;
use super::traffic::Traffic;

/// How long the user waits for an answer to Ctrl-C.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Compacts subfiles. If somebody asks for the end, what is still under way is left to itself: a
/// compaction can be stopped anywhere.
pub fn compact(
    subfiles: &[ExtentFile],
    traffic: &Traffic,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (done, finished) = channel();
    for subfile in subfiles {
        let (subfile, done) = (subfile.clone(), done.clone());
        thread::Builder::new()
            .name("compaction".into())
            .spawn(move || {
                // Nobody listens any more if another one has failed.
                let _ = done.send(subfile.compact());
            })
            .context("cannot start a thread for each disk")?;
    }
    drop(done);
    let mut left = subfiles.len();
    while left > 0 {
        match finished.recv_timeout(LOOK_AFTER) {
            Ok(compacted) => {
                compacted?;
                progress.advance(1);
                left -= 1;
            }
            Err(RecvTimeoutError::Timeout) => {
                progress.show_life();
                traffic.check_interrupt()?;
            }
            Err(RecvTimeoutError::Disconnected) => bail!("a compaction has died"),
        }
    }
    Ok(())
}
