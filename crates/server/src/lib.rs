//! The resident node of a cluster.
#![forbid(unsafe_code)]

pub mod config;

// ---- STUB FOR COMPILING ONLY, TO BE DISCARDED ----
/// A node.
#[derive(Debug)]
pub struct Node(());
/// Why not.
#[derive(Debug, thiserror::Error)]
#[error("stub")]
pub struct NodeError;
#[allow(clippy::todo, missing_docs)]
impl Node {
    pub fn start(_config: &config::Config, _node: &str) -> Result<Node, NodeError> {
        todo!()
    }
    pub fn address(&self) -> String {
        todo!()
    }
    pub fn wait(&self) {}
    pub fn stop(self) {}
}
