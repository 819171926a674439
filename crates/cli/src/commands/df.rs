//! `pario df`

use std::io::Write;

use serde_json::json;

use super::status::{ANSWER_LIMIT, NodeView};
use crate::amounts::{share, size};
use crate::arguments::Global;
use crate::exit::{NOT_REACHABLE, Told};
use crate::table::{Side, Table};
use crate::{reach, terminal};

/// Does it. Disks of nodes that do not answer are missing, and the exit code says so.
pub fn run(global: &Global) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let nodes = NodeView::of(&cluster, ANSWER_LIMIT);
    let disks =
        || nodes.iter().flat_map(|node| node.disks().map(|disk| (node.name.as_str(), disk)));
    let (mut total_bytes, mut free_bytes) = (0_u64, 0_u64);
    let mut table = Table::new([
        ("disk", Side::Left),
        ("size", Side::Right),
        ("used", Side::Right),
        ("free", Side::Right),
        ("full", Side::Right),
        ("directory", Side::Left),
    ]);
    let row = |name: String, total: u64, free: u64, directory: &str| {
        let used = total.saturating_sub(free);
        let full = format!("{} %", share(used, total, 100));
        [name, size(total), size(used), size(free), full, directory.to_owned()]
    };
    let mut listed = Vec::new();
    for (node, disk) in disks() {
        total_bytes = total_bytes.saturating_add(disk.total_bytes);
        free_bytes = free_bytes.saturating_add(disk.free_bytes);
        let name = format!("{node}/{}", disk.disk.label);
        listed.push(json!({
            "disk": name,
            "path": disk.path,
            "total_bytes": disk.total_bytes,
            "free_bytes": disk.free_bytes,
            "read_only": disk.disk.is_read_only,
        }));
        table.push(row(name, disk.total_bytes, disk.free_bytes, &disk.path));
    }
    let silent: Vec<_> = nodes.iter().filter(|node| node.is_down()).collect();
    if global.json {
        let names: Vec<_> = silent.iter().map(|node| &node.name).collect();
        terminal::print_json(&json!({
            "disks": listed,
            "total": { "total_bytes": total_bytes, "free_bytes": free_bytes },
            "silent_nodes": names,
        }))?;
    } else {
        table.push(row("total".to_owned(), total_bytes, free_bytes, ""));
        let mut out = terminal::output();
        table.print(&mut out)?;
        out.flush()?;
    }
    for node in &silent {
        eprintln!("pario: the disks of node {:?} are missing: {}", node.name, node.trouble());
    }
    if silent.is_empty() { Ok(()) } else { Err(Told(NOT_REACHABLE).into()) }
}
