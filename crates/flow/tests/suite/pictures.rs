//! Pictures of each construct, and properties of all pictures.
//!
//! If the variable `PARIO_PICTURES` names a directory, the tests also write the pictures there.

use pario_flow::graph::{Branch, GraphShape, OperationGraph, RunKind, SplitKind};
use pario_flow::trace::{Span, SpanKind, Trace};

fn run(name: &str, thread: &str, output: &str) -> GraphShape {
    let (name, thread, output) = (name.into(), thread.into(), output.into());
    GraphShape::Run { name, thread, output, kind: RunKind::Synchronous }
}

fn with_kind(shape: GraphShape, kind: RunKind) -> GraphShape {
    match shape {
        GraphShape::Run { name, thread, output, .. } => {
            GraphShape::Run { name, thread, output, kind }
        }
        other => other,
    }
}

fn branch(split: &str, input: &str, body: Vec<GraphShape>, merge: &str) -> Branch {
    let body = GraphShape::Sequence(body);
    Branch { split: split.into(), input: input.into(), body, merge: merge.into() }
}

fn split(kind: SplitKind, window: &str, branches: Vec<Branch>, output: &str) -> GraphShape {
    GraphShape::Split {
        kind,
        thread: "Client".into(),
        window: window.into(),
        branches,
        merge_thread: "Client".into(),
        output: output.into(),
    }
}

fn graph(name: &str, input: &str, output: &str, body: Vec<GraphShape>) -> OperationGraph {
    let (name, input, output) = (name.into(), input.into(), output.into());
    OperationGraph { name, input, output, body: GraphShape::Sequence(body) }
}

fn decode() -> GraphShape {
    run("decode", "Compute[any]", "demo::Picture<u8>")
}

fn gallery() -> Vec<OperationGraph> {
    let read = || run("read", "Disk[·]", "demo::Block");
    let indexed = |indices| SplitKind::Indexed { indices };
    let choice = |otherwise: Option<GraphShape>| GraphShape::If {
        condition: "block.is_packed()".into(),
        then: Box::new(run("unpack", "Compute[any]", "Block")),
        otherwise: otherwise.map(Box::new),
    };
    let inner = GraphShape::If {
        condition: "in cache".into(),
        then: Box::new(GraphShape::Sequence(vec![])),
        otherwise: Some(Box::new(GraphShape::While {
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
                GraphShape::Call { operation: "enhance".into(), output: "Picture<u8>".into() },
            ],
        ),
        graph("if", "Request", "Block", vec![read(), choice(None)]),
        graph(
            "if_else",
            "Request",
            "Picture<u8>",
            vec![
                read(),
                choice(Some(GraphShape::Sequence(vec![
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
            vec![GraphShape::While {
                condition: "error > 0.001".into(),
                body: Box::new(GraphShape::Sequence(vec![
                    run("refine", "Compute[any]", "Estimate"),
                    run("measure", "Master", "Estimate"),
                ])),
            }],
        ),
        graph(
            "for",
            "Grid",
            "Grid",
            vec![GraphShape::For {
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
                            vec![GraphShape::For {
                                range: "0..3".into(),
                                body: Box::new(choice(None)),
                            }],
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
        let (svg, dot) = (graph.to_svg(), graph.to_dot());
        keep(&format!("{}.svg", graph.name), &svg);
        keep(&format!("{}.dot", graph.name), &dot);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(dot.starts_with("digraph") && dot.ends_with("}\n"));
        assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    }
}

#[test]
fn pictures_say_what_they_show() {
    let picture = |name: &str| {
        let graph = gallery().into_iter().find(|graph| graph.name == name).unwrap();
        (graph.to_svg(), graph.to_dot())
    };
    let cases: [(&str, &[&str]); 7] = [
        ("pipeline", &["read", "Disk[·]", "asynchronous", "inline", "enhance", "Block"]),
        ("if", &["if", "block.is_packed()", "yes", "no", "unpack"]),
        ("while", &["while", "yes", "no", "refine", "measure"]),
        ("for", &["for", "0..100", "each", "done"]),
        ("parallel", &["parallel", "sky_of", "add_ground", "Mesh", "window: 3", "Client"]),
        ("parallel_while", &["parallel while", "next_part", "add", "window: automatic"]),
        ("indexed_parallel", &["indexed parallel, 2 indices", "tile_of", "TileRequest"]),
    ];
    for (name, texts) in cases {
        let (svg, dot) = picture(name);
        for text in texts {
            assert!(svg.contains(text), "{text} in the SVG of {name}");
            assert!(dot.contains(text), "{text} in the DOT of {name}");
        }
        assert!(!svg.contains("demo::") && !dot.contains("demo::"), "types are short: {name}");
    }
    let last = gallery().pop().unwrap();
    assert!(last.to_svg().contains(">&lt;&amp;&quot;&#39;&gt;</text>"));
    assert!(last.to_dot().contains("<&\\\"'>"));
}

fn span(thread: &str, name: &str, token: u64, begin_ns: u64, end_ns: u64) -> Span {
    Span {
        process: "A".into(),
        thread: thread.into(),
        name: name.into(),
        note: String::new(),
        kind: SpanKind::Run,
        call: 1,
        token,
        begin_ns,
        end_ns,
        waited_ns: 0,
    }
}

/// A pipeline whose stages take the given times, with at most `window` tokens under way: each stage
/// takes the tokens in order.
fn pipeline(stages_ms: &[u64], tokens: u64, window: usize) -> Trace {
    let hop = 530_000;
    let mut free = vec![0; stages_ms.len()];
    let mut left: Vec<u64> = Vec::new();
    let mut spans = Vec::new();
    for token in 1..=tokens {
        let mut ready = left.len().checked_sub(window).map_or(0, |before| left[before]);
        for (stage, milliseconds) in stages_ms.iter().enumerate() {
            let begin = ready.max(free[stage]);
            let end = begin + milliseconds * 1_000_000;
            let (thread, name) = (format!("Stage{}", stage + 1), format!("stage{}", stage + 1));
            let waited_ns = begin - ready;
            spans.push(Span { waited_ns, ..span(&thread, &name, token, begin, end) });
            free[stage] = end;
            ready = end + hop;
        }
        left.push(ready);
    }
    Trace { spans, dropped: 0 }
}

/// Two processes, a pool, a split and a merge.
fn two_processes() -> Trace {
    let mut spans = Vec::new();
    for token in 1..=12u64 {
        let begin = token * 40_000;
        let split = span("Client", "next_part", token, begin, begin + 15_000);
        spans.push(Span { kind: SpanKind::Split, ..split });
        let disk = format!("Disk[{}]", token % 11);
        let read = span(&disk, "read", token, begin + 20_000, begin + 150_000 + token * 9_000);
        let end = read.end_ns;
        spans.push(Span { process: "B".into(), ..read });
        let merge = span("Client", "add", token, end + 3_000, end + 14_000);
        spans.push(Span { kind: SpanKind::Merge, ..merge });
    }
    Trace { spans, dropped: 7 }
}

#[test]
fn a_pipeline_has_a_row_for_each_stage() {
    for window in 1..=4 {
        let svg = pipeline(&[50, 160, 200, 100, 150], 12, window).to_timing_svg();
        keep(&format!("timing_window_{window}.svg"), &svg);
        let mut last = 0;
        for stage in 1..=5 {
            let row = svg.find(&format!(">Stage{stage}</text>")).unwrap();
            assert!(row > last, "the rows are in the order of the pipeline");
            last = row;
            assert!(svg.contains(&format!("stage{stage}, token 12, call 1: ")));
        }
        let numbers = svg.matches(">12</text>").count();
        assert!((3..=5).contains(&numbers), "all boxes but the short ones have their numbers");
    }
}

#[test]
fn rows_are_grouped_by_address_space_and_ordered_by_number() {
    let svg = two_processes().to_timing_svg();
    keep("timing_two_processes.svg", &svg);
    let at = |text: &str| svg.find(&format!(">{text}</text>")).expect(text);
    let order = ["A", "Client", "B", "Disk[0]", "Disk[2]", "Disk[9]", "Disk[10]"];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
    assert!(svg.contains("7 more were not recorded"));
    assert!(svg.contains(">add (merge)</text>") && svg.contains(">next_part (split)</text>"));
}

#[test]
fn a_long_trace_is_drawn_whole_with_few_boxes() {
    let trace = pipeline(&[1, 2, 3], 50_000, 4);
    let svg = trace.to_timing_svg();
    keep("timing_long.svg", &svg);
    assert!(svg.contains("150000 executions"));
    let boxes = svg.matches("</title></rect>").count();
    assert!((3..3_000).contains(&boxes), "{boxes} boxes");
    assert!(svg.contains("<title>50000 × stage3, call 1: "), "one box for what is always busy");
}

/// The sizes of all texts of a picture.
fn text_sizes(svg: &str) -> Vec<f64> {
    let sizes = svg.split("font-size=\"").skip(1);
    sizes.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn text_is_readable_at_the_size_of_a_page() {
    for trace in [pipeline(&[1, 2, 3], 1_000, 4), pipeline(&[50, 160], 12, 1), two_processes()] {
        let svg = trace.to_timing_svg();
        let wide = svg.split("width=\"").nth(1).unwrap().split('"').next().unwrap();
        let scale = (1_280.0 / wide.parse::<f64>().unwrap()).min(1.0);
        let smallest = text_sizes(&svg).into_iter().fold(f64::MAX, f64::min);
        assert!(smallest * scale >= 11.0, "{smallest} of {wide}");
    }
}

#[test]
fn waits_say_what_was_waited_for_and_are_not_work() {
    let wait = Span { kind: SpanKind::Wait, ..span("T", "waits for a disk", 0, 0, 3_000) };
    let answer = Span { note: "264828 bytes".into(), ..span("T", "answer", 0, 3_000, 4_000) };
    let trace = Trace { spans: vec![wait, answer], dropped: 0 };
    let svg = trace.to_timing_svg();
    keep("timing_waits.svg", &svg);
    assert!(svg.contains("<title>waits for a disk, call 1: 3.00 µs</title>"));
    assert!(svg.contains("<title>answer, 264828 bytes, call 1: 1.00 µs"));
    assert!(svg.contains(">25 %</text>"), "a wait is not work");
    assert!(svg.contains(">1 execution, 4.00 µs</text>"));
    let json: serde_json::Value = serde_json::from_str(&trace.to_chrome_json()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let answer = events.iter().find(|event| event["name"] == "answer").unwrap();
    assert_eq!(answer["args"]["note"], "264828 bytes");
    assert!(events.iter().any(|event| event["cat"] == "wait"));
}

#[test]
fn strange_traces_have_pictures() {
    assert!(Trace::default().to_timing_svg().contains("Nothing was recorded"));
    let at_once = Trace { spans: vec![span("T<\"&>", "<&'\">", 0, 5, 5)], dropped: 0 };
    let svg = at_once.to_timing_svg();
    keep("timing_at_once.svg", &svg);
    assert!(svg.contains("T&lt;&quot;&amp;&gt;"));
    let backwards = Trace { spans: vec![span("T", "n", 1, u64::MAX, 0)], dropped: u64::MAX };
    assert!(backwards.to_timing_svg().contains("1 execution,"));
    assert!(backwards.to_chrome_json().contains("\"dur\":0.0"));
}

#[test]
fn the_chrome_trace_names_processes_and_threads() {
    let trace = two_processes();
    let text = trace.to_chrome_json();
    keep("two_processes.json", &text);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let named = |kind: &str| -> Vec<(u64, u64, String)> {
        let of_kind = events.iter().filter(|event| event["ph"] == "M" && event["name"] == kind);
        of_kind
            .map(|event| {
                let number = |key: &str| event[key].as_u64().unwrap();
                (number("pid"), number("tid"), event["args"]["name"].as_str().unwrap().to_owned())
            })
            .collect()
    };
    assert_eq!(named("process_name"), [(1, 0, "A".into()), (2, 0, "B".into())]);
    let threads = named("thread_name");
    assert_eq!(threads.len(), 12);
    assert_eq!(threads[0], (1, 1, "Client".into()));
    assert_eq!(threads[11], (2, 12, "Disk[10]".into()));

    let boxes: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(boxes.len(), trace.spans.len());
    let first = boxes[0];
    assert_eq!((&first["name"], &first["cat"]), (&"next_part".into(), &"split".into()));
    assert_eq!((first["ts"].as_f64(), first["dur"].as_f64()), (Some(0.0), Some(15.0)));
    assert_eq!(first["args"], serde_json::json!({ "call": 1, "token": 1, "waited_us": 0.0 }));
    assert_eq!(json["otherData"]["dropped"], 7);
}

#[test]
fn traces_of_several_spaces_become_one() {
    let one = Trace { spans: vec![span("T", "n", 2, 20, 30)], dropped: 1 };
    let two = Trace { spans: vec![span("U", "n", 1, 10, 40)], dropped: 2 };
    let both = Trace::merge(vec![one.clone(), two.clone()]);
    assert_eq!(both.spans, [two.spans, one.spans].concat());
    assert_eq!(both.dropped, 3);
    assert_eq!(Trace::merge(Vec::new()), Trace::default());
}

#[test]
fn the_ending_of_a_file_decides_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let graph = &gallery()[1];
    let trace = two_processes();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    graph.save(folder.path().join("graph.svg")).unwrap();
    graph.save(folder.path().join("graph.dot")).unwrap();
    trace.save(folder.path().join("trace.json")).unwrap();
    trace.save(folder.path().join("trace.svg")).unwrap();
    assert_eq!(read("graph.svg"), graph.to_svg());
    assert_eq!(read("graph.dot"), graph.to_dot());
    assert_eq!(read("trace.json"), trace.to_chrome_json());
    assert_eq!(read("trace.svg"), trace.to_timing_svg());
    for name in ["graph.png", "graph"] {
        let error = graph.save(folder.path().join(name)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        let error = trace.save(folder.path().join(name)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}
