//! Accidents: ranks are killed, and the node is restarted.

use anyhow::Result;
use pario_proto::CollectiveError;

use super::{NetworkEvent, Ticket, World};
use crate::home_node::FileOutput;
use crate::rank::{Phase, Stage};
use crate::shared_file::{CoordinationState, OpenedFile};

impl World {
    /// Kills a rank, or restarts the node.
    pub(super) fn accident(&mut self) -> Result<()> {
        // A rank that has ended does not come back, so the node is not restarted during the last
        // open.
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
        if let Some(OpenedFile { coordination: CoordinationState::Table(table), lock_died, .. }) =
            &mut self.opening
            && table.kill(rank, dies_with_lock && is_open)
        {
            *lock_died = Some(rank);
        }
        self.forget_at_table(rank);
        self.network.push(NetworkEvent::Loss(rank));
        Ok(())
    }

    /// Whether a call of a rank at a table goes on by itself.
    fn is_at_table(&self, rank: u32, call: u64) -> bool {
        match &self.opening {
            Some(OpenedFile { coordination: CoordinationState::Table(table), .. }) => {
                table.calls_of(rank).contains(&call)
            }
            _ => false,
        }
    }

    /// Removes the calls at a table that a rank has not made yet.
    fn forget_at_table(&mut self, rank: u32) {
        self.network.retain(|event| match event {
            NetworkEvent::Call { ticket, is_for_node, .. } => ticket.rank != rank || *is_for_node,
            _ => true,
        });
    }

    /// Ends a rank that is finished.
    pub(super) fn end(&mut self, rank: u32) {
        self.ranks[rank as usize].stage = Stage::Ended;
        self.network.push(NetworkEvent::Loss(rank));
    }

    /// Lets the node notice that the process of a rank has ended.
    pub(super) fn home_loses(&mut self, rank: u32) -> Result<()> {
        let (job_outputs, mut outputs) = self.home.lose(rank)?;
        if self.home.check_empty().is_ok() {
            // With the last rank, the node has forgotten them all.
            self.ranks.iter_mut().for_each(|rank| rank.known_since = None);
        }
        if let Some(opening) = &mut self.opening {
            opening.left.insert(rank);
        }
        // The order of these replies does not matter; sorting makes the run repeatable.
        outputs.sort_by_key(|one| match one {
            FileOutput::Answer(ticket, _) => Some(*ticket),
            _ => None,
        });
        self.gather(job_outputs);
        self.process(outputs, &[])
    }

    /// Restarts the node: all its state and all messages to and from it are lost. The new node is
    /// there at once; the ranks notice one after the other.
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

    /// Lets a rank notice that its connection is broken: all its requests fail. Its reads and
    /// writes fail too, or go on.
    pub(super) fn broken(&mut self, rank: u32) -> Result<()> {
        let calls = match &mut self.opening {
            Some(OpenedFile {
                coordination: CoordinationState::Table(table),
                is_orphan: true,
                ..
            }) => {
                table.disconnect(rank);
                table.calls_of(rank)
            }
            _ => Vec::new(),
        };
        // Its calls fail when their sleeps end, or return what they still find.
        for call in calls {
            while self.is_at_table(rank, call) {
                self.run_at_table(call)?;
            }
        }
        self.forget_at_table(rank);
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

    /// Lets the reads and writes of a rank go on without the node, or fail; broadcasts at a table
    /// end.
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
            self.fail(rank, step, &CollectiveError::Unknown)?;
        }
        Ok(())
    }

    /// Ends ranks that wait for a killed rank of which the node knows nothing, because the node was
    /// restarted or no other rank was connected: the launcher would end them. Nothing else happens
    /// any more. Returns whether there were any.
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
