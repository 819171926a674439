//! Copying in and out, undisturbed and while nodes are killed.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario::{Cluster, File};

use super::lab::{ALLOWED, Lab, NAMES, SOON, is_heavy, pattern, until};

const PIECE_LEN: usize = 1 << 20;
const PIECE_BYTES: u64 = PIECE_LEN as u64;
const WORKERS: usize = 4;

/// Copies pieces to a file, by itself again where it fails.
struct Copier<'a> {
    file: &'a File,
    seed: u64,
    left: Mutex<VecDeque<u64>>,
    /// Pieces whose writing was acknowledged.
    written: AtomicU64,
    /// How long each failure took to be known, and what it said.
    failures: Mutex<Vec<(Duration, String)>>,
    killed: Mutex<Option<Instant>>,
}

impl<'a> Copier<'a> {
    fn new(file: &'a File, seed: u64, pieces: u64) -> Self {
        let left = Mutex::new((0..pieces).collect());
        let (written, failures) = (AtomicU64::new(0), Mutex::default());
        Self { file, seed, left, written, failures, killed: Mutex::default() }
    }

    fn work(&self) {
        let deadline = Instant::now() + 3 * SOON;
        loop {
            let Some(piece) = self.left.lock().unwrap().pop_front() else { return };
            let offset = piece * PIECE_BYTES;
            let bytes = pattern(self.seed, offset, PIECE_LEN);
            let mut began = Instant::now();
            match self.file.write_at(&bytes, offset) {
                Ok(()) => {
                    self.written.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => {
                    if let Some(killed) = *self.killed.lock().unwrap() {
                        began = began.max(killed);
                    }
                    self.failures.lock().unwrap().push((began.elapsed(), error.to_string()));
                    self.left.lock().unwrap().push_back(piece);
                    assert!(Instant::now() < deadline, "the copy does not end: {error}");
                    // A copier that does not drum on a node that is away.
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

fn compare(cluster: &Cluster, path: &str, seed: u64, pieces: u64) {
    let file = cluster.open(path).unwrap();
    assert_eq!(file.len().unwrap(), pieces * PIECE_BYTES);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut bytes = vec![0; PIECE_LEN];
                loop {
                    let piece = next.fetch_add(1, Ordering::SeqCst);
                    if piece >= pieces {
                        return;
                    }
                    let offset = piece * PIECE_BYTES;
                    file.read_exact_at(&mut bytes, offset).unwrap();
                    let expected = pattern(seed, offset, PIECE_LEN);
                    assert!(bytes == expected, "piece {piece} of {path} differs");
                }
            });
        }
    });
    file.close().unwrap();
}

#[test]
fn what_is_copied_in_comes_out_the_same() {
    let Some(lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let pieces = if is_heavy() { 2048 } else { 64 };
    let file = cluster.create("/copy").unwrap();
    let copier = Copier::new(&file, 1, pieces);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| copier.work());
        }
    });
    assert_eq!(*copier.failures.lock().unwrap(), []);
    file.close().unwrap();
    compare(&cluster, "/copy", 1, pieces);
    // Another client, which has come by another node, reads the same.
    compare(&lab.cluster_at(2), "/copy", 1, pieces);
    let metadata = cluster.metadata("/copy").unwrap();
    assert_eq!(metadata.subfiles.len(), 6);
}

#[test]
fn a_copy_outlives_the_death_of_each_node() {
    let Some(mut lab) = Lab::start() else { return };
    let pieces = if is_heavy() { 1024 } else { 48 };
    for (victim, name) in NAMES.into_iter().enumerate() {
        let cluster = lab.cluster();
        let path = format!("/copy{victim}");
        let file = cluster.create(&path).unwrap();
        let copier = Copier::new(&file, victim as u64, pieces);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| copier.work());
            }
            until("a third is written", || {
                (copier.written.load(Ordering::SeqCst) > pieces / 3).then_some(())
            });
            *copier.killed.lock().unwrap() = Some(Instant::now());
            lab.kill(victim);
            until("the copier sees it", || {
                (!copier.failures.lock().unwrap().is_empty()).then_some(())
            });
            lab.start_node(victim);
        });
        let failures = std::mem::take(&mut *copier.failures.lock().unwrap());
        for (took, error) in &failures {
            assert!(error.contains(name), "{} is not named: {error}", name);
            assert!(*took < ALLOWED, "known only after {took:?}: {error}");
        }
        let longest = failures.iter().map(|(took, _)| *took).max().unwrap();
        eprintln!("{}: {} failures, known after at most {longest:?}", name, failures.len());
        until("the file can be closed", || file.sync().ok());
        file.close().unwrap();
        compare(&cluster, &path, victim as u64, pieces);
    }
}
