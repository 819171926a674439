//! The operations that every node has: `count`, `byte histogram` and `copy`.

use serde::{Deserialize, Serialize};

use crate::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationRegistry, OperationTask, Scratch,
    fold,
};

/// The result of the operation `count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    extents: u64,
    header_bytes: u64,
    body_bytes: u64,
}

/// Copies every extent to another file.
struct CopyOperation;

impl Operation for CopyOperation {
    fn prepare(&self, _: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        Ok(Box::new(CopyOperation))
    }
}

impl OperationTask for CopyOperation {
    fn process(&self, input: &ExtentInput<'_>, _: &mut Scratch) -> Result<ExtentOutput, String> {
        let (header, body) = (input.header().to_vec(), input.body().to_vec());
        Ok(ExtentOutput::Extent { placement: input.placement, header, body })
    }
}

/// Adds the operations to a registry.
pub fn add_to(registry: &OperationRegistry) {
    let count = fold(
        |_: &(), count: &mut Count, input: &ExtentInput<'_>| {
            count.extents += 1;
            count.header_bytes += input.header().len() as u64;
            count.body_bytes += input.body().len() as u64;
            Ok::<(), String>(())
        },
        |count, other: Count| {
            count.extents += other.extents;
            count.header_bytes += other.header_bytes;
            count.body_bytes += other.body_bytes;
        },
    );
    let bytes = fold(
        |_: &(), counts: &mut Vec<u64>, input: &ExtentInput<'_>| {
            counts.resize(256, 0);
            for byte in input.body() {
                counts[usize::from(*byte)] += 1;
            }
            Ok::<(), String>(())
        },
        |counts, others: Vec<u64>| {
            counts.resize(256, 0);
            for (count, other) in counts.iter_mut().zip(others) {
                *count += other;
            }
        },
    );
    registry.add("count", count);
    registry.add("byte histogram", bytes);
    registry.add("copy", CopyOperation);
}
