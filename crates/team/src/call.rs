//! A collective call, as it stands on the board.

use std::fmt;

use crate::collective::Reduction;

/// A collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveCall {
    /// A barrier.
    Barrier,
    /// A broadcast.
    Broadcast {
        /// The sending rank.
        root: u32,
        /// The number of bytes.
        bytes: u64,
    },
    /// A gather.
    Gather {
        /// The bytes of this rank in this round.
        bytes: u64,
    },
    /// A reduction.
    Reduce {
        /// The operation.
        reduction: Reduction,
        /// The type of the numbers.
        kind: u32,
        /// The count.
        count: u64,
    },
    /// An allocation of segments.
    Allocate,
    /// A creation of mutexes.
    Mutexes,
    /// A registration of a callback.
    Callback,
    /// A creation of an array.
    Array {
        /// The type of its elements; 0 for any.
        kind: u32,
        /// Bytes of an element.
        element: u32,
        /// How many there are.
        len: u64,
    },
    /// A call that this rank cannot make. The bytes behind it say why.
    Failed,
    /// A call unknown here: the processes run different programs.
    Unknown,
    /// A start of messaging.
    Messaging,
}

/// Bytes of a call on the board.
pub const CALL_BYTES: usize = 24;

impl CollectiveCall {
    /// Encodes the call for the board, with the number of bytes behind it.
    pub fn to_bytes(self, payload: usize) -> [u8; CALL_BYTES] {
        let (kind, detail, amount) = match self {
            Self::Barrier => (1, 0, 0),
            Self::Broadcast { root, bytes } => (2, root, bytes),
            Self::Gather { bytes } => (3, 0, bytes),
            Self::Reduce { reduction, kind, count } => (4, reduction.number() << 16 | kind, count),
            Self::Allocate => (5, 0, 0),
            Self::Mutexes => (6, 0, 0),
            Self::Callback => (7, 0, 0),
            Self::Array { kind, len, .. } => (8, kind, len),
            Self::Messaging => (10, 0, 0),
            Self::Failed => (9, 0, 0),
            Self::Unknown => (0, 0, 0_u64),
        };
        let mut bytes = [0; CALL_BYTES];
        bytes[..4].copy_from_slice(&u32::to_le_bytes(kind));
        bytes[4..8].copy_from_slice(&u32::to_le_bytes(detail));
        bytes[8..16].copy_from_slice(&amount.to_le_bytes());
        let payload = u32::try_from(payload).unwrap_or(u32::MAX);
        bytes[20..24].copy_from_slice(&payload.to_le_bytes());
        if let Self::Array { element, .. } = self {
            bytes[16..20].copy_from_slice(&element.to_le_bytes());
        }
        bytes
    }

    /// The number of bytes behind the call on the board.
    pub fn payload_bytes(bytes: &[u8; CALL_BYTES]) -> usize {
        let mut payload = [0; 4];
        payload.copy_from_slice(&bytes[20..24]);
        usize::try_from(u32::from_le_bytes(payload)).unwrap_or(usize::MAX)
    }

    /// Decodes a call from the board.
    pub fn of_bytes(bytes: &[u8; CALL_BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let detail = word(4);
        let amount = u64::from(word(8)) | u64::from(word(12)) << 32;
        match word(0) {
            1 => Self::Barrier,
            2 => Self::Broadcast { root: detail, bytes: amount },
            3 => Self::Gather { bytes: amount },
            4 => match Reduction::of_number(detail >> 16) {
                Some(reduction) => Self::Reduce { reduction, kind: detail & 0xffff, count: amount },
                None => Self::Unknown,
            },
            5 => Self::Allocate,
            6 => Self::Mutexes,
            7 => Self::Callback,
            8 => Self::Array { kind: detail, element: word(16), len: amount },
            10 => Self::Messaging,
            9 => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// Whether it matches the call of another rank: ranks may gather different numbers of bytes.
    pub fn fits(self, other: Self) -> bool {
        match (self, other) {
            (Self::Gather { .. }, Self::Gather { .. }) => true,
            _ => self == other,
        }
    }
}

impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier => write!(f, "a barrier"),
            Self::Broadcast { root, bytes } => {
                write!(f, "a broadcast of {bytes} bytes from rank {root}")
            }
            Self::Gather { .. } => write!(f, "a gathering for all"),
            Self::Reduce { reduction, kind, count } => {
                let kind = crate::number::name_of(*kind);
                write!(f, "a reduction to the {reduction} of {count} numbers of type {kind}")
            }
            Self::Allocate => write!(f, "an allocation of segments"),
            Self::Mutexes => write!(f, "a creation of mutexes"),
            Self::Callback => write!(f, "a registration of a callback"),
            Self::Array { kind: 0, element, len } => {
                write!(f, "a creation of an array of {len} elements of {element} bytes")
            }
            Self::Array { kind, len, .. } => {
                let kind = crate::number::name_of(*kind);
                write!(f, "a creation of an array of {len} numbers of type {kind}")
            }
            Self::Messaging => write!(f, "a start of messaging"),
            Self::Failed => write!(f, "a call with invalid arguments"),
            Self::Unknown => write!(f, "a call that this version does not know"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_from_the_board() {
        let calls = [
            CollectiveCall::Barrier,
            CollectiveCall::Broadcast { root: 3, bytes: 1 << 40 },
            CollectiveCall::Gather { bytes: 7 },
            CollectiveCall::Reduce { reduction: Reduction::Largest, kind: 6, count: u64::MAX },
            CollectiveCall::Allocate,
            CollectiveCall::Mutexes,
            CollectiveCall::Callback,
            CollectiveCall::Messaging,
            CollectiveCall::Array { kind: 4, element: 8, len: 1 << 50 },
            CollectiveCall::Array { kind: 0, element: u32::MAX, len: 3 },
            CollectiveCall::Failed,
        ];
        for call in calls {
            assert_eq!(CollectiveCall::of_bytes(&call.to_bytes(7)), call);
            assert_eq!(CollectiveCall::payload_bytes(&call.to_bytes(1 << 16)), 1 << 16);
        }
        assert_eq!(CollectiveCall::of_bytes(&[77; CALL_BYTES]), CollectiveCall::Unknown);
    }
}
