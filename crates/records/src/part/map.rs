//! The map of a part: which records there are, and where their blocks in this part are. It is what
//! the frames of the log say, one after the other.

use std::collections::BTreeMap;

use super::frame::{Block, Entry, FRAME_ALIGN, FrameKind, decode};
use super::superblock::{FIRST_SPACE, NoSuperblock, PAGE, SUPERBLOCKS, Superblock};

/// The most numbers that records may get: what an `int` of C holds.
pub const LAST_RECORD: u64 = i32::MAX as u64;

/// The map of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartMap {
    /// How many changes it has seen.
    pub change: u64,
    /// The number that the next record gets.
    pub next: u64,
    /// The records, with their blocks in this part.
    pub records: BTreeMap<u64, Block>,
    /// Where each part of the file was last.
    pub places: BTreeMap<u32, Vec<u8>>,
}

/// What the frames of a log say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The map after the last whole frame.
    pub map: PartMap,
    /// Where the last frame begins, if it is a change.
    pub last: Option<u64>,
    /// Where the next frame goes.
    pub end: u64,
}

impl PartMap {
    /// Everything, as entries.
    pub fn entries(&self) -> Vec<Entry> {
        let records = self.records.iter().map(|(record, block)| Entry::Record(*record, *block));
        let places = self.places.iter().map(|(part, path)| Entry::Place(*part, path.clone()));
        places.chain([Entry::Next(self.next)]).chain(records).collect()
    }

    /// Adds what an entry says; why that is impossible otherwise.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        match entry {
            Entry::Record(record, block) => {
                check_block(*record, block)?;
                if self.records.insert(*record, *block).is_some() {
                    return Err(format!("record {record} is made although it is there"));
                }
                self.next = self.next.max(record + 1);
            }
            Entry::Gone(record) => {
                if self.records.remove(record).is_none() {
                    return Err(format!("record {record} is removed although it is not there"));
                }
            }
            Entry::Next(next) => {
                if *next > LAST_RECORD + 1 {
                    return Err(format!("{next} is no number of a record"));
                }
                self.next = self.next.max(*next);
            }
            Entry::Place(part, path) => {
                self.places.insert(*part, path.clone());
            }
        }
        Ok(())
    }
}

fn check_block(record: u64, block: &Block) -> Result<(), String> {
    let is_inside = block.start.checked_add(block.len).is_some_and(|end| end <= block.total);
    let is_placed = if block.len == 0 {
        block.offset == 0
    } else {
        block.offset >= FIRST_SPACE
            && block.offset.is_multiple_of(PAGE)
            && block.offset.checked_add(block.len).is_some_and(|end| end < 1 << 62)
    };
    if record == 0 || record > LAST_RECORD || !is_inside || !is_placed {
        return Err(format!("record {record} has an impossible block: {block:?}"));
    }
    Ok(())
}

/// Reads the frames of a log. Whatever the bytes are, it ends with a map or with a sentence.
///
/// A log ends where no whole frame follows. If frames follow later all the same, or if a change that
/// is known to be complete is missing, something was damaged, and nothing is guessed.
pub fn replay(superblock: &Superblock, log: &[u8]) -> Result<Replayed, String> {
    let Superblock { identity, log_number, mark, .. } = superblock;
    let mut replayed = Replayed { map: PartMap::default(), last: None, end: 0 };
    let mut at = 0;
    while let Some((frame, len)) =
        log.get(at..).and_then(|rest| decode(identity, *log_number, rest))
    {
        let is_first = at == 0;
        let map = &mut replayed.map;
        let is_next = match frame.kind {
            FrameKind::Whole => is_first,
            FrameKind::Change => !is_first && Some(frame.change) == map.change.checked_add(1),
        };
        let wrong = |what: &str| format!("the frame at byte {at} of the log {what}");
        if !is_next {
            return Err(wrong(&format!("says change {} after {}", frame.change, map.change)));
        }
        let entries = frame.entries().ok_or_else(|| wrong("cannot be understood"))?;
        for entry in &entries {
            map.apply(entry).map_err(|why| wrong(&format!("is impossible: {why}")))?;
        }
        map.change = frame.change;
        replayed.last = (frame.kind == FrameKind::Change).then_some(at as u64);
        at += len;
    }
    if at == 0 {
        return Err("the log has no beginning".to_owned());
    }
    replayed.end = at as u64;
    let change = replayed.map.change;
    let later = (at..log.len()).step_by(FRAME_ALIGN).skip(1).find_map(|place| {
        let (frame, _) = log.get(place..).and_then(|rest| decode(identity, *log_number, rest))?;
        Some((place, frame.change))
    });
    if let Some((place, later)) = later {
        return Err(format!(
            "the frame at byte {at} of the log is damaged: change {} is missing, and change {later} \
             is at byte {place}",
            change + 1
        ));
    }
    if change < *mark {
        return Err(format!(
            "the log ends with change {change}, and change {mark} is known to be complete"
        ));
    }
    check_space(superblock, &replayed.map)?;
    Ok(replayed)
}

/// No two things are at one place.
fn check_space(superblock: &Superblock, map: &PartMap) -> Result<(), String> {
    let log = (superblock.log_start, superblock.log_start + superblock.log_len, 0);
    let blocks = map.records.iter().filter(|(_, block)| block.len > 0);
    let blocks = blocks.map(|(record, block)| (block.offset, block.offset + block.len, *record));
    let mut used: Vec<(u64, u64, u64)> = blocks.chain([log]).collect();
    used.sort_unstable();
    for pair in used.windows(2) {
        if pair[0].1 > pair[1].0 {
            let name = |record: u64| match record {
                0 => "the log".to_owned(),
                record => format!("record {record}"),
            };
            let (one, other) = (name(pair[0].2), name(pair[1].2));
            return Err(format!("{one} and {other} are both at byte {}", pair[1].0));
        }
    }
    Ok(())
}

/// The map of a part whose bytes are in memory, or a sentence that says why there is none. This is
/// what opening does with a part, for those who want to look at one without a job.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let team = pario_team::Team::meet("map of a part", 1, 0)?;
/// # let path = dir.path().join("state");
/// let file = pario_records::RecordFile::create(&team, &path)?;
/// let record = file.create_record(1000)?;
/// file.close()?;
///
/// let bytes = std::fs::read(dir.path().join("state.part0"))?;
/// let map = pario_records::map_of_part(&bytes)?;
/// assert_eq!(map.records[&record.number()].len, 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn map_of_part(bytes: &[u8]) -> Result<PartMap, String> {
    let superblock = |at: u64| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        Superblock::of_bytes(bytes.get(at..).unwrap_or_default())
    };
    let superblock = Superblock::newest(superblock(SUPERBLOCKS[0]), superblock(SUPERBLOCKS[1]))
        .map_err(|why| why.to_string())?;
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let (start, end) =
        (place(superblock.log_start), place(superblock.log_start + superblock.log_len));
    let log = bytes.get(start..end).ok_or("the part ends before its log does")?;
    let replayed = replay(&superblock, log)?;
    Ok(replayed.map)
}

impl std::fmt::Display for NoSuperblock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => write!(f, "this is no part of a record file"),
            Self::Damaged => write!(f, "both copies of its first page are damaged"),
            Self::Newer(version) => {
                let known = super::superblock::VERSION;
                write!(f, "it has version {version} of the format; this program knows {known}")
            }
        }
    }
}
