//! Limits of requests and replies. A node refuses a request above a limit before it allocates
//! memory for it.

/// Undecided rounds of a job or shared file; so a rank can have this number of calls under way.
pub const ROUNDS_LIMIT: u64 = 4096;

/// Undecided rounds of a job or shared file that a status reply shows, oldest first.
pub const ROUNDS_SHOWN: usize = 16;

/// Ranks of one round that a status reply names, both of those that have called and of those that
/// have not.
pub const MISSING_SHOWN: usize = 1024;

/// Ranks that one status reply names over all jobs: later waits name fewer.
pub const RANKS_SHOWN: usize = 16_384;

/// Waits for locks that one status reply shows.
pub const LOCK_WAITS_SHOWN: usize = 4096;

/// Conflicting locks of one wait that a status reply examines to name their holders.
pub const HOLDERS_SHOWN: usize = 64;

/// Extents that one reply lists.
pub const EXTENTS_LISTED: u32 = 65_536;

/// Names that one reply lists.
pub const NAMES_LISTED: usize = 4096;

/// Subfiles that one reply to another node lists.
pub const SUBFILES_LISTED: u32 = 65_536;

/// Groups of a user that a node accepts over TCP.
pub const GROUPS_LIMIT: usize = 65_536;

/// The length of the text by which the ranks of a job compare what they open.
pub const OPEN_TEXT_LIMIT_BYTES: usize = 256 << 10;

/// Files that one request creates, opens, closes, syncs, marks or removes together; a client with
/// more files sends several requests.
pub const FILES_LIMIT: usize = 1024;
