//! Cached files of a job.

use super::Job;
use crate::cached::{CachedFile, CachedFileSource, CachedOptions, MemoryPool};
use crate::error::Error;

impl Job {
    /// Opens a file for reading, in the memory of all ranks: a plain file, or one of a cluster
    /// ([`CachedFileSource::in_cluster`]). All cached files of a job share one team. Collective.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path().join("cluster"))?;
    /// # cluster.create("/mesh.bin")?.write_at(&[7; 100_000], 0)?;
    /// # let path = dir.path().join("mesh.bin");
    /// # std::fs::write(&path, [7; 100_000]).unwrap();
    /// use pario::Job;
    /// use pario::cached::CachedFileSource;
    ///
    /// let job = Job::from_env()?;
    /// let mesh = job.cache(&path)?; // the whole file in the memory of all ranks; no cluster needed
    /// let mut element = [0; 32];
    /// mesh.read_exact_at(&mut element, 99_000)?; // a copy, not a system call
    /// # assert_eq!(element, [7; 32]);
    ///
    /// let mesh = job.cache(CachedFileSource::in_cluster(&cluster, "/mesh.bin"))?;
    /// # mesh.read_exact_at(&mut element, 99_000)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cache(&self, source: impl Into<CachedFileSource>) -> Result<CachedFile, Error> {
        self.cache_with(source, &CachedOptions::new().read(true))
    }

    /// Opens a file in the memory of all ranks, with options. Collective.
    pub fn cache_with(
        &self,
        source: impl Into<CachedFileSource>,
        options: &CachedOptions,
    ) -> Result<CachedFile, Error> {
        let source = source.into();
        if let CachedFileSource::Cluster(cluster, _) = &source {
            self.note_cluster(cluster);
        }
        options.open(self, source)
    }

    /// The memory that the job keeps for its cached files.
    pub(crate) fn memory_pool(&self) -> &MemoryPool {
        &self.state.memory_pool
    }
}
