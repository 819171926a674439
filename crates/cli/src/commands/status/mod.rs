//! `pario status`: shows the state of nodes, disks, clients and jobs.

mod one_file;
mod shared_files;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use pario::Cluster;
use pario::status::{ClientStatus, DiskStatus, JobStatus, NodeStatus};
use serde_json::{Value, json};

use super::why;
use crate::amounts::{count, elapsed, share, size};
use crate::arguments::GlobalOptions;
use crate::exit::{AlreadyReported, FAILED};
use crate::owners::Owners;
use crate::table::{ColumnAlignment, TextTable};
use crate::{reach, terminal};
use shared_files::ThreadsShown;

/// Time limit for the answer of a node.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario status\n  pario status --file /runs/7/result\n  \
                            pario status --json | jq '.nodes[].disks'";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Show the jobs that share this file, and which ranks wait for which others
    #[arg(long, value_name = "PATH")]
    file: Option<OsString>,

    /// Show the threads that serve the disks: what each does and for which file, and how many
    /// requests wait for it
    #[arg(long)]
    threads: bool,

    /// Show everything: also the shared files of all jobs with their pointers and ends, the private
    /// pointers and started requests of their ranks, the calls that wait, and threads without
    /// requests
    #[arg(long)]
    all: bool,
}

/// The status of a node, or why it is unknown.
#[derive(Debug)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// Its own report.
    pub status: Result<NodeStatus, pario::Error>,
}

impl NodeView {
    /// Asks all nodes of a cluster; returns them in the order of the cluster map.
    pub fn of(cluster: &Cluster, within: Duration) -> Vec<NodeView> {
        let map = cluster.map();
        let address_of = |name: &str| {
            let node = map.nodes.iter().find(|node| node.name == name);
            node.map(|node| node.address.clone()).unwrap_or_default()
        };
        let nodes = cluster.status(within).into_iter();
        nodes.map(|(name, status)| NodeView { address: address_of(&name), name, status }).collect()
    }

    /// Returns its disks, if it has answered.
    pub fn disks(&self) -> impl Iterator<Item = &DiskStatus> {
        self.status.iter().flat_map(|status| &status.disks)
    }

    /// Returns whether it does not answer.
    pub fn is_down(&self) -> bool {
        self.status.is_err()
    }

    /// Returns its problem as a sentence.
    pub fn trouble(&self) -> String {
        self.status.as_ref().err().map(ToString::to_string).unwrap_or_default()
    }

    /// Returns its state as one word.
    pub fn state(&self) -> &'static str {
        match &self.status {
            Err(_) => "down",
            Ok(status) if status.is_stopping => "stopping",
            Ok(_) => "up",
        }
    }
}

/// Runs the command. The exit code says whether all nodes answer.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    if let Some(file) = &options.file {
        return one_file::run(global, file, options);
    }
    // The node that is asked for the others may itself hang.
    let limit = global.timeout.unwrap_or(ANSWER_LIMIT.as_secs_f64());
    let cluster = reach::cluster(&GlobalOptions { timeout: Some(limit), ..global.clone() })?;
    let nodes = NodeView::of(&cluster, Duration::from_secs_f64(limit));
    // If the interface node does not answer, the table of nodes shows that.
    let jobs = cluster.jobs().unwrap_or_default();
    let cluster = cluster.map().name;
    if global.json {
        let mut json = as_json(&cluster, &nodes);
        json["jobs"] = jobs.iter().map(why::job_json).collect();
        terminal::print_json(&json)?;
    } else {
        let mut out = terminal::output();
        print(&mut out, &cluster, &nodes, &jobs)?;
        print_details(&mut out, options, &nodes, &jobs)?;
        out.flush()?;
    }
    if nodes.iter().any(NodeView::is_down) { Err(AlreadyReported(FAILED).into()) } else { Ok(()) }
}

fn print(
    out: &mut impl Write,
    cluster: &str,
    nodes: &[NodeView],
    jobs: &[JobStatus],
) -> io::Result<()> {
    writeln!(out, "cluster {cluster}, {}", count(nodes.len() as u64, "node"))?;
    writeln!(out)?;
    node_table(nodes).print(out)?;
    writeln!(out)?;
    disk_table(nodes).print(out)?;
    let clients = client_table(clients(nodes));
    if !clients.is_empty() {
        writeln!(out)?;
        clients.print(out)?;
    }
    if !jobs.is_empty() {
        writeln!(out)?;
        why::job_table(jobs).print(out)?;
    }
    let problems = problems(nodes);
    if !problems.is_empty() {
        writeln!(out)?;
    }
    problems.iter().try_for_each(|trouble| writeln!(out, "{trouble}"))
}

/// Prints what the options ask for.
fn print_details(
    out: &mut impl Write,
    options: &Options,
    nodes: &[NodeView],
    jobs: &[JobStatus],
) -> io::Result<()> {
    if options.all && jobs.iter().any(|job| !job.files.is_empty()) {
        writeln!(out)?;
        shared_files::file_table(jobs).print(out)?;
    }
    if options.all {
        shared_files::print_ranks(out, jobs)?;
        shared_files::print_waits(out, jobs)?;
    }
    if options.threads || options.all {
        let which = if options.all { ThreadsShown::All } else { ThreadsShown::Busy };
        writeln!(out)?;
        shared_files::thread_table(nodes, jobs, which).print(out)?;
    }
    Ok(())
}

fn node_table(nodes: &[NodeView]) -> TextTable<8> {
    let mut table = TextTable::new([
        ("node", ColumnAlignment::Left),
        ("state", ColumnAlignment::Left),
        ("pid", ColumnAlignment::Right),
        ("up for", ColumnAlignment::Right),
        ("requests", ColumnAlignment::Right),
        ("clients", ColumnAlignment::Right),
        ("open files", ColumnAlignment::Right),
        ("address", ColumnAlignment::Left),
    ]);
    for node in nodes {
        let about = |say: &dyn Fn(&NodeStatus) -> String| {
            node.status.as_ref().map_or_else(|_| "-".to_owned(), say)
        };
        table.push([
            node.name.clone(),
            node.state().to_owned(),
            about(&|status| status.pid.to_string()),
            about(&|status| elapsed(Duration::from_millis(status.uptime_ms))),
            about(&|status| status.requests.to_string()),
            about(&|status| status.clients.len().to_string()),
            // Only the interface node knows.
            about(&|status| match status.is_interface {
                true => status.open_files.to_string(),
                false => "-".to_owned(),
            }),
            reach::shown_address(&node.address),
        ]);
    }
    table
}

/// Returns the table of disks, which `pario top` shows as well, with rates.
fn disk_table(nodes: &[NodeView]) -> TextTable<6> {
    let mut table = TextTable::new([
        ("disk", ColumnAlignment::Left),
        ("size", ColumnAlignment::Right),
        ("full", ColumnAlignment::Right),
        ("queue", ColumnAlignment::Right),
        ("read", ColumnAlignment::Right),
        ("written", ColumnAlignment::Right),
    ]);
    for node in nodes {
        for disk in node.disks() {
            let used = disk.total_bytes.saturating_sub(disk.free_bytes);
            table.push([
                format!("{}/{}", node.name, disk.disk.label),
                size(disk.total_bytes),
                format!("{} %", share(used, disk.total_bytes, 100)),
                disk.queue.to_string(),
                size(disk.read_bytes),
                size(disk.written_bytes),
            ]);
        }
    }
    table
}

/// Returns the clients of all nodes, each with the name of its node.
pub fn clients(nodes: &[NodeView]) -> impl Iterator<Item = (&str, &ClientStatus)> {
    nodes.iter().flat_map(|node| {
        let clients = node.status.iter().flat_map(|status| &status.clients);
        clients.map(|client| (node.name.as_str(), client))
    })
}

pub fn client_table<'n>(
    clients: impl IntoIterator<Item = (&'n str, &'n ClientStatus)>,
) -> TextTable<5> {
    let owners = Owners::new();
    let mut table = TextTable::new([
        ("client", ColumnAlignment::Left),
        ("user", ColumnAlignment::Left),
        ("of node", ColumnAlignment::Left),
        ("requests", ColumnAlignment::Right),
        ("open files", ColumnAlignment::Right),
    ]);
    for (node, client) in clients {
        table.push([
            client.name.clone(),
            owners.user(client.uid),
            node.to_owned(),
            client.requests.to_string(),
            client.open_files.to_string(),
        ]);
    }
    table
}

/// Returns all problems, one sentence each.
pub fn problems(nodes: &[NodeView]) -> Vec<String> {
    let mut problems = Vec::new();
    for node in nodes {
        let name = &node.name;
        let status = match &node.status {
            Ok(status) => status,
            Err(error) => {
                problems.push(format!("node {name} is down: {error}"));
                continue;
            }
        };
        for disk in &status.disks {
            if let Some(trouble) = &disk.trouble {
                problems.push(format!("disk {name}/{} is unusable: {trouble}", disk.disk.label));
            }
        }
        for peer in status.peers.iter().filter(|peer| !peer.is_there) {
            let why = peer.trouble.as_deref().unwrap_or("it has never been seen");
            problems.push(format!("node {name} cannot reach node {}: {why}", peer.name));
        }
        if status.oldest_request_ms >= 1000 {
            let age = elapsed(Duration::from_millis(status.oldest_request_ms));
            problems.push(format!("node {name}: its oldest request is {age} old"));
        }
        // A node removes deleted files in the background; only a missing disk stops it.
        if status.unfinished_deletions > 0 && are_disks_missing(nodes) {
            let files = count(status.unfinished_deletions, "deletion");
            problems.push(format!("node {name}: {files} not finished, because disks are missing"));
        }
    }
    problems
}

/// Returns whether any node reports a disk as unusable.
fn are_disks_missing(nodes: &[NodeView]) -> bool {
    nodes.iter().any(|node| match &node.status {
        Ok(status) => {
            status.disks.iter().any(|disk| disk.trouble.is_some())
                || status.peers.iter().any(|peer| !peer.is_there)
        }
        Err(_) => true,
    })
}

/// Returns everything as JSON.
pub fn as_json(cluster: &str, nodes: &[NodeView]) -> Value {
    let nodes: Vec<_> = nodes.iter().map(node_json).collect();
    json!({ "cluster": cluster, "nodes": nodes })
}

fn node_json(node: &NodeView) -> Value {
    let status = match &node.status {
        Ok(status) => status,
        Err(error) => {
            return json!({
                "node": node.name, "address": node.address, "state": "down",
                "trouble": error.to_string(),
            });
        }
    };
    let disks: Vec<_> = status.disks.iter().map(|disk| disk_json(&node.name, disk)).collect();
    let clients = status.clients.iter().map(|client| {
        json!({
            "name": client.name, "uid": client.uid, "requests": client.requests,
            "open_files": client.open_files,
        })
    });
    let peers = status.peers.iter().map(
        |peer| json!({ "node": peer.name, "reached": peer.is_there, "trouble": peer.trouble }),
    );
    let threads = status.threads.iter().map(|thread| {
        json!({
            "serves": thread.serves, "serves_ms": thread.serves_ms, "waiting": thread.waiting,
            "served": thread.served, "file": thread.file.map(|file| file.to_string()),
        })
    });
    let of_interface = |number: u64| status.is_interface.then_some(number);
    json!({
        "node": node.name,
        "address": node.address,
        "state": node.state(),
        "trouble": null,
        "pid": status.pid,
        "uptime_ms": status.uptime_ms,
        "interface": status.is_interface,
        "storage_threads": status.storage_threads,
        "threads": threads.collect::<Vec<_>>(),
        "compute_threads": status.compute_threads,
        "requests": status.requests,
        "oldest_request_ms": status.oldest_request_ms,
        "open_files": of_interface(status.open_files),
        "files": of_interface(status.files),
        "unfinished_deletions": of_interface(status.unfinished_deletions),
        "cache_bytes": status.cache_bytes,
        "cache_hits": status.cache_hits,
        "cache_misses": status.cache_misses,
        "disks": disks,
        "clients": clients.collect::<Vec<_>>(),
        "peers": peers.collect::<Vec<_>>(),
    })
}

fn disk_json(node: &str, disk: &DiskStatus) -> Value {
    json!({
        "disk": format!("{node}/{}", disk.disk.label),
        "number": disk.disk.id.0,
        "uuid": format!("{:032x}", disk.disk.uuid),
        "path": disk.path,
        "read_only": disk.disk.is_read_only,
        "total_bytes": disk.total_bytes,
        "free_bytes": disk.free_bytes,
        "reads": disk.reads,
        "read_bytes": disk.read_bytes,
        "writes": disk.writes,
        "written_bytes": disk.written_bytes,
        "queue": disk.queue,
        "trouble": disk.trouble,
    })
}

#[cfg(test)]
pub mod tests {
    use pario::DiskId;
    use pario::status::{ClientStatus, DiskInfo, FileId, PeerStatus, StorageThreadStatus};

    use super::*;

    /// A node with one disk, a client and an unreachable peer.
    pub fn node(name: &str) -> NodeView {
        let disk = DiskStatus {
            disk: DiskInfo {
                id: DiskId(0),
                uuid: 7,
                label: "disk0".to_owned(),
                is_read_only: false,
            },
            path: "/mnt/d0".to_owned(),
            total_bytes: 200 << 30,
            free_bytes: 50 << 30,
            reads: 10,
            read_bytes: 10 << 20,
            writes: 4,
            written_bytes: 4 << 20,
            queue: 3,
            trouble: None,
        };
        let client =
            ClientStatus { name: "pario[17]".to_owned(), uid: 0, requests: 14, open_files: 1 };
        let peer = PeerStatus {
            name: "z".to_owned(),
            is_there: false,
            trouble: Some("connection refused".to_owned()),
        };
        let status = NodeStatus {
            name: name.to_owned(),
            pid: 4711,
            uptime_ms: 12_700,
            is_stopping: false,
            is_interface: true,
            disks: vec![disk],
            storage_threads: 1,
            compute_threads: 2,
            requests: 3,
            oldest_request_ms: 40,
            clients: vec![client],
            open_files: 1,
            files: 9,
            unfinished_deletions: 0,
            cache_bytes: 0,
            cache_hits: 0,
            cache_misses: 0,
            peers: vec![peer],
            threads: vec![
                StorageThreadStatus {
                    serves: None,
                    serves_ms: None,
                    waiting: 0,
                    served: 9,
                    file: None,
                },
                StorageThreadStatus {
                    serves: Some("read on a/disk0".to_owned()),
                    serves_ms: Some(2_100),
                    waiting: 3,
                    served: 41,
                    file: Some(FileId(1)),
                },
            ],
        };
        NodeView { name: name.to_owned(), address: format!("unix=/{name}"), status: Ok(status) }
    }

    /// A node that does not answer.
    pub fn silent(name: &str) -> NodeView {
        let text = format!("node {name} does not answer since 2.0 s");
        let error = pario::Error::NodeDown { node: name.to_owned(), text };
        NodeView { name: name.to_owned(), address: String::new(), status: Err(error) }
    }

    #[test]
    fn tables_show_nodes_disks_clients_jobs_and_troubles() {
        let mut out = Vec::new();
        print(&mut out, "lab", &[node("a"), silent("b")], &[why::tests::job()]).unwrap();
        let expected = "\
cluster lab, 2 nodes

node  state   pid  up for  requests  clients  open files  address
a     up     4711    12 s         3        1           1  unix:/a
b     down      -       -         -        -           -

disk        size  full  queue    read  written
a/disk0  200 GiB  75 %      3  10 MiB    4 MiB

client     user  of node  requests  open files
pario[17]  root  a              14           1

job   user  ranks  here  open files  waiting
4711  root      5     4           2  12 s for rank 3

node a cannot reach node z: connection refused
node b is down: node b does not answer since 2.0 s
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn details_show_pointers_ends_waits_and_threads() {
        let text = |threads, all| {
            let options = Options { file: None, threads, all };
            let mut out = Vec::new();
            print_details(&mut out, &options, &[node("a")], &[why::tests::job()]).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(false, false), "");
        let busy = "a/1     read on a/disk0  /runs/result  2 s        3      41\n";
        assert_eq!(
            text(true, false),
            format!("\nthread  serves           file          for  waiting  served\n{busy}")
        );
        let all = text(false, true);
        let idle = "a/0     -                -               -        0       9\n";
        assert!(all.ends_with(&format!("{idle}{busy}")), "{all}");
        assert!(all.contains("/runs/result  4711  root  M_SYNC     4096  8192"), "{all}");
        assert!(all.contains("M_SYNC, call 41, for 12 s"), "{all}");
        let request = "/runs/result  4711     2        -       17  read    65536  2 s\n";
        assert!(all.contains(request), "{all}");
    }

    #[test]
    fn json_has_the_same_facts() {
        let json = as_json("lab", &[node("a"), silent("b")]);
        assert_eq!(json["cluster"], "lab");
        assert_eq!(json["nodes"][0]["disks"][0]["disk"], "a/disk0");
        assert_eq!(json["nodes"][0]["disks"][0]["free_bytes"], 50_u64 << 30);
        assert_eq!(json["nodes"][0]["peers"][0]["reached"], false);
        assert_eq!(json["nodes"][1]["state"], "down");
        assert_eq!(json["nodes"][1]["trouble"], "node b does not answer since 2.0 s");
    }

    #[test]
    fn every_trouble_has_a_sentence() {
        let mut view = node("a");
        let status = view.status.as_mut().unwrap();
        status.disks[0].trouble = Some("its lock is held".to_owned());
        status.oldest_request_ms = 3000;
        status.unfinished_deletions = 1;
        status.peers.clear();
        let expected = [
            "disk a/disk0 is unusable: its lock is held",
            "node a: its oldest request is 3 s old",
            "node a: 1 deletion not finished, because disks are missing",
        ];
        assert_eq!(problems(&[view]), expected);
    }

    #[test]
    fn deletions_in_the_background_are_no_trouble() {
        let mut view = node("a");
        let status = view.status.as_mut().unwrap();
        status.unfinished_deletions = 3000;
        status.peers.clear();
        assert_eq!(problems(&[view]), [""; 0]);
    }
}
