//! The simulators, from seeds.

mod seeds;
