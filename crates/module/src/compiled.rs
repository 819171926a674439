//! A compiled module: its checks, and how instances are created.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use wasmtime::{Engine, ExternType, FuncType, Module, ValType};

use crate::abi;
use crate::error::ModuleError;
use crate::instance::ModuleInstance;
use crate::limits::{FUNCTION_LIMIT_BYTES, MODULE_LIMIT_BYTES, MemoryBudget, Unlimited};
use crate::operation::ModuleOperation;
use crate::ticker::Ticker;

/// A function that a module exports. All take the address of an input record and return the address
/// of an output record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleExport {
    /// Runs once in each instance, with the parameters.
    Prepare,
    /// Processes an extent.
    Process,
    /// Processes an extent that does not exist.
    ProcessAbsent,
    /// Lists the parts of other extents that an extent needs.
    Neighbours,
    /// Cuts a part from an extent.
    Cut,
    /// Returns the result of one compute thread.
    Finish,
    /// Adds the result of another compute thread.
    Merge,
}

impl ModuleExport {
    /// All functions; a module needs only `Process`.
    pub const ALL: [Self; 7] = [
        Self::Prepare,
        Self::Process,
        Self::ProcessAbsent,
        Self::Neighbours,
        Self::Cut,
        Self::Finish,
        Self::Merge,
    ];

    /// The name in the module.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepare => "pario_prepare",
            Self::Process => "pario_process",
            Self::ProcessAbsent => "pario_process_absent",
            Self::Neighbours => "pario_neighbours",
            Self::Cut => "pario_cut",
            Self::Finish => "pario_finish",
            Self::Merge => "pario_merge",
        }
    }

    /// The name and the type, for errors.
    const fn signature(self) -> &'static str {
        match self {
            Self::Prepare => "pario_prepare (i32) -> i32",
            Self::Process => "pario_process (i32) -> i32",
            Self::ProcessAbsent => "pario_process_absent (i32) -> i32",
            Self::Neighbours => "pario_neighbours (i32) -> i32",
            Self::Cut => "pario_cut (i32) -> i32, because it exports pario_neighbours",
            Self::Finish => "pario_finish (i32) -> i32",
            Self::Merge => "pario_merge (i32) -> i32, because it exports pario_finish",
        }
    }
}

/// A module that is compiled and checked. Clones share it.
#[derive(Clone)]
pub struct CompiledModule {
    inner: Arc<ModuleCode>,
}

/// What the instances of a module share.
pub struct ModuleCode {
    pub engine: Engine,
    pub module: Module,
    pub ticker: Arc<Ticker>,
    pub exports: BTreeSet<ModuleExport>,
}

impl CompiledModule {
    /// Compiles and checks a module.
    pub(crate) fn compile(
        engine: &Engine,
        ticker: &Arc<Ticker>,
        bytes: &[u8],
    ) -> Result<Self, ModuleError> {
        if bytes.len() > MODULE_LIMIT_BYTES {
            return Err(ModuleError::TooLarge { bytes: bytes.len() });
        }
        if let Some(bytes) = longest_function(bytes).filter(|len| *len > FUNCTION_LIMIT_BYTES) {
            return Err(ModuleError::LongFunction { bytes });
        }
        let module = Module::from_binary(engine, bytes)
            .map_err(|error| ModuleError::NotAModule { why: one_line(&format!("{error:#}")) })?;
        if let Some(import) = module.imports().next() {
            let import = format!("{}.{}", import.module(), import.name());
            return Err(ModuleError::Import { import });
        }
        let exports = exports_of(&module)?;
        let code = ModuleCode { engine: engine.clone(), module, ticker: ticker.clone(), exports };
        let compiled = Self { inner: Arc::new(code) };
        compiled.check_start()?;
        Ok(compiled)
    }

    /// Creates an instance once, so that a module that cannot start is refused.
    fn check_start(&self) -> Result<(), ModuleError> {
        let start = |why: String| ModuleError::Start { why };
        let mut instance = ModuleInstance::new(&self.inner, Arc::new(Unlimited)).map_err(start)?;
        match instance.version().map_err(start)? {
            abi::VERSION => Ok(()),
            found => Err(ModuleError::Version { found }),
        }
    }

    /// Returns the operation, for messages under a name. Its instances take their memory from a
    /// budget.
    pub fn operation(&self, name: &str, budget: Arc<dyn MemoryBudget>) -> ModuleOperation {
        ModuleOperation::new(self.inner.clone(), name, budget)
    }

    /// The functions that the module has.
    pub fn exports(&self) -> impl Iterator<Item = ModuleExport> {
        self.inner.exports.iter().copied()
    }
}

impl ModuleCode {
    /// Whether the module has a function.
    pub fn has(&self, export: ModuleExport) -> bool {
        self.exports.contains(&export)
    }
}

impl fmt::Debug for CompiledModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompiledModule({:?})", self.inner.exports)
    }
}

/// Checks the exports, and returns the functions.
fn exports_of(module: &Module) -> Result<BTreeSet<ModuleExport>, ModuleError> {
    let missing = |export| ModuleError::Export { export };
    let is_memory =
        |kind: ExternType| matches!(kind, ExternType::Memory(memory) if !memory.is_64());
    if !module.get_export("memory").is_some_and(is_memory) {
        return Err(missing("memory, one memory of 32-bit addresses"));
    }
    if !is_function(module, "pario_abi", 0) {
        return Err(missing("pario_abi () -> i32, the version of the interface"));
    }
    if !is_function(module, "pario_alloc", 1) {
        return Err(missing("pario_alloc (i32) -> i32, which returns memory for inputs"));
    }
    let mut exports = BTreeSet::new();
    for export in ModuleExport::ALL {
        match module.get_export(export.name()) {
            Some(_) if is_function(module, export.name(), 1) => drop(exports.insert(export)),
            Some(_) => return Err(missing(export.signature())),
            None => {}
        }
    }
    use ModuleExport::{Cut, Finish, Merge, Neighbours, Process};
    let requirements = [(None, Process), (Some(Finish), Merge), (Some(Neighbours), Cut)];
    for (if_there, needed) in requirements {
        let is_needed = if_there.is_none_or(|export| exports.contains(&export));
        if is_needed && !exports.contains(&needed) {
            return Err(missing(needed.signature()));
        }
    }
    Ok(exports)
}

/// Whether a module exports a function of this number of i32 parameters that returns an i32.
fn is_function(module: &Module, name: &str, parameters: usize) -> bool {
    let is_right = |kind: &FuncType| {
        let is_i32 = |kind: ValType| matches!(kind, ValType::I32);
        kind.params().len() == parameters
            && kind.results().len() == 1
            && kind.params().chain(kind.results()).all(is_i32)
    };
    matches!(module.get_export(name), Some(ExternType::Func(kind)) if is_right(&kind))
}

/// Returns the length of the longest function; `None` if the bytes are not a module.
fn longest_function(bytes: &[u8]) -> Option<usize> {
    const CODE_SECTION: u8 = 10;
    let mut rest = bytes.get(8..)?;
    let mut longest = 0;
    while let Some((&section, after)) = rest.split_first() {
        let (len, after) = number(after)?;
        let (mut content, after) = after.split_at_checked(len)?;
        if section == CODE_SECTION {
            let functions;
            (functions, content) = number(content)?;
            for _ in 0..functions {
                let (len, body) = number(content)?;
                longest = longest.max(len);
                content = body.get(len..)?;
            }
        }
        rest = after;
    }
    Some(longest)
}

/// Decodes a number in LEB128, and returns it with the bytes that follow.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0;
    for (position, byte) in bytes.iter().enumerate().take(5) {
        number |= usize::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[position + 1..]));
        }
    }
    None
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
