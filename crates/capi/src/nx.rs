//! What `nx.h` declares beyond `pfslib.h`: who is here, waiting for all, and the time.
//!
//! Programs define some of these themselves; in the static library they are weak, and those of a
//! program come before those of a shared library anyway.

use libc::{c_double, c_long};

use crate::border::ending;
use crate::errors::{Doing, While};
use crate::process;

/// Which process this is.
#[unsafe(no_mangle)]
pub extern "C" fn mynode() -> c_long {
    ending("mynode", || process::size_and_rank().map(|(_, rank)| rank.into()))
}

/// How many processes there are.
#[unsafe(no_mangle)]
pub extern "C" fn numnodes() -> c_long {
    ending("numnodes", || process::size_and_rank().map(|(size, _)| size.into()))
}

/// Waits until all processes are here.
#[unsafe(no_mangle)]
pub extern "C" fn gsync() {
    ending("gsync", || process::current()?.group.barrier().while_doing(Doing::Else));
}

/// Seconds since some moment in the past.
#[unsafe(no_mangle)]
pub extern "C" fn dclock() -> c_double {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    #[expect(clippy::cast_precision_loss, reason = "a machine does not run for millions of years")]
    let seconds = now.tv_sec as f64;
    #[expect(clippy::cast_precision_loss, reason = "it is below a thousand million")]
    let rest = now.tv_nsec as f64;
    seconds + rest / 1e9
}
