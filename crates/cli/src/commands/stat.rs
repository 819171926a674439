//! `pario stat`: describes files.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use jiff::tz::TimeZone;
use pario::status::ClusterMap;
use pario::{FileKind, FilePath, Metadata, SubfileMeasure};
use serde_json::{Value, json};

use crate::amounts::{count, size};
use crate::arguments::GlobalOptions;
use crate::owners::Owners;
use crate::{entry, paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str =
    "pario stat /runs/results.h5\n  pario stat --json /runs/results.h5 | jq '.[0].subfiles'";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    let (map, owners, zone) = (cluster.map(), Owners::new(), TimeZone::system());
    let mut out = terminal::output();
    let mut all = Vec::new();
    for path in &paths {
        let known = cluster.metadata(path.as_str())?;
        if global.json {
            all.push(as_json(path, &known, &map, &owners));
        } else {
            let lines = lines(path, &known, &map, &owners, &zone);
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    out.flush()?;
    if global.json { terminal::print_json(&all) } else { Ok(()) }
}

fn lines(
    path: &FilePath,
    known: &Metadata,
    map: &ClusterMap,
    owners: &Owners,
    zone: &TimeZone,
) -> Vec<String> {
    let record = &known.record;
    let what = match entry::layout(record) {
        Some(layout) => format!("{}, {layout}", size(known.len)),
        None => "directory".to_owned(),
    };
    let owner = format!("owner {}, {:04o}", owners.user(record.uid), record.mode);
    let date = entry::date(entry::modified_ns(record, Some(known)), zone);
    let mut lines = vec![format!("{path}   {what}, {owner}, changed {date}")];
    let parts: Vec<[String; 2]> = known
        .subfiles
        .iter()
        .map(|subfile| [disk_name(known, subfile, map), amount(known, subfile)])
        .collect();
    let width =
        |column: usize| parts.iter().map(|part| part[column].chars().count()).max().unwrap_or(0);
    let (names, amounts) = (width(0), width(1));
    for pair in parts.chunks(2) {
        let cells =
            pair.iter().map(|[name, amount]| format!("{name:<names$}   {amount:>amounts$}"));
        lines.push(format!("  {}", cells.collect::<Vec<_>>().join("      ")));
    }
    lines
}

fn amount(known: &Metadata, subfile: &SubfileMeasure) -> String {
    match known.record.kind {
        FileKind::Extents => {
            format!("{}, {}", count(subfile.extents, "extent"), size(subfile.len))
        }
        _ => size(subfile.len),
    }
}

/// The disk of a subfile, as people call it.
fn disk_name(known: &Metadata, subfile: &SubfileMeasure, map: &ClusterMap) -> String {
    let layout = known.record.layout.as_ref();
    match layout.and_then(|layout| layout.disks().disk_of(subfile.subfile)) {
        Some(disk) => map.disk_name(disk),
        None => subfile.subfile.to_string(),
    }
}

fn as_json(path: &FilePath, known: &Metadata, map: &ClusterMap, owners: &Owners) -> Value {
    let mut json = entry::as_json(path, &known.record, Some(known), owners);
    let subfiles = known.subfiles.iter().map(|subfile| {
        json!({
            "subfile": subfile.subfile.0,
            "disk": disk_name(known, subfile, map),
            "size_bytes": subfile.len,
            "disk_bytes": subfile.disk_bytes,
            "extents": subfile.extents,
            "settled": known.record.is_first_synced(subfile.subfile.0),
        })
    });
    json["layout"] = json!(entry::layout(&known.record));
    json["unit_bytes"] = match &known.record.layout {
        Some(pario::Layout::Striped(striped)) => json!(striped.unit_bytes()),
        _ => Value::Null,
    };
    json["subfiles"] = subfiles.collect();
    json
}

#[cfg(test)]
mod tests {
    use pario::DiskId;
    use pario::status::{DiskInfo, NodeInfo};

    use super::*;
    use crate::entry::tests::record;

    fn map() -> ClusterMap {
        let disk = |number| DiskInfo {
            id: DiskId(number),
            uuid: 0,
            label: format!("disk{number}"),
            is_read_only: false,
        };
        let node = NodeInfo {
            name: "local".to_owned(),
            address: String::new(),
            disks: (0..4).map(disk).collect(),
        };
        ClusterMap { name: "local".to_owned(), nodes: vec![node], interface: 0 }
    }

    fn metadata(kind: FileKind) -> Metadata {
        let part = 509_607_936;
        let subfile = |number| SubfileMeasure {
            subfile: pario_proto::SubfileIndex(number),
            len: part,
            disk_bytes: part,
            extents: 12,
            modified_ns: 0,
        };
        let count = if kind == FileKind::Directory { 0 } else { 4 };
        let subfiles = (0..count).map(subfile).collect();
        Metadata { record: record(kind), len: 4 * part, modified_ns: 0, subfiles }
    }

    #[test]
    fn a_file_is_shown_with_its_disks() {
        let path = FilePath::new("/runs/results.h5").unwrap();
        let show = |kind| lines(&path, &metadata(kind), &map(), &Owners::new(), &TimeZone::UTC);
        let expected = [
            "/runs/results.h5   1.9 GiB, striped 64 KiB over 4 disks, owner root, 0640, changed \
             1970-01-01 00:00",
            "  local/disk0   486 MiB      local/disk1   486 MiB",
            "  local/disk2   486 MiB      local/disk3   486 MiB",
        ];
        assert_eq!(show(FileKind::Flat), expected);
        let line = "  local/disk0   12 extents, 486 MiB      local/disk1   12 extents, 486 MiB";
        assert_eq!(show(FileKind::Extents)[1], line);
        let expected = ["/runs/results.h5   directory, owner root, 0640, changed 2023-11-14 22:13"];
        assert_eq!(show(FileKind::Directory), expected);
    }
}
