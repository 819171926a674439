//! Splitting: tokens leave as the window allows.

use std::collections::HashMap;
use std::sync::Arc;

use super::board::SplitCounters;
use super::clock::now_ns;
use super::ids::{CallId, Position, SplitId, ThreadNumber};
use super::merges::MergeState;
use super::message::{Begin, Journey, Message, Payload, Plain};
use super::shared::Shared;
use super::stack::{FrameKind, SplitFrame, Stack};
use super::worker::{Moving, Worker};
use crate::schedule::{Made, Piece, Source, SplitStep, Step};
use crate::trace::SpanKind;
use crate::window::{Automatic, Trip, Window};

/// After so many tokens without a look at the queue, other messages have their turn.
const TURN: u64 = 64;

/// A split under way.
pub(crate) struct SplitState {
    pub(crate) call: CallId,
    oldest: u64,
    position: Position,
    outer: Stack,
    merge_at: ThreadNumber,
    source: Box<dyn Source>,
    control: Control,
    /// Tokens split off.
    split: u64,
    /// Tokens known to be merged.
    merged: u64,
    counters: Arc<SplitCounters>,
}

/// How splitting off tokens ended for now.
enum Left {
    Open(Box<SplitState>),
    Ended { merge_at: ThreadNumber, call: CallId, total: u64 },
    GivenUp,
}

enum Control {
    Fixed(u64),
    Automatic(Box<Automatic>),
    Bunches { bunches: u64, size: u64, merged: u64 },
}

impl Control {
    /// A new one; `learnt` is what an automatic window was at the end of the split before.
    fn new(window: Window, learnt: Option<usize>) -> Self {
        match window {
            Window::Automatic { limit } => Self::Automatic(Box::new(match learnt {
                Some(window) => Automatic::after(limit, window),
                None => Automatic::new(limit),
            })),
            Window::Fixed(tokens) => Self::Fixed(tokens as u64),
            Window::Bunches { bunches, size } => {
                Self::Bunches { bunches: bunches as u64, size: size as u64, merged: 0 }
            }
        }
    }

    fn window(&self) -> u64 {
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::Automatic(automatic) => automatic.window() as u64,
            Self::Bunches { bunches, size, .. } => bunches * size,
        }
    }

    /// Whether one more token may leave.
    fn has_room(&self, split: u64, merged: u64) -> bool {
        match self {
            Self::Bunches { bunches, size, merged } => {
                !split.is_multiple_of(*size) || split / size - merged < *bunches
            }
            _ => split - merged < self.window(),
        }
    }

    /// After how many tokens the merging thread should tell; 0 for whole bunches.
    fn tell_every(&self) -> u32 {
        match self {
            Self::Bunches { .. } => 0,
            _ => u32::try_from(self.window() / 4).unwrap_or(u32::MAX).clamp(1, 64),
        }
    }

    fn bunch(&self) -> u32 {
        match self {
            Self::Bunches { size, .. } => u32::try_from(*size).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    fn merged(&mut self, trips: &[Trip], now_ns: u64) {
        match self {
            Self::Automatic(automatic) => {
                trips.iter().for_each(|trip| automatic.merged(*trip, now_ns));
            }
            Self::Bunches { size, merged, .. } => *merged += trips.len() as u64 / *size,
            Self::Fixed(_) => {}
        }
    }

    fn note_full(&mut self) {
        if let Self::Automatic(automatic) = self {
            automatic.note_full();
        }
    }
}

impl Worker {
    /// A token is to be split.
    pub(super) fn begin_split(&mut self, shared: &Shared, step: &SplitStep, moving: Moving) {
        let position = moving.position;
        let call = moving.call;
        let target =
            shared.resolve(&step.merge_site, &moving.parcel, || moving.stack.indices(), position);
        let merge_at = match target {
            Ok(Some(thread)) => thread,
            Ok(None) => {
                let slot = &shared.slots[step.merge_site.slot];
                #[expect(clippy::cast_possible_truncation, reason = "less than the pool's size")]
                slot.thread((call.number % slot.size as u64) as usize)
            }
            Err(error) => return self.give_up(shared, call, error),
        };
        let number = self.next_split;
        self.next_split += 1;
        let id = SplitId { thread: self.me, number };
        let first = match (step.made, &step.clone) {
            (Made::There, Some(clone)) if merge_at != self.me => clone(&moving.parcel),
            _ => (step.init)(&moving.parcel),
        };
        if merge_at == self.me {
            let merge = self.merges.entry(id).or_insert_with(|| MergeState::early(call));
            merge.begin(position, moving.stack.clone(), moving.journey, moving.oldest, first);
        } else {
            let is_input = step.made == Made::There;
            let codec = if is_input {
                shared.node(position).input
            } else {
                self.output_codec(shared, position)
            };
            let begin = Begin {
                call,
                oldest: moving.oldest,
                split: id,
                position,
                outer: moving.stack.to_frames(),
                journey: moving.journey,
                is_input,
            };
            let message = Message::Begin(begin, Payload::Here(first, codec));
            if let Err(error) = shared.send(merge_at, call, message) {
                return self.give_up(shared, call, error);
            }
        }
        let state = SplitState {
            call,
            oldest: moving.oldest,
            position,
            outer: moving.stack,
            merge_at,
            source: (step.source)(moving.parcel),
            control: Control::new(step.window, self.learnt.get(&position).copied()),
            split: 0,
            merged: 0,
            counters: self.board.open_split(number, call, position),
        };
        self.splits.insert(number, Box::new(state));
        self.continue_split(shared, number);
    }

    /// Splits off tokens until the window is full or the input is used up.
    pub(super) fn continue_split(&mut self, shared: &Shared, number: u64) {
        let Some(split) = self.splits.remove(&number) else {
            return;
        };
        self.continuing.push(number);
        let left = self.split_off(shared, number, split);
        self.continuing.retain(|continuing| *continuing != number);
        self.told.retain(|(told, _)| *told != number);
        match left {
            Left::Open(split) => {
                self.splits.insert(number, split);
            }
            Left::Ended { merge_at, call, total } => {
                self.board.close_split(number);
                self.split_ended(shared, number, merge_at, call, total);
            }
            Left::GivenUp => self.board.close_split(number),
        }
    }

    fn split_off(&mut self, shared: &Shared, number: u64, mut split: Box<SplitState>) -> Left {
        let Step::Split(step) = &shared.node(split.position).step else {
            unreachable!("a split stands at its step")
        };
        let mut turn = 0;
        loop {
            self.doing = Some((split.call, split.position));
            if !split.control.has_room(split.split, split.merged) {
                split.control.note_full();
                split.note(self, true);
                return Left::Open(split);
            }
            if turn >= TURN && self.has_more() {
                let resume = Message::Plain(Plain::Resume { split: number });
                if let Err(error) = shared.send(self.me, split.call, resume) {
                    self.give_up(shared, split.call, error);
                    return Left::GivenUp;
                }
                split.note(self, false);
                return Left::Open(split);
            }
            turn += 1;
            let began = self.time_ns;
            let piece = split.source.next();
            if self.board.recorder.is_some() {
                self.time_ns = now_ns();
                let stack = split.frame(number, self.me, 0, Vec::new());
                self.record(split.position, SpanKind::Split, split.call, &stack, began);
            }
            let Some(Piece { parcel, body, indices }) = piece else {
                split.note(self, false);
                if let Control::Automatic(automatic) = &split.control {
                    self.learnt.insert(split.position, automatic.window());
                }
                let SplitState { merge_at, call, split: total, .. } = *split;
                return Left::Ended { merge_at, call, total };
            };
            let stack = split.frame(number, self.me, self.time_ns, indices);
            split.split += 1;
            let moving = Moving {
                call: split.call,
                oldest: split.oldest,
                position: split.position.at(step.bodies[body]),
                stack,
                journey: Journey::default(),
                parcel,
            };
            self.advance(shared, moving);
            // What was merged on the way is known already.
            let trips: Vec<Trip> = self
                .told
                .extract_if(.., |(told, _)| *told == number)
                .map(|(_, trip)| trip)
                .collect();
            if !trips.is_empty() {
                split.merged(&trips, self.time_ns);
            }
            split.note(self, false);
            if shared.ended.contains(split.call.origin, split.call.number) {
                return Left::GivenUp;
            }
        }
    }

    /// Tokens of a split have been merged, here or elsewhere.
    pub(super) fn tokens_merged(&mut self, shared: &Shared, number: u64, trips: &[Trip]) {
        match self.splits.get_mut(&number) {
            Some(split) => {
                split.merged(trips, self.time_ns);
                self.continue_split(shared, number);
            }
            None if self.continuing.contains(&number) => {
                self.told.extend(trips.iter().map(|trip| (number, *trip)));
            }
            None => {}
        }
    }

    fn split_ended(
        &mut self,
        shared: &Shared,
        number: u64,
        merge_at: ThreadNumber,
        call: CallId,
        total: u64,
    ) {
        let id = SplitId { thread: self.me, number };
        if merge_at == self.me {
            return self.end_merge(shared, id, total);
        }
        let end = Message::Plain(Plain::End { split: id, total });
        if let Err(error) = shared.send(merge_at, call, end) {
            self.give_up(shared, call, error);
        }
    }

    /// How the output of a split travels.
    pub(super) fn output_codec(&self, shared: &Shared, split: Position) -> crate::token::Codec {
        let operation = &shared.operations[split.operation as usize];
        operation
            .nodes
            .iter()
            .find_map(|node| match &node.step {
                Step::Merge(merge) if merge.split == split.node as usize => Some(merge.output),
                _ => None,
            })
            .unwrap_or(operation.output)
    }
}

impl SplitState {
    fn frame(&self, number: u64, me: ThreadNumber, now_ns: u64, indices: Vec<u64>) -> Stack {
        self.outer.push(FrameKind::Split(SplitFrame {
            split: SplitId { thread: me, number },
            merge_at: self.merge_at,
            number: self.split,
            indices,
            split_ns: now_ns,
            tell_every: self.control.tell_every(),
            bunch: self.control.bunch(),
        }))
    }

    fn merged(&mut self, trips: &[Trip], now_ns: u64) {
        self.merged += trips.len() as u64;
        self.control.merged(trips, now_ns);
    }

    fn note(&self, worker: &Worker, is_full: bool) {
        worker.board.note_split(
            &self.counters,
            self.split,
            self.merged,
            self.control.window(),
            is_full,
        );
    }
}

/// Bunches that are not whole yet: tokens merged of each.
#[derive(Default)]
pub(crate) struct Bunches(HashMap<u64, Vec<Trip>>);

impl Bunches {
    /// Adds a token; the whole bunch if it was the last one of it.
    pub(crate) fn add(&mut self, token: u64, size: u32, trip: Trip) -> Option<Vec<Trip>> {
        let bunch = token / u64::from(size);
        let trips = self.0.entry(bunch).or_default();
        trips.push(trip);
        if trips.len() < size as usize {
            return None;
        }
        self.0.remove(&bunch)
    }
}
