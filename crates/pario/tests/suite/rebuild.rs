//! The descriptions on the disks are enough to rebuild the namespace: paths, owners, modes, and
//! which bytes are lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pario::status::{CheckDepth, CheckReport, CheckRequest, FindingKind};
use pario::{Cluster, ClusterOptions, ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_server::Node;
use pario_server::config::Config;
use pario_store::medium::Pace;

use crate::sites::{
    NodeProcess, alone, any_port, connect_when_complete, key_options, tcp_of, until,
};

const LOOK: CheckRequest =
    CheckRequest { depth: CheckDepth::Names, is_repair: false, is_rebuild: false };
const REBUILD: CheckRequest = CheckRequest { is_rebuild: true, ..LOOK };

fn kinds(report: &CheckReport) -> Vec<(FindingKind, bool)> {
    let mut kinds: Vec<_> =
        report.findings.iter().map(|found| (found.kind, found.is_repaired)).collect();
    kinds.sort_by_key(|(kind, _)| format!("{kind:?}"));
    kinds
}

/// One node that can be stopped to lay hands on its disks.
struct Bench {
    config: Config,
    running: Option<(Cluster, Node)>,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(dir: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = alone(dir.path());
        change(&mut config);
        let mut bench = Self { config, running: None, dir };
        bench.start();
        bench
    }

    fn start(&mut self) {
        let node = crate::sites::start_over_any_namespace(&self.config, "local");
        let address = format!("unix:{}", self.config.nodes[0].socket.display());
        let options = ClusterOptions { short_cut: Some(true), ..Default::default() };
        self.running = Some((Cluster::connect_with(&address, options).unwrap(), node));
    }

    fn cluster(&self) -> &Cluster {
        &self.running.as_ref().unwrap().0
    }

    /// Stops it, does something to the directory, starts it again.
    fn stopped(&mut self, work: impl FnOnce(&Path)) {
        let (cluster, node) = self.running.take().unwrap();
        drop(cluster);
        node.stop();
        work(self.dir.path());
        self.start();
    }

    fn disks(&self) -> Vec<PathBuf> {
        self.config.nodes[0].disks.iter().map(|disk| disk.path.clone()).collect()
    }
}

fn lose_namespace(dir: &Path) {
    std::fs::remove_file(dir.join("namespace.redb")).unwrap();
}

/// The newest slot of each description of a disk, as docs/disk-format.md draws it; nothing where
/// there is none of version 2.
fn descriptions(disk: &Path) -> Vec<Option<Vec<u8>>> {
    let names = std::fs::read_dir(disk).unwrap().map(|entry| entry.unwrap().path());
    let files = names.filter_map(|path| match path.extension()?.to_str()? {
        "description" => Some(path),
        "extents" => Some(path.join("description")),
        _ => None,
    });
    let newest = |path: PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        let second = if bytes.len() > 4096 { 131_072 } else { 2048 };
        let slots = [0, second].into_iter().filter(|at| bytes.len() >= at + 96);
        let slots = slots.filter(|at| bytes[*at..].starts_with(b"PARIOSUB") && bytes[at + 16] == 2);
        let at = slots.max_by_key(|at| number(&bytes, at + 64))?;
        Some(bytes[at..].to_vec())
    };
    files.map(newest).collect()
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The mode in each description of a disk; nothing where it is unknown.
fn modes(disk: &Path) -> Vec<Option<usize>> {
    let mode = |slot: Vec<u8>| (number(&slot, 60) & 1 == 1).then(|| number(&slot, 80));
    descriptions(disk).into_iter().map(|slot| slot.and_then(mode)).collect()
}

/// The paths in the descriptions of a disk, in order.
fn paths(disk: &Path) -> Vec<String> {
    let path = |slot: Vec<u8>| {
        let at = 96 + 8 * number(&slot, 88) + number(&slot, 52);
        String::from_utf8(slot[at..at + number(&slot, 56)].to_vec()).unwrap()
    };
    let mut paths: Vec<_> = descriptions(disk).into_iter().flatten().map(path).collect();
    paths.sort();
    paths
}

#[test]
fn what_was_synced_and_is_lost_stays_an_error_through_every_rebuild() {
    let mut bench = Bench::new(tempfile::tempdir().unwrap(), |_| {});
    let options = || bench.cluster().options().read(true).write(true).create_new(true);
    let file = options().unit(1000).open("/synced").unwrap();
    file.write_at(&[1; 10_000], 0).unwrap();
    file.sync().unwrap();
    file.close().unwrap();
    let file = options().extents().open("/extents").unwrap();
    for subfile in 0..4 {
        let place = ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(1) };
        file.write_extent(b"", b"body", place).unwrap();
    }
    file.close().unwrap();
    let lost = [(FindingKind::Missing, false); 2];
    let rebuilt = [lost[0], lost[1], (FindingKind::Rebuilt, true), (FindingKind::Rebuilt, true)];
    bench.stopped(|dir| {
        let disk = dir.join("disk1");
        for entry in std::fs::read_dir(&disk).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match path.extension().and_then(|kind| kind.to_str()) {
                Some("extents") => std::fs::remove_dir_all(path).unwrap(),
                Some("flat" | "description") => std::fs::remove_file(path).unwrap(),
                _ => {}
            }
        }
    });
    for round in 0..3 {
        bench.stopped(lose_namespace);
        let report = bench.cluster().check(REBUILD).unwrap();
        assert_eq!(kinds(&report), rebuilt, "round {round}: {:?}", report.findings);
        let report = bench.cluster().check(LOOK).unwrap();
        assert_eq!(kinds(&report), lost, "round {round}: {:?}", report.findings);
        for finding in &report.findings {
            assert_eq!(finding.disk.as_deref(), Some("local/disk1"));
            assert!(finding.text.contains("its bytes are lost"), "{}", finding.text);
        }
        let file = bench.cluster().options().read(true).write(true).open("/synced").unwrap();
        let error = file.read_at(&mut [0; 10_000], 0).unwrap_err().to_string();
        assert!(error.contains("local/disk1"), "{error}");
        let error = file.write_at(&[2; 10_000], 0).unwrap_err().to_string();
        assert!(error.contains("local/disk1"), "{error}");
    }
}

#[test]
fn owners_and_modes_come_from_the_disks() {
    let mut bench = Bench::new(tempfile::tempdir().unwrap(), |_| {});
    let options = bench.cluster().options().read(true).write(true).create_new(true);
    options.unit(1000).mode(0o640).open("/kept").unwrap().write_at(&[1; 10_000], 0).unwrap();
    bench.cluster().create("/changed").unwrap().write_at(b"x", 0).unwrap();
    bench.cluster().set_mode("/changed", 0o755).unwrap();
    bench.cluster().set_mode("/changed", 0o604).unwrap();
    let options = bench.cluster().options().write(true).create_new(true);
    options
        .extents()
        .open("/extents")
        .unwrap()
        .write_extent(
            b"",
            b"x",
            ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(0) },
        )
        .unwrap();
    bench.cluster().set_mode("/extents", 0o444).unwrap();
    if rustix::process::geteuid().is_root() {
        bench.cluster().set_owner("/changed", Some(1000), Some(100)).unwrap();
    } else {
        println!("skipped: only root can give a file to another user");
    }
    let described = |cluster: &Cluster| {
        ["/kept", "/changed", "/extents"].map(|path| {
            let record = cluster.metadata(path).unwrap().record;
            (record.uid, record.gid, record.mode)
        })
    };
    let before = described(bench.cluster());
    assert_eq!(before.map(|(_, _, mode)| mode), [0o640, 0o604, 0o444]);
    bench.stopped(lose_namespace);
    let report = bench.cluster().check(REBUILD).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Rebuilt, true); 3], "nothing had to be guessed");
    assert_eq!(described(bench.cluster()), before);
    assert_eq!(bench.cluster().check(LOOK).unwrap().findings, []);
}

/// The first extent of a subfile.
fn place_of(subfile: u32) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(0) }
}

#[test]
fn renamed_files_are_rebuilt_under_their_new_names() {
    let mut bench = Bench::new(tempfile::tempdir().unwrap(), |_| {});
    let cluster = bench.cluster();
    // Longer than a short description takes.
    let deep = format!("/{}", "d".repeat(240)).repeat(5);
    cluster.make_directories(&deep).unwrap();
    let long = format!("{deep}/long");
    let options = || cluster.options().read(true).write(true).create_new(true);
    let write = |path: &str, byte: u8| {
        let file = options().unit(1000).open(path).unwrap();
        file.write_at(&[byte; 4000], 0).unwrap();
        file.close().unwrap();
    };
    write("/flat", 1);
    cluster.rename("/flat", "/flat-1").unwrap();
    cluster.rename("/flat-1", "/flat-2").unwrap();
    write("/replaced", 2);
    write("/new", 3);
    cluster.rename("/new", "/replaced").unwrap();
    write("/short", 4);
    cluster.rename("/short", &long).unwrap();
    // Subfiles that are made before the rename and after it.
    let file = options().unit(1000).open("/lazy").unwrap();
    file.write_at(&[5; 1000], 0).unwrap();
    cluster.rename("/lazy", "/made-later").unwrap();
    file.write_at(&[5; 3000], 1000).unwrap();
    file.close().unwrap();
    let file = options().extents().open("/extents").unwrap();
    file.write_extent(b"", b"before", place_of(0)).unwrap();
    cluster.rename("/extents", "/images").unwrap();
    file.write_extent(b"", b"after", place_of(1)).unwrap();
    file.close().unwrap();

    let disks = bench.disks();
    let flats = [long.as_str(), "/flat-2", "/made-later", "/replaced"];
    bench.stopped(|dir| {
        for disk in &disks {
            let found = paths(disk);
            let flat: Vec<_> = found.iter().filter(|path| *path != "/images").collect();
            assert_eq!(flat, flats, "{}", disk.display());
        }
        let images = disks.iter().flat_map(|disk| paths(disk));
        assert_eq!(images.filter(|path| path == "/images").count(), 2);
        lose_namespace(dir);
    });
    let report = bench.cluster().check(REBUILD).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Rebuilt, true); 5], "{:?}", report.findings);
    for (path, byte) in flats.into_iter().zip([4, 1, 5, 3]) {
        let mut bytes = [0; 4000];
        bench.cluster().open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [byte; 4000], "{path}");
    }
    let file = bench.cluster().open("/images").unwrap();
    assert_eq!(&file.read_extent(place_of(0)).unwrap().unwrap().body[..], b"before");
    assert_eq!(&file.read_extent(place_of(1)).unwrap().unwrap().body[..], b"after");
    // The disks take renames after a rebuild too.
    bench.cluster().rename("/flat-2", "/flat-3").unwrap();
    bench.stopped(lose_namespace);
    bench.cluster().check(REBUILD).unwrap();
    assert!(bench.cluster().open("/flat-3").is_ok());
}

/// The subfiles of a file that was replaced may outlive it: they do not take the name of the new one.
#[test]
fn a_replaced_file_does_not_come_back_under_its_name() {
    let mut bench = Bench::new(tempfile::tempdir().unwrap(), |_| {});
    let write = |bench: &Bench, path: &str, byte: u8| {
        let options = bench.cluster().options().write(true).create_new(true);
        let file = options.disks(["local/disk0"]).open(path).unwrap();
        file.write_at(&[byte; 100], 0).unwrap();
        file.close().unwrap();
    };
    write(&bench, "/f", 1);
    let (disk, mut kept) = (bench.disks()[0].clone(), Vec::new());
    bench.stopped(|_| {
        for entry in std::fs::read_dir(&disk).unwrap().map(Result::unwrap) {
            if entry.file_name() != "pario.disk" {
                kept.push((entry.path(), std::fs::read(entry.path()).unwrap()));
            }
        }
    });
    write(&bench, "/new", 2);
    bench.cluster().rename("/new", "/f").unwrap();
    bench.stopped(|dir| {
        for (path, bytes) in &kept {
            std::fs::write(path, bytes).unwrap();
        }
        lose_namespace(dir);
    });
    bench.cluster().check(REBUILD).unwrap();
    for (path, byte) in [("/f", 2), ("/f.recovered-1", 1)] {
        let mut bytes = [0; 100];
        bench.cluster().open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [byte; 100], "{path}");
    }
}

/// A rename waits for no disk, but a node that stops does.
#[test]
fn a_node_that_stops_sends_the_paths_that_wait() {
    let mut bench = Bench::new(tempfile::tempdir().unwrap(), |config| {
        let latency = Duration::from_millis(20);
        config.nodes[0].disks[0].pace = Some(Pace { latency, ..Pace::default() });
    });
    for number in 0..12 {
        let options = bench.cluster().options().write(true).create_new(true);
        let file = options.disks(["local/disk0"]).open(&format!("/{number}")).unwrap();
        file.write_at(b"x", 0).unwrap();
    }
    for number in 0..12 {
        bench.cluster().rename(&format!("/{number}"), &format!("/renamed-{number}")).unwrap();
    }
    let disk = bench.disks()[0].clone();
    bench.stopped(|_| {
        let found = paths(&disk);
        assert_eq!(found.len(), 12);
        assert!(found.iter().all(|path| path.starts_with("/renamed-")), "{found:?}");
    });
}

/// Two nodes, of which the second goes on while the first loses its namespace.
struct Pair {
    node: Option<Node>,
    child: NodeProcess,
    cluster: Option<Cluster>,
    first: std::net::SocketAddr,
    dir: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        crate::sites::write_key(dir.path());
        let node = Node::start(&crate::sites::two_nodes(dir.path(), any_port()), "a").unwrap();
        let first = tcp_of(&node.address());
        let child = NodeProcess::start(dir.path(), "b", Some(first));
        let address = format!("tcp:{first}");
        let cluster = Some(connect_when_complete(&address, &key_options(dir.path())));
        Self { node: Some(node), child, cluster, first, dir }
    }

    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().unwrap()
    }

    /// A file on the disks of the second node.
    fn file_at_b(&self, path: &str) -> pario::File {
        let options = self.cluster().options().read(true).write(true).create_new(true);
        options.unit(1000).disks(["b/disk0", "b/disk1"]).open(path).unwrap()
    }

    fn restart_a(&mut self, work: impl FnOnce(&Path)) {
        drop(self.cluster.take());
        self.node.take().unwrap().stop();
        work(self.dir.path());
        let config = crate::sites::two_nodes(self.dir.path(), self.first);
        self.node = Some(crate::sites::start_over_any_namespace(&config, "a"));
        let address = format!("tcp:{}", self.first);
        self.cluster = Some(connect_when_complete(&address, &key_options(self.dir.path())));
    }
}

/// Nodes that were not restarted remember which rights were revoked: files are usable all the same.
#[test]
fn rebuilt_files_are_usable_at_nodes_that_were_not_restarted() {
    let mut pair = Pair::new();
    let file = pair.file_at_b("/f");
    file.write_at(&[1; 4000], 0).unwrap();
    file.close().unwrap();
    for mode in [0o600, 0o644, 0o640] {
        pair.cluster().set_mode("/f", mode).unwrap();
    }
    pair.restart_a(|dir| std::fs::remove_file(dir.join("a/namespace.redb")).unwrap());
    let report = pair.cluster().check(REBUILD).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Rebuilt, true)]);
    assert_eq!(pair.cluster().metadata("/f").unwrap().record.mode, 0o640);
    let file = pair.cluster().options().read(true).write(true).open("/f").unwrap();
    let mut bytes = [0; 4000];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [1; 4000]);
    file.write_at(&[2; 4000], 0).unwrap();
    file.sync().unwrap();
}

/// A disk that is away when rights change gets them when it comes back.
#[test]
fn a_disk_that_was_away_catches_up() {
    let mut pair = Pair::new();
    let file = pair.file_at_b("/f");
    file.write_at(&[1; 4000], 0).unwrap();
    file.close().unwrap();
    let disks = ["b/disk0", "b/disk1"].map(|disk| pair.dir.path().join(disk));
    let all = |mode: usize| disks.iter().all(|disk| modes(disk) == [Some(mode)]);
    pair.cluster().set_mode("/f", 0o640).unwrap();
    assert!(all(0o640), "acknowledged means that nodes which are there have it");
    pair.child.kill();
    pair.cluster().set_mode("/f", 0o604).unwrap();
    assert!(all(0o640), "the node is away, and nothing waits for it");
    // The namespace remembers it, also over a restart.
    pair.restart_a_alone();
    pair.child = NodeProcess::start(pair.dir.path(), "b", Some(pair.first));
    until("the disks say the new mode", || all(0o604));
}

impl Pair {
    fn restart_a_alone(&mut self) {
        drop(self.cluster.take());
        self.node.take().unwrap().stop();
        self.node =
            Some(Node::start(&crate::sites::two_nodes(self.dir.path(), self.first), "a").unwrap());
    }
}

/// A disk that is away when a file is renamed gets the path when it comes back.
#[test]
fn a_disk_that_was_away_at_a_rename_catches_up() {
    let mut pair = Pair::new();
    let file = pair.file_at_b("/f");
    file.write_at(&[1; 4000], 0).unwrap();
    file.close().unwrap();
    let disks = ["b/disk0", "b/disk1"].map(|disk| pair.dir.path().join(disk));
    let all = |path: &str| disks.iter().all(|disk| paths(disk) == [path]);
    pair.cluster().rename("/f", "/g").unwrap();
    until("the disks say the new path", || all("/g"));
    pair.child.kill();
    pair.cluster().rename("/g", "/gone").unwrap();
    pair.cluster().rename("/gone", "/h").unwrap();
    assert!(all("/g"), "the node is away, and nothing waits for it");
    // The namespace remembers it, also over a restart.
    pair.restart_a_alone();
    pair.child = NodeProcess::start(pair.dir.path(), "b", Some(pair.first));
    until("the disks say the last path", || all("/h"));
    pair.restart_a(|dir| std::fs::remove_file(dir.join("a/namespace.redb")).unwrap());
    let report = pair.cluster().check(REBUILD).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Rebuilt, true)], "{:?}", report.findings);
    assert!(pair.cluster().open("/h").is_ok());
}

/// If disks disagree, the last rename that any of them knows counts, and the others learn it.
#[test]
fn the_last_rename_that_a_disk_knows_counts() {
    let mut pair = Pair::new();
    let options = pair.cluster().options().read(true).write(true).create_new(true);
    let file = options.unit(1000).disks(["b/disk0", "a/disk0", "b/disk1"]).open("/f").unwrap();
    file.write_at(&[1; 4000], 0).unwrap();
    file.close().unwrap();
    let [here, away] = ["a/disk0", "b/disk0"].map(|disk| pair.dir.path().join(disk));
    pair.child.kill();
    pair.cluster().rename("/f", "/g").unwrap();
    until("the disk that is there says the new path", || paths(&here) == ["/g"]);
    drop(pair.cluster.take());
    pair.node.take().unwrap().stop();
    std::fs::remove_file(pair.dir.path().join("a/namespace.redb")).unwrap();
    let config = crate::sites::two_nodes(pair.dir.path(), pair.first);
    pair.node = Some(crate::sites::start_over_any_namespace(&config, "a"));
    pair.child = NodeProcess::start(pair.dir.path(), "b", Some(pair.first));
    let address = format!("tcp:{}", pair.first);
    pair.cluster = Some(connect_when_complete(&address, &key_options(pair.dir.path())));
    assert_eq!(paths(&away), ["/f"]);
    let report = pair.cluster().check(REBUILD).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Rebuilt, true)], "{:?}", report.findings);
    assert!(pair.cluster().open("/g").is_ok());
    assert_eq!(paths(&away), ["/g"]);
}

/// While the interface node is away, clients use existing subfiles, and nodes create none.
#[test]
fn without_the_namespace_nothing_new_is_made() {
    let mut pair = Pair::new();
    let file = pair.file_at_b("/f");
    file.write_at(&[1; 1000], 0).unwrap();
    pair.node.take().unwrap().stop();
    file.write_at(&[2; 1000], 0).unwrap();
    let mut bytes = [0; 1000];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [2; 1000]);
    let error = file.write_at(&[3; 1000], 1000).unwrap_err().to_string();
    assert!(error.contains("node a"), "{error}");
    pair.node =
        Some(Node::start(&crate::sites::two_nodes(pair.dir.path(), pair.first), "a").unwrap());
    until("the node has joined again", || file.write_at(&[3; 1000], 1000).is_ok());
}

/// A node of before, as a program of that time left it: all bytes, and everything that the namespace
/// knew is on the disks soon.
#[test]
fn an_old_node_is_upgraded() {
    let dir = tempfile::tempdir().unwrap();
    unpack(include_str!("fixtures/node-v1.txt"), dir.path());
    let mut bench = Bench::new(dir, |config| config.nodes[0].disks.truncate(2));
    check_old_files(bench.cluster());
    assert_eq!(bench.cluster().metadata("/runs/synced").unwrap().record.mode, 0o644);
    assert_eq!(bench.cluster().check(LOOK).unwrap().findings, []);
    let disks = bench.disks();
    until("all descriptions have modes", || {
        disks.iter().all(|disk| modes(disk).iter().all(Option::is_some))
    });
    bench.stopped(lose_namespace);
    let report = bench.cluster().check(REBUILD).unwrap();
    assert_eq!(kinds(&report), [(FindingKind::Rebuilt, true); 3], "{:?}", report.findings);
    check_old_files(bench.cluster());
    assert_eq!(bench.cluster().metadata("/runs/synced").unwrap().record.mode, 0o644);
}

/// Old disks without their namespace: a rebuild says what it had to guess.
#[test]
fn a_rebuild_lists_what_it_had_to_guess() {
    let dir = tempfile::tempdir().unwrap();
    unpack(include_str!("fixtures/node-v1.txt"), dir.path());
    lose_namespace(dir.path());
    let bench = Bench::new(dir, |config| config.nodes[0].disks.truncate(2));
    let report = bench.cluster().check(REBUILD).unwrap();
    let guessed = report.findings.iter().filter(|found| found.kind == FindingKind::Guessed);
    let of_one: Vec<_> = guessed
        .filter(|found| found.path.as_ref().is_some_and(|path| path.as_str() == "/runs/synced"))
        .map(|found| found.text.as_str())
        .collect();
    assert_eq!(of_one.len(), 2, "{:?}", report.findings);
    assert!(of_one[0].contains("owner and mode") && of_one[1].contains("synced"), "{of_one:?}");
    let record = bench.cluster().metadata("/runs/synced").unwrap().record;
    assert_eq!((record.uid, record.mode), (rustix::process::geteuid().as_raw(), 0o600));
    check_old_files(bench.cluster());
    assert_eq!(bench.cluster().check(LOOK).unwrap().findings, []);
}

fn check_old_files(cluster: &Cluster) {
    let content: Vec<u8> = (0..251).cycle().take(5000).collect();
    let mut bytes = vec![0; 5010];
    assert_eq!(cluster.open("/runs/synced").unwrap().read_at(&mut bytes, 0).unwrap(), 5000);
    assert_eq!(bytes[..5000], content);
    assert_eq!(cluster.open("/runs/unsynced").unwrap().read_at(&mut bytes, 0).unwrap(), 12);
    assert_eq!(&bytes[..12], b"never synced");
    let place = ExtentPlacement { subfile: SubfileIndex(1), extent: ExtentIndex(4) };
    let extent = cluster.open("/extents").unwrap().read_extent(place).unwrap().unwrap();
    assert_eq!((&extent.header[..], &extent.body[..]), (&b"head"[..], &b"body of four"[..]));
}

/// Writes the files of a fixture: `file NAME LENGTH`, then `OFFSET BYTES` in hexadecimal for
/// everything that is not zero.
fn unpack(fixture: &str, dir: &Path) {
    let mut file = None;
    for line in fixture.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["file", name, len] = words[..] {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let new = std::fs::File::create(path).unwrap();
            new.set_len(len.parse().unwrap()).unwrap();
            file = Some(new);
        } else {
            use std::os::unix::fs::FileExt as _;
            let bytes = (0..words[1].len()).step_by(2);
            let bytes = bytes.map(|n| u8::from_str_radix(&words[1][n..n + 2], 16).unwrap());
            let at = u64::from_str_radix(words[0], 16).unwrap();
            file.as_ref().unwrap().write_all_at(&bytes.collect::<Vec<_>>(), at).unwrap();
        }
    }
}
