//! The check of messages from attached processes.
//!
//! Invariant: a message that passes the check belongs to a call of its sender, and leads a thread of
//! the program only to steps that the schedule runs on that thread. The construct stack of a token
//! fits its step, so that no step finds a frame that it does not expect. Frames of operations that
//! only the sender has are not checked: no thread of the program runs them.

use super::construct_stack::{ConstructFrame, ConstructKind, ConstructStack, SplitFrame};
use super::ids::{CallId, ProcessNumber, StepPosition, ThreadNumber};
use super::message::{ControlMessage, Envelope, FlowMessage, MergeBegin, RouteTo};
use super::process_runtime::ProcessRuntime;
use crate::schedule::{MadeBy, SplitStep, StepAction};
use crate::thread_selector::{PoolChoice, ThreadSelection};

/// Checks messages from one attached process.
pub(crate) struct GuestCheck<'a> {
    pub(crate) runtime: &'a ProcessRuntime,
    pub(crate) sender: ProcessNumber,
}

impl GuestCheck<'_> {
    /// Fails with what the sender did wrong.
    pub(crate) fn check(&self, to: RouteTo, message: &FlowMessage) -> Result<(), String> {
        if to.process.0 as usize >= self.runtime.processes.len() {
            return Err(format!("it sent a message to process {}", to.process.0));
        }
        if let Some(call) = message.call() {
            self.check_call(call)?;
        }
        match (to.thread, message) {
            (Some(thread), _) => {
                self.check_thread(thread, to.process)?;
                self.check_for_thread(thread, message)
            }
            (None, FlowMessage::Control(ControlMessage::Abort { .. })) => Ok(()),
            (None, FlowMessage::Control(ControlMessage::ThreadFree { process, slot, thread })) => {
                let slot = self.runtime.slots.get(*slot as usize);
                let is_its_own = slot.is_some_and(|slot| slot.is_caller && slot.contains(*thread));
                match is_its_own && *process == self.sender {
                    true => Ok(()),
                    false => Err("it released a thread that is not its own".to_owned()),
                }
            }
            (None, _) => Err("it sent a coordinator a message that only processes of the program \
                              may send"
                .to_owned()),
        }
    }

    fn check_for_thread(&self, thread: ThreadNumber, message: &FlowMessage) -> Result<(), String> {
        match message {
            FlowMessage::Token(envelope) => self.check_token(thread, envelope),
            FlowMessage::MergeBegin(begin, _) => self.check_merge_begin(thread, begin),
            FlowMessage::Control(ControlMessage::End { .. } | ControlMessage::Merged { .. }) => {
                Ok(())
            }
            _ => Err(format!(
                "it sent thread {} a message that only processes of the program may send",
                self.runtime.thread_name(thread)
            )),
        }
    }

    fn check_call(&self, call: CallId) -> Result<(), String> {
        match call.origin == self.sender {
            true => Ok(()),
            false => Err(format!("it sent a message for a call of process {}", call.origin.0)),
        }
    }

    /// The thread is one of the program, in that process, and no caller thread.
    fn check_thread(&self, thread: ThreadNumber, process: ProcessNumber) -> Result<(), String> {
        let known = self.runtime.threads.get(thread.0 as usize);
        match known {
            Some(known) if !known.is_caller && known.process == process => Ok(()),
            _ => Err(format!("it sent a message to thread {} of another process", thread.0)),
        }
    }

    fn check_token(&self, thread: ThreadNumber, envelope: &Envelope) -> Result<(), String> {
        let position = envelope.route.position;
        let name = || self.runtime.thread_name(thread);
        let wrong = || {
            let StepPosition { operation, step } = position;
            format!("it sent a token for step {step} of operation {operation} to thread {}", name())
        };
        if let Some(claim) = envelope.claim
            && (claim.claimed_by != self.sender || !self.slot_contains(claim.slot as usize, thread))
        {
            return Err(format!("it claimed thread {} for another process", name()));
        }
        match self.action(position).ok_or_else(wrong)? {
            StepAction::Merge(_) => {
                let split = envelope.stack.split().ok_or_else(wrong)?;
                if split.merge_at != thread {
                    return Err(wrong());
                }
            }
            _ => {
                let before = position.step.checked_sub(1).ok_or_else(wrong)?;
                let hop = StepPosition { step: before, ..position };
                let Some(StepAction::Hop(selection)) = self.action(hop) else {
                    return Err(wrong());
                };
                if !self.may_select(selection, thread) {
                    return Err(wrong());
                }
            }
        }
        self.check_stack(position, &envelope.stack)
    }

    fn check_merge_begin(&self, thread: ThreadNumber, begin: &MergeBegin) -> Result<(), String> {
        let Some(StepAction::Split(split)) = self.action(begin.position) else {
            return Err("it began a merge at a step that is no split".to_owned());
        };
        let is_input = split.made_by == MadeBy::Merger;
        if !self.may_select(&split.merge_selection, thread) || is_input != begin.is_input {
            return Err(format!("it began a merge on thread {}", self.runtime.thread_name(thread)));
        }
        self.check_stack(begin.position, &ConstructStack::from_frames(begin.outer.clone()))
    }

    /// Compares the stack of a token with the constructs around its step.
    fn check_stack(
        &self,
        mut position: StepPosition,
        stack: &ConstructStack,
    ) -> Result<(), String> {
        let wrong = || "the constructs around its token do not fit the schedule".to_owned();
        let mut frames = Frames { next: stack.top() };
        loop {
            let operation = &self.runtime.operations[position.operation as usize];
            let step = position.step as usize;
            for around in (0..step).rev() {
                match &operation.steps[around].action {
                    StepAction::ForEnter { after, .. } if step < *after => {
                        match frames.next() {
                            Some(ConstructKind::For { index, end }) if index < end => {}
                            _ => return Err(wrong()),
                        };
                    }
                    StepAction::Split(split) if step < split.after => match frames.next() {
                        Some(ConstructKind::Split(frame)) if self.fits(frame, split) => {}
                        _ => return Err(wrong()),
                    },
                    _ => {}
                }
            }
            match frames.next() {
                None => return Ok(()),
                Some(ConstructKind::Call { back, .. }) if !self.runtime.has_operation(*back) => {
                    return Ok(());
                }
                Some(ConstructKind::Call { back, .. }) => {
                    let before = back.step.checked_sub(1).ok_or_else(wrong)?;
                    let call = self.action(StepPosition { step: before, ..*back });
                    let is_return = self.action(*back).is_some();
                    match call {
                        Some(StepAction::Call(inner))
                            if is_return && *inner == position.operation as usize => {}
                        _ => return Err(wrong()),
                    }
                    position = *back;
                }
                Some(_) => return Err(wrong()),
            }
        }
    }

    fn fits(&self, frame: &SplitFrame, split: &SplitStep) -> bool {
        self.may_select(&split.merge_selection, frame.merge_at) && frame.number < u64::MAX
    }

    fn action(&self, position: StepPosition) -> Option<&StepAction> {
        let operation = self.runtime.operations.get(position.operation as usize)?;
        operation.steps.get(position.step as usize).map(|step| &step.action)
    }

    fn may_select(&self, selection: &ThreadSelection, thread: ThreadNumber) -> bool {
        let slot = &self.runtime.slots[selection.slot];
        slot.contains(thread)
            && match selection.choice {
                PoolChoice::Index(index) => slot.thread(index) == thread,
                PoolChoice::Computed(_) | PoolChoice::Any => true,
            }
    }

    fn slot_contains(&self, slot: usize, thread: ThreadNumber) -> bool {
        self.runtime.slots.get(slot).is_some_and(|slot| slot.contains(thread))
    }
}

/// The frames of a stack, innermost first.
struct Frames<'a> {
    next: Option<&'a ConstructFrame>,
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a ConstructKind;

    fn next(&mut self) -> Option<Self::Item> {
        let frame = self.next?;
        self.next = frame.outer.top();
        Some(&frame.kind)
    }
}
