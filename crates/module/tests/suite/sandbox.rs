//! Compiles modules, and runs them without a node.

use std::sync::Arc;

use pario_module::{CompiledModule, ModuleEngine, ModuleError, ModuleOperation, Unlimited};
use pario_operation::{ExtentBytes, ExtentInput, ExtentOutput, Operation, OperationCall};
use pario_proto::{ExtentIndex, ExtentPlacement, SubfileIndex};

/// Compiles the bytes of a module.
pub fn compile(bytes: &[u8]) -> Result<CompiledModule, ModuleError> {
    ModuleEngine::new().unwrap().compile(bytes)
}

/// Returns the operation of a module without limits of a user.
pub fn operation(bytes: &[u8]) -> ModuleOperation {
    compile(bytes).unwrap().operation("test@1", Arc::new(Unlimited))
}

/// Returns the output of an operation for one body.
pub fn process(
    operation: &ModuleOperation,
    parameters: &[u8],
    body: &[u8],
) -> Result<ExtentOutput, String> {
    let task = operation.prepare(&OperationCall::new(parameters, &[true]))?;
    let extent = Some(ExtentBytes { header: b"", body });
    let input = ExtentInput { placement: placement(0, 7), extent, neighbours: &[] };
    task.process(&input, &mut task.scratch())
}

/// Returns a placement.
pub fn placement(subfile: u32, extent: u64) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(extent) }
}
