//! A program: its threads, its operations and its fingerprint.

use std::any::{Any, type_name};
use std::marker::PhantomData;
use std::sync::Arc;

use crate::attaching::AttachOptions;
use crate::chain::{Chain, HasThread, NoThread, ScheduleDraft, TopLevel};
use crate::graph::OperationGraph;
use crate::schedule::{Schedule, ScheduleStep, StepAction};
use crate::thread_selector::{PoolRef, ThreadRef};
use crate::token::{Token, TokenType, short_name};

/// A program: threads with their states, and operations that run on them.
///
/// A program is a description. The same program runs in one process or in many:
/// [`launch`](Self::launch) starts each thread in the process that the placement names.
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
    pub(crate) slots: Vec<SlotDeclaration>,
    pub(crate) operations: Vec<Arc<Schedule>>,
    pub(crate) max_calls: usize,
    /// How processes may attach; none by default.
    pub(crate) attach: Option<AttachOptions>,
}

/// The declaration of a thread or a pool.
pub(crate) struct SlotDeclaration {
    pub(crate) name: String,
    /// The number of threads of a pool; `None` for a thread.
    pub(crate) pool: Option<usize>,
    /// Whether each calling process has these threads for itself.
    pub(crate) is_caller: bool,
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

/// A lookup by name that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The program has nothing of that name.
    #[error("program {program} has no {what} {name:?}; it has {known}")]
    Unknown {
        /// The program.
        program: String,
        /// `thread` or `operation`.
        what: &'static str,
        /// The name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The name exists with other types.
    #[error("{what} {name:?} is a {is}, not a {asked}")]
    OtherType {
        /// `thread` or `operation`.
        what: &'static str,
        /// The name.
        name: String,
        /// The actual type.
        is: String,
        /// The requested type.
        asked: String,
    },
}

impl Program {
    /// Creates a program without threads and operations.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            slots: Vec::new(),
            operations: Vec::new(),
            max_calls: 4096,
            attach: None,
        }
    }

    /// Lets other processes [attach](Self::attach) to the program after its launch: the program is
    /// *resident*. No two resident programs of one user on one machine have the same name.
    pub fn allow_attach(&mut self, options: AttachOptions) {
        self.attach = Some(options);
    }

    /// Limits the calls under way at once; a further call waits. The default is 4096.
    pub fn limit_calls(&mut self, calls: usize) {
        self.max_calls = calls.max(1);
    }

    /// Adds a thread. The thread itself calls `make` for its state, in the process where it runs.
    ///
    /// # Panics
    /// If the program has a thread of that name.
    pub fn thread<S: 'static>(
        &mut self,
        name: &str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ThreadRef<S> {
        ThreadRef::new(self.add_slot::<S>(name, None, false, move |_| make()))
    }

    /// Adds a caller thread: every process that calls operations has one of its own, and a token
    /// goes to the one of the process that made the call. That is the first process, or a process
    /// that has [attached](Self::attach). A placement does not name caller threads.
    ///
    /// ```
    /// # let mut program = pario_flow::Program::new("caller");
    /// let caller = program.caller_thread("Caller", Vec::<u64>::new);
    /// let worker = program.thread("Worker", || ());
    /// let keep = program.operation("keep", |b| b
    ///     .on(worker).run(|_, n: u64| n * n)
    ///     .on(caller).run(|kept: &mut Vec<u64>, n| { kept.push(n); kept.len() as u64 }));
    /// # let run = program.launch(None)?;
    /// assert_eq!(run.call(keep, 7)?, 1);
    /// assert_eq!(run.call(keep, 8)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the program has a thread of that name.
    pub fn caller_thread<S: 'static>(
        &mut self,
        name: &str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ThreadRef<S> {
        ThreadRef::new(self.add_slot::<S>(name, None, true, move |_| make()))
    }

    /// Adds a pool of `size` caller threads; see [`caller_thread`](Self::caller_thread).
    ///
    /// # Panics
    /// If the program has a thread of that name, or `size` is 0.
    pub fn caller_pool<S: 'static>(
        &mut self,
        name: &str,
        size: usize,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PoolRef<S> {
        assert!(size > 0, "pool {name:?} needs at least one thread");
        PoolRef::new(self.add_slot::<S>(name, Some(size), true, make))
    }

    /// Adds a pool of `size` threads. A placement may set another size. Each thread calls `make`
    /// with its number for its state.
    ///
    /// # Panics
    /// If the program has a thread of that name, or `size` is 0.
    pub fn pool<S: 'static>(
        &mut self,
        name: &str,
        size: usize,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PoolRef<S> {
        assert!(size > 0, "pool {name:?} needs at least one thread");
        PoolRef::new(self.add_slot::<S>(name, Some(size), false, make))
    }

    /// Returns a scope: its threads and operations get names such as `name.thread`.
    pub fn scope<'p>(&'p mut self, name: &str) -> NameScope<'p> {
        NameScope { prefix: format!("{name}."), program: self }
    }

    /// Adds an operation, written as a chain of steps; see [`Chain`].
    ///
    /// # Panics
    /// If the program has an operation of that name.
    pub fn operation<I: Token, O: Token, T: HasThread>(
        &mut self,
        name: &str,
        build: impl FnOnce(Chain<I, I, NoThread, TopLevel>) -> Chain<I, O, T, TopLevel>,
    ) -> OperationRef<I, O> {
        assert!(
            self.operations.iter().all(|operation| operation.name != name),
            "program {:?} has two operations {name:?}",
            self.name
        );
        let slots = self.slots.iter().map(|slot| (slot.name.clone(), slot.pool.is_some()));
        let names = self.operations.iter().map(|operation| operation.name.clone());
        let mut draft =
            build(Chain::start(ScheduleDraft::new(slots.collect(), names.collect()))).finish();
        draft.steps.push(ScheduleStep {
            action: StepAction::Return,
            name: "end".into(),
            input: TokenType::of::<O>(),
        });
        let graph = OperationGraph {
            name: name.to_owned(),
            input: short_name(type_name::<I>()),
            output: short_name(type_name::<O>()),
            body: draft.shape(),
        };
        let operation = Schedule {
            name: name.to_owned(),
            steps: draft.steps,
            output: TokenType::of::<O>(),
            graph,
        };
        self.operations.push(Arc::new(operation));
        OperationRef { number: self.operations.len() - 1, kind: PhantomData }
    }

    /// Finds an operation by name, for code that did not define it.
    pub fn find_operation<I: Token, O: Token>(
        &self,
        name: &str,
    ) -> Result<OperationRef<I, O>, FindError> {
        let names = || self.operations.iter().map(|operation| operation.name.as_str());
        let number = names()
            .position(|known| known == name)
            .ok_or_else(|| self.unknown("operation", name, names()))?;
        let operation = &self.operations[number];
        let is = ((operation.steps[0].input.name)(), (operation.output.name)());
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

    /// Finds a thread by name, for code that did not define it.
    pub fn find_thread<S: 'static>(&self, name: &str) -> Result<ThreadRef<S>, FindError> {
        let what = "thread";
        let is_thread = |slot: &&SlotDeclaration| slot.pool.is_none();
        let number =
            self.slots.iter().position(|slot| slot.name == name && is_thread(&slot)).ok_or_else(
                || {
                    let names = self.slots.iter().filter(is_thread).map(|slot| slot.name.as_str());
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
        Ok(ThreadRef::new(number))
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
        is_caller: bool,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> usize {
        assert!(
            self.slots.iter().all(|slot| slot.name != name),
            "program {:?} has two threads {name:?}",
            self.name
        );
        self.slots.push(SlotDeclaration {
            name: name.to_owned(),
            pool,
            is_caller,
            make: Arc::new(move |index| Box::new(make(index))),
            state_name: type_name::<S>(),
        });
        self.slots.len() - 1
    }

    /// Returns a number by which two processes check that they run the same program.
    ///
    /// It covers, in order of declaration: the name of the program; of each thread and pool the
    /// name, the declared size and the short name of the state's type; of each operation the name;
    /// of each step the name and the short name of its input token's type. A short name has no
    /// module paths, so the number does not depend on the compiler or on crate versions. It does
    /// not cover function bodies, the fields of token types, windows and selected threads.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut text = self.name.clone();
        for slot in &self.slots {
            let state = short_name(slot.state_name);
            let caller = if slot.is_caller { " caller" } else { "" };
            text.push_str(&format!("\n{} {:?} {state}{caller}", slot.name, slot.pool));
        }
        for operation in &self.operations {
            text.push_str(&format!("\n{}", operation.name));
            for step in &operation.steps {
                let input = short_name((step.input.name)());
                text.push_str(&format!("\n {} {input}", step.name));
            }
        }
        hash(&text)
    }

    /// Returns the fingerprint of each operation, by which a process that attaches checks that it
    /// has the same one.
    ///
    /// It covers the names of the operation and of its steps, the short names of their input types,
    /// the threads and pools that they run on with the types of their states, and the fingerprints
    /// of operations used as steps. It covers the sizes of caller pools; a placement sets those of
    /// other pools.
    pub(crate) fn operation_fingerprints(&self) -> Vec<u64> {
        let mut fingerprints = Vec::with_capacity(self.operations.len());
        for operation in &self.operations {
            let mut text = operation.name.clone();
            for step in &operation.steps {
                text.push_str(&format!("\n {} {}", step.name, short_name((step.input.name)())));
                match &step.action {
                    StepAction::Hop(selection) => self.describe_slot(selection.slot, &mut text),
                    StepAction::Split(split) => {
                        self.describe_slot(split.merge_selection.slot, &mut text);
                    }
                    // An operation calls only operations before it.
                    StepAction::Call(inner) => {
                        text.push_str(&format!(" {:x}", fingerprints[*inner]));
                    }
                    _ => {}
                }
            }
            text.push_str(&format!("\n{}", short_name((operation.output.name)())));
            fingerprints.push(hash(&text));
        }
        fingerprints
    }

    fn describe_slot(&self, slot: usize, text: &mut String) {
        let SlotDeclaration { name, pool, is_caller, state_name, .. } = &self.slots[slot];
        let size = pool.filter(|_| *is_caller);
        let is_pool = pool.is_some();
        let state = short_name(state_name);
        text.push_str(&format!(" on {name} {state} {is_pool} {is_caller} {size:?}"));
    }
}

/// FNV-1a: a fingerprint detects mistakes; it is no protection against attackers.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A scope: a common prefix for the names of threads and operations that belong together.
///
/// ```
/// # use pario_flow::Program;
/// let mut program = Program::new("hierarchy");
/// let mut server = program.scope("Server");
/// let disk = server.pool("Disk", 4, |_| ());        // "Server.Disk[0]" in a placement
/// let echo = server.operation("echo", |b| b.on(disk.thread(0)).run(|_, text: String| text));
/// ```
pub struct NameScope<'p> {
    program: &'p mut Program,
    prefix: String,
}

impl NameScope<'_> {
    /// Adds a thread to this scope; see [`Program::thread`].
    pub fn thread<S: 'static>(
        &mut self,
        name: &str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ThreadRef<S> {
        self.program.thread(&format!("{}{name}", self.prefix), make)
    }

    /// Adds a caller thread to this scope; see [`Program::caller_thread`].
    pub fn caller_thread<S: 'static>(
        &mut self,
        name: &str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ThreadRef<S> {
        self.program.caller_thread(&format!("{}{name}", self.prefix), make)
    }

    /// Adds a pool of caller threads to this scope; see [`Program::caller_pool`].
    pub fn caller_pool<S: 'static>(
        &mut self,
        name: &str,
        size: usize,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PoolRef<S> {
        self.program.caller_pool(&format!("{}{name}", self.prefix), size, make)
    }

    /// Adds a pool to this scope; see [`Program::pool`].
    pub fn pool<S: 'static>(
        &mut self,
        name: &str,
        size: usize,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PoolRef<S> {
        self.program.pool(&format!("{}{name}", self.prefix), size, make)
    }

    /// Returns a scope inside this one.
    pub fn scope(&mut self, name: &str) -> NameScope<'_> {
        NameScope { prefix: format!("{}{name}.", self.prefix), program: self.program }
    }

    /// Adds an operation to this scope; see [`Program::operation`].
    pub fn operation<I: Token, O: Token, T: HasThread>(
        &mut self,
        name: &str,
        build: impl FnOnce(Chain<I, I, NoThread, TopLevel>) -> Chain<I, O, T, TopLevel>,
    ) -> OperationRef<I, O> {
        self.program.operation(&format!("{}{name}", self.prefix), build)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod here {
        #[derive(serde::Serialize, serde::Deserialize)]
        pub struct Page(pub u64);
    }

    mod elsewhere {
        #[derive(serde::Serialize, serde::Deserialize)]
        pub struct Page(pub u64);
    }

    fn program<P: Token>(pool: usize, operation: &str, step: &str) -> Program {
        let mut program = Program::new("books");
        let shelf = program.thread("Shelf", Vec::<Vec<u8>>::new);
        program.pool("Reader", pool, |_| ());
        program.operation(operation, |b| b.on(shelf).run(|_, page: P| page).named(step));
        program
    }

    /// The value is fixed: another compiler, module or crate version must not change it.
    #[test]
    fn the_fingerprint_has_names_and_no_paths() {
        let fingerprint = program::<here::Page>(2, "read", "find").fingerprint();
        assert_eq!(fingerprint, 0x6d2e_c00b_b4eb_b5fc);
        assert_eq!(program::<elsewhere::Page>(2, "read", "find").fingerprint(), fingerprint);
        for other in [
            program::<here::Page>(3, "read", "find"),
            program::<here::Page>(2, "write", "find"),
            program::<here::Page>(2, "read", "seek"),
            program::<u64>(2, "read", "find"),
        ] {
            assert_ne!(other.fingerprint(), fingerprint);
        }
    }
}
