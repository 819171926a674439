//! On which links a thread has sent since it last waited: they are flushed when it waits again.

use std::cell::RefCell;
use std::sync::Arc;

use crate::link::Link;

#[derive(Default)]
struct Gathered(Vec<Arc<Link>>);

impl Drop for Gathered {
    fn drop(&mut self) {
        for link in self.0.drain(..) {
            link.flush();
        }
    }
}

thread_local! {
    static GATHERED: RefCell<Gathered> = const { RefCell::new(Gathered(Vec::new())) };
}

/// Notes that this thread sends on a link; true if it has not since it last waited.
pub(crate) fn note(link: &Arc<Link>) -> bool {
    GATHERED
        .try_with(|gathered| {
            let links = &mut gathered.borrow_mut().0;
            let is_new = !links.iter().any(|known| Arc::ptr_eq(known, link));
            if is_new {
                links.push(link.clone());
            }
            is_new
        })
        .unwrap_or(true)
}

/// Sends what this thread has gathered, because it is going to wait.
pub(crate) fn flush() {
    let links = GATHERED.try_with(|gathered| {
        let links = &mut gathered.borrow_mut().0;
        if links.is_empty() { Vec::new() } else { std::mem::take(links) }
    });
    for link in links.unwrap_or_default() {
        link.flush();
    }
}
