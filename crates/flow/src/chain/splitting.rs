//! Parallel, parallel-while, indexed-parallel: splits and their merges.

use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use super::draft::OpenSplit;
use super::running::name_of;
use super::{Chain, HasThread, InSplit, IndexRanges, NoIndices, OnThread, ScheduleDraft, TopLevel};
use crate::graph::{Branch, GraphShape, SplitKind};
use crate::schedule::{MadeBy, MergeStep, SplitSource, SplitStep, SplitToken, StepAction};
use crate::thread_selector::{PoolChoice, ThreadSelection, ThreadSelector};
use crate::token::{ErasedToken, Token, TokenType, downcast, downcast_ref, short_name};
use crate::window::Window;

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// *Parallel-while*: `next` takes tokens out of the input until it returns `None`; each passes
    /// the steps up to the [`merge`](Chain::merge). The [`window`](Self::window) limits the tokens
    /// under way.
    pub fn split_while<Sub: Token>(
        self,
        next: impl Fn(&mut O) -> Option<Sub> + Send + Sync + 'static,
    ) -> Chain<I, Sub, T, InSplit<K, O, NoIndices>>
    where
        T: HasThread,
    {
        let name = name_of(&next, "split");
        let next = Arc::new(next);
        let source = move |token: ErasedToken| {
            let next = next.clone();
            let mut input: O = downcast(token);
            from_fn(move || {
                let token = next(&mut input)?;
                Some(SplitToken { token: Box::new(token), body: 0, indices: Vec::new() })
            })
        };
        self.open_split::<Sub, NoIndices>(name, SplitKind::While, Box::new(source))
    }

    /// *Indexed-parallel*: `split` makes a token for every combination of the indices in `ranges`,
    /// the last index varying fastest; `None` skips a combination. Each token passes the steps up
    /// to the [`merge`](Chain::merge) or [`merge_indexed`](Chain::merge_indexed).
    ///
    /// ```
    /// # let mut program = pario_flow::Program::new("indexed");
    /// # let client = program.thread("Client", || ());
    /// # let worker = program.pool("Worker", 2, |_| ());
    /// let table = program.operation("upper triangle", |b| b
    ///     .on(client)
    ///     .split_indexed(|n: &u64| (0..*n, 0..*n), |_, (row, column)| (row <= column).then_some(row * column))
    ///         .on(worker.at(|product: &u64| *product as usize % 2)).run(|_, product: u64| product)
    ///     .merge_indexed(client, |_| Vec::new(), |table, product, at| table.push((at, product))));
    /// # let run = program.launch(None)?;
    /// let mut table = run.call(table, 3)?;
    /// table.sort();
    /// assert_eq!(table[5], ((2, 2), 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn split_indexed<R: IndexRanges, Sub: Token>(
        self,
        ranges: impl Fn(&O) -> R + Send + Sync + 'static,
        split: impl Fn(&O, R::Index) -> Option<Sub> + Send + Sync + 'static,
    ) -> Chain<I, Sub, T, InSplit<K, O, R>>
    where
        T: HasThread,
    {
        let name = name_of(&split, "split");
        let split = Arc::new(split);
        let source = move |token: ErasedToken| {
            let split = split.clone();
            let input: O = downcast(token);
            let ranges = ranges(&input);
            let mut next = ranges.first();
            from_fn(move || {
                loop {
                    let at = next?;
                    next = ranges.after(at);
                    if let Some(token) = split(&input, at) {
                        let token = Box::new(token);
                        return Some(SplitToken { token, body: 0, indices: R::list(at) });
                    }
                }
            })
        };
        self.open_split::<Sub, R>(name, SplitKind::Indexed { indices: R::COUNT }, Box::new(source))
    }

    /// *Parallel*: different bodies at the same time, each with its own split and merge function.
    /// `init` makes the output from the input; `thread` merges the results into it.
    ///
    /// ```
    /// # let mut program = pario_flow::Program::new("parallel");
    /// # let client = program.thread("Client", || ());
    /// # let worker = program.pool("Worker", 2, |_| ());
    /// let both = program.operation("sum and product", |b| b
    ///     .on(client)
    ///     .parallel(client, |_: &(u64, u64)| (0, 0), |branches| branches
    ///         .branch(|pair| *pair, |b| b.on(worker.thread(0)).run(|_, (a, b)| a + b), |out, sum| out.0 = sum)
    ///         .branch(|pair| *pair, |b| b.on(worker.thread(1)).run(|_, (a, b)| a * b), |out, product| out.1 = product)));
    /// # let run = program.launch(None)?;
    /// assert_eq!(run.call(both, (3, 4))?, (7, 12));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parallel<Out: Token, P: ThreadSelector<O>>(
        mut self,
        thread: P,
        init: impl Fn(&O) -> Out + Send + Sync + 'static,
        branches: impl FnOnce(Branches<O, Out, T>) -> Branches<O, Out, T>,
    ) -> Chain<I, Out, OnThread<P::State>, K>
    where
        T: HasThread,
    {
        let selection = thread.selection();
        let merge_thread = self.draft.label(&selection);
        let split_thread = self.draft.thread.clone();
        let split = self.draft.push::<O>(StepAction::Jump(0), "parallel".into());
        let mut all = branches(Branches {
            draft: self.draft,
            split,
            thread: split_thread.clone(),
            splits: Vec::new(),
            bodies: Vec::new(),
            shapes: Vec::new(),
            marks: PhantomData,
        });
        let splits = Arc::new(all.splits);
        let source = move |token: ErasedToken| {
            let splits = splits.clone();
            let mut body = 0;
            from_fn(move || {
                let split = splits.get(body)?;
                let piece = SplitToken { token: split(&token), body, indices: Vec::new() };
                body += 1;
                Some(piece)
            })
        };
        let step = SplitStep {
            window: Window::Fixed(all.bodies.len().max(1)),
            source: Box::new(source),
            bodies: all.bodies,
            after: all.draft.next_step(),
            merge_selection: selection,
            made_by: MadeBy::Splitter,
            init: Box::new(move |token| Box::new(init(downcast_ref::<O>(token)))),
            clone: None,
        };
        all.draft.steps[split].action = StepAction::Split(step);
        all.draft.add_shape(GraphShape::Split {
            kind: SplitKind::Parallel,
            thread: split_thread,
            window: String::new(),
            branches: all.shapes,
            merge_thread: merge_thread.clone(),
            output: short_name(type_name::<Out>()),
        });
        all.draft.thread = merge_thread;
        Chain::start(all.draft)
    }

    fn open_split<Sub: Token, R>(
        mut self,
        name: String,
        kind: SplitKind,
        source: Box<dyn Fn(ErasedToken) -> Box<dyn SplitSource> + Send + Sync>,
    ) -> Chain<I, Sub, T, InSplit<K, O, R>> {
        let window = self.draft.take_window();
        let here = self.draft.next_step();
        let step = SplitStep {
            window,
            source,
            bodies: vec![here + 1],
            after: 0,
            // The merge sets the following fields.
            merge_selection: ThreadSelection { slot: 0, choice: PoolChoice::Index(0) },
            made_by: MadeBy::Splitter,
            init: Box::new(|_| Box::new(())),
            clone: None,
        };
        self.draft.push::<O>(StepAction::Split(step), name);
        let thread = self.draft.thread.clone();
        let token = short_name(type_name::<Sub>());
        self.draft.splits.push(OpenSplit { step: here, kind, thread, token });
        self.draft.open_shapes();
        self.into_other()
    }
}

impl<I, O: Token, T: HasThread, K, In: Token, R> Chain<I, O, T, InSplit<K, In, R>> {
    /// Ends the split. `init` makes the output from the input, on the splitting thread; `add` merges
    /// each token into it, on `thread`. After the last token the output continues from there.
    pub fn merge<Out: Token, P: ThreadSelector<In>>(
        self,
        thread: P,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        add: impl Fn(&mut Out, O) + Send + Sync + 'static,
    ) -> Chain<I, Out, OnThread<P::State>, K> {
        let name = name_of(&add, "merge");
        self.close_split(thread, name, init, None, move |out, token, _| add(out, token))
    }

    /// Like [`merge`](Self::merge), but the merging thread makes the output: a clone of the input
    /// travels instead of the output. Use it if the output is larger than the input.
    pub fn merge_there<Out: Token, P: ThreadSelector<In>>(
        self,
        thread: P,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        add: impl Fn(&mut Out, O) + Send + Sync + 'static,
    ) -> Chain<I, Out, OnThread<P::State>, K>
    where
        In: Clone,
    {
        let name = name_of(&add, "merge");
        self.close_split(thread, name, init, Some(In::clone), move |out, token, _| add(out, token))
    }

    /// Like [`merge`](Self::merge); `add` also receives the indices of each token.
    pub fn merge_indexed<Out: Token, P: ThreadSelector<In>>(
        self,
        thread: P,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        add: impl Fn(&mut Out, O, R::Index) + Send + Sync + 'static,
    ) -> Chain<I, Out, OnThread<P::State>, K>
    where
        R: IndexRanges,
    {
        let name = name_of(&add, "merge");
        self.close_split(thread, name, init, None, move |out, token, indices| {
            add(out, token, R::of(indices));
        })
    }

    fn close_split<Out: Token, P: ThreadSelector<In>>(
        mut self,
        thread: P,
        name: String,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        clone: Option<fn(&In) -> In>,
        add: impl Fn(&mut Out, O, &[u64]) + Send + Sync + 'static,
    ) -> Chain<I, Out, OnThread<P::State>, K> {
        let open = self.draft.splits.pop().expect("a split is open");
        let split = open.step;
        let merge_step = merge_step(split, add);
        self.draft.push::<O>(merge_step, name.clone());
        let selection = thread.selection();
        let merge_thread = self.draft.label(&selection);
        let after = self.draft.next_step();
        let split_step = &mut self.draft.steps[split];
        let split_name = split_step.name.clone();
        let StepAction::Split(step) = &mut split_step.action else {
            unreachable!("an open split refers to a split step")
        };
        step.after = after;
        step.merge_selection = selection;
        step.init = Box::new(move |token| Box::new(init(downcast_ref::<In>(token))));
        if let Some(clone) = clone {
            step.made_by = MadeBy::Merger;
            step.clone = Some(Box::new(move |token| Box::new(clone(downcast_ref::<In>(token)))));
        }
        let window = step.window.to_string();
        let body = self.draft.close_shapes();
        let kind = open.kind;
        self.draft.add_shape(GraphShape::Split {
            kind,
            thread: open.thread,
            window,
            branches: vec![Branch { split: split_name, input: open.token, body, merge: name }],
            merge_thread: merge_thread.clone(),
            output: short_name(type_name::<Out>()),
        });
        self.draft.thread = merge_thread;
        self.into_other()
    }
}

type BranchSplit = dyn Fn(&ErasedToken) -> ErasedToken + Send + Sync;

/// The builder of the bodies of a [`parallel`](Chain::parallel).
#[must_use = "the branches are what the closure returns"]
pub struct Branches<In, Out, T> {
    draft: ScheduleDraft,
    split: usize,
    thread: String,
    splits: Vec<Box<BranchSplit>>,
    bodies: Vec<usize>,
    shapes: Vec<Branch>,
    marks: PhantomData<fn(In) -> (Out, T)>,
}

impl<In: Token, Out: Token, T> Branches<In, Out, T> {
    /// Adds a body: `split` makes its token from the input, `add` merges its result into the output.
    pub fn branch<Sub: Token, Result: Token, T2>(
        mut self,
        split: impl Fn(&In) -> Sub + Send + Sync + 'static,
        body: impl FnOnce(Chain<Sub, Sub, T, TopLevel>) -> Chain<Sub, Result, T2, TopLevel>,
        add: impl Fn(&mut Out, Result) + Send + Sync + 'static,
    ) -> Self {
        let split_name = name_of(&split, "split");
        let merge_name = name_of(&add, "merge");
        self.bodies.push(self.draft.next_step());
        self.draft.thread = self.thread.clone();
        self.draft.open_shapes();
        let mut draft = body(Chain::start(self.draft)).finish();
        let shape = draft.close_shapes();
        let step = merge_step(self.split, move |out: &mut Out, token: Result, _| add(out, token));
        draft.push::<Result>(step, merge_name.clone());
        self.draft = draft;
        self.splits.push(Box::new(move |token| Box::new(split(downcast_ref::<In>(token)))));
        self.shapes.push(Branch {
            split: split_name,
            input: short_name(type_name::<Sub>()),
            body: shape,
            merge: merge_name,
        });
        self
    }
}

fn merge_step<Out: Token, O: Token>(
    split: usize,
    add: impl Fn(&mut Out, O, &[u64]) + Send + Sync + 'static,
) -> StepAction {
    let add = move |output: &mut ErasedToken, token: ErasedToken, indices: &[u64]| {
        let output = output.downcast_mut().expect("the output has the type of its merge");
        add(output, downcast(token), indices);
    };
    StepAction::Merge(MergeStep { split, output: TokenType::of::<Out>(), add: Box::new(add) })
}

struct FromFn<F>(F);

impl<F: FnMut() -> Option<SplitToken>> SplitSource for FromFn<F> {
    fn next(&mut self) -> Option<SplitToken> {
        (self.0)()
    }
}

fn from_fn(next: impl FnMut() -> Option<SplitToken> + 'static) -> Box<dyn SplitSource> {
    Box::new(FromFn(next))
}
