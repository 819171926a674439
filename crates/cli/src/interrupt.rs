//! Ctrl-C, seen between two steps of the work, so that it can be left tidily.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use thiserror::Error;

/// The user, or the system, wants the work to end.
#[derive(Clone, Copy, Debug, Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Knows whether somebody asked for the end. The default never hears of it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on the first signal only asks; a second one ends the process at once.
    pub fn watch() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let status = i32::from(crate::exit::INTERRUPTED);
            // The order matters: the first signal must find the flag unset here.
            flag::register_conditional_shutdown(signal, status, interrupt.asked.clone())?;
            flag::register(signal, interrupt.asked.clone())?;
        }
        Ok(interrupt)
    }

    /// Asks as a signal does.
    #[cfg(test)]
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// An error if somebody asked.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.asked.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
}
