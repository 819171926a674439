//! DescriptionStore change as a whole, whatever happens in between, and lie where no descriptor of the
//! bytes reaches them.

use std::os::unix::fs::MetadataExt as _;

use pario_store::medium::{Fault, Medium as _, MemoryMedium};
use pario_store::{Description, Disk, NewSubfile, Rights, StoreError, SubfileId};

use crate::memory_disk::{create_disk, inline_options, open_disk};

const ID: SubfileId = SubfileId::data(5, 1);
const DESCRIPTION: &str = "00000000000000000000000000000005-1-data.description";

fn rights(version: u32) -> Rights {
    Rights { uid: 1000 + version, gid: 100, mode: 0o600 | version, version }
}

fn new() -> NewSubfile {
    NewSubfile { path: "/a".into(), rights: Some(rights(0)), ..NewSubfile::new(ID) }
}

/// The versions that rights and synced set of a description have; they change together.
fn version_of(description: &Description) -> u32 {
    let version = description.rights.unwrap().version;
    assert_eq!(description.rights, Some(rights(version)));
    let expected = if version == 0 { None } else { Some(vec![u64::from(version)]) };
    assert_eq!(description.synced, expected, "not torn");
    version
}

fn change(disk: &Disk, version: u32) -> Result<Description, StoreError> {
    disk.update_description(ID, |description| {
        description.rights = Some(rights(version));
        description.synced = Some(vec![u64::from(version)]);
    })
}

#[test]
fn a_crash_at_every_change_leaves_the_old_description_or_the_new_one() {
    let mut found = [0; 2];
    // DescriptionStore of one sector, of two in one block, and of several blocks.
    for (is_flat, path_len) in [(true, 2), (false, 2), (true, 880), (false, 880), (true, 9000)] {
        let new = || NewSubfile { path: "p".repeat(path_len), ..new() };
        for at in 1.. {
            let mut is_over = false;
            for seed in 0..20 {
                let memory = MemoryMedium::new();
                let disk = create_disk(&memory);
                if is_flat {
                    disk.create_flat(new()).unwrap();
                } else {
                    disk.create_extents(new()).unwrap();
                }
                memory.set_fault(memory.changes() + at, Fault::Crash);
                let mut acknowledged = 0;
                while acknowledged < 4 && change(&disk, acknowledged + 1).is_ok() {
                    acknowledged += 1;
                }
                is_over = acknowledged == 4;
                drop(disk);
                let mut random = fastrand::Rng::with_seed(seed);
                memory.power_loss(&mut |n| random.u64(0..n));
                let disk = open_disk(&memory);
                let version = version_of(&disk.description(ID).unwrap());
                assert!(
                    version == acknowledged || version == acknowledged + 1,
                    "crash at {at}: {acknowledged} changes acknowledged, found {version}"
                );
                found[usize::from(version == acknowledged)] += 1;
                // And the next change counts.
                change(&disk, 9).unwrap();
                memory.power_loss(&mut |n| random.u64(0..n));
                assert_eq!(version_of(&open_disk(&memory).description(ID).unwrap()), 9);
            }
            if is_over {
                break;
            }
        }
    }
    assert!(found.iter().all(|&count| count > 5), "{found:?}");
}

/// The path after a rename.
fn path(version: u32, len: usize) -> String {
    format!("/{version}{}", "p".repeat(len - 2))
}

fn rename(disk: &Disk, version: u32, len: usize) -> Result<Description, StoreError> {
    disk.update_description(ID, |description| description.set_path(&path(version, len), version))
}

/// The slots of a description lie elsewhere when its path becomes long or short.
#[test]
fn a_crash_at_every_rename_leaves_the_old_path_or_the_new_one() {
    let mut found = [0; 2];
    let lens = [[2, 880, 3, 896], [2, 9000, 9000, 2], [9000, 2, 880, 4000], [2000, 4000, 2, 900]];
    for (is_flat, lens) in lens.into_iter().flat_map(|lens| [(true, lens), (false, lens)]) {
        for at in 1.. {
            let mut is_over = false;
            for seed in 0..20 {
                let memory = MemoryMedium::new();
                let disk = create_disk(&memory);
                let new = NewSubfile { path: path(0, lens[0]), ..new() };
                if is_flat {
                    disk.create_flat(new).unwrap();
                } else {
                    disk.create_extents(new).unwrap();
                }
                memory.set_fault(memory.changes() + at, Fault::Crash);
                let len = |version: u32| lens[version as usize];
                let mut acknowledged = 0;
                while acknowledged < 3
                    && rename(&disk, acknowledged + 1, len(acknowledged + 1)).is_ok()
                {
                    acknowledged += 1;
                }
                is_over = acknowledged == 3;
                drop(disk);
                let mut random = fastrand::Rng::with_seed(seed);
                match seed % 5 {
                    0 => memory.kill(),
                    _ => memory.power_loss(&mut |n| random.u64(0..n)),
                }
                let disk = open_disk(&memory);
                let names = memory.list("").unwrap();
                assert!(!names.iter().any(|name| name.name.starts_with("new-")), "{names:?}");
                let description = disk.description(ID).unwrap();
                let version = description.path_version;
                assert_eq!(description.path, path(version, len(version)), "not torn");
                assert_eq!(description.rights, Some(rights(0)));
                assert!(
                    version == acknowledged || version == acknowledged + 1,
                    "crash at {at}: {acknowledged} renames acknowledged, found {version}"
                );
                found[usize::from(version == acknowledged)] += 1;
                // The next rename counts, and an older one does not.
                rename(&disk, 9, 2000).unwrap();
                rename(&disk, 8, 3).unwrap();
                memory.power_loss(&mut |n| random.u64(0..n));
                assert_eq!(open_disk(&memory).description(ID).unwrap().path, path(9, 2000));
            }
            if is_over {
                break;
            }
        }
    }
    assert!(found.iter().all(|&count| count > 5), "{found:?}");
}

/// A change that a killed process has written is durable when the next process acknowledges it.
#[test]
fn a_change_that_a_kill_has_cut_short_is_durable_when_it_is_repeated() {
    for (is_flat, len) in [(true, 2), (true, 2000), (false, 2), (false, 2000)] {
        for at in 1..=6 {
            let memory = MemoryMedium::new();
            let disk = create_disk(&memory);
            match is_flat {
                true => disk.create_flat(new()).map(|_| ()).unwrap(),
                false => disk.create_extents(new()).map(|_| ()).unwrap(),
            }
            memory.set_fault(memory.changes() + at, Fault::Crash);
            let _ = rename(&disk, 1, len);
            drop(disk);
            memory.kill();
            rename(&open_disk(&memory), 1, len).unwrap();
            memory.power_loss(&mut |_| 0);
            assert_eq!(open_disk(&memory).description(ID).unwrap().path, path(1, len), "at {at}");
        }
    }
}

/// A rename that fails leaves the description of before, and nothing in the way of the next one.
#[test]
fn a_rename_that_fails_can_be_repeated() {
    for at in 1..=5 {
        for fault in [Fault::Error, Fault::Full] {
            let memory = MemoryMedium::new();
            let disk = create_disk(&memory);
            disk.create_flat(new()).unwrap();
            memory.set_fault(memory.changes() + at, fault);
            rename(&disk, 1, 2000).unwrap_err();
            rename(&disk, 2, 3000).unwrap();
            memory.power_loss(&mut |_| 0);
            assert_eq!(open_disk(&memory).description(ID).unwrap().path, path(2, 3000), "at {at}");
        }
    }
}

#[test]
fn a_change_that_changes_nothing_is_not_written() {
    let memory = MemoryMedium::new();
    let disk = create_disk(&memory);
    disk.create_flat(new()).unwrap();
    change(&disk, 3).unwrap();
    let before = (memory.changes(), memory.bytes(DESCRIPTION).unwrap());
    change(&disk, 3).unwrap();
    assert_eq!(memory.changes(), before.0 + 1, "a sync");
    assert_eq!(memory.bytes(DESCRIPTION).unwrap(), before.1);
    assert!(matches!(
        disk.update_description(SubfileId::data(9, 9), |_| {}),
        Err(StoreError::NotFound { .. })
    ));
}

#[test]
fn a_small_subfile_takes_eight_kilobytes_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::create(dir.path(), inline_options()).unwrap();
    let flat = disk.create_flat(NewSubfile { is_durable: false, ..new() }).unwrap();
    flat.write_at(&[1; 4096], 0).unwrap();
    flat.sync().unwrap();
    let names = || {
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
        names.filter(|entry| entry.file_name() != "pario.disk").collect::<Vec<_>>()
    };
    let blocks: u64 = names().iter().map(|entry| entry.metadata().unwrap().blocks()).sum();
    assert_eq!(names().len(), 2);
    assert!(blocks * 512 <= 8192, "{} bytes", blocks * 512);
    disk.remove(ID).unwrap();
    assert!(names().is_empty());
}

/// The store ignores the bytes that a descriptor can overwrite in front of the data.
#[test]
fn a_descriptor_does_not_reach_the_description() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::create(dir.path(), inline_options()).unwrap();
    let flat = disk.create_flat(new()).unwrap();
    flat.write_at(b"bytes", 0).unwrap();
    let known = disk.description(ID).unwrap();
    let descriptor = flat.share(true, true).unwrap().unwrap();
    // A whole description of another file, as a forger would write it.
    let other = Disk::create(dir.path().join("other"), inline_options()).unwrap();
    other.create_flat(NewSubfile { path: "/forged".into(), ..new() }).unwrap();
    let forged = format!("other/{:032x}-1-data.description", 5);
    let mut block = std::fs::read(dir.path().join(forged)).unwrap();
    block.resize(64 << 10, 0xee);
    rustix::io::pwrite(&descriptor, &block, 0).unwrap();
    drop((flat, disk));
    let disk = Disk::open(dir.path(), inline_options()).unwrap();
    assert_eq!(disk.description(ID).unwrap(), known);
    let mut bytes = [0; 5];
    disk.open_flat(ID).unwrap().read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"bytes");
}

/// A failed sync is known while the disk is open and after a restart, until a repair.
#[test]
fn a_failed_sync_is_remembered_until_it_is_repaired() {
    for is_markable in [true, false] {
        let memory = MemoryMedium::new();
        let disk = create_disk(&memory);
        let flat = disk.create_flat(new()).unwrap();
        flat.write_at(b"synced", 0).unwrap();
        flat.sync().unwrap();
        flat.write_at(b"failed", 0).unwrap();
        memory.set_fault(memory.changes() + 1, Fault::Error);
        if !is_markable {
            // Nothing can be written to the description either.
            memory.set_bytes(DESCRIPTION, vec![0; 10]).unwrap();
        }
        let error = flat.sync().unwrap_err().to_string();
        assert_eq!(error.contains("nor note the failure"), !is_markable, "{error}");
        drop(flat);
        if is_markable {
            let again = disk.open_flat(ID).unwrap();
            let poisoned = |result: Result<(), StoreError>| {
                let error = result.unwrap_err();
                assert!(matches!(error, StoreError::Poisoned { .. }), "{error}");
                assert!(error.to_string().contains("fsck --repair"), "{error}");
            };
            poisoned(again.write_at(b"x", 0));
            poisoned(again.sync());
            poisoned(again.set_len(0));
            poisoned(again.share(true, true).map(|_| ()));
            assert_eq!(again.read_at(&mut [0; 6], 0).unwrap(), 6, "reading goes on");
            drop((again, disk));
            memory.power_loss(&mut |_| 0);
            let disk = open_disk(&memory);
            assert!(disk.is_poisoned(ID).unwrap());
            let again = disk.open_flat(ID).unwrap();
            poisoned(again.write_at(b"x", 0));
            assert_eq!(disk.repair_flat(ID).unwrap(), 6);
            assert!(!disk.is_poisoned(ID).unwrap());
            again.write_at(b"fresh!", 0).unwrap();
            again.sync().unwrap();
            drop((again, disk));
            memory.power_loss(&mut |_| 0);
            open_disk(&memory).open_flat(ID).unwrap().write_at(b"x", 0).unwrap();
        } else {
            assert!(disk.is_poisoned(ID).unwrap(), "in memory");
        }
    }
}

/// A repair whose sync fails clears nothing.
#[test]
fn a_repair_that_fails_leaves_the_mark() {
    let memory = MemoryMedium::new();
    let disk = create_disk(&memory);
    let flat = disk.create_flat(new()).unwrap();
    flat.write_at(b"bytes", 0).unwrap();
    memory.set_fault(memory.changes() + 1, Fault::Error);
    flat.sync().unwrap_err();
    memory.set_fault(memory.changes() + 1, Fault::Error);
    disk.repair_flat(ID).unwrap_err();
    assert!(disk.is_poisoned(ID).unwrap());
    assert!(matches!(flat.sync(), Err(StoreError::Poisoned { .. })));
    disk.repair_flat(ID).unwrap();
    flat.sync().unwrap();
}

/// A power loss or a kill at every write and sync of a subfile's life: bytes that
/// were acknowledged as synced are kept with their description, whatever else is lost.
#[test]
fn a_crash_at_every_step_of_a_flat_subfile_keeps_what_was_promised() {
    /// The progress of a subfile.
    #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
    enum Step {
        Nothing,
        Written,
        Synced,
        Described,
        SyncedAgain,
        Removed,
    }

    fn live(disk: &Disk, is_durable: bool, step: &mut Step) -> Result<(), StoreError> {
        let flat = disk.create_flat(NewSubfile { is_durable, ..new() })?;
        flat.write_at(b"first", 0)?;
        *step = Step::Written;
        flat.sync()?;
        *step = Step::Synced;
        change(disk, 1)?;
        *step = Step::Described;
        flat.write_at(b"later", 0)?;
        flat.sync()?;
        *step = Step::SyncedAgain;
        disk.remove(ID)?;
        *step = Step::Removed;
        Ok(())
    }

    let mut crashes = 0;
    for is_durable in [true, false] {
        for at in 1.. {
            let mut step = Step::Nothing;
            for seed in 0..30 {
                let memory = MemoryMedium::new();
                let disk = create_disk(&memory);
                memory.set_fault(memory.changes() + at, Fault::Crash);
                step = Step::Nothing;
                let _ = live(&disk, is_durable, &mut step);
                drop(disk);
                let mut random = fastrand::Rng::with_seed(seed);
                let is_killed = seed % 5 == 0;
                match is_killed {
                    true => memory.kill(),
                    false => memory.power_loss(&mut |n| random.u64(0..n)),
                }
                crashes += 1;
                let disk = open_disk(&memory);
                let names = memory.list("").unwrap();
                let is_lonely = names.iter().any(|name| name.name.ends_with(".description"))
                    && !names.iter().any(|name| name.name.ends_with(".flat"));
                assert!(!is_lonely, "a description without its subfile is swept away");
                let flat = match disk.open_flat(ID) {
                    Ok(flat) => flat,
                    Err(StoreError::NotFound { .. }) => {
                        let is_going = step >= Step::SyncedAgain;
                        let was_promised = step >= Step::Synced
                            || step == Step::Written && (is_durable || is_killed);
                        assert!(is_going || !was_promised, "{step:?} at {at}, seed {seed}");
                        continue;
                    }
                    Err(error) => {
                        assert!(step < Step::Synced && !is_durable, "{step:?} at {at}: {error}");
                        disk.remove(ID).unwrap();
                        disk.create_flat(new()).unwrap();
                        continue;
                    }
                };
                assert_ne!(step, Step::Removed, "at {at}, seed {seed}");
                let description = disk.description(ID).unwrap();
                assert_eq!(description.path, "/a");
                let version = version_of(&description);
                assert!(version == 1 || step < Step::Described, "{step:?} at {at}, seed {seed}");
                let mut bytes = [0; 5];
                flat.read_at(&mut bytes, 0).unwrap();
                match step {
                    Step::SyncedAgain => assert_eq!(&bytes, b"later"),
                    Step::Synced => assert_eq!(&bytes, b"first"),
                    _ => {}
                }
            }
            if step == Step::Removed {
                break;
            }
        }
    }
    assert!(crashes > 600, "{crashes}");
}
