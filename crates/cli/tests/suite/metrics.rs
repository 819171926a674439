//! `pario serve --metrics`: the metrics and the health of a node.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{Sandbox, ServerProcess, stderr};

/// Time limit for a change to show.
const DEADLINE: Duration = Duration::from_secs(60);

const TOKEN: &str = "a-token-for-tests";

/// Returns the address that a node prints for its metrics.
fn address(node: &mut ServerProcess) -> String {
    let line = node.line();
    let url = line.strip_prefix("pario: metrics at http://").expect(&line);
    url.split('/').next().unwrap().to_owned()
}

/// Sends a request with optional headers; returns status and text.
fn ask(address: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the node listens");
    let host =
        if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    write!(stream, "GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Requests the health until the answer is good.
fn health_until(address: &str, is_good: impl Fn(u16, &str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let (status, text) = ask(address, "/health", "");
        if is_good(status, &text) {
            return text;
        }
        assert!(begun.elapsed() < DEADLINE, "{status}: {text}");
        std::thread::yield_now();
    }
}

fn served(sandbox: &Sandbox, options: &[&str]) -> (ServerProcess, String) {
    let arguments = [&["serve", "--data", "data", "--metrics", "127.0.0.1:0"], options].concat();
    let mut node = ServerProcess::start(sandbox.pario(&arguments));
    let address = address(&mut node);
    (node, address)
}

/// A sample: the name, the labels as written, the value.
type Sample = (String, String, f64);

/// Parses a document as strictly as Prometheus: each family is announced once, with help and type,
/// and followed by all its samples; names and labels are well formed; nothing occurs twice.
fn parse(text: &str) -> HashMap<String, Vec<Sample>> {
    let is_name = |name: &str| {
        name.chars()
            .enumerate()
            .all(|(at, c)| c.is_ascii_alphabetic() || c == '_' || (at > 0 && c.is_ascii_digit()))
            && !name.is_empty()
    };
    let mut families: HashMap<String, Vec<Sample>> = HashMap::new();
    let (mut current, mut kind, mut helped) = (String::new(), "", None);
    let mut seen = HashSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect(line);
            assert!(words.ends_with('.') && words.len() > 5, "{line}");
            helped = Some(name);
        } else if let Some(announced) = line.strip_prefix("# TYPE ") {
            let (name, of_kind) = announced.split_once(' ').expect(line);
            assert_eq!(helped.take(), Some(name), "help comes before the type: {line}");
            assert!(is_name(name) && ["counter", "gauge", "histogram"].contains(&of_kind));
            assert_eq!(name.ends_with("_total"), of_kind == "counter", "{line}");
            assert!(families.insert(name.to_owned(), vec![]).is_none(), "twice: {line}");
            (current, kind) = (name.to_owned(), of_kind);
        } else {
            let (series, value) = line.rsplit_once(' ').expect(line);
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.strip_suffix('}').expect(line);
            let suffix = name.strip_prefix(current.as_str()).expect(line);
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line}");
            for label in labels.split("\",").filter(|label| !label.is_empty()) {
                let (name, value) = label.split_once("=\"").expect(line);
                assert!(is_name(name) && !value.trim_end_matches('"').contains('"'), "{line}");
            }
            assert!(seen.insert(series.to_owned()), "twice: {line}");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(!value.is_nan(), "{line}");
            let sample = (name.to_owned(), labels.to_owned(), value);
            families.get_mut(&current).unwrap().push(sample);
        }
    }
    families
}

/// Returns the value of one series.
fn value(families: &HashMap<String, Vec<Sample>>, name: &str, labels: &str) -> f64 {
    let samples = families.values().flatten();
    let mut of = samples.filter(|sample| sample.0 == name && sample.1 == labels);
    of.next().unwrap_or_else(|| panic!("there is no {name}{{{labels}}}: {families:#?}")).2
}

/// Returns the metrics, once the node has noticed that all clients have ended.
fn metrics_without_clients(address: &str) -> HashMap<String, Vec<Sample>> {
    let begun = Instant::now();
    loop {
        let (status, text) = ask(address, "/metrics", "");
        assert_eq!(status, 200, "{text}");
        let all = parse(&text);
        if value(&all, "pario_clients", "") == 0.0 {
            return all;
        }
        assert!(begun.elapsed() < DEADLINE, "{text}");
        std::thread::yield_now();
    }
}

#[test]
fn metrics_are_well_formed_and_say_what_the_node_has_done() {
    let mut sandbox = Sandbox::empty();
    let (node, address) = served(&sandbox, &[]);
    sandbox.serve_by(node);
    sandbox.write("x", 300_000, 1);
    sandbox.ok(&["--no-short-cut", "cp", "x", "/x"]);
    assert_eq!(sandbox.run(&["stat", "/nothing"]).status.code(), Some(3));
    let all = metrics_without_clients(&address);

    assert_eq!(
        value(&all, "pario_build_info", &format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))),
        1.0
    );
    let node = "cluster=\"local\",node=\"local\",role=\"interface\"";
    assert_eq!(value(&all, "pario_node_info", node), 1.0);
    assert_eq!(value(&all, "pario_node_healthy", ""), 1.0);
    let of_disk = |name: &str, disk: usize| value(&all, name, &format!("disk=\"disk{disk}\""));
    let written: f64 = (0..4).map(|disk| of_disk("pario_disk_written_bytes_total", disk)).sum();
    assert_eq!(written, 300_000.0);
    for disk in 0..4 {
        assert!(of_disk("pario_disk_size_bytes", disk) > of_disk("pario_disk_free_bytes", disk));
        assert_eq!(of_disk("pario_disk_failed", disk), 0.0);
        assert_eq!(of_disk("pario_disk_errors_total", disk), 0.0);
        assert_eq!(of_disk("pario_disk_queue_length", disk), 0.0);
        of_disk("pario_disk_reads_total", disk);
        of_disk("pario_disk_read_bytes_total", disk);
        of_disk("pario_disk_writes_total", disk);
    }
    assert!(value(&all, "pario_requests_total", "kind=\"write\"") >= 1.0);
    assert_eq!(value(&all, "pario_requests_total", "kind=\"create\""), 1.0);
    assert!(value(&all, "pario_request_failures_total", "kind=\"stat\"") >= 1.0);
    assert_eq!(value(&all, "pario_request_failures_total", "kind=\"write\""), 0.0);
    assert_eq!(value(&all, "pario_files", ""), 1.0);
    assert_eq!(value(&all, "pario_resource_limit", "resource=\"clients\""), 8192.0);
    assert_eq!(value(&all, "pario_resource_used", "resource=\"open_files\""), 0.0);
    assert!(all["pario_peer_up"].is_empty());
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds"] {
        assert!(value(&all, name, "") > 10.0, "{name}");
    }

    // The cumulative histogram grows up to the number of requests.
    let times = &all["pario_request_duration_seconds"];
    for kind in ["write", "create", "stat"] {
        let label = format!("kind=\"{kind}\"");
        let buckets: Vec<_> = times
            .iter()
            .filter(|(name, labels, _)| name.ends_with("_bucket") && labels.starts_with(&label))
            .map(|(_, _, value)| *value)
            .collect();
        assert_eq!(buckets.len(), 9, "{kind}");
        assert!(buckets.is_sorted(), "{kind}: {buckets:?}");
        let count = value(&all, "pario_request_duration_seconds_count", &label);
        assert_eq!(buckets.last(), Some(&count), "{kind}");
        assert_eq!(count, value(&all, "pario_requests_total", &label), "{kind}");
        assert!(value(&all, "pario_request_duration_seconds_sum", &label) > 0.0, "{kind}");
    }
}

#[test]
fn only_this_machine_reads_metrics_without_a_token() {
    let sandbox = Sandbox::empty();
    let wide = ["serve", "--data", "data", "--metrics", "0.0.0.0:0"];
    let output = sandbox.pario(&wide).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("token") && told.contains("--metrics-token-file"), "{told}");
    assert!(!sandbox.file("data").exists(), "nothing was started");

    let (_node, address) = served(&sandbox, &[]);
    assert_eq!(ask(&address, "/metrics", "Host: evil.example\r\n").0, 403);
    assert_eq!(ask(&address, "/health", "Host: evil.example\r\n").0, 403);
    assert_eq!(ask(&address, "/health", "Host: localhost\r\n"), (200, "ok\n".to_owned()));
    let (status, text) = ask(&address, "/", "");
    assert!(status == 404 && text.contains("/metrics"), "{status}: {text}");
}

#[test]
fn with_a_token_others_read_metrics_if_they_know_it() {
    let sandbox = Sandbox::empty();
    let file = sandbox.file("token");
    fs::write(&file, TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let arguments =
        ["serve", "--data", "data", "--metrics", "0.0.0.0:0", "--metrics-token-file", "token"];
    let output = sandbox.pario(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "other users can read it: {}", stderr(&output));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

    let mut by_variable = sandbox.pario(&arguments[..5]);
    by_variable.env("PARIO_METRICS_TOKEN", TOKEN);
    for (command, place) in
        [(sandbox.pario(&arguments), "token"), (by_variable, "PARIO_METRICS_TOKEN")]
    {
        let mut node = ServerProcess::start(command);
        let line = node.line();
        assert!(line.ends_with(&format!("/metrics (the token is in {place})")), "{line}");
        assert!(!line.contains(TOKEN), "{line}");
        let port = line.split(':').next_back().unwrap().split('/').next().unwrap();
        let address = format!("127.0.0.1:{port}");
        for path in ["/metrics", "/health", "/"] {
            assert_eq!(ask(&address, path, "").0, 401, "{path}");
            let wrong = "Authorization: Bearer a-token-for-guesses\r\n";
            assert_eq!(ask(&address, path, wrong).0, 401, "{path}");
        }
        let right = format!("Host: node.example\r\nAuthorization: Bearer {TOKEN}\r\n");
        assert_eq!(ask(&address, "/health", &right), (200, "ok\n".to_owned()));
        assert_eq!(ask(&address, "/metrics", &right).0, 200);
    }
}

#[test]
fn health_names_a_disk_that_is_gone_and_a_namespace_that_is_missing() {
    let sandbox = Sandbox::empty();
    let (_node, address) = served(&sandbox, &[]);
    assert_eq!(ask(&address, "/health", ""), (200, "ok\n".to_owned()));
    fs::rename(sandbox.file("data/disk2"), sandbox.file("away")).unwrap();
    let told = health_until(&address, |status, _| status == 503);
    assert!(told.starts_with("disk local/disk2 (data/disk2) is failing: "), "{told}");
    let all = parse(&ask(&address, "/metrics", "").1);
    assert_eq!(value(&all, "pario_disk_failed", "disk=\"disk2\""), 1.0);
    assert_eq!(value(&all, "pario_node_healthy", ""), 0.0);
    fs::rename(sandbox.file("away"), sandbox.file("data/disk2")).unwrap();
    health_until(&address, |status, _| status == 200);

    fs::rename(sandbox.file("data/namespace.redb"), sandbox.file("away")).unwrap();
    let (status, told) = ask(&address, "/health", "");
    assert_eq!(status, 503);
    assert!(told.contains("namespace.redb, is missing from data"), "{told}");
    fs::rename(sandbox.file("away"), sandbox.file("data/namespace.redb")).unwrap();
    assert_eq!(ask(&address, "/health", "").0, 200);
}

#[test]
fn health_names_a_disk_that_is_full() {
    let sandbox = Sandbox::empty();
    fs::create_dir(sandbox.file("small")).unwrap();
    let dir = sandbox.path().display();
    let config = format!("[nodes.local]\ndata = \"{dir}/data\"\ndisks = [\"{dir}/small/disk0\"]\n");
    fs::write(sandbox.file("cluster.toml"), config).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=64m tmpfs small && exec \"$@\"";
    let serve = sandbox.pario(&[
        "serve",
        "--config",
        "cluster.toml",
        "--node",
        "local",
        "--metrics",
        "127.0.0.1:0",
    ]);
    command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(sandbox.path());
    command.env("XDG_RUNTIME_DIR", sandbox.runtime());
    let mut node = ServerProcess::start(command);
    let address = address(&mut node);
    assert_eq!(ask(&address, "/health", "").0, 200);

    // The disk is mounted only in the node's mount namespace.
    let there = format!("/proc/{}/cwd/small/ballast", node.pid());
    let mut ballast = fs::File::create(&there).unwrap();
    while ballast.write_all(&[1; 1 << 16]).is_ok() {}
    let told = health_until(&address, |status, _| status == 503);
    assert!(told.contains("local/disk0") && told.contains("is full"), "{told}");
    assert!(told.contains("add a disk"), "{told}");
    drop(ballast);
    fs::remove_file(&there).unwrap();
    health_until(&address, |status, _| status == 200);
}

#[test]
fn a_node_that_has_not_reached_the_namespace_is_not_healthy() {
    let sandbox = Sandbox::empty();
    let ports = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [a, b] = ports.map(|listener| listener.local_addr().unwrap());
    let dir = sandbox.path().display();
    let config = format!(
        "key_file = \"{dir}/key\"\n\
         [nodes.a]\nlisten = \"{a}\"\ndata = \"{dir}/a\"\ndisks = [\"{dir}/a/disk0\"]\n\
         [nodes.b]\nlisten = \"{b}\"\ndata = \"{dir}/b\"\ndisks = [\"{dir}/b/disk0\"]\n"
    );
    fs::write(sandbox.file("cluster.toml"), config).unwrap();
    fs::write(sandbox.file("key"), "5c".repeat(32)).unwrap();
    fs::set_permissions(sandbox.file("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let start = |node: &str| {
        let mut node = ServerProcess::start(sandbox.pario(&[
            "serve",
            "--config",
            "cluster.toml",
            "--node",
            node,
            "--metrics",
            "127.0.0.1:0",
        ]));
        let address = address(&mut node);
        (node, address)
    };
    let (_b, at_b) = start("b");
    let (status, told) = ask(&at_b, "/health", "");
    assert_eq!(status, 503);
    assert!(told.starts_with("node b has not reached node a, which keeps the namespace"), "{told}");
    let (a, at_a) = start("a");
    health_until(&at_b, |status, _| status == 200);
    let is_up = |address: &str, peer: &str| {
        let all = parse(&ask(address, "/metrics", "").1);
        value(&all, "pario_peer_up", &format!("peer=\"{peer}\"")) == 1.0
    };
    assert!(is_up(&at_b, "a"));
    let begun = Instant::now();
    while !is_up(&at_a, "b") {
        assert!(begun.elapsed() < DEADLINE);
    }
    drop(a);
    let told = health_until(&at_b, |status, _| status == 503);
    assert!(told.starts_with("node b cannot reach node a, which keeps the namespace"), "{told}");
}
