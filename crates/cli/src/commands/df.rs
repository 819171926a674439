//! `pario df`: shows the space on the disks.

use std::collections::HashMap;
use std::io::Write;

use pario::FileSystemId;
use pario::status::DiskStatus;
use serde_json::json;

use super::status::NodeView;
use crate::amounts::{count, share, size};
use crate::arguments::GlobalOptions;
use crate::exit::{self, AlreadyReported, NOT_REACHABLE};
use crate::table::{ColumnAlignment, TextTable};
use crate::{reach, terminal};

/// A disk, and the number of its file system.
struct DiskRow<'n> {
    name: String,
    disk: &'n DiskStatus,
    /// Counts from 0 in the order of the disks.
    file_system: usize,
}

/// Runs the command. The total counts each file system once. Disks of nodes that do not answer are
/// missing; then the exit code is 5.
pub fn run(global: &GlobalOptions) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let limit = reach::answer_limit(global);
    let nodes = NodeView::of(&cluster, limit);
    let rows = rows(&nodes, &cluster.file_systems(limit));
    let (systems, [total_bytes, free_bytes]) = total(&rows);
    let silent: Vec<_> = nodes.iter().filter(|node| node.is_down()).collect();
    if global.json {
        let disks: Vec<_> = rows.iter().map(as_json).collect();
        let names: Vec<_> = silent.iter().map(|node| &node.name).collect();
        terminal::print_json(&json!({
            "disks": disks,
            "total": {
                "total_bytes": total_bytes, "free_bytes": free_bytes, "file_systems": systems,
            },
            "silent_nodes": names,
        }))?;
    } else {
        let mut out = terminal::output();
        table(&rows, total_bytes, free_bytes).print(&mut out)?;
        if let Some(note) = note(rows.len(), systems) {
            writeln!(out, "{note}")?;
        }
        out.flush()?;
    }
    for node in &silent {
        let text = format!("the disks of node {:?} are missing: {}", node.name, node.trouble());
        exit::report_text(&text, NOT_REACHABLE, global.json);
    }
    if silent.is_empty() { Ok(()) } else { Err(AlreadyReported(NOT_REACHABLE).into()) }
}

/// Returns all disks. A disk whose file system is unknown counts as its own file system.
fn rows<'n>(
    nodes: &'n [NodeView],
    known: &HashMap<(String, usize), FileSystemId>,
) -> Vec<DiskRow<'n>> {
    let mut numbers: HashMap<&FileSystemId, usize> = HashMap::new();
    let mut next = 0;
    let mut rows = Vec::new();
    for node in nodes {
        for (number, disk) in node.disks().enumerate() {
            let mut take_next = || {
                next += 1;
                next - 1
            };
            let file_system = match known.get(&(node.name.clone(), number)) {
                Some(id) => *numbers.entry(id).or_insert_with(take_next),
                None => take_next(),
            };
            let name = format!("{}/{}", node.name, disk.disk.label);
            rows.push(DiskRow { name, disk, file_system });
        }
    }
    rows
}

/// Returns the number of file systems, and their total and free bytes.
fn total(rows: &[DiskRow<'_>]) -> (usize, [u64; 2]) {
    let mut systems: HashMap<usize, [u64; 2]> = HashMap::new();
    for row in rows {
        let [total, free] = systems.entry(row.file_system).or_default();
        // Nodes measure at different times; the smallest free space counts.
        *free = if *total == 0 { row.disk.free_bytes } else { row.disk.free_bytes.min(*free) };
        *total = row.disk.total_bytes.max(*total);
    }
    let sum =
        |which: usize| systems.values().map(|bytes| bytes[which]).fold(0, u64::saturating_add);
    (systems.len(), [sum(0), sum(1)])
}

fn table(rows: &[DiskRow<'_>], total_bytes: u64, free_bytes: u64) -> TextTable<6> {
    let mut table = TextTable::new([
        ("disk", ColumnAlignment::Left),
        ("size", ColumnAlignment::Right),
        ("used", ColumnAlignment::Right),
        ("free", ColumnAlignment::Right),
        ("full", ColumnAlignment::Right),
        ("directory", ColumnAlignment::Left),
    ]);
    let row = |name: &str, total: u64, free: u64, directory: &str| {
        let used = total.saturating_sub(free);
        let full = format!("{} %", share(used, total, 100));
        [name.to_owned(), size(total), size(used), size(free), full, directory.to_owned()]
    };
    for DiskRow { name, disk, .. } in rows {
        table.push(row(name, disk.total_bytes, disk.free_bytes, &disk.path));
    }
    table.push(row("total", total_bytes, free_bytes, ""));
    table
}

/// Explains why the total is less than the sum of the rows.
fn note(disks: usize, systems: usize) -> Option<String> {
    (disks > systems).then(|| match systems {
        1 => format!("the {disks} disks share one file system; the total counts it once"),
        _ => format!(
            "{disks} disks lie on {}; the total counts each once",
            count(systems as u64, "file system")
        ),
    })
}

fn as_json(row: &DiskRow<'_>) -> serde_json::Value {
    json!({
        "disk": row.name,
        "path": row.disk.path,
        "total_bytes": row.disk.total_bytes,
        "free_bytes": row.disk.free_bytes,
        "read_only": row.disk.disk.is_read_only,
        "file_system": row.file_system,
    })
}
