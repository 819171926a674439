//! What the ranks of a group do: random, but so that all mean the same by it, unless they are to
//! disagree.

use fastrand::Rng;
use pario_proto::{Call, Mode, OFFSET_LIMIT, Seek, Step as Kind, Transfer};

/// A step of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call in which all meet. Accesses do not wait for their answers before the next step.
    Meet(Call),
    /// An access where the shared pointer is, first come, first served.
    Transfer(Transfer),
    /// Moves the shared pointer, without the others.
    Seek(Seek),
    /// Closes, without the others.
    Close,
}

/// The programs of all ranks, and the mode in which they begin.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The mode of the open.
    pub mode: Mode,
    /// One program for each rank.
    pub programs: Vec<Vec<Step>>,
}

impl Plan {
    /// Random programs for so many ranks.
    pub fn random(rng: &mut Rng, size: u32, can_disagree: bool) -> Self {
        let first = any_mode(rng);
        let mut plan = Self { mode: first, programs: (0..size).map(|_| Vec::new()).collect() };
        let mut mode = first;
        for _ in 0..rng.usize(1..5) {
            for _ in 0..rng.usize(0..12) {
                plan.add(rng, mode, can_disagree);
            }
            let next = any_mode(rng);
            let calls = plan.all(Call::SetMode(next));
            if plan.meet(rng, mode, calls, can_disagree) {
                mode = next;
            }
        }
        if mode.meets_in(Kind::Close) {
            let calls = plan.all(Call::Close);
            plan.meet(rng, mode, calls, false);
        } else {
            for program in &mut plan.programs {
                program.push(Step::Close);
            }
        }
        plan
    }

    fn add(&mut self, rng: &mut Rng, mode: Mode, can_disagree: bool) {
        match mode {
            Mode::Sync | Mode::Global if rng.u8(0..6) > 0 => {
                let is_write = rng.bool();
                let len = rng.u64(0..40);
                let calls = (0..self.programs.len()).map(|_| {
                    let len = if mode == Mode::Sync { rng.u64(0..40) } else { len };
                    Call::Transfer(Transfer { is_write, len, is_append: false })
                });
                let calls = calls.collect();
                self.meet(rng, mode, calls, can_disagree);
            }
            Mode::Sync | Mode::Global | Mode::Record => {
                let calls = self.all(Call::Seek(any_seek(rng)));
                self.meet(rng, mode, calls, can_disagree);
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
                    if rng.bool() {
                        program.push(Step::Transfer(Transfer::append(rng.u64(0..40))));
                    }
                }
            }
        }
    }

    fn all(&self, call: Call) -> Vec<Call> {
        vec![call; self.programs.len()]
    }

    /// A round; whether all agree in it.
    fn meet(
        &mut self,
        rng: &mut Rng,
        mode: Mode,
        mut calls: Vec<Call>,
        can_disagree: bool,
    ) -> bool {
        let mut agrees = true;
        if can_disagree && calls.len() > 1 && rng.u8(0..10) == 0 {
            let odd = rng.usize(0..calls.len());
            let other = match rng.u8(0..4) {
                0 => Call::Barrier,
                1 => Call::Close,
                2 => Call::Seek(Seek::Start(1 << 40)),
                _ => Call::Transfer(Transfer::read(1 << 30)),
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
            program.push(Step::Meet(call));
        }
        agrees
    }
}

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
