//! Plots as SVG: a few curves or bars, axes with units, and colours for light and dark
//! surroundings.
//!
//! Invariant: everything lies within the picture. Colours are classes of one style sheet, which has
//! another set for a dark page.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 74.0;

const STYLE: &str = "\
.page{fill:#ffffff}.ink{fill:#1f2937}.pale{fill:#4b5563}.grid{stroke:#d9dde3}.axis{stroke:#6b7280}\
.ours{fill:#2f6fbd}.theirs{fill:#c7772a}.line{fill:none;stroke:#c7772a}.way{fill:none;stroke:#2f6fbd}\
@media (prefers-color-scheme:dark){\
.page{fill:#14181f}.ink{fill:#e5e9f0}.pale{fill:#aab3c0}.grid{stroke:#2f3743}.axis{stroke:#8791a0}\
.ours{fill:#6aa9f0}.theirs{fill:#e6a05a}.line{stroke:#e6a05a}.way{stroke:#6aa9f0}}";

/// A finished picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The name of its file, without `.svg`.
    pub name: &'static str,
    /// The text of the file.
    pub svg: String,
}

/// The texts around a plot.
#[derive(Clone, Copy, Debug)]
pub struct PlotFrame<'a> {
    /// The title.
    pub title: &'a str,
    /// The label of the horizontal axis.
    pub across: &'a str,
    /// The label of the vertical axis, with its unit.
    pub up: &'a str,
    /// The names of our side and of the peer.
    pub sides: [&'a str; 2],
}

/// A measured point, and the bound at the same abscissa.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlotPoint {
    /// The abscissa.
    pub at: f64,
    /// The measured value.
    pub ours: f64,
    /// The bound.
    pub bound: f64,
}

/// A pair of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPair {
    /// The label below it, in two lines.
    pub label: [String; 2],
    /// The first bar.
    pub ours: f64,
    /// The second bar.
    pub theirs: f64,
    /// The note above it.
    pub note: String,
}

/// Draws points along an axis, with the bound as a line; both axes begin at 0.
pub fn points(name: &'static str, frame: PlotFrame<'_>, points: &[PlotPoint]) -> Plot {
    let height = 430.0;
    let mut out = SvgSheet::new(frame, height);
    let largest = |value: fn(&PlotPoint) -> f64| points.iter().map(value).fold(0.0, f64::max);
    let (step_x, end_x) = steps(largest(|point| point.at));
    let (step_y, end_y) = steps(largest(|point| point.ours.max(point.bound)));
    let bottom = out.bottom();
    let x = |at: f64| LEFT + (WIDTH - LEFT - RIGHT) * at / end_x;
    let y_of = |value: f64| bottom - (bottom - TOP) * value / end_y;
    for number in 0..=count(end_y / step_y) {
        let value = f64::from(number) * step_y;
        out.level(y_of(value), &short(value));
    }
    for number in 0..=count(end_x / step_x) {
        let value = f64::from(number) * step_x;
        out.tick(x(value), &short(value));
    }
    for (class, dashes, value) in [
        ("line", " stroke-dasharray=\"7 5\"", (|point| point.bound) as fn(&PlotPoint) -> f64),
        ("way", "", |point| point.ours),
    ] {
        let path: Vec<String> = points
            .iter()
            .map(|point| format!("{:.1} {:.1}", x(point.at), y_of(value(point))))
            .collect();
        out.put(&format!(
            "<path class=\"{class}\" d=\"M{}\" stroke-width=\"2\"{dashes}/>",
            path.join("L")
        ));
    }
    for point in points {
        let (x, y) = (x(point.at), y_of(point.ours));
        out.put(&format!("<circle class=\"ours\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>"));
        let share = format!("{:.3}", point.ours / point.bound);
        let above = y_of(point.ours.max(point.bound)) - 10.0;
        out.text((x, above), "middle", ("pale", 12.0), &share);
    }
    out.finish(name)
}

/// Draws pairs of bars on a logarithmic axis.
pub fn pairs(name: &'static str, frame: PlotFrame<'_>, pairs: &[BarPair]) -> Plot {
    let mut out = SvgSheet::new(frame, 470.0);
    let all = || pairs.iter().flat_map(|pair| [pair.ours, pair.theirs]);
    // Whole powers of ten, so that every bar has some height.
    let lowest = all().fold(f64::INFINITY, f64::min).log10().floor() - 0.3;
    let highest = all().fold(0.0, f64::max).log10().ceil();
    let bottom = out.bottom();
    let y = |value: f64| bottom - (bottom - TOP) * (value.log10() - lowest) / (highest - lowest);
    #[expect(clippy::cast_possible_truncation, reason = "powers of ten of what can be measured")]
    for power in lowest.ceil() as i32..=highest as i32 {
        let value = 10f64.powi(power);
        out.level(y(value), &short(value));
    }
    #[expect(clippy::cast_precision_loss, reason = "a dozen")]
    let room = (WIDTH - LEFT - RIGHT) / pairs.len().max(1) as f64;
    let bar = (room * 0.32).min(34.0);
    let mut middle = LEFT + room / 2.0;
    for pair in pairs {
        for (class, left, value) in
            [("ours", middle - bar, pair.ours), ("theirs", middle + 1.0, pair.theirs)]
        {
            let (top, bar) = (y(value), bar - 1.0);
            let height = bottom - top;
            out.put(&format!(
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{bar:.1}\" \
                 height=\"{height:.1}\" rx=\"2\"/>"
            ));
        }
        let top = y(pair.ours.max(pair.theirs)) - 7.0;
        out.text((middle, top), "middle", ("ink", 12.0), &pair.note);
        out.text((middle, bottom + 18.0), "middle", ("ink", 12.0), &pair.label[0]);
        out.text((middle, bottom + 34.0), "middle", ("pale", 12.0), &pair.label[1]);
        middle += room;
    }
    out.finish(name)
}

/// A picture under construction.
struct SvgSheet {
    svg: String,
    height: f64,
}

impl SvgSheet {
    fn new(frame: PlotFrame<'_>, height: f64) -> Self {
        let mut sheet = Self { svg: String::new(), height };
        let font = "Inter, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";
        sheet.put(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"{font}\" \
             style=\"max-width:100%;height:auto\" role=\"img\">"
        ));
        let title = escaped(frame.title);
        sheet.put(&format!("<title>{title}</title>\n<style>{STYLE}</style>"));
        sheet
            .put(&format!("<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>"));
        sheet.text((20.0, 28.0), "start", ("ink", 15.0), frame.title);
        let mut x = LEFT;
        for (class, side) in ["ours", "theirs"].into_iter().zip(frame.sides) {
            sheet.put(&format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"44\" width=\"12\" height=\"12\" rx=\"2\"/>"
            ));
            sheet.text((x + 18.0, 54.5), "start", ("ink", 12.5), side);
            #[expect(clippy::cast_precision_loss, reason = "some dozens")]
            let wide = side.chars().count() as f64;
            x += 46.0 + 7.0 * wide;
        }
        let middle = TOP.midpoint(sheet.bottom());
        let up = escaped(frame.up);
        sheet.put(&format!(
            "<text class=\"ink\" transform=\"translate(20 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\" font-size=\"13\">{up}</text>"
        ));
        let across = ((LEFT + WIDTH - RIGHT) / 2.0, height - 12.0);
        sheet.text(across, "middle", ("ink", 13.0), frame.across);
        sheet
    }

    /// The height of the horizontal axis.
    fn bottom(&self) -> f64 {
        self.height - 74.0
    }

    fn put(&mut self, line: &str) {
        self.svg.push_str(line);
        self.svg.push('\n');
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, (class, size): (&str, f64), what: &str) {
        let what = escaped(what);
        let _ = writeln!(
            self.svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
             font-size=\"{size}\">{what}</text>"
        );
    }

    /// Draws a horizontal line with its value.
    fn level(&mut self, y: f64, value: &str) {
        let end = WIDTH - RIGHT;
        self.put(&format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{end}\"/>"));
        self.text((LEFT - 9.0, y + 4.0), "end", ("pale", 12.0), value);
    }

    /// Draws a mark on the horizontal axis with its value.
    fn tick(&mut self, x: f64, value: &str) {
        let bottom = self.bottom();
        self.put(&format!("<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/>"));
        self.text((x, bottom + 20.0), "middle", ("pale", 12.0), value);
    }

    fn finish(mut self, name: &'static str) -> Plot {
        let (bottom, end) = (self.bottom(), WIDTH - RIGHT);
        self.put(&format!(
            "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{bottom}H{end}\"/>"
        ));
        self.put("</svg>");
        Plot { name, svg: self.svg }
    }
}

/// Chooses about six steps of 1, 2 or 5 times a power of ten; returns the step and the end of the
/// axis.
fn steps(largest: f64) -> (f64, f64) {
    let largest = if largest > 0.0 { largest } else { 1.0 };
    let rough = largest / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(10.0 * power);
    (step, (largest / step).ceil() * step)
}

/// The number of steps.
fn count(steps: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some dozens")]
    let count = steps.round() as u32;
    count
}

/// A number on an axis.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: PlotFrame<'_> =
        PlotFrame { title: "a < b", across: "disks", up: "slices per s", sides: ["ours", "bound"] };

    #[test]
    fn axes_end_at_a_whole_number_of_steps() {
        assert_eq!(steps(60.0), (10.0, 60.0));
        assert_eq!(steps(3.4), (1.0, 4.0));
        assert_eq!(steps(0.0).1, 1.0);
        assert_eq!(short(0.1), "0.1");
        assert_eq!(short(100.0), "100");
    }

    #[test]
    fn points_and_bars_are_all_there() {
        let made = points(
            "curve",
            FRAME,
            &[
                PlotPoint { at: 3.0, ours: 0.9, bound: 1.0 },
                PlotPoint { at: 60.0, ours: 19.0, bound: 20.0 },
            ],
        );
        assert_eq!(made.svg.matches("<circle").count(), 2);
        assert!(made.svg.contains("a &lt; b") && made.svg.contains(">0.950<"));
        let label = ["warm".to_owned(), "zarr".to_owned()];
        let pair = BarPair { label, ours: 100.0, theirs: 2.0, note: "50 x".to_owned() };
        let made = pairs("bars", FRAME, &[pair.clone(), pair]);
        assert_eq!(made.svg.matches("class=\"theirs\"").count(), 3, "two bars and what they mean");
        assert!(made.svg.ends_with("</svg>\n"));
    }
}
