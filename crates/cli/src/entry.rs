//! Describes a file or directory, as text and as JSON.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pario::{FileKind, FilePath, FileRecord, Layout, Metadata};
use serde_json::{Value, json};

use crate::amounts::{count, size};
use crate::owners::Owners;

/// Returns one word for the kind of a file.
pub fn kind(record: &FileRecord) -> &'static str {
    match record.kind {
        FileKind::Directory => "directory",
        FileKind::Flat => "file",
        FileKind::Extents => "extents",
    }
}

/// Describes the layout of a file; `None` for directories.
pub fn layout(record: &FileRecord) -> Option<String> {
    let layout = record.layout.as_ref()?;
    let disks = count(u64::from(layout.disks().count()), "disk");
    Some(match layout {
        Layout::Striped(striped) => format!("striped {} over {disks}", size(striped.unit_bytes())),
        Layout::Tiles(_) => format!("tiles over {disks}"),
        Layout::Extents(_) => format!("extents over {disks}"),
    })
}

/// Returns the modification time of the content of a file or directory.
pub fn modified_ns(record: &FileRecord, measured: Option<&Metadata>) -> u64 {
    match measured {
        Some(measured) if record.kind != FileKind::Directory => measured.modified_ns,
        _ => record.changed_ns,
    }
}

/// Formats a time in the local time zone.
pub fn date(time_ns: u64, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(i128::from(time_ns)) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => "-".to_owned(),
    }
}

/// Returns the fields that all JSON about a file has.
pub fn as_json(
    path: &FilePath,
    record: &FileRecord,
    measured: Option<&Metadata>,
    owners: &Owners,
) -> Value {
    let modified_ns = modified_ns(record, measured);
    let is_file = record.kind != FileKind::Directory;
    json!({
        "path": path,
        "name": path.name().unwrap_or("/"),
        "kind": kind(record),
        "size_bytes": measured.filter(|_| is_file).map(|measured| measured.len),
        "disk_bytes": measured.filter(|_| is_file).map(Metadata::disk_bytes),
        "mode": format!("{:04o}", record.mode),
        "uid": record.uid,
        "gid": record.gid,
        "owner": owners.user(record.uid),
        "group": owners.group(record.gid),
        "modified_ns": modified_ns,
        "created_ns": record.created_ns,
        "id": record.id.to_string(),
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A record, striped over four disks unless it is a directory.
    pub fn record(kind: FileKind) -> FileRecord {
        let disks = (0..4).map(pario::DiskId);
        let disks = pario_proto::Disks::new(disks).unwrap();
        let layout = match kind {
            FileKind::Directory => None,
            FileKind::Flat => Some(pario_proto::Striped::new(65_536, disks).unwrap().into()),
            FileKind::Extents => Some(Layout::Extents(pario_proto::Extents::new(disks))),
        };
        FileRecord {
            id: pario_proto::FileId(7),
            kind,
            layout,
            uid: 0,
            gid: 0,
            mode: 0o640,
            created_ns: 0,
            changed_ns: 1_700_000_000_000_000_000,
            rights_version: 0,
            first_synced: Vec::new(),
        }
    }

    #[test]
    fn a_layout_is_a_few_words() {
        let words = |kind| layout(&record(kind));
        assert_eq!(words(FileKind::Flat).unwrap(), "striped 64 KiB over 4 disks");
        assert_eq!(words(FileKind::Extents).unwrap(), "extents over 4 disks");
        assert_eq!(words(FileKind::Directory), None);
    }

    #[test]
    fn times_are_dates() {
        assert_eq!(date(1_700_000_000_000_000_000, &TimeZone::UTC), "2023-11-14 22:13");
        assert_eq!(date(0, &TimeZone::UTC), "1970-01-01 00:00");
        assert!(!date(u64::MAX, &TimeZone::UTC).is_empty());
    }

    #[test]
    fn json_names_what_it_is() {
        let path = FilePath::new("/runs/7").unwrap();
        let json = as_json(&path, &record(FileKind::Directory), None, &Owners::new());
        assert_eq!(json["path"], "/runs/7");
        assert_eq!(json["kind"], "directory");
        assert_eq!(json["mode"], "0640");
        assert_eq!(json["owner"], "root");
        assert_eq!(json["size_bytes"], Value::Null);
        assert_eq!(json["modified_ns"], 1_700_000_000_000_000_000_u64);
    }
}
