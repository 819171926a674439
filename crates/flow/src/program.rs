//! A program: its threads and its operations.

use std::any::{Any, type_name};
use std::marker::PhantomData;
use std::sync::Arc;

use crate::chain::{Chain, Draft, Somewhere, Start, Top};
use crate::graph::OperationGraph;
use crate::place::{PoolRef, ThreadRef};
use crate::schedule::{Node, Operation, Step};
use crate::token::{Codec, Token, short_name};

/// A program: threads with their states, and operations that run on them.
///
/// A program is a description. The same text runs in one process or in many:
/// [`launch`](Self::launch) starts the threads where the placement puts them.
///
/// ```
/// use pario_flow::Program;
///
/// let mut program = Program::new("sum");
/// let client = program.thread("Client", || ());
/// let square = program.pool("Square", 2, |_| ());
/// let sum = program.operation("sum of squares", |b| b
///     .on(client)
///     .split_while(|numbers: &mut Vec<u64>| numbers.pop())
///         .on(square.at(|n: &u64| *n as usize % 2)).run(|_, n: u64| n * n)
///     .merge(client, |_| 0, |sum: &mut u64, n| *sum += n));
///
/// let run = program.launch(None)?;
/// assert_eq!(run.call(sum, vec![1, 2, 3])?, 14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Program {
    pub(crate) name: String,
    pub(crate) slots: Vec<Slot>,
    pub(crate) operations: Vec<Arc<Operation>>,
    pub(crate) max_calls: usize,
}

/// A thread or a pool that is declared.
pub(crate) struct Slot {
    pub(crate) name: String,
    /// The number of threads of a pool; nothing for a thread.
    pub(crate) pool: Option<usize>,
    pub(crate) make: Arc<dyn Fn(usize) -> Box<dyn Any> + Send + Sync>,
    state_name: &'static str,
}

/// An operation of a program, from a token of type `I` to one of type `O`.
pub struct OperationRef<I, O> {
    pub(crate) number: usize,
    kind: PhantomData<fn(I) -> O>,
}

impl<I, O> Clone for OperationRef<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I, O> Copy for OperationRef<I, O> {}

/// A thread, pool or operation that is not in the program as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is nothing of that name.
    #[error("program {program} has no {what} {name:?}; it has {known}")]
    Unknown {
        /// The program.
        program: String,
        /// What was asked for.
        what: &'static str,
        /// The name.
        name: String,
        /// What there is.
        known: String,
    },
    /// It is there, with other types.
    #[error("{what} {name:?} is a {is}, not a {asked}")]
    OtherType {
        /// What was asked for.
        what: &'static str,
        /// The name.
        name: String,
        /// What it is.
        is: String,
        /// What was asked for.
        asked: String,
    },
}

impl Program {
    /// A program without threads and operations.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), slots: Vec::new(), operations: Vec::new(), max_calls: 4096 }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many calls may be under way at once; a further one waits. 4096 if nothing is said.
    pub fn limit_calls(&mut self, calls: usize) {
        self.max_calls = calls.max(1);
    }

    /// Adds a thread. Its state is made by `make`, in the thread itself, wherever that is.
    ///
    /// # Panics
    /// If there is a thread of that name.
    pub fn thread<S: 'static>(
        &mut self,
        name: &str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ThreadRef<S> {
        ThreadRef::new(self.add_slot::<S>(name, None, move |_| make()))
    }

    /// Adds a pool of `size` threads. A placement may give the pool another size. The state of
    /// each is made by `make` from its number, in the thread itself.
    ///
    /// # Panics
    /// If there is a thread of that name, or `size` is 0.
    pub fn pool<S: 'static>(
        &mut self,
        name: &str,
        size: usize,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PoolRef<S> {
        assert!(size > 0, "pool {name:?} needs at least one thread");
        PoolRef::new(self.add_slot::<S>(name, Some(size), make))
    }

    /// A hierarchical process: its threads and operations are named `name.thread`.
    pub fn process<'p>(&'p mut self, name: &str) -> Process<'p> {
        Process { prefix: format!("{name}."), program: self }
    }

    /// Adds an operation, written as a chain of steps; see [`Chain`].
    ///
    /// # Panics
    /// If there is an operation of that name.
    pub fn operation<I: Token, O: Token, T: Somewhere>(
        &mut self,
        name: &str,
        build: impl FnOnce(Chain<I, I, Start, Top>) -> Chain<I, O, T, Top>,
    ) -> OperationRef<I, O> {
        assert!(
            self.operations.iter().all(|operation| operation.name != name),
            "program {:?} has two operations {name:?}",
            self.name
        );
        let slots = self.slots.iter().map(|slot| (slot.name.clone(), slot.pool.is_some()));
        let names = self.operations.iter().map(|operation| operation.name.clone());
        let mut draft = build(Chain::start(Draft::new(slots.collect(), names.collect()))).finish();
        draft.nodes.push(Node { step: Step::Return, name: "end".into(), input: Codec::of::<O>() });
        let graph = OperationGraph {
            name: name.to_owned(),
            input: short_name(type_name::<I>()),
            output: short_name(type_name::<O>()),
            body: draft.shape(),
        };
        let operation = Operation {
            name: name.to_owned(),
            nodes: draft.nodes,
            output: Codec::of::<O>(),
            graph,
        };
        self.operations.push(Arc::new(operation));
        OperationRef { number: self.operations.len() - 1, kind: PhantomData }
    }

    /// The operation of that name, for code that did not define it.
    pub fn find_operation<I: Token, O: Token>(
        &self,
        name: &str,
    ) -> Result<OperationRef<I, O>, FindError> {
        let names = || self.operations.iter().map(|operation| operation.name.as_str());
        let number = names()
            .position(|known| known == name)
            .ok_or_else(|| self.unknown("operation", name, names()))?;
        let operation = &self.operations[number];
        let is = ((operation.nodes[0].input.type_name)(), (operation.output.type_name)());
        let asked = (type_name::<I>(), type_name::<O>());
        if is != asked {
            return Err(FindError::OtherType {
                what: "operation",
                name: name.to_owned(),
                is: format!("{} → {}", is.0, is.1),
                asked: format!("{} → {}", asked.0, asked.1),
            });
        }
        Ok(OperationRef { number, kind: PhantomData })
    }

    /// The thread of that name, for code that did not define it.
    pub fn find_thread<S: 'static>(&self, name: &str) -> Result<ThreadRef<S>, FindError> {
        self.find_slot::<S>("thread", name, false).map(ThreadRef::new)
    }

    /// The pool of that name, for code that did not define it.
    pub fn find_pool<S: 'static>(&self, name: &str) -> Result<PoolRef<S>, FindError> {
        self.find_slot::<S>("pool", name, true).map(PoolRef::new)
    }

    /// What an operation looks like, to be drawn.
    pub fn graph<I, O>(&self, operation: OperationRef<I, O>) -> &OperationGraph {
        &self.operations[operation.number].graph
    }

    fn find_slot<S: 'static>(
        &self,
        what: &'static str,
        name: &str,
        is_pool: bool,
    ) -> Result<usize, FindError> {
        let of_kind = |slot: &&Slot| slot.pool.is_some() == is_pool;
        let number =
            self.slots.iter().position(|slot| slot.name == name && of_kind(&slot)).ok_or_else(
                || {
                    let names = self.slots.iter().filter(of_kind).map(|slot| slot.name.as_str());
                    self.unknown(what, name, names)
                },
            )?;
        let is = self.slots[number].state_name;
        if is != type_name::<S>() {
            return Err(FindError::OtherType {
                what,
                name: name.to_owned(),
                is: is.to_owned(),
                asked: type_name::<S>().to_owned(),
            });
        }
        Ok(number)
    }

    fn unknown<'a>(
        &self,
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> FindError {
        let known: Vec<&str> = known.collect();
        FindError::Unknown {
            program: self.name.clone(),
            what,
            name: name.to_owned(),
            known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        }
    }

    fn add_slot<S: 'static>(
        &mut self,
        name: &str,
        pool: Option<usize>,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> usize {
        assert!(
            self.slots.iter().all(|slot| slot.name != name),
            "program {:?} has two threads {name:?}",
            self.name
        );
        self.slots.push(Slot {
            name: name.to_owned(),
            pool,
            make: Arc::new(move |index| Box::new(make(index))),
            state_name: type_name::<S>(),
        });
        self.slots.len() - 1
    }

    /// A number that is the same where the program is the same.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut text = self.name.clone();
        for slot in &self.slots {
            text.push_str(&format!("\n{} {:?} {}", slot.name, slot.pool, slot.state_name));
        }
        for operation in &self.operations {
            text.push_str(&format!("\n{}", operation.name));
            for node in &operation.nodes {
                text.push_str(&format!("\n {} {}", node.name, (node.input.type_name)()));
            }
        }
        // FNV-1a: any mixing will do, nobody is to be kept out by it.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// A hierarchical process: a name in front of the threads and operations that belong together.
/// It runs nothing itself.
///
/// ```
/// # use pario_flow::Program;
/// let mut program = Program::new("hierarchy");
/// let mut server = program.process("Server");
/// let disk = server.pool("Disk", 4, |_| ());        // a placement calls it "Server.Disk[0]"
/// let echo = server.operation("echo", |b| b.on(disk.thread(0)).run(|_, text: String| text));
/// ```
pub struct Process<'p> {
    program: &'p mut Program,
    prefix: String,
}

impl Process<'_> {
    /// A thread of this process; see [`Program::thread`].
    pub fn thread<S: 'static>(
        &mut self,
        name: &str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ThreadRef<S> {
        self.program.thread(&format!("{}{name}", self.prefix), make)
    }

    /// A pool of this process; see [`Program::pool`].
    pub fn pool<S: 'static>(
        &mut self,
        name: &str,
        size: usize,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PoolRef<S> {
        self.program.pool(&format!("{}{name}", self.prefix), size, make)
    }

    /// A process inside this one.
    pub fn process(&mut self, name: &str) -> Process<'_> {
        Process { prefix: format!("{}{name}.", self.prefix), program: self.program }
    }

    /// An operation of this process; see [`Program::operation`].
    pub fn operation<I: Token, O: Token, T: Somewhere>(
        &mut self,
        name: &str,
        build: impl FnOnce(Chain<I, I, Start, Top>) -> Chain<I, O, T, Top>,
    ) -> OperationRef<I, O> {
        self.program.operation(&format!("{}{name}", self.prefix), build)
    }
}
