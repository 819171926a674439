//! What the simulator of a team's protocols (`tools/sim`) runs: the board, the host and the state
//! machines of leaders, without their threads and their network. Not for programs.

pub use crate::board::{Board, MissingRank, SLOT_BYTES, shape};
pub use crate::remote::coordinator::{CoordinatorReplies, TeamCoordinator};
pub use crate::remote::machine_reporter::{MachineReporter, RoundEnd};
pub use crate::remote::message::{CoordinatorReply, CoordinatorRequest, News, RoundSlot};
pub use crate::remote::news_feed::NewsFeed;
