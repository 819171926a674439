//! bash, zsh and fish complete cluster paths.

use std::process::{Command, Stdio};

use crate::command::{Sandbox, stderr, stdout};

/// Runs a script in a shell in which `pario` is the built binary, beside a node with some paths.
fn shell(sandbox: &Sandbox, program: &str, script: &str) -> String {
    let pario = std::path::Path::new(env!("CARGO_BIN_EXE_pario"));
    let path = std::env::var("PATH").unwrap();
    let output = Command::new(program)
        .args(if program == "bash" { vec!["--norc", "-c", script] } else { vec!["-c", script] })
        .current_dir(sandbox.path())
        .env("PATH", format!("{}:{path}", pario.parent().unwrap().display()))
        .env("XDG_RUNTIME_DIR", sandbox.runtime())
        .env("HOME", sandbox.path())
        .env("TERM", "dumb")
        .env_remove("PARIO_CLUSTER")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed (./test installs it): {error}"));
    assert_eq!(output.status.code(), Some(0), "{program}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{program}");
    stdout(&output).to_owned()
}

fn with_paths() -> Sandbox {
    let sandbox = Sandbox::served();
    sandbox.ok(&["mkdir", "-p", "/runs/7", "/runs/a b", "/rest"]);
    sandbox.write("local-file", 10, 1);
    let output = sandbox.run(&["cp", "local-file", "pario:/runs/log.txt"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    sandbox
}

/// Returns bash's completions of a line: `words` is its own split of the line.
fn bash(sandbox: &Sandbox, line: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "eval \"$(pario completions bash)\"
         registered=$(complete -p pario) && [[ $registered == *' _pario_with_paths '* ]] || exit 9
         COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
         _pario_with_paths pario \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" ")
    );
    let mut found: Vec<_> = shell(sandbox, "bash", &script).lines().map(str::to_owned).collect();
    found.sort();
    found.retain(|reply| !reply.is_empty());
    found
}

fn fish(sandbox: &Sandbox, line: &str) -> Vec<String> {
    let script = format!("pario completions fish | source; complete -C '{line}'");
    let text = shell(sandbox, "fish", &script);
    // A description follows a tab.
    let mut found: Vec<_> =
        text.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
    found.sort();
    found
}

/// Types a line and a tab into zsh in a terminal, and returns the line afterwards.
fn zsh(sandbox: &Sandbox, line: &str) -> String {
    let script = format!(
        r#"mkdir -p functions && pario completions zsh > functions/_pario
zmodload zsh/zpty
cat > start.zsh <<'END'
PS1= PS2= RPS1=
unsetopt zle_bracketed_paste prompt_cr prompt_sp
fpath=($PWD/functions $fpath)
autoload -Uz compinit && compinit -u -D
zstyle ':completion:*' list-prompt ''
LISTMAX=10000
finish() {{ print -r -- "<<$BUFFER>>"; exit }}
zle -N finish
complete-and-finish() {{ zle complete-word; zle finish }}
zle -N complete-and-finish
bindkey '^T' complete-and-finish
print READY
END
zpty shell 'zsh -f -i'
zpty -w shell 'source ./start.zsh'
while zpty -r shell text; do [[ $text == *READY[[:space:]]* && $text != *print* ]] && break; done
zpty -w -n shell '{line}'$'\x14'
while zpty -r shell text; do [[ $text == *'<<'*'>>'* ]] && break; done
print -r -- "${{${{text##*<<}}%%>>*}}""#
    );
    shell(sandbox, "zsh", &script).trim_end_matches('\n').to_owned()
}

#[test]
fn bash_completes_paths_of_the_cluster() {
    let sandbox = with_paths();
    assert_eq!(bash(&sandbox, "pario ls /ru", &["pario", "ls", "/ru"]), ["/runs/"]);
    assert_eq!(bash(&sandbox, "pario ls ", &["pario", "ls", ""]), ["/rest/", "/runs/"]);
    let below = bash(&sandbox, "pario stat /runs/", &["pario", "stat", "/runs/"]);
    assert_eq!(below, ["/runs/7/", "/runs/a\\ b/", "/runs/log.txt"]);
    // A colon breaks words: bash replaces only the text after it.
    let marked =
        bash(&sandbox, "pario cp pario:/runs/l", &["pario", "cp", "pario", ":", "/runs/l"]);
    assert_eq!(marked, ["/runs/log.txt"]);
    assert!(bash(&sandbox, "pario ls /no", &["pario", "ls", "/no"]).is_empty());
    // Other words are completed by the generated script.
    assert_eq!(bash(&sandbox, "pario ls --recur", &["pario", "ls", "--recur"]), ["--recursive"]);
    assert!(bash(&sandbox, "pario sta", &["pario", "sta"]).contains(&"status".to_owned()));
}

#[test]
fn fish_completes_paths_of_the_cluster() {
    let sandbox = with_paths();
    assert_eq!(fish(&sandbox, "pario ls /ru"), ["/runs/"]);
    assert_eq!(fish(&sandbox, "pario stat /runs/l"), ["/runs/log.txt"]);
    let first = fish(&sandbox, "pario ls ");
    assert_eq!(first, ["/rest/", "/runs/"], "files of this machine are not offered");
    assert!(fish(&sandbox, "pario cp lo").contains(&"local-file".to_owned()));
    // fish adds local files after a colon.
    assert!(fish(&sandbox, "pario cp pario:/ru").contains(&"pario:/runs/".to_owned()));
    assert!(fish(&sandbox, "pario ls --recur").contains(&"--recursive".to_owned()));
}

#[test]
fn zsh_completes_paths_of_the_cluster() {
    let sandbox = with_paths();
    assert_eq!(zsh(&sandbox, "pario ls /ru"), "pario ls /runs/");
    assert_eq!(zsh(&sandbox, "pario stat /runs/l"), "pario stat /runs/log.txt ");
    assert_eq!(zsh(&sandbox, "pario cp pario:/runs/l"), "pario cp pario:/runs/log.txt ");
    assert_eq!(zsh(&sandbox, "pario cp loc"), "pario cp local-file ");
}

#[test]
fn completion_is_silent_where_no_node_runs() {
    let sandbox = Sandbox::empty();
    for line in ["pario ls /", "pario --data typo ls /", "pario --cluster unix:no ls /"] {
        let output = sandbox.pario(&["complete-path", line]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        assert_eq!((stdout(&output), stderr(&output)), ("", ""), "{line}");
    }
    assert!(!sandbox.file("typo").exists());
    // Local files are valid there, too.
    let output = sandbox.pario(&["complete-path", "pario cp /"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((stdout(&output), stderr(&output)), ("", ""));
}

#[test]
fn completion_asks_the_cluster_of_the_line() {
    let sandbox = Sandbox::empty();
    let output = sandbox.pario(&["--data", "d", "--create", "mkdir", "/here"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = sandbox.pario(&["complete-path", "pario --data d ls /h"]).output().unwrap();
    assert_eq!(stdout(&output), "/here/\n");
}
