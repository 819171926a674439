//! What cannot be meant: each is a clear error with its own exit code, on an embedded cluster and on
//! one that a node serves.

mod command;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use command::Site;

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
    for site in Site::both() {
        site.write("x", 10, 1);
        for command in COMMANDS {
            let all = paths.iter().copied().chain([(too_long_path.as_bytes(), "4500 bytes")]);
            for (path, reason) in all {
                let mut arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
                arguments.push(OsStr::from_bytes(path).to_owned());
                let told = site.refused(2, &arguments);
                assert!(told.starts_with("pario: "), "{arguments:?}: {told}");
                assert!(told.contains(reason), "{arguments:?}: {told}");
                assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
            }
        }
    }
}

#[test]
fn relative_and_empty_paths_are_wrong_usage() {
    let site = Site::empty();
    for command in [&["ls"][..], &["mkdir"], &["rm"], &["cat"], &["stat"], &["mv", "/x"]] {
        let told = site.refused(2, &[command, &["runs"]].concat());
        assert!(told.contains("relative path"), "{command:?}: {told}");
        let told = site.refused(2, &[command, &[""]].concat());
        assert!(told.contains("empty"), "{command:?}: {told}");
    }
    assert!(site.refused(2, &["cp", "", "/x"]).contains("empty"));
    assert!(site.refused(2, &["cp", "x", ""]).contains("empty"));
}

#[test]
fn what_is_not_there_has_a_code_of_its_own() {
    for site in Site::both() {
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
            let told = site.refused(3, arguments);
            assert!(told.contains("/nowhere"), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn files_and_directories_are_not_taken_for_each_other() {
    for site in Site::both() {
        site.write("x", 10, 1);
        site.ok(&["mkdir", "/d"]);
        site.ok(&["cp", "x", "/f"]);
        assert!(site.refused(1, &["cat", "/d"]).contains("/d: this is a directory"));
        assert!(site.refused(1, &["cat", "/"]).contains("/: this is a directory"));
        assert!(site.refused(1, &["mkdir", "/f/below"]).contains("/f: this is a file"));
        assert!(site.refused(1, &["cp", "x", "/f/below"]).contains("/f: this is a file"));
        assert!(site.refused(1, &["cat", "/f/below"]).contains("/f: this is a file"));
    }
}

#[test]
fn strange_but_good_names_are_kept() {
    for site in Site::both() {
        let bytes = site.write("x", 10, 1);
        for name in ["with space", "-dash", "ü and 漢字", "a:b", "'\"", "*"] {
            let path = format!("/{name}");
            site.ok(&["cp", "x", &path]);
            assert_eq!(site.ok(&["ls"]), format!("{name}\n"));
            site.ok(&["cp", &format!("pario:{path}"), "back"]);
            assert!(site.read("back") == bytes, "{name}");
            site.ok(&["rm", &path]);
        }
    }
}

#[test]
fn offsets_beyond_everything_are_refused() {
    for site in Site::both() {
        site.write("x", 10, 1);
        site.ok(&["cp", "x", "/x"]);
        assert_eq!(site.ok(&["cat", "--offset", "1000000", "/x"]), "");
        for offset in [1_u64 << 62, u64::MAX] {
            let refused = site.refused(2, &["cat", "--offset", &offset.to_string(), "/x"]);
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
    for site in Site::both() {
        site.write("x", 10, 1);
        site.ok(&["cp", "x", "/x"]);
        site.ok(&["chmod", "000", "/x"]);
        let told = site.refused(4, &["cat", "/x"]);
        assert!(told.contains("/x: user ") && told.contains("0000"), "{told}");
    }
}
