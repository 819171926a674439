//! The graph in the DOT language of Graphviz.

use std::fmt::Write;

use super::layout::{caption, flatten, output};
use super::names::short_name;
use super::shape::{Branch, GraphShape, OperationGraph, RunKind, SplitKind};

/// Writes the graph.
pub(super) fn write(graph: &OperationGraph) -> String {
    let mut writer = DotWriter { text: String::new(), nodes: 0, clusters: 0, indent: 1 };
    let begin = writer.node("", "shape=point, width=0.12");
    let from = OpenEdge { node: begin, token: short_name(&graph.input), note: "" };
    let last = writer.body(&graph.body, from);
    let end = writer.node("", "shape=circle, width=0.12");
    writer.edge(&last, end);
    format!(
        "digraph {} {{\n  rankdir=LR;\n  fontname=\"Helvetica\";\n  label={};\n  labelloc=t;\n  \
         node [fontname=\"Helvetica\", fontsize=11];\n  \
         edge [fontname=\"Helvetica\", fontsize=9];\n{}}}\n",
        quoted(&graph.name),
        quoted(&graph.name),
        writer.text
    )
}

struct DotWriter {
    text: String,
    nodes: usize,
    clusters: usize,
    indent: usize,
}

/// An edge without its target: its source node, its token type and its note.
struct OpenEdge {
    node: usize,
    token: String,
    note: &'static str,
}

impl DotWriter {
    /// Writes the steps of a shape; returns the edge that leaves the last step.
    fn body(&mut self, shape: &GraphShape, from: OpenEdge) -> OpenEdge {
        let mut steps = Vec::new();
        flatten(shape, &mut steps);
        steps.into_iter().fold(from, |from, step| self.step(step, from))
    }

    fn step(&mut self, shape: &GraphShape, from: OpenEdge) -> OpenEdge {
        let token = output(shape, &from.token);
        match shape {
            // The caller has flattened sequences.
            GraphShape::Sequence(_) => from,
            GraphShape::Run { name, thread, kind, .. } => {
                let (style, how) = match kind {
                    RunKind::Synchronous => ("rounded", ""),
                    RunKind::Asynchronous => ("\"rounded,dashed\"", "asynchronous"),
                    RunKind::Inline => ("\"rounded,dotted\"", "inline"),
                };
                let label = lines(&[name, thread, how]);
                let node = self.node(&label, &format!("shape=box, style={style}"));
                self.edge(&from, node);
                OpenEdge { node, token, note: "" }
            }
            GraphShape::Call { operation, .. } => {
                let node = self.node(operation, "shape=box, style=rounded, peripheries=2");
                self.edge(&from, node);
                OpenEdge { node, token, note: "" }
            }
            GraphShape::If { condition, then, otherwise } => {
                let node = self.condition("if", condition, &from);
                let input = from.token;
                let yes = self.body(then, OpenEdge { node, token: input.clone(), note: "yes" });
                let mut no = OpenEdge { node, token: input, note: "no" };
                if let Some(otherwise) = otherwise {
                    no = self.body(otherwise, no);
                }
                let join = self.node("", "shape=point");
                self.edge(&yes, join);
                self.edge(&no, join);
                OpenEdge { node: join, token, note: "" }
            }
            GraphShape::While { condition, body } => {
                self.repetition("while", condition, ["yes", "no"], body, &from)
            }
            GraphShape::For { range, body } => {
                self.repetition("for", range, ["each", "done"], body, &from)
            }
            GraphShape::Split { kind, thread, window, branches, merge_thread, .. } => {
                let node = self.split(*kind, [thread, window, merge_thread], branches, &from);
                OpenEdge { node, token, note: "" }
            }
        }
    }

    fn repetition(
        &mut self,
        keyword: &str,
        text: &str,
        [again, over]: [&'static str; 2],
        body: &GraphShape,
        from: &OpenEdge,
    ) -> OpenEdge {
        let node = self.condition(keyword, text, from);
        let back = self.body(body, OpenEdge { node, token: from.token.clone(), note: again });
        self.edge(&back, node);
        OpenEdge { node, token: from.token.clone(), note: over }
    }

    fn split(
        &mut self,
        kind: SplitKind,
        [thread, window, merge_thread]: [&str; 3],
        branches: &[Branch],
        from: &OpenEdge,
    ) -> usize {
        let (split_name, merge_name) = match branches {
            [branch] => (branch.split.as_str(), branch.merge.as_str()),
            _ => ("split", "merge"),
        };
        let window = if window.is_empty() { String::new() } else { format!("window: {window}") };
        let indent = "  ".repeat(self.indent);
        self.clusters += 1;
        let label = quoted(&caption(kind));
        let number = self.clusters;
        // Writing to a string does not fail, here and below.
        let _ = writeln!(self.text, "{indent}subgraph cluster_{number} {{");
        let _ = writeln!(self.text, "{indent}  label={label}; style=rounded; fontsize=9;");
        self.indent += 1;
        let split =
            self.node(&lines(&[split_name, thread, &window]), "shape=trapezium, orientation=90");
        let merge =
            self.node(&lines(&[merge_name, merge_thread]), "shape=trapezium, orientation=270");
        for branch in branches {
            let token = short_name(&branch.input);
            let last = if branches.len() == 1 {
                self.body(&branch.body, OpenEdge { node: split, token, note: "" })
            } else {
                let first = self.node(&branch.split, "shape=oval");
                self.edge(&OpenEdge { node: split, token: String::new(), note: "" }, first);
                let last = self.body(&branch.body, OpenEdge { node: first, token, note: "" });
                let node = self.node(&branch.merge, "shape=oval");
                self.edge(&last, node);
                OpenEdge { node, token: String::new(), note: "" }
            };
            self.edge(&last, merge);
        }
        self.indent -= 1;
        let _ = writeln!(self.text, "{indent}}}");
        // Within the braces, this edge would draw its source node inside the frame.
        self.edge(from, split);
        merge
    }

    fn condition(&mut self, keyword: &str, text: &str, from: &OpenEdge) -> usize {
        let node = self.node(format!("{keyword} {text}").trim(), "shape=hexagon");
        self.edge(from, node);
        node
    }

    fn node(&mut self, label: &str, attributes: &str) -> usize {
        self.nodes += 1;
        let indent = "  ".repeat(self.indent);
        let number = self.nodes;
        let _ = writeln!(self.text, "{indent}n{number} [label={}, {attributes}];", quoted(label));
        number
    }

    fn edge(&mut self, from: &OpenEdge, to: usize) {
        let indent = "  ".repeat(self.indent);
        let label = quoted(&lines(&[&from.token, from.note]));
        let _ = writeln!(self.text, "{indent}n{} -> n{to} [label={label}];", from.node);
    }
}

/// Joins the texts that are not empty, one per line.
fn lines(texts: &[&str]) -> String {
    let texts: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
