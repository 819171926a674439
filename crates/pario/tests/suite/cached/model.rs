//! Random programs of several ranks, against one vector of bytes and the file on the disk.

use std::io::SeekFrom;
use std::path::Path;
use std::time::Duration;

use pario::cached::CachedFileSource;
use pario::{CachedFile, CachedOptions, Cluster};
use proptest::prelude::*;

use super::content::bytes;
use super::job_ranks::spread;
use crate::ranks::{EVERY_DISTRIBUTION, Machines};

const SIZE: u32 = 4;
/// Some pages of each rank, and the last one not full.
const LARGEST: u64 = 40 * 65_536 + 777;

#[derive(Clone, Debug)]
enum Step {
    Write {
        rank: u32,
        offset: u64,
        len: usize,
    },
    Read {
        rank: u32,
        offset: u64,
        len: usize,
    },
    Seek {
        rank: u32,
        whence: u8,
        distance: i64,
    },
    WriteHere {
        rank: u32,
        len: usize,
    },
    ReadHere {
        rank: u32,
        len: usize,
    },
    /// All at the same time, each at places of its own.
    WriteAll {
        part: u64,
        parts: u64,
    },
    Flush,
    Reserve {
        bytes: u64,
    },
    Reopen,
}

fn offset() -> impl Strategy<Value = u64> {
    // Also around the ends of pages.
    prop_oneof![
        0..LARGEST,
        (0..40_u64, 0..20_u64).prop_map(|(page, near)| (page * 65_536 + near).saturating_sub(10))
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let rank = 0..SIZE;
    let len = prop_oneof![0..100_usize, 0..200_000_usize, Just(65_536_usize)];
    prop_oneof![
        4 => (rank.clone(), offset(), len.clone())
            .prop_map(|(rank, offset, len)| Step::Write { rank, offset, len }),
        4 => (rank.clone(), offset(), len.clone())
            .prop_map(|(rank, offset, len)| Step::Read { rank, offset, len }),
        2 => (rank.clone(), 0..3_u8, -200_000..2_000_000_i64)
            .prop_map(|(rank, whence, distance)| Step::Seek { rank, whence, distance }),
        2 => (rank.clone(), len.clone()).prop_map(|(rank, len)| Step::WriteHere { rank, len }),
        2 => (rank, len).prop_map(|(rank, len)| Step::ReadHere { rank, len }),
        2 => (1..900_u64, 5..60_u64).prop_map(|(part, parts)| Step::WriteAll { part, parts }),
        2 => Just(Step::Flush),
        1 => offset().prop_map(|bytes| Step::Reserve { bytes }),
        1 => Just(Step::Reopen),
    ]
}

/// The state of a sequential program.
#[derive(Clone)]
struct Model {
    content: Vec<u8>,
    room: Option<u64>,
    positions: [u64; SIZE as usize],
}

impl Model {
    fn can_write(&self, offset: u64, len: usize) -> bool {
        self.room.is_some_and(|room| offset + len as u64 <= room)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if !self.can_write(offset, bytes.len()) {
            return false;
        }
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if !bytes.is_empty() {
            self.content.resize(self.content.len().max(end), 0);
            self.content[start..end].copy_from_slice(bytes);
        }
        true
    }

    fn read(&self, offset: u64, len: usize) -> Option<&[u8]> {
        if len == 0 {
            return Some(&[]);
        }
        self.content.get(offset as usize..offset as usize + len)
    }
}

/// One rank's part of a program; every rank keeps the same model.
fn run(
    file: CachedFile,
    reopen: &dyn Fn() -> CachedFile,
    steps: &[Step],
    content: Vec<u8>,
) -> Vec<u8> {
    let mut file = file;
    let own = file.job().rank();
    let mut model = Model { content, room: None, positions: [0; SIZE as usize] };
    for (number, step) in steps.iter().enumerate() {
        let seed = number as u64;
        match step {
            Step::Write { rank, offset, len } => {
                let is_fine = model.write(*offset, &bytes(seed, *len));
                if own == *rank {
                    let written = file.write_at(&bytes(seed, *len), *offset);
                    assert_eq!(written.is_ok(), is_fine, "{step:?}: {written:?}");
                }
            }
            Step::Read { rank, offset, len } => {
                if own == *rank {
                    let mut got = vec![0; *len];
                    let read = file.read_exact_at(&mut got, *offset);
                    let right = model.read(*offset, *len);
                    assert_eq!(read.is_ok(), right.is_some(), "{step:?}: {read:?}");
                    assert!(right.is_none_or(|right| right == got), "{step:?}");
                }
            }
            Step::Seek { rank, whence, distance } => {
                let position = model.positions[*rank as usize];
                let (from, to) = match whence {
                    0 => (0, SeekFrom::Start(distance.unsigned_abs())),
                    1 => (position, SeekFrom::Current(*distance)),
                    _ => (model.content.len() as u64, SeekFrom::End(*distance)),
                };
                let distance = if *whence == 0 { distance.abs() } else { *distance };
                let place = from.checked_add_signed(distance);
                if own == *rank {
                    assert_eq!(file.move_to(to).ok(), place, "{step:?}");
                }
                model.positions[*rank as usize] = place.unwrap_or(position);
            }
            Step::WriteHere { rank, len } => {
                let position = model.positions[*rank as usize];
                let is_fine = model.write(position, &bytes(seed, *len));
                if own == *rank {
                    assert_eq!(file.write_whole(&bytes(seed, *len)).is_ok(), is_fine, "{step:?}");
                }
                if is_fine {
                    model.positions[*rank as usize] += *len as u64;
                }
            }
            Step::ReadHere { rank, len } => {
                let position = model.positions[*rank as usize];
                let right = model.read(position, *len);
                if own == *rank {
                    let mut got = vec![0; *len];
                    assert_eq!(file.read_all(&mut got).is_ok(), right.is_some(), "{step:?}");
                    assert!(right.is_none_or(|right| right == got), "{step:?}");
                }
                if right.is_some() {
                    model.positions[*rank as usize] += *len as u64;
                }
            }
            Step::WriteAll { part, parts } => {
                for number in 0..*parts {
                    let bytes = bytes(seed ^ number, *part as usize);
                    let offset = number * part * 97;
                    let is_fine = model.write(offset, &bytes);
                    if number % u64::from(SIZE) == u64::from(own) {
                        assert_eq!(file.write_at(&bytes, offset).is_ok(), is_fine, "{step:?}");
                    }
                }
            }
            Step::Flush => file.flush().unwrap(),
            Step::Reserve { bytes } => {
                let is_fine = *bytes >= model.content.len() as u64;
                assert_eq!(file.reserve(*bytes).is_ok(), is_fine, "{step:?}");
                if is_fine {
                    model.room = Some(*bytes);
                }
            }
            Step::Reopen => {
                file.close().unwrap();
                file = reopen();
                model.room = None;
                model.positions = [0; SIZE as usize];
            }
        }
        // No rank goes on before all have checked the length.
        file.job().barrier().unwrap();
        assert_eq!(file.len().unwrap(), model.content.len() as u64, "{step:?}");
        file.job().barrier().unwrap();
    }
    file.close().unwrap();
    model.content
}

fn check(
    options: &CachedOptions,
    machines: Machines,
    place: &CachedFileSource,
    steps: &[Step],
    start: Vec<u8>,
    on_disk: &dyn Fn() -> Vec<u8>,
) {
    let contents = spread(SIZE, machines, |job| {
        let open = || job.cache_with(place.clone(), options).unwrap();
        run(open(), &open, steps, start.clone())
    });
    assert!(on_disk() == contents[0], "the disk holds something else");
}

fn options() -> CachedOptions {
    CachedOptions::new().read(true).write(true).create(true)
}

fn on_the_machine(options: &CachedOptions, steps: &[Step], start: usize) {
    on_machines(options, Machines::One, steps, start);
}

fn on_machines(options: &CachedOptions, machines: Machines, steps: &[Step], start: usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, bytes(99, start)).unwrap();
    check(options, machines, &path.as_path().into(), steps, bytes(99, start), &|| {
        std::fs::read(&path).unwrap()
    });
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "something was left behind: {left:?}");
}

fn in_a_cluster(
    cluster: &Cluster,
    options: &CachedOptions,
    machines: Machines,
    steps: &[Step],
    start: usize,
) {
    if cluster.metadata("/file").is_ok() {
        cluster.remove("/file").unwrap();
    }
    cluster.create("/file").unwrap().write_at(&bytes(99, start), 0).unwrap();
    let place = CachedFileSource::in_cluster(cluster, "/file");
    check(options, machines, &place, steps, bytes(99, start), &|| {
        let file = cluster.open("/file").unwrap();
        let mut content = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut content, 0).unwrap();
        content
    });
    assert_eq!(cluster.list_names("/").unwrap().count(), 1, "something was left behind");
}

fn cluster(dir: &Path) -> Cluster {
    Cluster::embedded(dir).unwrap()
}

fn start() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0_usize), 1..1_000_000_usize, Just(65_536_usize)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..25).prop_map(|mut steps| {
        // Most of them can write from the beginning.
        if steps.len() % 5 != 0 {
            steps.insert(0, Step::Reserve { bytes: LARGEST });
        }
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn plain_files(steps in steps(), start in start()) {
        on_the_machine(&options(), &steps, start);
    }

    #[test]
    fn plain_files_by_other_numbers_of_readers_and_writers(
        steps in steps(), start in start(), readers in 0..6_u32, writers in 0..6_u32,
    ) {
        on_the_machine(&options().readers(readers).writers(writers), &steps, start);
    }

    #[test]
    fn plain_files_as_if_ranks_were_elsewhere(steps in steps(), start in start()) {
        on_the_machine(&options().copying(true), &steps, start);
    }

    #[test]
    fn plain_files_by_ranks_of_several_machines(
        steps in steps(), start in start(), distribution in 1..EVERY_DISTRIBUTION.len(),
        replace in any::<bool>(), writers in 0..6_u32,
    ) {
        let options = options().replace(replace).writers(writers);
        on_machines(&options, EVERY_DISTRIBUTION[distribution], &steps, start);
    }

    #[test]
    fn plain_files_with_write_back(
        steps in steps(), start in start(), writers in 1..6_u32, age_us in 1..2000_u64,
        distribution in 0..EVERY_DISTRIBUTION.len(),
    ) {
        let options = options().writers(writers).write_back_age(Some(Duration::from_micros(age_us)));
        on_machines(&options, EVERY_DISTRIBUTION[distribution], &steps, start);
    }

    #[test]
    fn plain_files_that_are_replaced(steps in steps(), start in start()) {
        on_the_machine(&options().replace(true), &steps, start);
    }

    #[test]
    fn plain_files_in_little_memory(steps in steps(), start in start(), sets in 0..3_u64) {
        on_the_machine(&options().memory(sets * 8 * 65_536), &steps, start);
    }

    #[test]
    fn plain_files_in_little_memory_as_if_ranks_were_elsewhere(
        steps in steps(), start in start(),
    ) {
        on_the_machine(&options().memory(0).copying(true), &steps, start);
    }
}

#[test]
fn files_of_a_cluster() {
    of_a_cluster(24, &[Machines::One]);
}

#[test]
fn files_of_a_cluster_by_ranks_of_several_machines() {
    of_a_cluster(6, &EVERY_DISTRIBUTION[1..]);
}

fn of_a_cluster(cases: u32, distributions: &[Machines]) {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path());
    let kinds = [
        options(),
        options().replace(true),
        options().memory(0),
        options().copying(true),
        options().write_back_age(Some(Duration::from_micros(100))),
    ];
    proptest!(ProptestConfig::with_cases(cases), |(
        steps in steps(), start in start(), kind in 0..kinds.len(),
        distribution in 0..distributions.len(),
    )| {
        in_a_cluster(&cluster, &kinds[kind], distributions[distribution], &steps, start);
    });
}
