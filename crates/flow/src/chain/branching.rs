//! If, if-else, while, for.

use std::ops::Range;

use super::running::name_of;
use super::{AnyThread, Chain, HasThread, TopLevel};
use crate::graph::GraphShape;
use crate::schedule::StepAction;
use crate::token::{ErasedToken, Token, downcast_ref};

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// *If*: a token that meets the condition passes the body; any other token skips it.
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
        body: impl FnOnce(Chain<O, O, T, TopLevel>) -> Chain<O, O, T2, TopLevel>,
    ) -> Chain<I, O, AnyThread, K>
    where
        T: HasThread,
    {
        let name = name_of(&condition, "if");
        let branch = self.push_test(condition, &name);
        self.draft.open_shapes();
        let mut chain: Chain<O, O, T2, TopLevel> = body(self.into_other());
        let then = Box::new(chain.draft.close_shapes());
        let end = chain.draft.next_step();
        chain.set_target(branch, end);
        chain.draft.add_shape(GraphShape::If {
            condition: condition_text(name, "if"),
            then,
            otherwise: None,
        });
        chain.join()
    }

    /// *If-else*: a token that meets the condition passes the first body, any other token the
    /// second.
    pub fn if_else<O2: Token, T2, T3>(
        mut self,
        condition: impl Fn(&O) -> bool + Send + Sync + 'static,
        then: impl FnOnce(Chain<O, O, T, TopLevel>) -> Chain<O, O2, T2, TopLevel>,
        otherwise: impl FnOnce(Chain<O, O, T, TopLevel>) -> Chain<O, O2, T3, TopLevel>,
    ) -> Chain<I, O2, AnyThread, K>
    where
        T: HasThread,
    {
        let name = name_of(&condition, "if");
        let branch = self.push_test(condition, &name);
        let thread = self.draft.thread.clone();
        self.draft.open_shapes();
        let mut chain: Chain<O, O2, T2, TopLevel> = then(self.into_other());
        let first = Box::new(chain.draft.close_shapes());
        let jump = chain.draft.push::<O2>(StepAction::Jump(0), "join".into());
        let second_start = chain.draft.next_step();
        chain.set_target(branch, second_start);
        chain.draft.thread = thread;
        chain.draft.open_shapes();
        let mut chain: Chain<O, O2, T3, TopLevel> = otherwise(chain.into_other());
        let second = Some(Box::new(chain.draft.close_shapes()));
        let end = chain.draft.next_step();
        chain.set_target(jump, end);
        let condition = condition_text(name, "if");
        chain.draft.add_shape(GraphShape::If { condition, then: first, otherwise: second });
        chain.join()
    }

    /// *While*: the token passes the body as long as it meets the condition, which is evaluated
    /// before each iteration.
    pub fn repeat_while<T2>(
        mut self,
        condition: impl Fn(&O) -> bool + Send + Sync + 'static,
        body: impl FnOnce(Chain<O, O, AnyThread, TopLevel>) -> Chain<O, O, T2, TopLevel>,
    ) -> Chain<I, O, AnyThread, K>
    where
        T: HasThread,
    {
        let name = name_of(&condition, "while");
        let branch = self.push_test(condition, &name);
        self.draft.open_shapes();
        let mut chain: Chain<O, O, T2, TopLevel> = body(self.into_other());
        let shape = Box::new(chain.draft.close_shapes());
        chain.draft.push::<O>(StepAction::Jump(branch), "again".into());
        let end = chain.draft.next_step();
        chain.set_target(branch, end);
        chain
            .draft
            .add_shape(GraphShape::While { condition: condition_text(name, "while"), body: shape });
        chain.join()
    }

    /// *For*: the token passes the body once for every index of a range, which is computed once
    /// from the token that enters. Steps in the body read the index from their
    /// [`StepContext`](crate::StepContext).
    pub fn repeat<T2>(
        mut self,
        range: impl Fn(&O) -> Range<u64> + Send + Sync + 'static,
        body: impl FnOnce(Chain<O, O, AnyThread, TopLevel>) -> Chain<O, O, T2, TopLevel>,
    ) -> Chain<I, O, AnyThread, K>
    where
        T: HasThread,
    {
        let name = name_of(&range, "for");
        let range = move |token: &ErasedToken| range(downcast_ref::<O>(token));
        let enter = StepAction::ForEnter { range: Box::new(range), after: 0 };
        let enter = self.draft.push::<O>(enter, name.clone());
        self.draft.open_shapes();
        let mut chain: Chain<O, O, T2, TopLevel> = body(self.into_other());
        let shape = Box::new(chain.draft.close_shapes());
        chain.draft.push::<O>(StepAction::ForNext { body: enter + 1 }, "next".into());
        let end = chain.draft.next_step();
        chain.set_target(enter, end);
        chain.draft.add_shape(GraphShape::For { range: condition_text(name, "for"), body: shape });
        chain.join()
    }

    fn push_test(
        &mut self,
        condition: impl Fn(&O) -> bool + Send + Sync + 'static,
        name: &str,
    ) -> usize {
        let test = Box::new(move |token: &ErasedToken| condition(downcast_ref::<O>(token)));
        self.draft.push::<O>(StepAction::Branch { test, otherwise: 0 }, name.to_owned())
    }
}

/// Returns the text beside the keyword in a picture: empty if the name is the keyword itself.
fn condition_text(name: String, keyword: &str) -> String {
    if name == keyword { String::new() } else { name }
}

impl<I, O, T, K> Chain<I, O, T, K> {
    fn set_target(&mut self, step: usize, to: usize) {
        match &mut self.draft.steps[step].action {
            StepAction::Branch { otherwise: target, .. }
            | StepAction::Jump(target)
            | StepAction::ForEnter { after: target, .. } => *target = to,
            _ => unreachable!("only steps that jump have a target"),
        }
    }

    /// Joins branches: which thread has the token is no longer known.
    fn join<I2, K2>(mut self) -> Chain<I2, O, AnyThread, K2> {
        self.draft.thread.clear();
        self.into_other()
    }
}
