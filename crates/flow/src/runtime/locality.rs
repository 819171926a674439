//! The locality check of a launch: no placement may send a local token to another process.
//!
//! Invariant: after the check, no thread sends a token without a codec to another process. The
//! check follows each schedule and collects, for each step, the processes whose threads may have
//! the token there. A token travels at a hop, to a merge, into a called operation, and between an
//! operation and its caller: the first process, or the process that attaches. A selection that is computed from the token may
//! select every thread of its pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::{ProcessNumber, ThreadNumber};
use super::process_runtime::{PlacedProcess, PlacedSlot, PlacedThread};
use crate::error::LaunchError;
use crate::schedule::{MadeBy, Schedule, SplitStep, StepAction};
use crate::thread_selector::{PoolChoice, ThreadSelection};
use crate::token::{TokenType, short_name};

/// A program and the processes of its threads.
pub(super) struct LocalityCheck<'a> {
    pub(super) operations: &'a [Arc<Schedule>],
    pub(super) slots: &'a [PlacedSlot],
    pub(super) threads: &'a [PlacedThread],
    pub(super) processes: &'a [PlacedProcess],
    /// The process that calls the operations.
    pub(super) caller: ProcessNumber,
}

/// The processes that may have a token, each with the first of its threads that may; `None` is the
/// caller of the operation.
type Holders = BTreeMap<ProcessNumber, Option<ThreadNumber>>;

impl LocalityCheck<'_> {
    /// Fails with the first transfer of a local token between two processes.
    pub(super) fn run(&self) -> Result<(), LaunchError> {
        if self.processes.len() < 2 && !self.caller.is_attached() {
            return Ok(());
        }
        let mut exits: Vec<Holders> = Vec::with_capacity(self.operations.len());
        for (number, operation) in self.operations.iter().enumerate() {
            // An operation of the resident program that this attached process does not have.
            if operation.steps.is_empty() {
                exits.push(Holders::new());
                continue;
            }
            // An operation calls only operations before it, so their exits are known.
            let holders = self.holders(operation, &exits);
            self.check_steps(operation, &holders)?;
            let caller = Holders::from([(self.caller, None)]);
            let exit = holders.last().cloned().unwrap_or_default();
            let input = operation.steps[0].input;
            self.check_transfer(operation, input, &caller, &self.entry(number))?;
            self.check_transfer(operation, operation.output, &exit, &caller)?;
            exits.push(exit);
        }
        Ok(())
    }

    /// Returns the holders of the token at each step. The last step is the return.
    fn holders(&self, operation: &Schedule, exits: &[Holders]) -> Vec<Holders> {
        let mut holders: Vec<Option<Holders>> = vec![None; operation.steps.len()];
        // The caller of the operation has the token at its first step, which is a hop or a call.
        let mut changed = vec![0];
        holders[0] = Some(Holders::new());
        while let Some(number) = changed.pop() {
            let own = holders[number].clone().unwrap_or_default();
            let mut reach = |step: usize, reached: &Holders| {
                let known = holders[step].get_or_insert_default();
                let before = known.len();
                reached.iter().for_each(|(process, thread)| {
                    known.entry(*process).or_insert(*thread);
                });
                if known.len() > before {
                    changed.push(step);
                }
            };
            match &operation.steps[number].action {
                StepAction::Hop(selection) => reach(number + 1, &self.selected(selection)),
                StepAction::Run(_) | StepAction::RunAsync(_) | StepAction::Map(_) => {
                    reach(number + 1, &own);
                }
                StepAction::Branch { otherwise: other, .. }
                | StepAction::ForEnter { after: other, .. }
                | StepAction::ForNext { body: other } => {
                    reach(number + 1, &own);
                    reach(*other, &own);
                }
                StepAction::Jump(to) => reach(*to, &own),
                StepAction::Split(split) => {
                    split.bodies.iter().for_each(|body| reach(*body, &own));
                    reach(split.after, &self.selected(&split.merge_selection));
                }
                StepAction::Call(inner) => reach(number + 1, &exits[*inner]),
                StepAction::Merge(_) | StepAction::Return => {}
            }
        }
        holders.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn check_steps(&self, operation: &Schedule, holders: &[Holders]) -> Result<(), LaunchError> {
        for (step, own) in operation.steps.iter().zip(holders) {
            match &step.action {
                StepAction::Hop(selection) => {
                    self.check_transfer(operation, step.input, own, &self.selected(selection))?;
                }
                StepAction::Split(split) if split.made_by == MadeBy::Merger => {
                    let merger = self.selected(&split.merge_selection);
                    self.check_transfer(operation, step.input, own, &merger)?;
                }
                StepAction::Merge(merge) => {
                    let split = split_of(operation, merge.split);
                    let merger = self.selected(&split.merge_selection);
                    self.check_transfer(operation, step.input, own, &merger)?;
                    if split.made_by == MadeBy::Splitter {
                        let splitter = &holders[merge.split];
                        self.check_transfer(operation, merge.output, splitter, &merger)?;
                    }
                }
                StepAction::Call(inner) => {
                    self.check_transfer(operation, step.input, own, &self.entry(*inner))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the threads to which the first hop of an operation sends its input.
    fn entry(&self, mut operation: usize) -> Holders {
        loop {
            match &self.operations[operation].steps[0].action {
                StepAction::Call(inner) => operation = *inner,
                StepAction::Hop(selection) => return self.selected(selection),
                _ => unreachable!("an operation begins with a hop"),
            }
        }
    }

    /// Returns the threads that a selection may select.
    fn selected(&self, selection: &ThreadSelection) -> Holders {
        let slot = &self.slots[selection.slot];
        let indices = match selection.choice {
            // A number beyond the pool fails the call.
            PoolChoice::Index(index) => index..(index + 1).min(slot.size),
            PoolChoice::Computed(_) | PoolChoice::Any => 0..slot.size,
        };
        let mut selected = Holders::new();
        for thread in indices.map(|index| slot.thread(index)) {
            selected.entry(self.threads[thread.0 as usize].process).or_insert(Some(thread));
        }
        selected
    }

    fn check_transfer(
        &self,
        operation: &Schedule,
        token: TokenType,
        from: &Holders,
        to: &Holders,
    ) -> Result<(), LaunchError> {
        if !token.is_local() {
            return Ok(());
        }
        let mut pairs = from.iter().flat_map(|from| to.iter().map(move |to| (from, to)));
        match pairs.find(|(from, to)| from.0 != to.0) {
            None => Ok(()),
            Some((from, to)) => Err(LaunchError::LocalToken {
                operation: operation.name.clone(),
                token: short_name((token.name)()),
                from: self.describe(from),
                to: self.describe(to),
            }),
        }
    }

    fn describe(&self, (process, thread): (&ProcessNumber, &Option<ThreadNumber>)) -> String {
        let process = self
            .processes
            .get(process.0 as usize)
            .map_or("that attaches", |process| process.name.as_str());
        match thread {
            Some(thread) => {
                format!("thread {} in process {process}", self.threads[thread.0 as usize].name)
            }
            None => format!("the caller in process {process}"),
        }
    }
}

fn split_of(operation: &Schedule, step: usize) -> &SplitStep {
    match &operation.steps[step].action {
        StepAction::Split(split) => split,
        _ => unreachable!("a merge refers to a split step"),
    }
}
