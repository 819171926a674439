//! `pario cp` and `pario cat`: to, from and inside the cluster, compared byte by byte.

mod command;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use command::{Site, stderr, stdout};

#[test]
fn files_of_all_sizes_go_in_and_out() {
    for site in Site::both() {
        for (number, len) in [0, 1, 65_535, 65_536, 262_145, 5_000_001].into_iter().enumerate() {
            let bytes = site.write("in", len, number as u64);
            site.ok(&["cp", "--verify", "in", "/file"]);
            site.ok(&["cp", "/file", "out"]);
            assert!(site.read("out") == bytes, "{len}");
            assert_eq!(site.json(&["stat", "/file"])[0]["size_bytes"], len);
        }
    }
}

#[test]
fn the_way_through_the_node_gives_the_same() {
    let site = Site::served();
    let bytes = site.write("in", 3_000_000, 1);
    site.ok(&["--no-short-cut", "cp", "in", "/a"]);
    site.ok(&["cp", "in", "/b"]);
    site.ok(&["cp", "/a", "out-a"]);
    site.ok(&["--no-short-cut", "cp", "/b", "out-b"]);
    assert!(site.read("out-a") == bytes && site.read("out-b") == bytes);
}

#[test]
fn a_shorter_file_replaces_a_longer_one() {
    for site in Site::both() {
        site.write("long", 1_000_000, 1);
        let short = site.write("short", 1000, 2);
        site.ok(&["cp", "long", "/x"]);
        site.ok(&["cp", "short", "/x"]);
        site.ok(&["cp", "pario:/x", "long"]);
        assert!(site.read("long") == short);
    }
}

#[test]
fn a_slash_at_the_end_makes_the_directory() {
    for site in Site::both() {
        let bytes = site.write("results.h5", 100_000, 1);
        site.ok(&["cp", "results.h5", "/runs/7/"]);
        assert_eq!(site.ok(&["ls", "/runs/7"]), "results.h5\n");
        site.ok(&["cp", "pario:/runs/7/results.h5", "back/"]);
        assert!(site.read("back/results.h5") == bytes);
    }
}

#[test]
fn several_files_go_into_a_directory() {
    for site in Site::both() {
        site.write("a", 10, 1);
        site.write("b", 10, 2);
        site.ok(&["mkdir", "/d"]);
        site.ok(&["cp", "a", "b", "/d"]);
        assert_eq!(site.ok(&["ls", "/d"]), "a\nb\n");
        assert!(site.refused(2, &["cp", "a", "b", "/e"]).contains("directory"));
        assert!(site.refused(2, &["cp", "a", "b", "/d/a"]).contains("directory"));
    }
}

#[test]
fn trees_are_copied_in_inside_and_out() {
    for site in Site::both() {
        fs::create_dir_all(site.file("tree/deep/empty")).unwrap();
        let top = site.write("tree/top", 70_000, 1);
        let deep = site.write("tree/deep/file", 130_000, 2);
        assert!(site.refused(2, &["cp", "tree", "/t"]).contains("-r"));
        site.ok(&["cp", "-r", "tree", "/t"]);
        site.ok(&["cp", "-r", "pario:/t", "pario:/u"]);
        assert_eq!(
            site.ok(&["ls", "-R", "/u"]),
            "/u:\ndeep/\ntop\n\n/u/deep:\nempty/\nfile\n\n/u/deep/empty:\n"
        );
        site.ok(&["cp", "-r", "/u", "out"]);
        assert!(site.read("out/top") == top);
        assert!(site.read("out/deep/file") == deep);
        assert!(site.file("out/deep/empty").is_dir());
        assert!(site.refused(2, &["cp", "-r", "pario:/t", "pario:/t/inside"]).contains("itself"));
    }
}

#[test]
fn what_is_no_file_is_left_out_and_told() {
    let site = Site::empty();
    fs::create_dir(site.file("tree")).unwrap();
    let socket = site.file("tree/socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    site.write("tree/x", 10, 1);
    let output = site.run(&["cp", "-r", "tree", "/t"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("tree/socket: it is neither a file"), "{}", stderr(&output));
    assert_eq!(site.ok(&["ls", "/t"]), "x\n");
}

#[test]
fn streams_go_in_and_out() {
    for site in Site::both() {
        let bytes = site.write("x", 5_000_000, 1);
        let output = site.run_with(&bytes, &["cp", "-", "/stream"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        for arguments in [&["cp", "/stream", "-"][..], &["cat", "/stream"]] {
            let output = site.run(arguments);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(output.stdout == bytes, "{arguments:?}");
        }
    }
}

#[test]
fn parts_of_files_are_printed() {
    for site in Site::both() {
        let bytes = site.write("x", 200_000, 1);
        site.ok(&["cp", "x", "/x"]);
        for (offset, length) in [(0, 10), (65_530, 20), (199_990, 100), (200_000, 5), (1 << 40, 5)]
        {
            let (from, len) = (offset.to_string(), length.to_string());
            let output = site.run(&["cat", "--offset", &from, "--length", &len, "/x"]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let start = bytes.len().min(offset);
            let end = bytes.len().min(offset + length);
            assert!(output.stdout == bytes[start..end], "{offset}+{length}");
        }
    }
}

#[test]
fn layouts_are_as_wished() {
    for site in Site::both() {
        site.write("x", 3 << 20, 1);
        site.ok(&["cp", "x", "/x", "--unit", "1MiB", "--disks", "2"]);
        let known = site.json(&["stat", "/x"]);
        assert_eq!(known[0]["unit_bytes"], 1 << 20);
        assert_eq!(known[0]["subfiles"].as_array().unwrap().len(), 2);
        site.ok(&["cp", "x", "/y", "--disks", "local/disk2,local/disk1"]);
        let known = site.json(&["stat", "/y"]);
        let disks: Vec<_> =
            known[0]["subfiles"].as_array().unwrap().iter().map(|s| &s["disk"]).collect();
        assert_eq!(disks, ["local/disk2", "local/disk1"]);
        assert!(site.refused(2, &["cp", "x", "/z", "--disks", "5"]).contains('5'));
        assert!(site.refused(2, &["cp", "x", "/z", "--disks", "local/disk9"]).contains("disk9"));
    }
}

#[test]
fn permissions_are_kept() {
    for site in Site::both() {
        site.write("x", 10, 1);
        fs::set_permissions(site.file("x"), fs::Permissions::from_mode(0o440)).unwrap();
        site.ok(&["cp", "x", "/x"]);
        assert_eq!(site.json(&["stat", "/x"])[0]["mode"], "0440");
        site.ok(&["cp", "/x", "y"]);
        let mode = fs::metadata(site.file("y")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o440);
    }
}

#[test]
fn what_is_meant_is_told_where_it_is_unclear() {
    let site = Site::empty();
    site.write("x", 10, 1);
    assert!(site.refused(2, &["cp", "x", "y"]).contains("pario:/PATH"));
    assert!(site.refused(2, &["cp", "/x", "/tmp/"]).contains("write file:/tmp/ for the local one"));
    assert!(site.refused(3, &["cp", "missing", "/x"]).contains("missing"));
    assert!(site.refused(3, &["cp", "/missing", "x"]).contains("/missing"));
    assert!(site.refused(2, &["cp", "pario:/x", "pario:/x"]).contains("itself"));
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_complain() {
    let site = Site::empty();
    site.write("x", 5_000_000, 1);
    site.ok(&["cp", "x", "/x"]);
    let mut child = site
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
