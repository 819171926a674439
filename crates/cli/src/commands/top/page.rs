//! Formats one page of `pario top` as lines.

use std::time::Duration;

use super::rates::{ClusterSnapshot, Rate, Rates};
use crate::amounts::{count, elapsed, rate, share, size};
use crate::commands::status::{self, NodeView, problems};
use crate::table::{ColumnAlignment, TextTable};

/// Blocks of a bar that shows how full a disk is.
const BAR_BLOCKS: u64 = 10;

/// Most clients shown: those with most requests.
const CLIENTS_SHOWN: usize = 10;

/// The kind of a line; it decides the style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// The first line.
    Title,
    /// The heads of a table.
    Heads,
    /// A row or an empty line.
    Row,
    /// A problem.
    Trouble,
}

/// A line of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLine {
    /// Its kind.
    pub kind: LineKind,
    /// Its text.
    pub text: String,
}

/// Formats a snapshot and the rates since the previous one.
pub fn lines(snapshot: &ClusterSnapshot, rates: &Rates) -> Vec<PageLine> {
    let mut lines = vec![PageLine { kind: LineKind::Title, text: title(snapshot) }];
    let tables = [node_lines(snapshot, rates), disk_lines(snapshot, rates), client_lines(snapshot)];
    for table in tables.into_iter().filter(|table| table.len() > 1) {
        lines.push(PageLine { kind: LineKind::Row, text: String::new() });
        let kinds = [LineKind::Heads].into_iter().chain(std::iter::repeat(LineKind::Row));
        lines.extend(table.into_iter().zip(kinds).map(|(text, kind)| PageLine { kind, text }));
    }
    let problems = problems(&snapshot.nodes);
    if !problems.is_empty() {
        lines.push(PageLine { kind: LineKind::Row, text: String::new() });
    }
    lines.extend(problems.into_iter().map(|text| PageLine { kind: LineKind::Trouble, text }));
    lines
}

fn title(snapshot: &ClusterSnapshot) -> String {
    let down = snapshot.nodes.iter().filter(|node| node.is_down()).count();
    let statuses = || snapshot.nodes.iter().filter_map(|node| node.status.as_ref().ok());
    let clients: usize = statuses().map(|status| status.clients.len()).sum();
    let open: u64 = statuses().map(|status| status.open_files).sum();
    let down = if down > 0 { format!(", {down} down") } else { String::new() };
    format!(
        "cluster {}   {}{down}   {}   {}",
        snapshot.cluster,
        count(snapshot.nodes.len() as u64, "node"),
        count(clients as u64, "client"),
        count(open, "open file"),
    )
}

fn node_lines(snapshot: &ClusterSnapshot, rates: &Rates) -> Vec<String> {
    let mut table = TextTable::new([
        ("node", ColumnAlignment::Left),
        ("state", ColumnAlignment::Left),
        ("up for", ColumnAlignment::Right),
        ("requests", ColumnAlignment::Right),
        ("oldest", ColumnAlignment::Right),
        ("read", ColumnAlignment::Right),
        ("written", ColumnAlignment::Right),
        ("cache", ColumnAlignment::Right),
    ]);
    for node in &snapshot.nodes {
        let Ok(status) = &node.status else {
            let nothing = || "-".to_owned();
            let [a, b, c, d, e, f] = std::array::from_fn(|_| nothing());
            table.push([node.name.clone(), node.state().to_owned(), a, b, c, d, e, f]);
            continue;
        };
        let moved = rate_of(node, rates);
        table.push([
            node.name.clone(),
            node.state().to_owned(),
            elapsed(Duration::from_millis(status.uptime_ms)),
            status.requests.to_string(),
            elapsed(Duration::from_millis(status.oldest_request_ms)),
            rate(moved.read),
            rate(moved.written),
            size(status.cache_bytes),
        ]);
    }
    table.lines()
}

/// Returns the total rate of a node's disks.
fn rate_of(node: &NodeView, rates: &Rates) -> Rate {
    let names = node.disks().map(|disk| format!("{}/{}", node.name, disk.disk.label));
    names.filter_map(|name| rates.get(&name)).fold(Rate::default(), |sum, rate| Rate {
        read: sum.read.saturating_add(rate.read),
        written: sum.written.saturating_add(rate.written),
        requests: sum.requests.saturating_add(rate.requests),
    })
}

fn disk_lines(snapshot: &ClusterSnapshot, rates: &Rates) -> Vec<String> {
    let mut table = TextTable::new([
        ("disk", ColumnAlignment::Left),
        ("full", ColumnAlignment::Left),
        ("", ColumnAlignment::Right),
        ("free", ColumnAlignment::Right),
        ("queue", ColumnAlignment::Right),
        ("requests/s", ColumnAlignment::Right),
        ("read", ColumnAlignment::Right),
        ("written", ColumnAlignment::Right),
    ]);
    for (name, disk) in snapshot.disks() {
        let used = disk.total_bytes.saturating_sub(disk.free_bytes);
        let moved = rates.get(&name).copied().unwrap_or_default();
        table.push([
            name,
            bar(used, disk.total_bytes),
            format!("{} %", share(used, disk.total_bytes, 100)),
            size(disk.free_bytes),
            disk.queue.to_string(),
            moved.requests.to_string(),
            rate(moved.read),
            rate(moved.written),
        ]);
    }
    table.lines()
}

fn client_lines(snapshot: &ClusterSnapshot) -> Vec<String> {
    let mut clients: Vec<_> = status::clients(&snapshot.nodes).collect();
    clients.sort_by_key(|(_, client)| std::cmp::Reverse(client.requests));
    clients.truncate(CLIENTS_SHOWN);
    status::client_table(clients).lines()
}

/// Returns a bar of blocks.
fn bar(part: u64, whole: u64) -> String {
    let full = share(part, whole, BAR_BLOCKS).min(BAR_BLOCKS);
    (0..BAR_BLOCKS).map(|block| if block < full { '█' } else { '░' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::tests::silent;
    use crate::commands::top::rates::tests::snapshots;

    #[test]
    fn a_page_has_nodes_disks_clients_and_troubles() {
        let (before, mut after) = snapshots(6 << 20);
        after.nodes.push(silent("b"));
        let lines = lines(&after, &after.rates_since(&before));
        let text: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        let expected = "\
cluster lab   2 nodes, 1 down   1 client   1 open file

node  state  up for  requests  oldest     read  written  cache
a     up       12 s         3   40 ms  3 MiB/s    0 B/s    0 B
b     down        -         -       -        -        -      -

disk     full                free  queue  requests/s     read  written
a/disk0  ███████░░░  75 %  50 GiB      3           2  3 MiB/s    0 B/s

client     user  of node  requests  open files
pario[17]  root  a              14           1

node a cannot reach node z: connection refused
node b is down: node b does not answer since 2.0 s";
        assert_eq!(text.join("\n"), expected);
        assert_eq!(lines[0].kind, LineKind::Title);
        assert_eq!(lines[2].kind, LineKind::Heads);
        assert_eq!(lines.last().unwrap().kind, LineKind::Trouble);
    }

    #[test]
    fn bars_are_full_or_not() {
        assert_eq!(bar(0, 10), "░░░░░░░░░░");
        assert_eq!(bar(5, 10), "█████░░░░░");
        assert_eq!(bar(10, 10), "██████████");
        assert_eq!(bar(0, 0), "░░░░░░░░░░");
        assert_eq!(bar(20, 10), "██████████");
    }
}
