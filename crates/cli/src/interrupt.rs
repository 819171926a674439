//! Ctrl-C, checked between two steps of the work, so that a command can clean up.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use thiserror::Error;

/// A signal has asked the command to end.
#[derive(Clone, Copy, Debug, Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Tells whether a signal has asked the command to end. The default never does.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs signal handlers: the first signal sets a flag, a second one ends the process at
    /// once.
    pub fn watch() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let status = i32::from(crate::exit::INTERRUPTED);
            // This handler must come first: the first signal must find the flag unset here.
            flag::register_conditional_shutdown(signal, status, interrupt.asked.clone())?;
            flag::register(signal, interrupt.asked.clone())?;
        }
        Ok(interrupt)
    }

    /// Sets the flag, like a signal.
    #[cfg(test)]
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Fails if a signal has arrived.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.asked.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
}
