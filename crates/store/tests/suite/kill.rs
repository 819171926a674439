//! SIGKILL in the middle of real work, hundreds of times: every acknowledged write survives.
//!
//! The test starts its own executable as the process to kill. That process reports acknowledged
//! writes on its standard output; the test kills it after a random number of them.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use fastrand::Rng;
use pario_store::{
    Caching, CheckDepth, Completion, Disk, DiskOptions, NewSubfile, Queue, QueueOptions, Reply,
    Request, SubfileId,
};

const EXTENTS: SubfileId = SubfileId::data(1, 0);
const FLAT: SubfileId = SubfileId::data(2, 0);
const INDICES: u64 = 200;
const CHILD: &str = "PARIO_KILL_CHILD";
const ACKNOWLEDGEMENT_BYTES: usize = 17;

/// Small limits, so that kills hit syncs and checkpoints often.
fn options() -> DiskOptions {
    DiskOptions { journal_bytes: 16 << 10, unsynced_bytes: 2 << 20, ..DiskOptions::default() }
}

/// The content of extent `index` after its change number `stamp`.
fn content(index: u64, stamp: u64) -> Option<Vec<u8>> {
    let mut rng = Rng::with_seed(index << 40 | stamp);
    if rng.u8(..8) == 0 {
        return None;
    }
    let len = rng.usize(..20_000);
    let mut body = stamp.to_le_bytes().to_vec();
    body.extend((0..len).map(|i| (stamp as usize + i) as u8));
    Some(body)
}

/// Changes subfiles until the process is killed.
fn work(dir: &Path, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let disk = Disk::open(dir, options()).unwrap();
    let file = disk.open_extents(EXTENTS).unwrap();
    let flat = disk.open_flat(FLAT).unwrap();
    let mut queue = Queue::new(QueueOptions { depth_per_disk: 8, ..Default::default() }).unwrap();
    let mut stamps: HashMap<u64, u64> = HashMap::new();
    let mut busy: HashMap<u64, u64> = HashMap::new();
    let mut out = std::io::stdout();
    let mut acknowledge = |kind: u8, index: u64, stamp: u64| {
        let mut line = vec![kind];
        line.extend(index.to_le_bytes());
        line.extend(stamp.to_le_bytes());
        out.write_all(&line).and_then(|()| out.flush()).unwrap();
    };
    // Stamps grow over all processes: the seed is the number of the process.
    let mut next_stamp = seed << 24;
    loop {
        let index = rng.u64(..INDICES);
        if queue.len() < 8 && !busy.contains_key(&index) {
            next_stamp += 1;
            stamps.insert(index, next_stamp);
            busy.insert(index, next_stamp);
            match content(index, next_stamp) {
                Some(body) => {
                    let mut extent = file.buffer(0, body.len()).unwrap();
                    extent.body_mut().copy_from_slice(&body);
                    let (file, caching) = (file.clone(), Caching::Use);
                    queue.submit(index, Request::WriteExtent { file, index, extent, caching });
                }
                None => queue.submit(index, Request::DeleteExtent { file: file.clone(), index }),
            }
        } else if let Some(Completion { tag, result, .. }) = queue.wait() {
            assert!(matches!(result.unwrap(), Reply::Written | Reply::Deleted(_)));
            acknowledge(0, tag, busy.remove(&tag).unwrap());
        }
        if rng.u8(..50) == 0 {
            let slot = rng.u64(..64);
            next_stamp += 1;
            flat.write_at(&next_stamp.to_le_bytes(), slot * 8).unwrap();
            acknowledge(1, slot, next_stamp);
        }
        if rng.u8(..200) == 0 {
            file.sync().unwrap();
        }
    }
}

#[test]
fn every_acknowledged_write_survives_a_kill() {
    if let Ok(child) = std::env::var(CHILD) {
        let (seed, dir) = child.split_once(':').unwrap();
        work(Path::new(dir), seed.parse().unwrap());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::create(dir.path(), options()).unwrap();
    disk.create_extents(NewSubfile::new(EXTENTS)).unwrap();
    disk.create_flat(NewSubfile::new(FLAT)).unwrap();
    drop(disk);
    let mut rng = Rng::with_seed(11);
    let mut last: HashMap<(u8, u64), u64> = HashMap::new();
    let mut acknowledged = 0;
    for life in 1..=250u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::every_acknowledged_write_survives_a_kill", "--nocapture"])
            .env(CHILD, format!("{life}:{}", dir.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut bytes = Vec::new();
        // The text of the test runner comes first; records start at the first byte 0 or 1.
        let wanted = rng.usize(1..1_500) * ACKNOWLEDGEMENT_BYTES;
        let mut chunk = [0; 4096];
        while bytes.len() < wanted {
            let count = out.read(&mut chunk).unwrap();
            assert!(count > 0, "the process ended by itself");
            bytes.extend_from_slice(&chunk[..count]);
        }
        child.kill().unwrap();
        out.read_to_end(&mut bytes).unwrap();
        child.wait().unwrap();
        let start = bytes.iter().position(|&byte| byte < 2).unwrap_or(bytes.len());
        for record in bytes[start..].chunks_exact(ACKNOWLEDGEMENT_BYTES) {
            let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            last.insert((record[0], word(1)), word(9));
            acknowledged += 1;
        }
        check(dir.path(), life, &mut last);
    }
    assert!(acknowledged > 10_000, "{acknowledged}");
}

fn check(dir: &Path, life: u64, last: &mut HashMap<(u8, u64), u64>) {
    let disk = Disk::open(dir, options()).unwrap();
    let file = disk.open_extents(EXTENTS).unwrap();
    for index in 0..INDICES {
        let found = file.read(index).unwrap().map(|extent| extent.body().to_vec());
        let acknowledged = last.get(&(0, index)).copied().unwrap_or(0);
        let expected = if acknowledged == 0 { None } else { content(index, acknowledged) };
        if found == expected {
            continue;
        }
        // A write in flight at the kill may have taken effect: a later change, whole.
        let stamp = match &found {
            Some(body) => u64::from_le_bytes(body[..8].try_into().unwrap()),
            None => (acknowledged.max(life << 24) + 1..=(life << 24) + 100_000)
                .find(|&stamp| content(index, stamp).is_none())
                .unwrap(),
        };
        assert!(stamp > acknowledged && stamp >> 24 == life, "extent {index} is old");
        assert!(found == content(index, stamp), "extent {index} is torn");
        last.insert((0, index), stamp);
    }
    let flat = disk.open_flat(FLAT).unwrap();
    for slot in 0..64 {
        let mut bytes = [0; 8];
        flat.read_at(&mut bytes, slot * 8).unwrap();
        let acknowledged = last.get(&(1, slot)).copied().unwrap_or(0);
        assert!(u64::from_le_bytes(bytes) >= acknowledged, "flat slot {slot}");
    }
    if life.is_multiple_of(10) {
        let problems = file.check(CheckDepth::Content).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}
