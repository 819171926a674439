//! Placement files: their meaning, and the messages for invalid ones.

use std::path::{Path, PathBuf};

use pario_flow::document::DocumentProblem;
use pario_flow::placement::{Placement, PlacementError, PlacementProblem, ThreadSlot};
use proptest::prelude::*;

const SIEVE: &str = r#"
directory = "n1:7400"
key_file = "cluster.key"

[processes]
User = "user"
Beta = {}
Alpha = { host = "n2", executable = "/opt/sieve", arguments = ["-v", "100"] }

[pools]
Slave = 5

[threads]
Master = "User"
"Slave[0..3]" = "Beta"
"Slave[3..=4]" = "Alpha"
Node.Reader = "User"
"#;

fn slot(name: &str, pool: Option<usize>) -> ThreadSlot {
    ThreadSlot { name: name.into(), pool }
}

fn sieve_slots() -> Vec<ThreadSlot> {
    vec![slot("Master", None), slot("Slave", Some(5)), slot("Node.Reader", None)]
}

/// The message for a file that has the given lines under `[threads]`, from line 8 on.
fn complaint(threads: &str) -> String {
    let text = format!(
        "[processes]\nUser = \"user\"\nBeta = {{}}\n[pools]\nSlave = 5\n\n[threads]\n{threads}"
    );
    let slots = [slot("Master", None), slot("Slave", Some(5))];
    match Placement::parse(&text, "sieve.toml") {
        Ok(placement) => placement.assign(&slots).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

fn refused(text: &str) -> PlacementError {
    Placement::parse(text, "sieve.toml").unwrap_err()
}

#[test]
fn a_whole_file() {
    let placement = Placement::parse(SIEVE, "sieve.toml").unwrap();
    assert_eq!(placement.directory(), Some("n1:7400"));
    assert_eq!(placement.key_file(), Some(Path::new("cluster.key")));
    assert_eq!((placement.pool_size("Slave"), placement.pool_size("Master")), (Some(5), None));
    let names: Vec<&str> = placement.processes().iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["User", "Beta", "Alpha"], "in the order of the file");
    let last = &placement.processes()[2];
    assert_eq!(last.host.as_deref(), Some("n2"));
    assert_eq!(last.executable, Some(PathBuf::from("/opt/sieve")));
    assert_eq!(last.arguments, Some(vec!["-v".to_owned(), "100".to_owned()]));
    assert_eq!(placement.processes()[1].arguments, None);
    let assigned = placement.assign(&sieve_slots()).unwrap();
    assert_eq!(assigned, [vec![0], vec![1, 1, 1, 2, 2], vec![0]]);
}

#[test]
fn a_file_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sieve.toml");
    std::fs::write(&path, SIEVE).unwrap();
    let placement = Placement::from_file(&path).unwrap();
    assert_eq!(placement.key_file(), Some(folder.path().join("cluster.key").as_path()));

    let missing = folder.path().join("missing.toml");
    let error = Placement::from_file(&missing).unwrap_err();
    assert!(matches!(*error.problem, PlacementProblem::Unreadable(_)));
    let begin = format!("{}: the placement file cannot be read: ", missing.display());
    assert!(error.to_string().starts_with(&begin), "{error}");
}

#[test]
fn without_a_file_all_threads_are_here() {
    let placement = Placement::single_process();
    assert!(placement.is_single_process());
    assert_eq!(placement.processes().len(), 1);
    assert_eq!(placement.assign(&sieve_slots()).unwrap(), [vec![0], vec![0; 5], vec![0]]);
}

#[test]
fn names_of_hierarchies_may_be_quoted_tables_or_dotted() {
    let slots = [slot("B.C", None), slot("B.Pool", Some(2))];
    for threads in [
        "[threads]\n\"B.C\" = \"A\"\n\"B.Pool[*]\" = \"A\"\n",
        "[threads]\nB.C = \"A\"\nB.\"Pool[0..2]\" = \"A\"\n",
        "[threads.B]\nC = \"A\"\n\"Pool[0]\" = \"A\"\n\"Pool[1]\" = \"A\"\n",
    ] {
        let text = format!("[processes]\nA = \"user\"\n{threads}");
        let placement = Placement::parse(&text, "sieve.toml").unwrap();
        assert_eq!(placement.assign(&slots).unwrap(), [vec![0], vec![0, 0]]);
    }
}

#[test]
fn threads_that_are_placed_wrongly() {
    let cases = [
        (
            "Master = \"User\"\n\"Slave[7]\" = \"Beta\"",
            "sieve.toml:9: thread \"Slave[7]\": the pool \"Slave\" has 5 threads (0 to 4)",
        ),
        (
            "\"Slave[3..=5]\" = \"Beta\"",
            "sieve.toml:8: thread \"Slave[3..=5]\": the pool \"Slave\" has 5 threads (0 to 4)",
        ),
        (
            "Master = \"Betta\"",
            "sieve.toml:8: thread \"Master\": there is no process \"Betta\"; \
             did you mean \"Beta\"?",
        ),
        ("Master = \"X\"", "sieve.toml:8: thread \"Master\": there is no process \"X\""),
        (
            "# first\n\nMastre = \"User\"",
            "sieve.toml:10: thread \"Mastre\": the program has no thread \"Mastre\"; \
             did you mean \"Master\"?",
        ),
        (
            "\"slave[*]\" = \"User\"",
            "sieve.toml:8: thread \"slave[*]\": the program has no thread \"slave\"; \
             did you mean \"Slave\"?",
        ),
        (
            "\"Slave[0..3]\" = \"User\"\nMaster = \"User\"\n\"Slave[2..=4]\" = \"Beta\"",
            "sieve.toml:10: thread \"Slave[2..=4]\": \"Slave[2]\" is already placed in line 8",
        ),
        (
            "\"Slave[*]\" = \"User\"\nMaster = \"User\"\n\"Slave[4]\" = \"Beta\"",
            "sieve.toml:10: thread \"Slave[4]\": \"Slave[4]\" is already placed in line 8",
        ),
        (
            "Master = \"User\"\n\"Master\" = \"Beta\"",
            "sieve.toml:9: \"Master\" is given twice, first in line 8",
        ),
        (
            "\"Slave[*]\" = \"User\"",
            "sieve.toml: thread \"Master\" is not placed; add it under [threads]",
        ),
        (
            "Master = \"User\"\n\"Slave[0]\" = \"User\"\n\"Slave[4]\" = \"User\"",
            "sieve.toml: thread \"Slave[1..4]\" is not placed; add it under [threads]",
        ),
        (
            "Master = \"User\"",
            "sieve.toml: thread \"Slave[*]\" is not placed; add it under [threads]",
        ),
        (
            "\"Slave[3..3]\" = \"User\"",
            "sieve.toml:8: thread \"Slave[3..3]\": the range is empty: it ends before 3; \
             write 3..=3 to include 3",
        ),
        (
            "\"Slave[4..=2]\" = \"User\"",
            "sieve.toml:8: thread \"Slave[4..=2]\": the range is empty",
        ),
        (
            "\"Slave[a]\" = \"User\"",
            "sieve.toml:8: thread \"Slave[a]\": write Name, Name[2], Name[0..3], Name[0..=2] or \
             Name[*] (an index is a number from 0)",
        ),
        (
            "Slave = \"User\"",
            "sieve.toml:8: thread \"Slave\": \"Slave\" is a pool of 5 threads (0 to 4); \
             write \"Slave[*]\" for the whole pool",
        ),
        (
            "\"Master[0]\" = \"User\"",
            "sieve.toml:8: thread \"Master[0]\": \"Master\" is a single thread, not a pool; \
             write \"Master\"",
        ),
        ("Master = 3", "sieve.toml:8: thread \"Master\" must be the name of a process, but is 3"),
    ];
    for (threads, message) in cases {
        assert_eq!(complaint(threads), message);
    }
}

#[test]
fn processes_that_are_wrong() {
    let cases = [
        (
            "",
            "sieve.toml: there are no processes; give at least one, such as A = \"user\", under [processes]",
        ),
        (
            "[processes]\nB = {}\nA = \"user\"\n",
            "sieve.toml:2: process \"B\": the first process is the one you start yourself, \
             so it must be B = \"user\"",
        ),
        (
            "[processes]\nA = \"user\"\n\nB = \"user\"\n",
            "sieve.toml:4: process \"B\": only one process can be \"user\", and \"A\" is it (line 2)",
        ),
        (
            "[processes]\nA = \"me\"\n",
            "sieve.toml:2: process \"A\" must be \"user\" or a table such as {}, but is \"me\"",
        ),
        (
            "[processes]\nA = \"user\"\nB = { hots = \"n2\" }\n",
            "sieve.toml:3: process \"B\" has no setting \"hots\"; did you mean \"host\"?",
        ),
        (
            "[processes]\nA = \"user\"\nB = { arguments = [\"-n\", 3] }\n",
            "sieve.toml:3: an argument must be a string, but is 3",
        ),
        (
            "[processes]\nA = \"user\"\nB = { host = \"-oProxyCommand=x\" }\n",
            "sieve.toml:3: process \"B\": \"-oProxyCommand=x\" is not the name of a host",
        ),
        (
            "[processes]\nA = \"user\"\nA = {}\n",
            "sieve.toml:3: \"A\" is given twice, first in line 2",
        ),
        (
            "[proceses]\n",
            "sieve.toml:1: a placement file has no setting \"proceses\"; did you mean \"processes\"?",
        ),
        ("processes = 1\n", "sieve.toml:1: [processes] must be a table, but is 1"),
        ("directory = 7400\n", "sieve.toml:1: directory must be a string, but is 7400"),
        (
            "[processes]\nA = \"user\"\n[pools]\nSlave = 0\n",
            "sieve.toml:4: the size of pool \"Slave\" must be a number from 1, but is 0",
        ),
        (
            "[processes]\nA = \"user\"\n[pools]\nSlave = -1\n",
            "sieve.toml:4: the size of pool \"Slave\" must be a number from 1, but is -1",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refused(text).to_string(), message);
    }
}

#[test]
fn sizes_of_pools_that_do_not_exist() {
    let text = "[processes]\nA = \"user\"\n[pools]\nSlaves = 5\n[threads]\nMaster = \"A\"\n";
    let placement = Placement::parse(text, "sieve.toml").unwrap();
    let slots = [slot("Master", None), slot("Slave", Some(1))];
    let message = "sieve.toml:4: pool \"Slaves\": the program has no pool \"Slaves\"; \
                   did you mean \"Slave\"?";
    assert_eq!(placement.assign(&slots).unwrap_err().to_string(), message);
}

#[test]
fn invalid_toml_has_line_and_column() {
    let error = refused("[processes]\nA = \"user\"\nB = {{\n");
    let is_syntax =
        matches!(*error.problem, PlacementProblem::Document(DocumentProblem::Syntax(_)));
    assert!(is_syntax);
    assert!(error.to_string().starts_with("sieve.toml:3:6: not valid TOML: "), "{error}");
    let error = refused("[processes]\nÄ = \"ü\" \"user\"\n");
    assert_eq!((error.line, error.column.is_some()), (Some(2), true), "{error}");
}

/// Every thread of some pools in a random process, written as random runs.
fn random_placement() -> impl Strategy<Value = Vec<Vec<(usize, u8)>>> {
    let pool = prop::collection::vec((0usize..4, 0u8..4), 1..20);
    prop::collection::vec(pool, 1..5)
}

proptest! {
    #[test]
    fn what_was_written_is_what_is_assigned(pools in random_placement()) {
        let mut text = "[processes]\nP0 = \"user\"\nP1 = {}\nP2 = {}\nP3 = {}\n[threads]\n".to_owned();
        for (pool, threads) in pools.iter().enumerate() {
            let mut start = 0;
            for end in 1..=threads.len() {
                // A run ends where the process changes, and sometimes before.
                let (process, form) = threads[start];
                if end < threads.len() && threads[end].0 == process && threads[end].1 > 0 {
                    continue;
                }
                let range = match form {
                    _ if start + 1 == end && form % 2 == 0 => format!("{start}"),
                    0 | 1 => format!("{start}..{end}"),
                    _ => format!("{start}..={}", end - 1),
                };
                text.push_str(&format!("\"Pool{pool}[{range}]\" = \"P{process}\"\n"));
                start = end;
            }
        }
        let slots: Vec<ThreadSlot> = pools
            .iter()
            .enumerate()
            .map(|(pool, threads)| slot(&format!("Pool{pool}"), Some(threads.len())))
            .collect();
        let expected: Vec<Vec<usize>> = pools
            .iter()
            .map(|threads| threads.iter().map(|(process, _)| *process).collect())
            .collect();
        let placement = Placement::parse(&text, "random.toml").unwrap();
        prop_assert_eq!(placement.assign(&slots).unwrap(), expected);

        // Without any one of its lines, the file leaves a thread out.
        let lines: Vec<&str> = text.lines().collect();
        for left_out in 6..lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(left_out);
            let error = Placement::parse(&fewer.join("\n"), "random.toml")
                .unwrap()
                .assign(&slots)
                .unwrap_err();
            let not_placed = matches!(*error.problem, PlacementProblem::NotPlaced { .. });
            prop_assert!(not_placed, "{}", error);
        }
    }

    #[test]
    fn any_text_gives_an_answer(text in "(\\[?(processes|threads|pools|A|B)\\]?|[ =\".{}\\n0-9ä\\[\\]*]){0,30}") {
        if let Ok(placement) = Placement::parse(&text, "any.toml") {
            let _ = placement.assign(&sieve_slots());
        }
    }

    #[test]
    fn a_damaged_file_gives_an_answer(position in 0..SIEVE.len(), byte in 32u8..127) {
        let mut bytes = SIEVE.as_bytes().to_vec();
        bytes[position] = byte;
        let text = String::from_utf8(bytes).unwrap();
        let result = Placement::parse(&text, "sieve.toml")
            .and_then(|placement| placement.assign(&sieve_slots()));
        if let Err(error) = result {
            prop_assert!(error.to_string().starts_with("sieve.toml"));
        }
    }
}
