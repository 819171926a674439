//! An instance of a module: its memory, its limits, and the invocation of its functions.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wasmtime::{
    Instance, Memory, ResourceLimiter, Store, StoreContextMut, Trap, TypedFunc, UpdateDeadline,
    WasmBacktrace,
};

use crate::abi::{ModuleInput, ModuleOutput, OutputRecord};
use crate::compiled::{ModuleCode, ModuleExport};
use crate::limits::{
    INSTANCE_MEMORY_LIMIT_BYTES, InvocationLimits, MemoryBudget, OUTPUT_LIMIT_BYTES,
    TABLE_LIMIT_ELEMENTS,
};
use crate::ticker::Ticker;

/// An instance of a module. Its memory is its state from one invocation to the next.
pub struct ModuleInstance {
    store: Store<InstanceState>,
    memory: Memory,
    version: TypedFunc<(), i32>,
    alloc: TypedFunc<u32, u32>,
    functions: BTreeMap<ModuleExport, TypedFunc<u32, u32>>,
}

/// What the sandbox knows of an instance.
struct InstanceState {
    ticker: Arc<Ticker>,
    budget: Arc<dyn MemoryBudget>,
    /// The bytes of memory that the instance has taken from the budget.
    memory_bytes: u64,
    /// Why the instance did not get more memory.
    refusal: Option<String>,
    /// The limits of the invocation under way.
    limits: InvocationLimits,
    /// The processor time of the thread at the first tick of the invocation.
    time_at_first_tick: Option<Duration>,
}

/// The processor time of an invocation is used up.
#[derive(Debug)]
struct TimeUsedUp(Duration);

impl ModuleInstance {
    /// Creates an instance. An error is a text about the module.
    pub fn new(code: &ModuleCode, budget: Arc<dyn MemoryBudget>) -> Result<Self, String> {
        let mut store = new_store(code, budget);
        begin(&mut store, InvocationLimits::of(0))?;
        let created = Instance::new(&mut store, &code.module, &[]);
        let instance = created.map_err(|error| explain(&error, store.data(), "its start"))?;
        let missing = |error: wasmtime::Error| format!("{error:#}");
        let memory = instance.get_memory(&mut store, "memory").ok_or("it exports no memory")?;
        let version = instance.get_typed_func(&mut store, "pario_abi").map_err(missing)?;
        let alloc = instance.get_typed_func(&mut store, "pario_alloc").map_err(missing)?;
        let mut functions = BTreeMap::new();
        for &export in &code.exports {
            let function = instance.get_typed_func(&mut store, export.name()).map_err(missing)?;
            functions.insert(export, function);
        }
        Ok(Self { store, memory, version, alloc, functions })
    }

    /// Asks the module for the version of its interface.
    pub fn version(&mut self) -> Result<i32, String> {
        begin(&mut self.store, InvocationLimits::of(0))?;
        let version = self.version.call(&mut self.store, ());
        version.map_err(|error| explain(&error, self.store.data(), "pario_abi"))
    }

    /// Calls a function. `None` if the module does not have it. An error is a text about the module:
    /// a trap, or an output that does not follow the interface.
    pub fn invoke(
        &mut self,
        export: ModuleExport,
        input: &ModuleInput<'_>,
    ) -> Option<Result<ModuleOutput, String>> {
        let function = self.functions.get(&export)?.clone();
        Some(self.invoke_function(export, &function, input))
    }

    fn invoke_function(
        &mut self,
        export: ModuleExport,
        function: &TypedFunc<u32, u32>,
        input: &ModuleInput<'_>,
    ) -> Result<ModuleOutput, String> {
        let len = input.len_bytes();
        begin(&mut self.store, InvocationLimits::of(len))?;
        let address = self.write_input(input, len)?;
        let called = function.call(&mut self.store, address);
        let output = called.map_err(|error| explain(&error, self.store.data(), export.name()))?;
        self.read_output(output).map_err(|why| format!("{} {why}", export.name()))
    }

    /// Copies the input into memory that the module provides, and returns its address.
    fn write_input(&mut self, input: &ModuleInput<'_>, len: usize) -> Result<u32, String> {
        let too_long = || format!("an input of {len} bytes is longer than the memory of a module");
        let wanted = u32::try_from(len).map_err(|_| too_long())?;
        let called = self.alloc.call(&mut self.store, wanted);
        let address = called.map_err(|error| explain(&error, self.store.data(), "pario_alloc"))?;
        let start = address as usize;
        let memory = self.memory.data_mut(&mut self.store);
        let room = start.checked_add(len).and_then(|end| memory.get_mut(start..end));
        match room {
            Some(room) if address != 0 => {
                input.write(room, address);
                Ok(address)
            }
            _ => {
                let refusal = self.store.data().refusal.as_deref();
                let why = refusal.map_or(String::new(), |why| format!(" ({why})"));
                Err(format!("pario_alloc has no memory for an input of {len} bytes{why}"))
            }
        }
    }

    fn read_output(&self, address: u32) -> Result<ModuleOutput, String> {
        if address == 0 {
            return Ok(ModuleOutput::Nothing);
        }
        let memory = self.memory.data(&self.store);
        let outside = |what| format!("returned {what} outside of its memory");
        let record = OutputRecord::decode(memory, address).ok_or_else(|| outside("a record"))?;
        let bytes = |run: crate::abi::ByteRun| {
            let bytes = run.of(memory).ok_or_else(|| outside("bytes"))?;
            if bytes.len() > OUTPUT_LIMIT_BYTES {
                let len = bytes.len();
                return Err(format!("returned {len} bytes; the limit is {OUTPUT_LIMIT_BYTES}"));
            }
            Ok(bytes.to_vec())
        };
        match record.kind {
            0 => Ok(ModuleOutput::Nothing),
            1 => Ok(ModuleOutput::Result(bytes(record.body)?)),
            2 => Ok(ModuleOutput::Extent {
                placement: record.placement,
                header: bytes(record.header)?,
                body: bytes(record.body)?,
            }),
            3 => {
                let text = bytes(record.body)?;
                Ok(ModuleOutput::Failure(String::from_utf8_lossy(&text).into_owned()))
            }
            kind => Err(format!("returned a record of kind {kind}; kinds are 0, 1, 2 and 3")),
        }
    }
}

fn new_store(code: &ModuleCode, budget: Arc<dyn MemoryBudget>) -> Store<InstanceState> {
    let state = InstanceState {
        ticker: code.ticker.clone(),
        budget,
        memory_bytes: 0,
        refusal: None,
        limits: InvocationLimits::of(0),
        time_at_first_tick: None,
    };
    let mut store = Store::new(&code.engine, state);
    store.limiter(|state| state);
    store.epoch_deadline_callback(check_time);
    store
}

/// Sets the limits of the next invocation.
fn begin(store: &mut Store<InstanceState>, limits: InvocationLimits) -> Result<(), String> {
    store.set_fuel(limits.fuel).map_err(|error| format!("it gets no fuel: {error}"))?;
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.ticker.note_invocation();
    (state.limits, state.time_at_first_tick, state.refusal) = (limits, None, None);
    Ok(())
}

/// Runs at every tick, on the thread of the invocation.
fn check_time(mut store: StoreContextMut<'_, InstanceState>) -> wasmtime::Result<UpdateDeadline> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let now = Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.unsigned_abs());
    let state = store.data_mut();
    state.ticker.note_invocation();
    let first = *state.time_at_first_tick.get_or_insert(now);
    let limit = state.limits.time;
    if now.saturating_sub(first) > limit {
        return Err(wasmtime::Error::new(TimeUsedUp(limit)));
    }
    Ok(UpdateDeadline::Continue(1))
}

/// Describes the failure of an invocation, with a backtrace.
fn explain(error: &wasmtime::Error, state: &InstanceState, function: &str) -> String {
    let limits = state.limits;
    let mut text = if let Some(TimeUsedUp(limit)) = error.downcast_ref() {
        format!(
            "{function} used up its processor time of {} ms: let it do less for each extent, or \
             store smaller extents",
            limit.as_millis()
        )
    } else {
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => format!(
                "{function} used up its fuel of {} instructions: let it do less for each extent, \
                 or store smaller extents",
                limits.fuel
            ),
            Some(trap) => format!("{function} trapped: {trap}"),
            None => format!("{function} failed: {}", error.root_cause()),
        }
    };
    if let Some(refusal) = &state.refusal {
        text.push_str(&format!("; {refusal}"));
    }
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames);
    for (number, frame) in frames.iter().enumerate() {
        let name = frame.func_name().map_or_else(
            || format!("function {}", frame.func_index()),
            |name| name.chars().take(200).collect(),
        );
        let offset = frame.func_offset().unwrap_or_default();
        text.push_str(&format!("\n  {number}: {name} + {offset:#x}"));
    }
    text
}

impl ResourceLimiter for InstanceState {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        if desired > INSTANCE_MEMORY_LIMIT_BYTES {
            self.refusal = Some(format!(
                "it asked for a memory of {desired} bytes, and the limit is \
                 {INSTANCE_MEMORY_LIMIT_BYTES}"
            ));
            return Ok(false);
        }
        let more = (desired as u64).saturating_sub(self.memory_bytes);
        match self.budget.take(more) {
            Ok(()) => self.memory_bytes += more,
            Err(why) => self.refusal = Some(why),
        }
        Ok(self.refusal.is_none())
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_LIMIT_ELEMENTS && maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }

    fn memories(&self) -> usize {
        1
    }
}

impl Drop for InstanceState {
    fn drop(&mut self) {
        self.budget.give_back(self.memory_bytes);
    }
}

impl fmt::Display for TimeUsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the processor time of {} ms is used up", self.0.as_millis())
    }
}

impl StdError for TimeUsedUp {}
