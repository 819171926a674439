//! Parts of a picture, and the marks that they consist of.

use std::fmt::Write;

use super::palette::Tint;
use super::text::{self, number};

/// A part of a picture with one entry and one exit.
///
/// The entry is at (0, 0), the exit at (`width`, 0). `lead` and `trail` are the distances from there
/// to the first and the last symbol within the part, to which lines are drawn.
#[derive(Debug, Default)]
pub(super) struct PicturePart {
    pub(super) width: f64,
    /// The height above the line from entry to exit.
    pub(super) up: f64,
    /// The height below that line.
    pub(super) down: f64,
    pub(super) lead: f64,
    pub(super) trail: f64,
    pub(super) marks: Vec<GraphMark>,
}

/// A drawing element.
#[derive(Debug, Clone)]
pub(super) enum GraphMark {
    /// A text, its baseline at `y`.
    Text { x: f64, y: f64, anchor: Anchor, face: Face, colour: &'static str, text: String },
    /// A word and its explanation, on one baseline at `y`.
    Pair { x: f64, y: f64, anchor: Anchor, faces: [Face; 2], texts: [String; 2] },
    /// A rectangle with rounded corners.
    Box { x: f64, y: f64, width: f64, height: f64, radius: f64, tint: Tint, border: Border },
    /// A polygon.
    Polygon { corners: Vec<(f64, f64)>, tint: Tint },
    /// A line of straight sections with rounded corners.
    Line { corners: Vec<(f64, f64)>, arrow: bool },
    /// A curve from one height to another.
    Curve { from: (f64, f64), to: (f64, f64), arrow: bool },
    /// A point where lines begin, meet or end.
    Dot { x: f64, y: f64, hollow: bool },
}

/// Which end of a text lies at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
}

/// The size and style of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Face {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) italic: bool,
}

/// The border of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    Plain,
    Dashed,
    Thin,
}

/// The face of names.
pub(super) const NAME: Face = Face { size: 13.0, bold: true, italic: false };
/// The face of threads and types.
pub(super) const DETAIL: Face = Face { size: 11.0, bold: false, italic: false };
/// The face of captions and branch labels.
pub(super) const NOTE: Face = Face { size: 10.5, bold: false, italic: true };
/// The face of the operation's name.
pub(super) const TITLE: Face = Face { size: 16.0, bold: true, italic: false };

/// The longest text, in characters; longer ones are shortened.
const TEXT_LIMIT: usize = 56;
/// The radius of [`GraphMark::Dot`].
pub(super) const DOT: f64 = 4.0;
const ARROW: f64 = 8.0;
const CORNER: f64 = 9.0;

impl Face {
    /// Returns the width of a text as it is drawn.
    pub(super) fn width(self, text: &str) -> f64 {
        text::width(&text::shorten(text, TEXT_LIMIT), self.size, self.bold)
    }
}

impl PicturePart {
    /// Adds another part with its entry at (`x`, `y`).
    pub(super) fn put(&mut self, x: f64, y: f64, part: PicturePart) {
        self.up = self.up.max(part.up - y);
        self.down = self.down.max(part.down + y);
        self.marks.extend(part.marks.into_iter().map(|mark| mark.moved(x, y)));
    }

    /// Adds a text.
    pub(super) fn write(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        face: Face,
        colour: &'static str,
        text: &str,
    ) {
        if text.is_empty() {
            return;
        }
        self.up = self.up.max(face.size - y);
        self.down = self.down.max(y + face.size * 0.3);
        self.marks.push(GraphMark::Text { x, y, anchor, face, colour, text: text.to_owned() });
    }

    /// Adds a word and its explanation.
    pub(super) fn write_pair(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        faces: [Face; 2],
        texts: [&str; 2],
    ) {
        let size = faces[0].size.max(faces[1].size);
        self.up = self.up.max(size - y);
        self.down = self.down.max(y + size * 0.3);
        self.marks.push(GraphMark::Pair { x, y, anchor, faces, texts: texts.map(str::to_owned) });
    }
}

/// Returns the width of a [`GraphMark::Pair`].
pub(super) fn pair_width(faces: [Face; 2], texts: [&str; 2]) -> f64 {
    faces[0].width(texts[0]) + 7.0 + faces[1].width(texts[1])
}

impl GraphMark {
    fn moved(mut self, dx: f64, dy: f64) -> GraphMark {
        let shift = |(x, y): &mut (f64, f64)| (*x, *y) = (*x + dx, *y + dy);
        match &mut self {
            GraphMark::Text { x, y, .. }
            | GraphMark::Pair { x, y, .. }
            | GraphMark::Box { x, y, .. }
            | GraphMark::Dot { x, y, .. } => (*x, *y) = (*x + dx, *y + dy),
            GraphMark::Polygon { corners, .. } | GraphMark::Line { corners, .. } => {
                corners.iter_mut().for_each(shift);
            }
            GraphMark::Curve { from, to, .. } => [from, to].into_iter().for_each(shift),
        }
        self
    }

    /// Writes the mark as SVG.
    pub(super) fn write_svg(&self, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            GraphMark::Text { x, y, anchor, face, colour, text } => {
                write_texts(out, (*x, *y), *anchor, &[(*face, colour, text)])
            }
            GraphMark::Pair { x, y, anchor, faces, texts } => {
                let word = (faces[0], super::palette::INK, texts[0].as_str());
                let rest = (faces[1], super::palette::LINE_COLOUR, texts[1].as_str());
                write_texts(out, (*x, *y), *anchor, &[word, rest])
            }
            GraphMark::Box { x, y, width, height, radius, tint, border } => {
                let border = match border {
                    Border::Plain => "stroke-width=\"1.4\"",
                    Border::Dashed => "stroke-width=\"1.4\" stroke-dasharray=\"5 3\"",
                    Border::Thin => "stroke-width=\"1\"",
                };
                let (x, y) = (number(*x), number(*y));
                let (width, height, radius) = (number(*width), number(*height), number(*radius));
                writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
                     rx=\"{radius}\" fill=\"{}\" stroke=\"{}\" {border}/>",
                    tint.fill, tint.line
                )
            }
            GraphMark::Polygon { corners, tint } => writeln!(
                out,
                "<polygon points=\"{}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.4\" \
                 stroke-linejoin=\"round\"/>",
                points(corners),
                tint.fill,
                tint.line
            ),
            GraphMark::Line { corners, arrow } => write_line(out, corners, *arrow),
            GraphMark::Curve { from, to, arrow } => write_curve(out, *from, *to, *arrow),
            GraphMark::Dot { x, y, hollow } => {
                let fill =
                    if *hollow { super::palette::PAPER } else { super::palette::LINE_COLOUR };
                writeln!(
                    out,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{fill}\" stroke=\"{}\" \
                     stroke-width=\"1.4\"/>",
                    number(*x),
                    number(*y),
                    number(if *hollow { DOT + 1.0 } else { DOT }),
                    super::palette::LINE_COLOUR
                )
            }
        };
    }
}

/// Writes one or several texts in a row, each with its own face and colour.
fn write_texts(
    out: &mut String,
    (x, y): (f64, f64),
    anchor: Anchor,
    texts: &[(Face, &str, &str)],
) -> std::fmt::Result {
    write!(out, "<text x=\"{}\" y=\"{}\"", number(x), number(y))?;
    if anchor == Anchor::Middle {
        out.push_str(" text-anchor=\"middle\"");
    }
    match texts {
        [(face, colour, full)] => {
            write_face(out, *face, colour)?;
            out.push('>');
            write_shortened(out, full)?;
        }
        texts => {
            out.push('>');
            for (number, (face, colour, full)) in texts.iter().enumerate() {
                out.push_str(if number == 0 { "<tspan" } else { "<tspan dx=\"7\"" });
                write_face(out, *face, colour)?;
                out.push('>');
                write_shortened(out, full)?;
                out.push_str("</tspan>");
            }
        }
    }
    writeln!(out, "</text>")
}

fn write_face(out: &mut String, face: Face, colour: &str) -> std::fmt::Result {
    write!(out, " font-size=\"{}\" fill=\"{colour}\"", face.size)?;
    if face.bold {
        out.push_str(" font-weight=\"600\"");
    }
    if face.italic {
        out.push_str(" font-style=\"italic\"");
    }
    Ok(())
}

fn write_shortened(out: &mut String, full: &str) -> std::fmt::Result {
    let shown = text::shorten(full, TEXT_LIMIT);
    if shown != full {
        write!(out, "<title>{}</title>", text::escape(full))?;
    }
    write!(out, "{}", text::escape(&shown))
}

fn write_line(out: &mut String, corners: &[(f64, f64)], arrow: bool) -> std::fmt::Result {
    let (Some(&first), Some(&last)) = (corners.first(), corners.last()) else { return Ok(()) };
    let before = corners.iter().rev().nth(1).copied().unwrap_or(first);
    let (dx, dy) = direction(before, last);
    let mut path = format!("M{} {}", number(first.0), number(first.1));
    for window in corners.windows(3) {
        let [from, corner, to] = [window[0], window[1], window[2]];
        let (ax, ay) = direction(corner, from);
        let (bx, by) = direction(corner, to);
        let room = distance(from, corner).min(distance(corner, to)) / 2.0;
        let radius = CORNER.min(room);
        write!(
            path,
            "L{} {}Q{} {} {} {}",
            number(corner.0 + ax * radius),
            number(corner.1 + ay * radius),
            number(corner.0),
            number(corner.1),
            number(corner.0 + bx * radius),
            number(corner.1 + by * radius)
        )?;
    }
    // The line ends within the head of the arrow.
    let back = if arrow { ARROW / 2.0 } else { 0.0 };
    write!(path, "L{} {}", number(last.0 - dx * back), number(last.1 - dy * back))?;
    write_path(out, &path)?;
    if arrow { write_head(out, last, (dx, dy)) } else { Ok(()) }
}

fn write_curve(
    out: &mut String,
    from: (f64, f64),
    to: (f64, f64),
    arrow: bool,
) -> std::fmt::Result {
    let end = if arrow { to.0 - ARROW / 2.0 } else { to.0 };
    let middle = number((from.0 + end) / 2.0);
    let path = format!(
        "M{} {}C{middle} {} {middle} {} {} {}",
        number(from.0),
        number(from.1),
        number(from.1),
        number(to.1),
        number(end),
        number(to.1)
    );
    write_path(out, &path)?;
    if arrow { write_head(out, to, (1.0, 0.0)) } else { Ok(()) }
}

fn write_path(out: &mut String, path: &str) -> std::fmt::Result {
    let colour = super::palette::LINE_COLOUR;
    writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\"/>")
}

fn write_head(out: &mut String, (x, y): (f64, f64), (dx, dy): (f64, f64)) -> std::fmt::Result {
    let half = ARROW * 0.4;
    let base = (x - dx * ARROW, y - dy * ARROW);
    let corners = [
        (x, y),
        (base.0 - dy * half, base.1 + dx * half),
        (base.0 + dy * half, base.1 - dx * half),
    ];
    writeln!(
        out,
        "<polygon points=\"{}\" fill=\"{}\"/>",
        points(&corners),
        super::palette::LINE_COLOUR
    )
}

fn points(corners: &[(f64, f64)]) -> String {
    let corners: Vec<String> =
        corners.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    corners.join(" ")
}

fn distance(from: (f64, f64), to: (f64, f64)) -> f64 {
    (to.0 - from.0).hypot(to.1 - from.1)
}

fn direction(from: (f64, f64), to: (f64, f64)) -> (f64, f64) {
    let length = distance(from, to);
    if length == 0.0 { (1.0, 0.0) } else { ((to.0 - from.0) / length, (to.1 - from.1) / length) }
}
