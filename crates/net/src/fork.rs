//! Forks of a process that has spaces.
//!
//! The threads of a space exist only in the parent, and its sockets belong to the parent: a child
//! uses none of the spaces that existed before the fork, and drops none of them. It can build spaces
//! of its own if the locks that all spaces of a process share are free in it.

use crate::core::SPACES;
use crate::{pool, unflushed_links};

/// Takes the locks that all spaces of this process share, so that no other thread holds them while
/// this one forks.
pub fn lock_before_fork() {
    pool::lock_before_fork();
    std::mem::forget(SPACES.lock());
}

/// Releases these locks, in the parent and in the child. In the child it also forgets what this
/// thread has not sent yet: the parent sends it.
///
/// # Safety
/// This thread called [`lock_before_fork`] before the fork, and has not called this since.
pub unsafe fn unlock_after_fork(is_child: bool) {
    if is_child {
        unflushed_links::forget();
    }
    // SAFETY: this thread has the lock; its guard was forgotten.
    unsafe { SPACES.force_unlock() };
    // SAFETY: the caller guarantees it.
    unsafe { pool::unlock_after_fork() };
}
