//! Many files at once: over every transport the same as one by one, with one subfile for each small
//! file.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pario::status::{CheckDepth, CheckRequest};
use pario::{Cluster, FileContent, FilePath, Removal};

use crate::sites::{Site, Transport, over_every_transport};

/// More than a node accepts in one request.
const MANY: usize = 1500;

fn assert_no_findings(cluster: &Cluster) {
    let what = CheckRequest { depth: CheckDepth::Everything, is_repair: false, is_rebuild: false };
    assert_eq!(cluster.check(what).unwrap().findings, []);
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..251u8).cycle().skip(seed % 251).take(len).collect()
}

fn removal(path: &str, is_directory: bool) -> Removal {
    Removal { path: FilePath::new(path).unwrap(), is_directory }
}

/// The disk space of all files in a directory and below it.
fn blocks_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let blocks = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => blocks_below(&entry.path()),
        false => entry.metadata().unwrap().blocks() * 512,
    };
    entries.map(blocks).sum()
}

#[test]
fn files_are_written_read_and_removed_over_every_transport() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        cluster.make_directory("/d").unwrap();
        cluster.create("/d/old").unwrap().write_at(&bytes(9, 400_000), 0).unwrap();
        let lens = [0, 6, 65_536, 65_537, 300_000, 5];
        let paths = ["/d/empty", "/d/small", "/d/unit", "/d/two", "/d/wide", "/d/old"];
        let data: Vec<_> = lens.iter().enumerate().map(|(at, len)| bytes(at, *len)).collect();
        let file = |(path, bytes): (&&'static str, &Vec<u8>)| (*path, bytes.clone());
        let mut wanted: Vec<(&str, Vec<u8>)> = paths.iter().zip(&data).map(file).collect();
        wanted.insert(2, ("/missing/file", vec![1]));
        wanted.insert(4, ("relative", vec![1]));
        wanted.insert(5, ("/d", vec![1]));
        let content = |(path, bytes): &'_ (&'static str, Vec<u8>)| (*path, bytes.len());
        println!("{:?}", wanted.iter().map(content).collect::<Vec<_>>());
        let files: Vec<FileContent<'_>> = wanted
            .iter()
            .map(|(path, bytes)| FileContent {
                path,
                mode: Some(0o640),
                bytes,
                modified_ns: Some(7_000),
            })
            .collect();
        let written = cluster.options().write_files(&files);
        for (file, written) in files.iter().zip(&written) {
            let is_bad = ["/missing/file", "relative", "/d"].contains(&file.path);
            assert_eq!(written.is_err(), is_bad, "{}: {written:?}", file.path);
        }
        // Another client sees the same, one by one and all at once.
        let other = site.another();
        let names: Vec<&str> = files.iter().map(|file| file.path).collect();
        for (file, read) in files.iter().zip(other.read_files(&names)) {
            match read {
                Ok(read) => {
                    assert!(read == file.bytes, "{}", file.path);
                    let single = other.metadata(file.path).unwrap();
                    assert_eq!(single.len, file.bytes.len() as u64, "{}", file.path);
                    assert_eq!(single.modified_ns, 7_000, "{}", file.path);
                    let mode = if file.path == "/d/old" { 0o644 } else { 0o640 };
                    assert_eq!(single.record.mode, mode, "{}", file.path);
                }
                Err(_) => assert!(["/missing/file", "relative", "/d"].contains(&file.path)),
            }
        }
        let first_synced = |path: &str| other.open(path).unwrap().record().first_synced_count();
        assert_eq!(first_synced("/d/empty"), 1, "it keeps the time");
        assert_eq!(first_synced("/d/small"), 1, "the sync was marked");
        assert_eq!(first_synced("/d/wide"), 4);
        assert_no_findings(cluster);
        let open = cluster.options().read(true).open_many(&["/d/small", "/d/none", "/d/unit"]);
        assert!(open[0].is_ok() && open[1].is_err() && open[2].is_ok());
        let entries: Vec<Removal> = paths.iter().map(|path| removal(path, false)).collect();
        let entries = [vec![removal("/d", true)], entries, vec![removal("/d", true)]].concat();
        let removed = cluster.remove_many(&entries);
        assert_eq!(removed[0].as_ref().unwrap_err().kind(), pario::ErrorKind::DirectoryNotEmpty);
        assert!(removed[1..].iter().all(Result::is_ok), "{removed:?}");
        assert!(cluster.metadata("/d").is_err());
        // A file that is still open can be read.
        let mut six = [0; 6];
        open[0].as_ref().unwrap().read_exact_at(&mut six, 0).unwrap();
        assert_eq!(six[..], bytes(1, 6));
        drop(open);
        if site.transport != Transport::TwoNodes {
            crate::sites::until("all subfiles are gone", || site.subfiles() == 0);
        }
    });
}

#[test]
fn more_files_than_one_request_takes() {
    let site = Site::new(Transport::Socket);
    let paths: Vec<String> = (0..MANY).map(|number| format!("/{number}")).collect();
    let data: Vec<Vec<u8>> = (0..MANY).map(|number| bytes(number, number % 20)).collect();
    let content = |(path, bytes): (&'_ String, &'_ Vec<u8>)| (path.clone(), bytes.clone());
    let all: Vec<_> = paths.iter().zip(&data).map(content).collect();
    let files: Vec<_> = all
        .iter()
        .map(|(path, bytes)| FileContent { path, mode: None, bytes, modified_ns: None })
        .collect();
    assert!(site.cluster.options().write_files(&files).iter().all(Result::is_ok));
    for (read, bytes) in site.cluster.read_files(&paths).into_iter().zip(&data) {
        assert_eq!(&read.unwrap(), bytes);
    }
    let empty = data.iter().filter(|bytes| bytes.is_empty()).count();
    assert_eq!(site.subfiles(), MANY - empty, "one subfile for each file with bytes");
    assert_no_findings(&site.cluster);
    // They are all closed: a client may have 16,384 open.
    for _ in 0..3 {
        assert!(site.cluster.options().read(true).open_many(&paths).iter().all(Result::is_ok));
    }
    let again = site.cluster.options().create_new(true).write_files(&files[..10]);
    assert!(again.iter().all(|file| {
        file.as_ref().is_err_and(|error| error.kind() == pario::ErrorKind::AlreadyExists)
    }));
    let entries: Vec<_> = paths.iter().map(|path| removal(path, false)).collect();
    assert!(site.cluster.remove_many(&entries).iter().all(Result::is_ok));
    assert_eq!(site.cluster.list("/").unwrap().count(), 0);
}

#[test]
fn open_files_are_synced_together_over_every_transport() {
    over_every_transport(|site| {
        let paths: Vec<String> = (0..40).map(|number| format!("/{number}")).collect();
        let options = site.cluster.options().read(true).write(true).create_new(true);
        let files: Vec<_> =
            options.open_many(&paths).into_iter().collect::<Result<_, _>>().unwrap();
        for (number, file) in files.iter().enumerate() {
            file.write_at(&bytes(number, 10), (number % 5 * 65_536) as u64).unwrap();
        }
        let reader = site.cluster.open("/3").unwrap();
        let mut all: Vec<&pario::File> = files.iter().collect();
        all.insert(7, &reader);
        let synced = site.cluster.sync_many(&all);
        for (at, synced) in synced.iter().enumerate() {
            assert_eq!(synced.is_err(), at == 7, "{synced:?}");
        }
        for path in &paths {
            let record = site.cluster.open(path).unwrap().record().clone();
            assert!(record.first_synced_count() >= 1, "{path} was marked");
        }
        assert!(site.cluster.sync_many(&[]).is_empty());
        assert_no_findings(&site.cluster);
    });
}

/// Rights that change between the open and the sync: the grant is renewed, or the file fails alone.
#[test]
fn a_grant_of_before_is_renewed() {
    let site = Site::new(Transport::Socket);
    let files: Vec<_> = ["/a", "/b", "/c"].map(|path| site.cluster.create(path).unwrap()).into();
    for file in &files {
        file.write_at(b"bytes", 0).unwrap();
    }
    site.another().set_mode("/b", 0o600).unwrap();
    let synced = site.cluster.sync_many(&files.iter().collect::<Vec<_>>());
    assert!(synced.iter().all(Result::is_ok), "{synced:?}");
    assert_eq!(site.another().open("/b").unwrap().record().first_synced_count(), 1);
}

/// However it is written, a file of six bytes takes a block for them and one for its description.
#[test]
fn a_file_of_six_bytes_takes_eight_kilobytes() {
    for transport in [Transport::Embedded, Transport::ShortCut, Transport::Socket] {
        let site = Site::new(transport);
        let file = site.cluster.create("/six").unwrap();
        assert_eq!(file.len().unwrap(), 0);
        file.write_at(b"hel", 0).unwrap();
        file.write_at(b"lo\n", 3).unwrap();
        assert_eq!(file.len().unwrap(), 6);
        let mut bytes = [0; 8];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 6);
        file.close().unwrap();
        assert_eq!(site.subfiles(), 1, "{transport:?}");
        let disks: Vec<_> =
            (0..4).map(|disk| site.dir.path().join(format!("disk{disk}"))).collect();
        let taken = |disk: &std::path::PathBuf| {
            let mark = std::fs::metadata(disk.join("pario.disk")).unwrap().blocks() * 512;
            blocks_below(disk) - mark
        };
        let taken: u64 = disks.iter().map(taken).sum();
        assert!(taken <= 8192, "{transport:?}: {taken} bytes");
        // A client that goes on gets the descriptors of all subfiles.
        let file = site.cluster.options().read(true).write(true).open("/six").unwrap();
        file.write_at(b"HELLO", 0).unwrap();
        file.write_at(&[7; 300_000], 100).unwrap();
        assert_eq!((file.len().unwrap(), site.subfiles()), (300_100, 4), "{transport:?}");
        assert_eq!(file.has_short_cut(), transport != Transport::Socket);
        let mut bytes = vec![0; 300_100];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(
            bytes[..5] == *b"HELLO" && bytes[100..].iter().all(|byte| *byte == 7),
            "{transport:?}"
        );
    }
}
