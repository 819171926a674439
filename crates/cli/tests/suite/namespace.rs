//! Directories, files, permissions, and their display, on an embedded and on a served cluster.

use crate::command::Sandbox;

#[test]
fn directories_are_made_listed_and_removed() {
    for sandbox in Sandbox::both() {
        assert_eq!(sandbox.ok(&["ls"]), "");
        sandbox.ok(&["mkdir", "/runs", "/other"]);
        sandbox.ok(&["mkdir", "-p", "/runs/7/logs", "/runs/7"]);
        assert_eq!(sandbox.ok(&["ls"]), "other/\nruns/\n");
        assert_eq!(sandbox.ok(&["ls", "/runs"]), "7/\n");
        assert_eq!(
            sandbox.ok(&["ls", "-R", "/runs"]),
            "/runs:\n7/\n\n/runs/7:\nlogs/\n\n/runs/7/logs:\n"
        );
        assert!(sandbox.refused(1, &["mkdir", "/runs"]).contains("/runs: it exists already"));
        let told = sandbox.refused(3, &["mkdir", "/no/where"]);
        assert!(
            told.contains("/no: there is no such file or directory; `pario mkdir -p` "),
            "{told}"
        );
        assert!(sandbox.refused(1, &["rmdir", "/runs"]).contains("not empty"));
        assert!(sandbox.refused(3, &["rmdir", "/nowhere"]).contains("/nowhere"));
        sandbox.ok(&["rmdir", "/other", "/runs/7/logs"]);
        assert_eq!(sandbox.ok(&["ls", "/runs/7"]), "");
    }
}

#[test]
fn files_are_removed_alone_and_with_their_directories() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        sandbox.ok(&["mkdir", "-p", "/a/b/c"]);
        for path in ["/x", "/y", "/a/x", "/a/b/x", "/a/b/c/x"] {
            sandbox.ok(&["cp", "x", path]);
        }
        sandbox.ok(&["rm", "/x"]);
        assert!(sandbox.refused(3, &["rm", "/x"]).contains("/x: there is no such file"));
        sandbox.ok(&["rm", "-f", "/x"]);
        let told = sandbox.refused(1, &["rm", "/a"]);
        assert!(told.contains("/a: this is a directory, not a file; `pario rm -r` "), "{told}");
        assert!(sandbox.refused(1, &["rmdir", "/y"]).contains("/y: this is a file"));
        let removed = sandbox.json(&["rm", "-r", "/a"]);
        assert_eq!((&removed["files"], &removed["directories"]), (&3.into(), &3.into()));
        assert_eq!(sandbox.ok(&["ls"]), "y\n");
        assert!(sandbox.refused(2, &["rm", "-r", "/"]).contains("root"));
    }
}

#[test]
fn files_and_directories_are_renamed_and_moved() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        sandbox.ok(&["mkdir", "/a", "/b"]);
        sandbox.ok(&["cp", "x", "/x"]);
        sandbox.ok(&["mv", "/x", "/y"]);
        sandbox.ok(&["mv", "/y", "/a"]);
        sandbox.ok(&["mv", "/a", "/b/"]);
        assert_eq!(sandbox.ok(&["ls", "/b/a"]), "y\n");
        assert!(sandbox.refused(2, &["mv", "/b", "/b/a/c"]).contains("inside of it"));
        assert!(sandbox.refused(3, &["mv", "/nowhere", "/z"]).contains("/nowhere"));
        assert!(sandbox.refused(2, &["mv", "/b", "/nowhere/"]).contains("not a directory"));
        assert!(
            sandbox.refused(2, &["mv", "/b/a", "/b/a/y", "/b/a/y"]).contains("not a directory")
        );
    }
}

#[test]
fn the_long_list_shows_mode_owner_size_and_date() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 3 << 20, 1);
        sandbox.ok(&["mkdir", "/d"]);
        sandbox.ok(&["cp", "x", "/x"]);
        sandbox.ok(&["chmod", "640", "/x"]);
        let text = sandbox.ok(&["ls", "-l"]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with('d') && lines[0].ends_with("  d/"), "{text}");
        assert!(lines[1].starts_with("-rw-r-----  "), "{text}");
        assert!(lines[1].contains("  3 MiB  20") && lines[1].ends_with("  x"), "{text}");
        assert_eq!(sandbox.ok(&["ls", "-l", "/x"]).trim_end(), lines[1]);
    }
}

#[test]
fn permissions_and_owners_change() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        sandbox.ok(&["chmod", "600", "/x"]);
        sandbox.ok(&["chmod", "g+r,u-w", "/x"]);
        assert_eq!(sandbox.json(&["stat", "/x"])[0]["mode"], "0440");
        assert!(sandbox.refused(2, &["chmod", "999", "/x"]).contains("999"));
        assert!(sandbox.refused(3, &["chmod", "600", "/nowhere"]).contains("/nowhere"));
        assert!(sandbox.refused(2, &["chown", "no such user", "/x"]).contains("no such user"));
        let own = rustix::process::getuid().as_raw().to_string();
        sandbox.ok(&["chown", &own, "/x"]);
        if own == "0" {
            sandbox.ok(&["chown", "17:18", "/x"]);
            let known = sandbox.json(&["stat", "/x"]);
            assert_eq!((&known[0]["uid"], &known[0]["gid"]), (&17.into(), &18.into()));
        }
    }
}

#[test]
fn stat_shows_layout_and_disks() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 1 << 20, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        let text = sandbox.ok(&["stat", "/x", "/"]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("/x   1 MiB, striped 64 KiB over 4 disks, owner "), "{text}");
        assert_eq!(text.matches("   256 KiB").count(), 4, "{text}");
        assert!(text.contains("local/disk0") && text.contains("local/disk3"), "{text}");
        assert!(lines[3].starts_with("/   directory, owner "), "{text}");
    }
}

#[test]
fn a_cluster_that_is_fine_is_shown_as_fine() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 1 << 20, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        let text = sandbox.ok(&["df"]);
        assert_eq!(text.lines().count(), 7, "{text}");
        assert!(text.contains("local/disk3") && text.contains("total"), "{text}");
        let text = sandbox.ok(&["status"]);
        assert!(text.contains("1 node") && text.contains("local/disk0"), "{text}");
        for options in [&["fsck"][..], &["fsck", "--deep"], &["fsck", "--repair"]] {
            let text = sandbox.ok(options);
            assert!(text.ends_with("everything is fine\n"), "{options:?}");
            let has_bytes =
                text.contains("verified 0 bytes by checksum; 1048576 bytes have no checksum");
            assert_eq!(has_bytes, options.contains(&"--deep"), "{text}");
        }
        let text = sandbox.ok(&["top", "--once", "--interval", "0.05"]);
        assert!(text.starts_with("cluster ") && text.contains("local/disk2"), "{text}");
    }
}

#[test]
fn a_missing_namespace_is_rebuilt_from_the_disks() {
    let sandbox = Sandbox::empty();
    let bytes = sandbox.write("x", 300_000, 1);
    sandbox.ok(&["mkdir", "/runs"]);
    sandbox.ok(&["cp", "x", "/runs/x"]);
    let disks: Vec<_> = std::fs::read_dir(sandbox.file("data")).unwrap().flatten().collect();
    for entry in disks {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("disk") && entry.path().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let told = sandbox.refused(1, &["ls"]);
    assert!(told.contains("fsck --rebuild"), "{told}");
    let found = sandbox.json(&["fsck", "--rebuild"]);
    assert_eq!(found["findings"][0]["kind"], "rebuilt");
    sandbox.ok(&["cp", "pario:/runs/x", "again"]);
    assert!(sandbox.read("again") == bytes);
}

#[test]
fn a_large_copy_has_its_name_after_a_rebuild() {
    let sandbox = Sandbox::empty();
    let bytes = sandbox.write("big", 33 << 20, 1);
    sandbox.ok(&["cp", "big", "/runs/"]);
    for entry in std::fs::read_dir(sandbox.file("data")).unwrap().flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("disk") && entry.path().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let found = sandbox.json(&["fsck", "--rebuild"]);
    assert_eq!(found["findings"][0]["path"], "/runs/big");
    sandbox.ok(&["get", "/runs/big", "again"]);
    assert!(sandbox.read("again") == bytes);
}
