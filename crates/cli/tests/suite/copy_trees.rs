//! `pario cp`, `put` and `get` of many files: targets, skipped files, failures, times, and
//! interrupted copies.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::command::{Sandbox, stderr, stdout};

/// A time long before any test.
const LONG_AGO_NS: u64 = 1_000_000_000_123_456_789;

fn set_time(sandbox: &Sandbox, name: &str, time_ns: u64) {
    let file = fs::File::open(sandbox.file(name)).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_nanos(time_ns)).unwrap();
}

fn time_of(sandbox: &Sandbox, name: &str) -> u64 {
    let time = fs::metadata(sandbox.file(name)).unwrap().modified().unwrap();
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Returns the local names that begin with a dot.
fn hidden(sandbox: &Sandbox, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(sandbox.file(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn it_is_said_where_the_bytes_went() {
    for sandbox in Sandbox::both() {
        sandbox.write("a", 10, 1);
        sandbox.write("b", 2000, 2);
        assert_eq!(sandbox.ok(&["cp", "a", "/runs/"]), "a -> pario:/runs/a  10 B\n");
        assert_eq!(
            sandbox.ok(&["put", "a", "b", "/runs/"]),
            "a -> pario:/runs/a  10 B\nb -> pario:/runs/b  2 KiB\n"
        );
        assert_eq!(sandbox.ok(&["get", "/runs/b", "c"]), "pario:/runs/b -> c  2 KiB\n");
        assert_eq!(
            sandbox.ok(&["cp", "/runs/b", "/runs/c"]),
            "pario:/runs/b -> pario:/runs/c  2 KiB\n"
        );

        fs::create_dir(sandbox.file("many")).unwrap();
        for number in 0..20 {
            sandbox.write(&format!("many/{number}"), 100, number);
        }
        let said = sandbox.ok(&["cp", "-r", "many", "/m"]);
        assert_eq!(said, "many -> pario:/m  20 files in 1 directory, 2 KiB\n");
        let said = sandbox.ok(&["cp", "-rv", "many", "/v"]);
        assert_eq!(said.lines().count(), 21, "{said}");
        assert!(said.contains("many/7 -> pario:/v/7  100 B\n"), "{said}");
        let json = sandbox.json(&["cp", "-r", "many", "/j"]);
        assert_eq!(json["copied"].as_array().unwrap().len(), 20);
        assert_eq!(json["copied"][0]["to"], "pario:/j/0");
    }
}

#[test]
fn put_and_get_leave_no_doubt() {
    let sandbox = Sandbox::empty();
    let bytes = sandbox.write("x", 1000, 1);
    let here = sandbox.file("x").display().to_string();
    let directory = format!("{}/", sandbox.path().display());
    // Both sides could be local or in the cluster.
    let refused = sandbox.refused(2, &["cp", &here, "/runs/"]);
    assert!(refused.contains(&format!("write file:{here} for the local one, pario:{here} for")));
    sandbox.ok(&["put", &here, "/runs/"]);
    let refused = sandbox.refused(2, &["cp", "/runs/x", &directory]);
    assert!(refused.starts_with(&format!("pario: cp: {directory} could be a local")), "{refused}");
    sandbox.ok(&["get", "/runs/x", &format!("{directory}y")]);
    assert!(sandbox.read("y") == bytes);
    sandbox.ok(&["cp", &format!("file:{here}"), "/runs/z"]);
    fs::remove_file(sandbox.file("x")).unwrap();
    assert_eq!(sandbox.ok(&["get", "/runs/x"]), "pario:/runs/x -> ./x  1000 B\n");
    fs::remove_file(sandbox.file("x")).unwrap();
    sandbox.ok(&["get", "pario:/runs/x", "pario:/runs/z"]);
    assert!(sandbox.read("x") == bytes && sandbox.read("z") == bytes);
    assert!(sandbox.refused(2, &["get", "x", "y"]).contains("slash"));
    assert!(sandbox.refused(2, &["put", "pario:/runs/x", "/y"]).contains("pario cp"));
    let output = sandbox.run(&["get", "/runs/x", "-"]);
    assert!(output.stdout == bytes && stderr(&output).is_empty());
}

#[test]
fn the_others_are_copied_after_a_failure() {
    for sandbox in Sandbox::both() {
        fs::create_dir_all(sandbox.file("tree/below")).unwrap();
        for name in ["tree/a", "tree/b", "tree/below/c"] {
            sandbox.write(name, 100, 1);
        }
        // A directory exists at the target of a file.
        sandbox.ok(&["mkdir", "-p", "/t/b"]);
        let output = sandbox.run(&["cp", "-r", "tree/a", "tree/b", "tree/below", "/t/"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.starts_with("pario: 1 of 3 files not copied:\n"), "{said}");
        assert!(said.contains("/t/b: this is a directory"), "{said}");
        assert_eq!(
            sandbox.ok(&["ls", "-R", "/t"]),
            "/t:\na\nb/\nbelow/\n\n/t/b:\n\n/t/below:\nc\n"
        );
        let output = sandbox.run(&["--json", "cp", "tree/a", "missing", "tree/b", "/t/"]);
        assert_eq!(output.status.code(), Some(1));
        let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!(json["files"], 1);
        assert_eq!(json["failed"].as_array().unwrap().len(), 2);
        assert!(json["failed"][0]["error"].as_str().unwrap().contains("missing"));

        // The same on the way out.
        fs::create_dir_all(sandbox.file("out/a")).unwrap();
        let output = sandbox.run(&["get", "-r", "pario:/t/a", "pario:/t/below", "out"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(sandbox.file("out/below/c").is_file());
        assert!(hidden(&sandbox, "out").is_empty());
    }
}

#[test]
fn links_are_followed_as_asked() {
    for sandbox in Sandbox::both() {
        fs::create_dir_all(sandbox.file("tree/d")).unwrap();
        let bytes = sandbox.write("tree/file", 100, 1);
        sandbox.write("tree/d/inner", 50, 2);
        symlink("file", sandbox.file("tree/to-file")).unwrap();
        symlink("d", sandbox.file("tree/to-directory")).unwrap();
        symlink("tree/file", sandbox.file("named")).unwrap();

        let output = sandbox.run(&["cp", "-r", "tree", "/default"]);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(
            stderr(&output),
            "pario: 2 symbolic links are left out; -L copies what they point to\n"
        );
        assert_eq!(sandbox.ok(&["ls", "/default"]), "d/\nfile\n");
        let json = sandbox.run(&["--json", "cp", "-r", "tree", "/json"]);
        let json: serde_json::Value = serde_json::from_str(stdout(&json)).unwrap();
        assert_eq!(json["skipped"][0]["reason"], "link");

        sandbox.ok(&["cp", "-rL", "tree", "/followed"]);
        assert_eq!(sandbox.ok(&["ls", "/followed"]), "d/\nfile\nto-directory/\nto-file\n");
        assert_eq!(sandbox.ok(&["ls", "/followed/to-directory"]), "inner\n");

        sandbox.ok(&["cp", "named", "/named"]);
        assert!(sandbox.run(&["cat", "/named"]).stdout == bytes);
        assert!(
            stderr(&sandbox.run(&["cp", "-P", "named", "/skipped"])).contains("1 symbolic link is")
        );
        assert_eq!(sandbox.run(&["stat", "/skipped"]).status.code(), Some(3));

        // A link cycle is a failure, not an endless copy.
        symlink("..", sandbox.file("tree/d/up")).unwrap();
        let output = sandbox.run(&["cp", "-rL", "tree", "/loop"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("leads back"), "{}", stderr(&output));
        assert_eq!(sandbox.ok(&["ls", "/loop/d"]), "inner\n");
    }
}

#[test]
fn times_and_modes_are_kept() {
    for sandbox in Sandbox::both() {
        fs::create_dir(sandbox.file("tree")).unwrap();
        for (name, len) in [("tree/empty", 0), ("tree/small", 100), ("tree/large", 2_000_000)] {
            sandbox.write(name, len, 1);
            set_time(&sandbox, name, LONG_AGO_NS);
        }
        let private = fs::Permissions::from_mode(0o500);
        fs::set_permissions(sandbox.file("tree/small"), private.clone()).unwrap();
        set_time(&sandbox, "tree", LONG_AGO_NS);
        fs::set_permissions(sandbox.file("tree"), private).unwrap();

        sandbox.ok(&["cp", "-r", "tree", "/t"]);
        for path in ["/t", "/t/empty", "/t/small", "/t/large"] {
            assert_eq!(sandbox.json(&["stat", path])[0]["modified_ns"], LONG_AGO_NS, "{path}");
        }
        assert_eq!(sandbox.json(&["stat", "/t"])[0]["mode"], "0500");
        sandbox.ok(&["cp", "-r", "/t", "/inside"]);
        assert_eq!(sandbox.json(&["stat", "/inside/large"])[0]["modified_ns"], LONG_AGO_NS);
        sandbox.ok(&["get", "-r", "/t", "out"]);
        for name in ["out", "out/empty", "out/small", "out/large"] {
            assert_eq!(time_of(&sandbox, name), LONG_AGO_NS, "{name}");
        }
        assert_eq!(fs::metadata(sandbox.file("out")).unwrap().mode() & 0o777, 0o500);
        assert_eq!(fs::metadata(sandbox.file("out/small")).unwrap().mode() & 0o777, 0o500);

        // A single file has the time of its copy, unless -p is given.
        sandbox.ok(&["cp", "tree/large", "/now"]);
        assert_ne!(sandbox.json(&["stat", "/now"])[0]["modified_ns"], LONG_AGO_NS);
        sandbox.ok(&["cp", "-p", "tree/large", "/then"]);
        assert_eq!(sandbox.json(&["stat", "/then"])[0]["modified_ns"], LONG_AGO_NS);
        // Later writes change the time.
        sandbox.ok(&["cp", "tree/empty", "/then"]);
        assert_ne!(sandbox.json(&["stat", "/then"])[0]["modified_ns"], LONG_AGO_NS);
        let writable = fs::Permissions::from_mode(0o700);
        fs::set_permissions(sandbox.file("tree"), writable.clone()).unwrap();
        fs::set_permissions(sandbox.file("out"), writable).unwrap();
    }
}

#[test]
fn existing_files_are_left_alone_where_asked() {
    for sandbox in Sandbox::both() {
        let old = sandbox.write("x", 100, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        sandbox.write("x", 100, 2);
        let new = sandbox.write("y", 10, 3);
        sandbox.ok(&["mkdir", "/d"]);
        sandbox.ok(&["mv", "/x", "/d/x"]);
        let said = sandbox.ok(&["cp", "-n", "x", "y", "/d"]);
        assert_eq!(said, "y -> pario:/d/y  10 B\n1 file exists already\n");
        assert!(sandbox.run(&["cat", "/d/x"]).stdout == old);
        assert!(sandbox.run(&["cat", "/d/y"]).stdout == new);
        sandbox.ok(&["get", "-n", "/d/x", "x"]);
        assert!(sandbox.read("x") != old);
    }
}

#[test]
fn only_what_changed_is_copied() {
    for sandbox in Sandbox::both() {
        fs::create_dir(sandbox.file("tree")).unwrap();
        for name in ["same", "longer", "later", "large"] {
            sandbox.write(
                &format!("tree/{name}"),
                if name == "large" { 3_000_000 } else { 100 },
                1,
            );
            set_time(&sandbox, &format!("tree/{name}"), LONG_AGO_NS);
        }
        sandbox.ok(&["cp", "-r", "--update", "tree", "/t"]);
        let said = sandbox.ok(&["cp", "-r", "--update", "tree/.", "/t"]);
        assert!(said.ends_with("4 files are unchanged\n"), "{said}");
        sandbox.write("tree/longer", 101, 2);
        set_time(&sandbox, "tree/longer", LONG_AGO_NS);
        let later = sandbox.write("tree/later", 100, 3);
        set_time(&sandbox, "tree/later", LONG_AGO_NS + 1);
        sandbox.write("tree/new", 5, 4);
        let json = sandbox.json(&["cp", "-r", "--update", "tree/.", "/t"]);
        let copied: Vec<_> =
            json["copied"].as_array().unwrap().iter().map(|item| &item["from"]).collect();
        assert_eq!(copied, ["tree/./later", "tree/./longer", "tree/./new"]);
        assert!(sandbox.run(&["cat", "/t/later"]).stdout == later);

        // The same on the way out.
        sandbox.ok(&["get", "-r", "/t", "out"]);
        let said = sandbox.ok(&["get", "-ru", "/t/", "out"]);
        assert!(said.contains("out"), "{said}");
        let json = sandbox.json(&["cp", "-ru", "pario:/t", "."]);
        assert_eq!(json["files"], 5, "there is no ./t yet");
        let json = sandbox.json(&["cp", "-ru", "pario:/t", "."]);
        assert_eq!(
            (json["files"].as_u64(), json["skipped"].as_array().unwrap().len()),
            (Some(0), 5)
        );
    }
}

#[test]
fn a_copy_that_was_interrupted_is_continued() {
    const LEN: usize = 40 << 20;
    const DONE: usize = 24 << 20;
    for sandbox in Sandbox::both() {
        let bytes = sandbox.write("big", LEN, 1);
        set_time(&sandbox, "big", LONG_AGO_NS);
        // The remains of an earlier copy; its bytes differ to prove that it is really continued.
        let part = |time: u64, done: usize| format!(".big.{LEN:x}-{time:x}-{done:x}.pario-part");
        let earlier = sandbox.write("earlier", DONE, 2);
        let stale = part(LONG_AGO_NS + 1, DONE);
        sandbox.ok(&["mkdir", "/d"]);
        sandbox.ok(&["cp", "earlier", &format!("/d/{}", part(LONG_AGO_NS, DONE))]);
        sandbox.ok(&["cp", "earlier", &format!("/d/{stale}")]);
        let said = sandbox.ok(&["put", "-p", "big", "/d/"]);
        assert!(said.contains("continued at 24 MiB"), "{said}");
        assert_eq!(sandbox.ok(&["ls", "/d"]), "big\n", "nothing else is left");
        let stored = sandbox.run(&["cat", "/d/big"]).stdout;
        assert!(stored[..DONE] == earlier && stored[DONE..] == bytes[DONE..]);

        // Out of the cluster.
        fs::create_dir(sandbox.file("out")).unwrap();
        sandbox.write(&format!("out/{}", part(LONG_AGO_NS, DONE)), DONE, 3);
        let json = sandbox.json(&["get", "/d/big", "out"]);
        assert_eq!(json["copied"][0]["continued_at"], DONE);
        let copied = sandbox.read("out/big");
        assert!(copied[..DONE] == fs_seeded(DONE, 3) && copied[DONE..] == bytes[DONE..]);
        assert!(hidden(&sandbox, "out").is_empty());

        // A changed source is copied from the beginning; the remains of the old version are
        // removed.
        sandbox.write(&format!("out/{stale}"), DONE, 3);
        let refused = sandbox.run(&["get", "--verify", "/d/big", "out"]);
        assert_eq!(refused.status.code(), Some(0), "{}", stderr(&refused));
        assert!(sandbox.read("out/big") == stored && hidden(&sandbox, "out").is_empty());
    }
}

/// Returns the content that [`Sandbox::write`] writes.
fn fs_seeded(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

#[test]
fn a_failed_copy_leaves_the_old_file_and_nothing_else() {
    for sandbox in Sandbox::both() {
        let old = sandbox.write("old", 3_000_000, 1);
        sandbox.ok(&["mkdir", "/d"]);
        sandbox.ok(&["cp", "old", "/d/x"]);
        // Reading the source fails: a directory cannot be read like a file.
        let output = sandbox.on_cluster(&["cp", "-", "/d/x"]);
        let mut output = output;
        let failed = output.stdin(fs::File::open(sandbox.path()).unwrap()).output().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
        assert!(sandbox.run(&["cat", "/d/x"]).stdout == old);
        assert_eq!(sandbox.ok(&["ls", "/d"]), "x\n");
        // No empty file appears.
        let mut output = sandbox.on_cluster(&["cp", "-", "/d/new"]);
        let failed = output.stdin(fs::File::open(sandbox.path()).unwrap()).output().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
        assert_eq!(sandbox.ok(&["ls", "/d"]), "x\n");
    }
}

#[test]
fn unfinished_copies_are_not_copied() {
    let sandbox = Sandbox::empty();
    fs::create_dir(sandbox.file("tree")).unwrap();
    sandbox.write("tree/x", 10, 1);
    sandbox.write("tree/.y.1-2-0.pario-part", 10, 1);
    let output = sandbox.run(&["cp", "-r", "tree", "/t"]);
    assert!(stderr(&output).contains("1 unfinished copy is left out"), "{}", stderr(&output));
    assert_eq!(sandbox.ok(&["ls", "/t"]), "x\n");
}

#[test]
fn ctrl_c_leaves_no_half_file() {
    let sandbox = Sandbox::served();
    let mut child = sandbox
        .on_cluster(&["cp", "-", "/stream"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than the read-ahead: some of it has been written when this returns.
    std::io::Write::write_all(&mut stdin, &vec![7; 40 << 20]).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(sandbox.ok(&["ls", "/"]), "");
    drop(stdin);
}

#[test]
fn layouts_and_links_of_replaced_files_stay() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 3_000_000, 1);
        sandbox.ok(&["cp", "x", "/x", "--unit", "1MiB", "--disks", "2"]);
        sandbox.ok(&["cp", "x", "/x"]);
        assert_eq!(sandbox.json(&["stat", "/x"])[0]["unit_bytes"], 1 << 20);
        fs::write(sandbox.file("real"), "old").unwrap();
        symlink("real", sandbox.file("link")).unwrap();
        sandbox.ok(&["get", "/x", "link"]);
        assert!(sandbox.file("link").is_symlink());
        assert_eq!(sandbox.read("real").len(), 3_000_000);
        let now = SystemTime::now();
        assert!(fs::metadata(sandbox.file("real")).unwrap().modified().unwrap() <= now);
    }
}
