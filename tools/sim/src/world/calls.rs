//! Calls of ranks, and their delivery to the coordination.

use anyhow::{Result, ensure};
use pario_proto::{
    AccessRange, Call, CallKind, CollectiveError, Mode, Pointer, Position, Seek, SharedCall,
    SharedFileId, Transfer,
};

use super::{CoordinationKind, FAR_AHEAD, NetworkEvent, Ticket, TicketPurpose, World};
use crate::home_node::{FileOutput, JobOutput};
use crate::model::Expected;
use crate::program::Step;
use crate::rank::{Access, Phase, Stage};
use crate::shared_file::{CoordinationState, OpenedFile};
use crate::table_members::TableMembers;

impl World {
    /// Whether a rank can make a step that moves no bytes.
    pub(super) fn is_ready(&self, rank: u32) -> bool {
        let is_hasty = self.opening.as_ref().is_some_and(|opening| opening.plan.is_hasty);
        let state = &self.ranks[rank as usize];
        let is_at_end = state.stage == Stage::Away || state.is_done();
        is_at_end && !self.is_busy_at_table(rank) || state.can_go_on(is_hasty)
    }

    /// Whether a rank still makes a call at a table, from which it must return first.
    fn is_busy_at_table(&self, rank: u32) -> bool {
        let is_on_its_way = |event: &NetworkEvent| match event {
            NetworkEvent::Call { ticket, is_for_node, .. } => ticket.rank == rank && !is_for_node,
            _ => false,
        };
        match &self.opening {
            Some(OpenedFile { coordination: CoordinationState::Table(table), .. }) => {
                !table.calls_of(rank).is_empty() || self.network.iter().any(is_on_its_way)
            }
            _ => false,
        }
    }

    /// Makes the next step of a rank.
    pub(super) fn go_on(&mut self, rank: u32) -> Result<()> {
        let state = &self.ranks[rank as usize];
        if state.stage == Stage::Away {
            self.want_open(rank)
        } else if state.is_done() {
            self.put_away(rank)
        } else {
            self.depart(rank)
        }
    }

    /// Lets a rank open the file collectively; if a rank was killed, it may end instead.
    fn want_open(&mut self, rank: u32) -> Result<()> {
        let is_rank_lost = self.ranks.iter().any(|rank| rank.stage == Stage::Lost);
        if self.opened == self.plans.len() || is_rank_lost && self.rng.bool() {
            self.end(rank);
            return Ok(());
        }
        let is_lost = self.is_lost_on_the_way(rank)?;
        let state = &mut self.ranks[rank as usize];
        let number = state.asked;
        state.asked += 1;
        state.stage = Stage::Opening;
        if !is_lost {
            self.network.push(NetworkEvent::Ask { rank, number });
        }
        Ok(())
    }

    /// Lets a rank close or drop the file at the end of its program.
    fn put_away(&mut self, rank: u32) -> Result<()> {
        let has_table = self.opening.as_ref().is_some_and(OpenedFile::has_table);
        let state = &mut self.ranks[rank as usize];
        let step = state.next;
        state.stage = Stage::Away;
        // The node is notified; the rank does not wait for that.
        if !state.is_closed {
            if has_table {
                self.call(rank, step, TicketPurpose::Notify, SharedCall::Leave, Vec::new())?;
            } else {
                self.notify_node(rank, step, SharedCall::Leave)?;
            }
        } else if has_table && !state.has_closed_collectively {
            self.notify_node(rank, step, SharedCall::Close)?;
        } else if self.opening.as_ref().is_some_and(|opening| opening.is_last_to_close(rank)) {
            self.notify_node(rank, step, SharedCall::CloseForAll)?;
        }
        Ok(())
    }

    /// Makes the next step of the program of a rank.
    fn depart(&mut self, rank: u32) -> Result<()> {
        let has_table = self.opening.as_ref().is_some_and(OpenedFile::has_table);
        let is_ahead = self.ranks[rank as usize].most == FAR_AHEAD;
        let is_started = is_ahead || self.rng.u8(0..4) > 0;
        let state = &mut self.ranks[rank as usize];
        let (step, mode) = (state.next, state.mode);
        state.next += 1;
        let call = match state.program[step].clone() {
            Step::Own(transfer) => return self.depart_alone(rank, step, transfer, is_started),
            Step::OwnSeek(seek) => return self.seek_alone(rank, seek),
            Step::Transfer(transfer) => SharedCall::Transfer(transfer),
            Step::Seek(seek) => SharedCall::Seek(seek),
            Step::Close if !mode.is_collective(CallKind::Close) => SharedCall::Close,
            Step::Close => SharedCall::Collective { number: state.rounds, call: Call::Close },
            Step::Collective(call) => SharedCall::Collective { number: state.rounds, call },
        };
        state.under_way += 1;
        // At a table, a rank goes on when its call is recorded or placed.
        state.is_arriving = has_table;
        if let SharedCall::Collective { .. } = call {
            state.rounds += 1;
        }
        let transfer = match &call {
            SharedCall::Transfer(transfer)
            | SharedCall::Collective { call: Call::Transfer(transfer), .. } => Some(*transfer),
            _ => None,
        };
        let has_own_pointer = mode.axes().pointer == Pointer::Private;
        if transfer.is_none() || !is_started || has_own_pointer {
            state.waits_for = Some(step);
        }
        if let Some(transfer) = transfer {
            let access = Access::new(step, transfer, mode, is_started);
            state.lane.push_back(access);
        }
        self.call(rank, step, TicketPurpose::Call, call, Vec::new())
    }

    /// Makes an access at the private pointer of a rank, without a request for its range.
    fn depart_alone(
        &mut self,
        rank: u32,
        step: usize,
        transfer: Transfer,
        is_started: bool,
    ) -> Result<()> {
        let state = &mut self.ranks[rank as usize];
        let placed = if state.mode == Mode::Record {
            state.records.place(transfer, u64::MAX)
        } else if transfer.is_write {
            let mut position = Position { offset: state.pointer, end: 0 };
            let placed = position.place(transfer);
            state.pointer = position.offset;
            placed
        } else {
            Ok(AccessRange { offset: state.pointer, len: transfer.len })
        };
        let given = match placed {
            Ok(AccessRange { offset, len }) => Expected::Range(offset.into(), len.into()),
            Err(_) => Expected::Refused,
        };
        if let Some(opening) = &mut self.opening {
            let expected = opening.pointers.own_transfer(rank, transfer);
            ensure!(given == expected, "rank {rank} goes to {given:?} and not {expected:?}");
        }
        let Ok(range) = placed else { return Ok(()) };
        let mut access = Access::new(step, transfer, state.mode, is_started);
        (access.range, access.phase) = (range, Phase::Placed);
        state.lane.push_back(access);
        state.under_way += 1;
        // The pointer after a read is known when the read is done.
        if !is_started || !transfer.is_write && state.mode != Mode::Record {
            state.waits_for = Some(step);
        }
        Ok(())
    }

    fn seek_alone(&mut self, rank: u32, seek: Seek) -> Result<()> {
        let len = self.file.len();
        let state = &mut self.ranks[rank as usize];
        let sought = Position { offset: state.pointer, end: len }.target(seek);
        let given = match sought {
            Ok(target) => {
                state.pointer = target;
                Expected::At(target.into())
            }
            Err(_) => Expected::Refused,
        };
        if let Some(opening) = &mut self.opening {
            let expected = opening.pointers.own_seek(rank, seek, len);
            ensure!(given == expected, "rank {rank} is at {given:?} and not {expected:?}");
        }
        Ok(())
    }

    /// Sends a call of a rank to the coordination.
    pub(super) fn call(
        &mut self,
        rank: u32,
        step: usize,
        what: TicketPurpose,
        call: SharedCall,
        data: Vec<u8>,
    ) -> Result<()> {
        let Some(opening) = &self.opening else { return Ok(()) };
        let (id, index, is_for_node) = (opening.id, opening.index, !opening.has_table());
        let is_lost = is_for_node && self.is_lost_on_the_way(rank)?;
        let state = &mut self.ranks[rank as usize];
        let connection = state.connection;
        let ticket = Ticket { rank, step, what, opening: index, connection };
        if what != TicketPurpose::Notify {
            state.pending.insert(ticket);
        }
        if !is_lost {
            self.network.push(NetworkEvent::Call { ticket, id, call, data, is_for_node });
        }
        Ok(())
    }

    /// Notifies the node, wherever the ranks coordinate.
    fn notify_node(&mut self, rank: u32, step: usize, call: SharedCall) -> Result<()> {
        let Some(opening) = &self.opening else { return Ok(()) };
        let (id, opening) = (opening.id, opening.index);
        if !self.is_lost_on_the_way(rank)? {
            let connection = self.ranks[rank as usize].connection;
            let ticket = Ticket { rank, step, what: TicketPurpose::Notify, opening, connection };
            let data = Vec::new();
            self.network.push(NetworkEvent::Call { ticket, id, call, data, is_for_node: true });
        }
        Ok(())
    }

    /// Whether a message of a rank goes to the earlier node and is lost. If not, and its connection
    /// is broken, the rank notices that and connects again.
    fn is_lost_on_the_way(&mut self, rank: u32) -> Result<bool> {
        if !self.ranks[rank as usize].is_cut_off {
            return Ok(false);
        }
        if self.rng.bool() {
            return Ok(true);
        }
        self.broken(rank)?;
        Ok(false)
    }

    /// Delivers a call to the coordination.
    pub(super) fn arrive(
        &mut self,
        ticket: Ticket,
        id: SharedFileId,
        call: SharedCall,
        data: Vec<u8>,
        is_for_node: bool,
    ) -> Result<()> {
        let Some(opening) = self.opening.as_mut().filter(|one| one.index == ticket.opening) else {
            return self.arrive_late(ticket, id, call);
        };
        if let (CoordinationState::Table(table), false) = (&mut opening.coordination, is_for_node) {
            if matches!(call, SharedCall::Lock { .. }) && table.has_claim(ticket.rank) {
                // A rank has one claim at a time.
                self.network.push(NetworkEvent::Call { ticket, id, call, data, is_for_node });
                return Ok(());
            }
            table.call(ticket, call.clone());
            // The model records other calls when the table has processed them.
            if let SharedCall::Close | SharedCall::Leave = call {
                opening.record(&ticket, &call);
            }
            return Ok(());
        }
        let outputs = self.home.call(ticket.rank, id, call.clone(), ticket)?;
        if !opening.has_table() {
            opening.record(&ticket, &call);
        }
        self.process(outputs, &data)
    }

    /// Delivers a notification for a file that no rank has open any more.
    fn arrive_late(&mut self, ticket: Ticket, id: SharedFileId, call: SharedCall) -> Result<()> {
        ensure!(ticket.what == TicketPurpose::Notify, "{ticket:?} is from another opening");
        self.home.call(ticket.rank, id, call, ticket)?;
        Ok(())
    }

    /// Delivers a collective open to the node.
    pub(super) fn ask_home(&mut self, rank: u32, number: u64) -> Result<()> {
        let is_known = self.ranks[rank as usize].known_since == Some(self.incarnation);
        let job_outputs = self.home.ask(rank, number)?;
        let is_unknown = |one: &JobOutput| matches!(one, JobOutput::Failed(failed, CollectiveError::Unknown) if *failed == rank);
        let is_refused = job_outputs.iter().any(is_unknown);
        let must_be_refused = number > 0 && !is_known;
        ensure!(
            is_refused == must_be_refused,
            "rank {rank} asks for the {number}th time: {is_refused}"
        );
        if !is_refused {
            self.ranks[rank as usize].known_since = Some(self.incarnation);
        }
        self.gather(job_outputs);
        Ok(())
    }

    pub(super) fn gather(&mut self, job_outputs: Vec<JobOutput>) {
        for one in job_outputs {
            let event = match one {
                JobOutput::AllCalled(callers) => NetworkEvent::Names(callers),
                JobOutput::Failed(rank, error) => NetworkEvent::Opened { rank, result: Err(error) },
            };
            self.network.push(event);
        }
    }

    /// Opens the file for all ranks.
    pub(super) fn open(&mut self, callers: &[u32]) -> Result<()> {
        self.check_file()?;
        self.home.check_closed()?;
        let plan = self.plans[self.opened].clone();
        let is_created = self.file.len() == 0 && self.rng.bool();
        let has_table = self.kind == CoordinationKind::Table;
        let (id, memory) = self.home.open(callers, (plan.mode, is_created), has_table)?;
        let place = memory.map_or(CoordinationState::Node, |(memory, number)| {
            CoordinationState::Table(TableMembers::new(&memory, number, self.size))
        });
        self.opening = Some(OpenedFile::new(id, self.opened, plan, place));
        self.opened += 1;
        for &rank in callers {
            if self.home.is_here(rank) {
                self.network.push(NetworkEvent::Opened { rank, result: Ok(()) });
            } else {
                // The rank was lost in between.
                self.home_loses(rank)?;
            }
        }
        Ok(())
    }

    pub(super) fn measured(&mut self) -> Result<()> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        opening.is_measuring = false;
        opening.pointers.measured(self.file.len());
        let outputs = self.home.measured(opening.id, self.file.len())?;
        self.process(outputs, &[])
    }

    /// Checks the outputs of the coordination, and passes them to the ranks.
    pub(super) fn process(&mut self, outputs: Vec<FileOutput>, data: &[u8]) -> Result<()> {
        for one in outputs {
            let Some(opening) = &mut self.opening else { continue };
            match one {
                FileOutput::Measure => {
                    ensure!(!opening.is_measuring, "the file is measured twice at a time");
                    opening.is_measuring = true;
                    self.network.push(NetworkEvent::Measured);
                }
                FileOutput::Measured => opening.pointers.measured(self.file.len()),
                FileOutput::Recorded(ticket, number, call) => {
                    opening.record_round_call(&ticket, number, call);
                    self.ranks[ticket.rank as usize].is_arriving = false;
                }
                FileOutput::Processed(ticket, call) => match call {
                    SharedCall::Transfer(_) | SharedCall::Seek(_) => opening.record(&ticket, &call),
                    _ => {}
                },
                // The rank tells the node after it has left the table, if it is still connected.
                FileOutput::Left(ticket) => {
                    if !self.ranks[ticket.rank as usize].is_cut_off {
                        self.notify_node(ticket.rank, ticket.step, SharedCall::Leave)?;
                    }
                }
                FileOutput::ReadForAll(number, bytes) => opening.read_for_all(number, bytes)?,
                FileOutput::AccessEnded(ticket, buffer, done) => {
                    self.end_at_table(ticket, buffer, done)?;
                }
                FileOutput::Answer(ticket, result) => self.answer(ticket, result, data)?,
            }
        }
        if let Some(opening) = &mut self.opening {
            opening.catch_up();
        }
        Ok(())
    }
}
