//! Crashes at every change of runs of random operations.
//!
//! The model records the history of each extent. After a power loss the extent must be, whole, the
//! version that the last acknowledged sync made durable, or a later one. After the death of the
//! process it must be the last acknowledged version. Changes in flight may or may not have taken
//! effect.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fastrand::Rng;
use pario_store::medium::{Fault, MemoryMedium};
use pario_store::{
    Caching, CheckDepth, Completion, Disk, DiskOptions, EngineChoice, ExtentCache, ExtentFile,
    NewSubfile, Queue, QueueOptions, Reply, Request, StoreError, SubfileId,
};

const ID: SubfileId = SubfileId::data(0xc0ffee, 1);
const INDICES: u64 = 12;

type Content = Option<(Vec<u8>, Vec<u8>)>;

/// The seeds of a test; `PARIO_SEEDS` is a factor for long runs.
fn seeds(start: u64, count: u64) -> std::ops::Range<u64> {
    let factor = std::env::var("PARIO_SEEDS").ok().and_then(|text| text.parse().ok());
    start..start + count * factor.unwrap_or(1)
}

/// Small limits, so that a short run includes every kind of maintenance.
fn options() -> DiskOptions {
    DiskOptions {
        background: false,
        cache: ExtentCache::new(0),
        journal_bytes: 1 << 10,
        unsynced_bytes: 64 << 10,
        compact_floor_bytes: 16 << 10,
        ..DiskOptions::default()
    }
}

/// The history of each extent, and its first version that may be found after a power loss.
#[derive(Clone, Default)]
struct Model {
    history: BTreeMap<u64, Vec<Content>>,
    durable_from: BTreeMap<u64, usize>,
    /// Changes that are in flight or have failed: they may have taken effect.
    in_flight: Vec<(u64, Content)>,
}

/// The last version of each extent when a sync was submitted.
type SyncMark = BTreeMap<u64, usize>;

impl Model {
    fn history(&mut self, index: u64) -> &mut Vec<Content> {
        self.history.entry(index).or_insert_with(|| vec![None])
    }

    fn acknowledged(&mut self, index: u64) -> Content {
        self.history(index).last().cloned().flatten()
    }

    fn began(&mut self, index: u64, content: Content) {
        self.in_flight.push((index, content));
    }

    fn succeeded(&mut self, index: u64, content: Content) {
        let at = self.in_flight.iter().position(|known| *known == (index, content.clone()));
        self.in_flight.remove(at.unwrap());
        self.history(index).push(content);
    }

    fn attempt<T>(
        &mut self,
        index: u64,
        content: Content,
        call: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.began(index, content.clone());
        let answer = call()?;
        self.succeeded(index, content);
        Ok(answer)
    }

    fn mark(&self) -> SyncMark {
        self.history.iter().map(|(&index, history)| (index, history.len() - 1)).collect()
    }

    fn synced(&mut self, mark: SyncMark) {
        self.durable_from.extend(mark);
    }

    fn possible(&mut self, index: u64, power_lost: bool) -> Vec<Content> {
        let from = if power_lost {
            self.durable_from.get(&index).copied().unwrap_or(0)
        } else {
            self.history(index).len() - 1
        };
        let mut possible = self.history(index)[from..].to_vec();
        possible
            .extend(self.in_flight.iter().filter(|known| known.0 == index).map(|k| k.1.clone()));
        possible
    }

    /// Checks the extents after a restart, and continues with the versions found.
    fn check(&mut self, file: &ExtentFile, power_lost: bool) {
        for index in 0..INDICES {
            let found = read(file, index).unwrap_or_else(|error| panic!("{error}"));
            let possible = self.possible(index, power_lost);
            let short = |content: &Content| content.as_ref().map(|(h, b)| (h.clone(), b.len()));
            assert!(
                possible.contains(&found),
                "extent {index}: found {:?}, possible {:?}",
                short(&found),
                possible.iter().map(short).collect::<Vec<_>>()
            );
            // A version that recovery has shown is durable from then on.
            *self.history(index) = vec![found];
        }
        self.in_flight.clear();
        self.synced(self.mark());
        let problems = file.check(CheckDepth::Content).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

fn read(file: &ExtentFile, index: u64) -> Result<Content, StoreError> {
    Ok(file.read(index)?.map(|extent| (extent.header().to_vec(), extent.body().to_vec())))
}

fn random_content(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let header: Vec<u8> = (0..rng.usize(..20)).map(|_| rng.u8(..)).collect();
    let len = *rng.choice(&[0, 1, 500, 3_900, 4_096, 9_000, 20_000]).unwrap();
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
                model.synced(model.mark());
            }
            95..98 => {
                file.clone().close()?;
                model.synced(model.mark());
                *file = disk.open_extents(ID)?;
            }
            _ => {
                file.compact()?;
                model.synced(model.mark());
            }
        }
    }
    Ok(())
}

/// The same with many requests in flight, completed in an order drawn from a seed.
fn run_queued(
    file: &ExtentFile,
    model: &mut Model,
    rng: &mut Rng,
    steps: usize,
) -> Result<(), StoreError> {
    let engine = EngineChoice::Seeded(rng.u64(..));
    let mut queue = Queue::new(QueueOptions { depth_per_disk: 5, engine }).unwrap();
    let mut changes: HashMap<u64, (u64, Content)> = HashMap::new();
    let mut syncs: HashMap<u64, SyncMark> = HashMap::new();
    let (mut tag, mut failed) = (0, None);
    while failed.is_none() && (tag < steps as u64 || !queue.is_empty()) {
        if tag < steps as u64 && rng.u8(..100) < 60 {
            tag += 1;
            let (index, file) = (rng.u64(..INDICES), file.clone());
            match rng.u8(..100) {
                0..70 => {
                    let (header, body) = random_content(rng);
                    let mut extent = file.buffer(header.len(), body.len())?;
                    extent.header_mut().copy_from_slice(&header);
                    extent.body_mut().copy_from_slice(&body);
                    model.began(index, Some((header.clone(), body.clone())));
                    changes.insert(tag, (index, Some((header, body))));
                    let caching = Caching::Use;
                    queue.submit(tag, Request::WriteExtent { file, index, extent, caching });
                }
                70..85 => {
                    model.began(index, None);
                    changes.insert(tag, (index, None));
                    queue.submit(tag, Request::DeleteExtent { file, index });
                }
                _ => {
                    syncs.insert(tag, model.mark());
                    queue.submit(tag, Request::SyncExtents { file });
                }
            }
        } else if let Some(Completion { tag, result, .. }) = queue.wait() {
            match result {
                Ok(Reply::Synced) => model.synced(syncs.remove(&tag).unwrap()),
                Ok(_) => {
                    let (index, content) = changes.remove(&tag).unwrap();
                    model.succeeded(index, content);
                }
                Err(error) => failed = Some(error),
            }
        }
    }
    // Other requests may have succeeded without a completion: they count as in flight.
    failed.map_or(Ok(()), Err)
}

fn new_disk(memory: &MemoryMedium) -> (Disk, ExtentFile) {
    let disk = Disk::create_on(Arc::new(memory.clone()), options()).unwrap();
    let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
    (disk, file)
}

fn reopen(memory: &MemoryMedium) -> (Disk, ExtentFile) {
    let disk = Disk::open_on(Arc::new(memory.clone()), options()).unwrap();
    let file = disk.open_extents(ID).unwrap_or_else(|error| panic!("{error}"));
    (disk, file)
}

/// Restarts after a crash and checks the extents, twice: the recovered state must last.
fn restart(memory: &MemoryMedium, model: &mut Model, rng: &mut Rng, power_lost: bool) {
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
    for seed in seeds(0, 40) {
        let changes = |crash_at: Option<u64>| {
            let mut rng = Rng::with_seed(seed);
            let memory = MemoryMedium::new();
            let (disk, mut file) = new_disk(&memory);
            let before = memory.changes();
            if let Some(at) = crash_at {
                memory.set_fault(before + at, Fault::Crash);
            }
            let mut model = Model::default();
            let ran = if seed % 2 == 0 {
                run(&mut file, &disk, &mut model, &mut rng, 40)
            } else {
                run_queued(&file, &mut model, &mut rng, 40)
            };
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
fn many_restarts_with_crashes_at_random_changes() {
    for seed in seeds(1_000, 250) {
        let mut rng = Rng::with_seed(seed);
        let memory = MemoryMedium::new();
        drop(new_disk(&memory));
        let mut model = Model::default();
        for _ in 0..8 {
            let power_lost = rng.bool();
            // Often in the middle of recovery, too.
            memory.set_fault(memory.changes() + rng.u64(1..120), Fault::Crash);
            if let Ok(disk) = Disk::open_on(Arc::new(memory.clone()), options())
                && let Ok(mut file) = disk.open_extents(ID)
            {
                let _ = if rng.bool() {
                    run(&mut file, &disk, &mut model, &mut rng, 60)
                } else {
                    run_queued(&file, &mut model, &mut rng, 80)
                };
            }
            restart(&memory, &mut model, &mut rng, power_lost);
        }
    }
}

#[test]
fn an_error_at_any_change_is_reported_and_nothing_is_lost() {
    for fault in [Fault::Error, Fault::Full] {
        for seed in seeds(0, 12) {
            for at in 1..130 {
                let mut rng = Rng::with_seed(seed);
                let memory = MemoryMedium::new();
                let (disk, mut file) = new_disk(&memory);
                memory.set_fault(memory.changes() + at, fault);
                let mut model = Model::default();
                let first = run(&mut file, &disk, &mut model, &mut rng, 40);
                if first.is_err() {
                    // The failed change may have taken effect; all others are as acknowledged, also
                    // for readers of the open file.
                    for index in 0..INDICES {
                        let found = read(&file, index).unwrap();
                        assert!(model.possible(index, false).contains(&found), "extent {index}");
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
        let memory = MemoryMedium::new();
        let (_disk, file) = new_disk(&memory);
        file.write(1, b"", b"before").unwrap();
        memory.set_fault(memory.changes() + at, Fault::Error);
        let mut failed = false;
        for round in 0..6u8 {
            let written = file.write(2, b"", &[round; 100]);
            let synced = file.sync();
            if failed {
                assert!(matches!(written, Err(StoreError::Poisoned { .. })), "{written:?}");
                assert!(matches!(synced, Err(StoreError::Poisoned { .. })), "{synced:?}");
            }
            failed |= synced.is_err();
        }
        failures += u32::from(failed);
        assert_eq!(read(&file, 1).unwrap(), Some((vec![], b"before".to_vec())));
    }
    assert!(failures > 5, "{failures}");
}
