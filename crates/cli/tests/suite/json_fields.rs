//! `--json`: the fields that `docs/command.md` promises.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::command::Sandbox;
use serde_json::{Value, json};

/// Returns the names of the fields of an object, in order.
fn fields(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("{value} is no object"));
    object.keys().map(String::as_str).collect()
}

#[test]
fn lists_and_stats_have_the_promised_fields() {
    const ENTRY: [&str; 13] = [
        "created_ns",
        "disk_bytes",
        "gid",
        "group",
        "id",
        "kind",
        "mode",
        "modified_ns",
        "name",
        "owner",
        "path",
        "size_bytes",
        "uid",
    ];
    for sandbox in Sandbox::both() {
        sandbox.write("x", 100_000, 1);
        assert_eq!(sandbox.json(&["ls"]), json!([]));
        sandbox.ok(&["mkdir", "/d"]);
        sandbox.ok(&["cp", "x", "/d/x"]);
        let listed = sandbox.json(&["ls", "-R", "/"]);
        assert_eq!(listed.as_array().unwrap().len(), 2);
        assert_eq!(fields(&listed[0]), ENTRY);
        assert_eq!(listed[0]["kind"], "directory");
        assert_eq!(listed[0]["size_bytes"], Value::Null);
        assert_eq!(listed[1]["path"], "/d/x");
        assert_eq!(listed[1]["size_bytes"], 100_000);

        let known = sandbox.json(&["stat", "/d/x"]);
        for name in ENTRY.iter().chain(&["layout", "unit_bytes", "subfiles"]) {
            assert!(known[0].get(name).is_some(), "{name}");
        }
        let subfile = ["disk", "disk_bytes", "extents", "settled", "size_bytes", "subfile"];
        assert_eq!(fields(&known[0]["subfiles"][0]), subfile);
        let sum: u64 = known[0]["subfiles"]
            .as_array()
            .unwrap()
            .iter()
            .map(|subfile| subfile["size_bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(sum, 100_000);
    }
}

#[test]
fn changes_say_what_they_did() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 100_000, 1);
        assert_eq!(sandbox.json(&["mkdir", "/a", "/b"]), json!({ "made": ["/a", "/b"] }));
        assert_eq!(sandbox.json(&["rmdir", "/b"]), json!({ "removed": ["/b"] }));
        let copied = sandbox.json(&["cp", "--verify", "x", "/a"]);
        let names = [
            "bytes",
            "bytes_per_second",
            "copied",
            "directories",
            "failed",
            "files",
            "seconds",
            "skipped",
        ];
        assert_eq!(fields(&copied), names);
        assert_eq!(copied["copied"][0]["from"], "x");
        assert_eq!(copied["copied"][0]["to"], "pario:/a/x");
        assert_eq!(copied["copied"][0]["verified"], true);
        assert_eq!(copied["bytes"], 100_000);
        let moved = sandbox.json(&["mv", "/a/x", "/y"]);
        assert_eq!(moved, json!({ "moved": [{ "from": "/a/x", "to": "/y" }] }));
        let changed = sandbox.json(&["chmod", "600", "/y"]);
        assert_eq!(changed, json!({ "changed": [{ "path": "/y", "mode": "0600", "untold": [] }] }));
        let removed = sandbox.json(&["rm", "-r", "/a", "/y"]);
        assert_eq!(removed, json!({ "files": 1, "directories": 1 }));
    }
}

#[test]
fn the_state_of_the_cluster_has_the_promised_fields() {
    for sandbox in Sandbox::both() {
        let status = sandbox.json(&["status"]);
        assert_eq!(fields(&status), ["cluster", "jobs", "nodes"]);
        let node = &status["nodes"][0];
        for name in [
            "node",
            "address",
            "state",
            "trouble",
            "pid",
            "uptime_ms",
            "interface",
            "requests",
            "oldest_request_ms",
            "open_files",
            "files",
            "cache_bytes",
            "disks",
            "clients",
            "peers",
        ] {
            assert!(node.get(name).is_some(), "{name}");
        }
        assert_eq!((&node["state"], &node["interface"]), (&json!("up"), &json!(true)));
        assert_eq!(node["disks"].as_array().unwrap().len(), 4);

        let top = sandbox.json(&["top", "--interval", "0.05"]);
        let disk = &top["nodes"][0]["disks"][0];
        for name in ["read_bytes_per_second", "written_bytes_per_second", "requests_per_second"] {
            assert!(disk[name].is_u64(), "{name}");
        }

        let df = sandbox.json(&["df"]);
        assert_eq!(fields(&df), ["disks", "silent_nodes", "total"]);
        assert_eq!(
            fields(&df["disks"][0]),
            ["disk", "file_system", "free_bytes", "path", "read_only", "total_bytes"]
        );

        let checked = sandbox.json(&["fsck"]);
        let bytes = ["unverified_bytes", "verified_bytes"];
        let all = [&["files", "findings", "fine", "silent_nodes", "subfiles"][..], &bytes].concat();
        assert_eq!(fields(&checked), all);
        assert_eq!(checked["fine"], true);
    }
}

#[test]
fn figures_of_cat_go_to_stderr() {
    let sandbox = Sandbox::empty();
    let bytes = sandbox.write("x", 1000, 1);
    sandbox.ok(&["cp", "x", "/x"]);
    let output = sandbox.run(&["--json", "cat", "/x"]);
    assert!(output.stdout == bytes);
    let figures: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(figures, json!({ "printed": [{ "path": "/x", "offset": 0, "bytes": 1000 }] }));
}

#[test]
fn a_node_says_in_json_where_it_is_and_that_it_stops() {
    let sandbox = Sandbox::empty();
    let mut child = sandbox
        .pario(&["--json", "serve", "--data", "data"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let said = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    for line in said.lines() {
        let line = line.unwrap();
        text += &line;
        // The object is printed over several lines; only its last line is not indented.
        if line == "}" {
            break;
        }
    }
    let started: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        fields(&started),
        ["address", "cluster", "data", "disks", "key_file", "metrics", "node", "pid"]
    );
    assert_eq!(started["pid"], child.id());
    let address = started["address"].as_str().unwrap();
    let output = sandbox.pario(&["--json", "--cluster", address, "stop"]).output().unwrap();
    let stopped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(stopped, json!({ "stopped": ["local"] }));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_failure_leaves_a_whole_document_or_none() {
    for sandbox in Sandbox::both() {
        sandbox.ok(&["mkdir", "/a"]);
        for (arguments, listed) in [
            (&["ls", "/no"][..], None),
            (&["ls", "/", "/no"], Some(1)),
            (&["ls", "-R", "/", "/no", "/a"], Some(1)),
            (&["stat", "/no"], None),
            (&["cat", "/no"], None),
            (&["rm", "/no"], None),
            (&["du", "/", "/no"], Some(2)),
            (&["compact", "/no"], None),
        ] {
            let output = sandbox.run(&[&["--json"], arguments].concat());
            assert_eq!(output.status.code(), Some(3), "{arguments:?}");
            let text = std::str::from_utf8(&output.stdout).unwrap();
            let document = (!text.is_empty()).then(|| {
                let document: Value = serde_json::from_str(text)
                    .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
                document.as_array().unwrap().len()
            });
            assert_eq!(document, listed, "{arguments:?}: {text}");
            let error: Value = serde_json::from_slice(&output.stderr).unwrap();
            assert_eq!(fields(&error), ["error", "exit_code"], "{arguments:?}");
            assert_eq!(error["exit_code"], 3, "{arguments:?}");
            assert!(error["error"].as_str().unwrap().contains("/no"), "{arguments:?}: {error}");
        }
    }
}
