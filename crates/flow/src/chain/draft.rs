//! The steps of an operation while they are collected, and the picture that grows beside them.

use crate::graph::{Shape, SplitKind};
use crate::place::Site;
use crate::schedule::{Node, Step};
use crate::token::{Codec, Token};
use crate::window::Window;

/// What has been written of an operation so far.
pub(crate) struct Draft {
    pub(crate) nodes: Vec<Node>,
    /// The window for the next split.
    pub(crate) window: Window,
    /// Where the last step runs, in words.
    pub(crate) place: String,
    /// One list of shapes for every construct that is open, outermost first.
    shapes: Vec<Vec<Shape>>,
    /// The splits that are open, outermost first.
    pub(crate) splits: Vec<OpenSplit>,
    /// Names of threads and pools; the latter with `true`.
    slots: Vec<(String, bool)>,
    operations: Vec<String>,
}

/// A split whose merge has not been written yet.
pub(crate) struct OpenSplit {
    pub(crate) node: usize,
    pub(crate) kind: SplitKind,
    pub(crate) place: String,
    /// The type of the tokens that it makes.
    pub(crate) token: String,
}

impl Draft {
    pub(crate) fn new(slots: Vec<(String, bool)>, operations: Vec<String>) -> Self {
        Self {
            nodes: Vec::new(),
            window: Window::default(),
            place: String::new(),
            shapes: vec![Vec::new()],
            splits: Vec::new(),
            slots,
            operations,
        }
    }

    /// Adds a step that takes a token of type `T`, and gives its number.
    pub(crate) fn push<T: Token>(&mut self, step: Step, name: String) -> usize {
        self.nodes.push(Node { step, name, input: Codec::of::<T>() });
        self.nodes.len() - 1
    }

    /// The number the next step will have.
    pub(crate) fn here(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn label(&self, site: &Site) -> String {
        let (name, is_pool) = &self.slots[site.slot];
        site.label(name, *is_pool)
    }

    pub(crate) fn operation_name(&self, number: usize) -> &str {
        &self.operations[number]
    }

    pub(crate) fn add_shape(&mut self, shape: Shape) {
        self.shapes.last_mut().expect("the outermost list stays").push(shape);
    }

    /// Shapes go into a new list until [`close_shapes`](Self::close_shapes).
    pub(crate) fn open_shapes(&mut self) {
        self.shapes.push(Vec::new());
    }

    pub(crate) fn close_shapes(&mut self) -> Shape {
        sequence(self.shapes.pop().expect("a list was opened"))
    }

    /// The whole picture.
    pub(crate) fn shape(&mut self) -> Shape {
        sequence(std::mem::take(&mut self.shapes[0]))
    }

    pub(crate) fn rename_last(&mut self, new: &str) {
        if let Some(node) = self.nodes.last_mut() {
            node.name = new.to_owned();
        }
        if let Some(Shape::Run { name, .. }) =
            self.shapes.last_mut().and_then(|list| list.last_mut())
        {
            *name = new.to_owned();
        }
    }

    pub(crate) fn take_window(&mut self) -> Window {
        std::mem::take(&mut self.window)
    }
}

fn sequence(mut shapes: Vec<Shape>) -> Shape {
    if shapes.len() == 1 { shapes.remove(0) } else { Shape::Sequence(shapes) }
}
