//! How an asynchronous step goes on.

use std::sync::Arc;

use super::board::Board;
use super::ids::ThreadNumber;
use super::message::{Debt, Envelope, Message, Payload, Route};
use super::shared::Shared;
use super::stack::Stack;
use crate::error::CallError;
use crate::schedule::Step;
use crate::token::Parcel;

/// The rest of the schedule of a token that an asynchronous step keeps.
pub struct RawSuccessor {
    shared: Arc<Shared>,
    board: Arc<Board>,
    thread: ThreadNumber,
    rest: Option<Rest>,
}

struct Rest {
    /// The asynchronous step itself.
    route: Route,
    stack: Stack,
    debt: Option<Debt>,
}

impl RawSuccessor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        board: Arc<Board>,
        thread: ThreadNumber,
        route: Route,
        stack: Stack,
        debt: Option<Debt>,
    ) -> Self {
        Self { shared, board, thread, rest: Some(Rest { route, stack, debt }) }
    }

    pub(crate) fn call(mut self, parcel: Parcel) {
        let Some(Rest { mut route, stack, debt }) = self.rest.take() else {
            return;
        };
        let shared = &self.shared;
        self.board.completed(route.position);
        route.position = route.position.next();
        let call = route.call;
        // If the next step is a hop, the token leaves from here; anything else runs on the thread
        // of the step.
        let target = match &shared.node(route.position).step {
            Step::Hop(site) => {
                let at = route.position;
                match shared.resolve(site, &parcel, || stack.indices(), at) {
                    Ok(Some(thread)) => {
                        route.position = at.next();
                        Ok(thread)
                    }
                    Ok(None) => Ok(self.thread),
                    Err(error) => Err(error),
                }
            }
            Step::Merge(_) => Ok(stack.split().map_or(self.thread, |split| split.merge_at)),
            _ => Ok(self.thread),
        };
        let sent = target.and_then(|thread| {
            let codec = shared.node(route.position).input;
            let envelope = Envelope::now(route, stack, Payload::Here(parcel, codec));
            shared.send(thread, call, Message::Token(envelope))
        });
        if let Err(error) = sent {
            shared.fail(call, error);
        }
        if let Some(debt) = debt {
            shared.settle(debt, self.thread);
        }
    }

    pub(crate) fn fail(mut self, message: String) {
        if let Some(rest) = self.rest.take() {
            self.give_up(rest, |operation, step, thread| CallError::Failed {
                operation,
                step,
                thread,
                message,
            });
        }
    }

    fn give_up(&self, rest: Rest, error: impl FnOnce(String, String, String) -> CallError) {
        let position = rest.route.position;
        let error = error(
            self.shared.operation_name(position),
            self.shared.node(position).name.clone(),
            self.board.name.clone(),
        );
        self.board.completed(position);
        self.shared.fail(rest.route.call, error);
        if let Some(debt) = rest.debt {
            self.shared.settle(debt, self.thread);
        }
    }
}

impl Drop for RawSuccessor {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.give_up(rest, |operation, step, thread| CallError::Dropped {
                operation,
                step,
                thread,
            });
        }
    }
}
