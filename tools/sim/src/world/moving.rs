//! Bytes that move between ranks and the file, in parts and at any time.

use anyhow::{Context, Result, bail, ensure};
use pario_proto::{AccessRange, CollectiveError, Mode, SharedCall, Transfer};

use super::{Ticket, TicketPurpose, World};
use crate::model::Read;
use crate::rank::{Access, Phase, Stage};
use crate::shared_file::CoordinationState;

impl Access {
    /// An access that waits for its range.
    pub fn new(step: usize, transfer: Transfer, mode: Mode, is_started: bool) -> Self {
        Self {
            step,
            transfer,
            mode,
            is_started,
            range: AccessRange::default(),
            phase: Phase::Asked,
            once: None,
            is_performer: false,
            buffer: Vec::new(),
            began: 0,
            write: None,
        }
    }

    fn is_atomic(&self) -> bool {
        self.mode == Mode::Unix
    }
}

impl World {
    /// Whether the first access of a rank can go on.
    pub(super) fn can_move(&self, rank: u32) -> bool {
        let state = &self.ranks[rank as usize];
        let Some(first) = state.lane.front().filter(|_| state.stage == Stage::Open) else {
            return false;
        };
        match first.phase {
            Phase::Placed | Phase::Moving(_) | Phase::Given => true,
            Phase::Giving | Phase::Getting => true,
            Phase::Asked | Phase::Wanted | Phase::Reported | Phase::AtTable => false,
        }
    }

    /// Whether no rank reads or writes.
    pub(super) fn is_quiet(&self) -> bool {
        let mut accesses = self.ranks.iter().flat_map(|rank| &rank.lane);
        !accesses
            .any(|access| matches!(access.phase, Phase::Moving(_) | Phase::Giving | Phase::AtTable))
    }

    /// Continues the first access of a rank.
    pub(super) fn move_bytes(&mut self, rank: u32) -> Result<()> {
        let state = &mut self.ranks[rank as usize];
        let Some(first) = state.lane.front_mut() else { return Ok(()) };
        match &mut first.phase {
            Phase::Placed => {
                let AccessRange { offset: from, len } = first.range;
                if !first.is_atomic() || self.size == 1 || len == 0 {
                    return self.begin_to_move(rank);
                }
                first.phase = Phase::Wanted;
                let (step, is_write) = (first.step, first.transfer.is_write);
                state.ranges += 1;
                let call = SharedCall::Lock { number: state.ranges, from, len, is_write };
                self.call(rank, step, TicketPurpose::Lock, call, Vec::new())
            }
            Phase::Moving(_) => self.move_part(rank),
            Phase::Giving | Phase::Getting => self.begin_at_table(rank),
            Phase::Given => {
                self.check_given(&self.ranks[rank as usize].lane[0])?;
                self.finish_first(rank)
            }
            Phase::Asked | Phase::Wanted | Phase::Reported | Phase::AtTable => Ok(()),
        }
    }

    /// Begins to move the bytes of the first access of a rank.
    pub(super) fn begin_to_move(&mut self, rank: u32) -> Result<()> {
        let (now, opened) = (self.run.steps, self.opened);
        let Some(first) = self.ranks[rank as usize].lane.front_mut() else { return Ok(()) };
        let AccessRange { offset, len } = first.range;
        let len = usize::try_from(len)?;
        if first.is_atomic() && self.contents.is_unstable() {
            // All ranks were quiet before the mode was changed.
            self.contents.stabilize(&self.file, now)?;
        }
        first.began = now;
        first.buffer = vec![0; len];
        if first.transfer.is_write {
            fill(&mut first.buffer, (rank, opened, first.step));
            let is_atomic = first.is_atomic();
            first.write = Some(self.contents.begin(offset, &first.buffer, is_atomic, now));
        }
        let mut cuts = vec![0, len];
        for _ in 0..self.rng.usize(0..3) {
            cuts.push(self.rng.usize(0..=len));
        }
        cuts.sort_unstable();
        let mut parts: Vec<(usize, usize)> = cuts.windows(2).map(|two| (two[0], two[1])).collect();
        parts.retain(|(from, to)| from < to);
        self.rng.shuffle(&mut parts);
        let is_empty = parts.is_empty();
        first.phase = Phase::Moving(parts);
        if is_empty { self.end_of_move(rank) } else { Ok(()) }
    }

    fn move_part(&mut self, rank: u32) -> Result<()> {
        let is_unlucky = self.rng.u8(0..60) == 0;
        let Some(first) = self.ranks[rank as usize].lane.front_mut() else { return Ok(()) };
        let Phase::Moving(parts) = &mut first.phase else { return Ok(()) };
        if first.once.is_some() && is_unlucky {
            return self.fail_for_all(rank);
        }
        let Some((from, to)) = parts.pop() else { return Ok(()) };
        let is_last = parts.is_empty();
        let offset = first.range.offset + from as u64;
        if first.transfer.is_write {
            self.file.write(offset, &first.buffer[from..to]);
        } else {
            first.buffer[from..to].copy_from_slice(&self.file.read(offset, to - from));
        }
        if is_last { self.end_of_move(rank) } else { Ok(()) }
    }

    /// Ends the move of all bytes of the first access of a rank.
    fn end_of_move(&mut self, rank: u32) -> Result<()> {
        let (now, file_len) = (self.run.steps, self.file.len());
        let Some(mut first) = self.ranks[rank as usize].lane.pop_front() else { return Ok(()) };
        let AccessRange { offset, len } = first.range;
        if let Some(write) = first.write.take() {
            self.contents.finish(write, now);
        } else {
            let count = file_len.saturating_sub(offset).min(len);
            first.buffer.truncate(usize::try_from(count)?);
            self.check_read(rank, &first)?;
        }
        let (step, once, is_write) = (first.step, first.once, first.transfer.is_write);
        let is_alone = first.is_atomic() && self.size > 1 && len > 0;
        let done = if is_write { len } else { first.buffer.len() as u64 };
        let data = if once.is_some() && !is_write { first.buffer.clone() } else { Vec::new() };
        first.phase = Phase::Reported;
        self.ranks[rank as usize].lane.push_front(first);
        if is_alone {
            let number = self.ranks[rank as usize].ranges;
            self.call(
                rank,
                step,
                TicketPurpose::Notify,
                SharedCall::Unlock { number },
                Vec::new(),
            )?;
        }
        match once {
            Some(number) => self.report(rank, step, number, Ok(done), data),
            None => self.finish_first(rank),
        }
    }

    /// Checks a read against the model.
    fn check_read(&mut self, rank: u32, access: &Access) -> Result<()> {
        let read = Read {
            from: access.range.offset,
            wanted: usize::try_from(access.range.len)?,
            bytes: &access.buffer,
            time: (access.began, self.run.steps),
            is_atomic: access.is_atomic(),
        };
        self.contents.check(&read)?;
        let count = access.buffer.len();
        self.run.bytes_read += count as u64;
        let Some(opening) = &mut self.opening else { return Ok(()) };
        if matches!(access.mode, Mode::Unix | Mode::Async) {
            opening.pointers.has_read(rank, count);
            self.ranks[rank as usize].pointer += count as u64;
        }
        if let Some(done) = access.once.and_then(|number| opening.performances.get_mut(&number)) {
            done.read = Some(access.buffer.clone());
        }
        Ok(())
    }

    /// Checks that a rank has received the bytes that another rank has read for all.
    fn check_given(&self, access: &Access) -> Result<()> {
        let performances = self.opening.as_ref().map(|opening| &opening.performances);
        let done = performances.zip(access.once).and_then(|(all, number)| all.get(&number));
        let Some(done) = done else { bail!("no rank has performed step {} for all", access.step) };
        ensure!(
            !done.has_failed,
            "rank {} failed to perform the access, and the others got no error",
            done.rank
        );
        if !access.transfer.is_write {
            let is_same = done.read.as_ref() == Some(&access.buffer);
            ensure!(
                is_same,
                "not all ranks have received what rank {} has read for all",
                done.rank
            );
        }
        Ok(())
    }

    /// Fails the first access of a rank, which it performs for all.
    fn fail_for_all(&mut self, rank: u32) -> Result<()> {
        let state = &mut self.ranks[rank as usize];
        let Some(first) = state.lane.front_mut() else { return Ok(()) };
        let Some(number) = first.once else { return Ok(()) };
        first.phase = Phase::Reported;
        let step = first.step;
        if let Some(write) = first.write.take() {
            self.contents.give_up(write, self.run.steps, &self.file)?;
        }
        if let Some(opening) = &mut self.opening
            && let Some(done) = opening.performances.get_mut(&number)
        {
            done.has_failed = true;
        }
        self.report(rank, step, number, Err("the disk is full".to_owned()), Vec::new())
    }

    fn report(
        &mut self,
        rank: u32,
        step: usize,
        number: u64,
        done: Result<u64, String>,
        data: Vec<u8>,
    ) -> Result<()> {
        self.call(rank, step, TicketPurpose::Report, SharedCall::Performed { number, done }, data)
    }

    /// Begins to read for all ranks, or to receive what another rank performs for all.
    fn begin_at_table(&mut self, rank: u32) -> Result<()> {
        let connection = self.ranks[rank as usize].connection;
        let (Some(first), Some(opening)) =
            (self.ranks[rank as usize].lane.front_mut(), &mut self.opening)
        else {
            return Ok(());
        };
        let (step, what) = (first.step, TicketPurpose::Report);
        let ticket = Ticket { rank, step, what, opening: opening.index, connection };
        let (CoordinationState::Table(table), Some(number)) =
            (&mut opening.coordination, first.once)
        else {
            return Ok(());
        };
        let phase = std::mem::replace(&mut first.phase, Phase::AtTable);
        first.is_performer = phase == Phase::Giving;
        if first.is_performer {
            let done = opening.performances.get_mut(&number);
            done.context("no rank performs this round")?.read = Some(Vec::new());
            table.broadcast(ticket, number, first.range);
        } else {
            let range = (!first.transfer.is_write).then_some(first.range);
            table.receive(ticket, number, range);
        }
        Ok(())
    }

    /// Ends an access for all at a table.
    pub(super) fn end_at_table(
        &mut self,
        Ticket { rank, step, .. }: Ticket,
        buffer: Vec<u8>,
        done: Result<Result<usize, String>, CollectiveError>,
    ) -> Result<()> {
        let state = &mut self.ranks[rank as usize];
        let Some(mut first) = state.lane.pop_front() else { bail!("rank {rank} has no access") };
        let (is_its, is_performer) = (first.step == step, first.is_performer);
        ensure!(is_its, "rank {rank} ends step {step} before step {}", first.step);
        let failed = match done {
            Ok(Ok(count)) => {
                first.buffer = buffer;
                first.buffer.truncate(count);
                if is_performer {
                    self.check_read(rank, &first)?;
                } else {
                    self.check_given(&first)?;
                }
                None
            }
            // The rank that has failed to read knows why.
            Ok(Err(_)) => None,
            Err(error) => Some(error),
        };
        self.ranks[rank as usize].lane.push_front(first);
        match failed {
            Some(error) => self.fail_at_table(rank, step, &error),
            None => self.finish_first(rank),
        }
    }

    /// Ends an access that failed because the performing rank failed.
    fn fail_at_table(&mut self, rank: u32, step: usize, error: &CollectiveError) -> Result<()> {
        let Some(opening) = &self.opening else { return Ok(()) };
        let is_due = match error {
            CollectiveError::Unknown => opening.is_orphan,
            CollectiveError::Gone { rank: gone } => opening.left.contains(gone),
            CollectiveError::NotPerformed { rank: by, .. } => {
                opening.performances.values().any(|done| done.rank == *by && done.has_failed)
            }
            _ => false,
        };
        ensure!(is_due, "rank {rank} got the error: {error}");
        self.fail(rank, step, error)
    }

    /// Ends the first access of a rank.
    pub(super) fn finish_first(&mut self, rank: u32) -> Result<()> {
        let state = &mut self.ranks[rank as usize];
        let Some(first) = state.lane.pop_front() else { return Ok(()) };
        state.finish(first.step);
        Ok(())
    }

    /// Stops an access of a rank, if the step is one.
    pub(super) fn stop(&mut self, rank: u32, step: usize) -> Result<()> {
        let state = &mut self.ranks[rank as usize];
        let Some(at) = state.lane.iter().position(|access| access.step == step) else {
            return Ok(());
        };
        if let Some(write) = state.lane.remove(at).and_then(|access| access.write) {
            self.contents.give_up(write, self.run.steps, &self.file)?;
        }
        Ok(())
    }
}

/// Fills a buffer with bytes that no other access writes, and never zero.
fn fill(buffer: &mut [u8], (rank, opening, step): (u32, usize, usize)) {
    let seed = (u64::from(rank) << 40) ^ ((opening as u64) << 32) ^ step as u64;
    let mut rng = fastrand::Rng::with_seed(seed);
    buffer.fill_with(|| rng.u8(1..));
}
