//! The links on which a thread has sent since it last waited. The thread flushes them when it waits
//! again.

use std::cell::RefCell;
use std::sync::Arc;

use crate::link::Link;

#[derive(Default)]
struct UnflushedLinks(Vec<Arc<Link>>);

impl Drop for UnflushedLinks {
    fn drop(&mut self) {
        for link in self.0.drain(..) {
            link.flush();
        }
    }
}

thread_local! {
    static UNFLUSHED: RefCell<UnflushedLinks> = const { RefCell::new(UnflushedLinks(Vec::new())) };
}

/// Adds a link to those of this thread. Returns whether it is new.
pub(crate) fn add(link: &Arc<Link>) -> bool {
    UNFLUSHED
        .try_with(|unflushed| {
            let links = &mut unflushed.borrow_mut().0;
            let is_new = !links.iter().any(|known| Arc::ptr_eq(known, link));
            if is_new {
                links.push(link.clone());
            }
            is_new
        })
        .unwrap_or(true)
}

/// Flushes the links of this thread, because it is going to wait.
pub(crate) fn flush() {
    let links = UNFLUSHED.try_with(|unflushed| {
        let links = &mut unflushed.borrow_mut().0;
        if links.is_empty() { Vec::new() } else { std::mem::take(links) }
    });
    for link in links.unwrap_or_default() {
        link.flush();
    }
}

/// Forgets the links of this thread without a flush.
pub(crate) fn forget() {
    let links = UNFLUSHED.try_with(|unflushed| std::mem::take(&mut unflushed.borrow_mut().0));
    std::mem::forget(links);
}
