//! The trace as a timing diagram.
//!
//! Time runs from left to right over the width of a page. Each thread has a row. An execution is a
//! box; executions too short to be visible share a box. A wait is a dashed box with the name of what
//! the thread waited for. The tooltip of a box shows its duration and its note. The legend below the
//! rows lists the total time of each name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::axis::{TimeAxis, duration};
use super::boxes::{SpanBox, boxes, length_ns};
use super::rows::{ThreadRow, rows};
use super::span::{Span, SpanKind, Trace};
use crate::graph::palette::{HAIRLINE, INK, PAPER, Palette, SOFT_INK};
use crate::graph::text::{FONTS, escape, number, shorten, width};

/// The names in the legend; further names are only counted.
const NAMES_LIMIT: usize = 24;
const NAME_LENGTH_LIMIT: usize = 32;

const MARGIN: f64 = 20.0;
const ROW_GAP: f64 = 6.0;
/// The height of the line with the name of a process.
const PROCESS_LINE: f64 = 28.0;
/// The width of the column at the right with the busy share of a thread.
const BUSY_COLUMN: f64 = 56.0;
/// The width of the plot. With labels and margins it fits a page unscaled.
const PLOT: f64 = 1_000.0;
/// The narrowest visible box.
const NARROWEST: f64 = 2.0;
/// The number of boxes of that width in the plot.
const COLUMNS: u64 = 500;

const HEADING_SIZE: f64 = 16.0;
const TEXT_SIZE: f64 = 13.0;
/// The text size in narrow boxes.
const SMALL_TEXT_SIZE: f64 = 11.0;

/// Draws the trace.
pub(super) fn draw(trace: &Trace) -> String {
    let mut spans: Vec<&Span> = trace.spans.iter().collect();
    spans.sort_by_key(|span| (span.begin_ns, u64::MAX - span.end_ns));
    let mut picture = TimingDiagram::new(&spans);
    picture.heading(trace);
    picture.rows();
    picture.axis();
    picture.legend();
    picture.finish()
}

/// A diagram, drawn from top to bottom.
struct TimingDiagram<'t> {
    rows: Vec<TraceLane<'t>>,
    /// The total time of each name.
    totals: BTreeMap<(SpanKind, &'t str), NameTotal>,
    palette: Palette,
    start_ns: u64,
    total_ns: f64,
    /// The duration of the narrowest box.
    narrowest_ns: u64,
    /// The x position of time 0.
    left: f64,
    /// The height of a row.
    row: f64,
    /// The y position of the first row.
    top: f64,
    /// The y position of the next element.
    y: f64,
    /// Boxes and texts; they cover the grid in `back`.
    front: String,
    back: String,
}

/// The executions of one name.
#[derive(Default)]
struct NameTotal {
    count: u64,
    sum_ns: u64,
}

/// A thread and its executions.
struct TraceLane<'t> {
    row: ThreadRow<'t>,
    spans: Vec<&'t Span>,
}

impl<'t> TimingDiagram<'t> {
    fn new(spans: &[&'t Span]) -> Self {
        let start_ns = spans.iter().map(|span| span.begin_ns).min().unwrap_or(0);
        let end_ns = spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
        let total_ns = (end_ns.saturating_sub(start_ns).max(1)) as f64;
        let mut lanes: BTreeMap<ThreadRow<'t>, Vec<&'t Span>> = BTreeMap::new();
        for span in spans {
            lanes
                .entry(ThreadRow { process: &span.process, thread: &span.thread })
                .or_default()
                .push(span);
        }
        let rows: Vec<TraceLane<'t>> = rows(spans.iter().copied())
            .into_iter()
            .map(|row| TraceLane { row, spans: lanes.remove(&row).unwrap_or_default() })
            .collect();
        let labels = rows.iter().map(|lane| label_width(lane.row.thread)).fold(40.0, f64::max);
        let mut totals: BTreeMap<(SpanKind, &'t str), NameTotal> = BTreeMap::new();
        for span in spans {
            let total = totals.entry((span.kind, &span.name)).or_default();
            total.count += 1;
            total.sum_ns = total.sum_ns.saturating_add(length_ns(span));
        }
        TimingDiagram {
            palette: Palette::new(totals.keys().map(|(_, name)| *name)),
            totals,
            row: row_height(rows.len()),
            rows,
            start_ns,
            total_ns,
            narrowest_ns: end_ns.saturating_sub(start_ns) / COLUMNS,
            left: MARGIN + labels + 12.0,
            top: 0.0,
            y: MARGIN,
            front: String::new(),
            back: String::new(),
        }
    }

    fn heading(&mut self, trace: &Trace) {
        let total = duration(self.total_ns);
        let waits = trace.spans.iter().filter(|span| span.kind == SpanKind::Wait).count();
        let summary = match trace.spans.len() - waits {
            0 if waits == 0 => "Nothing was recorded".to_owned(),
            1 => format!("1 execution, {total}"),
            count => format!("{count} executions, {total}"),
        };
        self.y += HEADING_SIZE;
        self.text([MARGIN, self.y], HEADING_SIZE, "start", INK, &summary);
        if trace.dropped > 0 {
            self.y += 20.0;
            let lost = format!("{} more were not recorded: the limit was reached", trace.dropped);
            self.text([MARGIN, self.y], TEXT_SIZE, "start", SOFT_INK, &lost);
        }
        self.y += 14.0;
        self.top = self.y;
    }

    fn rows(&mut self) {
        let processes: BTreeSet<&str> = self.rows.iter().map(|lane| lane.row.process).collect();
        let mut last = None;
        for lane in std::mem::take(&mut self.rows) {
            if processes.len() > 1 && last != Some(lane.row.process) {
                self.y += PROCESS_LINE;
                let at = [MARGIN, self.y - 8.0];
                self.bold(at, &shorten(lane.row.process, NAME_LENGTH_LIMIT));
                last = Some(lane.row.process);
            }
            self.lane(&lane);
            self.y += self.row + ROW_GAP;
        }
    }

    fn lane(&mut self, lane: &TraceLane<'t>) {
        let baseline = self.y + self.row / 2.0 + 4.5;
        let name = shorten(lane.row.thread, NAME_LENGTH_LIMIT);
        self.text([self.left - 10.0, baseline], TEXT_SIZE, "end", INK, &name);
        let _ = writeln!(
            self.back,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f7f8f9\"/>",
            number(self.left),
            number(self.y),
            number(PLOT),
            number(self.row)
        );
        for shown in boxes(&lane.spans, self.narrowest_ns) {
            self.span_box(&shown);
        }
        let share = busy_ns(&lane.spans) as f64 / self.total_ns * 100.0;
        let at = [self.left + PLOT + BUSY_COLUMN, baseline];
        self.text(at, TEXT_SIZE, "end", SOFT_INK, &format!("{share:.0} %"));
    }

    fn span_box(&mut self, shown: &SpanBox<'_>) {
        let span = shown.longest;
        let begin = self.left + self.scaled((shown.begin_ns - self.start_ns) as f64);
        let wide = self.scaled((shown.end_ns - shown.begin_ns) as f64).max(0.8);
        let tint = self.palette.tint(&span.name);
        let look = BoxStyle::of(span.kind, (tint.fill, tint.line, tint.text));
        let is_line = wide < NARROWEST + 1.0;
        let (fill, stroke) = if is_line { (tint.line, "0") } else { (look.fill, "1") };
        let _ = writeln!(
            self.front,
            "<rect x=\"{begin:.2}\" y=\"{}\" width=\"{wide:.2}\" height=\"{}\" \
             fill=\"{fill}\" stroke=\"{}\" stroke-width=\"{stroke}\"{}><title>{}</title></rect>",
            number(self.y + 1.0),
            number(self.row - 2.0),
            tint.line,
            look.dashes,
            escape(&tooltip(shown))
        );
        let sizes = labels(shown)
            .into_iter()
            .flat_map(|text| [TEXT_SIZE, SMALL_TEXT_SIZE].map(|size| (text.clone(), size)));
        let fits = |(text, size): &(String, f64)| width(text, *size, false) + 3.0 <= wide;
        if let Some((inside, size)) = sizes.into_iter().find(fits) {
            let at = [begin + wide / 2.0, self.y + self.row / 2.0 + 4.5];
            self.text(at, size, "middle", look.ink, &inside);
        }
    }

    fn axis(&mut self) {
        let axis = TimeAxis::new(self.total_ns, (PLOT / 100.0).floor());
        let bottom = self.y + 4.0;
        for step in 0..=axis.steps {
            let x = self.left + self.scaled(axis.step_ns * f64::from(step));
            let _ = writeln!(
                self.back,
                "<path d=\"M{x:.1} {}V{}\" stroke=\"{HAIRLINE}\" stroke-width=\"1\"/>",
                number(self.top),
                number(bottom)
            );
            self.text([x, bottom + 16.0], TEXT_SIZE, "middle", SOFT_INK, &axis.label(step));
        }
        let at = [self.left + PLOT + BUSY_COLUMN, bottom + 16.0];
        self.text(at, TEXT_SIZE, "end", SOFT_INK, "busy");
        self.y = bottom + 40.0;
    }

    /// Draws a line for each name: colour, count and total time; the longest total first.
    fn legend(&mut self) {
        const SIDE: f64 = 16.0;
        const LINE: f64 = 24.0;
        let mut totals: Vec<_> = std::mem::take(&mut self.totals).into_iter().collect();
        totals.sort_by_key(|((kind, name), total)| {
            (*kind == SpanKind::Wait, u64::MAX - total.sum_ns, *name)
        });
        let label = |kind: SpanKind, name: &str| {
            let what = match kind {
                SpanKind::Split if name != "split" => " (split)",
                SpanKind::Merge if name != "merge" => " (merge)",
                SpanKind::Run | SpanKind::Split | SpanKind::Merge | SpanKind::Wait => "",
            };
            format!("{}{what}", shorten(name, NAME_LENGTH_LIMIT))
        };
        let labels = totals.iter().map(|((kind, name), _)| label(*kind, name));
        let widest = labels.map(|text| width(&text, TEXT_SIZE, false)).fold(60.0, f64::max);
        let count_at = MARGIN + SIDE + 8.0 + widest + 90.0;
        for ((kind, name), total) in totals.iter().take(NAMES_LIMIT) {
            let tint = self.palette.tint(name);
            let look = BoxStyle::of(*kind, (tint.fill, tint.line, tint.text));
            let _ = writeln!(
                self.front,
                "<rect x=\"{}\" y=\"{}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"{}\" \
                 stroke=\"{}\"{}/>",
                number(MARGIN),
                number(self.y),
                look.fill,
                tint.line,
                look.dashes
            );
            let baseline = self.y + 12.5;
            let at = [MARGIN + SIDE + 8.0, baseline];
            self.text(at, TEXT_SIZE, "start", INK, &label(*kind, name));
            let times = format!("{} ×", total.count);
            self.text([count_at, baseline], TEXT_SIZE, "end", SOFT_INK, &times);
            let sum = format!("{} in all", duration(total.sum_ns as f64));
            self.text([count_at + 24.0, baseline], TEXT_SIZE, "start", SOFT_INK, &sum);
            self.y += LINE;
        }
        if totals.len() > NAMES_LIMIT {
            let rest = format!("and {} more names", totals.len() - NAMES_LIMIT);
            self.text([MARGIN, self.y + 12.5], TEXT_SIZE, "start", SOFT_INK, &rest);
            self.y += LINE;
        }
        self.y += MARGIN - LINE + SIDE;
    }

    fn finish(self) -> String {
        let (wide, high) = (number(self.left + PLOT + BUSY_COLUMN + MARGIN), number(self.y));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" \
             viewBox=\"0 0 {wide} {high}\" font-family=\"{FONTS}\" \
             style=\"max-width:100%;height:auto\" role=\"img\">\n<title>Timing diagram</title>\n\
             <rect width=\"{wide}\" height=\"{high}\" rx=\"6\" fill=\"{PAPER}\"/>\n{}{}</svg>\n",
            self.back, self.front
        )
    }

    fn scaled(&self, ns: f64) -> f64 {
        ns / self.total_ns * PLOT
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
            "<text x=\"{}\" y=\"{}\" font-size=\"{TEXT_SIZE}\" font-weight=\"600\" fill=\"{INK}\">{}</text>",
            number(x),
            number(y),
            escape(text)
        );
    }
}

/// Returns the height of a row: few rows fill the page, many are as low as their text allows.
fn row_height(rows: usize) -> f64 {
    match rows {
        0..=4 => 44.0,
        5..=10 => 32.0,
        _ => 24.0,
    }
}

fn label_width(thread: &str) -> f64 {
    width(&shorten(thread, NAME_LENGTH_LIMIT), TEXT_SIZE, false)
}

/// The style of the boxes of a kind: operations light, splits white, merges full, waits dashed.
struct BoxStyle {
    fill: &'static str,
    ink: &'static str,
    dashes: &'static str,
}

impl BoxStyle {
    fn of(
        kind: SpanKind,
        (light, full, dark): (&'static str, &'static str, &'static str),
    ) -> BoxStyle {
        let (fill, ink, dashes) = match kind {
            SpanKind::Run => (light, dark, ""),
            SpanKind::Split => (PAPER, dark, ""),
            SpanKind::Merge => (full, PAPER, ""),
            SpanKind::Wait => (PAPER, dark, " stroke-dasharray=\"4 3\""),
        };
        BoxStyle { fill, ink, dashes }
    }
}

/// Returns the tooltip of a box.
fn tooltip(shown: &SpanBox<'_>) -> String {
    let span = shown.longest;
    let sum = duration(shown.sum_ns as f64);
    if shown.count > 1 {
        let mean = duration(shown.sum_ns as f64 / shown.count as f64);
        let what = if shown.is_uniform { "" } else { "executions, mostly " };
        return format!(
            "{} × {what}{}, call {}: {sum} in all, {mean} each",
            shown.count, span.name, span.call
        );
    }
    let mut text = span.name.clone();
    if span.token > 0 {
        let _ = write!(text, ", token {}", span.token);
    }
    if !span.note.is_empty() {
        let _ = write!(text, ", {}", span.note);
    }
    let _ = write!(text, ", call {}: {sum}", span.call);
    if span.kind != SpanKind::Wait {
        let _ = write!(text, ", after {} in the queue", duration(span.waited_ns as f64));
    }
    text
}

/// Returns possible labels of a box, the longest first.
fn labels(shown: &SpanBox<'_>) -> Vec<String> {
    let span = shown.longest;
    match (shown.count, shown.is_uniform) {
        (1, _) if span.token > 0 => vec![span.token.to_string()],
        (1, _) => vec![span.name.clone()],
        (count, true) => vec![format!("{count} × {}", span.name), format!("{count} ×")],
        (_, false) => Vec::new(),
    }
}

/// Returns the time in which at least one execution ran; spans are in order of their begins.
fn busy_ns(spans: &[&Span]) -> u64 {
    let mut until = 0;
    let mut busy = 0;
    for span in spans.iter().filter(|span| span.kind != SpanKind::Wait) {
        let begin = span.begin_ns.max(until);
        busy += span.end_ns.saturating_sub(begin);
        until = until.max(span.end_ns);
    }
    busy
}
