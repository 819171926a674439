//! The disks of a node: their names, and directories that were moved.

use std::ffi::OsString;

use pario_store::medium::Pace;

use super::*;
use crate::config::Config;

/// A node with disks in these directories.
fn node(dir: &Path, disks: &[&str]) -> NodeConfig {
    let mut node = Config::alone(dir).nodes.remove(0);
    let disk = |path: &&str| DiskConfig::at(dir.join(path));
    node.disks = disks.iter().map(disk).collect();
    node
}

fn names(disks: &NodeDisks) -> Vec<&str> {
    disks.disks.iter().map(|disk| disk.name.as_str()).collect()
}

#[test]
fn disks_are_called_after_their_directories_and_no_two_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let disks = NodeDisks::open(&node(dir.path(), &["a/d", "b/e", "c/d"])).unwrap();
    assert_eq!(names(&disks), ["local/d", "local/e", "local/d-2"]);
    let disks = NodeDisks::open(&node(dir.path(), &["x/d-2", "y/d", "z/d"])).unwrap();
    assert_eq!(names(&disks), ["local/d-2", "local/d", "local/d-2-2"]);
    assert_eq!(label_of(Path::new("/"), 3, &disks.disks), "disk3");
}

#[test]
fn a_slow_disk_is_the_same_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = node(dir.path(), &["d0", "d1"]);
    let uuid = NodeDisks::open(&config).unwrap().disks[1].disk.id();
    let latency = Duration::from_micros(100);
    config.disks[1].pace = Some(Pace { latency, ..Pace::default() });
    let disks = NodeDisks::open(&config).unwrap();
    assert_eq!(disks.disks[1].disk.id(), uuid);
    let has_descriptors = |disk: &NodeDisk| {
        let flat = disk.disk.create_flat(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
        flat.share(true, true).unwrap().is_some()
    };
    let slow: Vec<_> = disks.disks.iter().map(|disk| disk.is_slow).collect();
    assert_eq!(slow, [false, true]);
    let found: Vec<_> = disks.disks.iter().map(has_descriptors).collect();
    assert_eq!(found, [true, false]);
}

#[test]
fn an_empty_mount_point_is_not_taken_for_a_new_disk() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), &["d0", "d1"]);
    let uuid = NodeDisks::open(&config).unwrap().disks[1].disk.id();
    let (place, away) = (dir.path().join("d1"), dir.path().join("away"));
    let refused = || NodeDisks::open(&config).unwrap_err().to_string();
    let check_text = |why: &str| {
        let list = dir.path().join("disks");
        for part in [place.display().to_string(), list.display().to_string()] {
            assert!(why.contains(&part), "{part} is not named: {why}");
        }
        assert!(why.contains(&format!("was disk {uuid:032x} before: mount it")), "{why}");
    };
    // Not mounted: the directory is empty or missing.
    fs::rename(&place, &away).unwrap();
    check_text(&refused());
    assert!(!place.exists(), "nothing was made there");
    fs::create_dir(&place).unwrap();
    check_text(&refused());
    assert!(fs::read_dir(&place).unwrap().next().is_none(), "nothing was made there");
    // Mounted again: it is the same disk.
    fs::remove_dir(&place).unwrap();
    fs::rename(&away, &place).unwrap();
    assert_eq!(NodeDisks::open(&config).unwrap().disks[1].disk.id(), uuid);
    // Gone for good, and its line removed as the message says.
    fs::rename(&place, &away).unwrap();
    let list = dir.path().join("disks");
    let lines = fs::read_to_string(&list).unwrap();
    let kept: Vec<&str> = lines.lines().filter(|line| !line.ends_with("d1")).collect();
    fs::write(&list, kept.join("\n") + "\n").unwrap();
    let fresh = NodeDisks::open(&config).unwrap().disks[1].disk.id();
    assert_ne!(fresh, uuid);
    assert!(fs::read_to_string(&list).unwrap().contains(&format!("{fresh:032x}")));
}

#[test]
fn disk_trouble_is_reported_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let disks = NodeDisks::open(&node(dir.path(), &["d0", "d1"])).unwrap();
    let troubles = || disks.status(&[]).into_iter().map(|disk| disk.trouble).collect::<Vec<_>>();
    assert_eq!(troubles(), [None, None]);
    fs::rename(dir.path().join("d1"), dir.path().join("away")).unwrap();
    disks.measure_space();
    assert!(troubles()[1].as_ref().is_some_and(|trouble| trouble.contains("d1")));
    fs::rename(dir.path().join("away"), dir.path().join("d1")).unwrap();
    disks.measure_space();
    assert_eq!(troubles(), [None, None]);
}

#[test]
fn a_flushed_subfile_has_no_journal_to_replay() {
    let dir = tempfile::tempdir().unwrap();
    let disks = NodeDisks::open(&node(dir.path(), &["d"])).unwrap();
    let disk = disks.disk(0);
    let id = SubfileId::data(7, 0);
    let extents = disk.disk.create_extents(NewSubfile::new(id)).unwrap();
    disk.keep_open(id, SubfileHandle::Extents(extents.clone()));
    let journals = || -> Vec<OsString> {
        let place = fs::read_dir(dir.path().join("d")).unwrap().map(|entry| entry.unwrap());
        let subfile = place.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
        let names = fs::read_dir(subfile).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.as_encoded_bytes().starts_with(b"journal")).collect()
    };
    for index in 0..500 {
        extents.write(index, b"", b"some").unwrap();
    }
    extents.sync().unwrap();
    let before = journals();
    disks.flush_indices();
    let flushed = journals();
    assert_ne!(flushed, before, "a new one is begun when the index has caught up");
    disks.flush_indices();
    assert_eq!(journals(), flushed, "nothing was changed since");
}

#[test]
fn another_directory_may_be_a_new_disk_at_any_time() {
    let dir = tempfile::tempdir().unwrap();
    NodeDisks::open(&node(dir.path(), &["d0"])).unwrap();
    let disks = NodeDisks::open(&node(dir.path(), &["d0", "d1"])).unwrap();
    assert_eq!(disks.disks.len(), 2);
    assert_eq!(disks.infos()[1].id, NO_ID, "the namespace has not given it one");
    let refused = disks.number_of(DiskId(4)).unwrap_err().to_string();
    assert!(refused.contains("not one of its disks"), "{refused}");
    let known = DiskInfo { id: DiskId(4), ..disks.infos()[1].clone() };
    disks.set_ids(&[known]);
    assert_eq!(disks.number_of(DiskId(4)).unwrap(), 1);
    assert_eq!(disks.all().len(), 1, "the other one has no id yet");
}
