//! Prometheus' text format, version 0.0.4.
//!
//! Invariant: the output is a valid document: each family occurs once, with help and type before
//! its samples.

use std::fmt::Write;

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows during the life of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound, with a sum.
    Histogram,
}

/// A document.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// The samples of one family.
#[derive(Debug)]
pub struct MetricFamily<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// Names and values that distinguish the samples of a family.
pub type Labels<'a> = [(&'a str, &'a str)];

impl Exposition {
    /// Begins a family.
    pub fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) -> MetricFamily<'_> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        add(&mut self.text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        MetricFamily { text: &mut self.text, name }
    }

    /// Adds a family of one sample.
    pub fn single(&mut self, name: &'static str, kind: MetricKind, help: &str, value: f64) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// Returns the document.
    pub fn finish(self) -> String {
        self.text
    }
}

impl MetricFamily<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: &Labels<'_>, value: f64) {
        self.line("", labels, value);
    }

    /// Adds a histogram: counts per bucket, not cumulative; the last bucket has no bound.
    pub fn histogram(&mut self, labels: &Labels<'_>, bounds: &[f64], counts: &[u64], sum: f64) {
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        let mut total = 0;
        for (bound, count) in bounds.zip(counts) {
            total += count;
            let bound = number(bound);
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.line("_bucket", &labels, total as f64);
        }
        self.line("_sum", labels, sum);
        self.line("_count", labels, total as f64);
    }

    fn line(&mut self, suffix: &str, labels: &Labels<'_>, value: f64) {
        add(self.text, format_args!("{}{suffix}", self.name));
        for (number, (name, value)) in labels.iter().enumerate() {
            let begin = if number == 0 { '{' } else { ',' };
            add(self.text, format_args!("{begin}{name}=\"{}\"", escaped(value)));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        add(self.text, format_args!("{end} {}\n", number(value)));
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    if value == f64::INFINITY { "+Inf".to_owned() } else { value.to_string() }
}

fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a String accepts all text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_as_prometheus_wants_it() {
        let mut document = Exposition::default();
        document.single("up_seconds", MetricKind::Gauge, "Back\\slash and\nline.", 1.5);
        let mut reads = document.family("reads_total", MetricKind::Counter, "Reads.");
        reads.sample(&[("disk", "d\"0\\\n"), ("node", "a")], 9_007_199_254_740_992.0);
        let mut times = document.family("seconds", MetricKind::Histogram, "Times.");
        times.histogram(&[("kind", "read")], &[0.001, 1.0], &[3, 0, 2], 7.25);
        assert_eq!(
            document.finish(),
            "# HELP up_seconds Back\\\\slash and\\nline.\n\
             # TYPE up_seconds gauge\n\
             up_seconds 1.5\n\
             # HELP reads_total Reads.\n\
             # TYPE reads_total counter\n\
             reads_total{disk=\"d\\\"0\\\\\\n\",node=\"a\"} 9007199254740992\n\
             # HELP seconds Times.\n\
             # TYPE seconds histogram\n\
             seconds_bucket{kind=\"read\",le=\"0.001\"} 3\n\
             seconds_bucket{kind=\"read\",le=\"1\"} 3\n\
             seconds_bucket{kind=\"read\",le=\"+Inf\"} 5\n\
             seconds_sum{kind=\"read\"} 7.25\n\
             seconds_count{kind=\"read\"} 5\n"
        );
    }
}
