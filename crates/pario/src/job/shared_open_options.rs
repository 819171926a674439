//! Options to open a shared file.

use pario_proto::{CollectiveOpen, CreationOptions, FilePath, Layout, Mode};

use super::coordination::Coordination;
use super::files::{CollectiveOpening, JobFiles};
use super::shared_file::SharedFile;
use crate::error::Error;
use crate::file::File;
use crate::open::OpenOptions;

/// Options to open a file together with all other ranks of a job; made by [`JobFiles::options`].
/// All ranks must give the same options.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
/// use pario::Mode;
///
/// let options = files.options(Mode::Record).read(true).write(true).create_new(true);
/// let state = options.unit(1 << 20).open("/state")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it opens nothing until `open` is called"]
pub struct SharedOpenOptions<'f> {
    files: &'f JobFiles,
    options: OpenOptions<'f>,
    mode: Mode,
    is_create: bool,
    is_truncate: bool,
    is_append: bool,
}

impl<'f> SharedOpenOptions<'f> {
    pub(super) fn new(files: &'f JobFiles, mode: Mode) -> Self {
        let options = files.cluster.options();
        Self { files, options, mode, is_create: false, is_truncate: false, is_append: false }
    }

    /// Opens it for reading.
    pub fn read(mut self, yes: bool) -> Self {
        self.options = self.options.read(yes);
        self
    }

    /// Opens it for writing.
    pub fn write(mut self, yes: bool) -> Self {
        self.options = self.options.write(yes);
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(mut self, yes: bool) -> Self {
        self.options = self.options.create(yes);
        self.is_create |= yes;
        self
    }

    /// Creates the file; an existing file is an error.
    pub fn create_new(mut self, yes: bool) -> Self {
        self.options = self.options.create_new(yes);
        self.is_create |= yes;
        self
    }

    /// Lets rank 0 create the missing directories above the file.
    pub fn create_parents(mut self, yes: bool) -> Self {
        self.options = self.options.create_parents(yes);
        self
    }

    /// Truncates an existing file before any rank can use it.
    pub fn truncate(mut self, yes: bool) -> Self {
        self.options = self.options.truncate(yes);
        self.is_truncate = yes;
        self
    }

    /// Every write goes to the end of the file.
    pub fn append(mut self, yes: bool) -> Self {
        self.is_append = yes;
        self
    }

    /// Permissions of a new file: `0o644` by default.
    pub fn permissions(mut self, mode: u32) -> Self {
        self.options = self.options.mode(mode);
        self
    }

    /// The striping unit of a new file.
    pub fn unit(mut self, bytes: u64) -> Self {
        self.options = self.options.unit(bytes);
        self
    }

    /// The number of disks of a new file.
    pub fn disk_count(mut self, count: u32) -> Self {
        self.options = self.options.disk_count(count);
        self
    }

    /// The disks of a new file, in this order.
    pub fn disks<I: IntoIterator<Item = S>, S: Into<String>>(mut self, disks: I) -> Self {
        self.options = self.options.disks(disks);
        self
    }

    /// The exact layout of a new file.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.options = self.options.layout(layout);
        self
    }

    /// Opens the file. Waits until all ranks have called this.
    pub fn open(self, path: &str) -> Result<SharedFile, Error> {
        let open = self.checked(path).inspect_err(|error| {
            // The other ranks learn the reason.
            drop(self.files.fail_call(&error.to_string()));
        })?;
        let (path, access, is_creation) = (open.path.clone(), open.access, open.creation.is_some());
        // The other ranks wait in the call below until rank 0 makes it.
        let parents =
            if self.files.job().rank() == 0 { self.options.make_parents(&path) } else { Ok(()) };
        let CollectiveOpening { opened, shared_file, table } =
            match (self.files.open_collectively(open), parents) {
                (Err(error), Ok(())) if is_creation => return Err(error.of_creation(&path)),
                // The error of creating the directories says more than that of the open.
                (Err(_), Err(error)) => return Err(error),
                (opening, _) => opening?,
            };
        let is_created = opened.is_created;
        let file = File::opened_by_job(&self.files.cluster, path, access, opened);
        let coordination = Coordination::new(self.files, file, shared_file, table);
        if self.is_truncate
            && !is_created
            && let Err(error) = self.truncate_for_all(&coordination.file)
        {
            coordination.leave();
            return Err(error);
        }
        SharedFile::new(coordination, self.mode, self.is_append)
    }

    /// Whether a missing file may be created.
    pub(super) fn creates(&self) -> bool {
        self.is_create
    }

    /// The options to open a file that exists as it is.
    pub(super) fn existing(self) -> Self {
        self.create(false).create_new(false).create_parents(false).truncate(false)
    }

    /// Checks path and options.
    fn checked(&self, path: &str) -> Result<CollectiveOpen, Error> {
        let path = FilePath::new(path)?;
        let access = self.options.checked_access(&path)?;
        let creation = self.options.creation(&path)?;
        let creation =
            creation.map(|(is_new, mode, layout)| CreationOptions { is_new, mode, layout });
        let is_near = self.files.cluster.shared.is_near_interface();
        Ok(CollectiveOpen { path, access, creation, mode: self.mode, is_near })
    }

    /// Rank 0 truncates the file before any rank goes on.
    fn truncate_for_all(&self, file: &File) -> Result<(), Error> {
        if self.files.job().rank() == 0
            && let Err(error) = file.empty()
        {
            drop(self.files.fail_call(&error.to_string()));
            return Err(error);
        }
        self.files.barrier()
    }
}
