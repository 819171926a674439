//! Record locks against a model that stores bytes instead of ranges, and recomputes everything each
//! time.

use pario_proto::LOCK_END;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Processes, files, and bytes of each file; the last byte stands for all that follow it.
const PROCESSES: usize = 4;
const FILES: usize = 2;
const BYTES: usize = 8;

fn space(process: usize) -> SpaceId {
    SpaceId::from_bytes([u8::try_from(process).unwrap(); 16])
}

fn locker(process: usize) -> Locker {
    Locker { space: space(process), pid: u32::try_from(process).unwrap() }
}

fn file(number: usize) -> FileId {
    FileId(number as u128)
}

fn range((from, to): (usize, usize)) -> LockRange {
    LockRange { from: from as u64, to: if to == BYTES { LOCK_END } else { to as u64 } }
}

fn claim(bytes: (usize, usize), kind: LockKind) -> LockClaim {
    LockClaim { range: range(bytes), kind }
}

/// A step of a process.
#[derive(Clone, Copy, Debug)]
enum LockStep {
    Lock((usize, usize), LockKind),
    Wait((usize, usize), LockKind),
    Unlock((usize, usize)),
    Test((usize, usize), LockKind),
    /// Withdraws the first of its waits, or one that is over.
    Withdraw,
    Leave,
    Lose,
}

fn lock_step() -> impl Strategy<Value = LockStep> {
    let bytes = (0..BYTES).prop_flat_map(|from| (Just(from), from + 1..=BYTES));
    let kind = prop_oneof![Just(LockKind::Shared), Just(LockKind::Exclusive)];
    let wanted = (bytes.clone(), kind);
    prop_oneof![
        3 => wanted.clone().prop_map(|(bytes, kind)| LockStep::Lock(bytes, kind)),
        6 => wanted.clone().prop_map(|(bytes, kind)| LockStep::Wait(bytes, kind)),
        4 => bytes.prop_map(LockStep::Unlock),
        1 => wanted.prop_map(|(bytes, kind)| LockStep::Test(bytes, kind)),
        1 => Just(LockStep::Withdraw),
        1 => Just(LockStep::Leave),
        1 => Just(LockStep::Lose),
    ]
}

type Answered = (u64, Result<LockOutcome, Failure>);

#[derive(Clone, Debug, Default)]
struct Model {
    /// By file, process and byte.
    held: [[[Option<LockKind>; BYTES]; PROCESSES]; FILES],
    /// The waits, oldest first.
    queue: Vec<ModelWait>,
}

#[derive(Clone, Copy, Debug)]
struct ModelWait {
    process: usize,
    file: usize,
    bytes: (usize, usize),
    kind: LockKind,
    ticket: u64,
}

impl Model {
    fn clashes(&self, at: usize, by: usize, (from, to): (usize, usize), kind: LockKind) -> bool {
        let held = self.held[at][by][from..to].iter().flatten();
        held.into_iter().any(|other| !other.goes_with(kind))
    }

    fn holders(&self, wait: &ModelWait) -> Vec<usize> {
        let clashes = |other| self.clashes(wait.file, other, wait.bytes, wait.kind);
        (0..PROCESSES).filter(|other| *other != wait.process && clashes(*other)).collect()
    }

    fn has_locked(&self, process: usize) -> bool {
        self.held.iter().any(|file| file[process].iter().any(Option::is_some))
    }

    /// Whether one process reaches another by following waits.
    fn waits_for(&self, one: usize, other: usize) -> bool {
        let mut reached = [false; PROCESSES];
        for _ in 0..PROCESSES {
            for wait in &self.queue {
                if wait.process == one || reached[wait.process] {
                    self.holders(wait).into_iter().for_each(|holder| reached[holder] = true);
                }
            }
        }
        reached[other]
    }

    /// Whether an earlier wait conflicts.
    fn is_behind(&self, at: usize) -> bool {
        let wait = &self.queue[at];
        self.queue[..at].iter().any(|before| {
            before.file == wait.file
                && before.process != wait.process
                && !before.kind.goes_with(wait.kind)
                && (before.bytes.0..before.bytes.1)
                    .any(|byte| (wait.bytes.0..wait.bytes.1).contains(&byte))
        })
    }

    fn can_be_over(&self, at: usize) -> bool {
        let wait = &self.queue[at];
        self.holders(wait).is_empty() && (self.has_locked(wait.process) || !self.is_behind(at))
    }

    fn set(&mut self, at: usize, by: usize, (from, to): (usize, usize), kind: Option<LockKind>) {
        self.held[at][by][from..to].fill(kind);
    }

    /// Grants waits, beginning with one file, until nothing changes any more.
    fn grant_waiting(&mut self, first: usize) -> Vec<Answered> {
        let mut answered = Vec::new();
        let (mut file, mut idle) = (first, 0);
        while idle < FILES {
            let is_next = |at: &usize| self.queue[*at].file == file && self.can_be_over(*at);
            if let Some(at) = (0..self.queue.len()).find(is_next) {
                let wait = self.queue.remove(at);
                self.set(file, wait.process, wait.bytes, Some(wait.kind));
                answered.push((wait.ticket, Ok(LockOutcome::Done)));
                idle = 0;
            } else {
                (file, idle) = ((file + 1) % FILES, idle + 1);
            }
        }
        answered
    }

    /// The first lock that conflicts: the whole range that the process has locked.
    fn first_conflict(&self, wait: &ModelWait) -> Option<HeldLock> {
        let piece = |by: usize, byte: usize| {
            let held = &self.held[wait.file][by];
            let kind = held[byte]?;
            let from = (0..=byte).rev().take_while(|at| held[*at] == Some(kind)).last()?;
            let to = (byte..BYTES).take_while(|at| held[*at] == Some(kind)).last()? + 1;
            Some((from, to, kind))
        };
        let mut found: Vec<_> = Vec::new();
        for by in self.holders(wait) {
            for byte in wait.bytes.0..wait.bytes.1 {
                let clash = piece(by, byte).filter(|(_, _, kind)| !kind.goes_with(wait.kind));
                found.extend(clash.map(|(from, to, kind)| (from, by, to, kind)));
            }
        }
        let (from, by, to, kind) = found.into_iter().min_by_key(|(from, by, ..)| (*from, *by))?;
        Some(HeldLock { range: range((from, to)), kind, pid: u32::try_from(by).unwrap() })
    }

    fn act(
        &mut self,
        process: usize,
        file: usize,
        lock_step: LockStep,
        ticket: u64,
    ) -> Vec<Answered> {
        let wait = |bytes, kind| ModelWait { process, file, bytes, kind, ticket };
        let done = |ticket| vec![(ticket, Ok(LockOutcome::Done))];
        match lock_step {
            LockStep::Lock(bytes, kind) => {
                if let Some(held) = self.first_conflict(&wait(bytes, kind)) {
                    return vec![(ticket, Ok(LockOutcome::Held(held)))];
                }
                self.set(file, process, bytes, Some(kind));
                [done(ticket), self.grant_waiting(file)].concat()
            }
            LockStep::Unlock(bytes) => {
                self.set(file, process, bytes, None);
                [done(ticket), self.grant_waiting(file)].concat()
            }
            LockStep::Wait(bytes, kind) => {
                let new = wait(bytes, kind);
                let endless = |other: &usize| self.waits_for(*other, process);
                if let Some(pid) = self.holders(&new).into_iter().find(endless) {
                    let pid = u32::try_from(pid).unwrap();
                    return vec![(ticket, Err(Failure::Deadlock { pid }))];
                }
                self.queue.push(new);
                self.grant_waiting(file)
            }
            LockStep::Test(bytes, kind) => {
                let held = self.first_conflict(&wait(bytes, kind));
                vec![(ticket, Ok(held.map_or(LockOutcome::Done, LockOutcome::Held)))]
            }
            LockStep::Withdraw => {
                let its = self.queue.iter().position(|wait| wait.process == process);
                let Some(withdrawn) = its.map(|at| self.queue.remove(at)) else {
                    return Vec::new();
                };
                let answered = vec![(withdrawn.ticket, Ok(LockOutcome::Withdrawn))];
                [answered, self.grant_waiting(withdrawn.file)].concat()
            }
            LockStep::Leave => {
                let is_its = |wait: &&ModelWait| wait.process == process && wait.file == file;
                let its: Vec<_> = self.queue.iter().filter(is_its).copied().collect();
                self.queue.retain(|wait| !is_its(&wait));
                self.held[file][process] = Default::default();
                let answered = its.iter().map(|wait| (wait.ticket, Ok(LockOutcome::Withdrawn)));
                [answered.collect(), self.grant_waiting(file)].concat()
            }
            LockStep::Lose => {
                let mut its = self.queue.clone();
                its.retain(|wait| wait.process == process);
                its.sort_by_key(|wait| (wait.file, wait.ticket));
                self.queue.retain(|wait| wait.process != process);
                self.held.iter_mut().for_each(|held| held[process] = Default::default());
                let answered = its.iter().map(|wait| (wait.ticket, Ok(LockOutcome::Withdrawn)));
                [answered.collect(), self.grant_waiting(0)].concat()
            }
        }
    }

    /// Whether a process is waiting.
    fn is_waiting(&self, process: usize) -> bool {
        self.queue.iter().any(|wait| wait.process == process)
    }
}

fn act(
    locks: &mut Locks<u64>,
    model: &Model,
    step: (usize, usize, LockStep),
    ticket: u64,
) -> Vec<Answered> {
    let (process, number, lock_step) = step;
    let (file, who) = (file(number), locker(process));
    match lock_step {
        LockStep::Lock(bytes, kind) => locks.lock(file, who, claim(bytes, kind), ticket),
        LockStep::Unlock(bytes) => locks.unlock(file, who, range(bytes), ticket),
        LockStep::Wait(bytes, kind) => {
            locks.wait(file, who, claim(bytes, kind), (ticket, 0), ticket, ticket)
        }
        LockStep::Test(bytes, kind) => {
            vec![(ticket, Ok(locks.test(file, who.space, claim(bytes, kind))))]
        }
        LockStep::Withdraw => {
            let first = model.queue.iter().find(|wait| wait.process == process);
            locks.withdraw(who.space, first.map_or(0, |wait| wait.ticket))
        }
        LockStep::Leave => locks.leave(file, who.space),
        LockStep::Lose => locks.lose(who.space),
    }
}

/// The locks are those of the model, and nothing else is stored.
fn compare(locks: &Locks<u64>, model: &Model) {
    for number in 0..FILES {
        for process in 0..PROCESSES {
            let its = locks.files.get(&file(number)).and_then(|one| one.held.get(&space(process)));
            let mut bytes = [None; BYTES];
            let mut before = None;
            for (&from, &(to, kind)) in its.iter().flat_map(|holder| &holder.ranges) {
                assert!(from < to && before != Some((from, kind)), "adjacent ranges are joined");
                before = Some((to, kind));
                let to = if to == LOCK_END { BYTES } else { usize::try_from(to).unwrap() };
                bytes[usize::try_from(from).unwrap()..to].fill(Some(kind));
            }
            assert_eq!(bytes, model.held[number][process]);
            let is_waiting =
                model.queue.iter().any(|wait| wait.process == process && wait.file == number);
            let is_known = is_waiting || bytes.iter().any(Option::is_some);
            assert_eq!(locks.is_known(file(number), space(process)), is_known);
        }
        for byte in 0..BYTES {
            let held = model.held[number].iter().filter_map(|process| process[byte]);
            let held: Vec<_> = held.collect();
            assert!(
                held.len() < 2 || !held.contains(&LockKind::Exclusive),
                "an exclusive lock is alone"
            );
        }
    }
    assert!(locks.known.values().all(|files| !files.is_empty()));
    assert!(locks.files.values().all(|one| !one.held.is_empty() || !one.queue.is_empty()));
    let mut waits: Vec<_> = locks.waits().iter().map(|wait| wait.since_ms).collect();
    waits.sort_unstable();
    let mut expected: Vec<_> = model.queue.iter().map(|wait| wait.ticket).collect();
    expected.sort_unstable();
    assert_eq!(waits, expected);
    assert!((0..model.queue.len()).all(|at| !model.can_be_over(at)), "every wait has a conflict");
}

fn steps() -> impl Strategy<Value = Vec<(usize, usize, LockStep)>> {
    vec((0..PROCESSES, 0..FILES, lock_step()), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Processes with several threads: each can wait for several locks at a time.
    #[test]
    fn locks_are_as_the_model_says(steps in steps()) {
        let (mut locks, mut model) = (Locks::default(), Model::default());
        for (ticket, step) in (1..).zip(steps) {
            let answered = act(&mut locks, &model, step, ticket);
            let expected = model.act(step.0, step.1, step.2, ticket);
            assert_eq!(answered, expected, "{step:?}");
            compare(&locks, &model);
        }
    }

    /// Processes with one thread, which do nothing while they wait: once all others unlock what
    /// they have, every wait ends.
    #[test]
    fn every_wait_ends(steps in steps()) {
        let (mut locks, mut model) = (Locks::default(), Model::default());
        for (ticket, step) in (1..).zip(steps) {
            let ends = matches!(step.2, LockStep::Withdraw | LockStep::Lose);
            if model.is_waiting(step.0) && !ends {
                continue;
            }
            act(&mut locks, &model, step, ticket);
            model.act(step.0, step.1, step.2, ticket);
            compare(&locks, &model);
        }
        for _ in 0..PROCESSES {
            for process in 0..PROCESSES {
                for number in 0..FILES {
                    if !model.is_waiting(process) {
                        let step = (process, number, LockStep::Unlock((0, BYTES)));
                        act(&mut locks, &model, step, 0);
                        model.act(step.0, step.1, step.2, 0);
                    }
                }
            }
        }
        prop_assert!(locks.waits().is_empty() && locks.files.is_empty(), "{:?}", model);
    }
}

const EXCLUSIVE: LockKind = LockKind::Exclusive;
const SHARED: LockKind = LockKind::Shared;

#[test]
fn waits_end_in_order_and_readers_do_not_overtake_a_writer() {
    let mut locks = Locks::default();
    let wait = |locks: &mut Locks<u64>, by, kind, ticket| {
        locks.wait(file(0), locker(by), claim((0, 4), kind), (ticket, 0), ticket, 0)
    };
    let done = |ticket| (ticket, Ok(LockOutcome::Done));
    assert_eq!(wait(&mut locks, 0, SHARED, 1), [done(1)]);
    assert_eq!(wait(&mut locks, 1, EXCLUSIVE, 2), []);
    assert_eq!(wait(&mut locks, 2, SHARED, 3), [], "the writer came before");
    assert_eq!(wait(&mut locks, 3, SHARED, 4), []);
    let answered = locks.unlock(file(0), locker(0), LockRange::ALL, 5);
    assert_eq!(answered, [done(5), done(2)]);
    assert_eq!(locks.lose(space(1)), [done(3), done(4)]);
    assert!(locks.waits().is_empty());
}

#[test]
fn a_process_with_locks_does_not_queue_behind_others() {
    let mut locks = Locks::default();
    let wait = |locks: &mut Locks<u64>, by, bytes, kind, ticket| {
        locks.wait(file(0), locker(by), claim(bytes, kind), (ticket, 0), ticket, 0)
    };
    let done = |ticket| (ticket, Ok(LockOutcome::Done));
    assert_eq!(wait(&mut locks, 0, (0, 2), SHARED, 1), [done(1)]);
    assert_eq!(wait(&mut locks, 1, (0, 4), EXCLUSIVE, 2), []);
    // Otherwise both would wait for each other.
    assert_eq!(wait(&mut locks, 0, (2, 4), SHARED, 3), [done(3)]);
    let answered = locks.unlock(file(0), locker(0), LockRange::ALL, 4);
    assert_eq!(answered, [done(4), done(2)]);
}

#[test]
fn two_shared_locks_cannot_both_wait_to_become_exclusive() {
    let mut locks = Locks::default();
    for by in 0..2 {
        locks.lock(file(0), locker(by), claim((0, 2), SHARED), by as u64);
    }
    assert_eq!(locks.wait(file(0), locker(0), claim((0, 2), EXCLUSIVE), (2, 0), 2, 0), []);
    let answered = locks.wait(file(0), locker(1), claim((0, 2), EXCLUSIVE), (3, 0), 3, 0);
    assert_eq!(answered, [(3, Err(Failure::Deadlock { pid: 0 }))]);
    let answered = locks.unlock(file(0), locker(1), LockRange::ALL, 4);
    assert_eq!(answered, [(4, Ok(LockOutcome::Done)), (2, Ok(LockOutcome::Done))]);
}

#[test]
fn there_is_a_limit_and_beyond_it_nothing_changes() {
    let mut locks = Locks::default();
    let bytes = |from: usize, len: u64| {
        let from = 2 * from as u64;
        LockRange { from, to: from + len }
    };
    let shared = |range| LockClaim { range, kind: SHARED };
    let alone = |range| LockClaim { range, kind: EXCLUSIVE };
    let done = |ticket| vec![(ticket, Ok(LockOutcome::Done))];
    let refused = |ticket| vec![(ticket, Err(too_many()))];
    for at in 0..LOCKS_LIMIT - 1 {
        assert_eq!(locks.lock(file(0), locker(0), shared(bytes(at, 1)), 1), done(1));
    }
    let long = bytes(LOCKS_LIMIT, 8);
    let middle = LockRange { from: long.from + 3, to: long.from + 4 };
    assert_eq!(locks.lock(file(0), locker(0), shared(long), 1), done(1));
    let more = bytes(LOCKS_LIMIT + 10, 1);
    assert_eq!(locks.lock(file(0), locker(0), shared(more), 2), refused(2));
    assert_eq!(locks.wait(file(0), locker(0), shared(more), (3, 0), 3, 0), refused(3));
    assert_eq!(locks.unlock(file(0), locker(0), middle, 4), refused(4), "one would become two");
    assert_eq!(locks.lock(file(1), locker(0), shared(more), 5), done(5), "another file");
    assert_eq!(locks.lock(file(0), locker(1), shared(middle), 6), done(6), "another process");
    // A range that is joined with others adds nothing to the count.
    let between = LockRange { from: 1, to: 2 };
    assert_eq!(locks.lock(file(0), locker(0), shared(between), 7), done(7));
    assert_eq!(locks.wait(file(0), locker(0), alone(middle), (8, 0), 8, 0), [], "it waits");
    // When the wait could end, one range would become three.
    let answered = locks.unlock(file(0), locker(1), LockRange::ALL, 9);
    assert_eq!(answered, [done(9), refused(8)].concat());
    assert_eq!(locks.count(file(0), space(0)), LOCKS_LIMIT - 1);
    assert_eq!(locks.unlock(file(0), locker(0), LockRange::ALL, 10), done(10));
    assert_eq!(locks.count(file(0), space(0)), 0);
}
