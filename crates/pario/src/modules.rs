//! Operations that are WebAssembly modules: adding, listing and removing them.

use bytes::Bytes;
use pario_net::Bulk;
use pario_proto::{ModuleRecord, ModuleRequest, Reply, Request};

use crate::cluster::Cluster;
use crate::connection::{Waiting, strange};
use crate::error::Error;

impl Cluster {
    /// Adds an operation as a WebAssembly module, or replaces the module of this name. From then on
    /// all nodes know the operation: [`process`](Self::process) calls it by its name, or by name and
    /// version (`threshold@3`). The mode says which users may read the module (4), replace it (2) and
    /// call it (1), like the mode of a file. docs/operations.md explains how to write modules.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = pario::Cluster::from_env()?;
    /// let module = std::fs::read("threshold.wasm")?;
    /// let record = cluster.add_module("threshold", &module, 0o755)?;
    /// println!("version {} of {}", record.version, record.name);
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_module(&self, name: &str, module: &[u8], mode: u32) -> Result<ModuleRecord, Error> {
        let request = ModuleRequest::Add { name: name.to_owned(), mode };
        self.module_of(self.ask_about_modules(request, vec![Bulk::from(module.to_vec())])?.0)
    }

    /// Lists the modules of the cluster in the order of their names.
    pub fn modules(&self) -> Result<Vec<ModuleRecord>, Error> {
        match self.ask_about_modules(ModuleRequest::List, Vec::new())?.0 {
            Reply::Modules(records) => Ok(records),
            _ => Err(strange("interface")),
        }
    }

    /// Returns the record of a module.
    pub fn module(&self, name: &str) -> Result<ModuleRecord, Error> {
        let request = ModuleRequest::Find { name: name.to_owned() };
        self.module_of(self.ask_about_modules(request, Vec::new())?.0)
    }

    /// Returns the bytes of a module.
    pub fn module_bytes(&self, name: &str) -> Result<Bytes, Error> {
        let request = ModuleRequest::Fetch { name: name.to_owned() };
        let (_, data) = self.ask_about_modules(request, Vec::new())?;
        let bytes = data.into_iter().next().ok_or_else(|| strange("interface"))?;
        Ok(bytes.into_bytes())
    }

    /// Removes a module. Calls that are under way go on.
    pub fn remove_module(&self, name: &str) -> Result<(), Error> {
        let request = ModuleRequest::Remove { name: name.to_owned() };
        self.ask_about_modules(request, Vec::new()).map(drop)
    }

    fn module_of(&self, reply: Reply) -> Result<ModuleRecord, Error> {
        match reply {
            Reply::Module(record) => Ok(*record),
            _ => Err(strange("interface")),
        }
    }

    fn ask_about_modules(
        &self,
        request: ModuleRequest,
        data: Vec<Bulk>,
    ) -> Result<(Reply, Vec<Bulk>), Error> {
        let interface = self.shared.interface();
        interface.start(Request::Module(request), data).and_then(Waiting::wait)
    }
}
