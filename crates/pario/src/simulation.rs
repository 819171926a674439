//! The parts that the simulator of coordination (`tools/sim`) runs: the members of coordination
//! tables. Not for programs.

pub use crate::job::table_member::{JobMemory, TableMember};
