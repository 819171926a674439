//! Invalid input: each is a clear error with its own exit code, on an embedded and on a served
//! cluster.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::command::Sandbox;

/// Commands with one path in the cluster.
const COMMANDS: [&[&str]; 9] = [
    &["ls"],
    &["mkdir"],
    &["rmdir"],
    &["rm"],
    &["cat"],
    &["stat"],
    &["chmod", "600"],
    &["mv", "/x"],
    &["cp", "x"],
];

#[test]
fn paths_that_are_none_are_wrong_usage_everywhere() {
    let too_long_name = format!("/{}", "n".repeat(256));
    let too_long_path = "/name".repeat(900);
    let paths: [(&[u8], &str); 7] = [
        (b"pario:", "empty"),
        (b"pario:relative", "relative path"),
        (b"/a/../b", "\"..\""),
        (b"/a/./b", "\".\""),
        (b"/line\nbreak", "control character"),
        (b"/\xff\xfe", "not UTF-8"),
        (too_long_name.as_bytes(), "256 bytes"),
    ];
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        for command in COMMANDS {
            let all = paths.iter().copied().chain([(too_long_path.as_bytes(), "4500 bytes")]);
            for (path, reason) in all {
                let mut arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
                arguments.push(OsStr::from_bytes(path).to_owned());
                let told = sandbox.refused(2, &arguments);
                assert!(told.starts_with("pario: "), "{arguments:?}: {told}");
                assert!(told.contains(reason), "{arguments:?}: {told}");
                assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
            }
        }
    }
}

#[test]
fn relative_and_empty_paths_are_wrong_usage() {
    let sandbox = Sandbox::empty();
    for command in [&["ls"][..], &["mkdir"], &["rm"], &["cat"], &["stat"], &["mv", "/x"]] {
        let told = sandbox.refused(2, &[command, &["runs"]].concat());
        assert!(told.contains("relative path"), "{command:?}: {told}");
        let told = sandbox.refused(2, &[command, &[""]].concat());
        assert!(told.contains("empty"), "{command:?}: {told}");
    }
    assert!(sandbox.refused(2, &["cp", "", "/x"]).contains("empty"));
    assert!(sandbox.refused(2, &["cp", "x", ""]).contains("empty"));
}

#[test]
fn what_is_not_there_has_a_code_of_its_own() {
    for sandbox in Sandbox::both() {
        for arguments in [
            &["ls", "/nowhere"][..],
            &["cat", "/nowhere"],
            &["stat", "/nowhere"],
            &["rm", "/nowhere"],
            &["rmdir", "/nowhere"],
            &["mv", "/nowhere", "/x"],
            &["chmod", "600", "/nowhere"],
            &["chown", "0", "/nowhere"],
            &["cp", "pario:/nowhere", "x"],
            &["mkdir", "/nowhere/below"],
        ] {
            let told = sandbox.refused(3, arguments);
            assert!(told.contains("/nowhere"), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn files_and_directories_are_not_taken_for_each_other() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        sandbox.ok(&["mkdir", "/d"]);
        sandbox.ok(&["cp", "x", "/f"]);
        assert!(sandbox.refused(1, &["cat", "/d"]).contains("/d: this is a directory"));
        assert!(sandbox.refused(1, &["cat", "/"]).contains("/: this is a directory"));
        assert!(sandbox.refused(1, &["mkdir", "/f/below"]).contains("/f: this is a file"));
        assert!(sandbox.refused(1, &["cp", "x", "/f/below"]).contains("/f: this is a file"));
        assert!(sandbox.refused(1, &["cat", "/f/below"]).contains("/f: this is a file"));
    }
}

#[test]
fn strange_but_good_names_are_kept() {
    for sandbox in Sandbox::both() {
        let bytes = sandbox.write("x", 10, 1);
        for name in ["with space", "-dash", "ü and 漢字", "a:b", "'\"", "*"] {
            let path = format!("/{name}");
            sandbox.ok(&["cp", "x", &path]);
            assert_eq!(sandbox.ok(&["ls"]), format!("{name}\n"));
            sandbox.ok(&["cp", &format!("pario:{path}"), "back"]);
            assert!(sandbox.read("back") == bytes, "{name}");
            sandbox.ok(&["rm", &path]);
        }
    }
}

#[test]
fn offsets_beyond_everything_are_refused() {
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        assert_eq!(sandbox.ok(&["cat", "--offset", "1000000", "/x"]), "");
        for offset in [1_u64 << 62, u64::MAX] {
            let refused = sandbox.refused(2, &["cat", "--offset", &offset.to_string(), "/x"]);
            assert!(refused.contains("2^62"), "{refused}");
        }
    }
}

#[test]
fn a_file_that_may_not_be_read_is_not_permitted() {
    // Root may read everything.
    if rustix::process::getuid().is_root() {
        return;
    }
    for sandbox in Sandbox::both() {
        sandbox.write("x", 10, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        sandbox.ok(&["chmod", "000", "/x"]);
        let told = sandbox.refused(4, &["cat", "/x"]);
        assert!(told.contains("/x: user ") && told.contains("0000"), "{told}");
    }
}
