//! Changes a WebAssembly module in any way: it is refused, or runs within its limits, never a panic.
//!
//! The input is a list of edits of a module that the Rust SDK has built; the bytes themselves are
//! tried as a module too.

#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use pario_module::{ModuleEngine, Unlimited};
use pario_operation::{ExtentBytes, ExtentInput, Operation, OperationCall};
use pario_proto::{ExtentIndex, ExtentPlacement, SubfileIndex};

const MODULE: &[u8] = include_bytes!("../../crates/module/tests/fixtures/rust-threshold.wasm");
const EDIT_BYTES: usize = 4;

fn engine() -> &'static ModuleEngine {
    static ENGINE: OnceLock<ModuleEngine> = OnceLock::new();
    ENGINE.get_or_init(|| ModuleEngine::new().unwrap())
}

/// Runs a module, if it is one.
fn run(bytes: &[u8]) {
    let Ok(module) = engine().compile(bytes) else { return };
    let operation = module.operation("fuzzed@1", Arc::new(Unlimited));
    let Ok(task) = operation.prepare(&OperationCall::new(b"level=7", &[true])) else { return };
    let placement = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(7) };
    let extent = Some(ExtentBytes { header: b"head", body: &[8; 100] });
    let mut scratch = task.scratch();
    let input = ExtentInput { placement, extent, neighbours: &[] };
    let _ = task.process(&input, &mut scratch);
    let _ = task.neighbours(placement);
    let _ = task.finish(vec![scratch]);
    let _ = operation.cut(b"", extent);
}

fuzz_target!(|input: &[u8]| {
    run(input);
    let mut bytes = MODULE.to_vec();
    for edit in input.chunks_exact(EDIT_BYTES).take(8) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
        match edit[3] & 3 {
            0 => bytes[at] = edit[2],
            1 => bytes.insert(at, edit[2]),
            2 => drop(bytes.remove(at)),
            _ => bytes[at] ^= 1 << (edit[2] & 7),
        }
    }
    run(&bytes);
});
