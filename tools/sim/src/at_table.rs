//! A shared file whose ranks meet in common memory, driven like one whose ranks meet at a node:
//! calls go in, answers come out. Each rank looks for its answers when chance lets it.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU32;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use pario_proto::{Arrival, Call, Mode, Outcome, Placement, Seek, Table, Transfer, Trouble};
use pario_server::coordination::Action;

use crate::world::Ticket;

pub struct AtTable {
    words: Vec<AtomicU32>,
    size: u32,
    /// Calls in rounds that were not answered: rank, number, and whether it closes.
    pending: Vec<(u32, u64, bool, Ticket)>,
    left: BTreeSet<u32>,
    is_over: bool,
}

impl AtTable {
    pub fn new(size: u32, mode: Mode, len: Option<u64>) -> Self {
        let words: Vec<_> = (0..Table::words_of(size)).map(|_| AtomicU32::new(0)).collect();
        Table::new(&words, size, mode, len).expect("a small group has a table");
        Self { words, size, pending: Vec::new(), left: BTreeSet::new(), is_over: false }
    }

    fn table(&self) -> Table<'_> {
        Table::of(&self.words).expect("it was made before")
    }

    /// A call in which all meet; whether it counts.
    pub fn meet(
        &mut self,
        rank: u32,
        number: u64,
        call: &Call,
        ticket: Ticket,
        measure: impl Fn() -> u64,
        act: &mut impl FnMut(Action<Ticket>),
    ) -> Result<bool> {
        let table = self.table();
        table.notice();
        match table.arrive(rank, number, call, 0) {
            Ok(arrival) => {
                ensure!(arrival == Arrival::Counted, "there is no room for round {number}");
                while table.is_complete() {
                    table.decide(|| Ok(measure()));
                }
                self.pending.push((rank, number, *call == Call::Close, ticket));
                Ok(true)
            }
            Err(trouble) => {
                self.fail(rank, *call == Call::Close, ticket, trouble, act);
                Ok(false)
            }
        }
    }

    pub fn transfer(
        &self,
        transfer: Transfer,
        ticket: Ticket,
        measure: impl Fn() -> u64,
        act: &mut impl FnMut(Action<Ticket>),
    ) {
        let placed = self.table().transfer(transfer, || Ok(measure()));
        act(Action::Answer(ticket, placed.map(Outcome::Placed)));
    }

    pub fn seek(
        &self,
        seek: Seek,
        ticket: Ticket,
        measure: impl Fn() -> u64,
        act: &mut impl FnMut(Action<Ticket>),
    ) {
        let at = self.table().seek(seek, || Ok(measure()));
        act(Action::Answer(ticket, at.map(Outcome::At)));
    }

    pub fn close(&mut self, rank: u32, ticket: Ticket, act: &mut impl FnMut(Action<Ticket>)) {
        let closed = self.table().may_close();
        if closed.is_ok() {
            self.leave(rank, act);
        }
        act(Action::Answer(ticket, closed.map(|()| Outcome::Done)));
    }

    pub fn lose(&mut self, rank: u32, act: &mut impl FnMut(Action<Ticket>)) {
        self.table().lose(rank);
        self.pending.retain(|(of, ..)| *of != rank);
        self.is_gone(rank, act);
    }

    fn leave(&mut self, rank: u32, act: &mut impl FnMut(Action<Ticket>)) {
        self.table().leave(rank);
        self.is_gone(rank, act);
    }

    fn is_gone(&mut self, rank: u32, act: &mut impl FnMut(Action<Ticket>)) {
        self.left.insert(rank);
        if self.left.len() == self.size as usize && !std::mem::replace(&mut self.is_over, true) {
            act(Action::End);
        }
    }

    pub fn performed(&self, number: u64, len: u64) {
        self.table().perform(number, &Ok(len));
        self.table().take(number);
    }

    /// Ranks look for their answers, some of them or all; whether there was any.
    pub fn look(
        &mut self,
        rng: &mut Rng,
        all: bool,
        act: &mut impl FnMut(Action<Ticket>),
    ) -> Result<bool> {
        let mut is_any = false;
        rng.shuffle(&mut self.pending);
        for (rank, number, is_close, ticket) in std::mem::take(&mut self.pending) {
            let answer = if all || rng.bool() { self.answer(rank, number)? } else { None };
            is_any |= answer.is_some();
            match answer {
                None => self.pending.push((rank, number, is_close, ticket)),
                Some(Err(trouble)) => self.fail(rank, is_close, ticket, trouble, act),
                Some(Ok(outcome)) => {
                    if is_close {
                        self.leave(rank, act);
                    }
                    act(Action::Answer(ticket, Ok(outcome)));
                }
            }
        }
        Ok(is_any)
    }

    fn answer(&self, rank: u32, number: u64) -> Result<Option<Result<Outcome, Trouble>>> {
        let table = self.table();
        if table.has_news() {
            table.notice();
        }
        let Some(outcome) = table.outcome(rank, number) else { return Ok(None) };
        match outcome {
            // It is taken when it is done.
            Ok(Outcome::Perform { .. }) => return Ok(Some(outcome)),
            Ok(Outcome::Performed { number, placement }) => {
                let Some(done) = table.performed(number) else { return Ok(None) };
                table.take(number);
                return Ok(Some(done.map(|len| {
                    let placement = Placement { len: len.min(placement.len), ..placement };
                    Outcome::Performed { number, placement }
                })));
            }
            Err(Trouble::Gone { .. } | Trouble::Closed { .. }) => {}
            _ => drop(table.take(number)),
        }
        Ok(Some(outcome))
    }

    fn fail(
        &mut self,
        rank: u32,
        is_close: bool,
        ticket: Ticket,
        trouble: Trouble,
        act: &mut impl FnMut(Action<Ticket>),
    ) {
        let is_alone = matches!(trouble, Trouble::Gone { .. } | Trouble::Closed { .. });
        act(Action::Answer(ticket, Err(trouble)));
        if is_close && is_alone {
            self.leave(rank, act);
        }
    }

    /// Nobody waits any more.
    pub fn check_end(&self) -> Result<()> {
        let waiting = self.pending.first().map(|(rank, number, ..)| (*rank, *number));
        waiting.map_or(Ok(()), |it| Err(anyhow::anyhow!("{it:?}"))).context("somebody still waits")
    }
}
