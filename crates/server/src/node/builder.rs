//! A node before it runs, and what it will be able to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Found, MissingNamespace, Node};
use crate::config::Config;
use crate::error::NodeError;
use crate::namespace::Clock;
use crate::operation::{Operation, OperationRegistry};

/// Where a node keeps its data if nobody says where: in the current directory.
const DEFAULT_DATA: &str = "pario-data";

/// A node before it runs; made by [`Node::new`].
///
/// ```no_run
/// use pario_server::Node;
/// use pario_server::operation::{Seen, each};
///
/// let zeros = each(|_: &(), seen: &Seen<'_>| {
///     Ok::<_, String>(seen.body().iter().filter(|byte| **byte == 0).count() as u64)
/// });
/// Node::new().operation("zeros", zeros).run()?; // until `pario stop`
/// # Ok::<(), pario_server::NodeError>(())
/// ```
#[derive(Debug, Default)]
pub struct NodeBuilder {
    operations: Arc<OperationRegistry>,
    data: Option<PathBuf>,
    cluster: Option<(Config, String)>,
    missing_namespace: MissingNamespace,
    clock: Clock,
}

impl NodeBuilder {
    /// The node can do this with extents, too.
    pub fn operation(self, name: &str, operation: impl Operation) -> Self {
        self.operations.add(name, operation);
        self
    }

    /// The same with operations that are shared.
    pub fn operations<'a>(
        self,
        operations: impl IntoIterator<Item = (&'a str, Arc<dyn Operation>)>,
    ) -> Self {
        for (name, operation) in operations {
            self.operations.add_shared(name, operation);
        }
        self
    }

    /// A node alone, with its disks and everything else in this directory; `pario-data` in the
    /// current one if nothing is said.
    pub fn data(mut self, data: impl AsRef<Path>) -> Self {
        self.data = Some(data.as_ref().to_owned());
        self
    }

    /// A node of a cluster with a configuration.
    pub fn cluster(mut self, config: Config, node: &str) -> Self {
        self.cluster = Some((config, node.to_owned()));
        self
    }

    /// What the node does if its namespace is missing and there are files: refuse to start, unless
    /// something else is said.
    pub fn missing_namespace(mut self, choice: MissingNamespace) -> Self {
        self.missing_namespace = choice;
        self
    }

    /// Sets the clock of the node.
    #[cfg(test)]
    pub(crate) fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Runs the node until it is asked to stop, as by `pario stop`.
    pub fn run(self) -> Result<(), NodeError> {
        let (config, name) = self.cluster.clone().unwrap_or_else(|| {
            let data = self.data.as_deref().unwrap_or(Path::new(DEFAULT_DATA));
            (Config::alone(data), "local".to_owned())
        });
        let node = self.start(&config, &name)?;
        node.wait();
        node.stop();
        Ok(())
    }

    /// Starts the node, and does not wait for its end.
    pub fn start(self, config: &Config, node: &str) -> Result<Node, NodeError> {
        self.launch(config, node, Found::ByUser)
    }

    /// The same beside the one that programs of this user find by themselves: its address is noted
    /// in its data directory only.
    pub fn start_beside(self, config: &Config, node: &str) -> Result<Node, NodeError> {
        self.launch(config, node, Found::ByAddress)
    }

    /// The same for this process alone: no socket file is made.
    pub fn embed(self, config: &Config, node: &str) -> Result<Node, NodeError> {
        self.launch(config, node, Found::InProcess)
    }

    fn launch(self, config: &Config, node: &str, found: Found) -> Result<Node, NodeError> {
        let Self { operations, missing_namespace, clock, .. } = self;
        Node::launch(config, node, operations, found, (missing_namespace, clock))
    }
}
