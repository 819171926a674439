//! Merges: the merging thread merges the tokens of a split and reports them to the splitting thread.

use pario_net::clock::monotonic_ns;

use super::attached::QueuedShare;
use super::construct_stack::ConstructStack;
use super::ids::{CallId, MergeId, SplitId, StepPosition};
use super::message::{ControlMessage, FlowMessage, HopWaits, MergeBegin, Payload};
use super::process_runtime::ProcessRuntime;
use super::splits::Batches;
use super::thread_worker::{CurrentToken, ThreadWorker};
use crate::error::CallError;
use crate::schedule::{MadeBy, MergeStep, StepAction};
use crate::token::ErasedToken;
use crate::trace::SpanKind;
use crate::window::TripReport;

/// Tokens that may arrive before the begin of their split; the windows of splits are far smaller.
const EARLY_TOKENS_LIMIT: usize = 1 << 16;

/// A merge under way.
pub(crate) struct MergeState {
    pub(crate) call: CallId,
    /// The output, once the begin of the split has arrived.
    output: Option<MergeOutput>,
    /// Tokens that arrived before the begin of the split.
    early_tokens: Vec<CurrentToken>,
    /// The shares of the begin and of the early tokens in the limit of an attached process.
    shares: Vec<QueuedShare>,
    merged: u64,
    total: Option<u64>,
    /// Trips not yet reported to the splitting thread.
    unreported: Vec<TripReport>,
    batches: Batches,
    /// The total wait of the merged tokens, and the number of tokens that waited; they become part
    /// of the waits of the output.
    waited_ns: u64,
    waits: u64,
}

struct MergeOutput {
    position: StepPosition,
    outer: ConstructStack,
    hop_waits: HopWaits,
    oldest: u64,
    output: ErasedToken,
}

impl MergeState {
    pub(crate) fn new(call: CallId) -> Self {
        Self {
            call,
            output: None,
            early_tokens: Vec::new(),
            shares: Vec::new(),
            merged: 0,
            total: None,
            unreported: Vec::new(),
            batches: Batches::default(),
            waited_ns: 0,
            waits: 0,
        }
    }

    pub(crate) fn begin(
        &mut self,
        position: StepPosition,
        outer: ConstructStack,
        hop_waits: HopWaits,
        oldest: u64,
        output: ErasedToken,
    ) {
        self.output = Some(MergeOutput { position, outer, hop_waits, oldest, output });
    }

    /// Counts a merged token; returns the trips if a report to the splitting thread is due.
    fn note(&mut self, current: &CurrentToken) -> Option<Vec<TripReport>> {
        let frame = current.stack.split()?;
        let hop_waits = current.hop_waits;
        let trip = TripReport {
            split_ns: frame.split_ns,
            waited_ns: hop_waits.waited_ns,
            waits: hop_waits.waits,
        };
        self.merged += 1;
        self.waited_ns = self.waited_ns.saturating_add(hop_waits.waited_ns);
        self.waits += u64::from(hop_waits.waits != 0);
        if frame.report_every == 0 {
            return self.batches.add(frame.number, frame.batch.max(1), trip);
        }
        self.unreported.push(trip);
        (self.unreported.len() >= frame.report_every as usize)
            .then(|| std::mem::take(&mut self.unreported))
    }

    /// Returns the output, with the waits of its tokens, if all tokens are merged.
    fn finish(&mut self, after: impl FnOnce(StepPosition) -> StepPosition) -> Option<CurrentToken> {
        if self.total != Some(self.merged) {
            return None;
        }
        let merged = self.output.take()?;
        let mut hop_waits = merged.hop_waits;
        if let Some(waited_ns) = self.waited_ns.checked_div(self.merged) {
            hop_waits.waited_ns = hop_waits.waited_ns.saturating_add(waited_ns);
            if self.waits * 2 >= self.merged {
                hop_waits.waits |= 1 << (hop_waits.hops % 64);
            }
            hop_waits.hops = hop_waits.hops.wrapping_add(1);
        }
        Some(CurrentToken {
            call: self.call,
            oldest: merged.oldest,
            position: after(merged.position),
            stack: merged.outer,
            hop_waits,
            token: merged.output,
        })
    }
}

impl ThreadWorker {
    /// Merges a token; returns the output after the last token.
    pub(super) fn merge(
        &mut self,
        runtime: &ProcessRuntime,
        step: &MergeStep,
        mut current: CurrentToken,
    ) -> Option<CurrentToken> {
        let frame = current.stack.split().expect("a merge is inside its split");
        let split = frame.split;
        let id = MergeId { call: current.call, split };
        let state = self.merges.entry(id).or_insert_with(|| MergeState::new(current.call));
        let Some(merged) = &mut state.output else {
            if state.early_tokens.len() < EARLY_TOKENS_LIMIT {
                state.early_tokens.push(current);
                state.shares.extend(self.share.take());
            } else {
                let error = CallError::Transfer {
                    operation: runtime.operation_name(current.position),
                    from: runtime.thread_name(split.thread).to_owned(),
                    to: self.activity.name.clone(),
                    message: format!("{EARLY_TOKENS_LIMIT} tokens came before their split began"),
                };
                self.fail_call(runtime, current.call, error);
            }
            return None;
        };
        let began = self.time_ns;
        self.activity.begin(current.position, began);
        let token = std::mem::replace(&mut current.token, Box::new(()));
        (step.add)(&mut merged.output, token, &frame.indices);
        let report = state.note(&current);
        let output = self.finish_merge(runtime, id);
        self.time_ns = monotonic_ns();
        self.activity.end(current.position, began, self.time_ns);
        self.record(current.position, SpanKind::Merge, current.call, &current.stack, began);
        if let (Some(trips), None) = (report, &output) {
            self.report_merged(runtime, split, current.call, trips);
        }
        output
    }

    /// Begins the merge of a split of another thread.
    pub(super) fn begin_remote_merge(
        &mut self,
        runtime: &ProcessRuntime,
        begin: MergeBegin,
        mut payload: Payload,
    ) {
        let call = begin.call;
        runtime.ended.note_oldest(call.origin, begin.oldest);
        if runtime.ended.contains(call.origin, call.number) {
            return;
        }
        self.doing = Some((call, begin.position));
        let StepAction::Split(step) = &runtime.step(begin.position).action else {
            unreachable!("a split is at a split step")
        };
        let token_type = match begin.made_by() {
            MadeBy::Merger => runtime.step(begin.position).input,
            MadeBy::Splitter => self.output_type(runtime, begin.position),
        };
        let share = payload.take_share();
        let output = match payload.decode(token_type) {
            Ok(input) if begin.made_by() == MadeBy::Merger => (step.init)(&input),
            Ok(output) => output,
            Err(error) => {
                let error = CallError::Transfer {
                    operation: runtime.operation_name(begin.position),
                    from: runtime.thread_name(begin.split.thread).to_owned(),
                    to: self.activity.name.clone(),
                    message: error.to_string(),
                };
                return self.fail_call(runtime, call, error);
            }
        };
        let id = MergeId { call, split: begin.split };
        let state = self.merges.entry(id).or_insert_with(|| MergeState::new(call));
        state.shares.extend(share);
        let outer = ConstructStack::from_frames(begin.outer);
        state.begin(begin.position, outer, begin.hop_waits, begin.oldest, output);
        for current in std::mem::take(&mut state.early_tokens) {
            self.advance(runtime, current);
        }
        self.check_merge(runtime, id);
    }

    /// Sets the number of tokens of a split.
    pub(super) fn end_merge(&mut self, runtime: &ProcessRuntime, id: MergeId, total: u64) {
        if let Some(state) = self.merges.get_mut(&id) {
            state.total = Some(total);
            self.check_merge(runtime, id);
        }
    }

    /// Continues with the output if all tokens are merged.
    fn check_merge(&mut self, runtime: &ProcessRuntime, id: MergeId) {
        if let Some(output) = self.finish_merge(runtime, id) {
            self.advance(runtime, output);
        }
    }

    fn finish_merge(&mut self, runtime: &ProcessRuntime, id: MergeId) -> Option<CurrentToken> {
        let after = |position: StepPosition| match &runtime.step(position).action {
            StepAction::Split(split) => position.at(split.after),
            _ => unreachable!("a split is at a split step"),
        };
        let output = self.merges.get_mut(&id)?.finish(after)?;
        self.merges.remove(&id);
        Some(output)
    }

    fn report_merged(
        &mut self,
        runtime: &ProcessRuntime,
        id: SplitId,
        call: CallId,
        trips: Vec<TripReport>,
    ) {
        if id.thread == self.me {
            return self.tokens_merged(runtime, call, id.number, &trips);
        }
        let merged = FlowMessage::Control(ControlMessage::Merged { call, split: id.number, trips });
        if let Err(error) = runtime.send(id.thread, call, merged) {
            self.fail_call(runtime, call, error);
        }
    }
}
