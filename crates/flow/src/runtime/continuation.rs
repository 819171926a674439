//! The continuation of an asynchronous step, without its token type.

use std::sync::Arc;

use super::activity::ThreadActivity;
use super::construct_stack::ConstructStack;
use super::ids::ThreadNumber;
use super::message::{Envelope, FlowMessage, Payload, ThreadClaim, TokenRoute};
use super::process_runtime::ProcessRuntime;
use crate::error::CallError;
use crate::schedule::StepAction;
use crate::token::ErasedToken;

/// Continues the schedule of a token after an asynchronous step; fails the call if dropped.
pub struct ErasedContinuation {
    runtime: Arc<ProcessRuntime>,
    activity: Arc<ThreadActivity>,
    thread: ThreadNumber,
    rest: Option<PendingStep>,
}

struct PendingStep {
    /// The asynchronous step itself.
    route: TokenRoute,
    stack: ConstructStack,
    claim: Option<ThreadClaim>,
}

impl ErasedContinuation {
    pub(crate) fn new(
        runtime: Arc<ProcessRuntime>,
        activity: Arc<ThreadActivity>,
        thread: ThreadNumber,
        route: TokenRoute,
        stack: ConstructStack,
        claim: Option<ThreadClaim>,
    ) -> Self {
        Self { runtime, activity, thread, rest: Some(PendingStep { route, stack, claim }) }
    }

    pub(crate) fn call(mut self, token: ErasedToken) {
        let Some(PendingStep { mut route, stack, claim }) = self.rest.take() else {
            return;
        };
        let runtime = &self.runtime;
        self.activity.completed(route.position);
        route.position = route.position.next();
        let call = route.call;
        // A hop is resolved here, and the token goes to its target at once. Any other next step
        // runs on the thread of the asynchronous step.
        let target = match &runtime.step(route.position).action {
            StepAction::Hop(selection) => {
                let at = route.position;
                let target = runtime.resolve(selection, &token, || stack.indices(), at);
                route.position = at.next();
                target.map(|thread| thread.ok_or(selection.slot))
            }
            StepAction::Merge(_) => {
                Ok(Ok(stack.split().map_or(self.thread, |split| split.merge_at)))
            }
            _ => Ok(Ok(self.thread)),
        };
        let sent = target.and_then(|target| {
            let token_type = runtime.step(route.position).input;
            let envelope = Envelope::now(route, stack, Payload::Local(token, token_type));
            match target {
                Ok(thread) => runtime.send(thread, call, FlowMessage::Token(envelope)),
                // Any thread of this pool.
                Err(pool) => runtime.send_to_any(pool, envelope),
            }
        });
        if let Err(error) = sent {
            runtime.fail(call, error);
        }
        if let Some(claim) = claim {
            runtime.release_thread(claim, self.thread);
        }
    }

    pub(crate) fn fail(mut self, message: String) {
        if let Some(rest) = self.rest.take() {
            self.fail_call(rest, |operation, step, thread| CallError::Failed {
                operation,
                step,
                thread,
                message,
            });
        }
    }

    fn fail_call(
        &self,
        rest: PendingStep,
        error: impl FnOnce(String, String, String) -> CallError,
    ) {
        let position = rest.route.position;
        let error = error(
            self.runtime.operation_name(position),
            self.runtime.step(position).name.clone(),
            self.activity.name.clone(),
        );
        self.activity.completed(position);
        self.runtime.fail(rest.route.call, error);
        if let Some(claim) = rest.claim {
            self.runtime.release_thread(claim, self.thread);
        }
    }
}

impl Drop for ErasedContinuation {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.fail_call(rest, |operation, step, thread| CallError::Dropped {
                operation,
                step,
                thread,
            });
        }
    }
}
