//! Renewal of grants by the interface thread, for files that clients have open.

use pario_net::SpaceId;
use pario_proto::{Failure, FileRecord, Grant, Identity, ORPHAN_RIGHTS_VERSION, Opened};

use super::interface::Interface;
use crate::grant_window::is_past;
use crate::node_state::InterfaceState;
use crate::open_files::OpenFile;

impl Interface {
    /// Returns a new grant for an open file. If the rights of the file have not changed, a client
    /// keeps its access; otherwise the node checks the permissions again.
    ///
    /// After a restart this node does not know older handles. Then the last grant shows what the
    /// client had open: a valid one counts like the handle; with an expired one the node checks the
    /// permissions again.
    pub(super) fn renew(
        &self,
        interface: &InterfaceState,
        space: SpaceId,
        who: &Identity,
        handle: u64,
        last: &Grant,
    ) -> Result<Opened, Failure> {
        let epoch = interface.grant_epochs.lock().issue();
        let (open, is_trusted) = match interface.open_files.get(handle, space) {
            Some(open) => (open, true),
            None => (self.open_file_of(interface, space, who, last)?, !is_past(last.epoch, epoch)),
        };
        let file = open.record.id;
        let Some(record) = interface.namespace.record(file)? else {
            if !interface.open_files.is_deleted_but_open(file) {
                return Err(Failure::Deleted { file });
            }
            // The file is deleted but still open, so its rights cannot change.
            let mut orphan = open.record.clone();
            orphan.rights_version = ORPHAN_RIGHTS_VERSION;
            return Ok(self.renewed(interface, &open, orphan, handle, epoch));
        };
        if is_trusted && self.is_of_current_rights(last, &record, &open) {
            return Ok(self.renewed(interface, &open, record, handle, epoch));
        }
        let stale = || Failure::StaleHandle { node: self.shared.name().to_owned() };
        let path = interface.namespace.path_of(file)?.ok_or_else(stale)?;
        let record = interface.namespace.lookup(&open.identity, &path, open.access)?;
        if record.id != file {
            return Err(stale());
        }
        Ok(self.renewed(interface, &open, record, handle, epoch))
    }

    /// Returns whether a grant was issued for the current rights of an open file.
    fn is_of_current_rights(&self, last: &Grant, record: &FileRecord, open: &OpenFile) -> bool {
        let is_of_open = last.file == record.id && last.uid == open.identity.uid;
        is_of_open
            && last.access == open.access
            && last.rights_version == record.rights_version
            && self.shared.grants.is_genuine(last)
    }

    /// Returns the open file that a grant shows, if its handle is unknown.
    fn open_file_of(
        &self,
        interface: &InterfaceState,
        space: SpaceId,
        who: &Identity,
        last: &Grant,
    ) -> Result<OpenFile, Failure> {
        let bad = |why: &str| Failure::BadGrant { file: last.file, why: why.to_owned() };
        if !self.shared.grants.is_genuine(last) {
            return Err(bad("it was not given by this cluster"));
        }
        if last.uid != who.uid {
            return Err(bad("it was given to another user"));
        }
        let deleted = || Failure::Deleted { file: last.file };
        let record = interface.namespace.record(last.file)?.ok_or_else(deleted)?;
        let path = interface.namespace.path_of(last.file)?.ok_or_else(deleted)?;
        Ok(OpenFile { space, identity: who.clone(), path, record, access: last.access })
    }

    fn renewed(
        &self,
        interface: &InterfaceState,
        open: &OpenFile,
        record: FileRecord,
        handle: u64,
        epoch: u64,
    ) -> Opened {
        let (grants, version) = (&self.shared.grants, record.rights_version);
        let grant = grants.grant(record.id, open.identity.uid, open.access, version, epoch);
        let renew_after_ms = interface.grant_epochs.lock().renew_after_ms();
        Opened { record, grant, handle, is_created: false, renew_after_ms }
    }
}
