//! The six modes, as points on the axes of access.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the ranks of a job share an open file.
///
/// ```
/// use pario_proto::{Mode, AccessOrder, Pointer};
///
/// assert_eq!(Mode::Sync.axes().pointer, Pointer::Shared);
/// assert_eq!(Mode::Sync.axes().order, AccessOrder::ByRank);
/// assert_eq!("M_LOG".parse(), Ok(Mode::Log));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Each rank has its own pointer, and every access is atomic.
    #[default]
    Unix,
    /// One shared pointer; accesses are placed first come, first served.
    Log,
    /// One shared pointer; accesses of any size are placed in the order of ranks.
    Sync,
    /// Each rank has its own pointer; records of one size are interleaved in the order of ranks.
    Record,
    /// One shared pointer; all ranks make the same access, and one rank performs it.
    Global,
    /// As [`Unix`](Mode::Unix), without atomicity.
    Async,
}

/// The position of a mode on the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Which bytes a rank sees.
    pub view: View,
    /// Whose the pointer is.
    pub pointer: Pointer,
    /// In which order accesses are placed.
    pub order: AccessOrder,
    /// Whether overlapping accesses never mix.
    pub is_atomic: bool,
}

/// Which bytes of the file a rank sees as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The whole file.
    Whole,
    /// Records that belong to the ranks in turn.
    Interleaved,
}

/// Whose the position in the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// Each rank has its own.
    Private,
    /// The ranks share one.
    Shared,
}

/// In which order accesses are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOrder {
    /// Each rank by itself.
    Independent,
    /// As the calls arrive.
    FirstCome,
    /// When all ranks have called, by rank.
    ByRank,
    /// When all ranks have called, all at the same range.
    AllTheSame,
}

/// Kinds of calls that are collective in some modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Reading or writing.
    Transfer,
    /// Moving the pointer.
    Seek,
    /// Closing.
    Close,
    /// Choosing another mode.
    SetMode,
}

impl Mode {
    /// All modes, in the order of their numbers.
    pub const ALL: [Mode; 6] =
        [Mode::Unix, Mode::Log, Mode::Sync, Mode::Record, Mode::Global, Mode::Async];

    /// The axes.
    pub fn axes(self) -> Axes {
        use {AccessOrder as O, Pointer as P, View as V};
        let (view, pointer, order) = match self {
            Mode::Unix | Mode::Async => (V::Whole, P::Private, O::Independent),
            Mode::Log => (V::Whole, P::Shared, O::FirstCome),
            Mode::Sync => (V::Whole, P::Shared, O::ByRank),
            Mode::Record => (V::Interleaved, P::Private, O::Independent),
            Mode::Global => (V::Whole, P::Shared, O::AllTheSame),
        };
        Axes { view, pointer, order, is_atomic: self == Mode::Unix }
    }

    /// Whether a call is collective: no rank goes on before all ranks have called.
    pub fn is_collective(self, kind: CallKind) -> bool {
        let Axes { view, pointer, order, .. } = self.axes();
        let is_ordered = matches!(order, AccessOrder::ByRank | AccessOrder::AllTheSame);
        match kind {
            CallKind::SetMode => true,
            CallKind::Close => view == View::Interleaved || pointer == Pointer::Shared,
            CallKind::Seek => view == View::Interleaved || is_ordered,
            CallKind::Transfer => is_ordered,
        }
    }

    /// The number of the mode in C programs.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The mode of a number.
    pub fn from_number(number: u8) -> Option<Mode> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name of the mode in C programs.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Unix => "M_UNIX",
            Mode::Log => "M_LOG",
            Mode::Sync => "M_SYNC",
            Mode::Record => "M_RECORD",
            Mode::Global => "M_GLOBAL",
            Mode::Async => "M_ASYNC",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.strip_prefix("M_").unwrap_or(text);
        let is_it = |mode: &Mode| mode.name()[2..].eq_ignore_ascii_case(plain);
        Self::ALL.into_iter().find(is_it).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// No mode has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a mode; there are M_UNIX, M_LOG, M_SYNC, M_RECORD, M_GLOBAL and M_ASYNC")]
pub struct UnknownMode(String);

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the PFS manual: which calls synchronise in which mode.
    #[test]
    fn calls_are_collective_where_the_manual_says() {
        let table = [
            (Mode::Unix, [false, false, false]),
            (Mode::Log, [false, false, true]),
            (Mode::Sync, [true, true, true]),
            (Mode::Record, [false, true, true]),
            (Mode::Global, [true, true, true]),
            (Mode::Async, [false, false, false]),
        ];
        for (mode, collective) in table {
            let kinds = [CallKind::Transfer, CallKind::Seek, CallKind::Close];
            assert_eq!(kinds.map(|kind| mode.is_collective(kind)), collective, "{mode}");
            assert!(mode.is_collective(CallKind::SetMode));
        }
    }

    #[test]
    fn numbers_and_names_belong_to_one_mode() {
        for (number, mode) in (0..).zip(Mode::ALL) {
            assert_eq!((mode.number(), Mode::from_number(number)), (number, Some(mode)));
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(mode.name()[2..].to_lowercase().parse(), Ok(mode));
        }
        assert_eq!(Mode::from_number(6), None);
        let error = "M_ALL".parse::<Mode>().unwrap_err().to_string();
        assert!(error.starts_with("\"M_ALL\" is not a mode; there are M_UNIX"), "{error}");
    }
}
