//! TicketPurpose goes wrong: ranks are killed, and the node ends and is started again.

use anyhow::Result;
use pario_proto::CollectiveError;

use super::{NetworkEvent, Ticket, World};
use crate::home_node::FileOutput;
use crate::rank::{Phase, Stage};
use crate::shared_file::{CoordinationState, OpenedFile};

impl World {
    /// A rank is killed, or the node ends and is started again.
    pub(super) fn accident(&mut self) -> Result<()> {
        // Whoever has ended does not come back, so the last opening is not taken from the others.
        if self.opened < self.plans.len() && self.rng.u8(0..3) == 0 {
            self.restart();
            return Ok(());
        }
        let rank = self.rng.u32(0..self.size);
        if self.ranks[rank as usize].is_alive() {
            self.kill(rank)?;
        }
        Ok(())
    }

    fn kill(&mut self, rank: u32) -> Result<()> {
        self.run.lost += 1;
        let dies_with_lock = self.rng.u8(0..4) == 0;
        let state = &mut self.ranks[rank as usize];
        let is_open = state.stage == Stage::Open;
        state.stage = Stage::Lost;
        state.pending.clear();
        for access in std::mem::take(&mut state.lane) {
            if let Some(write) = access.write {
                self.contents.give_up(write, self.run.steps, &self.file)?;
            }
        }
        if let Some(OpenedFile { place: CoordinationState::Table(table), lock_died, .. }) =
            &mut self.opening
        {
            table.forget(rank);
            if dies_with_lock && is_open && table.die_with_lock(rank) {
                *lock_died = Some(rank);
            }
        }
        self.forget_at_table(rank);
        self.network.push(NetworkEvent::Loss(rank));
        Ok(())
    }

    /// TicketPurpose a rank has not done at a table it does no more.
    fn forget_at_table(&mut self, rank: u32) {
        self.network.retain(|event| match event {
            NetworkEvent::Call { ticket, is_for_node, .. } => ticket.rank != rank || *is_for_node,
            _ => true,
        });
    }

    /// A rank ends by itself.
    pub(super) fn end(&mut self, rank: u32) {
        self.ranks[rank as usize].stage = Stage::Ended;
        self.network.push(NetworkEvent::Loss(rank));
    }

    /// The node hears that the process of a rank is not there any more.
    pub(super) fn home_loses(&mut self, rank: u32) -> Result<()> {
        let (outputs_of_job, mut outputs) = self.home.lose(rank)?;
        if self.home.check_empty().is_ok() {
            // With the last one it has forgotten them all.
            self.ranks.iter_mut().for_each(|rank| rank.known_since = None);
        }
        if let Some(opening) = &mut self.opening {
            opening.left.insert(rank);
        }
        // Who is told first does not matter to anybody.
        outputs.sort_by_key(|one| match one {
            FileOutput::Answer(ticket, _) => Some(*ticket),
            _ => None,
        });
        self.gather(outputs_of_job);
        self.process(outputs, &[])
    }

    /// The node ends, and all that it knew and all that was under way to and from it is lost. Another
    /// one is there at once; the ranks notice one after the other.
    fn restart(&mut self) {
        self.run.restarts += 1;
        self.incarnation += 1;
        self.home.restart();
        self.network.retain(|event| match event {
            NetworkEvent::Call { is_for_node, .. } => !is_for_node,
            NetworkEvent::Broken(_) => true,
            _ => false,
        });
        for (number, rank) in (0..).zip(&mut self.ranks) {
            if rank.is_alive() && !std::mem::replace(&mut rank.is_cut_off, true) {
                self.network.push(NetworkEvent::Broken(number));
            }
        }
        if let Some(opening) = &mut self.opening {
            opening.is_orphan = true;
        }
    }

    /// A rank notices that its connection to the node is broken: whatever it has asked over it fails.
    /// TicketPurpose it was about to read or write fails too, or does not.
    pub(super) fn broken(&mut self, rank: u32) -> Result<()> {
        let is_table_lost = match &mut self.opening {
            Some(OpenedFile {
                place: CoordinationState::Table(table), is_orphan: true, ..
            }) => {
                table.forget(rank);
                true
            }
            _ => false,
        };
        if is_table_lost {
            self.forget_at_table(rank);
        }
        self.network.retain(|event| !matches!(event, NetworkEvent::Broken(of) if *of == rank));
        let state = &mut self.ranks[rank as usize];
        if !state.is_alive() {
            return Ok(());
        }
        state.is_cut_off = false;
        state.connection += 1;
        match state.stage {
            Stage::Opening => state.stage = Stage::Away,
            Stage::Open => {
                state.give_up();
                let asked: Vec<Ticket> = state.pending.iter().copied().collect();
                for ticket in asked {
                    self.deliver(ticket, Err(CollectiveError::Unknown), Vec::new())?;
                }
                self.break_off(rank)?;
            }
            Stage::Away | Stage::Lost | Stage::Ended => {}
        }
        Ok(())
    }

    /// TicketPurpose a rank reads and writes goes on without the node, or fails; what it would have got at a
    /// table does not come.
    fn break_off(&mut self, rank: u32) -> Result<()> {
        let fails = self.rng.bool();
        let lane = self.ranks[rank as usize].lane.iter();
        let failed = lane.filter(|access| match access.phase {
            Phase::Giving | Phase::Getting => true,
            Phase::Moving(_) => fails,
            _ => false,
        });
        let failed: Vec<usize> = failed.map(|access| access.step).collect();
        for step in failed {
            self.ranks[rank as usize].seen = None;
            self.fail(rank, step, &CollectiveError::Unknown)?;
        }
        Ok(())
    }

    /// Nothing happens any more. RankList that wait for one which was killed, and of which the node knows
    /// nothing, because it was started again or nobody else was there, are ended by whoever has
    /// started the job; whether there were any.
    pub(super) fn end_orphans(&mut self) -> Result<bool> {
        let is_unheard = self
            .ranks
            .iter()
            .any(|rank| rank.stage == Stage::Lost && rank.known_since != Some(self.incarnation));
        let waiting: Vec<u32> = (0..self.size)
            .filter(|rank| self.ranks[*rank as usize].stage == Stage::Opening)
            .collect();
        if !is_unheard {
            return Ok(false);
        }
        for rank in &waiting {
            self.end(*rank);
        }
        Ok(!waiting.is_empty())
    }
}
