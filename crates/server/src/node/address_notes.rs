//! Address notes: files that tell clients where a node listens. One lies in the data directory; a
//! single node also writes one to the runtime directory of its user.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pario_proto::{NOTE_EXTENSION, NOTES_DIRECTORY, NodeNote};
use rustix::fs::FlockOperation;

use super::Discovery;
use crate::config::{Config, NodeConfig};
use crate::error::NodeError;
use crate::private_files;

/// The notes that a node has written.
#[derive(Debug, Default)]
pub struct AddressNotes {
    written: Vec<(PathBuf, String)>,
}

impl AddressNotes {
    /// Writes the notes of a node that listens at `address`.
    pub fn write(
        &mut self,
        config: &Config,
        own: &NodeConfig,
        discovery: Discovery,
        address: &str,
    ) -> Result<(), NodeError> {
        self.write_file(own.data.join("address"), address.to_owned())?;
        let runtime = pario_net::runtime_directory();
        let is_findable = config.nodes.len() == 1 && discovery == Discovery::ByUser;
        if !is_findable || own.socket.parent() != Some(&*runtime) {
            return Ok(());
        }
        let dir = runtime.join(NOTES_DIRECTORY);
        pario_net::make_private_directory(&dir).map_err(NodeError::RuntimeDirectory)?;
        let data = std::path::absolute(&own.data).unwrap_or_else(|_| own.data.clone());
        let note = NodeNote {
            address: address.to_owned(),
            node: own.name.clone(),
            data: data.display().to_string(),
        };
        let hash = crate::config::hash_of_data(&data);
        // A client that finds the socket of a node dead removes its note, both under this lock.
        // This node already listens, so its note stays.
        let _lock = lock(&dir).map_err(|error| NodeError::io(&dir, error))?;
        self.write_file(dir.join(format!("{hash}.{NOTE_EXTENSION}")), note.to_text())
    }

    fn write_file(&mut self, path: PathBuf, text: String) -> Result<(), NodeError> {
        let new = path.with_extension("new");
        private_files::replace(&path, &new, text.as_bytes())
            .map_err(|error| NodeError::io(&path, error))?;
        self.written.push((path, text));
        Ok(())
    }

    /// Removes the notes that still hold the text of this node.
    pub fn remove(&mut self) {
        for (path, text) in self.written.drain(..) {
            if fs::read_to_string(&path).is_ok_and(|noted| noted == text) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn lock(dir: &Path) -> io::Result<File> {
    let file = File::open(dir)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}
