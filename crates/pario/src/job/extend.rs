//! Extending a shared file.

use std::io::SeekFrom;

use pario_proto::OFFSET_LIMIT;

use super::SharedFile;
use crate::error::Error;

impl SharedFile {
    /// Makes the file longer, and returns its new length. `to` counts from the beginning, from the
    /// pointer as in [`position`](SharedFile::position), or from the end. The file never becomes
    /// shorter: not if it is longer already, and not if another process extends it at the same
    /// time. No rank waits for others, and no pointer moves.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// use pario::Mode;
    /// use std::io::SeekFrom;
    ///
    /// let file = files.create("/state", Mode::Record)?;
    /// assert_eq!(file.extend(SeekFrom::Start(1000))?, 1000);
    /// assert_eq!(file.extend(SeekFrom::Start(10))?, 1000);
    /// assert_eq!(file.extend(SeekFrom::End(24))?, 1024);
    /// # Ok(())
    /// # }
    /// ```
    pub fn extend(&self, to: SeekFrom) -> Result<u64, Error> {
        let (from, distance) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(distance) => (self.position()?, distance),
            SeekFrom::End(distance) => (self.len()?, distance),
        };
        let wanted = match from.checked_add_signed(distance) {
            Some(wanted) if wanted <= OFFSET_LIMIT => wanted,
            None if distance < 0 => 0,
            _ => {
                let path = self.file().path();
                return Err(Error::invalid(format!(
                    "{path}: a file cannot become longer than 2^62 bytes"
                )));
            }
        };
        if wanted > self.len()? {
            self.file().grow(wanted)?;
        }
        self.len()
    }
}
