//! Threads of simulated processes. They run the real, blocking code of the libraries, and one of
//! them runs at a time: it runs until it pauses, sleeps, reaches a switch point or asks, and then
//! the simulator decides which one runs next.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use pario_net::{Parker, SharedWord, SwitchPoint};

/// The time that a pause takes.
const PAUSE: Duration = Duration::from_micros(20);

/// A thread of a simulated process. Dropping it kills it.
pub struct SimThread<T> {
    worker: Option<Worker>,
    body: Option<Body>,
    sleep: Arc<Mutex<Sleep>>,
    result: std::marker::PhantomData<T>,
}

/// Why a thread has stopped.
#[derive(Debug)]
pub enum Stop<T> {
    /// It pauses, or reached a switch point at a word.
    Between(Option<(SwitchPoint, usize)>),
    /// It sleeps on a word.
    Parked,
    /// It waits for a reply.
    Requested(SimRequest),
    /// It has returned.
    Ended(T),
}

/// What a thread requests from the simulator.
#[derive(Debug, PartialEq, Eq)]
pub enum SimRequest {
    /// The size of the file.
    Measure,
    /// Bytes of the file.
    Read {
        /// The offset in the access.
        offset: u64,
        /// The number of bytes.
        len: usize,
    },
    /// The thread holds its lock or claim until the simulator replies.
    Hold,
}

/// The reply of the simulator.
#[derive(Debug)]
pub enum SimReply {
    /// No value.
    None,
    /// The size of the file.
    Len(u64),
    /// Bytes of the file, or why they cannot be read.
    Bytes(Result<Vec<u8>, String>),
}

/// Futexes, processes and a clock for the processes that share one memory.
pub struct SimParker(Mutex<Machine>);

struct Machine {
    rng: Rng,
    now: Duration,
    sleeping: Vec<Arc<Mutex<Sleep>>>,
    /// The process that acts in the thread of the simulator.
    process: u32,
    ended: BTreeSet<u32>,
}

/// The part and the index of the word on which a thread sleeps.
#[derive(Debug, Default)]
struct Sleep(Option<(usize, usize)>);

type Body = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

enum Resume {
    Start(Body, Arc<Mutex<Sleep>>),
    GoOn(SimReply),
    Die,
}

/// Why the operating system's thread of a simulated thread has stopped.
enum WorkerStop {
    Between(Option<(SwitchPoint, usize)>),
    Parked,
    Requested(SimRequest),
    Ended(Box<dyn Any + Send>),
    Died,
    Panicked(Box<dyn Any + Send>),
}

/// A thread of the operating system, used again for one simulated thread after the other.
struct Worker {
    resumes: Sender<Resume>,
    stops: Receiver<WorkerStop>,
}

/// The ends that a worker has.
struct Current {
    resumes: Receiver<Resume>,
    stops: Sender<WorkerStop>,
    sleep: Arc<Mutex<Sleep>>,
}

/// The payload that unwinds a killed thread.
struct Killed;

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
    static IDLE: RefCell<Vec<Worker>> = const { RefCell::new(Vec::new()) };
}

/// Asks the simulator, from within a simulated thread.
pub fn request(request: SimRequest) -> SimReply {
    stop(WorkerStop::Requested(request))
}

/// Stops the present simulated thread until it runs again. Returns at once in the simulator's own
/// thread, and in a thread that is being killed.
fn stop(why: WorkerStop) -> SimReply {
    CURRENT.with_borrow(|current| {
        let Some(current) = current.as_ref().filter(|_| !std::thread::panicking()) else {
            return SimReply::None;
        };
        let _ = current.stops.send(why);
        match current.resumes.recv() {
            Ok(Resume::GoOn(reply)) => reply,
            Ok(Resume::Start(..) | Resume::Die) | Err(_) => resume_unwind(Box::new(Killed)),
        }
    })
}

impl<T: Send + 'static> SimThread<T> {
    /// A thread that has not begun.
    pub fn new(body: impl FnOnce() -> T + Send + 'static) -> Self {
        Self {
            worker: None,
            body: Some(Box::new(move || Box::new(body()) as Box<dyn Any + Send>)),
            sleep: Arc::default(),
            result: std::marker::PhantomData,
        }
    }

    /// Whether it sleeps, and on which word.
    pub fn sleeps_on(&self) -> Option<usize> {
        lock(&self.sleep).0.map(|(_, index)| index)
    }

    /// Runs it until it stops. A thread that sleeps wakes because its time is over.
    pub fn run(&mut self, reply: SimReply) -> Stop<T> {
        let resume = match self.body.take() {
            Some(body) => {
                self.worker = Some(IDLE.with_borrow_mut(Vec::pop).unwrap_or_else(Worker::spawn));
                Resume::Start(body, self.sleep.clone())
            }
            None => Resume::GoOn(reply),
        };
        match self.exchange(resume) {
            Some(WorkerStop::Between(point)) => Stop::Between(point),
            Some(WorkerStop::Parked) => Stop::Parked,
            Some(WorkerStop::Requested(request)) => Stop::Requested(request),
            Some(WorkerStop::Ended(result)) => {
                Stop::Ended(*result.downcast().expect("the body returns this type"))
            }
            Some(WorkerStop::Panicked(payload)) => resume_unwind(payload),
            Some(WorkerStop::Died) | None => unreachable!("only a dropped thread dies"),
        }
    }
}

impl<T> SimThread<T> {
    fn exchange(&mut self, resume: Resume) -> Option<WorkerStop> {
        let worker = self.worker.take()?;
        worker.resumes.send(resume).ok()?;
        let stop = worker.stops.recv().ok()?;
        match &stop {
            WorkerStop::Between(_) | WorkerStop::Parked | WorkerStop::Requested(_) => {
                self.worker = Some(worker);
            }
            _ => IDLE.with_borrow_mut(|idle| idle.push(worker)),
        }
        Some(stop)
    }
}

impl<T> Drop for SimThread<T> {
    fn drop(&mut self) {
        self.exchange(Resume::Die);
    }
}

impl Worker {
    fn spawn() -> Self {
        let (resumes, theirs) = channel();
        let (stops, ours) = channel();
        let thread = std::thread::Builder::new().name("simulated".to_owned());
        thread.spawn(move || work(theirs, stops)).expect("the system has a thread");
        Self { resumes, stops: ours }
    }
}

fn work(resumes: Receiver<Resume>, stops: Sender<WorkerStop>) {
    let sleep = Arc::default();
    CURRENT.set(Some(Current { resumes, stops, sleep }));
    loop {
        let next = CURRENT.with_borrow(|current| current.as_ref()?.resumes.recv().ok());
        let Some(Resume::Start(body, sleep)) = next else { return };
        CURRENT.with_borrow_mut(|current| current.as_mut().expect("it is set").sleep = sleep);
        let stop = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(result) => WorkerStop::Ended(result),
            Err(payload) if payload.is::<Killed>() => WorkerStop::Died,
            Err(payload) => WorkerStop::Panicked(payload),
        };
        CURRENT.with_borrow(|current| {
            let _ = current.as_ref().expect("it is set").stops.send(stop);
        });
    }
}

impl SimParker {
    /// A machine whose choices follow a random generator.
    pub fn new(rng: Rng) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Machine {
            rng,
            now: Duration::from_secs(1),
            sleeping: Vec::new(),
            process: 1,
            ended: BTreeSet::new(),
        })))
    }

    /// Sets the process that acts in the thread of the simulator.
    pub fn act_as(&self, process: u32) {
        lock(&self.0).process = process;
    }

    /// Ends a process.
    pub fn end(&self, process: u32) {
        lock(&self.0).ended.insert(process);
    }
}

impl Parker for SimParker {
    fn now(&self) -> Duration {
        lock(&self.0).now
    }

    fn pause(&self, is_yield: bool) {
        let mut machine = lock(&self.0);
        machine.now += PAUSE;
        // Most of many short pauses change nothing.
        let stops = is_yield || machine.rng.u8(0..64) == 0;
        drop(machine);
        if stops {
            stop(WorkerStop::Between(None));
        }
    }

    fn park(&self, word: SharedWord<'_>, seen: u32, limit: Duration) {
        let current = CURRENT.with_borrow(|current| current.as_ref().map(|it| it.sleep.clone()));
        let Some(sleep) = current.filter(|_| !std::thread::panicking()) else { return };
        if word.value.load(Ordering::SeqCst) != seen {
            return;
        }
        lock(&sleep).0 = Some((word.part, word.index));
        lock(&self.0).sleeping.push(sleep.clone());
        stop(WorkerStop::Parked);
        if lock(&sleep).0.take().is_some() {
            // No process has woken it.
            let mut machine = lock(&self.0);
            machine.now += limit;
            machine.sleeping.retain(|other| !Arc::ptr_eq(other, &sleep));
        }
    }

    fn wake(&self, word: SharedWord<'_>, count: u32) {
        if std::thread::panicking() {
            return;
        }
        let mut machine = lock(&self.0);
        let Machine { rng, sleeping, .. } = &mut *machine;
        rng.shuffle(sleeping);
        let mut left = count;
        sleeping.retain(|sleep| {
            let mut sleep = lock(sleep);
            let wakes = left > 0 && sleep.0 == Some((word.part, word.index));
            if wakes {
                (sleep.0, left) = (None, left - 1);
            }
            !wakes
        });
    }

    fn reach(&self, point: SwitchPoint, word: SharedWord<'_>) {
        // The model needs to know of each critical section.
        if point == SwitchPoint::Unlocking || lock(&self.0).rng.u8(0..4) == 0 {
            stop(WorkerStop::Between(Some((point, word.index))));
        }
    }

    fn process_id(&self) -> u32 {
        lock(&self.0).process
    }

    fn is_running(&self, process: u32) -> bool {
        !lock(&self.0).ended.contains(&process)
    }
}

impl fmt::Debug for SimParker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimParker").finish_non_exhaustive()
    }
}

/// A killed thread holds none of these locks, so what they protect is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
