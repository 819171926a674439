//! Pictures of each construct, and what must hold for all of them.
//!
//! With the variable `PARIO_PICTURES` set to a folder, the pictures are also written there, to be
//! looked at.

use pario_flow::graph::{Branch, OperationGraph, RunKind, Shape, SplitKind};
use pario_flow::trace::{Span, SpanKind, Trace};

fn run(name: &str, place: &str, output: &str) -> Shape {
    let (name, place, output) = (name.into(), place.into(), output.into());
    Shape::Run { name, place, output, kind: RunKind::Waiting }
}

fn with_kind(shape: Shape, kind: RunKind) -> Shape {
    match shape {
        Shape::Run { name, place, output, .. } => Shape::Run { name, place, output, kind },
        other => other,
    }
}

fn branch(split: &str, input: &str, body: Vec<Shape>, merge: &str) -> Branch {
    let body = Shape::Sequence(body);
    Branch { split: split.into(), input: input.into(), body, merge: merge.into() }
}

fn split(kind: SplitKind, window: &str, branches: Vec<Branch>, output: &str) -> Shape {
    Shape::Split {
        kind,
        place: "Client".into(),
        window: window.into(),
        branches,
        merge_place: "Client".into(),
        output: output.into(),
    }
}

fn graph(name: &str, input: &str, output: &str, body: Vec<Shape>) -> OperationGraph {
    let (name, input, output) = (name.into(), input.into(), output.into());
    OperationGraph { name, input, output, body: Shape::Sequence(body) }
}

fn decode() -> Shape {
    run("decode", "Compute[any]", "demo::Picture<u8>")
}

fn gallery() -> Vec<OperationGraph> {
    let read = || run("read", "Disk[·]", "demo::Block");
    let indexed = |indices| SplitKind::Indexed { indices };
    let choice = |otherwise: Option<Shape>| Shape::If {
        condition: "block.is_packed()".into(),
        then: Box::new(run("unpack", "Compute[any]", "Block")),
        otherwise: otherwise.map(Box::new),
    };
    let inner = Shape::If {
        condition: "in cache".into(),
        then: Box::new(Shape::Sequence(vec![])),
        otherwise: Some(Box::new(Shape::While {
            condition: "!complete".into(),
            body: Box::new(with_kind(read(), RunKind::Asynchronous)),
        })),
    };
    let nested = vec![branch(
        "next_row",
        "Row",
        vec![inner, run("filter", "Compute[any]", "Row")],
        "add_row",
    )];
    vec![
        graph("empty", "u32", "u32", vec![]),
        graph(
            "pipeline",
            "demo::Request",
            "demo::Picture<u8>",
            vec![
                with_kind(read(), RunKind::Asynchronous),
                with_kind(run("check", "Disk[·]", "Block"), RunKind::Inline),
                decode(),
                Shape::Call { operation: "enhance".into(), output: "Picture<u8>".into() },
            ],
        ),
        graph("if", "Request", "Block", vec![read(), choice(None)]),
        graph(
            "if_else",
            "Request",
            "Picture<u8>",
            vec![
                read(),
                choice(Some(Shape::Sequence(vec![
                    run("verify", "Master", "Block"),
                    run("copy", "Compute[any]", "Block"),
                ]))),
                decode(),
            ],
        ),
        graph(
            "while",
            "Estimate",
            "Estimate",
            vec![Shape::While {
                condition: "error > 0.001".into(),
                body: Box::new(Shape::Sequence(vec![
                    run("refine", "Compute[any]", "Estimate"),
                    run("measure", "Master", "Estimate"),
                ])),
            }],
        ),
        graph(
            "for",
            "Grid",
            "Grid",
            vec![Shape::For {
                range: "0..100".into(),
                body: Box::new(run("relax", "Compute[·]", "Grid")),
            }],
        ),
        graph(
            "parallel",
            "Scene",
            "Frame",
            vec![split(
                SplitKind::Parallel,
                "3",
                vec![
                    branch("sky_of", "Sky", vec![run("shade", "Gpu", "Pixels")], "add_sky"),
                    branch(
                        "ground_of",
                        "Ground",
                        vec![
                            run("tessellate", "Compute[any]", "Mesh"),
                            run("rasterise", "Gpu", "Pixels"),
                        ],
                        "add_ground",
                    ),
                    branch("text_of", "Text", vec![], "add_text"),
                ],
                "Frame",
            )],
        ),
        graph(
            "parallel_while",
            "Request",
            "Total",
            vec![split(
                SplitKind::While,
                "automatic",
                vec![branch("next_part", "Part", vec![read(), decode()], "add")],
                "Total",
            )],
        ),
        graph(
            "indexed_parallel",
            "Volume",
            "Slice<u8>",
            vec![split(
                indexed(2),
                "20 in bunches of 5",
                vec![branch("tile_of", "TileRequest", vec![read(), decode()], "paste")],
                "Slice<u8>",
            )],
        ),
        graph(
            "nested",
            "Volume",
            "Report",
            vec![
                split(
                    SplitKind::Parallel,
                    "2",
                    vec![
                        branch(
                            "rows_of",
                            "Rows",
                            vec![split(SplitKind::While, "automatic", nested, "Rows")],
                            "add_rows",
                        ),
                        branch(
                            "head_of",
                            "Head",
                            vec![Shape::For { range: "0..3".into(), body: Box::new(choice(None)) }],
                            "add_head",
                        ),
                    ],
                    "Picture<u8>",
                ),
                run("publish", "Client", "Report"),
            ],
        ),
        graph(
            "five_stage_pipeline",
            "Input",
            "Output",
            vec![split(
                indexed(1),
                "4",
                vec![branch(
                    "make",
                    "Number",
                    (1..=5)
                        .map(|stage| {
                            run(&format!("stage{stage}"), &format!("Stage{stage}"), "Number")
                        })
                        .collect(),
                    "collect",
                )],
                "Output",
            )],
        ),
        graph(
            "a_rather_long_name_for_an_operation_that_does_next_to_nothing_at_all",
            "alloc::vec::Vec<(alloc::string::String, core::option::Option<demo::LongToken<'static, u64>>)>",
            "()",
            vec![run("<&\"'>", "Töpfe[·]", "()")],
        ),
    ]
}

fn keep(name: &str, text: &str) {
    if let Some(folder) = std::env::var_os("PARIO_PICTURES") {
        std::fs::write(std::path::Path::new(&folder).join(name), text).unwrap();
    }
}

#[test]
fn every_construct_has_a_picture() {
    for graph in gallery() {
        let svg = graph.to_svg();
        keep(&format!("{}.svg", graph.name), &svg);
        keep(&format!("{}.dot", graph.name), &graph.to_dot());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}

#[allow(dead_code)]
fn span(thread: &str, token: u64, begin_ns: u64, end_ns: u64) -> Span {
    Span {
        space: "A".into(),
        thread: thread.into(),
        name: "work".into(),
        kind: SpanKind::Run,
        call: 1,
        token,
        begin_ns,
        end_ns,
        waited_ns: 0,
    }
}

#[test]
fn an_empty_trace_has_a_picture() {
    assert!(Trace::default().to_timing_svg().starts_with("<svg"));
}
