//! The metrics of a node.

use pario_server::{DURATION_BOUNDS_US, NodeReport};

use super::exposition::MetricKind::{Counter, Gauge, Histogram};
use super::exposition::{Exposition, MetricKind};
use super::process::ProcessUsage;

/// Returns all metrics of a node in Prometheus' text format.
pub fn text(report: &NodeReport, is_healthy: bool, process: &ProcessUsage) -> String {
    let mut out = Exposition::default();
    node(&mut out, report, is_healthy);
    requests(&mut out, report);
    disks(&mut out, report);
    users(&mut out, report);
    peers(&mut out, report);
    own_process(&mut out, process);
    out.finish()
}

fn node(out: &mut Exposition, report: &NodeReport, is_healthy: bool) {
    let status = &report.status;
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    out.family("pario_build_info", Gauge, "The version of the program.").sample(&version, 1.0);
    let role = if status.is_interface { "interface" } else { "storage" };
    let labels = [("cluster", report.cluster.as_str()), ("node", &status.name), ("role", role)];
    let help = "The cluster, the node and its role: interface or storage.";
    out.family("pario_node_info", Gauge, help).sample(&labels, 1.0);
    let help = "1 if /health answers 200.";
    out.single("pario_node_healthy", Gauge, help, flag(is_healthy));
    let help = "Time since the node started.";
    out.single("pario_node_uptime_seconds", Gauge, help, status.uptime_ms as f64 / 1e3);
    let threads = f64::from(status.storage_threads);
    out.single("pario_storage_threads", Gauge, "Threads that drive the disks.", threads);
    let threads = f64::from(status.compute_threads);
    out.single("pario_compute_threads", Gauge, "Threads that run operations.", threads);
    let bytes = status.cache_bytes as f64;
    out.single("pario_cache_bytes", Gauge, "Bytes of cached extents.", bytes);
    let help = "Extent reads answered from the cache.";
    out.single("pario_cache_hits_total", Counter, help, status.cache_hits as f64);
    let help = "Extent reads that needed a disk.";
    out.single("pario_cache_misses_total", Counter, help, status.cache_misses as f64);
}

fn requests(out: &mut Exposition, report: &NodeReport) {
    let mut family = out.family("pario_requests_total", Counter, "Answered requests, by kind.");
    for counts in &report.requests {
        family.sample(&[("kind", counts.kind)], counts.answered() as f64);
    }
    let help = "Requests answered with a failure, by kind.";
    let mut family = out.family("pario_request_failures_total", Counter, help);
    for counts in &report.requests {
        family.sample(&[("kind", counts.kind)], counts.failed as f64);
    }
    let help =
        "Time from the receipt of a request to its reply, waits for ranks and locks included.";
    let mut family = out.family("pario_request_duration_seconds", Histogram, help);
    let bounds = DURATION_BOUNDS_US.map(|bound| bound as f64 / 1e6);
    for counts in &report.requests {
        let sum = counts.total_time.as_secs_f64();
        family.histogram(&[("kind", counts.kind)], &bounds, &counts.by_duration, sum);
    }
    let help = "Requests under way, without those that wait for ranks or locks.";
    out.single("pario_requests_in_flight", Gauge, help, report.status.requests as f64);
    let age = report.status.oldest_request_ms as f64 / 1e3;
    let help = "The age of the oldest request under way.";
    out.single("pario_oldest_request_seconds", Gauge, help, age);
}

fn disks(out: &mut Exposition, report: &NodeReport) {
    let disks = &report.status.disks;
    let mut family = out.family("pario_disk_info", Gauge, "The directory of a disk.");
    for disk in disks {
        let uuid = format!("{:032x}", disk.disk.uuid);
        let mode = if disk.disk.is_read_only { "read-only" } else { "read-write" };
        let labels = [
            ("disk", disk.disk.label.as_str()),
            ("path", &disk.path),
            ("uuid", &uuid),
            ("mode", mode),
        ];
        family.sample(&labels, 1.0);
    }
    let mut each = |name, kind: MetricKind, help: &str, value: &dyn Fn(usize) -> f64| {
        let mut family = out.family(name, kind, help);
        for (number, disk) in disks.iter().enumerate() {
            family.sample(&[("disk", disk.disk.label.as_str())], value(number));
        }
    };
    let help = "The size of the disk's file system.";
    each("pario_disk_size_bytes", Gauge, help, &|at| disks[at].total_bytes as f64);
    let help = "Free space of the disk's file system.";
    each("pario_disk_free_bytes", Gauge, help, &|at| disks[at].free_bytes as f64);
    each("pario_disk_reads_total", Counter, "Read requests.", &|at| disks[at].reads as f64);
    let help = "Bytes read by requests.";
    each("pario_disk_read_bytes_total", Counter, help, &|at| disks[at].read_bytes as f64);
    each("pario_disk_writes_total", Counter, "Write requests.", &|at| disks[at].writes as f64);
    let help = "Bytes written by requests.";
    each("pario_disk_written_bytes_total", Counter, help, &|at| disks[at].written_bytes as f64);
    let help = "Requests waiting for the disk or in progress there.";
    each("pario_disk_queue_length", Gauge, help, &|at| disks[at].queue as f64);
    let help = "1 if the disk is unusable or has stalled.";
    each("pario_disk_failed", Gauge, help, &|at| flag(disks[at].trouble.is_some()));
    let help = "Requests that failed because of an I/O error or damaged data.";
    each("pario_disk_errors_total", Counter, help, &|at| report.disk_errors[at] as f64);
}

fn users(out: &mut Exposition, report: &NodeReport) {
    let status = &report.status;
    let help = "Connected clients, not counting nodes.";
    out.single("pario_clients", Gauge, help, status.clients.len() as f64);
    if status.is_interface {
        let help = "Files open by clients.";
        out.single("pario_open_files", Gauge, help, status.open_files as f64);
        let help = "Files and directories in the namespace.";
        out.single("pario_files", Gauge, help, status.files as f64);
        let help = "Deleted files that still take space.";
        out.single("pario_unfinished_deletions", Gauge, help, status.unfinished_deletions as f64);
    }
    let help = "Amount of a limited resource that all users have taken; see docs/limits.md.";
    let mut family = out.family("pario_resource_used", Gauge, help);
    for usage in &report.usage {
        family.sample(&[("resource", usage.resource)], usage.used as f64);
    }
    let help = "Limit of a resource for all users together.";
    let mut family = out.family("pario_resource_limit", Gauge, help);
    for usage in &report.usage {
        family.sample(&[("resource", usage.resource)], usage.limit as f64);
    }
}

fn peers(out: &mut Exposition, report: &NodeReport) {
    let help = "1 if the last attempt to reach the other node succeeded.";
    let mut family = out.family("pario_peer_up", Gauge, help);
    for peer in &report.status.peers {
        family.sample(&[("peer", &peer.name)], flag(peer.is_there));
    }
}

/// Adds the metrics of the process, under the names that all exporters use.
fn own_process(out: &mut Exposition, process: &ProcessUsage) {
    let help = "Start time of the process, in seconds since 1970.";
    out.single("process_start_time_seconds", Gauge, help, process.start_seconds);
    let help = "CPU time of the process.";
    out.single("process_cpu_seconds_total", Counter, help, process.cpu_seconds);
    let help = "Resident memory of the process.";
    out.single("process_resident_memory_bytes", Gauge, help, process.resident_bytes as f64);
    let help = "Address space of the process.";
    out.single("process_virtual_memory_bytes", Gauge, help, process.virtual_bytes as f64);
    out.single("process_threads", Gauge, "Threads of the process.", process.threads as f64);
    let help = "Open file descriptors of the process.";
    out.single("process_open_fds", Gauge, help, process.descriptors as f64);
    let limit = process.descriptor_limit.map_or(f64::INFINITY, |limit| limit as f64);
    out.single("process_max_fds", Gauge, "Limit for open file descriptors.", limit);
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
