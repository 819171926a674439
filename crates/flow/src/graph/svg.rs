//! The graph as SVG.

use super::layout::PictureLayout;
use super::names::short_name;
use super::palette::{PAPER, Palette};
use super::part::{Anchor, DETAIL, DOT, GraphMark, PicturePart, TITLE, pair_width};
use super::shape::{GraphShape, OperationGraph};
use super::text::{FONTS, escape, number};

/// The margin of the picture.
const MARGIN: f64 = 20.0;

/// Draws the graph.
pub(super) fn draw(graph: &OperationGraph) -> String {
    let page = page(graph);
    let (width, height) = (number(page.width), number(page.down));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\" \
         style=\"max-width:100%;height:auto\" role=\"img\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{PAPER}\"/>\n",
        escape(&graph.name)
    );
    for mark in &page.marks {
        mark.write_svg(&mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Lays out the whole picture, with its upper left corner at (0, 0).
pub(super) fn page(graph: &OperationGraph) -> PicturePart {
    let mut threads = Vec::new();
    collect_threads(&graph.body, &mut threads);
    let palette = Palette::new(threads);
    let sequence = PictureLayout { palette: &palette }.sequence(&graph.body, &graph.input);
    let width = sequence.width();
    let body = sequence.build(width);

    let types = format!("{} → {}", short_name(&graph.input), short_name(&graph.output));
    let (faces, texts) = ([TITLE, DETAIL], [graph.name.as_str(), types.as_str()]);
    let below = MARGIN + TITLE.size;
    let mut page = PicturePart::default();
    page.write_pair((MARGIN, below), Anchor::Start, faces, texts);

    let y = below + 16.0 + body.up.max(DOT + 1.0);
    let left = MARGIN + 2.0 * DOT;
    let bottom = y + body.down.max(DOT + 1.0) + MARGIN;
    page.put(left, y, body);
    page.marks.push(GraphMark::Dot { x: left - DOT, y, hollow: false });
    page.marks.push(GraphMark::Dot { x: left + width + DOT + 1.0, y, hollow: true });
    let body_end = left + width + 2.0 * DOT + 2.0;
    page.width = body_end.max(MARGIN + pair_width(faces, texts)) + MARGIN;
    page.up = 0.0;
    page.down = bottom;
    page
}

fn collect_threads<'s>(shape: &'s GraphShape, threads: &mut Vec<&'s str>) {
    match shape {
        GraphShape::Sequence(parts) => parts.iter().for_each(|part| collect_threads(part, threads)),
        GraphShape::Run { thread, .. } => threads.push(thread),
        GraphShape::Call { .. } => {}
        GraphShape::If { then, otherwise, .. } => {
            collect_threads(then, threads);
            if let Some(otherwise) = otherwise {
                collect_threads(otherwise, threads);
            }
        }
        GraphShape::While { body, .. } | GraphShape::For { body, .. } => {
            collect_threads(body, threads)
        }
        GraphShape::Split { thread, branches, merge_thread, .. } => {
            threads.extend([thread.as_str(), merge_thread.as_str()]);
            branches.iter().for_each(|branch| collect_threads(&branch.body, threads));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::part::Face;
    use crate::graph::{Branch, RunKind, SplitKind};

    /// Left, top, right, bottom.
    type Area = [f64; 4];

    fn text_area(mark: &GraphMark) -> Option<Area> {
        let area = |x: f64, y: f64, anchor: Anchor, width: f64, face: Face| {
            let left = if anchor == Anchor::Middle { x - width / 2.0 } else { x };
            [left, y - face.size * 0.75, left + width, y + face.size * 0.2]
        };
        match mark {
            GraphMark::Text { x, y, anchor, face, text, .. } => {
                Some(area(*x, *y, *anchor, face.width(text), *face))
            }
            GraphMark::Pair { x, y, anchor, faces, texts } => {
                let width = pair_width(*faces, [&texts[0], &texts[1]]);
                Some(area(*x, *y, *anchor, width, faces[0]))
            }
            _ => None,
        }
    }

    fn shape_area(mark: &GraphMark) -> Option<Area> {
        match mark {
            GraphMark::Box { x, y, width, height, .. } => Some([*x, *y, x + width, y + height]),
            GraphMark::Polygon { corners, .. } => Some(around(corners)),
            _ => None,
        }
    }

    /// The straight sections of a line, or many short ones along a curve.
    fn line_areas(mark: &GraphMark) -> Vec<Area> {
        match mark {
            GraphMark::Line { corners, .. } => corners.windows(2).map(around).collect(),
            GraphMark::Curve { from, to, .. } => {
                let at = |step: u32| {
                    let t = f64::from(step) / 40.0;
                    let s = t * t * (3.0 - 2.0 * t);
                    (from.0 + (to.0 - from.0) * t, from.1 + (to.1 - from.1) * s)
                };
                (0..40).map(|step| around(&[at(step), at(step + 1)])).collect()
            }
            _ => Vec::new(),
        }
    }

    fn around(corners: &[(f64, f64)]) -> Area {
        corners.iter().fold(
            [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY],
            |[left, top, right, bottom], (x, y)| {
                [left.min(*x), top.min(*y), right.max(*x), bottom.max(*y)]
            },
        )
    }

    fn apart(a: Area, b: Area) -> bool {
        a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1]
    }

    fn within(inner: Area, outer: Area) -> bool {
        outer[0] <= inner[0] && outer[1] <= inner[1] && inner[2] <= outer[2] && inner[3] <= outer[3]
    }

    fn check(graph: &OperationGraph) -> Result<(), TestCaseError> {
        let page = page(graph);
        let sheet = [0.0, 0.0, page.width, page.down];
        let texts: Vec<Area> = page.marks.iter().filter_map(text_area).collect();
        let shapes: Vec<Area> = page.marks.iter().filter_map(shape_area).collect();
        let lines: Vec<Area> = page.marks.iter().flat_map(line_areas).collect();
        for (number, text) in texts.iter().enumerate() {
            prop_assert!(within(*text, sheet), "{text:?} leaves the sheet {sheet:?}");
            for other in &texts[number + 1..] {
                prop_assert!(apart(*text, *other), "texts {text:?} and {other:?}");
            }
            for shape in &shapes {
                let fits = apart(*text, *shape) || within(*text, *shape);
                prop_assert!(fits, "text {text:?} and shape {shape:?}");
            }
            for line in &lines {
                prop_assert!(apart(*text, *line), "text {text:?} and line {line:?}");
            }
        }
        for (number, shape) in shapes.iter().enumerate() {
            prop_assert!(within(*shape, sheet), "{shape:?} leaves the sheet {sheet:?}");
            for other in &shapes[number + 1..] {
                let fits =
                    apart(*shape, *other) || within(*shape, *other) || within(*other, *shape);
                prop_assert!(fits, "shapes {shape:?} and {other:?}");
            }
        }
        for line in &lines {
            prop_assert!(within(*line, sheet), "{line:?} leaves the sheet {sheet:?}");
        }
        Ok(())
    }

    fn word() -> impl Strategy<Value = String> {
        prop_oneof!["[a-zA-Z_:<>&]{0,14}", "[mW]{50,80}", "[\u{4e00}-\u{4e20}]{1,9}"]
    }

    fn shape() -> impl Strategy<Value = GraphShape> {
        let kind = prop_oneof![
            Just(RunKind::Synchronous),
            Just(RunKind::Asynchronous),
            Just(RunKind::Inline)
        ];
        let leaf = prop_oneof![
            4 => (word(), word(), word(), kind).prop_map(|(name, thread, output, kind)| {
                GraphShape::Run { name, thread, output, kind }
            }),
            1 => (word(), word()).prop_map(|(operation, output)| GraphShape::Call { operation, output }),
            1 => Just(GraphShape::Sequence(Vec::new())),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            let boxed = || inner.clone().prop_map(Box::new);
            let branch = (word(), word(), inner.clone(), word())
                .prop_map(|(split, input, body, merge)| Branch { split, input, body, merge });
            let kind = prop_oneof![
                Just(SplitKind::Parallel),
                Just(SplitKind::While),
                (0usize..4).prop_map(|indices| SplitKind::Indexed { indices }),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(GraphShape::Sequence),
                (word(), boxed(), prop::option::of(boxed())).prop_map(
                    |(condition, then, otherwise)| GraphShape::If { condition, then, otherwise }
                ),
                (word(), boxed())
                    .prop_map(|(condition, body)| GraphShape::While { condition, body }),
                (word(), boxed()).prop_map(|(range, body)| GraphShape::For { range, body }),
                (kind, prop::collection::vec(branch, 0..4), [word(), word(), word(), word()])
                    .prop_map(|(kind, branches, [thread, window, merge_thread, output])| {
                        GraphShape::Split { kind, thread, window, branches, merge_thread, output }
                    }),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_overlaps(name in word(), input in word(), output in word(), body in shape()) {
            check(&OperationGraph { name, input, output, body })?;
        }
    }
}
