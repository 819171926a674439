//! The checks of a stress run, and the lines that it prints.

use std::time::Duration;

use crate::resource_usage::{LEFT_BYTES, LEFT_DESCRIPTORS, ResourceUsage};

/// The largest resident memory of a node under all floods.
pub const RESIDENT_LIMIT_BYTES: u64 = 512 << 20;

/// The largest number of its descriptors.
pub const DESCRIPTORS_LIMIT: u64 = 8192;

/// The largest 99th percentile of the honest client's latencies, while the floods keep all processors
/// busy.
pub const LATENCY_LIMIT: Duration = Duration::from_secs(2);

/// The measurements of a stress run.
#[derive(Debug)]
pub struct Findings {
    /// The resources of the node before the floods, their maximum, and after the floods.
    pub before: ResourceUsage,
    pub peak: ResourceUsage,
    pub after: ResourceUsage,
    /// The report of each flood.
    pub reports: Vec<String>,
    /// The latency of each call of the honest client, or its error.
    pub latencies: Vec<Result<Duration, String>>,
    /// Whether the node serves after the floods.
    pub is_alive: bool,
}

impl Findings {
    /// The checks: whether each passes, and its text.
    fn checks(&self) -> Vec<(bool, String)> {
        let mib = |bytes: u64| bytes >> 20;
        let failed: Vec<&String> =
            self.latencies.iter().filter_map(|call| call.as_ref().err()).collect();
        let first = failed.first().map_or("", |failure| failure.as_str());
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        let worst = self.percentile(100);
        vec![
            (self.is_alive, "alive: the node serves after the floods".to_owned()),
            (
                self.peak.resident_bytes <= RESIDENT_LIMIT_BYTES,
                format!(
                    "memory: {} MiB before, {} MiB at most, the limit is {} MiB",
                    mib(self.before.resident_bytes),
                    mib(self.peak.resident_bytes),
                    mib(RESIDENT_LIMIT_BYTES)
                ),
            ),
            (
                self.peak.descriptors <= DESCRIPTORS_LIMIT,
                format!(
                    "descriptors: {} before, {} at most, the limit is {DESCRIPTORS_LIMIT}",
                    self.before.descriptors, self.peak.descriptors
                ),
            ),
            (
                self.after.is_back_at(self.before),
                format!(
                    "return: {} MiB and {} descriptors after the floods, at most {} MiB and \
                     {LEFT_DESCRIPTORS} descriptors more than before are allowed",
                    mib(self.after.resident_bytes),
                    self.after.descriptors,
                    mib(LEFT_BYTES)
                ),
            ),
            (
                failed.is_empty(),
                format!("honest calls: {}, failed: {} {first}", self.latencies.len(), failed.len()),
            ),
            (
                p99 <= LATENCY_LIMIT,
                format!(
                    "honest latency: median {p50:?}, 99th percentile {p99:?}, worst {worst:?}, \
                     the limit of the percentile is {LATENCY_LIMIT:?}"
                ),
            ),
        ]
    }

    /// The lines to print.
    pub fn lines(&self) -> Vec<String> {
        let checks = self.checks().into_iter().map(|(is_good, text)| {
            let verdict = if is_good { "ok" } else { "FAILED" };
            format!("check {text} {verdict}")
        });
        self.reports.iter().map(|report| format!("flood {report}")).chain(checks).collect()
    }

    /// Whether all checks pass.
    pub fn are_good(&self) -> bool {
        self.checks().iter().all(|(is_good, _)| *is_good)
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut times: Vec<Duration> =
            self.latencies.iter().filter_map(|call| call.as_ref().ok().copied()).collect();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        times.get(last * percent / 100).copied().unwrap_or_default()
    }
}
