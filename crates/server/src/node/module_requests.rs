//! Requests about modules: checks them, and passes them to the namespace.

use pario_net::Bulk;
use pario_proto::{ModuleRequest, Reply};

use super::dispatcher::Dispatcher;
use crate::limits::Resource;
use crate::modules;
use crate::program::plain_reply;
use crate::reply_sender::ReplySender;
use crate::sessions::Session;

impl Dispatcher {
    /// Handles a request about modules.
    pub(super) fn module(
        &self,
        session: &Session,
        request: ModuleRequest,
        data: Vec<Bulk>,
        reply: ReplySender,
    ) {
        let shared = self.shared.clone();
        let who = session.identity.clone();
        match request {
            ModuleRequest::Add { name, mode } => {
                let bytes = data.into_iter().next().unwrap_or_default();
                let share = session.account.take(Resource::ModuleCalls, 1);
                let (share, ticket) = match share.and_then(|share| Ok((share, shared.begin()?))) {
                    Ok(begun) => begun,
                    Err(failure) => return reply.fail(failure),
                };
                let client = session.name.clone();
                self.run_in_thread("module", reply, ticket, move || {
                    let (uid, object) = (who.uid, format!("add operation {name}"));
                    let added = modules::add(&shared, who, name, mode, &bytes);
                    shared.audit.note_administration((uid, &client), object, &added);
                    drop(share);
                    added.map(|record| Reply::Module(Box::new(record)))
                });
            }
            ModuleRequest::List => reply.send(plain_reply(modules::list(&shared))),
            ModuleRequest::Find { name } => {
                reply.send(plain_reply(modules::find(&shared, &name)));
            }
            ModuleRequest::Fetch { name } => {
                let fetched = modules::fetch(&shared, Some(&who), &name, None);
                reply.send(fetched.unwrap_or_else(|failure| plain_reply(Err(failure))));
            }
            ModuleRequest::Remove { name } => {
                let (uid, client) = (who.uid, session.name.clone());
                let audit = shared.audit.clone();
                let object = format!("remove operation {name}");
                modules::remove(&shared, who, name, move |removed| {
                    audit.note_administration((uid, &client), object, &removed);
                    reply.send_now(plain_reply(removed.map(|_| Reply::Done)));
                });
            }
        }
    }
}
