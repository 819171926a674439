//! The draft of a schedule: the steps that a chain has added so far, and their picture.

use crate::graph::{GraphShape, SplitKind};
use crate::schedule::{ScheduleStep, StepAction};
use crate::thread_selector::ThreadSelection;
use crate::token::{Token, TokenType};
use crate::window::Window;

/// An unfinished schedule and its picture.
pub(crate) struct ScheduleDraft {
    pub(crate) steps: Vec<ScheduleStep>,
    /// The window for the next split.
    pub(crate) window: Window,
    /// The label of the last step's thread; empty if it is not known.
    pub(crate) thread: String,
    /// One list of shapes for each open construct, outermost first.
    shapes: Vec<Vec<GraphShape>>,
    /// The open splits, outermost first.
    pub(crate) splits: Vec<OpenSplit>,
    /// Names of threads and pools, and whether each is a pool.
    slots: Vec<(String, bool)>,
    operations: Vec<String>,
}

/// A split without its merge.
pub(crate) struct OpenSplit {
    pub(crate) step: usize,
    pub(crate) kind: SplitKind,
    pub(crate) thread: String,
    /// The type of the tokens that it makes.
    pub(crate) token: String,
}

impl ScheduleDraft {
    pub(crate) fn new(slots: Vec<(String, bool)>, operations: Vec<String>) -> Self {
        Self {
            steps: Vec::new(),
            window: Window::default(),
            thread: String::new(),
            shapes: vec![Vec::new()],
            splits: Vec::new(),
            slots,
            operations,
        }
    }

    /// Adds a step that takes a token of type `T`; returns its number.
    pub(crate) fn push<T: Token>(&mut self, action: StepAction, name: String) -> usize {
        self.steps.push(ScheduleStep { action, name, input: TokenType::of::<T>() });
        self.steps.len() - 1
    }

    /// Returns the number of the next step.
    pub(crate) fn next_step(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn label(&self, selection: &ThreadSelection) -> String {
        let (name, is_pool) = &self.slots[selection.slot];
        selection.label(name, *is_pool)
    }

    pub(crate) fn operation_name(&self, number: usize) -> &str {
        &self.operations[number]
    }

    pub(crate) fn add_shape(&mut self, shape: GraphShape) {
        self.shapes.last_mut().expect("the outermost list stays").push(shape);
    }

    /// Collects shapes in a new list until [`close_shapes`](Self::close_shapes).
    pub(crate) fn open_shapes(&mut self) {
        self.shapes.push(Vec::new());
    }

    pub(crate) fn close_shapes(&mut self) -> GraphShape {
        sequence(self.shapes.pop().expect("a list was opened"))
    }

    /// Takes the whole picture.
    pub(crate) fn shape(&mut self) -> GraphShape {
        sequence(std::mem::take(&mut self.shapes[0]))
    }

    pub(crate) fn rename_last(&mut self, new: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.name = new.to_owned();
        }
        if let Some(GraphShape::Run { name, .. }) =
            self.shapes.last_mut().and_then(|list| list.last_mut())
        {
            *name = new.to_owned();
        }
    }

    pub(crate) fn take_window(&mut self) -> Window {
        std::mem::take(&mut self.window)
    }
}

fn sequence(mut shapes: Vec<GraphShape>) -> GraphShape {
    if shapes.len() == 1 { shapes.remove(0) } else { GraphShape::Sequence(shapes) }
}
