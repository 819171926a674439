//! `pario completions`: what clap knows of the commands, and cluster paths, for which the scripts ask
//! `pario complete-path LINE` ([`paths`]).

mod line;
pub mod paths;

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::terminal;

/// Lines for the help.
pub const EXAMPLES: &str = "pario completions bash > ~/.local/share/bash-completion/completions/pario\n  \
     pario completions zsh > ~/.zfunc/_pario\n  \
     pario completions fish > ~/.config/fish/completions/pario.fish";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// The shell
    shell: Shell,
}

/// Does it.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut out = terminal::output();
    out.write_all(script(options.shell).as_bytes())?;
    Ok(out.flush()?)
}

/// The script for a shell. bash, zsh and fish complete paths of the cluster, too.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "pario", &mut script);
    let script = String::from_utf8_lossy(&script);
    match shell {
        Shell::Bash => {
            let script = script.replace("complete -F _pario ", "complete -F _pario_with_paths ");
            format!("{}\n{script}", include_str!("paths.bash"))
        }
        Shell::Zsh => {
            // The first line makes it a completion; arguments without a kind of their own may be
            // paths of the cluster.
            let (first, rest) = script.split_once('\n').unwrap_or((&script, ""));
            let rest = rest.replace(":_default'", ":_pario_path'");
            format!("{first}\n\n{}{rest}", include_str!("paths.zsh"))
        }
        Shell::Fish => format!("{script}\n{}", include_str!("paths.fish")),
        _ => script.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_use_what_is_added_to_them() {
        let bash = script(Shell::Bash);
        assert!(bash.contains("\n    complete -F _pario_with_paths -o nosort"), "{bash}");
        assert!(!bash.contains("complete -F _pario "), "{bash}");
        let zsh = script(Shell::Zsh);
        assert!(zsh.starts_with("#compdef pario\n"), "{zsh}");
        assert!(zsh.contains("::paths:_pario_path'") || zsh.contains(":_pario_path' \\"), "{zsh}");
        assert!(!zsh.contains(":_default'"), "{zsh}");
        assert!(script(Shell::Fish).contains("-a '(__pario_paths)'"));
    }
}
