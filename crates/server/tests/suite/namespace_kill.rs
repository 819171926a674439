//! The test kills a process with SIGKILL while that process creates and removes files. Every
//! acknowledged change survives, and the tree keeps its invariants.
//!
//! The test starts itself again as the process to kill. This child writes a line before it begins a
//! removal, and a line when a change is acknowledged.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};

use fastrand::Rng;
use pario_proto::{Access, Failure, FileId, FilePath, Identity};
use pario_server::metadata::RedbStore;
use pario_server::namespace::{CreateOutcome, Namespace, WallClock};

use crate::namespace_calls::flat_file;

const CHILD: &str = "PARIO_NAMESPACE_KILL_CHILD";
const LIVES: u64 = 60;

fn user() -> Identity {
    Identity { uid: 1, gids: vec![1] }
}

fn open(dir: &Path) -> Namespace {
    let store = RedbStore::open(&dir.join("metadata")).unwrap();
    Namespace::open(Arc::new(store), "n0", &user(), WallClock::system()).unwrap()
}

/// Writes a line in one write, so that a kill does not mix lines; `@` marks it among the lines of
/// the test runner.
fn say(line: &str) {
    std::io::stdout().write_all(format!("@{line}\n").as_bytes()).unwrap();
}

/// Changes names until it is killed, with up to 20 changes under way.
fn work(dir: &Path, life: u64) {
    let names = open(dir);
    let mut rng = Rng::with_seed(life);
    let (send, receive) = mpsc::channel::<Option<FilePath>>();
    let directory = FilePath::new(&format!("/{life}")).unwrap();
    let made = send.clone();
    names.make_directory(user(), directory.clone(), 0o755, move |done| {
        done.unwrap();
        made.send(None).unwrap();
    });
    let (mut present, mut under_way) = (Vec::new(), 1);
    for number in 0u64.. {
        while under_way >= 20 || number == 0 && under_way > 0 {
            present.extend(receive.recv().unwrap());
            under_way -= 1;
        }
        under_way += 1;
        let send = send.clone();
        if present.len() > 5 && rng.bool() {
            let path: FilePath = present.swap_remove(rng.usize(..present.len()));
            say(&format!("removing {path}"));
            names.remove(user(), path.clone(), move |done| {
                done.unwrap();
                say(&format!("removed {path}"));
                send.send(None).unwrap();
            });
        } else {
            let path = directory.join(&format!("f{number}")).unwrap();
            let record = flat_file(names.new_file_id(), &user(), 0o644);
            names.create(user(), path.clone(), record, move |done| {
                let CreateOutcome::New(record) = done.unwrap() else { panic!("{path} was there") };
                say(&format!("created {path} {}", record.id));
                send.send(Some(path)).unwrap();
            });
        }
    }
}

#[derive(Debug)]
struct Known {
    id: FileId,
    is_removing: bool,
    is_removed: bool,
}

#[test]
fn every_acknowledged_change_survives_a_kill() {
    if let Ok(child) = std::env::var(CHILD) {
        let (life, dir) = child.split_once(':').unwrap();
        work(Path::new(dir), life.parse().unwrap());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(3);
    let mut known: HashMap<String, Known> = HashMap::new();
    let (mut acknowledged, mut removed) = (0, 0);
    for life in 1..=LIVES {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "namespace_kill::every_acknowledged_change_survives_a_kill",
                "--nocapture",
            ])
            .env(CHILD, format!("{life}:{}", dir.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut wanted = rng.usize(1..600);
        let mut is_killed = false;
        let mut line = String::new();
        // After the kill the test reads the lines that the child wrote before.
        while out.read_line(&mut line).unwrap() > 0 {
            if line.ends_with('\n') && line.contains('@') {
                acknowledged += 1;
                removed += usize::from(note(&line, &mut known));
                wanted = wanted.saturating_sub(1);
            }
            line.clear();
            if wanted == 0 && !is_killed {
                child.kill().unwrap();
                is_killed = true;
            }
        }
        child.wait().unwrap();
        assert!(is_killed, "the process ended by itself");
        check(dir.path(), &known, life);
    }
    assert!(acknowledged > 5_000 && removed > 1_000, "{acknowledged}, {removed} removals");
}

/// Records a line. Returns whether it acknowledges a removal.
fn note(line: &str, known: &mut HashMap<String, Known>) -> bool {
    let words: Vec<&str> = line.split('@').nth(1).unwrap().split_whitespace().collect();
    match words[..] {
        ["created", path, id] => {
            let id = FileId(u128::from_str_radix(id, 16).unwrap());
            known.insert(path.to_owned(), Known { id, is_removing: false, is_removed: false });
        }
        ["removing", path] => known.get_mut(path).unwrap().is_removing = true,
        ["removed", path] => known.get_mut(path).unwrap().is_removed = true,
        _ => panic!("{line:?}"),
    }
    words[0] == "removed"
}

fn check(dir: &Path, known: &HashMap<String, Known>, life: u64) {
    let names = open(dir);
    assert_eq!(names.problems().unwrap(), Vec::<String>::new(), "life {life}");
    let tombstones: Vec<FileId> = names.tombstones().unwrap().iter().map(|file| file.id).collect();
    for (path, known) in known {
        let found = names.lookup(&user(), &FilePath::new(path).unwrap(), Access::READ);
        let is_there = match found {
            Ok(record) => record.id == known.id,
            Err(Failure::NotFound { .. }) => false,
            Err(other) => panic!("life {life}: {other}"),
        };
        let is_removed = tombstones.binary_search(&known.id).is_ok();
        assert!(is_there != is_removed, "life {life}: {path} is half removed: {known:?}");
        assert!(is_there || known.is_removing, "life {life}: {path} is lost: {known:?}");
        assert!(!is_there || !known.is_removed, "life {life}: {path} is back: {known:?}");
    }
}
