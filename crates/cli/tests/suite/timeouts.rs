//! `--timeout`: every command gives up on a node that does not answer in time, and names it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};
use std::thread;

use crate::command::{Sandbox, ServerProcess, stderr, stdout};

/// Commands that use a node, with valid arguments.
const COMMANDS: [&str; 38] = [
    "stop",
    "status",
    "status --file /x",
    "why",
    "why 7",
    "reset",
    "top --once",
    "ls",
    "ls -lR /",
    "mkdir /a",
    "rmdir /a",
    "rm /a",
    "rm -rf /a",
    "mv /a /b",
    "cp x pario:/y",
    "cp pario:/y y",
    "put x /y",
    "get /y y",
    "cat /a",
    "stat /a",
    "chmod 600 /a",
    "chown 0 /a",
    "df",
    "du",
    "compact /a",
    "fsck",
    "fsck --deep --repair",
    "image import x.pgm /p",
    "image export /p p.png",
    "image info /p",
    "image apply /p invert /q",
    "volume import --phantom 8x8x8 /v",
    "volume info /v",
    "volume slice /v s.png",
    "volume bench /v",
    "volume export /v v.nrrd",
    "view /v",
    "run -n 1 true",
];

/// Commands that use no running node.
const ALONE: [&str; 6] = ["serve", "demo", "completions", "man", "systemd", "help"];

/// The limit, as the messages show it.
const LIMIT: &str = "0.2";

/// Returns the commands in a help text.
fn listed(help: &str) -> BTreeSet<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Returns the names of all commands and subcommands.
fn names(sandbox: &Sandbox) -> BTreeSet<String> {
    let help = |arguments: &[&str]| {
        let output = sandbox.pario(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output).to_owned()
    };
    let mut names = BTreeSet::new();
    for name in listed(&help(&["--help"])) {
        let below = match name.as_str() {
            "help" => BTreeSet::new(),
            name => listed(&help(&[name, "--help"])),
        };
        let below: Vec<_> = below.into_iter().filter(|below| below != "help").collect();
        if below.is_empty() {
            names.insert(name);
        } else {
            names.extend(below.iter().map(|below| format!("{name} {below}")));
        }
    }
    names
}

/// Returns the name of a command in the table.
fn name_of(line: &str) -> String {
    let mut words = line.split(' ');
    let first = words.next().unwrap();
    match first {
        "image" | "volume" => format!("{first} {}", words.next().unwrap()),
        first => first.to_owned(),
    }
}

/// Runs every command at an address, several at the same time.
fn at_once(sandbox: &Sandbox, address: &str, check: impl Fn(&str, &Output) + Sync) {
    std::fs::write(sandbox.file("x"), "x").unwrap();
    std::fs::write(sandbox.file("x.pgm"), "P5 1 1 255\nx").unwrap();
    let known = names(sandbox);
    let lines: Vec<_> = COMMANDS.iter().filter(|line| known.contains(&name_of(line))).collect();
    thread::scope(|scope| {
        for some in lines.chunks(lines.len().div_ceil(4)) {
            let check = &check;
            scope.spawn(move || {
                for line in some {
                    let mut arguments = vec!["--cluster", address, "--timeout", LIMIT];
                    arguments.extend(line.split(' '));
                    let output = sandbox.pario(&arguments).stderr(Stdio::piped()).output().unwrap();
                    assert_eq!(output.status.code(), Some(5), "{line}: {}", stderr(&output));
                    let told = stderr(&output);
                    let waited = format!("is not answering within {LIMIT} s");
                    assert!(told.contains(&waited), "{line}: {told}");
                    assert!(told.starts_with("pario: "), "{line}: {told}");
                    assert_eq!(told.lines().count(), 1, "{line}: {told}");
                    check(line, &output);
                }
            });
        }
    });
}

#[test]
fn the_table_has_every_command() {
    let sandbox = Sandbox::empty();
    let table: BTreeSet<String> = COMMANDS.iter().map(|line| name_of(line)).collect();
    for name in names(&sandbox) {
        assert!(table.contains(&name) || ALONE.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn a_paused_node_is_given_up_in_time_and_said_to_be_paused() {
    let sandbox = Sandbox::empty();
    let node = ServerProcess::start(sandbox.pario(&["serve", "--data", "data"]));
    node.pause();
    let resume =
        format!("its process {0} is paused (stopped by a signal); `kill -CONT {0}`", node.pid());
    at_once(&sandbox, "data", |line, output| {
        assert!(stderr(output).contains(&resume), "{line}: {}", stderr(output));
    });
    // A node that is found by its note gives the same error.
    let output = sandbox.pario(&["--timeout", LIMIT, "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.starts_with("pario: your node for ") && told.contains(" runs, but "), "{told}");
    assert!(told.contains(&resume), "{told}");
    assert!(!told.contains("does not run any more"), "{told}");
    node.resume();
    let output = sandbox.pario(&["ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_socket_that_never_answers_is_given_up_in_time() {
    let sandbox = Sandbox::empty();
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", deaf.local_addr().unwrap());
    at_once(&sandbox, &address, |line, output| {
        assert!(stderr(output).contains(&address), "{line}: {}", stderr(output));
    });
    let _deaf = UnixListener::bind(sandbox.file("deaf")).unwrap();
    at_once(&sandbox, "unix:deaf", |_, _| {});
}

/// Without a limit, the kernel lets callers of a socket with a full queue wait forever.
#[test]
fn a_socket_whose_queue_is_full_is_given_up_in_time() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let sandbox = Sandbox::empty();
    let deaf = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&deaf, &SocketAddrUnix::new(sandbox.file("deaf")).unwrap()).unwrap();
    listen(&deaf, 0).unwrap();
    let _first = std::os::unix::net::UnixStream::connect(sandbox.file("deaf")).unwrap();
    let arguments = ["--cluster", "unix:deaf", "--timeout", LIMIT, "ls"];
    let output = sandbox.pario(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("is not answering within"), "{}", stderr(&output));
}

#[test]
fn a_node_that_stops_answering_in_the_middle_is_given_up() {
    use std::io::Write as _;
    let sandbox = Sandbox::empty();
    let node = ServerProcess::start(sandbox.pario(&["serve", "--data", "data"]));
    let arguments = ["--cluster", "data", "--no-short-cut", "--timeout", LIMIT, "cp", "-", "/x"];
    let mut child = sandbox
        .pario(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // It reads more than a pipe holds only after it has opened the file.
    input.write_all(&vec![7; 1 << 20]).unwrap();
    node.pause();
    // The command may have ended before all was written.
    let _ = input.write_all(&vec![7; 64 << 20]);
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("no reply within 0.2 s"), "{}", stderr(&output));
}
