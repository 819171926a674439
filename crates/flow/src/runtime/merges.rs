//! Merging: tokens come together, and the splitting thread hears of it.

use super::clock::now_ns;
use super::ids::{CallId, Position, SplitId};
use super::message::{Begin, Journey, Message, Payload, Plain};
use super::shared::Shared;
use super::splits::Bunches;
use super::stack::Stack;
use super::worker::{Moving, Worker};
use crate::error::CallError;
use crate::schedule::{Made, MergeStep, Step};
use crate::token::Parcel;
use crate::trace::SpanKind;
use crate::window::Trip;

/// A merge under way.
pub(crate) struct MergeState {
    pub(crate) call: CallId,
    /// What is being merged into, once the split's beginning has arrived.
    begun: Option<Begun>,
    /// Tokens that were here before it.
    early: Vec<Moving>,
    merged: u64,
    total: Option<u64>,
    /// Trips the splitting thread has not been told of.
    untold: Vec<Trip>,
    bunches: Bunches,
    /// For the token that was split: how long these waited, and how many did.
    waited_ns: u64,
    waits: u64,
}

struct Begun {
    position: Position,
    outer: Stack,
    journey: Journey,
    oldest: u64,
    output: Parcel,
}

impl MergeState {
    pub(crate) fn early(call: CallId) -> Self {
        Self {
            call,
            begun: None,
            early: Vec::new(),
            merged: 0,
            total: None,
            untold: Vec::new(),
            bunches: Bunches::default(),
            waited_ns: 0,
            waits: 0,
        }
    }

    pub(crate) fn begin(
        &mut self,
        position: Position,
        outer: Stack,
        journey: Journey,
        oldest: u64,
        output: Parcel,
    ) {
        self.begun = Some(Begun { position, outer, journey, oldest, output });
    }

    /// Notes a merged token; the trips to tell the splitting thread of, if it is time to.
    fn note(&mut self, moving: &Moving) -> Option<Vec<Trip>> {
        let frame = moving.stack.split()?;
        let journey = moving.journey;
        let trip =
            Trip { split_ns: frame.split_ns, waited_ns: journey.waited_ns, waits: journey.waits };
        self.merged += 1;
        self.waited_ns += journey.waited_ns;
        self.waits += u64::from(journey.waits != 0);
        if frame.tell_every == 0 {
            return self.bunches.add(frame.number, frame.bunch.max(1), trip);
        }
        self.untold.push(trip);
        (self.untold.len() >= frame.tell_every as usize).then(|| std::mem::take(&mut self.untold))
    }

    /// The output, with what its parts have met, if all have been merged.
    fn finish(&mut self, after: impl FnOnce(Position) -> Position) -> Option<Moving> {
        if self.total != Some(self.merged) {
            return None;
        }
        let begun = self.begun.take()?;
        let mut journey = begun.journey;
        if let Some(waited_ns) = self.waited_ns.checked_div(self.merged) {
            journey.waited_ns += waited_ns;
            if self.waits * 2 >= self.merged {
                journey.waits |= 1 << (journey.hops % 64);
            }
            journey.hops += 1;
        }
        Some(Moving {
            call: self.call,
            oldest: begun.oldest,
            position: after(begun.position),
            stack: begun.outer,
            journey,
            parcel: begun.output,
        })
    }
}

impl Worker {
    /// Merges a token; the output if it was the last one.
    pub(super) fn merge(
        &mut self,
        shared: &Shared,
        step: &MergeStep,
        mut moving: Moving,
    ) -> Option<Moving> {
        let frame = moving.stack.split().expect("a merge is inside its split");
        let id = frame.split;
        let state = self.merges.entry(id).or_insert_with(|| MergeState::early(moving.call));
        let Some(begun) = &mut state.begun else {
            state.early.push(moving);
            return None;
        };
        let began = self.time_ns;
        self.board.begin(moving.position, began);
        let parcel = std::mem::replace(&mut moving.parcel, Box::new(()));
        (step.add)(&mut begun.output, parcel, &frame.indices);
        let told = state.note(&moving);
        let output = self.finish_merge(shared, id);
        self.time_ns = now_ns();
        self.board.end(moving.position, began, self.time_ns);
        self.record(moving.position, SpanKind::Merge, moving.call, &moving.stack, began);
        if let (Some(trips), None) = (told, &output) {
            self.tell_splitter(shared, id, moving.call, trips);
        }
        output
    }

    /// A split in another thread begins, whose tokens come here.
    pub(super) fn begin_merge_elsewhere(
        &mut self,
        shared: &Shared,
        begin: Begin,
        payload: Payload,
    ) {
        let call = begin.call;
        shared.ended.note_oldest(call.origin, begin.oldest);
        if shared.ended.contains(call.origin, call.number) {
            return;
        }
        self.doing = Some((call, begin.position));
        let Step::Split(step) = &shared.node(begin.position).step else {
            unreachable!("a split begins at its step")
        };
        let codec = match begin.made() {
            Made::There => shared.node(begin.position).input,
            Made::Here => self.output_codec(shared, begin.position),
        };
        let output = match payload.open(codec) {
            Ok(input) if begin.made() == Made::There => (step.init)(&input),
            Ok(output) => output,
            Err(error) => {
                let error = CallError::Transfer {
                    operation: shared.operation_name(begin.position),
                    from: shared.thread_name(begin.split.thread).to_owned(),
                    to: self.board.name.clone(),
                    message: error.to_string(),
                };
                return self.give_up(shared, call, error);
            }
        };
        let state = self.merges.entry(begin.split).or_insert_with(|| MergeState::early(call));
        let outer = Stack::from_frames(begin.outer);
        state.begin(begin.position, outer, begin.journey, begin.oldest, output);
        for moving in std::mem::take(&mut state.early) {
            self.advance(shared, moving);
        }
        self.check_merge(shared, begin.split);
    }

    /// So many tokens were split off in all.
    pub(super) fn end_merge(&mut self, shared: &Shared, id: SplitId, total: u64) {
        if let Some(state) = self.merges.get_mut(&id) {
            state.total = Some(total);
            self.check_merge(shared, id);
        }
    }

    /// Goes on with the output if all tokens have been merged.
    fn check_merge(&mut self, shared: &Shared, id: SplitId) {
        if let Some(output) = self.finish_merge(shared, id) {
            self.advance(shared, output);
        }
    }

    fn finish_merge(&mut self, shared: &Shared, id: SplitId) -> Option<Moving> {
        let after = |position: Position| match &shared.node(position).step {
            Step::Split(split) => position.at(split.after),
            _ => unreachable!("a split stands at its step"),
        };
        let output = self.merges.get_mut(&id)?.finish(after)?;
        self.merges.remove(&id);
        Some(output)
    }

    fn tell_splitter(&mut self, shared: &Shared, id: SplitId, call: CallId, trips: Vec<Trip>) {
        if id.thread == self.me {
            return self.tokens_merged(shared, id.number, &trips);
        }
        let merged = Message::Plain(Plain::Merged { split: id.number, trips });
        if let Err(error) = shared.send(id.thread, call, merged) {
            self.give_up(shared, call, error);
        }
    }
}
