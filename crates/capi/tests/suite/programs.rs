//! Programs of the system on shared files, with the preload library: what a user types in a shell.

use std::process::{Command, Output};

use crate::site::{Site, describe_output, output, prefix, run_ok};

/// Returns a command with the preload library.
fn helped(site: &Site, program: &str) -> Command {
    let mut command = site.command(program);
    command
        .env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"))
        .env("PARIO_PREFIX", "/shared")
        .env("LC_ALL", "C");
    command
}

/// Runs a program, which must succeed. Returns what it printed.
#[track_caller]
fn run(site: &Site, program: &str, arguments: &[&str]) -> String {
    let output = output(helped(site, program).args(arguments));
    assert!(output.status.success(), "{program} {arguments:?}: {}", describe_output(&output));
    assert_eq!(text(&output.stderr), "", "{program} {arguments:?}");
    text(&output.stdout)
}

/// Runs a program, which must fail.
#[track_caller]
fn fails(site: &Site, program: &str, arguments: &[&str]) -> Output {
    let output = output(helped(site, program).args(arguments));
    assert!(!output.status.success(), "{program} {arguments:?}: {}", describe_output(&output));
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a site with `/shared/dir/{one,two}` and `/shared/dir/below/three`.
fn filled() -> Site {
    let site = Site::new();
    let cluster = site.cluster();
    for (path, content) in [
        ("/shared/dir/one", "pear\napple\n"),
        ("/shared/dir/two", "22"),
        ("/shared/dir/below/three", ""),
    ] {
        let file = cluster.create_all(path).unwrap();
        file.write_at(content.as_bytes(), 0).unwrap();
        file.close().unwrap();
    }
    site
}

#[test]
fn ls_and_stat() {
    let site = filled();
    assert_eq!(run(&site, "ls", &["/shared/dir"]), "below\none\ntwo\n");
    assert_eq!(run(&site, "ls", &["-A", "/shared"]), "dir\n");
    let long = run(&site, "ls", &["-l", "/shared/dir"]);
    assert!(long.contains("-rw-r--r--") && long.contains("drwxr-xr-x"), "{long}");
    let all = run(&site, "ls", &["-laR", "/shared"]);
    assert!(all.contains("/shared/dir/below:") && all.contains(" three\n"), "{all}");
    let status = run(&site, "stat", &["-c", "%F %s %a %n", "/shared/dir/one"]);
    assert_eq!(status, "regular file 11 644 /shared/dir/one\n");
    assert_eq!(run(&site, "stat", &["-c", "%F", "/shared/dir"]), "directory\n");
    let missing = fails(&site, "ls", &["/shared/nothing"]);
    assert!(text(&missing.stderr).contains("No such file or directory"));
    let space = run(&site, "stat", &["-f", "-c", "%s %l", "/shared/dir"]);
    assert_eq!(space, "4096 255\n");
}

/// A listing comes from the node in pages of a thousand names.
#[test]
fn a_large_directory_is_listed_completely() {
    let site = filled();
    let paths: Vec<String> = (0..1200).map(|number| format!("/shared/many/{number:04}")).collect();
    let cluster = site.cluster();
    cluster.make_directory("/shared/many").unwrap();
    let options = cluster.options().write(true).create(true);
    for opened in options.open_many(&paths) {
        opened.unwrap();
    }
    let listed = run(&site, "ls", &["-U", "/shared/many"]);
    let listed: Vec<String> = listed.lines().map(|name| format!("/shared/many/{name}")).collect();
    assert_eq!(listed, paths);
    assert_eq!(run(&site, "find", &["/shared/many", "-type", "f"]).lines().count(), 1200);
    run(&site, "rm", &["-r", "/shared/many"]);
    assert_eq!(run(&site, "ls", &["/shared"]), "dir\n");
}

#[test]
fn test_asks_whether_files_exist() {
    let site = filled();
    for (option, path, is_so) in [
        ("-e", "/shared/dir/one", true),
        ("-e", "/shared/nothing", false),
        ("-f", "/shared/dir/one", true),
        ("-d", "/shared/dir", true),
        ("-d", "/shared/dir/one", false),
        ("-s", "/shared/dir/one", true),
        ("-s", "/shared/dir/below/three", false),
        ("-r", "/shared/dir/one", true),
        ("-x", "/shared/dir/one", false),
    ] {
        let output = output(helped(&site, "test").args([option, path]));
        assert_eq!(output.status.success(), is_so, "test {option} {path}");
    }
}

#[test]
fn cp_copies_in_out_and_inside() {
    let site = filled();
    let plain = site.dir.path().join("plain");
    let plain = plain.to_str().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(plain, &bytes).unwrap();
    run(&site, "cp", &[plain, "/shared/in"]);
    assert!(site.content("/shared/in") == bytes);
    run(&site, "cp", &[plain, "/shared/dir"]);
    assert!(site.content("/shared/dir/plain") == bytes);
    run(&site, "cp", &["/shared/in", "/shared/dir/copy"]);
    assert!(site.content("/shared/dir/copy") == bytes);
    let out = site.dir.path().join("out");
    run(&site, "cp", &["/shared/dir/copy", out.to_str().unwrap()]);
    assert!(std::fs::read(out).unwrap() == bytes);
    run(&site, "cp", &["-p", plain, "/shared/kept"]);
    let of = |name: &str| run(&site, "stat", &["-c", "%Y %a", name]);
    assert_eq!(of("/shared/kept"), of(plain));
    run(&site, "cp", &["-r", "/shared/dir", "/shared/again"]);
    assert_eq!(run(&site, "ls", &["/shared/again/below"]), "three\n");
    let tree = site.dir.path().join("tree");
    run(&site, "cp", &["-r", "/shared/dir", tree.to_str().unwrap()]);
    assert_eq!(std::fs::read(tree.join("one")).unwrap(), b"pear\napple\n");
}

#[test]
fn mv_renames_and_moves() {
    let site = filled();
    run(&site, "mv", &["/shared/dir/one", "/shared/dir/renamed"]);
    assert_eq!(run(&site, "ls", &["/shared/dir"]), "below\nrenamed\ntwo\n");
    run(&site, "mv", &["/shared/dir/renamed", "/shared/dir/two", "/shared/dir/below"]);
    assert_eq!(run(&site, "ls", &["/shared/dir/below"]), "renamed\nthree\ntwo\n");
    run(&site, "mv", &["/shared/dir/below", "/shared/moved"]);
    assert_eq!(site.content("/shared/moved/two"), b"22");
    // Between the cluster and the system, mv copies and removes.
    let plain = site.dir.path().join("plain");
    run(&site, "mv", &["/shared/moved/two", plain.to_str().unwrap()]);
    assert_eq!(std::fs::read(&plain).unwrap(), b"22");
    run(&site, "mv", &[plain.to_str().unwrap(), "/shared/back"]);
    assert_eq!(site.content("/shared/back"), b"22");
    assert!(!plain.exists());
    assert_eq!(run(&site, "ls", &["/shared/moved"]), "renamed\nthree\n");
}

#[test]
fn mkdir_rmdir_rm_and_chmod() {
    let site = filled();
    run(&site, "mkdir", &["/shared/new"]);
    run(&site, "mkdir", &["-m", "700", "/shared/new/private"]);
    assert_eq!(run(&site, "stat", &["-c", "%a", "/shared/new/private"]), "700\n");
    run(&site, "mkdir", &["-p", "/shared/a/b/c"]);
    run(&site, "mkdir", &["-p", "/shared/a/b/c"]);
    assert_eq!(run(&site, "find", &["/shared/a"]), "/shared/a\n/shared/a/b\n/shared/a/b/c\n");
    run(&site, "rmdir", &["-p", "--ignore-fail-on-non-empty", "/shared/a/b/c"]);
    let exists = fails(&site, "mkdir", &["/shared/new"]);
    assert!(text(&exists.stderr).contains("File exists"));
    let full = fails(&site, "rmdir", &["/shared/new"]);
    assert!(text(&full.stderr).contains("Directory not empty"));
    run(&site, "rmdir", &["/shared/new/private"]);
    run(&site, "chmod", &["600", "/shared/dir/one"]);
    assert_eq!(run(&site, "stat", &["-c", "%a", "/shared/dir/one"]), "600\n");
    run(&site, "rm", &["/shared/dir/one"]);
    run(&site, "rm", &["-f", "/shared/dir/one"]);
    run(&site, "rm", &["-r", "/shared/dir"]);
    assert_eq!(run(&site, "ls", &["/shared"]), "new\n");
}

#[test]
fn find_sort_and_others() {
    let site = filled();
    let found = run(&site, "find", &["/shared", "-type", "f"]);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["/shared/dir/below/three", "/shared/dir/one", "/shared/dir/two"]);
    assert_eq!(run(&site, "find", &["/shared", "-name", "t*", "-size", "+0"]), "/shared/dir/two\n");
    run(&site, "find", &["/shared/dir/below", "-name", "three", "-delete"]);
    assert_eq!(run(&site, "ls", &["/shared/dir/below"]), "");
    assert_eq!(run(&site, "sort", &["/shared/dir/one"]), "apple\npear\n");
    run(&site, "sort", &["-o", "/shared/sorted", "/shared/dir/one"]);
    assert_eq!(site.content("/shared/sorted"), b"apple\npear\n");
    assert_eq!(run(&site, "wc", &["-c", "/shared/dir/one"]), "11 /shared/dir/one\n");
    assert_eq!(run(&site, "grep", &["-r", "pear", "/shared/dir"]), "/shared/dir/one:pear\n");
    assert_eq!(run(&site, "head", &["-n", "1", "/shared/dir/one"]), "pear\n");
    run(&site, "cmp", &["/shared/dir/two", "/shared/dir/two"]);
    run(&site, "dd", &["if=/shared/dir/one", "of=/shared/dd", "bs=4", "status=none"]);
    assert_eq!(site.content("/shared/dd"), b"pear\napple\n");
    assert_eq!(
        run(&site, "du", &["-s", "--apparent-size", "-b", "/shared/dir"]),
        "13\t/shared/dir\n"
    );
    run(&site, "truncate", &["-s", "1", "/shared/dir/two"]);
    assert_eq!(site.content("/shared/dir/two"), b"2");
    run(&site, "touch", &["/shared/touched"]);
    assert_eq!(site.content("/shared/touched"), b"");
    run(&site, "touch", &["-d", "2001-09-09 01:46:40 UTC", "/shared/dir/two"]);
    assert_eq!(run(&site, "stat", &["-c", "%Y", "/shared/dir/two"]), "1000000000\n");
}

#[test]
fn python_uses_shared_files() {
    let site = filled();
    let script = r#"
import os, shutil, stat
assert sorted(os.listdir("/shared/dir")) == ["below", "one", "two"]
assert os.path.isdir("/shared/dir") and os.path.exists("/shared/dir/one")
assert not os.path.exists("/shared/nothing")
assert [e.name for e in os.scandir("/shared/dir") if e.is_dir()] == ["below"]
os.makedirs("/shared/deep/er", exist_ok=True)
os.makedirs("/shared/deep/er", exist_ok=True)
with open("/shared/deep/er/file", "w") as f:
    print("from python", file=f)
with open("/shared/deep/er/file") as f:
    assert f.read() == "from python\n"
assert os.stat("/shared/deep/er/file").st_size == 12
assert stat.S_ISREG(os.lstat("/shared/deep/er/file").st_mode)
os.rename("/shared/deep/er/file", "/shared/deep/moved")
os.replace("/shared/deep/moved", "/shared/deep/er/file")
os.chmod("/shared/deep/er/file", 0o600)
os.utime("/shared/deep/er/file", (1, 1000000000))
assert os.stat("/shared/deep/er/file").st_mtime == 1000000000
os.truncate("/shared/deep/er/file", 4)
assert os.path.getsize("/shared/deep/er/file") == 4
before = os.getcwd()
os.chdir("/shared/dir")
assert os.getcwd() == "/shared/dir" and os.path.exists("one") and "two" in os.listdir(".")
os.chdir("..")
assert os.getcwd() == "/shared" and os.path.abspath("dir") == "/shared/dir"
os.chdir(before)
assert os.getcwd() == before and not os.path.exists("one")
shutil.copy("/shared/dir/one", "/shared/copy")
shutil.copytree("/shared/dir", "/shared/tree")
assert os.access("/shared/copy", os.R_OK) and not os.access("/shared/copy", os.X_OK)
walked = [name for _, _, names in os.walk("/shared/tree") for name in names]
assert sorted(walked) == ["one", "three", "two"]
assert os.statvfs("/shared").f_bavail > 0
shutil.rmtree("/shared/tree")
os.remove("/shared/copy")
os.unlink("/shared/deep/er/file")
os.removedirs("/shared/deep/er")
assert sorted(os.listdir("/shared")) == ["dir"]
try:
    os.stat("/shared/nothing")
except FileNotFoundError:
    pass
"#;
    let file = site.dir.path().join("script.py");
    std::fs::write(&file, script).unwrap();
    run(&site, "python3", &[file.to_str().unwrap()]);
}

/// The older names of the calls, and those for large files, are the same calls.
#[test]
fn every_spelling_of_a_call_is_taken() {
    let library = prefix().join("lib/libpario_preload.so");
    let symbols = run_ok(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let symbols = text(&symbols.stdout);
    let has = |name: &str| symbols.lines().any(|line| line.rsplit(' ').next() == Some(name));
    for name in ["stat", "lstat", "fstat", "fstatat", "truncate", "statvfs", "statfs", "readdir"] {
        assert!(has(name) && has(&format!("{name}64")), "{name}");
    }
    for name in ["__xstat", "__lxstat", "__fxstat", "__fxstatat"] {
        assert!(has(name) && has(&format!("{name}64")), "{name}");
    }
    for name in ["statx", "access", "faccessat", "euidaccess", "rename", "renameat", "renameat2"] {
        assert!(has(name), "{name}");
    }
}
