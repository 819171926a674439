//! The ticker: advances the epoch of the engine while modules run, so that each invocation regularly
//! checks its processor time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(10);
/// Ticks without an invocation after which the thread parks.
const IDLE_TICKS: u32 = 100;

/// The thread that advances the epoch. It parks while no module runs.
pub struct Ticker {
    state: Arc<TickerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct TickerState {
    is_used: AtomicBool,
    is_parked: AtomicBool,
    is_over: AtomicBool,
}

impl Ticker {
    /// Starts the ticker of an engine.
    pub fn start(engine: Engine) -> std::io::Result<Self> {
        let state = Arc::new(TickerState::default());
        let of_thread = state.clone();
        let builder = std::thread::Builder::new().name("module ticker".to_owned());
        let thread = builder.spawn(move || of_thread.run(&engine))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Keeps the ticker awake for an invocation that begins or goes on.
    pub fn note_invocation(&self) {
        self.state.is_used.store(true, Ordering::SeqCst);
        if self.state.is_parked.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl TickerState {
    fn run(&self, engine: &Engine) {
        let mut idle = 0;
        while !self.is_over.load(Ordering::SeqCst) {
            if idle < IDLE_TICKS {
                std::thread::park_timeout(TICK);
                engine.increment_epoch();
            } else {
                self.is_parked.store(true, Ordering::SeqCst);
                // An invocation that has not seen `is_parked` has set `is_used` before.
                if !self.is_used.load(Ordering::SeqCst) && !self.is_over.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.is_parked.store(false, Ordering::SeqCst);
            }
            // An invocation under way marks the ticker as used at every tick.
            idle = if self.is_used.swap(false, Ordering::SeqCst) { 0 } else { idle + 1 };
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and has nothing to report.
            let _ = thread.join();
        }
    }
}
