//! Limits and bad input: each causes a clear error, loses no data and does not panic.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::fs;
use std::sync::Arc;

use pario_store::medium::{Medium, MediumOpenMode, MemoryMedium};
use pario_store::{
    Caching, CheckDepth, DESCRIPTION_LIMIT_BYTES, Disk, DiskOptions, EXTENT_LIMIT_BYTES,
    EngineChoice, ExtentBuffer, MAX_EXTENT_INDEX, MAX_FLAT_LEN, NewSubfile, Queue, QueueOptions,
    Request, StoreError, SubfileId, SubfileKind,
};
use tempfile::tempdir;

use crate::memory_disk::{create_disk, inline_options, open_disk};

fn id(file: u128) -> SubfileId {
    SubfileId::data(file, 0)
}

fn memory_disk() -> (MemoryMedium, Disk) {
    let memory = MemoryMedium::new();
    let disk = create_disk(&memory);
    (memory, disk)
}

#[track_caller]
fn expect<T: std::fmt::Debug>(result: Result<T, StoreError>, words: &[&str]) -> StoreError {
    let error = result.unwrap_err();
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
    error
}

#[test]
fn extents_over_the_limits_are_refused() {
    let (_, disk) = memory_disk();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    let too_large = ExtentBuffer::new(disk.pool(), 1, EXTENT_LIMIT_BYTES);
    expect(too_large, &["134217729", "134217728", "cut it"]);
    expect(ExtentBuffer::new(disk.pool(), usize::MAX, 1), &["over the limit"]);
    for index in [MAX_EXTENT_INDEX + 1, u64::MAX] {
        expect(file.read(index), &[&index.to_string(), "out of range"]);
        expect(file.write(index, b"", b"x"), &["out of range"]);
        expect(file.delete(index), &["out of range"]);
    }
    file.write(MAX_EXTENT_INDEX, b"", b"the last one").unwrap();
    assert_eq!(file.read(MAX_EXTENT_INDEX).unwrap().unwrap().body(), b"the last one");
    assert_eq!(file.list(0..=u64::MAX).count(), 1);
}

#[test]
fn header_and_body_are_optional() {
    let (_, disk) = memory_disk();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    for (index, header, body) in [(1, &b""[..], &b""[..]), (2, b"h", b""), (3, b"", b"b")] {
        file.write(index, header, body).unwrap();
        let extent = file.read(index).unwrap().unwrap();
        assert_eq!((extent.header(), extent.body()), (header, body));
    }
    assert!(file.read(4).unwrap().is_none());
    assert!(file.delete(1).unwrap() && !file.delete(1).unwrap() && !file.delete(4).unwrap());
    let left: Vec<u64> = file.list(0..=10).map(|info| info.unwrap().index).collect();
    assert_eq!(left, [2, 3]);
}

#[test]
fn a_large_extent_is_one_extent() {
    let (_, disk) = memory_disk();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    let body = vec![7; 40 << 20];
    file.write(5, b"large", &body).unwrap();
    assert!(file.read(5).unwrap().unwrap().body() == body);
}

#[test]
fn offsets_beyond_the_largest_are_refused() {
    let (_, disk) = memory_disk();
    let flat = disk.create_flat(NewSubfile::new(id(1))).unwrap();
    for offset in [MAX_FLAT_LEN, u64::MAX - 1, u64::MAX] {
        expect(flat.write_at(b"xx", offset), &["beyond the largest offset"]);
        expect(flat.read_at(&mut [0; 2], offset), &["beyond the largest offset"]);
    }
    expect(flat.set_len(MAX_FLAT_LEN + 1), &["beyond the largest offset"]);
    expect(flat.grow(MAX_FLAT_LEN + 1), &["beyond the largest offset"]);
    assert_eq!(flat.read_at(&mut [0; 2], 1 << 62).unwrap(), 0);
    assert!(flat.is_empty().unwrap());
}

#[test]
fn a_full_disk_keeps_what_it_has() {
    let (memory, disk) = memory_disk();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    memory.set_capacity(2 << 20);
    let mut written = 0;
    let error = loop {
        match file.write(written, b"", &[written as u8; 30_000]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_full() && written > 10, "{error}");
    expect(Err::<(), _>(error), &["memory", "full", "extent", "kept"]);
    // Replacing needs space for the new one beside the old one, which stays.
    expect(file.write(0, b"", &[99; 1 << 20]), &["full"]);
    for index in 0..written {
        assert_eq!(file.read(index).unwrap().unwrap().body(), &[index as u8; 30_000][..]);
    }
    // Deletions free space for the next writes.
    for index in 0..written {
        assert!(file.delete(index).unwrap());
    }
    for index in 0..written {
        file.write(index, b"", &[1; 30_000]).unwrap();
    }
    drop((file, disk));
    let disk = open_disk(&memory);
    let file = disk.open_extents(id(1)).unwrap();
    assert_eq!(file.stat().unwrap().extents, written);
    let flat = disk.create_flat(NewSubfile::new(id(2)));
    memory.set_capacity(0);
    if let Ok(flat) = flat {
        assert!(flat.write_at(&[1; 1 << 20], 0).unwrap_err().is_full());
    }
    expect(disk.create_flat(NewSubfile::new(id(3))), &["full", "create subfile 0"]);
}

#[test]
fn a_full_disk_takes_rewrites_as_long_as_one_fits() {
    let (memory, disk) = memory_disk();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    memory.set_capacity(2 << 20);
    let mut extents = 0;
    while file.write(extents, b"", &[0; 30_000]).is_ok() {
        extents += 1;
    }
    extents -= 4;
    for index in extents..extents + 4 {
        assert!(file.delete(index).unwrap());
    }
    for tag in 0..80 {
        file.write(tag % extents, b"", &[tag as u8; 30_000]).unwrap();
    }
    let engine = EngineChoice::Seeded(7);
    let mut queue = Queue::new(QueueOptions { depth_per_disk: 4, engine }).unwrap();
    for tag in 0..80 {
        let (file, index) = (file.clone(), tag % extents);
        let mut extent = file.buffer(0, 30_000).unwrap();
        extent.body_mut().fill(index as u8);
        queue.submit(tag, Request::WriteExtent { file, index, extent, caching: Caching::Use });
        while queue.len() >= 4 {
            queue.wait().unwrap().result.unwrap();
        }
    }
    while let Some(completion) = queue.wait() {
        completion.result.unwrap();
    }
    for index in 0..extents {
        assert_eq!(file.read(index).unwrap().unwrap().body(), &[index as u8; 30_000][..]);
    }
    assert!(file.check(CheckDepth::Content).unwrap().is_empty());
}

#[test]
fn deleted_extents_of_a_full_disk_free_space_for_the_journal() {
    let (memory, disk) = memory_disk();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    memory.set_capacity(4 << 20);
    let mut extents = 0;
    while file.write(extents, b"", b"short").is_ok() {
        extents += 1;
    }
    for index in 0..extents {
        assert!(file.delete(index).unwrap());
    }
    // The journal has no place left for a write.
    for index in 0..extents / 2 {
        file.write(index, b"", b"short again").unwrap();
    }
    assert!(file.check(CheckDepth::Content).unwrap().is_empty());
}

#[test]
fn a_disk_that_is_open_for_reading_only_changes_nothing() {
    let (memory, disk) = memory_disk();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    let flat = disk.create_flat(NewSubfile::new(id(2))).unwrap();
    file.write(1, b"", b"in the journal only").unwrap();
    flat.write_at(b"flat", 0).unwrap();
    drop((file, flat, disk));
    let changes = memory.changes();
    let options = DiskOptions { read_only: true, ..inline_options() };
    let disk = Disk::open_on(Arc::new(memory.clone()), options.clone()).unwrap();
    let second = Disk::open_on(Arc::new(memory.clone()), options.clone()).unwrap();
    let file = disk.open_extents(id(1)).unwrap();
    assert_eq!(file.read(1).unwrap().unwrap().body(), b"in the journal only");
    expect(file.write(1, b"", b"x"), &["reading only", "write to subfile 0"]);
    expect(file.delete(1), &["reading only"]);
    expect(file.compact(), &["reading only"]);
    file.sync().unwrap();
    file.close().unwrap();
    let flat = second.open_flat(id(2)).unwrap();
    expect(flat.write_at(b"x", 0), &["reading only"]);
    expect(flat.set_len(0), &["reading only"]);
    expect(flat.grow(1000), &["reading only"]);
    assert_eq!(flat.len().unwrap(), 4);
    expect(disk.create_flat(NewSubfile::new(id(3))), &["reading only"]);
    expect(disk.remove(id(2)), &["reading only"]);
    expect(Disk::create_on(Arc::new(MemoryMedium::new()), options), &["reading only"]);
    assert_eq!(memory.changes(), changes);
    expect(Disk::open_on(Arc::new(memory.clone()), inline_options()), &["in use"]);
}

#[test]
fn one_process_at_a_time() {
    let dir = tempdir().unwrap();
    let disk = Disk::create(dir.path(), DiskOptions::default()).unwrap();
    let label = dir.path().display().to_string();
    expect(Disk::open(dir.path(), DiskOptions::default()), &["in use", &label]);
    let read_only = DiskOptions { read_only: true, ..DiskOptions::default() };
    expect(Disk::open(dir.path(), read_only), &["in use"]);
    // A subfile that is still open keeps the disk.
    let flat = disk.create_flat(NewSubfile::new(id(1))).unwrap();
    drop(disk);
    expect(Disk::open(dir.path(), DiskOptions::default()), &["in use"]);
    drop(flat);
    Disk::open(dir.path(), DiskOptions::default()).unwrap();
}

#[test]
fn a_directory_that_is_no_disk_is_refused() {
    let dir = tempdir().unwrap();
    let open = |path: &std::path::Path| Disk::open(path, DiskOptions::default());
    expect(open(dir.path()), &["is not a disk of pario", "pario.disk"]);
    expect(open(&dir.path().join("nowhere")), &["nowhere", "is not a disk"]);
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    expect(open(&dir.path().join("notes.txt")), &["not a directory"]);
    expect(Disk::create(dir.path(), DiskOptions::default()), &["notes.txt", "cannot become"]);
    let below_file = dir.path().join("notes.txt/disk");
    expect(Disk::create(below_file, DiskOptions::default()), &["notes.txt/disk"]);
    fs::write(dir.path().join("pario.disk"), "something else").unwrap();
    expect(open(dir.path()), &["is another file"]);
    assert_eq!(fs::read(dir.path().join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let dir = tempdir().unwrap();
    let disk = Disk::create(dir.path(), DiskOptions::default()).unwrap();
    disk.create_extents(NewSubfile::new(id(1))).unwrap();
    disk.create_flat(NewSubfile::new(id(2))).unwrap();
    drop(disk);
    // In all our files the version stands in bytes 16 and 17.
    let set_version = |path: &str, version: u8| {
        let path = dir.path().join(path);
        let mut bytes = fs::read(&path).unwrap();
        bytes[16] = version;
        fs::write(&path, bytes).unwrap();
    };
    let stem = |file| format!("{file:032x}-0-data");
    for (name, path) in [
        ("index", format!("{}.extents/index", stem(1))),
        ("journal.1", format!("{}.extents/journal.1", stem(1))),
        ("extents", format!("{}.extents/description", stem(1))),
    ] {
        let known = fs::read(dir.path().join(&path)).unwrap()[16];
        set_version(&path, 42);
        let disk = Disk::open(dir.path(), DiskOptions::default()).unwrap();
        expect(disk.open_extents(id(1)), &[name, "version 42", "newer pario"]);
        set_version(&path, known);
        disk.open_extents(id(1)).unwrap();
    }
    set_version(&format!("{}.description", stem(2)), 42);
    let disk = Disk::open(dir.path(), DiskOptions::default()).unwrap();
    expect(disk.open_flat(id(2)), &["version 42"]);
    let found = disk.subfiles().unwrap();
    assert_eq!(found.iter().filter(|found| found.description.is_err()).count(), 1);
    drop(disk);
    set_version("pario.disk", 42);
    expect(Disk::open(dir.path(), DiskOptions::default()), &["pario.disk", "version 42"]);
}

#[test]
fn a_foreign_file_is_refused_and_others_are_found() {
    let dir = tempdir().unwrap();
    let disk = Disk::create(dir.path(), DiskOptions::default()).unwrap();
    disk.create_flat(NewSubfile::new(id(1))).unwrap();
    fs::write(dir.path().join(format!("{:032x}-0-data.flat", 2)), "a stranger").unwrap();
    fs::write(dir.path().join("stranger.txt"), "another").unwrap();
    for name in ["flat", "description"] {
        let (from, to) = (format!("{:032x}-0-data.{name}", 1), format!("{:032x}-5-data.{name}", 1));
        fs::copy(dir.path().join(from), dir.path().join(to)).unwrap();
    }
    expect(disk.open_flat(id(2)), &["is not a subfile of pario", "has no description"]);
    expect(disk.open_flat(SubfileId::data(1, 5)), &["belongs to another subfile"]);
    let found = disk.subfiles().unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found.iter().filter(|found| found.description.is_ok()).count(), 1);
}

#[test]
fn names_and_kinds_are_checked() {
    let (_, disk) = memory_disk();
    disk.create_flat(NewSubfile::new(id(1))).unwrap();
    disk.create_extents(NewSubfile::new(id(2))).unwrap();
    expect(disk.create_extents(NewSubfile::new(id(1))), &["already"]);
    expect(disk.create_flat(NewSubfile::new(id(2))), &["already"]);
    expect(disk.open_extents(id(1)), &["of kind flat, not extents"]);
    expect(disk.open_flat(id(2)), &["of kind extents, not flat"]);
    expect(disk.open_flat(id(3)), &["has no subfile 0 of file"]);
    expect(disk.remove(id(3)), &["has no subfile 0"]);
    for granule_bytes in [0, 1, 256, 3_000, 1 << 17] {
        let new = NewSubfile { granule_bytes, ..NewSubfile::new(id(4)) };
        expect(disk.create_extents(new), &["granule_bytes", "power of two"]);
    }
    let layout = vec![0; DESCRIPTION_LIMIT_BYTES + 1];
    let new = NewSubfile { layout, ..NewSubfile::new(id(4)) };
    expect(disk.create_flat(new), &["layout and path"]);
}

#[test]
fn subfiles_describe_themselves() {
    let (memory, disk) = memory_disk();
    let new = |file, layout: &[u8], path: &str| NewSubfile {
        layout: layout.to_vec(),
        path: path.into(),
        ..NewSubfile::new(id(file))
    };
    disk.create_flat(new(1, b"striped", "/a/é")).unwrap();
    disk.create_extents(new(2, &[9; DESCRIPTION_LIMIT_BYTES - 2], "/b")).unwrap();
    drop(disk);
    memory.power_loss(&mut |_| 0);
    let disk = open_disk(&memory);
    let found = disk.subfiles().unwrap();
    let described: Vec<_> = found
        .into_iter()
        .map(|found| found.description.unwrap())
        .map(|d| (d.id, d.kind, d.layout.len(), d.path))
        .collect();
    assert_eq!(
        described,
        [
            (id(1), SubfileKind::Flat, 7, "/a/é".to_owned()),
            (id(2), SubfileKind::Extents, DESCRIPTION_LIMIT_BYTES - 2, "/b".to_owned()),
        ]
    );
}

#[test]
fn a_removed_subfile_serves_its_open_handles() {
    let dir = tempdir().unwrap();
    let disk = Disk::create(dir.path(), DiskOptions::default()).unwrap();
    let file = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    let flat = disk.create_flat(NewSubfile::new(id(2))).unwrap();
    file.write(1, b"", b"still here").unwrap();
    flat.write_at(b"here too", 0).unwrap();
    disk.remove(id(1)).unwrap();
    disk.remove(id(2)).unwrap();
    assert!(disk.subfiles().unwrap().is_empty());
    expect(disk.open_extents(id(1)), &["has no"]);
    // A new one under the same name is another one.
    let new = disk.create_extents(NewSubfile::new(id(1))).unwrap();
    assert!(new.read(1).unwrap().is_none());
    file.write(2, b"", b"and writable").unwrap();
    file.clone().close().unwrap();
    assert_eq!(file.read(1).unwrap().unwrap().body(), b"still here");
    let mut bytes = [0; 8];
    flat.read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"here too");
    drop((file, flat));
    let names = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names, 2, "pario.disk and the new subfile");
}

#[test]
fn what_a_crash_left_half_made_is_swept_away() {
    let (memory, disk) = memory_disk();
    disk.create_flat(NewSubfile::new(id(1))).unwrap();
    drop(disk);
    let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
    memory.create_dir("new-x.extents").unwrap();
    memory.open("new-x.extents/data", mode).unwrap();
    memory.open("new-y.flat", mode).unwrap();
    memory.create_dir("gone-1-z.extents").unwrap();
    memory.open(&format!("{:032x}-0-data.description", 9), mode).unwrap();
    let disk = open_disk(&memory);
    assert_eq!(memory.list("").unwrap().len(), 3, "the mark, the subfile and its description");
    assert_eq!(disk.subfiles().unwrap().len(), 1);
}

#[test]
fn a_directory_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    let path = dir.path().join("disk");
    drop(Disk::create(&path, DiskOptions::default()).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let label = path.display().to_string();
    let error = unprivileged(move || Disk::open(&path, DiskOptions::default()).map(|_| ()));
    expect(error, &[&label, "denied"]);
}

/// Runs a function in a thread without the rights of root.
fn unprivileged<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    use rustix::process::Uid;
    use rustix::thread::set_thread_res_uid;
    let thread = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let unprivileged = Uid::from_raw(65_534);
            set_thread_res_uid(unprivileged, unprivileged, unprivileged).unwrap();
        }
        run()
    });
    thread.join().unwrap()
}
