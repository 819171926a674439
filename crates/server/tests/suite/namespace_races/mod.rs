//! Many callers change the same names concurrently: the result equals some serial order of their
//! calls.
//!
//! The order is that of the revisions of the calls. The test repeats the calls in this order, one by
//! one, on a plain map of paths, and each must return what it returned before. A call that began
//! after another had ended comes after it.

mod call;
mod model;
mod recorder;
mod turnstile;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use pario_proto::{Access, FileId, FilePath, Identity};
use pario_server::metadata::{
    MemoryStore, MetadataStore, RedbStore, Revision, StepDecision, StoreStep,
};
use pario_server::namespace::{Namespace, RightsUpdate, WallClock};
use parking_lot::Mutex;

use crate::namespace_calls::wait;

use call::{Call, FinishedCall, NodeFacts, Outcome, some_identity};
use model::Model;
use recorder::Recorder;
use turnstile::Turnstile;

fn root() -> Identity {
    Identity { uid: 0, gids: vec![0] }
}

fn open(store: Arc<dyn MetadataStore>) -> Namespace {
    let owner = Identity { uid: 1, gids: vec![10] };
    let names =
        Namespace::open(Arc::new(Recorder(store)), "n0", &owner, WallClock::system()).unwrap();
    // All users may work in the root, so that much happens.
    let update = RightsUpdate { mode: Some(0o777), ..RightsUpdate::default() };
    wait(|done| names.set_rights(owner, FilePath::root(), update, done)).unwrap();
    names
}

/// Makes random calls from several threads; each thread calls `enter` first and `leave` last.
fn make_calls(
    names: &Namespace,
    seed: u64,
    (threads, calls): (usize, usize),
    enter: &(dyn Fn(usize) + Sync),
    leave: &(dyn Fn() + Sync),
) -> Vec<FinishedCall> {
    let ended = AtomicU64::new(0);
    let work = |number: usize| {
        let mut rng = Rng::with_seed(seed << 8 | number as u64);
        enter(number);
        let made = (0..calls).map(|_| {
            let (who, call) = (some_identity(&mut rng), Call::random(names, &mut rng));
            let not_before = Revision(ended.load(Ordering::SeqCst));
            let (outcome, trace) = call.make(names, &who);
            ended.fetch_max(trace.revision.0, Ordering::SeqCst);
            FinishedCall { who, call, outcome, trace, not_before }
        });
        let made: Vec<FinishedCall> = made.collect();
        leave();
        made
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Fails the test unless the calls one by one give the same outcomes and the same tree, and the tree
/// keeps its invariants. `root` is the root before the calls.
fn check(names: &Namespace, root: NodeFacts, mut calls: Vec<FinishedCall>, what: &str) {
    calls.sort_by_key(|made| made.trace);
    let mut model =
        Model { nodes: BTreeMap::from([("/".to_owned(), root)]), tombstones: Vec::new() };
    let mut last = None;
    for (place, made) in calls.iter().enumerate() {
        let FinishedCall { who, call, outcome, trace, not_before } = made;
        assert!(trace.revision >= *not_before, "{what}: {made:?} is before calls that had ended");
        if !trace.is_only_looking {
            assert!(last != Some(trace.revision), "{what}: {made:?} shares its revision");
            last = Some(trace.revision);
        }
        let id = match outcome {
            Ok(Outcome::Node(node)) => Some(node.id),
            _ => None,
        };
        let expected = model.apply(who, call, id);
        if expected != *outcome {
            let changes = calls[..place].iter().filter(|made| !made.trace.is_only_looking);
            let changes: Vec<String> = changes.map(|made| format!("{made:?}")).collect();
            let changes = changes.join("\n");
            panic!("{what}: after the changes\n{changes}\n{made:?}\nshould give {expected:?}");
        }
    }
    let mut found = BTreeMap::new();
    gather(names, &FilePath::root(), &mut found);
    assert_eq!(found, model.nodes, "{what}");
    assert_eq!(names.problems().unwrap(), Vec::<String>::new(), "{what}");
    assert_eq!(names.count().unwrap(), found.len() as u64 - 1, "{what}");
    let mut tombstones: Vec<FileId> =
        names.tombstones().unwrap().iter().map(|file| file.id).collect();
    tombstones.sort();
    model.tombstones.sort();
    assert_eq!(tombstones, model.tombstones, "{what}");
}

/// Collects the whole tree as a map.
fn gather(names: &Namespace, at: &FilePath, found: &mut BTreeMap<String, NodeFacts>) {
    let node = call::facts(&names.lookup(&root(), at, Access::LOOK).unwrap());
    let is_directory = node.is_directory();
    found.insert(at.to_string(), node);
    if is_directory {
        for entry in names.list(&root(), at, None, 1000).unwrap().0 {
            gather(names, &at.join(&entry.name).unwrap(), found);
        }
    }
}

fn root_of(names: &Namespace) -> NodeFacts {
    call::facts(&names.lookup(&root(), &FilePath::root(), Access::LOOK).unwrap())
}

#[test]
fn concurrent_threads_on_a_file() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let names = open(Arc::new(RedbStore::open(&dir.path().join("metadata")).unwrap()));
        let root = root_of(&names);
        let calls = make_calls(&names, seed, (8, 150), &|_| {}, &|| {});
        check(&names, root, calls, &format!("seed {seed}"));
    }
}

#[test]
fn concurrent_threads_in_memory_with_repeated_runs() {
    for seed in 0..20 {
        let rng = Mutex::new(Rng::with_seed(seed));
        let hook = move |step| {
            let chance = rng.lock().u8(..10);
            if chance == 0 {
                std::thread::yield_now();
            }
            let is_conflict = step == StoreStep::Commit && chance < 4;
            if is_conflict { StepDecision::Conflict } else { StepDecision::Go }
        };
        let names = open(Arc::new(MemoryStore::with_hook(hook)));
        let root = root_of(&names);
        let calls = make_calls(&names, seed, (8, 200), &|_| {}, &|| {});
        check(&names, root, calls, &format!("seed {seed}"));
    }
}

#[test]
fn seeded_interleavings() {
    const THREADS: usize = 3;
    let mut happened = BTreeMap::<String, u32>::new();
    for seed in 0..400 {
        let turnstile = Arc::new(Turnstile::new(seed, THREADS));
        let inside = Arc::clone(&turnstile);
        let hook = move |_| {
            inside.step();
            StepDecision::Go
        };
        let names = open(Arc::new(MemoryStore::with_hook(hook)));
        let root = root_of(&names);
        let enter = |number| turnstile.enter(number);
        let calls = make_calls(&names, seed, (THREADS, 25), &enter, &|| turnstile.leave());
        for made in &calls {
            let outcome = match &made.outcome {
                Ok(_) => "done".to_owned(),
                Err(text) => text.split(" /").next().unwrap().to_owned(),
            };
            let call = format!("{:?}", made.call);
            let call = call.split(' ').next().unwrap().to_owned();
            *happened.entry(format!("{call} {outcome}")).or_default() += 1;
        }
        check(&names, root, calls, &format!("seed {seed}"));
    }
    // The interesting cases have happened.
    for case in ["Rename done", "Rename not empty", "Rename into itself", "RemoveDirectory done"] {
        assert!(happened.get(case).is_some_and(|&count| count >= 10), "{case}: {happened:?}");
    }
    assert!(happened.keys().all(|case| !case.contains("unexpected")), "{happened:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let turnstile = Arc::new(Turnstile::new(7, 3));
        let inside = Arc::clone(&turnstile);
        let hook = move |_| {
            inside.step();
            StepDecision::Go
        };
        let clock = WallClock::new(|| 0);
        let store = Arc::new(Recorder(Arc::new(MemoryStore::with_hook(hook))));
        let names = Namespace::open(store, "n0", &root(), clock).unwrap();
        let enter = |number| turnstile.enter(number);
        let calls = make_calls(&names, 7, (3, 30), &enter, &|| turnstile.leave());
        calls.iter().map(|made| format!("{made:?}")).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
