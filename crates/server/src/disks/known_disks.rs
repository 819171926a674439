//! The list of known disks in the data directory of a node.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::NodeDisk;
use crate::error::NodeError;
use crate::private_files;

/// A text file with the id and the directory of each disk, one line per disk. It keeps the node
/// from taking an empty mount point for a new disk.
pub(super) struct KnownDisks {
    pub(super) path: String,
    lines: Vec<(u128, String)>,
}

impl KnownDisks {
    const NAME: &str = "disks";

    pub(super) fn read(data: &Path) -> Result<Self, NodeError> {
        let path = data.join(Self::NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(NodeError::io(&path, error)),
        };
        let line = |line: &str| {
            let (uuid, path) = line.split_once(' ')?;
            Some((u128::from_str_radix(uuid, 16).ok()?, path.to_owned()))
        };
        let lines = text.lines().filter_map(line).collect();
        Ok(Self { path: path.display().to_string(), lines })
    }

    pub(super) fn write(data: &Path, disks: &[NodeDisk]) -> Result<(), NodeError> {
        let line = |disk: &NodeDisk| format!("{:032x} {}\n", disk.disk.id(), disk.path);
        let text: String = disks.iter().map(line).collect();
        let path = data.join(Self::NAME);
        if fs::read_to_string(&path).is_ok_and(|known| known == text) {
            return Ok(());
        }
        let new = data.join("disks.new");
        private_files::replace(&path, &new, text.as_bytes())
            .map_err(|error| NodeError::io(&path, error))
    }

    pub(super) fn uuid_of(&self, path: &Path) -> Option<u128> {
        let path = path.display().to_string();
        self.lines.iter().find(|(_, known)| *known == path).map(|(uuid, _)| *uuid)
    }
}
