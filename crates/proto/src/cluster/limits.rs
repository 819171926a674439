//! Limits of what one request may claim: a node refuses more before it allocates anything for it.

/// The rounds of a group that may have begun without being decided; a rank can have this number of
/// calls under way.
pub const ROUNDS_LIMIT: u64 = 4096;

/// The rounds of one group that a status answer shows, oldest first.
pub const ROUNDS_SHOWN: usize = 16;

/// The ranks of one round that a status answer names, of those that have called and of those that
/// have not.
pub const MISSING_SHOWN: usize = 1024;

/// The ranks that one status answer names over all jobs: later waits name fewer.
pub const RANKS_SHOWN: usize = 16_384;

/// The waits for locks that one status answer shows.
pub const LOCK_WAITS_SHOWN: usize = 4096;

/// The clashing locks of one wait that a status answer looks at to name their holders.
pub const HOLDERS_SHOWN: usize = 64;

/// The extents that one answer lists.
pub const EXTENTS_LISTED: u32 = 65_536;

/// The names that one answer lists.
pub const NAMES_LISTED: usize = 4096;

/// The subfiles that one answer to another node lists.
pub const SUBFILES_LISTED: u32 = 65_536;

/// The groups of a user that a node believes over TCP.
pub const GROUPS_LIMIT: usize = 65_536;

/// The text by which the ranks of a job agree what they open.
pub const OPEN_TEXT_LIMIT_BYTES: usize = 256 << 10;

/// The files that one request creates, opens, closes, syncs, marks or removes together; a client
/// with more sends several requests.
pub const FILES_LIMIT: usize = 1024;
