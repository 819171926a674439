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

/// Twelve reads of one disk whose threads serve eight requests at once.
#[test]
fn the_threads_of_a_disk_serve_several_requests_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    let text = format!(
        "[nodes.a]\ndata = \"{place}/a\"\nsocket = \"{place}/s\"\nconcurrent_requests = 8\n\
         disks = [{{ path = \"{place}/slow\", latency_ms = 200 }}, \"{place}/other\"]\n"
    );
    let config = Config::parse(&text, "cluster.toml").unwrap();
    let _node = Node::start(&config, "a").unwrap();
    let cluster = Cluster::connect(&format!("unix:{place}/s")).unwrap();
    let options = cluster.options().read(true).write(true).create_new(true);
    let file = options.disks(["a/slow"]).open("/slow").unwrap();
    file.write_at(&[7; 12], 0).unwrap();
    let reads: Vec<_> = (0..12).map(|at| file.start_read_at(1, at).unwrap()).collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, status) = cluster.status(Duration::from_secs(10)).remove(0);
        let status = status.unwrap();
        assert_eq!((status.storage_threads, status.threads.len()), (16, 16));
        let serve = |thread: &&pario::status::StorageThreadStatus| thread.serves.is_some();
        let busy = status.threads.iter().filter(serve).count();
        assert!(busy <= 8, "the other disk has threads of its own: {:?}", status.threads);
        if busy == 8 {
            let served = status.threads.iter().find(serve).unwrap();
            assert_eq!(served.serves.as_deref(), Some("read on a/slow"));
            assert_eq!(served.file, Some(file.record().id));
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", status.threads);
    }
    for read in reads {
        read.wait().unwrap();
    }
}
