//! Impossible calls fail with an error that says what failed, on which object, and what to do.

use std::io::{Seek as _, SeekFrom};

use pario::{Cluster, ClusterOptions, Error, ExtentIndex, ExtentPlacement, SubfileIndex};

use crate::sites::{Site, Transport, over_every_transport};

/// Asserts that a call has failed with this message.
#[track_caller]
fn says<T>(result: Result<T, Error>, expected: &str) {
    match result {
        Ok(_) => panic!("it worked; expected was {expected:?}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

#[track_caller]
fn begins<T>(result: Result<T, Error>, expected: &str) {
    match result {
        Ok(_) => panic!("it worked; expected was {expected:?}"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with(expected), "{text:?} instead of {expected:?}");
        }
    }
}

#[test]
fn paths() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let long_name = format!("/{}", "n".repeat(256));
        let long_path = "/nn".repeat(1400);
        let bad = [
            ("", "the path is empty: give an absolute one, like /runs/7".to_owned()),
            (
                "runs",
                "\"runs\" is a relative path: paths in a cluster begin with a slash, like /runs"
                    .to_owned(),
            ),
            (
                "/a/../b",
                "\"/a/../b\" contains the name \"..\": write the path without it".to_owned(),
            ),
            ("/.", "\"/.\" contains the name \".\": write the path without it".to_owned()),
            (
                "/a\nb",
                "\"/a\\nb\" contains the control character '\\n': names are made of printable \
                 characters"
                    .to_owned(),
            ),
            (
                &long_name,
                format!(
                    "the name {:?}... has 256 bytes, at most 255 are allowed: use a shorter one",
                    "n".repeat(24)
                ),
            ),
            (
                &long_path,
                format!(
                    "the path {:?}... has 4200 bytes, at most 4096 are allowed: use shorter names",
                    &long_path[..24]
                ),
            ),
        ];
        for (path, message) in &bad {
            says(cluster.open(path), message);
            says(cluster.create(path), message);
            says(cluster.metadata(path), message);
            says(cluster.remove(path), message);
            says(cluster.make_directory(path), message);
            says(cluster.make_directories(path), message);
            says(cluster.remove_directory(path), message);
            says(cluster.rename(path, "/x"), message);
            says(cluster.rename("/", path), message);
            says(cluster.list(path), message);
            says(cluster.set_mode(path, 0o600), message);
            says(cluster.set_owner(path, Some(1), None), message);
        }
        // The longest name and the longest path are fine.
        cluster.create(&format!("/{}", "n".repeat(255))).unwrap();
        let mut directory = String::new();
        for _ in 0..15 {
            directory = format!("{directory}/{}", "d".repeat(255));
        }
        cluster.make_directories(&directory).unwrap();
        let path = format!("{directory}/{}", "f".repeat(255));
        assert_eq!(path.len(), 4096);
        cluster.create(&path).unwrap().write_at(b"x", 0).unwrap();
        assert_eq!(cluster.metadata(&path).unwrap().len, 1);
    });
}

#[test]
fn directories_in_place_of_files() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        cluster.make_directory("/d").unwrap();
        let directory = "/d: this is a directory, not a file";
        says(cluster.open("/d"), directory);
        says(cluster.create("/d"), directory);
        says(cluster.remove("/d"), directory);
        says(cluster.open("/"), "/: this is a directory, not a file");
        says(cluster.create("/"), "/: this is a directory, not a file");
        says(cluster.make_directory("/"), "/: it exists already");
        let root = "/: the root directory cannot be removed or renamed";
        says(cluster.remove_directory("/"), root);
        says(cluster.rename("/", "/x"), root);
        says(cluster.rename("/d", "/"), root);
        cluster.create("/f").unwrap();
        says(cluster.open("/f/g"), "/f: this is a file, not a directory");
        says(cluster.list("/f"), "/f: this is a file, not a directory");
        says(cluster.open("/none"), "/none: there is no such file or directory");
        says(
            cluster.create("/none/f"),
            "/none/f: there is no directory /none: make it first (`pario mkdir -p`), or create the \
             file with create_parents(true)",
        );
        says(cluster.list("/none"), "/none: there is no such file or directory");
        says(cluster.remove_directory("/f"), "/f: this is a file, not a directory");
        cluster.create("/d/f").unwrap();
        says(
            cluster.remove_directory("/d"),
            "/d: the directory is not empty; remove what is in it first",
        );
        says(cluster.rename("/d", "/d/e"), "/d: it cannot be moved to /d/e, which is inside of it");
        says(cluster.options().write(true).create_new(true).open("/f"), "/f: it exists already");
    });
}

#[test]
fn layouts() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let new = || cluster.options().read(true).write(true).create_new(true);
        says(new().disk_count(0).open("/f"), "/f: zero disks cannot hold a file");
        says(
            new().disk_count(5).open("/f"),
            "/f: the layout asks for 5 disks, and 4 can be written to",
        );
        says(new().unit(0).open("/f"), "/f: the striping unit is 0 bytes: choose at least 1");
        let names = site.disks().join(", ");
        says(
            new().disks(["nowhere/disk9"]).open("/f"),
            &format!("/f: the cluster has no disk \"nowhere/disk9\"; it has {names}"),
        );
        begins(new().disks(Vec::<String>::new()).open("/f"), "/f: ");
        let disk = site.disks()[0].clone();
        begins(new().disks([disk.clone(), disk]).open("/f"), "/f: ");
        assert!(cluster.metadata("/f").is_err(), "nothing was made");
        says(
            cluster.options().read(true).create(true).open("/f"),
            "/f: a file that is created or emptied must be opened for writing too",
        );
        says(cluster.options().open("/f"), "/f: open it for reading, for writing, or both");
        assert_eq!(site.subfiles(), 0);
    });
}

#[test]
fn offsets() {
    over_every_transport(|site| {
        let file = site.cluster.create("/f").unwrap();
        file.write_at(b"0123", 0).unwrap();
        let mut buffer = [0; 8];
        let beyond = |offset: u64, len: usize| {
            format!("/f: {len} bytes at offset {offset} end beyond the largest file, 2^62 bytes")
        };
        let limit = 1u64 << 62;
        for offset in [u64::MAX, u64::MAX - 7, limit, limit - 7, 1 << 63] {
            says(file.read_at(&mut buffer, offset), &beyond(offset, 8));
            says(file.read_exact_at(&mut buffer, offset), &beyond(offset, 8));
            says(file.write_at(&buffer, offset), &beyond(offset, 8));
            says(file.start_read_at(8, offset).map(|_| ()), &beyond(offset, 8));
            says(file.start_write_at(vec![0; 8], offset).map(|_| ()), &beyond(offset, 8));
        }
        says(file.set_len(limit + 1), &beyond(limit + 1, 0));
        says(file.set_len(u64::MAX), &beyond(u64::MAX, 0));
        // A range may end just at the limit; there is nothing to be read.
        assert_eq!(file.read_at(&mut buffer, limit - 8).unwrap(), 0);
        assert_eq!(file.read_at(&mut [], limit).unwrap(), 0);
        assert_eq!(file.start_read_at(8, limit - 8).unwrap().wait().unwrap().len(), 0);
        assert_eq!(file.len().unwrap(), 4, "refused calls change nothing");
        says(
            file.read_exact_at(&mut buffer, 2),
            "/f: the file ends at byte 4; 8 bytes from byte 2 on were wanted",
        );
        says(
            file.read_exact_at(&mut buffer, 1000),
            "/f: the file ends at byte 4; 8 bytes from byte 1000 on were wanted",
        );
        let ranges = [0..5, 9..14];
        says(
            file.read_list(&mut buffer, &ranges),
            "/f: the ranges have 10 bytes, the buffer has 8",
        );
        #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
        let reversed = [0..8, 9..8];
        says(file.read_list(&mut buffer, &reversed), "/f: the range 9..8 ends before it begins");
        says(file.write_list(&buffer, &ranges), "/f: the ranges have 10 bytes, the buffer has 8");
        let error = (&file).seek(SeekFrom::End(-5)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/f: the pointer cannot be moved before the beginning or beyond 2^62 bytes"
        );
        says(
            file.start_read_at((1 << 30) + 1, 0).map(|_| ()),
            "/f: one started request moves at most 1073741824 bytes: start several",
        );
    });
}

#[test]
fn files_that_were_not_opened_for_it() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        cluster.create("/f").unwrap();
        let read_only = cluster.open("/f").unwrap();
        let not_writing = "/f: the file was not opened for writing";
        says(read_only.write_at(b"x", 0), not_writing);
        says(read_only.set_len(0), not_writing);
        says(read_only.sync(), not_writing);
        says(read_only.start_write_at(vec![1], 0).map(|_| ()), not_writing);
        let first = 0..1;
        let range = std::slice::from_ref(&first);
        says(read_only.write_list(b"x", range), not_writing);
        let write_only = cluster.options().write(true).open("/f").unwrap();
        let not_reading = "/f: the file was not opened for reading";
        says(write_only.read_at(&mut [0], 0), not_reading);
        says(write_only.start_read_at(1, 0).map(|_| ()), not_reading);
        says(write_only.read_list(&mut [0], range), not_reading);
        write_only.write_at(b"x", 0).unwrap();
        assert_eq!(write_only.len().unwrap(), 1);
    });
}

#[test]
fn bytes_and_extents_are_not_mixed_up() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let options = || cluster.options().read(true).write(true).create(true);
        let bytes = options().open("/bytes").unwrap();
        let extents = options().extents().open("/extents").unwrap();
        let place = |subfile, extent| ExtentPlacement {
            subfile: SubfileIndex(subfile),
            extent: ExtentIndex(extent),
        };
        let no_extents = "/bytes: this is a file of bytes, it has no extents; create files of \
                          extents with `extents()`";
        says(bytes.read_extent(place(0, 0)), no_extents);
        says(bytes.write_extent(b"", b"", place(0, 0)), no_extents);
        says(bytes.delete_extent(place(0, 0)), no_extents);
        says(bytes.list_extents().map(|_| ()), no_extents);
        says(
            extents.read_at(&mut [0], 0),
            "/extents: this is a file of extents; read extents instead of bytes",
        );
        says(
            extents.write_at(b"x", 0),
            "/extents: this is a file of extents; write extents instead of bytes",
        );
        says(
            extents.set_len(1),
            "/extents: this is a file of extents; resize extents instead of bytes",
        );
        says(
            options().extents().open("/bytes"),
            "/bytes: it exists, as a file of bytes, not of extents",
        );
        says(options().open("/extents"), "/extents: it exists, as a file of extents, not of bytes");
        says(
            extents.read_extent(place(4, 0)),
            "/extents: there is no subfile 4; the file has 4, numbered from 0",
        );
        begins(extents.write_extent(b"", b"", place(0, ExtentIndex::LIMIT)), "/extents: ");
        begins(extents.write_extent(b"", b"", place(0, u64::MAX)), "/extents: ");
        // A file of extents that is opened for writing only can be emptied too.
        extents.write_extent(b"", b"x", place(1, 5)).unwrap();
        cluster.options().write(true).truncate(true).open("/extents").unwrap();
        assert_eq!(extents.read_extent(place(1, 5)).unwrap(), None);
    });
}

#[test]
fn nodes_and_addresses() {
    let site = Site::new(Transport::Socket);
    says(
        site.cluster.stop(Some("nobody")),
        "the cluster has no node named \"nobody\"; it has local",
    );
    begins(
        Cluster::connect("unix:/nonexistent/socket"),
        "the node at unix:/nonexistent/socket does not answer: ",
    );
    begins(
        Cluster::connect("no such thing"),
        "\"no such thing\" is not the address of a cluster (",
    );
    let empty = tempfile::tempdir().unwrap();
    let dir = empty.path().display();
    says(
        Cluster::connect(&dir.to_string()),
        &format!(
            "no node serves {dir}: start one with `pario serve --data {dir}`, or use the directory \
             without one with `--data {dir}`"
        ),
    );
    let options =
        ClusterOptions { key_file: Some("/nonexistent/key".into()), ..Default::default() };
    begins(
        Cluster::connect_with("unix:/nonexistent/socket", options),
        "the key in /nonexistent/key: No such file or directory",
    );
    let error = Cluster::embedded(site.dir.path()).unwrap_err();
    assert_eq!(error.kind(), pario::ErrorKind::Busy);
    assert!(error.to_string().contains("is in use by another process"), "{error}");
}
