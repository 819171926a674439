//! The trace as a timing diagram.
//!
//! Time runs from left to right. Each thread has a row, and each execution is a box in it with
//! the number of its token, so that one sees tokens move through the threads, who is always busy
//! and who waits. What a box says and how long it took is shown when the pointer rests on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::axis::{Axis, duration};
use super::rows::{Row, rows};
use super::span::{Span, SpanKind, Trace};
use crate::graph::palette::{HAIRLINE, INK, PAPER, Palette, SOFT_INK};
use crate::graph::text::{FONTS, escape, number, shorten, width};

/// More boxes than this are not drawn: nobody can see them, and viewers become slow.
const MOST_BOXES: usize = 2_000;
/// More names than this are not explained.
const MOST_NAMES: usize = 24;
const LONGEST_NAME: usize = 32;

const MARGIN: f64 = 20.0;
const ROW: f64 = 22.0;
const ROW_GAP: f64 = 5.0;
/// The height of the line that names an address space.
const SPACE: f64 = 24.0;
/// The column at the right that says how busy a thread was.
const BUSY: f64 = 52.0;
/// Space for a number, which most boxes should have.
const BOX: f64 = 20.0;
const NARROWEST: f64 = 820.0;
const WIDEST: f64 = 3_000.0;

/// Draws the trace.
pub(super) fn draw(trace: &Trace) -> String {
    let mut spans: Vec<&Span> = trace.spans.iter().collect();
    spans.sort_by_key(|span| (span.begin_ns, u64::MAX - span.end_ns));
    spans.truncate(MOST_BOXES);
    let mut picture = Picture::new(&spans);
    picture.heading(trace);
    picture.rows();
    picture.axis();
    picture.legend();
    picture.finish()
}

/// A diagram while it is drawn, from top to bottom.
struct Picture<'t> {
    rows: Vec<Lane<'t>>,
    names: BTreeSet<(&'t str, SpanKind)>,
    palette: Palette,
    start_ns: u64,
    total_ns: f64,
    /// Where time 0 is.
    left: f64,
    /// How wide the whole time is.
    plot: f64,
    /// Where the first row begins.
    top: f64,
    /// Where the next thing goes.
    y: f64,
    /// Grid lines lie behind boxes, so boxes are kept until the grid is known.
    front: String,
    back: String,
}

/// A thread and what it did.
struct Lane<'t> {
    row: Row<'t>,
    spans: Vec<&'t Span>,
}

impl<'t> Picture<'t> {
    fn new(spans: &[&'t Span]) -> Self {
        let start_ns = spans.iter().map(|span| span.begin_ns).min().unwrap_or(0);
        let end_ns = spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
        let total_ns = (end_ns.saturating_sub(start_ns).max(1)) as f64;
        let mut lanes: BTreeMap<Row<'t>, Vec<&'t Span>> = BTreeMap::new();
        for span in spans {
            lanes.entry(Row { space: &span.space, thread: &span.thread }).or_default().push(span);
        }
        let rows: Vec<Lane<'t>> = rows(spans.iter().copied())
            .into_iter()
            .map(|row| Lane { row, spans: lanes.remove(&row).unwrap_or_default() })
            .collect();
        let labels = rows.iter().map(|lane| label_width(lane.row.thread)).fold(40.0, f64::max);
        let names: BTreeSet<_> = spans.iter().map(|span| (span.name.as_str(), span.kind)).collect();
        Picture {
            palette: Palette::new(names.iter().map(|(name, _)| *name)),
            names,
            rows,
            start_ns,
            total_ns,
            left: MARGIN + labels + 12.0,
            plot: (total_ns / short_span_ns(spans) * BOX).clamp(NARROWEST, WIDEST),
            top: 0.0,
            y: MARGIN,
            front: String::new(),
            back: String::new(),
        }
    }

    fn heading(&mut self, trace: &Trace) {
        let shown: usize = self.rows.iter().map(|lane| lane.spans.len()).sum();
        let total = duration(self.total_ns);
        let summary = match (shown, trace.spans.len()) {
            (_, 0) => "Nothing was recorded".to_owned(),
            (shown, all) if shown < all => {
                format!("The first {shown} of {all} executions, {total}")
            }
            (1, _) => format!("1 execution, {total}"),
            _ => format!("{shown} executions, {total}"),
        };
        self.y += 14.0;
        self.text([MARGIN, self.y], 14.0, "start", INK, &summary);
        if trace.dropped > 0 {
            self.y += 17.0;
            let lost = format!("{} more were not recorded for lack of room", trace.dropped);
            self.text([MARGIN, self.y], 11.0, "start", SOFT_INK, &lost);
        }
        self.y += 12.0;
        self.top = self.y;
    }

    fn rows(&mut self) {
        let spaces: BTreeSet<&str> = self.rows.iter().map(|lane| lane.row.space).collect();
        let mut last = None;
        for lane in std::mem::take(&mut self.rows) {
            if spaces.len() > 1 && last != Some(lane.row.space) {
                self.y += SPACE;
                let at = [MARGIN, self.y - 7.0];
                self.bold(at, &shorten(lane.row.space, LONGEST_NAME));
                last = Some(lane.row.space);
            }
            self.lane(&lane);
            self.y += ROW + ROW_GAP;
        }
    }

    fn lane(&mut self, lane: &Lane<'t>) {
        let baseline = self.y + ROW / 2.0 + 4.0;
        let name = shorten(lane.row.thread, LONGEST_NAME);
        self.text([self.left - 10.0, baseline], 11.5, "end", INK, &name);
        let _ = writeln!(
            self.back,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f7f8f9\"/>",
            number(self.left),
            number(self.y),
            number(self.plot),
            number(ROW)
        );
        for span in &lane.spans {
            self.execution(span);
        }
        let share = busy_ns(&lane.spans) as f64 / self.total_ns * 100.0;
        let at = [self.left + self.plot + BUSY, baseline];
        self.text(at, 10.5, "end", SOFT_INK, &format!("{share:.0} %"));
    }

    fn execution(&mut self, span: &Span) {
        let begin = self.left + self.scaled((span.begin_ns - self.start_ns) as f64);
        let length = span.end_ns.saturating_sub(span.begin_ns) as f64;
        // What is shorter than a line is wide is drawn as a line.
        let wide = self.scaled(length).max(0.8);
        let tint = self.palette.tint(&span.name);
        let (fill, ink) = colours(span.kind, tint.fill, tint.line, tint.text);
        let mut about = span.name.clone();
        if span.token > 0 {
            let _ = write!(about, ", token {}", span.token);
        }
        let (took, waited) = (duration(length), duration(span.waited_ns as f64));
        let _ = write!(about, ", call {}: {took}, after {waited} in the queue", span.call);
        let line = if wide < 3.0 { "0" } else { "1" };
        let fill = if wide < 3.0 { tint.line } else { fill };
        let _ = writeln!(
            self.front,
            "<rect x=\"{:.2}\" y=\"{}\" width=\"{wide:.2}\" height=\"{}\" fill=\"{fill}\" \
             stroke=\"{}\" stroke-width=\"{line}\"><title>{}</title></rect>",
            begin,
            number(self.y + 1.0),
            number(ROW - 2.0),
            tint.line,
            escape(&about)
        );
        let inside = if span.token > 0 { span.token.to_string() } else { span.name.clone() };
        if width(&inside, 10.5, false) + 4.0 <= wide {
            let at = [begin + wide / 2.0, self.y + ROW / 2.0 + 3.8];
            self.text(at, 10.5, "middle", ink, &inside);
        }
    }

    fn axis(&mut self) {
        let axis = Axis::new(self.total_ns, (self.plot / 100.0).floor());
        let bottom = self.y + 4.0;
        for step in 0..=axis.steps {
            let x = self.left + self.scaled(axis.step_ns * f64::from(step));
            let _ = writeln!(
                self.back,
                "<path d=\"M{x:.1} {}V{}\" stroke=\"{HAIRLINE}\" stroke-width=\"1\"/>",
                number(self.top),
                number(bottom)
            );
            self.text([x, bottom + 13.0], 10.5, "middle", SOFT_INK, &axis.label(step));
        }
        let at = [self.left + self.plot + BUSY, bottom + 13.0];
        self.text(at, 10.5, "end", SOFT_INK, "busy");
        self.y = bottom + 30.0;
    }

    fn legend(&mut self) {
        const SIDE: f64 = 14.0;
        let right = self.left + self.plot + BUSY;
        let mut x = MARGIN;
        let names = std::mem::take(&mut self.names);
        for (name, kind) in names.iter().take(MOST_NAMES) {
            let what = match kind {
                SpanKind::Run => "",
                SpanKind::Split if *name != "split" => " (split)",
                SpanKind::Merge if *name != "merge" => " (merge)",
                SpanKind::Split | SpanKind::Merge => "",
            };
            let label = format!("{}{what}", shorten(name, LONGEST_NAME));
            let needed = SIDE + 6.0 + width(&label, 11.0, false);
            if x > MARGIN && x + needed > right {
                (x, self.y) = (MARGIN, self.y + 20.0);
            }
            let tint = self.palette.tint(name);
            let (fill, _) = colours(*kind, tint.fill, tint.line, tint.text);
            let _ = writeln!(
                self.front,
                "<rect x=\"{}\" y=\"{}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"{fill}\" \
                 stroke=\"{}\"/>",
                number(x),
                number(self.y),
                tint.line
            );
            self.text([x + SIDE + 6.0, self.y + 11.0], 11.0, "start", INK, &label);
            x += needed + 18.0;
        }
        if names.len() > MOST_NAMES {
            self.y += 20.0;
            let rest = format!("and {} more names", names.len() - MOST_NAMES);
            self.text([MARGIN, self.y + 11.0], 11.0, "start", SOFT_INK, &rest);
        }
        self.y += SIDE + MARGIN;
    }

    fn finish(self) -> String {
        let (wide, high) = (number(self.left + self.plot + BUSY + MARGIN), number(self.y));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" \
             viewBox=\"0 0 {wide} {high}\" font-family=\"{FONTS}\" \
             style=\"max-width:100%;height:auto\" role=\"img\">\n<title>Timing diagram</title>\n\
             <rect width=\"{wide}\" height=\"{high}\" rx=\"6\" fill=\"{PAPER}\"/>\n{}{}</svg>\n",
            self.back, self.front
        )
    }

    fn scaled(&self, ns: f64) -> f64 {
        ns / self.total_ns * self.plot
    }

    fn text(&mut self, [x, y]: [f64; 2], size: f64, anchor: &str, colour: &str, text: &str) {
        // Writing to a string does not fail, here and above.
        let _ = writeln!(
            self.front,
            "<text x=\"{}\" y=\"{}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
             fill=\"{colour}\">{}</text>",
            number(x),
            number(y),
            escape(text)
        );
    }

    fn bold(&mut self, [x, y]: [f64; 2], text: &str) {
        let _ = writeln!(
            self.front,
            "<text x=\"{}\" y=\"{}\" font-size=\"12\" font-weight=\"600\" fill=\"{INK}\">{}</text>",
            number(x),
            number(y),
            escape(text)
        );
    }
}

/// A time that one in five executions of operations stays below. Splits and merges mostly take
/// moments, and nobody looks for a number in them.
fn short_span_ns(spans: &[&Span]) -> f64 {
    let length = |span: &&Span| span.end_ns.saturating_sub(span.begin_ns);
    let runs = spans.iter().filter(|span| span.kind == SpanKind::Run);
    let mut lengths: Vec<u64> = runs.map(length).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 5).map_or(1.0, |length| (*length).max(1) as f64)
}

fn label_width(thread: &str) -> f64 {
    width(&shorten(thread, LONGEST_NAME), 11.5, false)
}

/// Background and text of a box: operations are light, splits white, merges full.
fn colours(
    kind: SpanKind,
    light: &'static str,
    full: &'static str,
    dark: &'static str,
) -> (&'static str, &'static str) {
    match kind {
        SpanKind::Run => (light, dark),
        SpanKind::Split => (PAPER, dark),
        SpanKind::Merge => (full, PAPER),
    }
}

/// How long at least one of the spans, which are in the order of their beginnings, was there.
fn busy_ns(spans: &[&Span]) -> u64 {
    let mut until = 0;
    let mut busy = 0;
    for span in spans {
        let begin = span.begin_ns.max(until);
        busy += span.end_ns.saturating_sub(begin);
        until = until.max(span.end_ns);
    }
    busy
}
