//! How to tell a data directory with a cluster from any other directory.

use std::io;
use std::path::Path;

use crate::config::Config;

/// Returns whether a directory holds a cluster of one node: its namespace, its map or one of its
/// disks. A directory that this process may not read counts as one, so that its use fails with the
/// reason.
///
/// ```
/// use pario_server::{Node, config::Config, holds_cluster};
///
/// # let dir = tempfile::tempdir().unwrap();
/// let data = dir.path().join("data");
/// assert!(!holds_cluster(&data));
/// Node::start(&Config::alone(&data), "local")?.stop();
/// assert!(holds_cluster(&data));
/// # Ok::<(), pario_server::NodeError>(())
/// ```
pub fn holds_cluster(data: &Path) -> bool {
    let is_there = |path: &Path| match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    };
    let config = Config::alone(data);
    let disks = config.nodes.iter().flat_map(|node| &node.disks);
    ["namespace.redb", "cluster.map"].iter().any(|name| is_there(&data.join(name)))
        || disks.into_iter().any(|disk| is_there(&disk.path))
}
