//! The layout of the words of a table.

/// The words at the beginning.
pub mod head {
    pub const VERSION: usize = 0;
    pub const SIZE: usize = 1;
    pub const LOCK: usize = 2;
    /// Two words.
    pub const CHANGES: usize = 3;
    pub const BROKEN: usize = 5;
    pub const LOST: usize = 6;
    pub const NOTICED: usize = 7;
    pub const MODE: usize = 8;
    pub const IS_MEASURED: usize = 9;
    pub const OFFSET: usize = 10;
    pub const END: usize = 12;
    pub const FIRST: usize = 14;
    pub const TICKETS: usize = 16;
    pub const CHUNKS: usize = 18;
    /// Written by the node only.
    pub const IS_RESET: usize = 19;
    /// The call for which the size of the file is being found out; 0 if there is none.
    pub const MEASURING: usize = 20;
    pub const MEASURING_FLAGS: usize = 21;
    pub const MEASURING_VALUE: usize = 22;
    pub const MEASURING_SINCE_MS: usize = 24;
    /// The rank that finds out the size.
    pub const MEASURING_RANK: usize = 26;
    pub const WORDS: usize = 32;
}

/// The words of a rank.
pub mod member {
    /// Written by the node only.
    pub const IS_LOST: usize = 0;
    pub const IS_CLOSED: usize = 1;
    pub const CONSUMED: usize = 2;
    pub const TICKET: usize = 4;
    pub const FROM: usize = 6;
    pub const TO: usize = 8;
    pub const IS_WRITE: usize = 10;
    pub const SINCE_MS: usize = 12;
    /// The last call of the rank, for display. This counter is odd while the rank writes the
    /// record.
    pub const LAST_VERSION: usize = 14;
    pub const LAST_KIND: usize = 15;
    pub const LAST_FLAGS: usize = 16;
    pub const LAST_TEXT_BYTES: usize = 17;
    pub const LAST_VALUE: usize = 18;
    pub const LAST_MS: usize = 20;
    /// The text of an open, or the path of a file that is closed.
    pub const LAST_TEXT: usize = 24;
    /// The private pointer and 1, for display; 0 if there is none.
    pub const POINTER: usize = LAST_TEXT + super::TEXT_WORDS;
    /// The started requests, for display.
    pub const REQUESTS: usize = POINTER + 2;
    pub const WORDS: usize = REQUESTS + super::REQUEST_SLOTS * super::request::WORDS;
}

/// The started requests of a rank that are shown. The C interface limits them to 20 by default.
pub const REQUEST_SLOTS: usize = 20;

/// The words of a started request.
pub mod request {
    pub const STATE: usize = 0;
    pub const IS_WRITE: usize = 1;
    pub const ID: usize = 2;
    pub const LEN: usize = 4;
    pub const AT_MS: usize = 6;
    pub const WORDS: usize = 8;
}

/// The length of a text in words.
pub const TEXT_WORDS: usize = 64;

/// The words of a round.
pub mod round {
    pub const NUMBER: usize = 0;
    pub const ARRIVED: usize = 2;
    pub const LAST: usize = 3;
    pub const IS_DECIDED: usize = 4;
    pub const KIND: usize = 5;
    pub const OFFSET: usize = 6;
    pub const LEN: usize = 8;
    pub const FIRST_CHUNK: usize = 10;
    pub const PRODUCED: usize = 11;
    pub const PERFORMED: usize = 12;
    pub const PERFORMED_LEN: usize = 14;
    pub const SINCE_MS: usize = 16;
    pub const TAKEN: usize = 18;
    pub const TEXT_BYTES: usize = 19;
    pub const TEXT: usize = 20;
    pub const WORDS: usize = TEXT + super::TEXT_WORDS;
}

/// The words of the call of one rank in a round.
pub mod rank_call {
    pub const KIND: usize = 0;
    pub const FLAGS: usize = 1;
    pub const VALUE: usize = 2;
    pub const OFFSET: usize = 4;
    pub const LEN: usize = 6;
    pub const WORDS: usize = 8;
}

/// The kind of a decision.
pub mod kind {
    pub const DONE: u32 = 0;
    pub const AT: u32 = 1;
    pub const RANGES: u32 = 2;
    pub const ONCE: u32 = 3;
    pub const DISAGREEMENT: u32 = 4;
    pub const WRONG_MODE: u32 = 5;
    pub const OUT_OF_RANGE: u32 = 6;
    pub const NOT_MEASURED: u32 = 7;
    pub const RANK_FAILED: u32 = 8;
}
