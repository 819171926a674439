//! Splits: the splitting thread sends tokens as far as the window allows.

use std::collections::HashMap;
use std::sync::Arc;

use pario_net::clock::monotonic_ns;

use super::activity::SplitCounters;
use super::construct_stack::{ConstructKind, ConstructStack, SplitFrame};
use super::ids::{CallId, MergeId, SplitId, StepPosition, ThreadNumber};
use super::merges::MergeState;
use super::message::{ControlMessage, FlowMessage, HopWaits, MergeBegin, Payload};
use super::process_runtime::ProcessRuntime;
use super::thread_worker::{CurrentToken, ThreadWorker};
use crate::schedule::{MadeBy, SplitSource, SplitStep, SplitToken, StepAction};
use crate::trace::SpanKind;
use crate::window::{AutomaticWindow, TripReport, Window};

/// Tokens split off in a row before the thread handles other messages.
const TOKENS_PER_TURN: u64 = 64;

/// A split under way.
pub(crate) struct SplitState {
    pub(crate) call: CallId,
    oldest: u64,
    position: StepPosition,
    outer: ConstructStack,
    merge_at: ThreadNumber,
    source: Box<dyn SplitSource>,
    control: WindowControl,
    /// Tokens split off.
    split: u64,
    /// Tokens reported as merged.
    merged: u64,
    counters: Arc<SplitCounters>,
}

/// The state of a split after [`ThreadWorker::split_off`].
enum SplitProgress {
    Open(Box<SplitState>),
    Ended { merge_at: ThreadNumber, call: CallId, total: u64 },
    Aborted,
}

enum WindowControl {
    Fixed(u64),
    Automatic(Box<AutomaticWindow>),
    Batches { batches: u64, size: u64, merged: u64 },
}

impl WindowControl {
    /// Creates the control of a split. `learned` is the automatic window at the end of the previous
    /// split of the same step.
    fn new(window: Window, learned: Option<usize>) -> Self {
        match window {
            Window::Automatic { limit } => Self::Automatic(Box::new(match learned {
                Some(window) => AutomaticWindow::after(limit, window),
                None => AutomaticWindow::new(limit),
            })),
            Window::Fixed(tokens) => Self::Fixed(tokens as u64),
            Window::Batches { batches, size } => {
                Self::Batches { batches: batches as u64, size: size as u64, merged: 0 }
            }
        }
    }

    fn window(&self) -> u64 {
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::Automatic(automatic) => automatic.window() as u64,
            Self::Batches { batches, size, .. } => batches * size,
        }
    }

    /// Returns whether one more token may leave.
    fn has_room(&self, split: u64, merged: u64) -> bool {
        match self {
            Self::Batches { batches, size, merged } => {
                !split.is_multiple_of(*size) || split / size - merged < *batches
            }
            _ => split - merged < self.window(),
        }
    }

    /// Returns the number of tokens after which the merging thread reports; 0 for whole batches.
    fn report_every(&self) -> u32 {
        match self {
            Self::Batches { .. } => 0,
            _ => u32::try_from(self.window() / 4).unwrap_or(u32::MAX).clamp(1, 64),
        }
    }

    fn batch(&self) -> u32 {
        match self {
            Self::Batches { size, .. } => u32::try_from(*size).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    fn merged(&mut self, trips: &[TripReport], now_ns: u64) {
        match self {
            Self::Automatic(automatic) => {
                trips.iter().for_each(|trip| automatic.merged(*trip, now_ns));
            }
            Self::Batches { size, merged, .. } => *merged += trips.len() as u64 / *size,
            Self::Fixed(_) => {}
        }
    }

    fn note_full(&mut self) {
        if let Self::Automatic(automatic) = self {
            automatic.note_full();
        }
    }
}

impl ThreadWorker {
    /// Begins the split of a token.
    pub(super) fn begin_split(
        &mut self,
        runtime: &ProcessRuntime,
        step: &SplitStep,
        current: CurrentToken,
    ) {
        let position = current.position;
        let call = current.call;
        let target = runtime.resolve(
            &step.merge_selection,
            &current.token,
            || current.stack.indices(),
            position,
        );
        let merge_at = match target {
            Ok(Some(thread)) => thread,
            Ok(None) => {
                let slot = &runtime.slots[step.merge_selection.slot];
                #[expect(clippy::cast_possible_truncation, reason = "less than the pool's size")]
                slot.thread((call.number % slot.size as u64) as usize)
            }
            Err(error) => return self.fail_call(runtime, call, error),
        };
        let number = self.next_split;
        self.next_split += 1;
        let id = SplitId { thread: self.me, number };
        let first = match (step.made_by, &step.clone) {
            (MadeBy::Merger, Some(clone)) if merge_at != self.me => clone(&current.token),
            _ => (step.init)(&current.token),
        };
        if merge_at == self.me {
            let merge_id = MergeId { call, split: id };
            let merge = self.merges.entry(merge_id).or_insert_with(|| MergeState::new(call));
            merge.begin(position, current.stack.clone(), current.hop_waits, current.oldest, first);
        } else {
            let is_input = step.made_by == MadeBy::Merger;
            let token_type = if is_input {
                runtime.step(position).input
            } else {
                self.output_type(runtime, position)
            };
            let begin = MergeBegin {
                call,
                oldest: current.oldest,
                split: id,
                position,
                outer: current.stack.to_frames(),
                hop_waits: current.hop_waits,
                is_input,
            };
            let message = FlowMessage::MergeBegin(begin, Payload::Local(first, token_type));
            if let Err(error) = runtime.send(merge_at, call, message) {
                return self.fail_call(runtime, call, error);
            }
        }
        let state = SplitState {
            call,
            oldest: current.oldest,
            position,
            outer: current.stack,
            merge_at,
            source: (step.source)(current.token),
            control: WindowControl::new(step.window, self.learned_windows.get(&position).copied()),
            split: 0,
            merged: 0,
            counters: self.activity.open_split(number, call, position),
        };
        self.splits.insert(number, Box::new(state));
        self.continue_split(runtime, number);
    }

    /// Splits off tokens until the window is full or the input is used up.
    pub(super) fn continue_split(&mut self, runtime: &ProcessRuntime, number: u64) {
        let Some(split) = self.splits.remove(&number) else {
            return;
        };
        self.active_splits.push(number);
        let progress = self.split_off(runtime, number, split);
        self.active_splits.retain(|active| *active != number);
        self.merged_inline.retain(|(split, _)| *split != number);
        match progress {
            SplitProgress::Open(split) => {
                self.splits.insert(number, split);
            }
            SplitProgress::Ended { merge_at, call, total } => {
                self.activity.close_split(number);
                self.split_ended(runtime, number, merge_at, call, total);
            }
            SplitProgress::Aborted => self.activity.close_split(number),
        }
    }

    fn split_off(
        &mut self,
        runtime: &ProcessRuntime,
        number: u64,
        mut split: Box<SplitState>,
    ) -> SplitProgress {
        let StepAction::Split(step) = &runtime.step(split.position).action else {
            unreachable!("a split is at a split step")
        };
        let mut in_a_row = 0;
        loop {
            self.doing = Some((split.call, split.position));
            if !split.control.has_room(split.split, split.merged) {
                split.control.note_full();
                split.note(self, true);
                return SplitProgress::Open(split);
            }
            if in_a_row >= TOKENS_PER_TURN && self.has_more() {
                let resume = FlowMessage::Control(ControlMessage::Resume { split: number });
                if let Err(error) = runtime.send(self.me, split.call, resume) {
                    self.fail_call(runtime, split.call, error);
                    return SplitProgress::Aborted;
                }
                split.note(self, false);
                return SplitProgress::Open(split);
            }
            in_a_row += 1;
            let began = self.time_ns;
            let piece = split.source.next();
            if self.activity.recorder.is_some() {
                self.time_ns = monotonic_ns();
                let stack = split.frame(number, self.me, 0, Vec::new());
                self.record(split.position, SpanKind::Split, split.call, &stack, began);
            }
            let Some(SplitToken { token, body, indices }) = piece else {
                split.note(self, false);
                if let WindowControl::Automatic(automatic) = &split.control {
                    self.learned_windows.insert(split.position, automatic.window());
                }
                let SplitState { merge_at, call, split: total, .. } = *split;
                return SplitProgress::Ended { merge_at, call, total };
            };
            let stack = split.frame(number, self.me, self.time_ns, indices);
            split.split += 1;
            let current = CurrentToken {
                call: split.call,
                oldest: split.oldest,
                position: split.position.at(step.bodies[body]),
                stack,
                hop_waits: HopWaits::default(),
                token,
            };
            self.advance(runtime, current);
            // Tokens that this thread merged in `advance`.
            let trips: Vec<TripReport> = self
                .merged_inline
                .extract_if(.., |(split, _)| *split == number)
                .map(|(_, trip)| trip)
                .collect();
            if !trips.is_empty() {
                split.merged(&trips, self.time_ns);
            }
            split.note(self, false);
            if runtime.ended.contains(split.call.origin, split.call.number) {
                return SplitProgress::Aborted;
            }
        }
    }

    /// Counts merged tokens of a split and continues it.
    pub(super) fn tokens_merged(
        &mut self,
        runtime: &ProcessRuntime,
        call: CallId,
        number: u64,
        trips: &[TripReport],
    ) {
        match self.splits.get_mut(&number) {
            Some(split) if split.call != call => {}
            Some(split) => {
                split.merged(trips, self.time_ns);
                self.continue_split(runtime, number);
            }
            None if self.active_splits.contains(&number) => {
                self.merged_inline.extend(trips.iter().map(|trip| (number, *trip)));
            }
            None => {}
        }
    }

    fn split_ended(
        &mut self,
        runtime: &ProcessRuntime,
        number: u64,
        merge_at: ThreadNumber,
        call: CallId,
        total: u64,
    ) {
        let id = SplitId { thread: self.me, number };
        if merge_at == self.me {
            return self.end_merge(runtime, MergeId { call, split: id }, total);
        }
        let end = FlowMessage::Control(ControlMessage::End { call, split: id, total });
        if let Err(error) = runtime.send(merge_at, call, end) {
            self.fail_call(runtime, call, error);
        }
    }

    /// Returns the type of the output of a split.
    pub(super) fn output_type(
        &self,
        runtime: &ProcessRuntime,
        split: StepPosition,
    ) -> crate::token::TokenType {
        let operation = &runtime.operations[split.operation as usize];
        operation
            .steps
            .iter()
            .find_map(|step| match &step.action {
                StepAction::Merge(merge) if merge.split == split.step as usize => {
                    Some(merge.output)
                }
                _ => None,
            })
            .unwrap_or(operation.output)
    }
}

impl SplitState {
    fn frame(
        &self,
        number: u64,
        me: ThreadNumber,
        now_ns: u64,
        indices: Vec<u64>,
    ) -> ConstructStack {
        self.outer.push(ConstructKind::Split(SplitFrame {
            split: SplitId { thread: me, number },
            merge_at: self.merge_at,
            number: self.split,
            indices,
            split_ns: now_ns,
            report_every: self.control.report_every(),
            batch: self.control.batch(),
        }))
    }

    fn merged(&mut self, trips: &[TripReport], now_ns: u64) {
        // A report of more tokens than are under way is none of this program.
        let count = (self.split - self.merged).min(trips.len() as u64);
        let trips = &trips[..usize::try_from(count).unwrap_or(trips.len())];
        self.merged += count;
        self.control.merged(trips, now_ns);
    }

    fn note(&self, worker: &ThreadWorker, is_full: bool) {
        worker.activity.note_split(
            &self.counters,
            self.split,
            self.merged,
            self.control.window(),
            is_full,
        );
    }
}

/// The trips of incomplete batches, by batch.
#[derive(Default)]
pub(crate) struct Batches(HashMap<u64, Vec<TripReport>>);

impl Batches {
    /// Adds a token; returns the trips of its batch if the batch is complete.
    pub(crate) fn add(
        &mut self,
        token: u64,
        size: u32,
        trip: TripReport,
    ) -> Option<Vec<TripReport>> {
        let batch = token / u64::from(size);
        let trips = self.0.entry(batch).or_default();
        trips.push(trip);
        if trips.len() < size as usize {
            return None;
        }
        self.0.remove(&batch)
    }
}
