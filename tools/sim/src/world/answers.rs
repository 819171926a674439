//! Answers: what the model says of them, and what ranks do with them.

use anyhow::{Result, ensure};
use pario_proto::{Call, Interleaved, Mode, Outcome, Pointer, Step as Kind, Trouble};

use super::{Event, Ticket, What, World};
use crate::program::Step;
use crate::rank::{Phase, Stage};

impl World {
    /// An answer goes out.
    pub(super) fn answer(
        &mut self,
        ticket: Ticket,
        result: Result<Outcome, Trouble>,
        data: &[u8],
    ) -> Result<()> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        let step = self.ranks[ticket.rank as usize].program.get(ticket.step);
        match (ticket.what, &result) {
            (What::Say, _) => return Ok(()),
            (What::Lock | What::Report, Ok(outcome)) => {
                ensure!(*outcome == Outcome::Done, "{ticket:?} was answered by {outcome:?}");
            }
            _ => {
                let is_close = matches!(step, Some(Step::Close | Step::Meet(Call::Close)));
                let is_meeting = is_close || matches!(step, Some(Step::Meet(_)));
                opening.check(&ticket, &result, is_meeting)?;
                if let Err(Trouble::Gone { .. } | Trouble::Closed { .. }) = &result
                    && is_close
                {
                    // Who wanted to close has closed.
                    opening.left.insert(ticket.rank);
                }
            }
        }
        if opening.is_at_table() {
            return self.deliver(ticket, result, Vec::new());
        }
        let data = match &result {
            Ok(Outcome::Performed { .. }) => data.to_vec(),
            _ => Vec::new(),
        };
        self.network.push(Event::Answer { ticket, result, data });
        Ok(())
    }

    /// An answer has come to its rank.
    pub(super) fn deliver(
        &mut self,
        ticket: Ticket,
        result: Result<Outcome, Trouble>,
        data: Vec<u8>,
    ) -> Result<()> {
        let state = &mut self.ranks[ticket.rank as usize];
        if !state.is_alive() || !state.pending.remove(&ticket) {
            return Ok(());
        }
        self.run.answers += 1;
        state.is_arriving = false;
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(trouble) => return self.fail(ticket.rank, ticket.step, &trouble),
        };
        match ticket.what {
            What::Say => Ok(()),
            What::Lock => self.begin_to_move(ticket.rank),
            What::Report => self.finish_first(ticket.rank),
            What::Call if state.lane.iter().any(|access| access.step == ticket.step) => {
                self.place(ticket, outcome, data)
            }
            What::Call => {
                self.settle(ticket, &outcome);
                Ok(())
            }
        }
    }

    /// An access has its place.
    fn place(&mut self, ticket: Ticket, outcome: Outcome, data: Vec<u8>) -> Result<()> {
        let is_at_table = self.opening.as_ref().is_some_and(|opening| opening.is_at_table());
        let state = &mut self.ranks[ticket.rank as usize];
        let Some(access) = state.lane.iter_mut().find(|access| access.step == ticket.step) else {
            return Ok(());
        };
        let (placement, phase, once) = match outcome {
            Outcome::Placed(placement) => (placement, Phase::Placed, None),
            Outcome::Perform { number, placement } => {
                let is_given = is_at_table && !access.transfer.is_write;
                let phase = if is_given { Phase::Giving } else { Phase::Placed };
                (placement, phase, Some(number))
            }
            Outcome::Performed { number, placement } => {
                let phase = if is_at_table { Phase::Getting } else { Phase::Given };
                access.buffer = data;
                (placement, phase, Some(number))
            }
            Outcome::Done | Outcome::At(_) => anyhow::bail!("{ticket:?} got no place: {outcome:?}"),
        };
        (access.placement, access.phase, access.once) = (placement, phase, once);
        access.began = self.run.steps;
        let is_free = access.is_started;
        if access.mode.axes().pointer == Pointer::Private {
            state.pointer = placement.offset + placement.len;
        }
        if is_free && state.waits_for == Some(ticket.step) {
            state.waits_for = None;
        }
        Ok(())
    }

    /// A call that moves no bytes has succeeded.
    fn settle(&mut self, ticket: Ticket, outcome: &Outcome) {
        let size = self.size;
        let state = &mut self.ranks[ticket.rank as usize];
        match (&state.program[ticket.step], outcome) {
            (Step::Meet(Call::SetMode(mode)), Outcome::At(offset)) => {
                (state.mode, state.pointer) = (*mode, *offset);
                state.records = Interleaved::new(*offset, 0, ticket.rank, size);
            }
            (Step::Meet(Call::Seek(_)), Outcome::At(offset)) if state.mode == Mode::Record => {
                state.records.base = *offset;
            }
            (Step::Close | Step::Meet(Call::Close), _) => {
                state.is_closed = true;
                state.has_met_to_close = state.mode.meets_in(Kind::Close);
                state.program.truncate(state.next);
            }
            _ => {}
        }
        state.finish(ticket.step);
    }

    /// A call has failed.
    pub(super) fn fail(&mut self, rank: u32, step: usize, trouble: &Trouble) -> Result<()> {
        self.run.failures += 1;
        self.stop(rank, step)?;
        let state = &mut self.ranks[rank as usize];
        state.finish(step);
        let is_close = state.is_close(step);
        match trouble {
            Trouble::Unknown => state.give_up(),
            // Who wanted to close has closed, whatever it is told.
            Trouble::Gone { .. } | Trouble::Closed { .. } if is_close => {
                state.program.truncate(state.next);
            }
            Trouble::Gone { .. } | Trouble::Closed { .. } => state.close_soon(),
            _ => {}
        }
        Ok(())
    }

    /// A rank has opened the file with the others, or is told why not.
    pub(super) fn deliver_opened(&mut self, rank: u32, result: Result<(), Trouble>) -> Result<()> {
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
            Err(Trouble::Unknown) => {
                // The node was started again: so are the calls, by all.
                (state.asked, state.stage) = (0, Stage::Away);
            }
            Err(Trouble::Gone { rank: gone }) => {
                let is_gone = !self.ranks[gone as usize].is_alive();
                ensure!(is_gone, "rank {gone} is said to be gone, and is not");
                self.end(rank);
            }
            Err(other) => anyhow::bail!("rank {rank} cannot open the file: {other}"),
        }
        Ok(())
    }
}
