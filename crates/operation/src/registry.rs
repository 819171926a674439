//! Operations by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::{Operation, built_in};

/// The operations of a node, by name. Operations can be added while the node runs.
pub struct OperationRegistry {
    operations: RwLock<BTreeMap<String, Arc<dyn Operation>>>,
}

impl OperationRegistry {
    /// Creates a registry with the operations that every node has.
    pub fn new() -> Self {
        let registry = Self { operations: RwLock::default() };
        built_in::add_to(&registry);
        registry
    }

    /// Adds an operation, and replaces one of the same name. Calls that are under way go on with the
    /// replaced one.
    pub fn add(&self, name: &str, operation: impl Operation) {
        self.add_shared(name, Arc::new(operation));
    }

    /// Adds a shared operation, as [`add`](Self::add) does.
    pub fn add_shared(&self, name: &str, operation: Arc<dyn Operation>) {
        self.operations.write().insert(name.to_owned(), operation);
    }

    /// Looks an operation up.
    pub fn find(&self, name: &str) -> Option<Arc<dyn Operation>> {
        self.operations.read().get(name).cloned()
    }

    /// Lists all names in order.
    pub fn names(&self) -> Vec<String> {
        self.operations.read().keys().cloned().collect()
    }
}

impl Default for OperationRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for OperationRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationRegistry({})", self.names().join(", "))
    }
}
