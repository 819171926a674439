//! `pario cp` and `pario cat`: to, from and inside the cluster, compared byte by byte.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::command::{Sandbox, stderr, stdout};

#[test]
fn files_of_all_sizes_go_in_and_out() {
    for sandbox in Sandbox::both() {
        for (number, len) in [0, 1, 65_535, 65_536, 262_145, 5_000_001].into_iter().enumerate() {
            let bytes = sandbox.write("in", len, number as u64);
            sandbox.ok(&["cp", "--verify", "in", "/file"]);
            sandbox.ok(&["cp", "/file", "out"]);
            assert!(sandbox.read("out") == bytes, "{len}");
            assert_eq!(sandbox.json(&["stat", "/file"])[0]["size_bytes"], len);
        }
    }
}

#[test]
fn the_way_through_the_node_gives_the_same() {
    let sandbox = Sandbox::served();
    let bytes = sandbox.write("in", 3_000_000, 1);
    sandbox.ok(&["--no-short-cut", "cp", "in", "/a"]);
    sandbox.ok(&["cp", "in", "/b"]);
    sandbox.ok(&["cp", "/a", "out-a"]);
    sandbox.ok(&["--no-short-cut", "cp", "/b", "out-b"]);
    assert!(sandbox.read("out-a") == bytes && sandbox.read("out-b") == bytes);
}

#[test]
fn a_shorter_file_replaces_a_longer_one() {
    for sandbox in Sandbox::both() {
        sandbox.write("long", 1_000_000, 1);
        let short = sandbox.write("short", 1000, 2);
        sandbox.ok(&["cp", "long", "/x"]);
        sandbox.ok(&["cp", "short", "/x"]);
        sandbox.ok(&["cp", "pario:/x", "long"]);
        assert!(sandbox.read("long") == short);
    }
}

#[test]
fn a_slash_at_the_end_makes_the_directory() {
    for sandbox in Sandbox::both() {
        let bytes = sandbox.write("results.h5", 100_000, 1);
        sandbox.ok(&["cp", "results.h5", "/runs/7/"]);
        assert_eq!(sandbox.ok(&["ls", "/runs/7"]), "results.h5\n");
        sandbox.ok(&["cp", "pario:/runs/7/results.h5", "back/"]);
        assert!(sandbox.read("back/results.h5") == bytes);
    }
}

#[test]
fn several_files_go_into_a_directory() {
    for sandbox in Sandbox::both() {
        sandbox.write("a", 10, 1);
        sandbox.write("b", 10, 2);
        sandbox.ok(&["mkdir", "/d"]);
        sandbox.ok(&["cp", "a", "b", "/d"]);
        assert_eq!(sandbox.ok(&["ls", "/d"]), "a\nb\n");
        assert!(sandbox.refused(2, &["cp", "a", "b", "/e"]).contains("directory"));
        assert!(sandbox.refused(2, &["cp", "a", "b", "/d/a"]).contains("directory"));
    }
}

#[test]
fn trees_are_copied_in_inside_and_out() {
    for sandbox in Sandbox::both() {
        fs::create_dir_all(sandbox.file("tree/deep/empty")).unwrap();
        let top = sandbox.write("tree/top", 70_000, 1);
        let deep = sandbox.write("tree/deep/file", 130_000, 2);
        assert!(sandbox.refused(2, &["cp", "tree", "/t"]).contains("-r"));
        sandbox.ok(&["cp", "-r", "tree", "/t"]);
        sandbox.ok(&["cp", "-r", "pario:/t", "pario:/u"]);
        assert_eq!(
            sandbox.ok(&["ls", "-R", "/u"]),
            "/u:\ndeep/\ntop\n\n/u/deep:\nempty/\nfile\n\n/u/deep/empty:\n"
        );
        sandbox.ok(&["cp", "-r", "/u", "out"]);
        assert!(sandbox.read("out/top") == top);
        assert!(sandbox.read("out/deep/file") == deep);
        assert!(sandbox.file("out/deep/empty").is_dir());
        assert!(
            sandbox.refused(2, &["cp", "-r", "pario:/t", "pario:/t/inside"]).contains("itself")
        );
    }
}

#[test]
fn what_is_no_file_is_left_out_and_told() {
    let sandbox = Sandbox::empty();
    fs::create_dir(sandbox.file("tree")).unwrap();
    let socket = sandbox.file("tree/socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    sandbox.write("tree/x", 10, 1);
    let output = sandbox.run(&["cp", "-r", "tree", "/t"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("tree/socket: it is neither a file"), "{}", stderr(&output));
    assert_eq!(sandbox.ok(&["ls", "/t"]), "x\n");
}

#[test]
fn streams_go_in_and_out() {
    for sandbox in Sandbox::both() {
        let bytes = sandbox.write("x", 5_000_000, 1);
        let output = sandbox.run_with(&bytes, &["cp", "-", "/stream"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        for arguments in [&["cp", "/stream", "-"][..], &["cat", "/stream"]] {
            let output = sandbox.run(arguments);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(output.stdout == bytes, "{arguments:?}");
        }
    }
}

#[test]
fn parts_of_files_are_printed() {
    for sandbox in Sandbox::both() {
        let bytes = sandbox.write("x", 200_000, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        for (offset, length) in [(0, 10), (65_530, 20), (199_990, 100), (200_000, 5), (1 << 40, 5)]
        {
            let (from, len) = (offset.to_string(), length.to_string());
            let output = sandbox.run(&["cat", "--offset", &from, "--length", &len, "/x"]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let start = bytes.len().min(offset);
            let end = bytes.len().min(offset + length);
            assert!(output.stdout == bytes[start..end], "{offset}+{length}");
        }
    }
}

#[test]
fn layouts_are_as_wished() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 3 << 20, 1);
        sandbox.ok(&["cp", "x", "/x", "--unit", "1MiB", "--disks", "2"]);
        let known = sandbox.json(&["stat", "/x"]);
        assert_eq!(known[0]["unit_bytes"], 1 << 20);
        assert_eq!(known[0]["subfiles"].as_array().unwrap().len(), 2);
        sandbox.ok(&["cp", "x", "/y", "--disks", "local/disk2,local/disk1"]);
        let known = sandbox.json(&["stat", "/y"]);
        let disks: Vec<_> =
            known[0]["subfiles"].as_array().unwrap().iter().map(|s| &s["disk"]).collect();
        assert_eq!(disks, ["local/disk2", "local/disk1"]);
        assert!(sandbox.refused(2, &["cp", "x", "/z", "--disks", "5"]).contains('5'));
        assert!(sandbox.refused(2, &["cp", "x", "/z", "--disks", "local/disk9"]).contains("disk9"));
    }
}

#[test]
fn permissions_are_kept() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        fs::set_permissions(sandbox.file("x"), fs::Permissions::from_mode(0o440)).unwrap();
        sandbox.ok(&["cp", "x", "/x"]);
        assert_eq!(sandbox.json(&["stat", "/x"])[0]["mode"], "0440");
        sandbox.ok(&["cp", "/x", "y"]);
        let mode = fs::metadata(sandbox.file("y")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o440);
    }
}

#[test]
fn what_is_meant_is_told_where_it_is_unclear() {
    let sandbox = Sandbox::empty();
    sandbox.write("x", 10, 1);
    assert!(sandbox.refused(2, &["cp", "x", "y"]).contains("pario:/PATH"));
    assert!(
        sandbox.refused(2, &["cp", "/x", "/tmp/"]).contains("write file:/tmp/ for the local one")
    );
    assert!(sandbox.refused(3, &["cp", "missing", "/x"]).contains("missing"));
    assert!(sandbox.refused(3, &["cp", "/missing", "x"]).contains("/missing"));
    assert!(sandbox.refused(2, &["cp", "pario:/x", "pario:/x"]).contains("itself"));
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_complain() {
    let sandbox = Sandbox::empty();
    sandbox.write("x", 5_000_000, 1);
    sandbox.ok(&["cp", "x", "/x"]);
    let mut child = sandbox
        .on_cluster(&["cat", "/x"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((stdout(&output), stderr(&output)), ("", ""));
}
