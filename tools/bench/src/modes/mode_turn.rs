//! The line that starts a turn in the processes of a side. All of them get the same line; their
//! blocks follow from their ranks.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::partner::next_word;

/// The kind of access, named after our mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeAccess {
    /// All ranks append: M_LOG; `MPI_File_write_shared`.
    Log,
    /// In the order of ranks: M_SYNC; `MPI_File_write_ordered`.
    Sync,
    /// Interleaved records: M_RECORD; `MPI_File_write_at`.
    Record,
    /// All ranks read the same bytes: M_GLOBAL; `MPI_File_read_all`.
    Global,
    /// Collective open and close.
    Open,
    /// Interleaved blocks, atomic: M_UNIX; `MPI_File_write_at` in atomic mode.
    Unix,
    /// The same blocks by all ranks, atomic.
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

    /// Its name in lines and in names of figures.
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
    /// The kind of access.
    pub access: ModeAccess,
    /// Bytes of each call.
    pub piece_bytes: usize,
    /// Calls of each process.
    pub calls: u64,
    /// The number of blocks of the file.
    pub blocks: u64,
    /// Whether the file is on a mount of the other side, which drops its cache before a turn and
    /// has sent all written bytes when the next turn begins.
    pub is_mounted: bool,
    /// The path of the file, from the root of the cluster or the directory of the others.
    pub path: String,
}

impl fmt::Display for ModeTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access, piece_bytes, calls, blocks, is_mounted, path } = self;
        let access = access.name();
        write!(f, "{access} {piece_bytes} {calls} {blocks} {} {path}", u8::from(*is_mounted))
    }
}

impl FromStr for ModeTurn {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let words = &mut words;
        let name: String = next_word(words)?;
        let Some(access) = ModeAccess::ALL.into_iter().find(|access| access.name() == name) else {
            bail!("{name} is not a kind of access");
        };
        Ok(Self {
            access,
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
        for access in ModeAccess::ALL {
            let order = ModeTurn {
                access,
                piece_bytes: 65_536,
                calls: 256,
                blocks: 1024,
                is_mounted: access == ModeAccess::Global,
                path: "/file".to_owned(),
            };
            assert_eq!(order.to_string().parse::<ModeTurn>().unwrap(), order);
        }
        assert!("tea 1 2 3 0 /file".parse::<ModeTurn>().is_err());
    }
}
