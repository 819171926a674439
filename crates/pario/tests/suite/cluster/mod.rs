//! Clusters of several node processes: copies, faults, recovery, scale.
//!
//! Every node and the client have a network namespace of their own. With PARIO_HEAVY=1 sizes and
//! rounds are those of a long run.

mod clocks;
mod copy;
mod faults;
mod grants;
mod lab;
mod names;
mod scale;
mod slow;
mod space;
