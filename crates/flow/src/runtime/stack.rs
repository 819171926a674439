//! Where a token is inside the constructs: the frames around it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{Position, SplitId, ThreadNumber};

/// The frames around a token, innermost first; shared between the tokens of a split.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack(pub(super) Option<Arc<Frame>>);

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) outer: Stack,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FrameKind {
    /// The token is in an operation that another one uses; there it goes on afterwards.
    Call { back: Position },
    /// The token is in a counted loop.
    For { index: u64, end: u64 },
    /// The token is between a split and its merge.
    Split(SplitFrame),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SplitFrame {
    pub(crate) split: SplitId,
    /// The thread that merges.
    pub(crate) merge_at: ThreadNumber,
    /// The number of the token, from 0.
    pub(crate) number: u64,
    pub(crate) indices: Vec<u64>,
    /// When it was split off.
    pub(crate) split_ns: u64,
    /// The merging thread tells the splitting one after this many tokens; 0: after whole bunches.
    pub(crate) tell_every: u32,
    /// How many tokens a bunch has.
    pub(crate) bunch: u32,
}

impl Stack {
    pub(crate) fn push(&self, kind: FrameKind) -> Self {
        Self(Some(Arc::new(Frame { kind, outer: self.clone() })))
    }

    pub(crate) fn top(&self) -> Option<&Frame> {
        self.0.as_deref()
    }

    /// The innermost split around the token, which its trip is measured for.
    pub(crate) fn split(&self) -> Option<&SplitFrame> {
        let mut frame = self.top();
        while let Some(inner) = frame {
            if let FrameKind::Split(split) = &inner.kind {
                return Some(split);
            }
            frame = inner.outer.top();
        }
        None
    }

    /// The indices of all loops and indexed splits, outermost first.
    pub(crate) fn indices(&self) -> Vec<u64> {
        let mut indices = Vec::new();
        let mut frame = self.top();
        while let Some(inner) = frame {
            match &inner.kind {
                FrameKind::For { index, .. } => indices.push(*index),
                FrameKind::Split(split) => indices.extend(split.indices.iter().rev()),
                FrameKind::Call { .. } => {}
            }
            frame = inner.outer.top();
        }
        indices.reverse();
        indices
    }

    /// The frames to send, innermost first.
    pub(crate) fn to_frames(&self) -> Vec<FrameKind> {
        let mut frames = Vec::new();
        let mut frame = self.top();
        while let Some(inner) = frame {
            frames.push(inner.kind.clone());
            frame = inner.outer.top();
        }
        frames
    }

    pub(crate) fn from_frames(frames: Vec<FrameKind>) -> Self {
        frames.into_iter().rev().fold(Self::default(), |outer, kind| outer.push(kind))
    }
}
