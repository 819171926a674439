//! A module as an operation on extents.

use std::fmt;
use std::sync::Arc;

use pario_operation::{
    ExtentBytes, ExtentInput, ExtentOutput, NeighbourRequest, Operation, OperationCall,
    OperationTask, Scratch,
};
use pario_proto::ExtentPlacement;
use parking_lot::Mutex;

use crate::abi::{ModuleInput, ModuleOutput, decode_neighbours};
use crate::compiled::{ModuleCode, ModuleExport};
use crate::instance::ModuleInstance;
use crate::limits::{MemoryBudget, PARAMETERS_LIMIT_BYTES};

/// Idle instances that an operation or a task keeps for the next cut or list of neighbours.
const IDLE_INSTANCES: usize = 4;

/// A module as an operation, with the memory of one user.
#[derive(Clone)]
pub struct ModuleOperation {
    source: InstanceSource,
    /// Instances that cut parts of extents.
    cutters: Arc<IdleInstances>,
}

/// What an instance is made from.
#[derive(Clone)]
struct InstanceSource {
    code: Arc<ModuleCode>,
    name: Arc<str>,
    budget: Arc<dyn MemoryBudget>,
}

/// Instances between two uses.
#[derive(Default)]
struct IdleInstances(Mutex<Vec<ModuleInstance>>);

/// A module with its parameters, for one call at one node.
struct ModuleTask {
    source: InstanceSource,
    parameters: Vec<u8>,
    subfiles: u32,
    /// Prepared instances that list neighbours.
    listers: IdleInstances,
}

/// The instance of a compute thread, once it has processed an extent.
#[derive(Default)]
struct ThreadInstance(Option<ModuleInstance>);

impl ModuleOperation {
    pub(crate) fn new(code: Arc<ModuleCode>, name: &str, budget: Arc<dyn MemoryBudget>) -> Self {
        let source = InstanceSource { code, name: name.into(), budget };
        Self { source, cutters: Arc::default() }
    }
}

impl fmt::Debug for ModuleOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleOperation({})", self.source.name)
    }
}

impl InstanceSource {
    fn instance(&self) -> Result<ModuleInstance, String> {
        let created = ModuleInstance::new(&self.code, self.budget.clone());
        created.map_err(|why| self.about(&why))
    }

    /// Invokes a function that the module has. A failure that the module reports is an error.
    fn invoke(
        &self,
        instance: &mut ModuleInstance,
        export: ModuleExport,
        input: &ModuleInput<'_>,
    ) -> Result<ModuleOutput, String> {
        match instance.invoke(export, input) {
            Some(Ok(ModuleOutput::Failure(why))) => Err(why),
            Some(Ok(output)) => Ok(output),
            Some(Err(why)) => Err(self.about(&why)),
            None => Err(self.about(&format!("it has no function {}", export.name()))),
        }
    }

    fn about(&self, why: &str) -> String {
        format!("module {}: {why}", self.name)
    }
}

impl IdleInstances {
    /// Calls `work` with an instance, and keeps the instance if `work` succeeds.
    fn with<T>(
        &self,
        create: impl FnOnce() -> Result<ModuleInstance, String>,
        work: impl FnOnce(&mut ModuleInstance) -> Result<T, String>,
    ) -> Result<T, String> {
        let idle = self.0.lock().pop();
        let mut instance = idle.map_or_else(create, Ok)?;
        let done = work(&mut instance)?;
        let mut idle = self.0.lock();
        if idle.len() < IDLE_INSTANCES {
            idle.push(instance);
        }
        Ok(done)
    }
}

impl Operation for ModuleOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let len = call.parameters.len();
        if len > PARAMETERS_LIMIT_BYTES {
            return Err(format!(
                "its parameters have {len} bytes, and the limit is {PARAMETERS_LIMIT_BYTES}"
            ));
        }
        let subfiles = u32::try_from(call.subfiles()).unwrap_or(u32::MAX);
        let (source, parameters) = (self.source.clone(), call.parameters.to_vec());
        let task = ModuleTask { source, parameters, subfiles, listers: IdleInstances::default() };
        // Wrong parameters are an error of the call before the first extent is read.
        let instance = task.prepared_instance()?;
        task.listers.0.lock().push(instance);
        Ok(Box::new(task))
    }

    fn cut(&self, selection: &[u8], extent: Option<ExtentBytes<'_>>) -> Result<Vec<u8>, String> {
        let input = ModuleInput { selection, extent, ..ModuleInput::default() };
        let source = &self.source;
        let output = self.cutters.with(
            || source.instance(),
            |instance| source.invoke(instance, ModuleExport::Cut, &input),
        )?;
        match output {
            ModuleOutput::Result(bytes) => Ok(bytes),
            ModuleOutput::Nothing => Ok(Vec::new()),
            _ => Err(source.about("pario_cut returned an extent; it must return bytes")),
        }
    }
}

impl ModuleTask {
    fn input<'a>(&'a self, placement: Option<ExtentPlacement>) -> ModuleInput<'a> {
        let (parameters, subfiles) = (self.parameters.as_slice(), self.subfiles);
        ModuleInput { parameters, subfiles, placement, ..ModuleInput::default() }
    }

    fn prepared_instance(&self) -> Result<ModuleInstance, String> {
        let mut instance = self.source.instance()?;
        if self.source.code.has(ModuleExport::Prepare) {
            self.source.invoke(&mut instance, ModuleExport::Prepare, &self.input(None))?;
        }
        Ok(instance)
    }

    /// Returns the result of one compute thread.
    fn partial(&self, instance: &mut ModuleInstance) -> Result<Option<Vec<u8>>, String> {
        match self.source.invoke(instance, ModuleExport::Finish, &self.input(None))? {
            ModuleOutput::Result(bytes) => Ok(Some(bytes)),
            ModuleOutput::Nothing => Ok(None),
            _ => Err(self.source.about("pario_finish returned an extent; it must return bytes")),
        }
    }
}

impl OperationTask for ModuleTask {
    fn scratch(&self) -> Scratch {
        Box::new(ThreadInstance::default())
    }

    fn includes_absent(&self) -> bool {
        self.source.code.has(ModuleExport::ProcessAbsent)
    }

    fn has_neighbours(&self) -> Option<bool> {
        Some(self.source.code.has(ModuleExport::Neighbours))
    }

    fn neighbours(&self, placement: ExtentPlacement) -> Result<Vec<NeighbourRequest>, String> {
        if !self.source.code.has(ModuleExport::Neighbours) {
            return Ok(Vec::new());
        }
        let input = self.input(Some(placement));
        let listed = self.listers.with(
            || self.prepared_instance(),
            |instance| self.source.invoke(instance, ModuleExport::Neighbours, &input),
        )?;
        match listed {
            ModuleOutput::Result(bytes) => {
                decode_neighbours(&bytes).map_err(|why| self.source.about(&why))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(ThreadInstance(slot)) = scratch.downcast_mut() else {
            unreachable!("a task gets back the scratch that it created")
        };
        if slot.is_none() {
            // The instance that checked the parameters serves the first compute thread, unless it
            // lists neighbours.
            let idle = match self.source.code.has(ModuleExport::Neighbours) {
                true => None,
                false => self.listers.0.lock().pop(),
            };
            *slot = Some(idle.map_or_else(|| self.prepared_instance(), Ok)?);
        }
        let Some(instance) = slot else { unreachable!("the instance was created above") };
        let export = match input.extent {
            Some(_) => ModuleExport::Process,
            None => ModuleExport::ProcessAbsent,
        };
        let module_input = ModuleInput {
            extent: input.extent,
            neighbours: input.neighbours,
            ..self.input(Some(input.placement))
        };
        Ok(match self.source.invoke(instance, export, &module_input)? {
            ModuleOutput::Extent { placement, header, body } => {
                ExtentOutput::Extent { placement, header, body }
            }
            ModuleOutput::Result(bytes) => ExtentOutput::Result(bytes),
            ModuleOutput::Nothing | ModuleOutput::Failure(_) => ExtentOutput::Nothing,
        })
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        if !self.source.code.has(ModuleExport::Finish) {
            return Ok(None);
        }
        let instance = |scratch: Scratch| scratch.downcast::<ThreadInstance>().ok()?.0;
        let mut instances = scratches.into_iter().filter_map(instance);
        let mut first = instances.next().map_or_else(|| self.prepared_instance(), Ok)?;
        for mut other in instances {
            let Some(partial) = self.partial(&mut other)? else { continue };
            let extent = Some(ExtentBytes { header: &[], body: &partial });
            let input = ModuleInput { extent, ..self.input(None) };
            self.source.invoke(&mut first, ModuleExport::Merge, &input)?;
        }
        self.partial(&mut first)
    }
}
