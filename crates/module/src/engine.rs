//! The engine: compiles modules, and holds what all of them share.

use std::num::NonZeroUsize;
use std::sync::Arc;

use wasmtime::{Config, Engine, OptLevel};

use crate::compiled::CompiledModule;
use crate::error::ModuleError;
use crate::limits::{BACKTRACE_FRAMES, STACK_LIMIT_BYTES};
use crate::ticker::Ticker;

/// Compiles modules. A process needs one.
#[derive(Clone)]
pub struct ModuleEngine {
    engine: Engine,
    ticker: Arc<Ticker>,
}

impl ModuleEngine {
    /// Sets up the sandbox.
    pub fn new() -> Result<Self, ModuleError> {
        let unsupported = |why: String| ModuleError::Unsupported { why };
        let engine = Engine::new(&config()).map_err(|error| unsupported(format!("{error:#}")))?;
        let ticker = Ticker::start(engine.clone()).map_err(|error| {
            unsupported(format!("the thread that limits their time cannot be started: {error}"))
        })?;
        Ok(Self { engine, ticker: Arc::new(ticker) })
    }

    /// Compiles a module, and checks that it is an operation.
    pub fn compile(&self, bytes: &[u8]) -> Result<CompiledModule, ModuleError> {
        CompiledModule::compile(&self.engine, &self.ticker, bytes)
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_LIMIT_BYTES)
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        .wasm_simd(true)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        // Instances share no pages, so a module costs no descriptor.
        .memory_init_cow(false)
        .cranelift_opt_level(OptLevel::Speed);
    config
}
