//! The rebuild of files in the namespace from the descriptions of their subfiles.

use std::sync::mpsc;

use pario_proto::{
    Failure, FileId, FileKind, FilePath, FileRecord, FindingKind, FoundDescription, FoundRights,
    FoundSubfile,
};

use super::ClusterCheck;

/// What the descriptions of one file say together.
pub(super) struct DescribedFile {
    /// The latest owner and mode.
    rights: Option<FoundRights>,
    /// The synced subfiles, as a bit set.
    synced: Option<Vec<u64>>,
}

impl DescribedFile {
    /// Collects the descriptions of subfiles of one file.
    pub fn of(subfiles: &[FoundSubfile]) -> Self {
        let mut described = Self { rights: None, synced: None };
        for found in subfiles {
            let Ok(description) = &found.description else { continue };
            let version = |rights: Option<FoundRights>| rights.map(|rights| rights.rights_version);
            if version(description.rights) > version(described.rights) {
                described.rights = description.rights;
            }
            if let Some(more) = &description.synced {
                let all = described.synced.get_or_insert_default();
                all.resize(all.len().max(more.len()), 0);
                for (word, more) in all.iter_mut().zip(more) {
                    *word |= more;
                }
            }
        }
        described
    }

    /// Returns a sentence for each property that the disks do not hold.
    fn guesses(&self) -> Vec<&'static str> {
        let mut guesses = Vec::new();
        if self.rights.is_none() {
            guesses.push(
                "its owner and mode are not on the disks: it belongs to the user of the node now, \
                 with mode 0600",
            );
        }
        if self.synced.is_none() {
            guesses.push(
                "which of its subfiles were synced is not on the disks: those that are missing \
                 read as zeros now",
            );
        }
        guesses
    }
}

impl ClusterCheck<'_> {
    /// Rebuilds or reports the files that the namespace does not know.
    pub(super) fn check_extras(&mut self) -> Result<(), Failure> {
        if self.request.is_rebuild
            && let Some(highest) = self.extra.keys().max().copied()
        {
            self.wait(|done| self.interface.namespace.reserve_ids_up_to(highest, done))?;
        }
        // Newer files first: if two have the same path, the older one was replaced or deleted, and
        // its node has not removed its subfiles. Files with a guessed name come last.
        let mut files: Vec<_> = std::mem::take(&mut self.extra).into_iter().rev().collect();
        files.sort_by_key(|(_, subfiles)| {
            let described = subfiles.iter().filter_map(|found| found.description.as_ref().ok());
            let last = described.max_by_key(|description| description.path_version);
            last.is_some_and(|description| final_path(&description.path).is_some())
        });
        for (file, subfiles) in files {
            let subfiles = self.still_extra(file, subfiles)?;
            // The description with the latest path: some may have missed a rename.
            let described = subfiles.iter().filter_map(|found| {
                let description = found.description.as_ref().ok()?;
                Some((found, description))
            });
            let described = described.max_by_key(|(_, description)| description.path_version);
            match described {
                Some((found, description)) if self.request.is_rebuild => {
                    self.rebuild(file, found.is_extents, description, &subfiles)?;
                }
                _ => self.report_extra(file, &subfiles),
            }
        }
        Ok(())
    }

    /// Reports subfiles that belong to no file.
    fn report_extra(&mut self, file: FileId, subfiles: &[FoundSubfile]) {
        for found in subfiles {
            let disk = self.shared.map.read().disk_name(found.disk);
            let was = match &found.description {
                Ok(description) => format!("it was part of {}", description.path),
                Err(why) => format!("it does not say of which ({why})"),
            };
            let text = format!(
                "subfile {} on disk {disk} belongs to no file; {was}; `pario fsck --rebuild` \
                 brings such files back",
                found.subfile.0
            );
            self.report_finding(FindingKind::Extra, file, None, Some(disk), text, false);
        }
    }

    /// Rebuilds a file from its descriptions, and reports what is missing of it.
    fn rebuild(
        &mut self,
        file: FileId,
        is_extents: bool,
        description: &FoundDescription,
        subfiles: &[FoundSubfile],
    ) -> Result<(), Failure> {
        let described = DescribedFile::of(subfiles);
        let record = self.record_of(file, is_extents, description, subfiles, &described);
        let whole = final_path(&description.path);
        let path = whole.as_ref().map_or(description.path.as_str(), FilePath::as_str);
        let path = self.restore(path, description.path_version, record.clone())?;
        self.write_back(file)?;
        let text = format!("made from {} subfiles on the disks", subfiles.len());
        self.report_finding(FindingKind::Rebuilt, file, Some(path.clone()), None, text, true);
        for guess in described.guesses() {
            let (path, text) = (Some(path.clone()), guess.to_owned());
            self.report_finding(FindingKind::Guessed, file, path, None, text, true);
        }
        if whole.is_some() {
            let text = "its name: it was written under a hidden one, which a copy has until it is \
                        whole; compare it with its source";
            self.report_finding(
                FindingKind::Guessed,
                file,
                Some(path.clone()),
                None,
                text.to_owned(),
                true,
            );
        }
        // The namespace knows the file now, so the check can report synced subfiles that are
        // missing.
        for found in subfiles {
            self.seen.insert((found.file, found.subfile.0));
            self.check_poison(found, Some(&path));
        }
        self.check_file(Some(&path), &record)
    }

    fn record_of(
        &self,
        file: FileId,
        is_extents: bool,
        description: &FoundDescription,
        subfiles: &[FoundSubfile],
        described: &DescribedFile,
    ) -> FileRecord {
        let administrator = &self.shared.administrator;
        let guessed = FoundRights {
            uid: administrator.uid,
            gid: administrator.gids.first().copied().unwrap_or(0),
            mode: 0o600,
            rights_version: 0,
        };
        let rights = described.rights.unwrap_or(guessed);
        let mut record = FileRecord {
            id: file,
            kind: if is_extents { FileKind::Extents } else { FileKind::Flat },
            layout: Some(description.layout.clone()),
            uid: rights.uid,
            gid: rights.gid,
            mode: rights.mode,
            created_ns: description.created_s.saturating_mul(1_000_000_000),
            changed_ns: self.started_ns,
            // Invalidates all older grants.
            rights_version: rights.rights_version.saturating_add(1),
            first_synced: described.synced.clone().unwrap_or_default(),
        };
        for found in subfiles {
            record.mark_synced(found.subfile.0);
        }
        record
    }

    fn restore(&self, path: &str, renames: u32, record: FileRecord) -> Result<FilePath, Failure> {
        let path = FilePath::new(path)
            .or_else(|_| FilePath::new(&format!("/recovered/{}", record.id)))
            .map_err(|error| Failure::Invalid(error.to_string()))?;
        self.wait(|done| self.interface.namespace.restore(path, renames, record, done))
    }

    /// Starts a change of the namespace, and waits for its outcome.
    fn wait<T: Send + 'static>(
        &self,
        start: impl FnOnce(Box<dyn FnOnce(Result<T, Failure>) + Send>),
    ) -> Result<T, Failure> {
        let (send, receive) = mpsc::channel();
        start(Box::new(move |outcome| {
            // The receiver below waits for this one message.
            let _ = send.send(outcome);
        }));
        receive.recv().unwrap_or_else(|_| {
            let node = self.shared.name().to_owned();
            Err(Failure::Internal { node, why: "the namespace has stopped".to_owned() })
        })
    }

    /// Writes the result into the descriptions, so that the next rebuild finds it. Disks that
    /// cannot be reached get it later.
    fn write_back(&self, file: FileId) -> Result<(), Failure> {
        let files = self.interface.namespace.known_file(file)?.into_iter().collect();
        let (send, receive) = mpsc::channel();
        self.interface.description_writer.write(self.shared, files, None, move |is_done| {
            let _ = send.send(is_done);
        });
        let _ = receive.recv();
        Ok(())
    }
}

/// Returns the final path of a copy that `pario cp` has written under the hidden name
/// `.NAME.VERSION.pario-part`.
fn final_path(path: &str) -> Option<FilePath> {
    let path = FilePath::new(path).ok()?;
    let hidden = path.name()?.strip_prefix('.')?.strip_suffix(".pario-part")?;
    let (name, _) = hidden.rsplit_once('.')?;
    path.parent()?.join(name).ok()
}
