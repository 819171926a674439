//! A disk that stalls, and one that is slow: only requests that need the disk wait.

use std::time::{Duration, Instant};

use pario::{Cluster, ExtentIndex, ExtentPlacement, File, SubfileIndex};
use pario_server::Node;
use pario_server::config::Config;

use super::lab::{
    ALLOWED, IN_TIME, Lab, NAMES, SOON, Stalled, at_once, make_image, mount_privately, pattern,
    until,
};
use super::names::LOOK;

const LEN: usize = 256 << 10;
const LEN_BYTES: u64 = LEN as u64;

fn create_on(cluster: &Cluster, disk: &str, path: &str) -> File {
    let options = cluster.options().read(true).write(true).create_new(true).disks([disk]);
    let file = options.open(path).unwrap_or_else(|error| panic!("{error}"));
    file.write_at(&pattern(3, 0, LEN), 0).unwrap();
    file.sync().unwrap();
    file
}

fn tile(number: u64) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(number) }
}

#[track_caller]
fn has(file: &File, seed: u64, offset: u64) {
    let mut bytes = vec![0; LEN];
    file.read_exact_at(&mut bytes, offset).unwrap();
    assert!(bytes == pattern(seed, 0, LEN), "what was acknowledged is gone");
}

/// Everything that does not need the stalled disk.
fn others_go_on(lab: &Lab, cluster: &Cluster, others: &[File], round: usize) {
    for other in others {
        at_once("reading", || other.read_exact_at(&mut vec![0; LEN], 0));
        at_once("writing", || other.write_at(&pattern(3, 0, LEN), 0));
        at_once("syncing", || other.sync());
        at_once("measuring", || other.len());
    }
    let fresh = at_once("connecting", || lab.try_connect(round % NAMES.len()));
    for asking in [cluster, &fresh] {
        let began = Instant::now();
        let status = asking.status(IN_TIME);
        assert!(began.elapsed() < ALLOWED, "the status took {:?}", began.elapsed());
        for (node, status) in status {
            assert!(status.is_ok(), "{node}: {:?}", status.err());
        }
        let (new, directory) = (format!("/new{round}"), format!("/directory{round}"));
        let moved = format!("{directory}/moved");
        at_once("creating", || asking.create(&new)?.close());
        at_once("listing", || asking.list_names("/")?.collect::<Result<Vec<_>, _>>());
        at_once("opening", || asking.open(&new));
        at_once("opening what is on the disk", || asking.open("/stalled"));
        at_once("a directory", || asking.make_directory(&directory));
        at_once("renaming", || asking.rename(&new, &moved));
        at_once("changing rights", || asking.set_mode("/other0", 0o640));
        at_once("deleting", || asking.remove(&moved));
        at_once("deleting", || asking.remove_directory(&directory));
    }
}

fn a_stalled_disk_delays_no_other_request(node: usize) {
    let Some(lab) = Lab::start_with_small_disk(node, 64) else { return };
    let cluster = lab.cluster();
    let stalled_disk = format!("{}/disk0", NAMES[node]);
    let file = create_on(&cluster, &stalled_disk, "/stalled");
    create_on(&cluster, &stalled_disk, "/deleted").close().unwrap();
    let near = format!("{}/disk1", NAMES[node]);
    let gone = create_on(&cluster, &near, "/gone");
    let gone_id = gone.record().id;
    gone.close().unwrap();
    let far = format!("{}/disk0", NAMES[(node + 1) % NAMES.len()]);
    let others: Vec<File> = [near.clone(), far]
        .iter()
        .enumerate()
        .map(|(number, disk)| create_on(&cluster, disk, &format!("/other{number}")))
        .collect();

    let tiles = |disk: &str, path: &str| {
        let options = cluster.options().read(true).write(true).create_new(true);
        let tiles = options.extents().disks([disk]).open(path).unwrap();
        tiles.write_extent(b"", &pattern(9, 0, LEN), tile(0)).unwrap();
        tiles
    };
    let (stalled_tiles, near_tiles) = (tiles(&stalled_disk, "/tiles0"), tiles(&near, "/tiles1"));

    std::thread::scope(|scope| {
        let stalled = lab.stall_small_disk();
        let write = file.start_write_at(pattern(5, 0, LEN), LEN_BYTES).unwrap();
        let sync = scope.spawn(|| file.sync());
        // More than the disk has under way.
        let write_tile = |number| {
            stalled_tiles
                .start_write_extent(&b""[..], pattern(9, 8 * number, LEN), tile(number))
                .unwrap()
        };
        let written_tiles: Vec<_> = (1..40).map(write_tile).collect();
        others_go_on(&lab, &cluster, &others, 0);
        for number in 1..40 {
            at_once("writing an extent", || {
                near_tiles.write_extent(b"", &pattern(9, 8 * number, LEN), tile(number))
            });
            at_once("reading an extent", || near_tiles.read_extent(tile(number)));
        }

        // The node deletes subfiles on that disk later, and all others at once.
        at_once("deleting what is on the disk", || cluster.remove("/deleted"));
        assert!(lab.has_subfile(node, 1, gone_id));
        at_once("deleting", || cluster.remove("/gone"));
        let began = Instant::now();
        until("its bytes are gone", || (!lab.has_subfile(node, 1, gone_id)).then_some(()));
        assert!(began.elapsed() < 2 * ALLOWED, "it was held up for {:?}", began.elapsed());
        at_once("creating on the disk", || {
            cluster.options().write(true).create_new(true).disks([&stalled_disk]).open("/empty")
        });
        let told = until("the status tells of it", || {
            let (_, status) = cluster.status(IN_TIME).swap_remove(node);
            let disk = &status.ok()?.disks[0];
            assert!(disk.queue > 0, "something waits for it");
            disk.trouble.clone()
        });
        assert!(told.contains("finished nothing for"), "{told}");
        others_go_on(&lab, &cluster, &others, 1);

        // Many want something of it, and then too many.
        let write_one = |number: u64| {
            file.start_write_at(pattern(7, 8 * number, 8), 2 * LEN_BYTES + 8 * number).unwrap()
        };
        let crowd: Vec<_> = (0..5_000).map(write_one).collect();
        others_go_on(&lab, &cluster, &others, 2);
        let mut refused: Vec<_> = (5_000..40_000).map(write_one).collect();
        others_go_on(&lab, &cluster, &others, 4);
        let told = refused.pop().unwrap().wait().unwrap_err().to_string();
        assert!(told.contains(&stalled_disk) && told.contains("requests wait"), "{told}");

        assert!(!write.is_done(), "the disk takes no writes");
        drop(stalled);
        // Some of these were accepted: dropping a write waits for it.
        drop(refused);
        write.wait().unwrap();
        sync.join().unwrap().unwrap();
        for (number, write) in (1..).zip(written_tiles) {
            write.wait().unwrap();
            let found = stalled_tiles.read_extent(tile(number)).unwrap().unwrap();
            assert!(found.body == pattern(9, 8 * number, LEN), "what was acknowledged is gone");
        }
        for write in crowd {
            write.wait().unwrap();
        }
    });
    has(&file, 3, 0);
    has(&file, 5, LEN_BYTES);
    let mut bytes = vec![0; 40_000];
    file.read_exact_at(&mut bytes, 2 * LEN_BYTES).unwrap();
    assert!(bytes == pattern(7, 0, 40_000), "what was acknowledged is gone");
    at_once("syncing", || file.sync());
    until("the files deleted during the stall are gone", || {
        let report = cluster.check(LOOK).unwrap();
        report.findings.is_empty().then_some(())
    });
    others_go_on(&lab, &cluster, &others, 3);
}

#[test]
fn a_stalled_disk_of_a_node_delays_no_other_request() {
    a_stalled_disk_delays_no_other_request(1);
}

#[test]
fn a_stalled_disk_of_the_interface_node_delays_no_other_request() {
    a_stalled_disk_delays_no_other_request(0);
}

#[test]
fn a_slow_disk_delays_no_other_request() {
    const BYTES_PER_SECOND: u64 = 2 << 20;
    const PIECES: u64 = 32;
    let Some(lab) = Lab::start_with_small_disk(1, 64) else { return };
    let cluster = lab.cluster();
    let file = create_on(&cluster, "beta/disk0", "/stalled");
    let others = [
        create_on(&cluster, "beta/disk1", "/other0"),
        create_on(&cluster, "gamma/disk0", "/other1"),
    ];
    let Some(throttled) = lab.throttle_small_disk(BYTES_PER_SECOND) else { return };
    let began = Instant::now();
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| {
            for piece in 0..PIECES {
                file.write_at(&pattern(piece, 0, LEN), piece * LEN_BYTES).unwrap();
            }
            file.sync().unwrap();
            began.elapsed()
        });
        let mut round = 0;
        while !copy.is_finished() {
            others_go_on(&lab, &cluster, &others, round);
            round += 1;
        }
        let took = copy.join().unwrap();
        eprintln!("8 MiB and a sync took {took:?}, during {round} rounds of everything else");
        let least = Duration::from_secs(PIECES * LEN_BYTES / BYTES_PER_SECOND / 2);
        assert!(took > least, "the disk was not slow: {took:?}");
        assert!(took < SOON && round > 2, "{took:?}, {round} rounds");
    });
    drop(throttled);
    for piece in 0..PIECES {
        has(&file, piece, piece * LEN_BYTES);
    }
    file.close().unwrap();
}

#[test]
fn a_stalled_disk_delays_no_client_that_wants_descriptors_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let Some(image) = make_image(dir.path(), 64) else { return };
    let config = Config::alone(dir.path());
    let disk = &config.nodes[0].disks[0].path;
    std::fs::create_dir_all(disk).unwrap();
    if !mount_privately(&["-o", "loop", &image.display().to_string()], disk) {
        return;
    }
    std::fs::remove_dir(disk.join("lost+found")).unwrap();
    let mut config = config.clone();
    config.nodes[0].socket = dir.path().join("socket");
    let _node = Node::start(&config, "local").unwrap();
    let connect = || Cluster::connect(&format!("unix:{}", dir.path().join("socket").display()));
    let clusters = [connect().unwrap(), connect().unwrap(), connect().unwrap()];
    let create = |cluster: &Cluster, disk: &str, path: &str| {
        let options = cluster.options().read(true).write(true).create_new(true);
        options.disks([disk]).open(path).unwrap()
    };
    std::thread::scope(|scope| {
        let stalled = Stalled::new(disk);
        let held_up = clusters.each_ref().map(|cluster| {
            let file = create(cluster, "local/disk0", &format!("/{}", fastrand::u64(..)));
            scope.spawn(move || {
                file.write_at(&pattern(1, 0, LEN), 0).unwrap();
                file
            })
        });
        let (create, clusters) = (&create, &clusters);
        let others = scope.spawn(move || {
            for round in 0..10 {
                let other = create(&clusters[round % 3], "local/disk1", &format!("/other{round}"));
                let began = Instant::now();
                assert!(other.has_short_cut());
                assert!(began.elapsed() < ALLOWED, "it was held up for {:?}", began.elapsed());
                at_once("writing", || other.write_at(&pattern(2, 0, LEN), 0));
            }
        });
        // A request for descriptors has no time limit: the disk must go on if this fails.
        until("others have theirs", || others.is_finished().then_some(()));
        others.join().unwrap();
        assert!(held_up.iter().all(|thread| !thread.is_finished()), "the disk takes no writes");
        drop(stalled);
        for thread in held_up {
            has(&thread.join().unwrap(), 1, 0);
        }
    });
    let fresh = create(&clusters[0], "local/disk0", "/fresh");
    assert!(fresh.has_short_cut(), "the disk is not slow any more");
}
