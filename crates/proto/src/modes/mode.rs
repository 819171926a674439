//! The six modes, as points on four axes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the processes of a job share an open file.
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
    /// Each has a pointer of its own, and every access is atomic.
    #[default]
    Unix,
    /// One pointer for all, first come, first served.
    Log,
    /// One pointer for all; accesses of any sizes, in the order of ranks.
    Sync,
    /// Each has a pointer of its own; records of one size, interleaved in the order of ranks.
    Record,
    /// One pointer for all; all do the same, and it is done once.
    Global,
    /// As [`Unix`](Mode::Unix), without atomicity.
    Async,
}

/// Where a mode lies on the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Where are my bytes?
    pub view: View,
    /// Where am I?
    pub pointer: Pointer,
    /// Who goes when?
    pub order: AccessOrder,
    /// Whether accesses that overlap never mix.
    pub is_atomic: bool,
}

/// Which bytes of the file a rank sees as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All.
    Whole,
    /// Records, one for each rank in turn.
    Interleaved,
}

/// Whose the position in the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// Each rank's own.
    Private,
    /// The group's.
    Shared,
}

/// In which order accesses get their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOrder {
    /// Nobody asks anybody.
    Independent,
    /// As they come.
    FirstCome,
    /// When all have come, by rank.
    ByRank,
    /// When all have come, all at the same place.
    AllTheSame,
}

/// What a rank does, as far as it may have to wait for the others.
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

    /// Whether all ranks meet in a step: nobody goes on before all have come.
    pub fn is_collective(self, step: CallKind) -> bool {
        let Axes { view, pointer, order, .. } = self.axes();
        let is_ordered = matches!(order, AccessOrder::ByRank | AccessOrder::AllTheSame);
        match step {
            CallKind::SetMode => true,
            CallKind::Close => view == View::Interleaved || pointer == Pointer::Shared,
            CallKind::Seek => view == View::Interleaved || is_ordered,
            CallKind::Transfer => is_ordered,
        }
    }

    /// The number that C programs know it by.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The mode of a number.
    pub fn from_number(number: u8) -> Option<Mode> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name that C programs know it by.
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

    /// The table of the manual: which calls synchronise in which mode.
    #[test]
    fn ranks_meet_where_the_manual_says() {
        let table = [
            (Mode::Unix, [false, false, false]),
            (Mode::Log, [false, false, true]),
            (Mode::Sync, [true, true, true]),
            (Mode::Record, [false, true, true]),
            (Mode::Global, [true, true, true]),
            (Mode::Async, [false, false, false]),
        ];
        for (mode, meets) in table {
            let steps = [CallKind::Transfer, CallKind::Seek, CallKind::Close];
            assert_eq!(steps.map(|step| mode.is_collective(step)), meets, "{mode}");
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
