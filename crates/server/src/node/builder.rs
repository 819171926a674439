//! The builder of a node, and the operations that the node offers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Discovery, MissingNamespace, Node};
use crate::config::Config;
use crate::error::NodeError;
use crate::namespace::WallClock;
use crate::operation::{Operation, OperationRegistry};

/// The default data directory, in the current directory.
const DEFAULT_DATA: &str = "pario-data";

/// The builder of a node; see [`Node::new`].
///
/// ```no_run
/// use pario_server::Node;
/// use pario_server::operation::{ExtentInput, each};
///
/// let zeros = each(|_: &(), input: &ExtentInput<'_>| {
///     Ok::<_, String>(input.body().iter().filter(|byte| **byte == 0).count() as u64)
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
    clock: WallClock,
}

impl NodeBuilder {
    /// Adds an operation on extents.
    pub fn operation(self, name: &str, operation: impl Operation) -> Self {
        self.operations.add(name, operation);
        self
    }

    /// Adds operations on extents.
    pub fn operations<'a>(
        self,
        operations: impl IntoIterator<Item = (&'a str, Arc<dyn Operation>)>,
    ) -> Self {
        for (name, operation) in operations {
            self.operations.add_shared(name, operation);
        }
        self
    }

    /// Sets the data directory of a single node, which holds its disks and everything else. The
    /// default is `pario-data` in the current directory.
    pub fn data(mut self, data: impl AsRef<Path>) -> Self {
        self.data = Some(data.as_ref().to_owned());
        self
    }

    /// Sets the configuration of a cluster, and the name of the node in it.
    pub fn cluster(mut self, config: Config, node: &str) -> Self {
        self.cluster = Some((config, node.to_owned()));
        self
    }

    /// Sets what the node does if its namespace is missing and its disks hold files. By default it
    /// refuses to start.
    pub fn missing_namespace(mut self, choice: MissingNamespace) -> Self {
        self.missing_namespace = choice;
        self
    }

    /// Sets the clock of the node.
    #[cfg(test)]
    pub(crate) fn clock(mut self, clock: WallClock) -> Self {
        self.clock = clock;
        self
    }

    /// Runs the node until a client requests its stop, for example by `pario stop`.
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

    /// Starts the node and returns at once.
    pub fn start(self, config: &Config, node: &str) -> Result<Node, NodeError> {
        self.launch(config, node, Discovery::ByUser)
    }

    /// Starts a node that programs of this user do not find by themselves: it notes its address
    /// only in its data directory.
    pub fn start_beside(self, config: &Config, node: &str) -> Result<Node, NodeError> {
        self.launch(config, node, Discovery::ByAddress)
    }

    /// Starts a node for this process alone, without a socket file.
    pub fn embed(self, config: &Config, node: &str) -> Result<Node, NodeError> {
        self.launch(config, node, Discovery::InProcess)
    }

    fn launch(self, config: &Config, node: &str, discovery: Discovery) -> Result<Node, NodeError> {
        let Self { operations, missing_namespace, clock, .. } = self;
        Node::launch(config, node, operations, discovery, (missing_namespace, clock))
    }
}
