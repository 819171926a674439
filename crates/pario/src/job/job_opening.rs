//! Opens of single processes of a job: the first one counts for all of them.

use pario_proto::{FilePath, JobOpenCall, Member, Reply, Request};

use super::files::{JobFiles, strange_answer};
use super::{SharedFile, SharedOpenOptions};
use crate::connection::Waiting;
use crate::error::{Error, ErrorKind};

/// An open file of this process that counts as open in its job; dropping it ends that.
pub(super) struct JobOpening {
    files: JobFiles,
    open: u64,
    is_first: bool,
    is_closed: bool,
}

impl SharedOpenOptions<'_> {
    /// Opens the file for the processes of these options, as one of the processes of another job,
    /// `of`, which open the same path one by one. The first of them opens the file as its options
    /// say. Until the last of them has closed it, the others get the same file: they create and
    /// truncate nothing, and may ask for a new file. A process that opens the path again performs its
    /// own open.
    ///
    /// The C library opens files so with `open`, where each process is a job of its own.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::{Job, Mode};
    ///
    /// let job = Job::new("job", 1, 0)?.files(&cluster);
    /// let own = Job::new("process 0 of job", 1, 0)?.files(&cluster);
    /// let options = own.options(Mode::Unix).write(true).create_new(true);
    /// let file = options.open_first_of(&job, "/result")?;
    /// file.write(b"once")?;
    /// file.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_first_of(self, of: &JobFiles, path: &str) -> Result<SharedFile, Error> {
        self.open_first_of_by(of, path, |options| options.open(path))
    }

    /// As [`open_first_of`](Self::open_first_of); `open` performs the open of this process, which
    /// does not wait for the other ones of the job.
    #[doc(hidden)]
    pub fn open_first_of_by(
        self,
        of: &JobFiles,
        path: &str,
        open: impl Fn(Self) -> Result<SharedFile, Error>,
    ) -> Result<SharedFile, Error> {
        if of.job().size() == 1 {
            return open(self);
        }
        let job_path = FilePath::new(path)?;
        loop {
            let opening = JobOpening::begin(of, &job_path)?;
            if opening.is_first {
                let file = open(self.clone())?;
                opening.mark_opened()?;
                return Ok(file.with_opening(opening));
            }
            match open(self.clone().existing()) {
                // The path was removed since the first open: this process opens it by itself.
                Err(error) if error.kind() == ErrorKind::NotFound && self.creates() => {
                    opening.close()?;
                }
                opened => return Ok(opened?.with_opening(opening)),
            }
        }
    }
}

impl JobOpening {
    /// Waits until this process may open a path.
    fn begin(files: &JobFiles, path: &FilePath) -> Result<Self, Error> {
        files.ensure_joined()?;
        let reply = request(files, JobOpenCall::Begin(path.clone()))?;
        let Reply::OpenTurn { open, is_first } = reply else { return Err(strange_answer()) };
        Ok(Self { files: files.clone(), open, is_first, is_closed: false })
    }

    /// Says that this process, the first, has opened the file.
    fn mark_opened(&self) -> Result<(), Error> {
        request(&self.files, JobOpenCall::Opened { open: self.open }).map(drop)
    }

    /// Says that this process has closed the file, and waits until the node knows it.
    pub fn close(mut self) -> Result<(), Error> {
        self.is_closed = true;
        request(&self.files, JobOpenCall::Closed { open: self.open }).map(drop)
    }
}

impl Drop for JobOpening {
    fn drop(&mut self) {
        if !self.is_closed {
            let call = JobOpenCall::Closed { open: self.open };
            let request = Request::JobOpen { member: member(&self.files), call };
            self.files.cluster.shared.interface().tell(request);
        }
    }
}

fn member(files: &JobFiles) -> Member {
    Member::clone(&files.job().state.member)
}

fn request(files: &JobFiles, call: JobOpenCall) -> Result<Reply, Error> {
    let request = Request::JobOpen { member: member(files), call };
    files.start(request).and_then(Waiting::wait).map(|(reply, _)| reply)
}
