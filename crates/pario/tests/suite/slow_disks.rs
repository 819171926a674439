//! Disks that the configuration slows down, as clients see them.

use std::time::{Duration, Instant};

use pario::{Cluster, ClusterOptions, ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_server::Node;
use pario_server::config::Config;

const LATENCY: Duration = Duration::from_millis(4);
const BYTES_PER_MS: u64 = 100_000;
const LEN: usize = 200_000;
const READS: u32 = 10;

/// The time of an I/O of `bytes` bytes on the slow disk.
fn takes(bytes: usize) -> Duration {
    LATENCY + Duration::from_millis(bytes as u64 / BYTES_PER_MS)
}

#[test]
fn nothing_goes_around_a_slow_disk() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    let text = format!(
        "[nodes.a]\ndata = \"{place}/a\"\nsocket = \"{place}/s\"\ncache = 0\ndisks = [\n\
         \"{place}/quick\",\n{{ path = \"{place}/slow\", latency_ms = 4, mb_per_s = 100 }},\n]\n"
    );
    let config = Config::parse(&text, "cluster.toml").unwrap();
    let _node = Node::start(&config, "a").unwrap();
    let options = ClusterOptions { short_cut: Some(true), ..Default::default() };
    let cluster = Cluster::connect_with(&format!("unix:{place}/s"), options).unwrap();
    let create = |disk: &str, path: &str| {
        let options = cluster.options().read(true).write(true).create_new(true);
        options.disks([disk]).open(path).unwrap()
    };
    assert!(create("a/quick", "/quick").has_short_cut());

    // Bytes that the page cache of the system has.
    let file = create("a/slow", "/slow");
    assert!(!file.has_short_cut());
    let bytes: Vec<u8> = (0..=250).cycle().take(LEN).collect();
    let begun = Instant::now();
    file.write_at(&bytes, 0).unwrap();
    assert!(begun.elapsed() >= takes(LEN), "{:?}", begun.elapsed());
    let begun = Instant::now();
    for _ in 0..READS {
        let mut found = vec![0; LEN];
        assert_eq!(file.read_at(&mut found, 0).unwrap(), LEN);
        assert!(found == bytes);
    }
    assert!(begun.elapsed() >= READS * takes(LEN), "{:?}", begun.elapsed());

    // Extents, asked for by several at once.
    let options = cluster.options().read(true).write(true).create_new(true);
    let tiles = options.extents().disks(["a/slow"]).open("/tiles").unwrap();
    let place = |extent| ExtentPlacement {
        subfile: SubfileIndex(0),
        extent: ExtentIndex(u64::from(extent)),
    };
    for extent in 0..READS {
        tiles.write_extent(b"", &bytes, place(extent)).unwrap();
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for extent in 0..READS {
            let (tiles, bytes) = (&tiles, &bytes);
            scope.spawn(move || {
                let found = tiles.read_extent(place(extent)).unwrap().unwrap();
                assert!(found.body == *bytes);
            });
        }
    });
    assert!(begun.elapsed() >= READS * takes(LEN), "{:?}", begun.elapsed());
}

/// Twelve reads of a slow disk, eight of them under way, and reads of another disk that the same
/// thread drives.
#[test]
fn one_thread_drives_a_slow_disk_and_a_quick_one() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    let text = format!(
        "[nodes.a]\ndata = \"{place}/a\"\nsocket = \"{place}/s\"\nconcurrent_requests = 8\n\
         storage_threads = 1\nshort_cut = \"off\"\n\
         disks = [{{ path = \"{place}/slow\", latency_ms = 500 }}, \"{place}/quick\"]\n"
    );
    let config = Config::parse(&text, "cluster.toml").unwrap();
    let _node = Node::start(&config, "a").unwrap();
    let cluster = Cluster::connect(&format!("unix:{place}/s")).unwrap();
    let create = |disk: &str, path: &str| {
        let options = cluster.options().read(true).write(true).create_new(true);
        let file = options.disks([disk]).open(path).unwrap();
        file.write_at(&[7; 12], 0).unwrap();
        file
    };
    let (slow, quick) = (create("a/slow", "/slow"), create("a/quick", "/quick"));
    let reads: Vec<_> = (0..12).map(|at| slow.start_read_at(1, at).unwrap()).collect();
    for at in 0..12 {
        let mut byte = [0];
        assert_eq!(quick.read_at(&mut byte, at).unwrap(), 1);
    }
    assert!(!reads[11].is_done(), "the reads of the quick disk were held up");
    let (_, status) = cluster.status(Duration::from_secs(10)).remove(0);
    let status = status.unwrap();
    assert_eq!((status.storage_threads, status.threads.len()), (1, 1));
    assert_eq!(status.threads[0].serves.as_deref(), Some("read on a/slow"));
    assert!(status.threads[0].waiting > 0 && status.threads[0].served >= 12, "{status:?}");
    for read in reads {
        read.wait().unwrap();
    }
}

/// A call over many extents of a slow disk, and a short call that begins when the long one fills the
/// line of the disk.
#[test]
fn a_call_with_many_extents_does_not_starve_another() {
    const EXTENTS: u64 = 1_000;
    const SHORT: u64 = 10;
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    let config = |pace: &str| {
        let text = format!(
            "[nodes.a]\ndata = \"{place}/a\"\nsocket = \"{place}/s\"\ncache = 0\n\
             storage_threads = 1\ndisks = [{{ path = \"{place}/disk\"{pace} }}]\n"
        );
        Config::parse(&text, "cluster.toml").unwrap()
    };
    let address = format!("unix:{place}/s");
    let place = |extent| ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(extent) };
    {
        let _node = Node::start(&config(""), "a").unwrap();
        let cluster = Cluster::connect(&address).unwrap();
        for (path, extents) in [("/long", EXTENTS), ("/short", SHORT)] {
            let options = cluster.options().read(true).write(true).create_new(true);
            let file = options.extents().open(path).unwrap();
            for extent in 0..extents {
                file.write_extent(b"", &[1; 100], place(extent)).unwrap();
            }
            file.close().unwrap();
        }
    }
    let _node = Node::start(&config(", latency_ms = 3"), "a").unwrap();
    let cluster = Cluster::connect(&address).unwrap();
    let count = |cluster: &Cluster, path: &str| {
        let file = cluster.open(path).unwrap();
        let counted = cluster.process(&file).operation("byte histogram", ()).merge(
            |all: &mut Vec<u64>, more: Vec<u64>| {
                all.iter_mut().zip(more).for_each(|(count, other)| *count += other);
            },
        );
        counted.unwrap().unwrap()[1]
    };
    let disk = || cluster.status(Duration::from_secs(10)).remove(0).1.unwrap().disks.remove(0);
    std::thread::scope(|scope| {
        let long = scope.spawn(|| count(&Cluster::connect(&address).unwrap(), "/long"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while disk().queue < 300 {
            assert!(Instant::now() < deadline && !long.is_finished(), "{:?}", disk());
        }
        let before = disk().reads;
        assert_eq!(count(&cluster, "/short"), SHORT * 100);
        let others = disk().reads - before - SHORT;
        assert!(!long.is_finished(), "the long call was too short");
        assert!(others < 150, "ten extents waited for {others} of another call");
        assert_eq!(long.join().unwrap(), EXTENTS * 100);
    });
}
