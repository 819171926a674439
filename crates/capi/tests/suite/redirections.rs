//! Redirections of shells to shared files, with the preload library: descriptors that processes
//! inherit, and the pointers that they share.

use std::process::{Command, Output};

use crate::site::{Site, describe_output, output, prefix, run_ok};

/// Both kinds of shells: one forks before it redirects, the other one redirects first.
const SHELLS: [&str; 2] = ["dash", "bash"];

/// Returns a shell with the preload library that runs a script.
fn shell(site: &Site, shell: &str, script: &str) -> Command {
    let mut command = site.command(shell);
    command
        .args(["-c", script])
        .env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"))
        .env("PARIO_PREFIX", "/shared")
        .env("LC_ALL", "C");
    command
}

/// Runs a script, which must succeed without a word on stderr. Returns what it printed.
#[track_caller]
fn run(site: &Site, program: &str, script: &str) -> String {
    let output = output(&mut shell(site, program, script));
    assert!(output.status.success(), "{program} {script}: {}", describe_output(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{program} {script}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn fails(site: &Site, program: &str, script: &str) -> Output {
    let output = output(&mut shell(site, program, script));
    assert!(!output.status.success(), "{program} {script}: {}", describe_output(&output));
    output
}

fn content(site: &Site, path: &str) -> String {
    String::from_utf8(site.content(path)).unwrap()
}

#[test]
fn commands_of_the_shell_write_to_shared_files() {
    for program in SHELLS {
        let site = Site::new();
        run(&site, program, "echo one > /shared/file");
        assert_eq!(content(&site, "/shared/file"), "one\n", "{program}");
        run(&site, program, "echo two >> /shared/file; echo three >> /shared/file");
        assert_eq!(content(&site, "/shared/file"), "one\ntwo\nthree\n", "{program}");
        assert_eq!(run(&site, program, "read line < /shared/file; echo $line"), "one\n");
        run(&site, program, "printf '%s' short > /shared/file; echo done");
        assert_eq!(content(&site, "/shared/file"), "short", "{program}");
        // What follows a redirection goes to where it went before.
        let printed = run(&site, program, "echo a; echo b > /shared/file; echo c");
        assert_eq!((printed.as_str(), content(&site, "/shared/file").as_str()), ("a\nc\n", "b\n"));
        let missing = fails(&site, program, "read line < /shared/nothing");
        let said = String::from_utf8_lossy(&missing.stderr).into_owned();
        assert!(said.to_lowercase().contains("no such file"), "{program}: {said}");
    }
}

#[test]
fn programs_inherit_shared_files() {
    for program in SHELLS {
        let site = Site::new();
        run(&site, program, "printf 'pear\\napple\\n' > /shared/in");
        for (script, printed) in [
            ("cat < /shared/in", "pear\napple\n"),
            ("cat < /shared/in; echo end", "pear\napple\nend\n"),
            ("wc -l < /shared/in", "2\n"),
            ("sort < /shared/in", "apple\npear\n"),
            ("exec sort < /shared/in", "apple\npear\n"),
            ("grep -c p < /shared/in; tr a-z A-Z < /shared/in", "2\nPEAR\nAPPLE\n"),
            ("cat < /shared/in | sort | head -n 1", "apple\n"),
            ("head -n 1 /shared/in | cat - /shared/in | wc -l", "3\n"),
            ("echo $(cat /shared/in) $(sort < /shared/in)", "pear apple apple pear\n"),
            ("while read line; do echo \"<$line>\"; done < /shared/in", "<pear>\n<apple>\n"),
        ] {
            assert_eq!(run(&site, program, script), printed, "{program} {script}");
        }
        for (script, written) in [
            ("sort /shared/in > /shared/out", "apple\npear\n"),
            ("sort < /shared/in > /shared/out; true", "apple\npear\n"),
            ("cat /shared/in /shared/in > /shared/out", "pear\napple\npear\napple\n"),
            (
                "sed s/p/P/ /shared/in > /shared/out && cat /shared/in >> /shared/out",
                "Pear\naPple\npear\napple\n",
            ),
            ("(echo x; cat /shared/in; echo y) > /shared/out", "x\npear\napple\ny\n"),
            (
                "{ cat /shared/in; echo z; sort /shared/in; } > /shared/out",
                "pear\napple\nz\napple\npear\n",
            ),
            ("exec > /shared/out; echo 1; /bin/echo 2; (echo 3); echo 4", "1\n2\n3\n4\n"),
            ("python3 -c 'print(\"py\")' > /shared/out; /bin/echo b >> /shared/out", "py\nb\n"),
            ("ls /shared/nothing 2> /dev/null; ls /shared/in > /shared/out 2>&1", "/shared/in\n"),
            ("sh -c 'echo inner; /bin/echo outer' > /shared/out", "inner\nouter\n"),
        ] {
            run(&site, program, script);
            assert_eq!(content(&site, "/shared/out"), written, "{program} {script}");
        }
        let errors =
            run(&site, program, "ls /shared/nothing 2> /shared/errors; cat /shared/errors");
        assert!(errors.contains("No such file or directory"), "{program}: {errors}");
    }
}

/// Four processes write through one inherited descriptor: each line has a place of its own.
#[test]
fn processes_share_the_pointer_of_an_inherited_file() {
    let site = Site::new();
    let script = "exec > /shared/lines; for rank in 1 2 3 4; do \
                  (for line in 1 2 3 4 5 6 7 8 9; do /bin/echo $rank $line; done) & done; wait";
    run(&site, "dash", script);
    let lines = content(&site, "/shared/lines");
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    let expected = (1..5).flat_map(|rank| (1..10).map(move |line| format!("{rank} {line}")));
    assert!(lines.iter().copied().eq(expected.collect::<Vec<_>>().iter()), "{lines:?}");
}

#[test]
fn python_starts_programs_with_shared_files() {
    let site = Site::new();
    let script = r#"
import os, subprocess
with open("/shared/in", "w") as f:
    f.write("pear\napple\n")
with open("/shared/in") as source, open("/shared/out", "w") as target:
    subprocess.run(["sort"], stdin=source, stdout=target, check=True)
with open("/shared/out") as f:
    assert f.read() == "apple\npear\n"
with open("/shared/out", "a") as target:
    target.write("first\n")
    target.flush()
    subprocess.run("echo second; cat /shared/in", shell=True, stdout=target, check=True)
    target.write("last\n")
with open("/shared/out") as f:
    assert f.read() == "apple\npear\nfirst\nsecond\npear\napple\nlast\n"
fd = os.open("/shared/forked", os.O_RDWR | os.O_CREAT)
os.write(fd, b"parent ")
if os.fork() == 0:
    os.write(fd, b"child ")
    with open("/shared/own", "w") as f:
        f.write("of the child")
    os._exit(0)
assert os.wait()[1] == 0
os.write(fd, b"parent")
assert os.pread(fd, 100, 0) == b"parent child parent"
with open("/shared/own") as f:
    assert f.read() == "of the child"
"#;
    let file = site.dir.path().join("script.py");
    std::fs::write(&file, script).unwrap();
    run_ok(&mut shell(&site, "sh", &format!("python3 {}", file.display())));
}

/// A program without the library, and a file that is gone.
#[test]
fn a_descriptor_that_cannot_be_inherited_fails_loudly() {
    let site = Site::new();
    let bare = fails(&site, "bash", "env -u LD_PRELOAD /bin/echo lost > /shared/file");
    let said = String::from_utf8_lossy(&bare.stderr).into_owned();
    assert!(said.contains("Operation not permitted"), "{said}");
    assert_eq!(content(&site, "/shared/file"), "");
    let script = "exec 5< /shared/file; rm /shared/file; cat <&5";
    let gone = fails(&site, "bash", script);
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(said.contains("the inherited descriptor 0 of /shared/file cannot be used: "), "{said}");
}
