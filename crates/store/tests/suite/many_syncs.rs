//! Syncs and removals of many flat subfiles keep the guarantees of single calls: after crashes, after
//! failures, and against a disk on which each subfile is synced separately.

use pario_store::medium::{DirectoryMedium, Fault, Medium as _, MemoryMedium};
use pario_store::{Disk, FlatFile, NewSubfile, StoreError, SubfileId};
use proptest::prelude::*;

use crate::memory_disk::{bytes_of, create_disk, inline_options, open_disk};

/// More subfiles than `sync_flats` syncs separately.
const MANY: u128 = 12;

fn id(file: u128) -> SubfileId {
    SubfileId::data(file, 0)
}

fn create(disk: &Disk, file: u128) -> Result<FlatFile, StoreError> {
    disk.create_flat(NewSubfile { is_durable: false, ..NewSubfile::new(id(file)) })
}

fn content(file: u128, round: u8) -> Vec<u8> {
    let file = u8::try_from(file).unwrap();
    (0..600).map(|at: u32| (at % 251) as u8 ^ file ^ round).collect()
}

#[test]
fn a_hundred_subfiles_cost_one_sync() {
    let memory = MemoryMedium::new();
    let disk = create_disk(&memory);
    let subfiles: Vec<_> = (0..100).map(|file| create(&disk, file).unwrap()).collect();
    let before = memory.changes();
    assert!(disk.sync_flats(&subfiles).iter().all(Result::is_ok));
    assert_eq!(memory.changes() - before, 1);
    assert!(disk.sync_flats(&[]).is_empty());
    assert_eq!(memory.changes() - before, 1, "nothing to sync is no sync");
}

/// Two rounds of writes and syncs, with a crash at each change: what a sync has acknowledged is
/// there, whole, and described.
#[test]
fn a_crash_at_every_change_keeps_what_was_acknowledged() {
    let (mut before_sync, mut after_sync) = (0, 0);
    for at in 1.. {
        let mut is_over = false;
        for seed in 0..6 {
            let memory = MemoryMedium::new();
            let disk = create_disk(&memory);
            memory.set_fault(memory.changes() + at, Fault::Crash);
            let mut acknowledged = None;
            let live = |acknowledged: &mut Option<u8>| -> Result<(), StoreError> {
                let subfiles: Vec<_> =
                    (0..MANY).map(|file| create(&disk, file)).collect::<Result<_, _>>()?;
                for round in 1..=2 {
                    for (file, flat) in (0..).zip(&subfiles) {
                        flat.write_at(&content(file, round), 0)?;
                    }
                    disk.sync_flats(&subfiles).into_iter().collect::<Result<(), _>>()?;
                    *acknowledged = Some(round);
                }
                Ok(())
            };
            is_over = live(&mut acknowledged).is_ok();
            drop(disk);
            let mut random = fastrand::Rng::with_seed(seed);
            memory.power_loss(&mut |n| random.u64(0..n));
            let disk = open_disk(&memory);
            match acknowledged {
                None => before_sync += 1,
                Some(round) => {
                    after_sync += 1;
                    for file in 0..MANY {
                        let flat = disk.open_flat(id(file)).unwrap();
                        let (found, next) = (bytes_of(&flat), content(file, round + 1));
                        // Sectors of the next round may be there in part, never anything else.
                        let is_kept = |(at, byte): (usize, &u8)| {
                            *byte == content(file, round)[at] || *byte == next[at]
                        };
                        assert!(found.len() == 600 && found.iter().enumerate().all(is_kept));
                        if round == 2 {
                            assert_eq!(found, content(file, 2), "crash at {at}");
                        }
                    }
                }
            }
        }
        if is_over {
            break;
        }
    }
    assert!(before_sync > 50 && after_sync > 50, "{before_sync} {after_sync}");
}

#[test]
fn a_failed_sync_poisons_all_of_the_call_and_no_others() {
    for fault in [Fault::Error, Fault::Full] {
        let memory = MemoryMedium::new();
        let disk = create_disk(&memory);
        let subfiles: Vec<_> = (0..MANY).map(|file| create(&disk, file).unwrap()).collect();
        let other = create(&disk, 99).unwrap();
        for flat in subfiles.iter().chain([&other]) {
            flat.write_at(b"bytes", 0).unwrap();
        }
        other.sync().unwrap();
        memory.set_fault(memory.changes() + 1, fault);
        let synced = disk.sync_flats(&subfiles);
        assert!(synced.iter().all(Result::is_err), "{synced:?}");
        let refuses = |flat: &FlatFile| {
            let is_poisoned =
                |done: Result<(), StoreError>| matches!(done, Err(StoreError::Poisoned { .. }));
            is_poisoned(flat.write_at(b"more", 0)) && is_poisoned(flat.sync())
        };
        assert!(subfiles.iter().all(refuses));
        // The next sync of the disk succeeds, and does not acknowledge what the failed one dropped.
        let again = disk.sync_flats(&subfiles);
        assert!(again.iter().all(|done| matches!(done, Err(StoreError::Poisoned { .. }))));
        other.write_at(b"more", 0).unwrap();
        other.sync().unwrap();
        drop((subfiles, other, disk));
        let disk = open_disk(&memory);
        assert!((0..MANY).all(|file| refuses(&disk.open_flat(id(file)).unwrap())), "{fault:?}");
        disk.open_flat(id(99)).unwrap().write_at(b"still", 0).unwrap();
        disk.repair_flat(id(3)).unwrap();
        disk.open_flat(id(3)).unwrap().write_at(b"again", 0).unwrap();
    }
}

#[test]
fn one_that_was_poisoned_before_fails_alone() {
    let memory = MemoryMedium::new();
    let disk = create_disk(&memory);
    let mut subfiles: Vec<_> = (0..MANY).map(|file| create(&disk, file).unwrap()).collect();
    memory.set_fault(memory.changes() + 1, Fault::Error);
    subfiles[4].sync().unwrap_err();
    subfiles.push(subfiles[4].clone());
    subfiles.push(subfiles[5].clone());
    for (at, synced) in disk.sync_flats(&subfiles).into_iter().enumerate() {
        let is_bad = at == 4 || at == MANY as usize;
        assert_eq!(synced.is_err(), is_bad, "{at}: {synced:?}");
    }
}

#[test]
fn where_the_medium_cannot_sync_as_a_whole_each_is_synced() {
    // A file system in memory: `syncfs` would say nothing about failures.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let medium = DirectoryMedium::new(dir.path()).unwrap();
    assert_eq!(medium.sync_all().unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    let disk = Disk::create(dir.path().join("disk"), inline_options()).unwrap();
    let subfiles: Vec<_> = (0..MANY).map(|file| create(&disk, file).unwrap()).collect();
    assert!(disk.sync_flats(&subfiles).iter().all(Result::is_ok));
}

#[test]
fn two_calls_with_the_same_subfiles_do_not_wait_for_each_other_for_ever() {
    let memory = MemoryMedium::new();
    let disk = create_disk(&memory);
    let subfiles: Vec<_> = (0..MANY).map(|file| create(&disk, file).unwrap()).collect();
    let reversed: Vec<_> = subfiles.iter().rev().cloned().collect();
    std::thread::scope(|scope| {
        for subfiles in [&subfiles, &reversed] {
            let disk = &disk;
            scope.spawn(move || {
                for _ in 0..200 {
                    assert!(disk.sync_flats(subfiles).iter().all(Result::is_ok));
                }
            });
        }
    });
}

#[test]
fn many_are_removed_with_one_sync_of_names() {
    let memory = MemoryMedium::new();
    let disk = create_disk(&memory);
    let ids: Vec<_> = (0..MANY).map(id).collect();
    for file in 0..MANY {
        create(&disk, file).unwrap().sync().unwrap();
    }
    disk.create_extents(NewSubfile::new(id(50))).unwrap();
    let before = memory.changes();
    disk.remove_many(&ids).unwrap();
    assert_eq!(u128::from(memory.changes() - before), 2 * MANY + 1);
    disk.remove_many(&ids).unwrap();
    assert_eq!(
        u128::from(memory.changes() - before),
        2 * MANY + 1,
        "what is not there is left out"
    );
    disk.remove_many(&[id(50), id(51)]).unwrap();
    drop(disk);
    memory.power_loss(&mut |_| 0);
    assert!(open_disk(&memory).subfiles().unwrap().is_empty());
}

/// A step of a random run.
#[derive(Clone, Debug)]
enum Step {
    Write(u128, u8),
    Sync(Vec<u128>),
    /// A single sync that fails.
    Fail(u128),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..MANY, any::<u8>()).prop_map(|(file, round)| Step::Write(file, round)),
        2 => prop::collection::vec(0..MANY, 0..20).prop_map(Step::Sync),
        1 => (0..MANY).prop_map(Step::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The results of a call for many are those of single calls, and what single calls make durable
    /// is durable after a call for many as well.
    #[test]
    fn many_at_once_keep_at_least_what_single_calls_keep(
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let (single, many) = (MemoryMedium::new(), MemoryMedium::new());
        let disks = [create_disk(&single), create_disk(&many)];
        let files = disks.each_ref().map(|disk| {
            (0..MANY).map(|file| create(disk, file).unwrap()).collect::<Vec<_>>()
        });
        // What each file had when it was last synced, and since; nothing if that is unknown.
        let mut versions: Vec<Vec<Vec<u8>>> = vec![Vec::new(); MANY as usize];
        for step in steps {
            match step {
                Step::Write(file, round) => {
                    let bytes = content(file, round);
                    let done = files.each_ref().map(|f| f[file as usize].write_at(&bytes, 0).is_ok());
                    prop_assert_eq!(done[0], done[1]);
                    if !versions[file as usize].is_empty() {
                        versions[file as usize].push(bytes);
                    }
                }
                Step::Sync(wanted) => {
                    let one = wanted.iter().map(|file| files[0][*file as usize].sync().is_ok());
                    let one: Vec<bool> = one.collect();
                    let all: Vec<_> =
                        wanted.iter().map(|file| files[1][*file as usize].clone()).collect();
                    let all = disks[1].sync_flats(&all);
                    prop_assert_eq!(&one, &all.iter().map(Result::is_ok).collect::<Vec<_>>());
                    for (file, is_synced) in wanted.into_iter().zip(one) {
                        if is_synced {
                            versions[file as usize] = vec![bytes_of(&files[0][file as usize])];
                        }
                    }
                }
                Step::Fail(file) => {
                    for (memory, files) in [(&single, &files[0]), (&many, &files[1])] {
                        if files[file as usize].write_at(b"", 0).is_ok() {
                            memory.set_fault(memory.changes() + 1, Fault::Error);
                            files[file as usize].sync().unwrap_err();
                            versions[file as usize].clear();
                        }
                    }
                }
            }
        }
        drop((disks, files));
        for (memory, is_single) in [(&single, true), (&many, false)] {
            // Nothing survives that was not synced.
            memory.power_loss(&mut |_| 0);
            let disk = open_disk(memory);
            for (file, versions) in (0..).zip(&versions) {
                let Some(synced) = versions.first() else { continue };
                let found = bytes_of(&disk.open_flat(id(file)).unwrap());
                // A sync of the whole disk may have kept later writes as well.
                let is_kept = if is_single { found == *synced } else { versions.contains(&found) };
                prop_assert!(is_kept, "file {}", file);
            }
        }
    }
}
