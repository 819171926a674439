//! Crashes at every change of runs of random operations.
//!
//! The model knows for each extent what was durable at the last acknowledged sync and everything
//! that was tried since. After a power loss an extent must be one of these, whole; after the death
//! of the process it must be what was acknowledged last (or what was under way).

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use pario_store::medium::{Fault, Memory};
use pario_store::{
    CheckDepth, Disk, DiskOptions, ExtentCache, ExtentFile, NewSubfile, StoreError, SubfileId,
};

const ID: SubfileId = SubfileId::data(0xc0ffee, 1);
const INDICES: u64 = 12;

type Content = Option<(Vec<u8>, Vec<u8>)>;

/// Small limits, so that a short run meets every chore.
fn options() -> DiskOptions {
    DiskOptions {
        background: false,
        cache: ExtentCache::new(0),
        journal_bytes: 1 << 10,
        unsynced_bytes: 64 << 10,
        ..DiskOptions::default()
    }
}

#[derive(Clone, Default)]
struct Model {
    /// What the last acknowledged sync made durable.
    durable: BTreeMap<u64, Content>,
    /// What was tried since, in order; the last acknowledged one at the end, if no other follows.
    tried: BTreeMap<u64, Vec<Content>>,
    /// What was acknowledged last.
    acknowledged: BTreeMap<u64, Content>,
    /// What was under way at the crash.
    under_way: Option<(u64, Content)>,
}

impl Model {
    fn durable(&self, index: u64) -> Content {
        self.durable.get(&index).cloned().flatten()
    }

    fn acknowledged(&self, index: u64) -> Content {
        self.acknowledged.get(&index).cloned().flatten()
    }

    fn attempt<T>(
        &mut self,
        index: u64,
        content: Content,
        call: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.tried.entry(index).or_default().push(content.clone());
        self.under_way = Some((index, content.clone()));
        let answer = call()?;
        self.under_way = None;
        self.acknowledged.insert(index, content);
        Ok(answer)
    }

    fn synced(&mut self) {
        self.durable = self.acknowledged.clone();
        self.tried.clear();
    }

    /// Takes over what was found after a restart, which must be possible.
    fn check(&mut self, file: &ExtentFile, power_lost: bool) {
        for index in 0..INDICES {
            let found = read(file, index).unwrap_or_else(|error| panic!("{error}"));
            let mut possible = vec![self.acknowledged(index)];
            if let Some((at, content)) = &self.under_way
                && *at == index
            {
                possible.push(content.clone());
            }
            if power_lost {
                possible.push(self.durable(index));
                possible.extend(self.tried.get(&index).cloned().unwrap_or_default());
            }
            let short = |content: &Content| content.as_ref().map(|(h, b)| (h.clone(), b.len()));
            assert!(
                possible.contains(&found),
                "extent {index}: found {:?}, possible {:?}",
                short(&found),
                possible.iter().map(short).collect::<Vec<_>>()
            );
            self.acknowledged.insert(index, found);
        }
        // What recovery has shown is durable from then on.
        self.under_way = None;
        self.synced();
        let problems = file.check(CheckDepth::Content).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

fn read(file: &ExtentFile, index: u64) -> Result<Content, StoreError> {
    Ok(file
        .read(index)?
        .map(|extent| (extent.header().to_vec(), extent.body().to_vec())))
}

fn random_content(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let header: Vec<u8> = (0..rng.usize(..20)).map(|_| rng.u8(..)).collect();
    let len = *rng
        .choice(&[0, 1, 500, 3_900, 4_096, 9_000, 20_000])
        .unwrap();
    let fill = rng.u8(..);
    (header, (0..len).map(|i: usize| fill ^ (i as u8)).collect())
}

/// Random operations until the medium stops or `steps` are done.
fn run(
    file: &mut ExtentFile,
    disk: &Disk,
    model: &mut Model,
    rng: &mut Rng,
    steps: usize,
) -> Result<(), StoreError> {
    for _ in 0..steps {
        let index = rng.u64(..INDICES);
        match rng.u8(..100) {
            0..60 => {
                let (header, body) = random_content(rng);
                let content = Some((header.clone(), body.clone()));
                model.attempt(index, content, || file.write(index, &header, &body))?;
            }
            60..75 => {
                let was_there = model.acknowledged(index).is_some();
                let deleted = model.attempt(index, None, || file.delete(index))?;
                assert_eq!(deleted, was_there);
            }
            75..85 => assert_eq!(read(file, index)?, model.acknowledged(index)),
            85..95 => {
                file.sync()?;
                model.synced();
            }
            95..98 => {
                file.clone().close()?;
                model.synced();
                *file = disk.open_extents(ID)?;
            }
            _ => {
                file.compact()?;
                model.synced();
            }
        }
    }
    Ok(())
}

fn new_disk(memory: &Memory) -> (Disk, ExtentFile) {
    let disk = Disk::create_on(Arc::new(memory.clone()), options()).unwrap();
    let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
    (disk, file)
}

fn reopen(memory: &Memory) -> (Disk, ExtentFile) {
    let disk = Disk::open_on(Arc::new(memory.clone()), options()).unwrap();
    let file = disk
        .open_extents(ID)
        .unwrap_or_else(|error| panic!("{error}"));
    (disk, file)
}

/// Restarts after a crash and checks; then once more, since what was recovered must last.
fn restart(memory: &Memory, model: &mut Model, rng: &mut Rng, power_lost: bool) {
    for _ in 0..2 {
        if power_lost {
            memory.power_loss(&mut |below| rng.u64(..below));
        } else {
            memory.kill();
        }
        let (_disk, file) = reopen(memory);
        model.check(&file, power_lost);
    }
}

#[test]
fn a_crash_at_every_change_loses_nothing_durable() {
    let mut crashes = 0;
    for seed in 0..40 {
        let changes = |crash_at: Option<u64>| {
            let mut rng = Rng::with_seed(seed);
            let memory = Memory::new();
            let (disk, mut file) = new_disk(&memory);
            let before = memory.changes();
            if let Some(at) = crash_at {
                memory.set_fault(before + at, Fault::Crash);
            }
            let mut model = Model::default();
            let ran = run(&mut file, &disk, &mut model, &mut rng, 40);
            drop((file, disk));
            (ran, memory, model, before)
        };
        let (ran, memory, _, before) = changes(None);
        ran.unwrap();
        for at in 1..=memory.changes() - before {
            let (_, memory, mut model, _) = changes(Some(at));
            let mut rng = Rng::with_seed(seed ^ at << 32);
            restart(&memory, &mut model, &mut rng, at % 4 != 0);
            crashes += 1;
        }
    }
    assert!(crashes > 2_000, "only {crashes} crashes");
}

#[test]
fn many_lives_with_crashes_at_random_changes() {
    for seed in 1_000..1_250 {
        let mut rng = Rng::with_seed(seed);
        let memory = Memory::new();
        drop(new_disk(&memory));
        let mut model = Model::default();
        for _ in 0..8 {
            let power_lost = rng.bool();
            // Often in the middle of recovery, too.
            memory.set_fault(memory.changes() + rng.u64(1..120), Fault::Crash);
            if let Ok(disk) = Disk::open_on(Arc::new(memory.clone()), options())
                && let Ok(mut file) = disk.open_extents(ID)
            {
                let _ = run(&mut file, &disk, &mut model, &mut rng, 60);
            }
            restart(&memory, &mut model, &mut rng, power_lost);
        }
    }
}

#[test]
fn an_error_at_any_change_is_reported_and_nothing_is_lost() {
    for fault in [Fault::Error, Fault::Full] {
        for seed in 0..12 {
            for at in 1..130 {
                let mut rng = Rng::with_seed(seed);
                let memory = Memory::new();
                let (disk, mut file) = new_disk(&memory);
                memory.set_fault(memory.changes() + at, fault);
                let mut model = Model::default();
                let first = run(&mut file, &disk, &mut model, &mut rng, 40);
                if first.is_err() {
                    // What failed may or may not have happened; the rest is as acknowledged, also
                    // for who goes on reading.
                    for index in 0..INDICES {
                        let found = read(&file, index).unwrap();
                        let failed = model.under_way.as_ref().filter(|(at, _)| *at == index);
                        let possible = found == model.acknowledged(index)
                            || failed.is_some_and(|(_, content)| *content == found);
                        assert!(possible, "extent {index}");
                    }
                }
                drop((file, disk));
                restart(&memory, &mut model, &mut rng, false);
            }
        }
    }
}

#[test]
fn a_failed_sync_is_followed_by_no_success() {
    let mut failures = 0;
    for at in 1..40 {
        let memory = Memory::new();
        let (_disk, file) = new_disk(&memory);
        file.write(1, b"", b"before").unwrap();
        memory.set_fault(memory.changes() + at, Fault::Error);
        let mut failed = false;
        for round in 0..6u8 {
            let written = file.write(2, b"", &[round; 100]);
            let synced = file.sync();
            if failed {
                assert!(
                    matches!(written, Err(StoreError::Poisoned { .. })),
                    "{written:?}"
                );
                assert!(
                    matches!(synced, Err(StoreError::Poisoned { .. })),
                    "{synced:?}"
                );
            }
            failed |= synced.is_err();
        }
        failures += u32::from(failed);
        assert_eq!(read(&file, 1).unwrap(), Some((vec![], b"before".to_vec())));
    }
    assert!(failures > 5, "{failures}");
}
