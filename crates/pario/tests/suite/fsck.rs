//! Checking namespace against disks: every finding made by hand, repaired, and rebuilt.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use pario::status::{CheckDepth, CheckReport, CheckRequest, FindingKind};
use pario::{Cluster, ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_server::{MissingNamespace, Node};

use crate::sites::{
    NodeProcess, Over, alone, any_port, connect_when_complete, key_options, tcp_of,
};

const LOOK: CheckRequest =
    CheckRequest { depth: CheckDepth::Names, is_repair: false, is_rebuild: false };

fn kinds(report: &CheckReport) -> Vec<(FindingKind, bool)> {
    report.findings.iter().map(|found| (found.kind, found.is_repaired)).collect()
}

/// One node that can be stopped to lay hands on its disks.
struct Bench {
    dir: tempfile::TempDir,
    running: Option<(Cluster, Node)>,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self { dir: tempfile::tempdir().unwrap(), running: None };
        bench.start();
        bench
    }

    fn start(&mut self) {
        let config = alone(self.dir.path());
        let node = Node::start(&config, "local").unwrap();
        let cluster = Cluster::connect(&format!("unix:{}", config.nodes[0].socket.display()));
        self.running = Some((cluster.unwrap(), node));
    }

    fn cluster(&self) -> &Cluster {
        &self.running.as_ref().unwrap().0
    }

    /// Stops the node, runs `work` on its directory, and starts the node again.
    fn while_stopped(&mut self, work: impl FnOnce(&Path)) {
        let (cluster, node) = self.running.take().unwrap();
        drop(cluster);
        node.stop();
        work(self.dir.path());
        self.start();
    }

    /// A file of bytes on all four disks that was synced, or not.
    fn file(&self, path: &str, is_synced: bool) {
        let file = self.cluster().options().read(true).write(true).create_new(true);
        let file = file.unit(1000).open(path).unwrap();
        file.write_at(&[1; 10_000], 0).unwrap();
        if is_synced {
            file.sync().unwrap();
        }
    }
}

/// The subfiles on a disk.
fn subfiles(disk: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(disk).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "flat" || kind == "extents"))
        .collect();
    found.sort();
    found
}

#[test]
fn a_missing_subfile_is_found_if_it_was_synced() {
    let mut bench = Bench::new();
    bench.file("/synced", true);
    bench.file("/unsynced", false);
    assert_eq!(bench.cluster().check(LOOK).unwrap().findings, []);
    bench.while_stopped(|dir| {
        for subfile in subfiles(&dir.join("disk1")) {
            std::fs::remove_file(subfile.with_extension("description")).unwrap();
            std::fs::remove_file(subfile).unwrap();
        }
    });
    let report = bench.cluster().check(LOOK).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Missing, false)]);
    assert_eq!(report.findings[0].disk.as_deref(), Some("local/disk1"));
    assert_eq!(report.findings[0].path.as_ref().unwrap().as_str(), "/synced");
    let repair = CheckRequest { is_repair: true, ..LOOK };
    assert_eq!(bench.cluster().check(repair).unwrap(), report, "it cannot be repaired");
    let error = bench.cluster().open("/synced").unwrap().read_at(&mut [0; 10_000], 0).unwrap_err();
    assert!(error.to_string().contains("disk local/disk1: subfile"), "{error}");
    assert!(error.to_string().contains("`pario fsck` shows what is left"), "{error}");
    // The other file was never synced: it has a hole now, and can be written again.
    let file = bench.cluster().options().read(true).write(true).open("/unsynced").unwrap();
    let mut bytes = [7; 10_000];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let hole = bytes.iter().filter(|byte| **byte == 0).count();
    assert_eq!(hole, 3_000, "the second file begins on disk1, which has three of its ten units");
    file.write_at(&[2; 10_000], 0).unwrap();
    file.sync().unwrap();
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [2; 10_000]);
}

#[test]
fn foreign_and_swapped_subfiles_are_found() {
    let mut bench = Bench::new();
    bench.file("/a", true);
    bench.file("/b", true);
    bench.while_stopped(|dir| {
        // A subfile under the id of a file that there never was.
        let original = &subfiles(&dir.join("disk0"))[0];
        let name = original.file_name().unwrap().to_string_lossy().into_owned();
        let foreign: String = format!("{:032x}{}", 0xabc, &name[32..]);
        std::fs::copy(original, dir.join("disk0").join(foreign)).unwrap();
        // Two files that have each other's subfile, description and all.
        let two = subfiles(&dir.join("disk3"));
        let aside = dir.join("aside");
        for kind in ["flat", "description"] {
            let (one, other) = (two[0].with_extension(kind), two[1].with_extension(kind));
            std::fs::rename(&one, &aside).unwrap();
            std::fs::rename(&other, &one).unwrap();
            std::fs::rename(&aside, &other).unwrap();
        }
    });
    let report = bench.cluster().check(LOOK).unwrap();
    let count = |kind| report.findings.iter().filter(|found| found.kind == kind).count();
    assert_eq!(count(FindingKind::Mismatch), 2, "{:?}", report.findings);
    assert_eq!(count(FindingKind::Extra), 1, "{:?}", report.findings);
    assert_eq!(report.findings.len(), 3, "{:?}", report.findings);
    let repair = CheckRequest { is_repair: true, ..LOOK };
    let report = bench.cluster().check(repair).unwrap();
    assert!(report.findings.iter().all(|found| !found.is_repaired), "nothing of it is safe");
}

#[test]
fn a_flipped_bit_is_found_by_a_close_look() {
    let mut bench = Bench::new();
    let options = bench.cluster().options().read(true).write(true).create_new(true);
    let file = options.extents().disk_count(1).open("/e").unwrap();
    let place = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(4) };
    file.write_extent(b"head", &[0x5a; 100_000], place).unwrap();
    file.close().unwrap();
    let close = CheckRequest { depth: CheckDepth::Everything, ..LOOK };
    assert_eq!(bench.cluster().check(close).unwrap().findings, []);
    bench.while_stopped(|dir| {
        let disks = (0..4).flat_map(|n| subfiles(&dir.join(format!("disk{n}"))));
        let files = disks.flat_map(|dir| std::fs::read_dir(dir).unwrap());
        let mut flipped = 0;
        for path in files.map(|entry| entry.unwrap().path()) {
            let mut bytes = std::fs::read(&path).unwrap();
            let run = bytes.windows(1000).position(|run| run.iter().all(|byte| *byte == 0x5a));
            if let Some(start) = run {
                bytes[start + 500] ^= 1;
                std::fs::write(&path, bytes).unwrap();
                flipped += 1;
            }
        }
        assert_eq!(flipped, 1);
    });
    assert_eq!(bench.cluster().check(LOOK).unwrap().findings, []);
    let report = bench.cluster().check(close).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Damage, false)]);
    assert_eq!(report.findings[0].path.as_ref().unwrap().as_str(), "/e");
    assert!(bench.cluster().open("/e").unwrap().read_extent(place).is_err());
}

/// A namespace that was lost is made again from the disks of all nodes.
#[test]
fn a_lost_namespace_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    crate::sites::write_key(dir.path());
    let start = || {
        let config = crate::sites::two_nodes(dir.path(), any_port());
        let node = Node::new().missing_namespace(MissingNamespace::New).start(&config, "a");
        let node = node.unwrap();
        let first = tcp_of(&node.address());
        let child = NodeProcess::start(dir.path(), "b", Some(first));
        child.only_tcp();
        let cluster = connect_when_complete(&format!("tcp:{first}"), &key_options(dir.path()));
        (cluster, node, child)
    };
    let content = |number: usize| vec![u8::try_from(number).unwrap(); 5000 * (number + 1)];
    let (cluster, node, child) = start();
    cluster.make_directories("/deep/below").unwrap();
    for number in 0..12 {
        let options = cluster.options().read(true).write(true).create_new(true).unit(700);
        let options = if number % 3 == 0 { options.disk_count(3) } else { options };
        let file = options.open(&format!("/deep/below/{number}")).unwrap();
        file.write_at(&content(number), 0).unwrap();
    }
    let options = cluster.options().read(true).write(true).create_new(true);
    let extents = options.extents().open("/extents").unwrap();
    let place = ExtentPlacement { subfile: SubfileIndex(2), extent: ExtentIndex(9) };
    extents.write_extent(b"h", b"body", place).unwrap();
    drop(extents);
    let ids = |cluster: &Cluster| {
        let nodes = cluster.map().nodes;
        let mut disks: Vec<_> = nodes.into_iter().flat_map(|node| node.disks).collect();
        disks.sort_by_key(|disk| disk.uuid);
        disks.into_iter().map(|disk| (disk.uuid, disk.id)).collect::<Vec<_>>()
    };
    let known = ids(&cluster);
    drop(cluster);
    child.stop();
    node.stop();
    std::fs::remove_file(dir.path().join("a/namespace.redb")).unwrap();
    let (cluster, node, child) = start();
    assert_eq!(ids(&cluster), known, "the disks have the ids of before");
    assert!(cluster.list("/").unwrap().next().is_none());
    let report = cluster.check(LOOK).unwrap();
    assert!(report.findings.iter().all(|found| found.kind == FindingKind::Extra));
    let rebuild = CheckRequest { is_rebuild: true, ..LOOK };
    let report = cluster.check(rebuild).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Rebuilt, true); 13]);
    assert_eq!(cluster.check(LOOK).unwrap().findings, []);
    for number in 0..12 {
        let file = cluster.open(&format!("/deep/below/{number}")).unwrap();
        let mut bytes = vec![0; 5000 * (number + 1) + 10];
        let count = file.read_at(&mut bytes, 0).unwrap();
        assert!(bytes[..count] == content(number));
    }
    let extents = cluster.open("/extents").unwrap();
    assert_eq!(extents.read_extent(place).unwrap().unwrap().body[..], *b"body");
    drop(extents);
    cluster.create("/new").unwrap().write_at(b"x", 0).unwrap();
    assert_eq!(cluster.check(LOOK).unwrap().findings, []);
    drop(cluster);
    child.stop();
    node.stop();
}

/// Files that come and go while a check looks are not found wrong; those of an earlier start
/// neither.
#[test]
fn a_check_during_traffic_finds_nothing() {
    let mut bench = Bench::new();
    let path = |thread: usize, number: usize| format!("/{thread}-{number}");
    for thread in 0..3 {
        for number in 0..100 {
            bench.cluster().create(&path(thread, number)).unwrap();
        }
    }
    bench.while_stopped(|_| {});
    let (cluster, is_over) = (bench.cluster(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let is_over = &is_over;
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Acquire) {
                        break;
                    }
                    let options = cluster.options().write(true).create_new(true);
                    options.open(&path(thread, number + 100)).unwrap().write_at(b"x", 0).unwrap();
                    cluster.remove(&path(thread, number)).unwrap();
                }
            });
        }
        let _over = Over(&is_over);
        for _ in 0..40 {
            let report = cluster.check(CheckRequest { depth: CheckDepth::Everything, ..LOOK });
            assert_eq!(report.unwrap().findings, []);
        }
    });
}

/// A failed sync is remembered on the disk: the file can be read, takes no changes, is found by every
/// check, and is usable again after a repair.
#[test]
fn a_subfile_whose_sync_has_failed_is_found_and_repaired() {
    let mut bench = Bench::new();
    bench.file("/f", true);
    bench.while_stopped(|dir| {
        // As the store marks it.
        let disk = pario_store::Disk::open(dir.join("disk2"), Default::default()).unwrap();
        let (id, _) = disk.subfile_ids().unwrap()[0];
        disk.update_description(id, |description| description.is_poisoned = true).unwrap();
    });
    let file = bench.cluster().options().read(true).write(true).open("/f").unwrap();
    let mut bytes = [0; 10_000];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [1; 10_000], "it can be read");
    for result in [file.write_at(&[2; 10_000], 0).map(|_| ()), file.sync()] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("disk2") && error.contains("fsck --repair"), "{error}");
    }
    drop(file);
    // The mark outlasts the node.
    bench.while_stopped(|_| {});
    let report = bench.cluster().check(LOOK).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Poisoned, false)]);
    assert_eq!(report.findings[0].path.as_ref().unwrap().as_str(), "/f");
    assert!(report.findings[0].text.contains("may be lost"), "{}", report.findings[0].text);
    let repair = CheckRequest { is_repair: true, ..LOOK };
    let report = bench.cluster().check(repair).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Poisoned, true)]);
    assert!(report.findings[0].text.contains("(2000 bytes)"), "{}", report.findings[0].text);
    assert_eq!(bench.cluster().check(LOOK).unwrap().findings, []);
    let file = bench.cluster().options().read(true).write(true).open("/f").unwrap();
    file.write_at(&[2; 10_000], 0).unwrap();
    file.sync().unwrap();
}

/// A deep check says how much it has verified, and how much cannot be.
#[test]
fn a_deep_check_counts_bytes_with_and_without_checksum() {
    let bench = Bench::new();
    bench.file("/flat", false);
    let options = bench.cluster().options().read(true).write(true).create_new(true);
    let file = options.extents().open("/extents").unwrap();
    let place = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(4) };
    file.write_extent(b"head", &[1; 100], place).unwrap();
    let deep = CheckRequest { depth: CheckDepth::Everything, ..LOOK };
    let report = bench.cluster().check(deep).unwrap();
    assert_eq!((report.verified_bytes, report.unverified_bytes), (104, 10_000));
    let report = bench.cluster().check(LOOK).unwrap();
    assert_eq!((report.verified_bytes, report.unverified_bytes), (0, 0));
}
