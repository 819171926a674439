//! The rows of a timing diagram: its threads in display order.

use std::collections::BTreeMap;

use super::span::Span;

/// A thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadRow<'t> {
    pub(super) process: &'t str,
    pub(super) thread: &'t str,
}

/// Returns the threads with executions: the threads of a process together, those of a pool together
/// and by number, otherwise in order of their first execution, which for a pipeline is the order of
/// its stages.
pub(super) fn rows<'t>(spans: impl IntoIterator<Item = &'t Span>) -> Vec<ThreadRow<'t>> {
    let mut rows: BTreeMap<ThreadRow<'t>, u64> = BTreeMap::new();
    for span in spans {
        let row = ThreadRow { process: &span.process, thread: &span.thread };
        let first = rows.entry(row).or_insert(u64::MAX);
        *first = span.begin_ns.min(*first);
    }
    let mut processes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut pools: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (row, first) in &rows {
        let process = processes.entry(row.process).or_insert(u64::MAX);
        *process = (*process).min(*first);
        let pool = pools.entry((row.process, split(row.thread).0)).or_insert(u64::MAX);
        *pool = (*pool).min(*first);
    }
    let mut rows: Vec<ThreadRow<'t>> = rows.into_keys().collect();
    rows.sort_by_key(|row| {
        let (pool, number) = split(row.thread);
        let key = (row.process, pool);
        (processes[row.process], row.process, pools[&key], pool, number, row.thread)
    });
    rows
}

/// Returns the pool of a thread and its number there.
fn split(thread: &str) -> (&str, Option<u64>) {
    let number = thread.strip_suffix(']').and_then(|front| front.rsplit_once('['));
    match number {
        Some((pool, number)) => (pool, number.parse().ok()),
        None => (thread, None),
    }
}
