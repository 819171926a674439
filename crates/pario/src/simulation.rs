//! The parts that the simulator of coordination (`tools/sim`) runs: the members of coordination
//! tables, and the claims of openers. Not for programs.

pub use crate::file::atomic::claims::{ClaimStep, OpenerClaims};
pub use crate::job::table_member::{JobMemory, TableMember};
