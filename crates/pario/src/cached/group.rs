//! Cached files of the processes of a job that have a cluster.

use std::collections::HashMap;

use pario_proto::Access;
use parking_lot::Mutex;

use super::{CachedFile, CachedOptions, Place};
use crate::error::Error;
use crate::group::Group;

/// How many files this process has cached as which rank of which job.
static OPENED: Mutex<Option<HashMap<(String, u32), u64>>> = Mutex::new(None);

impl Group {
    /// Opens a file of the cluster in the memory of all processes of the job, together with all of
    /// them. A file that is written and is not there is created.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # cluster.create("/mesh.bin")?.write_at(&[7; 100_000], 0)?;
    /// use pario::{Access, Group};
    ///
    /// let group = Group::new(&cluster, "job 7", 1, 0)?; // or `Group::from_env()`
    /// let mesh = group.cache("/mesh.bin", Access::READ)?; // the whole file in everybody's memory
    /// let mut element = [0; 32];
    /// mesh.read_exact_at(&mut element, 99_000)?; // a copy, not a system call
    /// # assert_eq!(element, [7; 32]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cache(&self, path: &str, access: Access) -> Result<CachedFile, Error> {
        self.cache_with(path, &CachedOptions::new().access(access).create(access.write))
    }

    /// The same, with options.
    pub fn cache_with(&self, path: &str, options: &CachedOptions) -> Result<CachedFile, Error> {
        // Each file has a team of its own, which ends with it: all open their files in the same
        // order, and so give them the same numbers.
        let number = {
            let mut opened = OPENED.lock();
            let key = (self.job().to_owned(), self.rank());
            let number = opened.get_or_insert_default().entry(key).or_insert(0);
            *number += 1;
            *number
        };
        let job = format!("{}, cached file {number}", self.job());
        let team = self.further_team(&job)?;
        options.open(&team, Place::of_cluster(self.cluster(), path))
    }
}
