//! Space and its usage: `pario df`, `pario du`.

use crate::command::{Sandbox, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn df_counts_a_file_system_once() {
    for sandbox in Sandbox::both() {
        let json = sandbox.json(&["df"]);
        let disks = json["disks"].as_array().unwrap();
        assert_eq!(disks.len(), 4);
        assert!(disks.iter().all(|disk| disk["file_system"] == 0), "{json}");
        assert_eq!(json["total"]["file_systems"], 1);
        assert_eq!(json["total"]["total_bytes"], disks[0]["total_bytes"]);
        assert!(json["total"]["total_bytes"].as_u64().unwrap() > 0);
        let free = |value: &Value| value["free_bytes"].as_u64().unwrap();
        assert_eq!(free(&json["total"]), disks.iter().map(free).min().unwrap());
        let text = sandbox.ok(&["df"]);
        assert_eq!(
            text.lines().last().unwrap(),
            "the 4 disks share one file system; the total counts it once"
        );
    }
}

/// Two nodes on one machine, each with a disk on the same file system and one elsewhere.
#[test]
fn df_knows_file_systems_across_nodes_of_a_machine() {
    let sandbox = Sandbox::empty();
    let shared_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::write(sandbox.file("key"), "07".repeat(32)).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(sandbox.file("key"), private).unwrap();
    let mut text = format!("key_file = {:?}\n", sandbox.file("key"));
    let ports: Vec<_> = (0..2)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
        .collect();
    for (name, address) in ["a", "b"].iter().zip(ports) {
        text += &format!(
            "[nodes.{name}]\nlisten = \"{address}\"\ndata = {:?}\ndisks = [{:?}, {:?}]\n",
            sandbox.file(name),
            sandbox.file(&format!("{name}-disk")),
            shared_memory.path().join(name),
        );
    }
    std::fs::write(sandbox.file("cluster.toml"), text).unwrap();
    let start = |name| {
        let arguments = ["serve", "--config", "cluster.toml", "--node", name];
        crate::command::ServerProcess::start(sandbox.pario(&arguments))
    };
    let _nodes = (start("a"), start("b"));
    let arguments = ["--cluster", "a/pario.sock", "--key", "key", "--json", "df"];
    let output = sandbox.pario(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let systems: Vec<_> =
        json["disks"].as_array().unwrap().iter().map(|d| &d["file_system"]).collect();
    assert_eq!(systems, [0, 1, 0, 1], "{json}");
    let bytes = |disk: usize| json["disks"][disk]["total_bytes"].as_u64().unwrap();
    assert_eq!(json["total"]["total_bytes"], bytes(0) + bytes(1), "{json}");
}

#[test]
fn du_sums_directories() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 100_000, 1);
        sandbox.write("y", 50_000, 2);
        sandbox.ok(&["mkdir", "-p", "/runs/7/deep", "/runs/8"]);
        for (from, to) in
            [("x", "pario:/runs/7/x"), ("y", "pario:/runs/7/deep/y"), ("x", "pario:/x")]
        {
            let output = sandbox.run(&["cp", from, to]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        }
        let json = sandbox.json(&["du", "/runs"]);
        let rows: Vec<_> = json
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row["path"].as_str().unwrap(), row["size_bytes"].as_u64().unwrap()))
            .collect();
        let expected =
            [("/runs/7/deep", 50_000), ("/runs/7", 150_000), ("/runs/8", 0), ("/runs", 150_000)];
        assert_eq!(rows, expected, "{json}");
        let sum = &json[3];
        assert_eq!((&sum["files"], &sum["directories"]), (&json!(2), &json!(4)));
        assert!(sum["disk_bytes"].as_u64().unwrap() >= 150_000, "{sum}");

        let text = sandbox.ok(&["du", "-sb", "/runs", "/x"]);
        let lines: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["data", "on", "disk", "path"], "{text}");
        assert_eq!((lines[1][0], lines[1][2]), ("150000", "/runs"), "{text}");
        assert_eq!((lines[2][0], lines[2][2]), ("100000", "/x"), "{text}");
        assert_eq!(lines.len(), 3, "{text}");

        let text = sandbox.ok(&["du", "-h", "-d", "1"]);
        let paths: Vec<_> =
            text.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(paths, ["/runs", "/"], "{text}");
        assert!(text.contains(" KiB  "), "{text}");
        let text = sandbox.ok(&["du", "-a", "/runs/7"]);
        assert!(text.contains("  /runs/7/x\n") && text.contains("  /runs/7/deep/y\n"), "{text}");
        assert_eq!(sandbox.json(&["du", "/x"])[0]["files"], 1);
    }
}

#[test]
fn du_names_what_is_not_there_and_counts_the_rest() {
    let sandbox = Sandbox::served();
    sandbox.ok(&["mkdir", "/a"]);
    let output = sandbox.run(&["--json", "du", "/no", "/a"]);
    assert_eq!(output.status.code(), Some(3));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json[0]["path"], "/a");
    let told: Value = serde_json::from_str(stderr(&output)).unwrap();
    assert_eq!(told["exit_code"], 3);
    let output = sandbox.run(&["du", "/no", "/a"]);
    assert!(stderr(&output).starts_with("pario: /no"), "{}", stderr(&output));
    assert!(stdout(&output).ends_with("  /a\n"), "{}", stdout(&output));
    let help = sandbox.ok(&["du", "--help"]);
    assert!(help.contains("--summarize"), "{help}");
}
