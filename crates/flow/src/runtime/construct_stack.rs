//! The construct stack of a token: the loops, splits and inner operations around it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{SplitId, StepPosition, ThreadNumber};

/// The frames around a token, innermost first. The tokens of a split share the outer frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConstructStack(pub(super) Option<Arc<ConstructFrame>>);

#[derive(Debug)]
pub(crate) struct ConstructFrame {
    pub(crate) kind: ConstructKind,
    pub(crate) outer: ConstructStack,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ConstructKind {
    /// The token is in an operation used as a step; it returns to `back`. `from` is the thread that
    /// had the token; none if the caller had it.
    Call { back: StepPosition, from: Option<ThreadNumber> },
    /// The token is in a counted loop.
    For { index: u64, end: u64 },
    /// The token is between a split and its merge.
    Split(SplitFrame),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SplitFrame {
    pub(crate) split: SplitId,
    /// The merging thread.
    pub(crate) merge_at: ThreadNumber,
    /// The number of the token, from 0.
    pub(crate) number: u64,
    pub(crate) indices: Vec<u64>,
    /// When the token was split off.
    pub(crate) split_ns: u64,
    /// The merging thread reports after this many tokens; 0: after whole batches.
    pub(crate) report_every: u32,
    /// The number of tokens in a batch.
    pub(crate) batch: u32,
}

impl ConstructStack {
    pub(crate) fn push(&self, kind: ConstructKind) -> Self {
        Self(Some(Arc::new(ConstructFrame { kind, outer: self.clone() })))
    }

    pub(crate) fn top(&self) -> Option<&ConstructFrame> {
        self.0.as_deref()
    }

    /// Returns the innermost split around the token.
    pub(crate) fn split(&self) -> Option<&SplitFrame> {
        let mut frame = self.top();
        while let Some(inner) = frame {
            if let ConstructKind::Split(split) = &inner.kind {
                return Some(split);
            }
            frame = inner.outer.top();
        }
        None
    }

    /// Returns the indices of all loops and indexed splits, outermost first.
    pub(crate) fn indices(&self) -> Vec<u64> {
        let mut indices = Vec::new();
        let mut frame = self.top();
        while let Some(inner) = frame {
            match &inner.kind {
                ConstructKind::For { index, .. } => indices.push(*index),
                ConstructKind::Split(split) => indices.extend(split.indices.iter().rev()),
                ConstructKind::Call { .. } => {}
            }
            frame = inner.outer.top();
        }
        indices.reverse();
        indices
    }

    /// Returns the frames to send, innermost first.
    pub(crate) fn to_frames(&self) -> Vec<ConstructKind> {
        let mut frames = Vec::new();
        let mut frame = self.top();
        while let Some(inner) = frame {
            frames.push(inner.kind.clone());
            frame = inner.outer.top();
        }
        frames
    }

    pub(crate) fn from_frames(frames: Vec<ConstructKind>) -> Self {
        frames.into_iter().rev().fold(Self::default(), |outer, kind| outer.push(kind))
    }
}
