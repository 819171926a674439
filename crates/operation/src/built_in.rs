//! Operations that every node has.

use serde::{Deserialize, Serialize};

use crate::{Call, Operation, Outcome, Registry, Scratch, Seen, Task, fold};

/// What the operation `count` finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    extents: u64,
    header_bytes: u64,
    body_bytes: u64,
}

/// Writes every extent to another file as it is.
struct Copying;

impl Operation for Copying {
    fn prepare(&self, _: &Call<'_>) -> Result<Box<dyn Task>, String> {
        Ok(Box::new(Copying))
    }
}

impl Task for Copying {
    fn see(&self, seen: &Seen<'_>, _: &mut Scratch) -> Result<Outcome, String> {
        let (header, body) = (seen.header().to_vec(), seen.body().to_vec());
        Ok(Outcome::Extent { place: seen.place, header, body })
    }
}

/// Adds them.
pub fn add_to(registry: &Registry) {
    let count = fold(
        |_: &(), count: &mut Count, seen: &Seen<'_>| {
            count.extents += 1;
            count.header_bytes += seen.header().len() as u64;
            count.body_bytes += seen.body().len() as u64;
            Ok::<(), String>(())
        },
        |count, other: Count| {
            count.extents += other.extents;
            count.header_bytes += other.header_bytes;
            count.body_bytes += other.body_bytes;
        },
    );
    let bytes = fold(
        |_: &(), counts: &mut Vec<u64>, seen: &Seen<'_>| {
            counts.resize(256, 0);
            for byte in seen.body() {
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
    registry.add("copy", Copying);
}
