//! The check of a cluster: compares the namespace with the disks.

mod rebuild;
mod subfiles;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc;

use pario_proto::{
    CheckDepth, CheckReport, CheckRequest, DiskId, Failure, FileId, FileKind, FilePath, FileRecord,
    Finding, FindingKind, FoundSubfile, KnownFile, PeerRequest, Reply, Request, SubfileIndex,
};
pub use subfiles::{list_subfiles, repair_subfile};

use crate::node_state::{InterfaceState, NodeState};

/// The number of subfiles in one request to a node.
const PAGE_SUBFILES: u32 = 2_000;
/// The number of files that the check reads from the namespace at a time.
const PAGE_FILES: usize = 2_000;

type Position = (DiskId, FileId, SubfileIndex);

/// Checks the whole cluster. Runs in a thread of its own on the interface node. Files that clients
/// create or delete during the check cause no finding.
pub fn check(shared: &Arc<NodeState>, request: CheckRequest) -> Result<CheckReport, Failure> {
    let interface = shared.interface()?;
    let mut check = ClusterCheck {
        shared,
        interface,
        request,
        report: CheckReport::default(),
        seen: HashSet::new(),
        extra: BTreeMap::new(),
        silent: HashSet::new(),
        tombstones: interface
            .namespace
            .tombstones()?
            .into_iter()
            .map(|record| (record.id, record))
            .collect(),
        started_ns: interface.namespace.now_ns(),
    };
    for problem in interface.namespace.problems()? {
        check.report_finding(FindingKind::Mismatch, FileId::ROOT, None, None, problem, false);
    }
    for node in 0..shared.config.nodes.len() {
        check.check_node(node)?;
    }
    check.check_files()?;
    check.check_extras()?;
    check.check_deletions();
    Ok(check.report)
}

struct ClusterCheck<'a> {
    shared: &'a Arc<NodeState>,
    interface: &'a InterfaceState,
    request: CheckRequest,
    report: CheckReport,
    seen: HashSet<(FileId, u32)>,
    /// Subfiles of files that the namespace does not know.
    extra: BTreeMap<FileId, Vec<FoundSubfile>>,
    silent: HashSet<usize>,
    tombstones: HashMap<FileId, FileRecord>,
    started_ns: u64,
}

impl ClusterCheck<'_> {
    /// Checks the subfiles of one node.
    fn check_node(&mut self, node: usize) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let page = match self.page(node, after, PAGE_SUBFILES, self.request.depth) {
                Ok(page) => page,
                Err(failure) => {
                    tracing::warn!(%failure, "the check skips a node that does not answer");
                    self.silent.insert(node);
                    let name = self.shared.config.nodes[node].name.clone();
                    self.report.silent_nodes.push(name);
                    return Ok(());
                }
            };
            let (found, is_more) = page;
            after = found.last().map(|last| (last.disk, last.file, last.subfile));
            for subfile in found {
                self.report.subfiles += 1;
                self.report.verified_bytes += subfile.verified_bytes;
                let unverified = self.report.unverified_bytes;
                self.report.unverified_bytes = unverified.saturating_add(subfile.unverified_bytes);
                self.check_subfile(subfile)?;
            }
            if !is_more {
                return Ok(());
            }
        }
    }

    fn page(
        &self,
        node: usize,
        after: Option<Position>,
        limit: u32,
        depth: CheckDepth,
    ) -> Result<(Vec<FoundSubfile>, bool), Failure> {
        let reply = if node == self.shared.me {
            list_subfiles(self.shared, after, limit, depth)?
        } else {
            let request = PeerRequest::ListSubfiles { after, limit, depth };
            self.ask(node, request)?
        };
        match reply {
            Reply::Subfiles { found, is_more } => Ok((found, is_more)),
            _ => Err(self.unexpected_reply(node)),
        }
    }

    /// Returns whether a subfile is on its disk now.
    fn is_there(&self, node: usize, position: Position) -> bool {
        let (disk, file, subfile) = position;
        let before = match subfile.0.checked_sub(1) {
            Some(index) => (disk, file, SubfileIndex(index)),
            None => (disk, FileId(file.0.saturating_sub(1)), SubfileIndex(u32::MAX)),
        };
        let next = self.page(node, Some(before), 1, CheckDepth::Names);
        next.is_ok_and(|(found, _)| {
            found.first().is_some_and(|found| (found.disk, found.file, found.subfile) == position)
        })
    }

    /// Returns those subfiles of an unknown file that still exist; the others were being deleted
    /// when their disk was listed.
    fn still_extra(
        &self,
        file: FileId,
        subfiles: Vec<FoundSubfile>,
    ) -> Result<Vec<FoundSubfile>, Failure> {
        let namespace = &self.interface.namespace;
        let tombstones = namespace.tombstones()?;
        if namespace.record(file)?.is_some() || tombstones.iter().any(|record| record.id == file) {
            return Ok(Vec::new());
        }
        let is_there = |found: &FoundSubfile| {
            let node = self.shared.map.read().disk(found.disk).map(|(node, _)| node as usize);
            let position = (found.disk, found.file, found.subfile);
            node.is_some_and(|node| self.is_there(node, position))
        };
        Ok(subfiles.into_iter().filter(is_there).collect())
    }

    fn ask(&self, node: usize, request: PeerRequest) -> Result<Reply, Failure> {
        let (send, receive) = mpsc::channel();
        self.shared.peers.ask_then(node, Request::Peer(request), move |answer| {
            // The receiver below waits for this one message.
            let _ = send.send(answer.and_then(|answer| answer.result));
        });
        receive.recv().unwrap_or_else(|_| Err(self.unexpected_reply(node)))
    }

    fn unexpected_reply(&self, node: usize) -> Failure {
        let node = self.shared.config.nodes[node].name.clone();
        Failure::Internal {
            node,
            why: "it has sent a reply that does not fit the request".to_owned(),
        }
    }

    /// Compares a subfile with the namespace.
    fn check_subfile(&mut self, found: FoundSubfile) -> Result<(), Failure> {
        let namespace = &self.interface.namespace;
        let Some(record) = namespace.record(found.file)? else {
            if !self.tombstones.contains_key(&found.file) {
                self.extra.entry(found.file).or_default().push(found);
            }
            return Ok(());
        };
        self.seen.insert((found.file, found.subfile.0));
        let path = namespace.path_of(found.file)?;
        let disk = self.shared.map.read().disk_name(found.disk);
        let which = format!("subfile {} on disk {disk}", found.subfile.0);
        let expected =
            record.layout.as_ref().and_then(|layout| layout.disks().disk_of(found.subfile));
        let wrong = match &found.description {
            Err(why) if record.is_first_synced(found.subfile.0) => Some(why.clone()),
            // The subfile was never synced, so a power loss may leave it so.
            Err(_) => None,
            Ok(description) if Some(&description.layout) != record.layout.as_ref() => {
                Some("it was made for another layout".to_owned())
            }
            Ok(_) if expected != Some(found.disk) => {
                Some("it should lie on another disk".to_owned())
            }
            Ok(_) if found.is_extents != (record.kind == FileKind::Extents) => {
                Some("it is of the other kind".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(why) = wrong {
            let text = format!("{which}: {why}");
            self.report_finding(
                FindingKind::Mismatch,
                found.file,
                path.clone(),
                Some(disk.clone()),
                text,
                false,
            );
        }
        self.check_poison(&found, path.as_ref());
        for why in &found.damage {
            let text = format!("{which}: {why}");
            self.report_finding(
                FindingKind::Damage,
                found.file,
                path.clone(),
                Some(disk.clone()),
                text,
                false,
            );
        }
        Ok(())
    }

    /// Reports a poisoned subfile, and repairs it if the request says so.
    fn check_poison(&mut self, found: &FoundSubfile, path: Option<&FilePath>) {
        if !found.is_poisoned {
            return;
        }
        let (node, disk) = {
            let map = self.shared.map.read();
            let node = map.disk(found.disk).map(|(node, _)| node as usize);
            (node, map.disk_name(found.disk))
        };
        let (file, subfile) = (found.file, found.subfile);
        let lost = format!(
            "subfile {} on disk {disk}: a sync of it failed, and bytes written since the last good \
             sync may be lost",
            subfile.0
        );
        let repaired = match node {
            _ if !self.request.is_repair => None,
            Some(node) if node == self.shared.me => {
                Some(repair_subfile(self.shared, found.disk, file, subfile))
            }
            Some(node) => {
                let request = PeerRequest::RepairSubfile { disk: found.disk, file, subfile };
                Some(self.ask(node, request))
            }
            None => None,
        };
        let (text, is_repaired) = match repaired {
            None => (format!("{lost}; `pario fsck --repair` makes it accept changes again"), false),
            Some(Ok(Reply::Repaired { read_bytes })) => {
                let done = "every stored byte was read from the disk, and it accepts changes again";
                (format!("{lost}; {done} ({read_bytes} bytes)"), true)
            }
            Some(Ok(_)) => {
                (format!("{lost}; its node has sent a reply that does not fit the request"), false)
            }
            Some(Err(failure)) => (format!("{lost}; it cannot be repaired: {failure}"), false),
        };
        self.report_finding(
            FindingKind::Poisoned,
            file,
            path.cloned(),
            Some(disk),
            text,
            is_repaired,
        );
    }

    /// Reports subfiles that are missing.
    fn check_files(&mut self) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let files = self.interface.namespace.all_files(after, PAGE_FILES)?;
            let Some(last) = files.last() else { return Ok(()) };
            after = Some(last.record.id);
            for KnownFile { path, record, .. } in files {
                self.report.files += 1;
                self.check_file(path.as_ref(), &record)?;
            }
        }
    }

    fn check_file(&mut self, path: Option<&FilePath>, record: &FileRecord) -> Result<(), Failure> {
        let Some(layout) = &record.layout else { return Ok(()) };
        for (index, &id) in (0..).zip(layout.disks().as_slice()) {
            if self.seen.contains(&(record.id, index)) || !record.is_first_synced(index) {
                continue;
            }
            let (node, disk) = {
                let map = self.shared.map.read();
                (map.disk(id).map(|(node, _)| node as usize), map.disk_name(id))
            };
            if node.is_some_and(|node| self.silent.contains(&node)) {
                continue;
            }
            // The subfile may have been created since its disk was listed, or its file deleted.
            let position = (id, record.id, SubfileIndex(index));
            if node.is_some_and(|node| self.is_there(node, position)) {
                continue;
            }
            if self.interface.namespace.record(record.id)?.is_none() {
                return Ok(());
            }
            let text = format!(
                "subfile {index} on disk {disk} is missing: it was durable, and its bytes are lost \
                 unless the disk comes back"
            );
            let path = path.cloned();
            self.report_finding(FindingKind::Missing, record.id, path, Some(disk), text, false);
        }
        Ok(())
    }

    /// Reports deletions that have not finished.
    fn check_deletions(&mut self) {
        let tombstones: Vec<FileRecord> = self.tombstones.values().cloned().collect();
        for record in tombstones {
            // An open file keeps its subfiles; the reaper has not failed if it has not come to them
            // yet.
            if self.interface.open_files.is_deleted_but_open(record.id)
                || !self.interface.subfile_reaper.has_failed(record.id)
            {
                continue;
            }
            if self.request.is_repair {
                self.interface.subfile_reaper.remove(record.clone());
            }
            let text = "it was deleted, and its subfiles are not all removed yet".to_owned();
            let is_repaired = self.request.is_repair;
            self.report_finding(
                FindingKind::UnfinishedDeletion,
                record.id,
                None,
                None,
                text,
                is_repaired,
            );
        }
    }

    fn report_finding(
        &mut self,
        kind: FindingKind,
        file: FileId,
        path: Option<FilePath>,
        disk: Option<String>,
        text: String,
        is_repaired: bool,
    ) {
        self.report.findings.push(Finding { kind, path, file, disk, text, is_repaired });
    }
}
