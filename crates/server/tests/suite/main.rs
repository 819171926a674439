//! The tests of `pario-server`: the namespace against models, kills and races; hostile clients
//! against a node of bounded memory; nodes that join at the same time.

mod attacks;
mod first_starts;
mod namespace;
mod namespace_calls;
mod namespace_kill;
mod namespace_races;
mod namespace_scale;
