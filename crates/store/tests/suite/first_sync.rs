//! Flat subfiles that are created without a sync. From their first sync on they survive a power loss.
//! Before it they may vanish, and a torn one is never mistaken for a whole one.

use std::io::Write as _;
use std::os::fd::AsFd;

use pario_store::medium::MemoryMedium;
use pario_store::{Disk, FlatFile, NewSubfile, StoreError, SubfileId};

use crate::memory_disk::{create_disk, inline_options, open_disk};

const ID: SubfileId = SubfileId::data(5, 1);

fn unsynced() -> NewSubfile {
    NewSubfile { is_durable: false, path: "/a".to_owned(), ..NewSubfile::new(ID) }
}

#[test]
fn after_its_first_sync_it_survives_a_power_loss() {
    for seed in 0..200 {
        let memory = MemoryMedium::new();
        let disk = create_disk(&memory);
        let flat = disk.create_flat(unsynced()).unwrap();
        flat.write_at(b"promised", 0).unwrap();
        flat.sync().unwrap();
        drop((flat, disk));
        let mut random = fastrand::Rng::with_seed(seed);
        memory.power_loss(&mut |n| random.u64(0..n));
        let disk = open_disk(&memory);
        let mut bytes = [0; 8];
        assert_eq!(disk.open_flat(ID).unwrap().read_at(&mut bytes, 0).unwrap(), 8, "seed {seed}");
        assert_eq!(&bytes, b"promised");
    }
}

#[test]
fn before_its_first_sync_a_power_loss_leaves_nothing_or_something_that_is_known_to_be_bad() {
    let (mut gone, mut bad) = (0, 0);
    for seed in 0..500 {
        let memory = MemoryMedium::new();
        let disk = create_disk(&memory);
        disk.create_flat(unsynced()).unwrap();
        drop(disk);
        let mut random = fastrand::Rng::with_seed(seed);
        memory.power_loss(&mut |n| random.u64(0..n));
        let disk = open_disk(&memory);
        match disk.open_flat(ID) {
            Ok(_) => {}
            Err(StoreError::NotFound { .. }) => gone += 1,
            Err(_) => {
                bad += 1;
                disk.remove(ID).unwrap();
                disk.create_flat(unsynced()).unwrap();
            }
        }
    }
    assert!(gone > 0 && bad > 0, "{gone} gone, {bad} bad");
}

#[test]
fn a_shared_descriptor_reads_and_writes_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::create(dir.path(), inline_options()).unwrap();
    let flat = disk.create_flat(unsynced()).unwrap();
    let before = flat.modified_ns().unwrap();
    assert!(before > 0);
    let shared = flat.share(true, true).unwrap().expect("there is a file");
    rustix::io::pwrite(shared.as_fd(), b"from outside", FlatFile::DATA_START_BYTES + 3).unwrap();
    assert_eq!(flat.len().unwrap(), 15);
    let mut bytes = [0; 12];
    assert_eq!(flat.read_at(&mut bytes, 3).unwrap(), 12);
    assert_eq!(&bytes, b"from outside");

    let only_read = flat.share(true, false).unwrap().expect("there is a file");
    let mut file = std::fs::File::from(only_read);
    assert!(file.write_all(b"no").is_err());
    disk.remove(ID).unwrap();
    assert!(flat.share(true, false).unwrap().is_some(), "an open handle still shares descriptors");
}
