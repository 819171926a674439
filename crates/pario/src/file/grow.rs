//! Extending a file without truncating concurrent writes.

use pario_proto::Request;

use super::File;
use crate::error::Error;

impl File {
    /// Extends the file to at least `len` bytes; the new bytes read as zeros. A longer file stays
    /// as it is, also if another process extends it at the same time.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.grow(1_000_000)?;
    /// file.grow(10)?;
    /// assert_eq!(file.len()?, 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn grow(&self, len: u64) -> Result<(), Error> {
        let striped = self.striped("resize")?;
        self.check_writable()?;
        self.range(len, 0)?;
        self.note_write();
        let lens: Vec<u64> = striped.subfile_lens_bytes(len).collect();
        self.whole_atomically(true, || {
            self.for_all_parts(|grant, part| Request::Grow {
                grant,
                part,
                len: lens[part.subfile.0 as usize],
            })
        })
        .map(|_| ())
    }
}
