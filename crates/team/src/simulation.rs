//! What the simulator of a team's protocols (`tools/sim`) runs: the board, the host and the state
//! machines of captains, without their threads and their network. Not for programs.

pub use crate::board::{Board, Missing, SLOT_BYTES, shape};
pub use crate::far::follower::Follower;
pub use crate::far::host::{Answers, Host};
pub use crate::far::message::{FromHost, News, Slot, ToHost};
pub use crate::far::steward::{RoundEnd, Steward};
