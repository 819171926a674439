//! Collects the warnings of all threads of the test process.

use std::sync::{Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// The warnings of this process.
pub struct Warnings {
    lines: Mutex<Vec<String>>,
}

static WARNINGS: OnceLock<&'static Warnings> = OnceLock::new();

impl Warnings {
    /// Begins to collect, once for all tests of this process.
    pub fn collect() -> &'static Self {
        WARNINGS.get_or_init(|| {
            let warnings: &'static Self =
                Box::leak(Box::new(Self { lines: Mutex::new(Vec::new()) }));
            tracing::subscriber::set_global_default(Collector(warnings))
                .expect("no other test sets a subscriber");
            warnings
        })
    }

    /// Whether a warning of a program contains these words.
    pub fn contain(&self, program: &str, words: &str) -> bool {
        let lines = self.lines.lock().unwrap();
        lines.iter().any(|line| line.contains(program) && line.contains(words))
    }
}

struct Collector(&'static Warnings);

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lines.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}
