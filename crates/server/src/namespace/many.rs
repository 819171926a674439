//! Several changes in one transaction, each with its own result.

use pario_proto::Failure;

use super::tree::Stop;

/// Makes one change after the other, each of which must check everything before it writes anything.
/// One that is refused leaves the others alone; a store that fails ends all.
pub fn each<I, T>(
    items: &[I],
    mut change: impl FnMut(&I) -> Result<T, Stop>,
) -> Result<Vec<Result<T, Failure>>, Stop> {
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        results.push(match change(item) {
            Ok(done) => Ok(done),
            Err(Stop::Failure(failure)) => Err(failure),
            Err(stop) => return Err(stop),
        });
    }
    Ok(results)
}
