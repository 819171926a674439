//! Replies: the model checks them, and the ranks act on them.

use anyhow::{Result, ensure};
use pario_proto::{Call, CallKind, CallOutcome, CollectiveError, Interleaved, Mode, Pointer};

use super::{NetworkEvent, Ticket, TicketPurpose, World};
use crate::program::Step;
use crate::rank::{Phase, Stage};

impl World {
    /// Sends a reply.
    pub(super) fn answer(
        &mut self,
        ticket: Ticket,
        result: Result<CallOutcome, CollectiveError>,
        data: &[u8],
    ) -> Result<()> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        let step = self.ranks[ticket.rank as usize].program.get(ticket.step);
        match (ticket.what, &result) {
            (TicketPurpose::Notify, _) => return Ok(()),
            (TicketPurpose::Lock | TicketPurpose::Report, Ok(outcome)) => {
                ensure!(*outcome == CallOutcome::Done, "{ticket:?} was answered by {outcome:?}");
            }
            _ => {
                let is_close = matches!(step, Some(Step::Close | Step::Collective(Call::Close)));
                let is_collective = is_close || matches!(step, Some(Step::Collective(_)));
                opening.check(&ticket, &result, is_collective)?;
                if let Err(CollectiveError::Gone { .. } | CollectiveError::Closed { .. }) = &result
                    && is_close
                {
                    // A close that fails because a rank has left closes the file nevertheless.
                    opening.left.insert(ticket.rank);
                }
            }
        }
        if opening.has_table() {
            return self.deliver(ticket, result, Vec::new());
        }
        let data = match &result {
            Ok(CallOutcome::Performed { .. }) => data.to_vec(),
            _ => Vec::new(),
        };
        self.network.push(NetworkEvent::Answer { ticket, result, data });
        Ok(())
    }

    /// Delivers a reply to its rank.
    pub(super) fn deliver(
        &mut self,
        ticket: Ticket,
        result: Result<CallOutcome, CollectiveError>,
        data: Vec<u8>,
    ) -> Result<()> {
        let state = &mut self.ranks[ticket.rank as usize];
        if !state.is_alive() || !state.pending.remove(&ticket) {
            return Ok(());
        }
        self.run.answers += 1;
        // A rank makes one call at a time; the replies to earlier ones may come at any time.
        state.is_arriving &= ticket.step + 1 != state.next;
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => return self.fail(ticket.rank, ticket.step, &error),
        };
        match ticket.what {
            TicketPurpose::Notify => Ok(()),
            TicketPurpose::Lock => self.begin_to_move(ticket.rank),
            TicketPurpose::Report => self.finish_first(ticket.rank),
            TicketPurpose::Call if state.lane.iter().any(|access| access.step == ticket.step) => {
                self.place(ticket, outcome, data)
            }
            TicketPurpose::Call => {
                self.settle(ticket, &outcome);
                Ok(())
            }
        }
    }

    /// Takes the range of an access.
    fn place(&mut self, ticket: Ticket, outcome: CallOutcome, data: Vec<u8>) -> Result<()> {
        let has_table = self.opening.as_ref().is_some_and(|opening| opening.has_table());
        let state = &mut self.ranks[ticket.rank as usize];
        let Some(access) = state.lane.iter_mut().find(|access| access.step == ticket.step) else {
            return Ok(());
        };
        let (range, phase, once) = match outcome {
            CallOutcome::Placed(range) => (range, Phase::Placed, None),
            CallOutcome::Perform { number, range } => {
                let is_given = has_table && !access.transfer.is_write;
                let phase = if is_given { Phase::Giving } else { Phase::Placed };
                (range, phase, Some(number))
            }
            CallOutcome::Performed { number, range } => {
                let phase = if has_table { Phase::Getting } else { Phase::Given };
                access.buffer = data;
                (range, phase, Some(number))
            }
            CallOutcome::Done | CallOutcome::At(_) => {
                anyhow::bail!("{ticket:?} got no range: {outcome:?}")
            }
        };
        (access.range, access.phase, access.once) = (range, phase, once);
        access.began = self.run.steps;
        let is_free = access.is_started;
        if access.mode.axes().pointer == Pointer::Private {
            state.pointer = range.offset + range.len;
        }
        if is_free && state.waits_for == Some(ticket.step) {
            state.waits_for = None;
        }
        Ok(())
    }

    /// Ends a call that moves no bytes and has succeeded.
    fn settle(&mut self, ticket: Ticket, outcome: &CallOutcome) {
        let size = self.size;
        let state = &mut self.ranks[ticket.rank as usize];
        match (&state.program[ticket.step], outcome) {
            (Step::Collective(Call::SetMode(mode)), CallOutcome::At(offset)) => {
                (state.mode, state.pointer) = (*mode, *offset);
                state.records = Interleaved::new(*offset, 0, ticket.rank, size);
            }
            (Step::Collective(Call::Seek(_)), CallOutcome::At(offset))
                if state.mode == Mode::Record =>
            {
                state.records.base = *offset;
            }
            (Step::Close | Step::Collective(Call::Close), _) => {
                state.is_closed = true;
                state.has_closed_collectively = state.mode.is_collective(CallKind::Close);
                state.program.truncate(state.next);
            }
            _ => {}
        }
        state.finish(ticket.step);
    }

    /// Ends a call that has failed.
    pub(super) fn fail(&mut self, rank: u32, step: usize, error: &CollectiveError) -> Result<()> {
        self.run.failures += 1;
        self.stop(rank, step)?;
        let state = &mut self.ranks[rank as usize];
        state.finish(step);
        let is_close = state.is_close(step);
        match error {
            CollectiveError::Unknown => state.give_up(),
            // A close that fails because a rank has left closes the file nevertheless.
            CollectiveError::Gone { .. } | CollectiveError::Closed { .. } if is_close => {
                state.program.truncate(state.next);
            }
            CollectiveError::Gone { .. } | CollectiveError::Closed { .. } => state.close_soon(),
            _ => {}
        }
        Ok(())
    }

    /// Delivers the result of a collective open to a rank.
    pub(super) fn deliver_opened(
        &mut self,
        rank: u32,
        result: Result<(), CollectiveError>,
    ) -> Result<()> {
        let state = &mut self.ranks[rank as usize];
        if !state.is_alive() {
            return Ok(());
        }
        ensure!(state.stage == Stage::Opening, "rank {rank} has asked for nothing");
        match result {
            Ok(()) => {
                let Some(opening) = &self.opening else { return Ok(()) };
                let program = opening.plan.programs[rank as usize].clone();
                state.begin((rank, self.size), opening.mode(), program);
            }
            Err(CollectiveError::Unknown) => {
                // The node was restarted, so all ranks number their calls from 0 again.
                (state.asked, state.stage) = (0, Stage::Away);
            }
            Err(CollectiveError::Gone { rank: gone }) => {
                let is_gone = !self.ranks[gone as usize].is_alive();
                ensure!(is_gone, "rank {gone} is reported to be gone, and is not");
                self.end(rank);
            }
            Err(other) => anyhow::bail!("rank {rank} cannot open the file: {other}"),
        }
        Ok(())
    }
}
