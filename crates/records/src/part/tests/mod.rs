//! After a crash the map of a part is the old one or the new one, and damage is reported.

mod failing_medium;

use std::collections::BTreeMap;

use super::*;
use failing_medium::FailingMedium;

const IDENTITY: PartIdentity =
    PartIdentity { file: *b"sixteen bytes id", number: 1, parts: 3, created: 7 };
/// A number of operations that no test reaches.
const NEVER_FAILS: usize = usize::MAX;

fn last_paths() -> Vec<Vec<u8>> {
    [&b"/a/x.part0"[..], b"/b/x.part1", b"/c/x.part2"].map(<[u8]>::to_vec).to_vec()
}

fn block(len: u64) -> RecordBlock {
    RecordBlock { is_regular: false, total: len + 10, start: 3, len, offset: 0 }
}

/// The expected map, and the durable content of each record.
#[derive(Clone, Default)]
struct ExpectedPart {
    map: PartMap,
    /// The byte that fills a record durably; absent if it was not written or not synced.
    written: BTreeMap<u64, u8>,
}

/// Makes random changes of a part. `before` gets the expected state before each of them, `None`
/// while the content of records is uncertain.
fn program(
    memory: &FailingMedium,
    seed: u64,
    mut before: impl FnMut(Option<ExpectedPart>),
) -> Option<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut part = Part::create(memory.clone(), IDENTITY, last_paths()).ok()?;
    let mut known = ExpectedPart { map: part.map().clone(), ..ExpectedPart::default() };
    before(Some(known.clone()));
    for _ in 0..14 {
        match random.u8(..6) {
            0..=2 => {
                // Sometimes many records, which fill the log.
                let count = if random.u8(..3) == 0 { 30 } else { random.u64(1..4) };
                let len =
                    |random: &mut fastrand::Rng| if count > 9 { 0 } else { random.u64(..9000) };
                let first = known.map.next;
                let new: Vec<(u64, RecordBlock)> =
                    (first..first + count).map(|id| (id, block(len(&mut random)))).collect();
                let (prepared, offsets) = part.prepare_records(&new).ok()?;
                part.commit(&prepared).ok()?;
                for ((id, block), offset) in new.iter().zip(offsets) {
                    known.map.records.insert(*id, RecordBlock { offset, ..*block });
                }
                known.map.next = first + count;
                known.map.change += 1;
            }
            3 => {
                let ids: Vec<u64> = known.map.records.keys().copied().collect();
                let count = if random.bool() { ids.len() } else { ids.len().min(2) };
                let blocks: Vec<RecordBlock> = ids[..count]
                    .iter()
                    .filter_map(|id| part.map().records.get(id).copied())
                    .collect();
                let entries = ids[..count].iter().map(|id| MapEntry::Removed(*id)).collect();
                let prepared = part.prepare(entries).ok()?;
                part.commit(&prepared).ok()?;
                for id in &ids[..count] {
                    known.map.records.remove(id);
                    known.written.remove(id);
                }
                known.map.change += 1;
                before(Some(known.clone()));
                part.release(&blocks);
            }
            4 => {
                // Written in place, as ranks write: before the sync any of it may be on the disk.
                let byte = random.u8(1..);
                let all = known.map.records.iter().filter(|(_, block)| block.len > 0);
                let all: Vec<(u64, RecordBlock)> =
                    all.take(20).map(|(id, block)| (*id, *block)).collect();
                before(None);
                for (_, block) in &all {
                    let bytes = vec![byte; usize::try_from(block.len).unwrap()];
                    part.medium().write_at(&bytes, block.offset).ok()?;
                }
                part.sync().ok()?;
                known.written.extend(all.iter().map(|(id, _)| (*id, byte)));
            }
            _ => part.mark().ok()?,
        }
        before(Some(known.clone()));
    }
    Some(())
}

/// Opens an image, and reads its map and the content of its records.
fn inspect(image: &[u8]) -> Option<ExpectedPart> {
    let part = Part::open(FailingMedium::new(image.to_vec(), NEVER_FAILS)).ok()?;
    let mut written = BTreeMap::new();
    for (id, block) in &part.map().records {
        let start = usize::try_from(block.offset).unwrap();
        let bytes = &image[start..start + usize::try_from(block.len).unwrap()];
        let first = bytes.first().copied().unwrap_or(0);
        assert!(bytes.iter().all(|byte| *byte == first), "record {id} is a mixture");
        if first != 0 {
            written.insert(*id, first);
        }
    }
    Some(ExpectedPart { map: part.map().clone(), written })
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_map_or_the_new_one() {
    let mut images = 0;
    let mut renewed = false;
    for seed in 0..12 {
        // A run without a failure shows which state would have come next.
        let whole = FailingMedium::new(Vec::new(), NEVER_FAILS);
        let mut all: Vec<Option<ExpectedPart>> = Vec::new();
        program(&whole, seed, |known| all.push(known));
        renewed |= Part::open(whole).unwrap().superblock.log_number > 1;
        for fails_at in 0.. {
            let memory = FailingMedium::new(Vec::new(), fails_at);
            let mut steps: Vec<Option<ExpectedPart>> = Vec::new();
            let is_over = program(&memory, seed, |known| steps.push(known)).is_some();
            let old = steps.last().cloned();
            let new = all.get(steps.len()).cloned();
            let mut random = fastrand::Rng::with_seed(seed ^ fails_at as u64);
            for image in memory.after_power_failure(&mut random) {
                images += 1;
                // While records are written, only the map is certain.
                if matches!(old, Some(None)) || matches!(new, Some(None)) {
                    let map = map_of_part(&image).unwrap();
                    let known = steps.iter().flatten().next_back().unwrap();
                    assert_eq!(map, known.map);
                    continue;
                }
                let (old, new) = (old.clone().flatten(), new.clone().flatten());
                let Some(found) = inspect(&image) else {
                    assert!(old.is_none(), "seed {seed}, operation {fails_at}: a part is lost");
                    continue;
                };
                let is = |known: &Option<ExpectedPart>| {
                    known.as_ref().is_some_and(|known| {
                        known.map == found.map && known.written == found.written
                    })
                };
                assert!(is(&old) || is(&new), "seed {seed}, operation {fails_at}: another map");
            }
            if is_over {
                assert!(memory.left() > 0 || fails_at > 0);
                break;
            }
        }
    }
    assert!(renewed, "no log was ever full");
    assert!(images > 1000, "{images}");
}

#[test]
fn a_part_refuses_all_changes_after_a_failed_write_or_sync() {
    let memory = FailingMedium::new(Vec::new(), NEVER_FAILS);
    let part = Part::create(memory.clone(), IDENTITY, last_paths()).unwrap();
    let bytes = part.medium().bytes();
    for fails_at in 0..3 {
        let memory = FailingMedium::new(bytes.clone(), fails_at);
        let mut part = Part::open(memory.clone()).unwrap();
        let prepared = part.prepare_records(&[(1, block(100))]);
        let committed = prepared.and_then(|(prepared, _)| part.commit(&prepared));
        // The operations in order: extend the part, sync, write the frame.
        let error = committed.unwrap_err();
        assert!(matches!(error, PartError::System(_)), "{fails_at}: {error:?}");
        if fails_at == 0 {
            // The part could not grow, and is otherwise intact.
            assert!(!part.is_broken);
            continue;
        }
        assert!(matches!(part.prepare(Vec::new()), Err(PartError::Broken)), "{fails_at}");
        assert!(matches!(part.sync(), Err(PartError::Broken)));
        assert!(matches!(part.mark(), Err(PartError::Broken)));
    }
}

/// A part with a few changes whose superblocks name the last one as complete.
fn complete_part() -> (Vec<u8>, PartMap) {
    let memory = FailingMedium::new(Vec::new(), NEVER_FAILS);
    let mut part = Part::create(memory.clone(), IDENTITY, last_paths()).unwrap();
    for change in 0..4 {
        let next = part.map().next;
        let (prepared, _) = part.prepare_records(&[(next, block(change * 50))]).unwrap();
        part.commit(&prepared).unwrap();
    }
    let prepared = part.prepare(vec![MapEntry::Removed(2)]).unwrap();
    part.commit(&prepared).unwrap();
    part.mark().unwrap();
    (memory.bytes(), part.map().clone())
}

#[test]
fn no_flipped_bit_gives_another_map() {
    let (bytes, map) = complete_part();
    let mut refused = 0;
    // Behind the frames, up to the end of the log, in larger steps.
    let offsets = (0..96).chain(4096..4192).chain(8192..9300).chain((9300..12288).step_by(11));
    for at in offsets {
        for bit in [0, 3, 7] {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            match map_of_part(&changed) {
                Ok(found) => assert_eq!(found, map, "byte {at}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn one_superblock_is_enough() {
    let (bytes, map) = complete_part();
    for at in SUPERBLOCKS {
        let mut changed = bytes.clone();
        changed[index(at)..][..4096].fill(0x5a);
        assert_eq!(map_of_part(&changed).unwrap(), map);
    }
    let mut changed = bytes;
    changed[20] ^= 1;
    changed[4096 + 20] ^= 1;
    let error = map_of_part(&changed).unwrap_err();
    assert_eq!(error, "both superblocks of the part are damaged");
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

#[test]
fn a_truncated_part_is_refused() {
    let (bytes, map) = complete_part();
    for len in (0..bytes.len()).step_by(177) {
        let memory = FailingMedium::new(bytes[..len].to_vec(), NEVER_FAILS);
        match Part::open(memory) {
            Ok(part) => {
                let ends = map.records.values().map(|block| block.offset + block.len);
                assert!(ends.max().unwrap() <= len as u64, "truncated to {len}");
                assert_eq!(*part.map(), map);
            }
            Err(error) => assert!(matches!(error, PartError::Damaged(_)), "{error:?}"),
        }
    }
}

#[test]
fn a_damaged_frame_differs_from_one_that_was_never_whole() {
    let memory = FailingMedium::new(Vec::new(), NEVER_FAILS);
    let mut part = Part::create(memory.clone(), IDENTITY, last_paths()).unwrap();
    let mut starts = Vec::new();
    for id in 1..4 {
        starts.push(index(part.superblock.log_start + part.end));
        let (prepared, _) = part.prepare_records(&[(id, block(5))]).unwrap();
        part.commit(&prepared).unwrap();
    }
    let mut changed = memory.bytes();
    changed[starts[2] + 40] ^= 1;
    assert_eq!(map_of_part(&changed).unwrap().records.len(), 2, "the last one was never whole");
    let mut changed = memory.bytes();
    changed[starts[1] + 40] ^= 1;
    let error = map_of_part(&changed).unwrap_err();
    assert!(error.contains("is damaged: change 2 is missing, and change 3 is at byte"), "{error}");
    // When the superblocks name all three as complete, the last one cannot be missing either.
    part.mark().unwrap();
    let mut changed = memory.bytes();
    changed[starts[2] + 40] ^= 1;
    let error = map_of_part(&changed).unwrap_err();
    assert!(error.contains("ends with change 2, and change 3 is known"), "{error}");
}

#[test]
fn a_change_can_be_undone_and_made_again() {
    let memory = FailingMedium::new(Vec::new(), NEVER_FAILS);
    let mut part = Part::create(memory.clone(), IDENTITY, last_paths()).unwrap();
    let (prepared, _) = part.prepare_records(&[(1, block(5))]).unwrap();
    part.commit(&prepared).unwrap();
    let before = part.map().clone();
    let (prepared, _) = part.prepare_records(&[(2, block(5000)), (3, block(7))]).unwrap();
    part.commit(&prepared).unwrap();
    let mut part = part.undo().unwrap();
    assert_eq!(*part.map(), before);
    let (prepared, _) = part.prepare_records(&[(2, block(8))]).unwrap();
    part.commit(&prepared).unwrap();
    assert_eq!(map_of_part(&memory.bytes()).unwrap().records[&2].len, 8);
}

/// Remains of an older log, or of another part, are not taken for frames.
#[test]
fn frames_of_other_logs_and_parts_do_not_count() {
    let frame = encode(&IDENTITY, 3, 9, LogFrameKind::Change, &[MapEntry::Removed(1)]).unwrap();
    assert!(frame::decode(&IDENTITY, 3, &frame).is_some());
    assert!(frame::decode(&IDENTITY, 4, &frame).is_none());
    assert!(frame::decode(&PartIdentity { number: 2, ..IDENTITY }, 3, &frame).is_none());
    assert!(frame::decode(&PartIdentity { file: [0; 16], ..IDENTITY }, 3, &frame).is_none());
}

/// The bytes that docs/record-format.md describes. A change of them raises the version.
#[test]
fn the_format_is_the_documented_one() {
    let memory = FailingMedium::new(Vec::new(), NEVER_FAILS);
    let mut part = Part::create(memory.clone(), IDENTITY, last_paths()).unwrap();
    let new = RecordBlock { is_regular: true, total: 1000, start: 333, len: 333, offset: 0 };
    let (prepared, _) = part.prepare_records(&[(1, new)]).unwrap();
    part.commit(&prepared).unwrap();
    let prepared = part.prepare(vec![MapEntry::Removed(1)]).unwrap();
    part.commit(&prepared).unwrap();
    part.mark().unwrap();
    let bytes = memory.bytes();
    let hex = |range: std::ops::Range<usize>| {
        let lines = bytes[range].chunks(16);
        let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        lines.map(line).collect::<Vec<_>>().join("\n")
    };
    let golden = include_str!("golden.txt");
    let found = format!(
        "superblock\n{}\nlog\n{}\n",
        hex(0..SUPERBLOCK_BYTES),
        hex(8192..8192 + index(part.end))
    );
    assert_eq!(found, golden);
    assert_eq!(bytes[..SUPERBLOCK_BYTES], bytes[4096..4096 + SUPERBLOCK_BYTES]);
}
