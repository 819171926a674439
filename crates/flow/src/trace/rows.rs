//! In which order threads are shown.

use std::collections::BTreeMap;

use super::span::Span;

/// A thread of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row<'t> {
    pub(super) space: &'t str,
    pub(super) thread: &'t str,
}

/// The threads that did something: those of an address space together, those of a pool together
/// and by number, otherwise in the order in which they began, which for a pipeline is its own.
pub(super) fn rows<'t>(spans: impl IntoIterator<Item = &'t Span>) -> Vec<Row<'t>> {
    let mut rows: BTreeMap<Row<'t>, u64> = BTreeMap::new();
    for span in spans {
        let row = Row { space: &span.space, thread: &span.thread };
        let first = rows.entry(row).or_insert(u64::MAX);
        *first = span.begin_ns.min(*first);
    }
    let mut spaces: BTreeMap<&str, u64> = BTreeMap::new();
    let mut pools: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (row, first) in &rows {
        let space = spaces.entry(row.space).or_insert(u64::MAX);
        *space = (*space).min(*first);
        let pool = pools.entry((row.space, split(row.thread).0)).or_insert(u64::MAX);
        *pool = (*pool).min(*first);
    }
    let mut rows: Vec<Row<'t>> = rows.into_keys().collect();
    rows.sort_by_key(|row| {
        let (pool, number) = split(row.thread);
        let key = (row.space, pool);
        (spaces[row.space], row.space, pools[&key], pool, number, row.thread)
    });
    rows
}

/// The pool of a thread and its number in it.
fn split(thread: &str) -> (&str, Option<u64>) {
    let number = thread.strip_suffix(']').and_then(|front| front.rsplit_once('['));
    match number {
        Some((pool, number)) => (pool, number.parse().ok()),
        None => (thread, None),
    }
}
