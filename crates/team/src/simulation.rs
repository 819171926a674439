//! The parts that the simulator of a team's protocols (`tools/sim`) runs: the board, the
//! coordinator and the state machines of machine leaders, without threads and network. Not for
//! programs.

pub use crate::board::{Board, DepartedRank, SLOT_BYTES, shape};
pub use crate::remote::coordinator::{CoordinatorReplies, TeamCoordinator};
pub use crate::remote::machine_reporter::{MachineReporter, RoundEnd};
pub use crate::remote::message::{CoordinatorReply, CoordinatorRequest, News, RoundSlot};
pub use crate::remote::news_feed::NewsFeed;
