//! The host of modules: compiles them one at a time, and keeps those that were used last.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use pario_module::{CompiledModule, MemoryBudget, ModuleEngine};
use pario_proto::ModuleHash;
use parking_lot::Mutex;

use crate::limits::{QuotaShare, Resource, UserAccount};
use crate::operation::Operation;

/// Compiled modules that a node keeps.
const CACHED_MODULES: usize = 64;

/// The engine of a node, and its compiled modules. The engine starts with the first module.
#[derive(Default)]
pub struct ModuleHost {
    engine: OnceLock<ModuleEngine>,
    cache: Mutex<ModuleCache>,
    /// Held while a module is compiled: the modules of one user take at most one processor from the
    /// others.
    compiling: Mutex<()>,
}

#[derive(Default)]
struct ModuleCache {
    modules: HashMap<ModuleHash, (HostedModule, u64)>,
    /// Counts the uses; the cache drops the module whose last use has the lowest number.
    uses: u64,
}

/// A compiled module.
#[derive(Clone)]
pub struct HostedModule(CompiledModule);

/// The memory of the instances of one user.
struct UserMemory(Mutex<(QuotaShare, u64)>);

impl ModuleHost {
    /// Returns a compiled module, if the node has it.
    pub fn cached(&self, hash: ModuleHash) -> Option<HostedModule> {
        let mut cache = self.cache.lock();
        cache.uses += 1;
        let now = cache.uses;
        let (module, last_use) = cache.modules.get_mut(&hash)?;
        *last_use = now;
        Some(module.clone())
    }

    /// Compiles a module, unless the node has it. The error says why it cannot be an operation.
    pub fn compile(&self, hash: ModuleHash, bytes: &[u8]) -> Result<HostedModule, String> {
        let _compiling = self.compiling.lock();
        if let Some(module) = self.cached(hash) {
            return Ok(module);
        }
        if *blake3::hash(bytes).as_bytes() != hash.0 {
            return Err("the bytes of the module do not have its hash".to_owned());
        }
        let engine = match self.engine.get() {
            Some(engine) => engine,
            None => {
                let engine = ModuleEngine::new().map_err(|error| error.to_string())?;
                self.engine.get_or_init(|| engine)
            }
        };
        let module = HostedModule(engine.compile(bytes).map_err(|error| error.to_string())?);
        self.cache.lock().add(hash, module.clone());
        Ok(module)
    }
}

impl ModuleCache {
    fn add(&mut self, hash: ModuleHash, module: HostedModule) {
        self.uses += 1;
        self.modules.insert(hash, (module, self.uses));
        if self.modules.len() > CACHED_MODULES {
            let oldest = self.modules.iter().min_by_key(|(_, (_, last_use))| *last_use);
            if let Some(hash) = oldest.map(|(hash, _)| *hash) {
                self.modules.remove(&hash);
            }
        }
    }
}

impl HostedModule {
    /// Returns the operation for the calls of one user; messages give it this name.
    pub fn operation(
        &self,
        name: &str,
        account: &Arc<UserAccount>,
    ) -> Result<Arc<dyn Operation>, pario_proto::Failure> {
        let share = account.take(Resource::ModuleMemory, 0)?;
        let memory = Arc::new(UserMemory(Mutex::new((share, 0))));
        Ok(Arc::new(self.0.operation(name, memory)))
    }

    /// Returns the names of the functions that the module exports for nodes.
    pub fn functions(&self) -> Vec<String> {
        self.0.exports().map(|export| export.name().to_owned()).collect()
    }
}

impl MemoryBudget for UserMemory {
    fn take(&self, bytes: u64) -> Result<(), String> {
        let (share, taken) = &mut *self.0.lock();
        let after = taken.saturating_add(bytes);
        share.resize(after).map_err(|failure| failure.to_string())?;
        *taken = after;
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        let (share, taken) = &mut *self.0.lock();
        *taken = taken.saturating_sub(bytes);
        // A share that shrinks is never refused.
        let _ = share.resize(*taken);
    }
}
