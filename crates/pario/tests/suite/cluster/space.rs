//! A full disk: requests that need it fail and name it; all others succeed.

use pario::{Cluster, File};

use super::lab::{Lab, mount_privately, until};
use super::names::LOOK;

const PIECE_BYTES: usize = 256 << 10;
const FULL: &str = "beta/disk0";

fn create_on(cluster: &Cluster, disk: &str, path: &str) -> Result<File, pario::Error> {
    cluster.options().read(true).write(true).create_new(true).disks([disk]).open(path)
}

fn piece(number: u64) -> Vec<u8> {
    super::lab::pattern(9, number * PIECE_BYTES as u64, PIECE_BYTES)
}

#[test]
fn a_full_disk_fails_what_needs_it_and_keeps_what_was_acknowledged() {
    let Some(mut lab) = Lab::start_with_small_disk(1, 24) else { return };
    let cluster = lab.cluster();
    let file = create_on(&cluster, FULL, "/large").unwrap();
    let mut written = 0;
    let error = loop {
        assert!(written < 200, "a disk of 24 MiB took {written} pieces");
        match file.write_at(&piece(written), written * PIECE_BYTES as u64) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(written > 20, "only {written} pieces were written");
    assert_eq!(error.kind(), pario::ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains(FULL), "{FULL} is not named: {error}");

    // Small pieces and creations, until nothing goes any more.
    let mut created = 0;
    let error = loop {
        assert!(created < 20_000, "the disk is never full");
        let made = create_on(&cluster, FULL, &format!("/small{created}"));
        match made.and_then(|file| file.write_at(&[1; 8 << 10], 0).map(|()| file)) {
            Ok(file) => file.close().unwrap(),
            Err(error) => break error,
        }
        created += 1;
    };
    assert_eq!(error.kind(), pario::ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains(FULL), "{FULL} is not named: {error}");

    // The namespace knows every file that was made, and no other; the disks agree.
    let report = cluster.check(LOOK).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);

    // Other disks go on, also that of the same node.
    for disk in ["beta/disk1", "alpha/disk0", "gamma/disk1"] {
        let path = format!("/on-{}", disk.replace('/', "-"));
        let other = create_on(&cluster, disk, &path).unwrap();
        other.write_at(&piece(3), 0).unwrap();
        other.close().unwrap();
    }

    let check = |file: &File| {
        let mut bytes = vec![0; PIECE_BYTES];
        for number in 0..written {
            file.read_exact_at(&mut bytes, number * PIECE_BYTES as u64).unwrap();
            assert!(bytes == piece(number), "piece {number} was acknowledged, and differs");
        }
    };
    check(&file);
    drop(file);
    lab.kill(1);
    lab.start_node(1);
    let cluster = lab.cluster();
    let file = cluster.open("/large").unwrap();
    until("the node is back", || file.len().ok());
    check(&file);
    file.close().unwrap();

    // With room there is work again.
    cluster.remove("/large").unwrap();
    let again = until("there is room again", || {
        let file = create_on(&cluster, FULL, "/again").ok()?;
        match file.write_at(&piece(0), 0) {
            Ok(()) => Some(file),
            Err(_) => {
                cluster.remove("/again").unwrap();
                None
            }
        }
    });
    again.sync().unwrap();
}

#[test]
fn a_full_disk_of_this_machine_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("disk1");
    std::fs::create_dir(&small).unwrap();
    if !mount_privately(&["-t", "tmpfs", "-o", "size=4m", "small"], &small) {
        return;
    }
    let cluster = Cluster::embedded(dir.path()).unwrap();
    // One that has only this disk, and one that has all.
    for (path, disks) in [("/narrow", 1..2), ("/wide", 0..4)] {
        let disks = disks.map(|disk| format!("local/disk{disk}"));
        let options = cluster.options().read(true).write(true).create_new(true);
        let file = options.unit(64 << 10).disks(disks).open(path).unwrap();
        assert!(file.has_short_cut());
        for len in [10_000, PIECE_BYTES] {
            let mut offset = 0;
            let error = loop {
                assert!(offset < 64 << 20, "a disk of 4 MiB took {offset} bytes");
                match file.write_at(&vec![1; len], offset) {
                    Ok(()) => offset += len as u64,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), pario::ErrorKind::NoSpace, "{error}");
            let told = error.to_string();
            assert!(told.contains(path) && told.contains("local/disk1"), "{told}");
        }
        drop(file);
        cluster.remove(path).unwrap();
        until("it is gone", || {
            let report = cluster.check(LOOK).unwrap();
            (report.subfiles == 0).then_some(())
        });
    }
}
