//! The limits of modules: of their bytes, of one invocation, of one instance.

use std::time::Duration;

/// The largest module.
pub const MODULE_LIMIT_BYTES: usize = 1 << 20;

/// The largest function of a module: the time to compile a function grows faster than its length.
pub const FUNCTION_LIMIT_BYTES: usize = 128 << 10;

/// The largest memory of one instance.
pub const INSTANCE_MEMORY_LIMIT_BYTES: usize = 512 << 20;

/// The elements of the tables of one instance.
pub const TABLE_LIMIT_ELEMENTS: usize = 65_536;

/// The stack of one invocation.
pub const STACK_LIMIT_BYTES: usize = 256 << 10;

/// The largest parameters of a call.
pub const PARAMETERS_LIMIT_BYTES: usize = 1 << 20;

/// The largest result, and the largest header and body of a new extent.
pub const OUTPUT_LIMIT_BYTES: usize = 128 << 20;

/// Neighbours of one extent.
pub const NEIGHBOURS_LIMIT: usize = 1024;

/// Functions that a backtrace names.
pub const BACKTRACE_FRAMES: usize = 16;

/// Fuel of every invocation, and further fuel for each byte that it gets. One unit is about one
/// instruction of the module.
const FUEL: u64 = 1_000_000_000;
const FUEL_PER_BYTE: u64 = 1_000;

/// Processor time of every invocation, and the bytes for which it gets another second.
const TIME: Duration = Duration::from_secs(1);
const BYTES_PER_SECOND: u64 = 4 << 20;

/// The fuel and the processor time of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvocationLimits {
    /// Instructions.
    pub fuel: u64,
    /// Processor time of the thread.
    pub time: Duration,
}

impl InvocationLimits {
    /// Returns the limits of an invocation with this number of bytes as input.
    pub fn of(input_bytes: usize) -> Self {
        let bytes = input_bytes as u64;
        let fuel = FUEL + FUEL_PER_BYTE * bytes;
        let time = TIME + Duration::from_millis(bytes * 1000 / BYTES_PER_SECOND);
        Self { fuel, time }
    }
}

/// The memory that the instances of one user may have together.
pub trait MemoryBudget: Send + Sync {
    /// Takes memory for an instance. The error says why the user cannot have more.
    fn take(&self, bytes: u64) -> Result<(), String>;

    /// Gives memory back.
    fn give_back(&self, bytes: u64);
}

/// No limit but that of each instance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl MemoryBudget for Unlimited {
    fn take(&self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn give_back(&self, _: u64) {}
}
