//! Operations by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::{Operation, built_in};

/// The operations that a node knows. They can be added while it runs.
pub struct Registry {
    operations: RwLock<BTreeMap<String, Arc<dyn Operation>>>,
}

impl Registry {
    /// Those that every node has.
    pub fn new() -> Self {
        let registry = Self { operations: RwLock::default() };
        built_in::add_to(&registry);
        registry
    }

    /// Adds an operation, in place of one of the same name: calls that are under way go on with the
    /// one they began with.
    pub fn add(&self, name: &str, operation: impl Operation) {
        self.add_shared(name, Arc::new(operation));
    }

    /// The same with an operation that others have too.
    pub fn add_shared(&self, name: &str, operation: Arc<dyn Operation>) {
        self.operations.write().insert(name.to_owned(), operation);
    }

    /// The operation of a name.
    pub fn find(&self, name: &str) -> Option<Arc<dyn Operation>> {
        self.operations.read().get(name).cloned()
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        self.operations.read().keys().cloned().collect()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({})", self.names().join(", "))
    }
}
