//! Parallel, parallel-while, indexed-parallel: splits and their merges.

use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use super::draft::OpenSplit;
use super::running::name_of;
use super::{At, Chain, Draft, IndexRanges, Inside, NoIndices, Somewhere, Top};
use crate::graph::{Branch, Shape, SplitKind};
use crate::place::{Choice, Place, Site};
use crate::schedule::{Made, MergeStep, Piece, Source, SplitStep, Step};
use crate::token::{Codec, Parcel, Token, open, peek, short_name};
use crate::window::Window;

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// *Parallel-while*: `next` takes one token after the other out of the input until it returns
    /// `None`; each goes through the steps up to the [`merge`](Chain::merge). As many are under
    /// way as the [`window`](Self::window) allows.
    pub fn split_while<Sub: Token>(
        self,
        next: impl Fn(&mut O) -> Option<Sub> + Send + Sync + 'static,
    ) -> Chain<I, Sub, T, Inside<K, O, NoIndices>>
    where
        T: Somewhere,
    {
        let name = name_of(&next, "split");
        let next = Arc::new(next);
        let source = move |parcel: Parcel| {
            let next = next.clone();
            let mut input: O = open(parcel);
            from_fn(move || {
                let token = next(&mut input)?;
                Some(Piece { parcel: Box::new(token), body: 0, indices: Vec::new() })
            })
        };
        self.open_split::<Sub, NoIndices>(name, SplitKind::While, Box::new(source))
    }

    /// *Indexed-parallel*: `split` makes a token for every combination of the indices in `ranges`,
    /// the last index running fastest; `None` skips one. Each goes through the steps up to the
    /// [`merge`](Chain::merge) or [`merge_indexed`](Chain::merge_indexed).
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
    ) -> Chain<I, Sub, T, Inside<K, O, R>>
    where
        T: Somewhere,
    {
        let name = name_of(&split, "split");
        let split = Arc::new(split);
        let source = move |parcel: Parcel| {
            let split = split.clone();
            let input: O = open(parcel);
            let ranges = ranges(&input);
            let mut next = ranges.first();
            from_fn(move || {
                loop {
                    let at = next?;
                    next = ranges.after(at);
                    if let Some(token) = split(&input, at) {
                        let parcel = Box::new(token);
                        return Some(Piece { parcel, body: 0, indices: R::list(at) });
                    }
                }
            })
        };
        self.open_split::<Sub, R>(name, SplitKind::Indexed { indices: R::COUNT }, Box::new(source))
    }

    /// *Parallel*: different bodies at the same time, each with its own split and merge function;
    /// the results are merged at `place` into a token that `init` makes of the input.
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
    pub fn parallel<Out: Token, P: Place<O>>(
        mut self,
        place: P,
        init: impl Fn(&O) -> Out + Send + Sync + 'static,
        branches: impl FnOnce(Branches<O, Out, T>) -> Branches<O, Out, T>,
    ) -> Chain<I, Out, At<P::State>, K>
    where
        T: Somewhere,
    {
        let site = place.site();
        let merge_place = self.draft.label(&site);
        let split_place = self.draft.place.clone();
        let split = self.draft.push::<O>(Step::Jump(0), "parallel".into());
        let mut all = branches(Branches {
            draft: self.draft,
            split,
            place: split_place.clone(),
            splits: Vec::new(),
            bodies: Vec::new(),
            shapes: Vec::new(),
            marks: PhantomData,
        });
        let splits = Arc::new(all.splits);
        let source = move |parcel: Parcel| {
            let splits = splits.clone();
            let mut body = 0;
            from_fn(move || {
                let split = splits.get(body)?;
                let piece = Piece { parcel: split(&parcel), body, indices: Vec::new() };
                body += 1;
                Some(piece)
            })
        };
        let step = SplitStep {
            window: Window::Fixed(all.bodies.len().max(1)),
            source: Box::new(source),
            bodies: all.bodies,
            after: all.draft.here(),
            merge_site: site,
            made: Made::Here,
            init: Box::new(move |parcel| Box::new(init(peek::<O>(parcel)))),
            clone: None,
        };
        all.draft.nodes[split].step = Step::Split(step);
        all.draft.add_shape(Shape::Split {
            kind: SplitKind::Parallel,
            place: split_place,
            window: String::new(),
            branches: all.shapes,
            merge_place: merge_place.clone(),
            output: short_name(type_name::<Out>()),
        });
        all.draft.place = merge_place;
        Chain::start(all.draft)
    }

    fn open_split<Sub: Token, R>(
        mut self,
        name: String,
        kind: SplitKind,
        source: Box<dyn Fn(Parcel) -> Box<dyn Source> + Send + Sync>,
    ) -> Chain<I, Sub, T, Inside<K, O, R>> {
        let window = self.draft.take_window();
        let here = self.draft.here();
        let step = SplitStep {
            window,
            source,
            bodies: vec![here + 1],
            after: 0,
            // The merge says where and how.
            merge_site: Site { slot: 0, choice: Choice::Index(0) },
            made: Made::Here,
            init: Box::new(|_| Box::new(())),
            clone: None,
        };
        self.draft.push::<O>(Step::Split(step), name);
        let place = self.draft.place.clone();
        let token = short_name(type_name::<Sub>());
        self.draft.splits.push(OpenSplit { node: here, kind, place, token });
        self.draft.open_shapes();
        self.into_other()
    }
}

impl<I, O: Token, T: Somewhere, K, In: Token, R> Chain<I, O, T, Inside<K, In, R>> {
    /// Ends the split: `init` makes the output of the input, on the splitting thread, and `add`
    /// merges each token into it, on the thread at `place`. When all have been merged, the output
    /// goes on from there.
    pub fn merge<Out: Token, P: Place<In>>(
        self,
        place: P,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        add: impl Fn(&mut Out, O) + Send + Sync + 'static,
    ) -> Chain<I, Out, At<P::State>, K> {
        let name = name_of(&add, "merge");
        self.close_split(place, name, init, None, move |out, token, _| add(out, token))
    }

    /// Like [`merge`](Self::merge), but the output is made by the merging thread: the input is
    /// cloned and travels there instead of the output. Use it if the output is the larger one.
    pub fn merge_there<Out: Token, P: Place<In>>(
        self,
        place: P,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        add: impl Fn(&mut Out, O) + Send + Sync + 'static,
    ) -> Chain<I, Out, At<P::State>, K>
    where
        In: Clone,
    {
        let name = name_of(&add, "merge");
        self.close_split(place, name, init, Some(In::clone), move |out, token, _| add(out, token))
    }

    /// Like [`merge`](Self::merge), with the indices of each token.
    pub fn merge_indexed<Out: Token, P: Place<In>>(
        self,
        place: P,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        add: impl Fn(&mut Out, O, R::Index) + Send + Sync + 'static,
    ) -> Chain<I, Out, At<P::State>, K>
    where
        R: IndexRanges,
    {
        let name = name_of(&add, "merge");
        self.close_split(place, name, init, None, move |out, token, indices| {
            add(out, token, R::of(indices));
        })
    }

    fn close_split<Out: Token, P: Place<In>>(
        mut self,
        place: P,
        name: String,
        init: impl Fn(&In) -> Out + Send + Sync + 'static,
        clone: Option<fn(&In) -> In>,
        add: impl Fn(&mut Out, O, &[u64]) + Send + Sync + 'static,
    ) -> Chain<I, Out, At<P::State>, K> {
        let open = self.draft.splits.pop().expect("a split is open");
        let split = open.node;
        let merge_step = merge_step(split, add);
        self.draft.push::<O>(merge_step, name.clone());
        let site = place.site();
        let merge_place = self.draft.label(&site);
        let after = self.draft.here();
        let split_node = &mut self.draft.nodes[split];
        let split_name = split_node.name.clone();
        let Step::Split(step) = &mut split_node.step else {
            unreachable!("the step that opened the split is one")
        };
        step.after = after;
        step.merge_site = site;
        step.init = Box::new(move |parcel| Box::new(init(peek::<In>(parcel))));
        if let Some(clone) = clone {
            step.made = Made::There;
            step.clone = Some(Box::new(move |parcel| Box::new(clone(peek::<In>(parcel)))));
        }
        let window = step.window.to_string();
        let body = self.draft.close_shapes();
        let kind = open.kind;
        self.draft.add_shape(Shape::Split {
            kind,
            place: open.place,
            window,
            branches: vec![Branch { split: split_name, input: open.token, body, merge: name }],
            merge_place: merge_place.clone(),
            output: short_name(type_name::<Out>()),
        });
        self.draft.place = merge_place;
        self.into_other()
    }
}

type BranchSplit = dyn Fn(&Parcel) -> Parcel + Send + Sync;

/// The bodies of a [`parallel`](Chain::parallel) while they are written.
#[must_use = "the branches are what the closure returns"]
pub struct Branches<In, Out, T> {
    draft: Draft,
    split: usize,
    place: String,
    splits: Vec<Box<BranchSplit>>,
    bodies: Vec<usize>,
    shapes: Vec<Branch>,
    marks: PhantomData<fn(In) -> (Out, T)>,
}

impl<In: Token, Out: Token, T> Branches<In, Out, T> {
    /// One body: `split` makes its token of the input, `add` merges its result into the output.
    pub fn branch<Sub: Token, Result: Token, T2>(
        mut self,
        split: impl Fn(&In) -> Sub + Send + Sync + 'static,
        body: impl FnOnce(Chain<Sub, Sub, T, Top>) -> Chain<Sub, Result, T2, Top>,
        add: impl Fn(&mut Out, Result) + Send + Sync + 'static,
    ) -> Self {
        let split_name = name_of(&split, "split");
        let merge_name = name_of(&add, "merge");
        self.bodies.push(self.draft.here());
        self.draft.place = self.place.clone();
        self.draft.open_shapes();
        let mut draft = body(Chain::start(self.draft)).finish();
        let shape = draft.close_shapes();
        let step = merge_step(self.split, move |out: &mut Out, token: Result, _| add(out, token));
        draft.push::<Result>(step, merge_name.clone());
        self.draft = draft;
        self.splits.push(Box::new(move |parcel| Box::new(split(peek::<In>(parcel)))));
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
) -> Step {
    let add = move |output: &mut Parcel, parcel: Parcel, indices: &[u64]| {
        let output = output.downcast_mut().expect("the output has the type of its merge");
        add(output, open(parcel), indices);
    };
    Step::Merge(MergeStep { split, output: Codec::of::<Out>(), add: Box::new(add) })
}

struct FromFn<F>(F);

impl<F: FnMut() -> Option<Piece>> Source for FromFn<F> {
    fn next(&mut self) -> Option<Piece> {
        (self.0)()
    }
}

fn from_fn(next: impl FnMut() -> Option<Piece> + 'static) -> Box<dyn Source> {
    Box::new(FromFn(next))
}
