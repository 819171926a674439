//! Operations as steps of other operations: call, call-adapted.

use super::{AnyThread, Chain, HasThread};
use crate::graph::GraphShape;
use crate::program::OperationRef;
use crate::schedule::StepAction;
use crate::thread_selector::ThreadSelector;
use crate::token::Token;

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// Uses another operation of the program as a step.
    pub fn call<O2: Token>(mut self, operation: OperationRef<O, O2>) -> Chain<I, O2, AnyThread, K> {
        let name = self.draft.operation_name(operation.number).to_owned();
        let output = crate::token::short_name(std::any::type_name::<O2>());
        self.draft.add_shape(GraphShape::Call { operation: name.clone(), output });
        self.draft.push::<O>(StepAction::Call(operation.number), name);
        self.draft.thread.clear();
        self.into_other()
    }
}

impl<I, O: Token, T, K> Chain<I, O, T, K> {
    /// Uses an operation with other token types as a step: `enter` makes its input from the token,
    /// `leave` puts its output back into the token. `thread` keeps the token during the call.
    ///
    /// ```
    /// # let mut program = pario_flow::Program::new("adapter");
    /// # let worker = program.thread("Worker", || ());
    /// let double = program.operation("double", |b| b.on(worker).run(|_, n: u64| 2 * n));
    /// let relabel = program.operation("relabel", |b| b
    ///     .on(worker)
    ///     .call_adapted(worker, double,
    ///         |(_, n): &(String, u64)| *n,
    ///         |(_, n), doubled| *n = doubled));
    /// # let run = program.launch(None)?;
    /// assert_eq!(run.call(relabel, ("seven".into(), 7))?, ("seven".into(), 14));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_adapted<I2: Token, O2: Token, P: ThreadSelector<O>>(
        self,
        thread: P,
        operation: OperationRef<I2, O2>,
        enter: impl Fn(&O) -> I2 + Send + Sync + 'static,
        leave: impl Fn(&mut O, O2) + Send + Sync + 'static,
    ) -> Chain<I, O, super::OnThread<P::State>, K>
    where
        T: HasThread,
        O: Clone,
    {
        self.parallel(thread, O::clone, |branches| {
            branches.branch(enter, |b| b.call(operation), leave)
        })
    }
}
