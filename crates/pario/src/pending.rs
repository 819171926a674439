//! The started request of this crate.

use crate::error::Error;

/// A started request: a read, a write or the wait for a lock. Wait for its result with `wait`, ask
/// with `is_done` whether it is there, or await it.
///
/// *Drop.* Dropping it blocks until the request is over and discards its result, so that no write
/// ends halfway and no read touches memory of the caller later. Dropping the wait for a lock
/// withdraws it instead; `cancel` does the same and says whether the lock was granted before.
///
/// A started request keeps its file open. The close of a file waits for its started writes.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use std::collections::VecDeque;
///
/// use pario::Pending;
///
/// let file = cluster.create("/blocks")?;
/// let mut under_way: VecDeque<Pending<()>> = VecDeque::new();
/// for block in 0..100_u8 {
///     if under_way.len() == 8 {
///         under_way.pop_front().map_or(Ok(()), Pending::wait)?; // the oldest of eight
///     }
///     under_way.push_back(file.start_write_at(vec![block; 1000], u64::from(block) * 1000)?);
/// }
/// under_way.into_iter().try_for_each(Pending::wait)?;
/// assert_eq!(file.len()?, 100_000);
/// # Ok(())
/// # }
/// ```
///
/// In asynchronous code: `let bytes = file.start_read_at(1000, 0)?.await?;`
pub type Pending<T> = pario_net::Pending<T, Error>;
