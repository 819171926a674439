//! Forks of a process that has connections to clusters: what a library needs whose programs fork, as
//! shells do. A child uses nothing that its parent has opened; it can connect by itself.

pub use pario_net::fork::{lock_before_fork, unlock_after_fork};
