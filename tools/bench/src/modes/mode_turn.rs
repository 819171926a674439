//! What the processes of a side are told to do in a turn. All of them get the same line; what is
//! whose follows from their ranks.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::partner::next_word;

/// What is done, called after the mode of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeAccess {
    /// Everybody appends: M_LOG; `MPI_File_write_shared`.
    Log,
    /// In the order of ranks: M_SYNC; `MPI_File_write_ordered`.
    Sync,
    /// Interleaved records: M_RECORD; `MPI_File_write_at`.
    Record,
    /// All read the same: M_GLOBAL; `MPI_File_read_all`.
    Global,
    /// Opens and closes together.
    Open,
    /// Interleaved blocks, atomic: M_UNIX; `MPI_File_write_at` in atomic mode.
    Unix,
    /// The same blocks by all, atomic.
    Same,
    /// Interleaved blocks, not atomic: M_ASYNC.
    Async,
}

impl ModeAccess {
    const ALL: [Self; 8] = [
        Self::Log,
        Self::Sync,
        Self::Record,
        Self::Global,
        Self::Open,
        Self::Unix,
        Self::Same,
        Self::Async,
    ];

    /// How it is called in orders and in names of figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Sync => "sync",
            Self::Record => "record",
            Self::Global => "global",
            Self::Open => "open",
            Self::Unix => "unix",
            Self::Same => "same",
            Self::Async => "async",
        }
    }
}

/// A turn of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeTurn {
    /// What is done.
    pub what: ModeAccess,
    /// Bytes of each call.
    pub piece_bytes: usize,
    /// Calls of each process.
    pub calls: u64,
    /// How many pieces the file has.
    pub blocks: u64,
    /// Whether the file is on a mount of the other side, which forgets before a turn what it has
    /// cached, and has sent what was written when the next turn begins.
    pub is_mounted: bool,
    /// The file, seen from the root of the cluster or from the directory of the others.
    pub path: String,
}

impl fmt::Display for ModeTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, piece_bytes, calls, blocks, is_mounted, path } = self;
        let what = what.name();
        write!(f, "{what} {piece_bytes} {calls} {blocks} {} {path}", u8::from(*is_mounted))
    }
}

impl FromStr for ModeTurn {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let words = &mut words;
        let name: String = next_word(words)?;
        let Some(what) = ModeAccess::ALL.into_iter().find(|what| what.name() == name) else {
            bail!("there is nothing like {name}");
        };
        Ok(Self {
            what,
            piece_bytes: next_word(words)?,
            calls: next_word(words)?,
            blocks: next_word(words)?,
            is_mounted: next_word::<u8>(words)? == 1,
            path: next_word(words)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_told_in_a_line() {
        for what in ModeAccess::ALL {
            let order = ModeTurn {
                what,
                piece_bytes: 65_536,
                calls: 256,
                blocks: 1024,
                is_mounted: what == ModeAccess::Global,
                path: "/file".to_owned(),
            };
            assert_eq!(order.to_string().parse::<ModeTurn>().unwrap(), order);
        }
        assert!("tea 1 2 3 0 /file".parse::<ModeTurn>().is_err());
    }
}
