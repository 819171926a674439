//! If, if-else, while, for.

use std::ops::Range;

use super::running::name_of;
use super::{Anywhere, Chain, Somewhere, Top};
use crate::graph::Shape;
use crate::schedule::Step;
use crate::token::{Parcel, Token, peek};

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// *If*: a token that meets the condition goes through the body, any other past it.
    ///
    /// ```
    /// # let mut program = pario_flow::Program::new("if");
    /// # let worker = program.thread("Worker", || ());
    /// let even = program.operation("make even", |b| b
    ///     .on(worker)
    ///     .when(|n: &u32| n % 2 == 1, |b| b.run(|_, n| n + 1)));
    /// # let run = program.launch(None)?;
    /// assert_eq!((run.call(even, 3)?, run.call(even, 8)?), (4, 8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn when<T2>(
        mut self,
        condition: impl Fn(&O) -> bool + Send + Sync + 'static,
        body: impl FnOnce(Chain<O, O, T, Top>) -> Chain<O, O, T2, Top>,
    ) -> Chain<I, O, Anywhere, K>
    where
        T: Somewhere,
    {
        let name = name_of(&condition, "if");
        let branch = self.push_test(condition, &name);
        self.draft.open_shapes();
        let mut chain: Chain<O, O, T2, Top> = body(self.into_other());
        let then = Box::new(chain.draft.close_shapes());
        let end = chain.draft.here();
        chain.set_target(branch, end);
        chain.draft.add_shape(Shape::If { condition: asked(name, "if"), then, otherwise: None });
        chain.join()
    }

    /// *If-else*: a token that meets the condition goes through the first body, any other through
    /// the second.
    pub fn if_else<O2: Token, T2, T3>(
        mut self,
        condition: impl Fn(&O) -> bool + Send + Sync + 'static,
        then: impl FnOnce(Chain<O, O, T, Top>) -> Chain<O, O2, T2, Top>,
        otherwise: impl FnOnce(Otherwise<O, T>) -> Chain<O, O2, T3, Top>,
    ) -> Chain<I, O2, Anywhere, K>
    where
        T: Somewhere,
    {
        let name = name_of(&condition, "if");
        let branch = self.push_test(condition, &name);
        let place = self.draft.place.clone();
        self.draft.open_shapes();
        let mut chain: Chain<O, O2, T2, Top> = then(self.into_other());
        let first = Box::new(chain.draft.close_shapes());
        let jump = chain.draft.push::<O2>(Step::Jump(0), "join".into());
        let second_start = chain.draft.here();
        chain.set_target(branch, second_start);
        chain.draft.place = place;
        chain.draft.open_shapes();
        let mut chain: Chain<O, O2, T3, Top> = otherwise(chain.into_other());
        let second = Some(Box::new(chain.draft.close_shapes()));
        let end = chain.draft.here();
        chain.set_target(jump, end);
        let condition = asked(name, "if");
        chain.draft.add_shape(Shape::If { condition, then: first, otherwise: second });
        chain.join()
    }

    /// *While*: the token goes through the body as long as it meets the condition, which is asked
    /// before each round.
    pub fn repeat_while<T2>(
        mut self,
        condition: impl Fn(&O) -> bool + Send + Sync + 'static,
        body: impl FnOnce(Chain<O, O, Anywhere, Top>) -> Chain<O, O, T2, Top>,
    ) -> Chain<I, O, Anywhere, K>
    where
        T: Somewhere,
    {
        let name = name_of(&condition, "while");
        let branch = self.push_test(condition, &name);
        self.draft.open_shapes();
        let mut chain: Chain<O, O, T2, Top> = body(self.into_other());
        let shape = Box::new(chain.draft.close_shapes());
        chain.draft.push::<O>(Step::Jump(branch), "again".into());
        let end = chain.draft.here();
        chain.set_target(branch, end);
        chain.draft.add_shape(Shape::While { condition: asked(name, "while"), body: shape });
        chain.join()
    }

    /// *For*: the token goes through the body once for every index of a range that is computed
    /// from the token at the beginning. The steps in the body learn the index from their
    /// [`Context`](crate::Context).
    pub fn repeat<T2>(
        mut self,
        range: impl Fn(&O) -> Range<u64> + Send + Sync + 'static,
        body: impl FnOnce(Chain<O, O, Anywhere, Top>) -> Chain<O, O, T2, Top>,
    ) -> Chain<I, O, Anywhere, K>
    where
        T: Somewhere,
    {
        let name = name_of(&range, "for");
        let range = move |parcel: &Parcel| range(peek::<O>(parcel));
        let enter = Step::ForEnter { range: Box::new(range), after: 0 };
        let enter = self.draft.push::<O>(enter, name.clone());
        self.draft.open_shapes();
        let mut chain: Chain<O, O, T2, Top> = body(self.into_other());
        let shape = Box::new(chain.draft.close_shapes());
        chain.draft.push::<O>(Step::ForNext { body: enter + 1 }, "next".into());
        let end = chain.draft.here();
        chain.set_target(enter, end);
        chain.draft.add_shape(Shape::For { range: asked(name, "for"), body: shape });
        chain.join()
    }

    fn push_test(
        &mut self,
        condition: impl Fn(&O) -> bool + Send + Sync + 'static,
        name: &str,
    ) -> usize {
        let test = Box::new(move |parcel: &Parcel| condition(peek::<O>(parcel)));
        self.draft.push::<O>(Step::Branch { test, otherwise: 0 }, name.to_owned())
    }
}

/// What a picture says beside the keyword: nothing if a closure has only the keyword for a name.
fn asked(name: String, keyword: &str) -> String {
    if name == keyword { String::new() } else { name }
}

/// The second body of an [`if_else`](Chain::if_else), where it begins.
pub type Otherwise<O, T> = Chain<O, O, T, Top>;

impl<I, O, T, K> Chain<I, O, T, K> {
    fn set_target(&mut self, node: usize, to: usize) {
        match &mut self.draft.nodes[node].step {
            Step::Branch { otherwise: target, .. }
            | Step::Jump(target)
            | Step::ForEnter { after: target, .. } => *target = to,
            _ => unreachable!("only steps that jump have a target"),
        }
    }

    /// Several ways meet: which thread has the token is not known any more.
    fn join<I2, K2>(mut self) -> Chain<I2, O, Anywhere, K2> {
        self.draft.place.clear();
        self.into_other()
    }
}
