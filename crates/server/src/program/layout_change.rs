//! Another layout for an empty file. A layout never changes: a new file takes the name instead, while
//! no other client has the file open.

use pario_flow::Continuation;
use pario_net::{Bulk, SpaceId};
use pario_proto::{Failure, FileId, FileRecord, LayoutChoice, Reply, ReplyMessage};

use super::interface::{Interface, release};
use super::plain_reply;

impl Interface {
    /// Replaces an empty file by a new one with another layout.
    pub(super) fn set_layout(
        &self,
        space: SpaceId,
        handle: u64,
        layout: LayoutChoice,
        next: Continuation<ReplyMessage<Bulk>>,
    ) {
        let (old, record) = match self.plan_replacement(space, handle, &layout) {
            Ok(planned) => planned,
            Err(failure) => return next.call(plain_reply(Err(failure))),
        };
        let interface = match self.shared.interface() {
            Ok(interface) => interface,
            Err(failure) => return next.call(plain_reply(Err(failure))),
        };
        let shared = self.shared.clone();
        interface.namespace.replace_file(old, record, move |replaced| {
            match &replaced {
                // The mark stays until the client has closed the old file, so that no client opens
                // it that has looked its name up before.
                Ok(record) => release(&shared, record.clone()),
                Err(_) => {
                    if let Some(interface) = &shared.interface {
                        interface.open_files.end_replacement(old);
                    }
                }
            }
            next.call(plain_reply(replaced.map(|_| Reply::Done)));
        });
    }

    /// Marks the file of a handle, so that no other client opens it. Returns its id, and the record
    /// of the file that replaces it.
    fn plan_replacement(
        &self,
        space: SpaceId,
        handle: u64,
        layout: &LayoutChoice,
    ) -> Result<(FileId, FileRecord), Failure> {
        let interface = self.shared.interface()?;
        let node = || self.shared.name().to_owned();
        let open = interface.open_files.get(handle, space);
        let open = open.ok_or_else(|| Failure::StaleHandle { node: node() })?;
        let path = open.path;
        if !open.access.write {
            let why = format!("{path}: its layout needs an open for writing");
            return Err(Failure::Refused { node: node(), why });
        }
        if open.record.kind != layout.kind() {
            let why = "a layout of another kind cannot replace its own".to_owned();
            return Err(Failure::WrongKind { path: path.to_string(), why });
        }
        let layout = self.choose_layout(interface, &path, layout)?;
        let old = open.record.id;
        if !interface.open_files.begin_replacement(old) {
            let why = "its layout can only change while no other process has it open".to_owned();
            return Err(Failure::Layout { path, why });
        }
        let now_ns = interface.namespace.now_ns();
        let record = FileRecord {
            id: interface.namespace.new_file_id(),
            layout: Some(layout),
            created_ns: now_ns,
            changed_ns: now_ns,
            rights_version: 0,
            first_synced: Vec::new(),
            ..open.record
        };
        Ok((old, record))
    }
}
