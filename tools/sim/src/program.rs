//! The programs of the ranks: random, with matching calls unless the ranks are to disagree.

use fastrand::Rng;
use pario_proto::{Call, CoordinationTable, Mode, OFFSET_LIMIT, Seek, Transfer};

/// A step of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A collective call. The rank does not wait for an access before its next step.
    Collective(Call),
    /// An access at the shared pointer, first come, first served.
    Transfer(Transfer),
    /// Moves the shared pointer, without the other ranks.
    Seek(Seek),
    /// An access at the private pointer of the rank.
    Own(Transfer),
    /// Moves the private pointer of the rank.
    OwnSeek(Seek),
    /// Closes the file, collectively or not, as the mode says.
    Close,
}

/// The programs of all ranks, and the mode in which they begin.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The mode of the open.
    pub mode: Mode,
    /// Whether ranks change the mode while their accesses are under way.
    pub is_hasty: bool,
    /// One program for each rank.
    pub programs: Vec<Vec<Step>>,
}

impl Plan {
    /// Random programs for `size` ranks.
    pub fn random(rng: &mut Rng, size: u32, can_disagree: bool) -> Self {
        let first = any_mode(rng);
        let programs = (0..size).map(|_| Vec::new()).collect();
        let mut plan = Self { mode: first, is_hasty: rng.bool(), programs };
        let mut mode = first;
        for _ in 0..rng.usize(1..4) {
            // Some ranks run further ahead than a table has slots for rounds.
            let is_long = rng.u8(0..30) == 0;
            for _ in 0..rng.usize(0..if is_long { 90 } else { 10 }) {
                plan.add(rng, mode, can_disagree, is_long);
            }
            let next = any_mode(rng);
            let calls = plan.all(Call::SetMode(next));
            if plan.add_round(rng, mode, calls, can_disagree) {
                mode = next;
            }
        }
        for program in &mut plan.programs {
            program.push(Step::Close);
        }
        plan
    }

    fn add(&mut self, rng: &mut Rng, mode: Mode, can_disagree: bool, is_long: bool) {
        match mode {
            Mode::Sync | Mode::Global if is_long || rng.u8(0..6) > 0 => {
                // Large reads for all are broadcast in several chunks.
                let is_large = mode == Mode::Global && rng.u16(0..1000) == 0;
                let is_write = is_large || rng.bool();
                let len = if is_large { LARGE } else { rng.u64(0..40) };
                let calls = (0..self.programs.len()).map(|_| {
                    let len = if mode == Mode::Sync { rng.u64(0..40) } else { len };
                    Call::Transfer(Transfer { is_write, len, is_append: false })
                });
                let calls = calls.collect();
                self.add_round(rng, mode, calls, can_disagree);
                if is_large {
                    let calls = self.all(Call::Seek(Seek::Start(rng.u64(0..500))));
                    self.add_round(rng, mode, calls, false);
                    let calls = self.all(Call::Transfer(Transfer::read(LARGE)));
                    self.add_round(rng, mode, calls, false);
                }
            }
            Mode::Sync | Mode::Global => {
                let calls = self.all(Call::Seek(any_seek(rng)));
                self.add_round(rng, mode, calls, can_disagree);
            }
            Mode::Record if rng.u8(0..5) == 0 => {
                // Only the rank knows the distance from its private pointer.
                let seek = match any_seek(rng) {
                    Seek::Current(distance) => Seek::Start(distance.unsigned_abs()),
                    seek => seek,
                };
                let calls = self.all(Call::Seek(seek));
                self.add_round(rng, mode, calls, can_disagree);
            }
            Mode::Record => {
                // All ranks make the same accesses to their records, each at its own time.
                let (is_write, len) = (rng.bool(), rng.u64(0..40));
                for program in &mut self.programs {
                    program.push(Step::Own(Transfer { is_write, len, is_append: false }));
                }
            }
            Mode::Log => {
                for program in &mut self.programs {
                    for _ in 0..rng.usize(0..4) {
                        let step = if rng.u8(0..8) == 0 {
                            Step::Seek(any_seek(rng))
                        } else {
                            let (is_write, is_append) = (rng.bool(), rng.u8(0..8) == 0);
                            let is_append = is_write && is_append;
                            Step::Transfer(Transfer { is_write, len: rng.u64(0..40), is_append })
                        };
                        program.push(step);
                    }
                }
            }
            Mode::Unix | Mode::Async => {
                for program in &mut self.programs {
                    let len = rng.u64(0..60);
                    match rng.u8(0..8) {
                        0 => program.push(Step::Transfer(Transfer::append(len))),
                        1..4 => program.push(Step::OwnSeek(near_seek(rng))),
                        4..6 => program.push(Step::Own(Transfer::read(len))),
                        _ => program.push(Step::Own(Transfer::write(len))),
                    }
                }
            }
        }
    }

    fn all(&self, call: Call) -> Vec<Call> {
        vec![call; self.programs.len()]
    }

    /// Adds a round. Returns whether all calls match.
    fn add_round(
        &mut self,
        rng: &mut Rng,
        mode: Mode,
        mut calls: Vec<Call>,
        can_disagree: bool,
    ) -> bool {
        let mut agrees = true;
        if can_disagree && calls.len() > 1 && rng.u8(0..10) == 0 {
            let odd = rng.usize(0..calls.len());
            let other = match rng.u8(0..5) {
                0 => Call::failed(&reason_of(odd)),
                4 => Call::Barrier,
                1 => Call::Close,
                2 => Call::Seek(Seek::Start(1 << 40)),
                _ => Call::Transfer(Transfer::read(1 << 14)),
            };
            let kind = |call: &Call| match call {
                Call::Transfer(transfer) => Some(transfer.is_write),
                _ => None,
            };
            agrees =
                kind(&other).is_some() && kind(&other) == kind(&calls[odd]) && mode == Mode::Sync;
            calls[odd] = other;
        }
        for (program, call) in self.programs.iter_mut().zip(calls) {
            program.push(Step::Collective(call));
        }
        agrees
    }
}

/// Why a rank could not make its call.
pub fn reason_of(rank: usize) -> String {
    format!("rank {rank} has no argument")
}

/// More bytes than the buffer of a table has.
const LARGE: u64 = (CoordinationTable::BUFFER_BYTES + CoordinationTable::CHUNK_BYTES + 5) as u64;

fn any_mode(rng: &mut Rng) -> Mode {
    Mode::ALL[rng.usize(0..Mode::ALL.len())]
}

fn any_seek(rng: &mut Rng) -> Seek {
    match rng.u8(0..20) {
        0 => Seek::Start(OFFSET_LIMIT - rng.u64(0..60)),
        1..5 => Seek::Current(rng.i64(-30..30)),
        5..10 => Seek::End(rng.i64(-30..30)),
        _ => Seek::Start(rng.u64(0..500)),
    }
}

/// A seek to where other ranks are as well.
fn near_seek(rng: &mut Rng) -> Seek {
    if rng.u8(0..8) == 0 { any_seek(rng) } else { Seek::Start(rng.u64(0..100)) }
}
