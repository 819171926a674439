//! Runs every command of docs/how-to/administer.md, in its order, with three nodes on this machine.
//!
//! The commands run as root in a mount and network namespace: `/etc` and `/var/lib` are copies,
//! `/mnt`, `/srv` and `/run` are empty, and the addresses of the document are on this machine. Two
//! substitutes replace parts of a real machine: `systemctl` starts the command of a unit and waits
//! until the node is ready, and the user `pario` is another name of root. The packaging test runs
//! the blocks `sh install`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A substitute for systemctl: starts and stops nodes by their units, as far as the document needs
/// it.
const SYSTEMCTL: &str = r#"#!/bin/bash
set -euo pipefail
units=/etc/systemd/system
state=/run/units
mkdir -p "$state" /run/pario

start() {
  local node=$1 command said
  [ ! -e "$state/$node.pid" ] || return 0
  (
    while read -r line; do
      case $line in [A-Z]*=*) export "${line?}" ;; esac
    done < <(sed -n 's/^Environment=//p' $units/pario@.service; cat /etc/pario/environment 2>/dev/null)
    export PARIO_SERVE_OPTIONS=${PARIO_SERVE_OPTIONS-}
    command=$(sed -n 's/^ExecStart=//p' $units/pario@.service | sed "s/%i/$node/")
    # Here, not by the process below: what a node said before must not be read.
    : >"$state/$node.out"
    eval "exec setsid $command" >"$state/$node.out" 2>"$state/$node.err" 7>&- &
    echo $! >"$state/$node.pid"
  )
  # A node that ends instead of listening ends this, too.
  if ! grep -m 1 -q 'listening on' < <(tail --pid="$(cat "$state/$node.pid")" -n +1 -f "$state/$node.out"); then
    cat "$state/$node.err" >&2
    exit 1
  fi
}

stop() {
  local node=$1
  [ -e "$state/$node.pid" ] || return 0
  kill "$(cat "$state/$node.pid")" 2>/dev/null || true
  tail --pid="$(cat "$state/$node.pid")" -f /dev/null
  rm "$state/$node.pid"
}

verb=$1
shift
[ "${1-}" != --now ] || shift
for unit; do
  node=${unit#pario@}
  case $verb in
    start | enable) start "$node" ;;
    stop | disable) stop "$node" ;;
    restart) stop "$node" && start "$node" ;;
  esac
done
case $verb in start | stop | restart | enable | disable | daemon-reload) ;; *) exit 2 ;; esac
"#;

/// Sets up the machine for the document's commands, then runs them.
const MACHINE: &str = r#"set -euo pipefail
sandbox=$1
ip link set lo up
for address in 10.0.0.1 10.0.0.2 10.0.0.3; do ip address add $address/32 dev lo; done
mount -t tmpfs tmpfs "$sandbox/scratch"
for dir in etc var/lib; do
  layer=$sandbox/scratch/${dir//\//-}
  mkdir "$layer" "$layer-work"
  mount -t overlay -o "lowerdir=/$dir,upperdir=$layer,workdir=$layer-work" overlay /$dir
done
rm -rf /etc/pario /var/lib/pario
for dir in mnt srv run; do mount -t tmpfs tmpfs /$dir; done
mkdir -p /etc/systemd/system
grep -v '^pario:\|^ada:' /etc/passwd >"$sandbox/scratch/passwd"
printf 'pario:x:0:0::/var/lib/pario:/usr/sbin/nologin\nada:x:4711:4711::/:/bin/sh\n' >>"$sandbox/scratch/passwd"
cat "$sandbox/scratch/passwd" >/etc/passwd
grep -v '^pario:' /etc/group >"$sandbox/scratch/group"
echo 'pario:x:0:' >>"$sandbox/scratch/group"
cat "$sandbox/scratch/group" >/etc/group
unset PARIO_CLUSTER PARIO_LOG PARIO_KEY XDG_RUNTIME_DIR
cd "$sandbox/work"
bash -euo pipefail -x "$sandbox/commands" </dev/null
"#;

/// Returns the fenced blocks of a document, each with the words after its fence.
fn blocks(text: &str) -> Vec<(String, String)> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for line in text.lines() {
        open = match (open.take(), line.strip_prefix("```")) {
            (None, Some(words)) => Some((words.to_owned(), String::new())),
            (None, None) => None,
            (Some(block), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some((words, body)), None) => Some((words, body + line + "\n")),
        };
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_command_of_the_document_works() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/administer.md");
    let blocks = blocks(&fs::read_to_string(document).unwrap());
    for (words, body) in &blocks {
        assert!(["sh", "sh install"].contains(&words.as_str()), "nothing runs this block:\n{body}");
    }
    let commands: String =
        blocks.iter().filter(|(words, _)| words == "sh").map(|(_, body)| body.as_str()).collect();
    assert!(commands.lines().count() > 50, "the document was not understood:\n{commands}");

    let sandbox = tempfile::tempdir().unwrap();
    for dir in ["bin", "scratch", "work"] {
        fs::create_dir(sandbox.path().join(dir)).unwrap();
    }
    write_program(&sandbox.path().join("bin/systemctl"), SYSTEMCTL);
    // A hard link in a directory that stays visible when /etc and others are replaced.
    fs::hard_link(env!("CARGO_BIN_EXE_pario"), sandbox.path().join("bin/pario"))
        .or_else(|_| {
            fs::copy(env!("CARGO_BIN_EXE_pario"), sandbox.path().join("bin/pario")).map(drop)
        })
        .unwrap();
    fs::write(sandbox.path().join("commands"), commands).unwrap();

    let mut machine = Command::new("unshare");
    machine.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        machine.arg("--map-root-user");
    }
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}:/usr/sbin:/sbin", sandbox.path().join("bin").display());
    let output = machine
        .args(["bash", "-c", MACHINE, "bash"])
        .arg(sandbox.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .expect("unshare is there");
    if !output.status.success() {
        let mut stderr = std::io::stderr();
        stderr.write_all(&output.stdout).unwrap();
        stderr.write_all(&output.stderr).unwrap();
        panic!("a command of the document failed, the last one above: {}", output.status);
    }
}

#[test]
fn blocks_are_found_with_their_words() {
    let text = "a\n```sh\nls\nid\n```\nb\n```sh install\ndpkg\n```\n";
    let block = |words: &str, body: &str| (words.to_owned(), body.to_owned());
    assert_eq!(blocks(text), [block("sh", "ls\nid\n"), block("sh install", "dpkg\n")]);
}
