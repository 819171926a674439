//! The map of a part: which records exist, and where their blocks in this part are. Replaying the
//! frames of the log yields it.

use std::collections::BTreeMap;

use super::frame::{FRAME_ALIGN, LogFrameKind, MapEntry, RecordBlock, decode};
use super::superblock::{FIRST_SPACE, PAGE, PartSuperblock, SUPERBLOCKS, SuperblockError};

/// The largest number of a record: the largest `int` of C.
pub const LAST_RECORD: u64 = i32::MAX as u64;

/// The map of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartMap {
    /// The number of the last change.
    pub change: u64,
    /// The number of the next record.
    pub next: u64,
    /// The blocks in this part, by record.
    pub records: BTreeMap<u64, RecordBlock>,
    /// The last known path of each part of the file.
    pub last_paths: BTreeMap<u32, Vec<u8>>,
}

/// The map that the frames of a log yield, and where the log goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedLog {
    /// The map after the last whole frame.
    pub map: PartMap,
    /// The offset of the last frame, if it is a change.
    pub last: Option<u64>,
    /// The offset of the next frame.
    pub end: u64,
}

impl PartMap {
    /// The whole map as entries.
    pub fn entries(&self) -> Vec<MapEntry> {
        let records = self.records.iter().map(|(record, block)| MapEntry::Record(*record, *block));
        let paths = self.last_paths.iter();
        let paths = paths.map(|(part, path)| MapEntry::LastPath(*part, path.clone()));
        paths.chain([MapEntry::NextRecord(self.next)]).chain(records).collect()
    }

    /// Applies an entry; the error says why that is impossible.
    pub fn apply(&mut self, entry: &MapEntry) -> Result<(), String> {
        match entry {
            MapEntry::Record(record, block) => {
                check_block(*record, block)?;
                if self.records.insert(*record, *block).is_some() {
                    return Err(format!("it creates record {record}, which exists"));
                }
                self.next = self.next.max(record + 1);
            }
            MapEntry::Removed(record) => {
                if self.records.remove(record).is_none() {
                    return Err(format!("it removes record {record}, which does not exist"));
                }
            }
            MapEntry::NextRecord(next) => {
                if *next > LAST_RECORD + 1 {
                    return Err(format!("{next} is not a valid record number"));
                }
                self.next = self.next.max(*next);
            }
            MapEntry::LastPath(part, path) => {
                self.last_paths.insert(*part, path.clone());
            }
        }
        Ok(())
    }
}

fn check_block(record: u64, block: &RecordBlock) -> Result<(), String> {
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

/// Replays the frames of a log. Any bytes yield a map or an error text.
///
/// A log ends where no whole frame follows. It is damaged if a whole frame follows later, or if it
/// ends before the change that the superblock names as complete.
pub fn replay(superblock: &PartSuperblock, log: &[u8]) -> Result<ReplayedLog, String> {
    let PartSuperblock { identity, log_number, mark, .. } = superblock;
    let mut replayed = ReplayedLog { map: PartMap::default(), last: None, end: 0 };
    let mut at = 0;
    while let Some((frame, len)) =
        log.get(at..).and_then(|rest| decode(identity, *log_number, rest))
    {
        let is_first = at == 0;
        let map = &mut replayed.map;
        let is_next = match frame.kind {
            LogFrameKind::Whole => is_first,
            LogFrameKind::Change => !is_first && Some(frame.change) == map.change.checked_add(1),
        };
        let wrong = |what: &str| format!("the frame at byte {at} of the log {what}");
        if !is_next {
            return Err(wrong(&format!("has change {} after {}", frame.change, map.change)));
        }
        let entries = frame.entries().ok_or_else(|| wrong("has invalid entries"))?;
        for entry in &entries {
            map.apply(entry).map_err(|why| wrong(&format!("is impossible: {why}")))?;
        }
        map.change = frame.change;
        replayed.last = (frame.kind == LogFrameKind::Change).then_some(at as u64);
        at += len;
    }
    if at == 0 {
        return Err("the log has no valid first frame".to_owned());
    }
    replayed.end = at as u64;
    let change = replayed.map.change;
    let later = (at..log.len()).step_by(FRAME_ALIGN).skip(1).find_map(|later| {
        let (frame, _) = log.get(later..).and_then(|rest| decode(identity, *log_number, rest))?;
        Some((later, frame.change))
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

/// Checks that the log and the blocks do not overlap.
fn check_space(superblock: &PartSuperblock, map: &PartMap) -> Result<(), String> {
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
            return Err(format!("{one} and {other} overlap at byte {}", pair[1].0));
        }
    }
    Ok(())
}

/// Reads the map from the bytes of a part, as opening does; the error says why they have none. This
/// lets a program inspect a part without a job.
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
        PartSuperblock::of_bytes(bytes.get(at..).unwrap_or_default())
    };
    let superblock = PartSuperblock::newest(superblock(SUPERBLOCKS[0]), superblock(SUPERBLOCKS[1]))
        .map_err(|why| why.to_string())?;
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let (start, end) =
        (place(superblock.log_start), place(superblock.log_start + superblock.log_len));
    let log = bytes.get(start..end).ok_or("the part ends before its log does")?;
    let replayed = replay(&superblock, log)?;
    Ok(replayed.map)
}

impl std::fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => write!(f, "this file is not a part of a record file"),
            Self::Damaged => write!(f, "both superblocks of the part are damaged"),
            Self::Newer(version) => {
                let known = super::superblock::VERSION;
                write!(
                    f,
                    "the part has version {version} of the format, and this program knows version \
                     {known}; use a newer Pario"
                )
            }
        }
    }
}
