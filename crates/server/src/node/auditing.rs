//! What the door tells the audit log.

use std::sync::Arc;

use pario_flow::{OperationRef, Token};
use pario_net::Bulk;
use pario_proto::{Answer, Failure};

use super::door::{Door, Reporter};
use crate::sessions::Session;
use crate::shared::Ticket;

impl Door {
    /// Tells the audit log that a client was refused something.
    pub(super) fn note_refusal(&self, session: &Session, failure: &Failure) {
        self.shared.audit.note_failure(Some(session.identity.uid), &session.name, failure);
    }

    /// Tells the audit log what an administrator has done, or was refused.
    pub(super) fn note_administration<T>(
        &self,
        session: &Session,
        object: &str,
        result: &Result<T, Failure>,
    ) {
        let who = (session.identity.uid, session.name.as_str());
        self.shared.audit.note_administration(who, object.to_owned(), result);
        if let Err(failure) = result {
            self.note_refusal(session, failure);
        }
    }

    /// Calls an operation for a client; a refusal goes to the audit log.
    pub(super) fn start_for<I: Token>(
        &self,
        session: &Arc<Session>,
        operation: OperationRef<I, Answer<Bulk>>,
        input: I,
        reporter: Reporter,
        ticket: Ticket,
    ) {
        let (shared, session) = (self.shared.clone(), session.clone());
        self.start_seen(operation, input, reporter, ticket, move |answer| {
            if let Err(failure) = &answer.result {
                let uid = Some(session.identity.uid);
                shared.audit.note_failure(uid, &session.name, failure);
            }
        });
    }
}
