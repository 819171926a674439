//! `pario completions`: prints the completions that clap generates, extended by cluster paths. For
//! these the scripts call `pario complete-path LINE` ([`paths`]).

pub mod line;
pub mod paths;

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::terminal;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario completions bash > ~/.local/share/bash-completion/completions/pario\n  \
     pario completions zsh > ~/.zfunc/_pario\n  \
     pario completions fish > ~/.config/fish/completions/pario.fish";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut out = terminal::output();
    out.write_all(script(options.shell).as_bytes())?;
    Ok(out.flush()?)
}

/// Returns the script for a shell. bash, zsh and fish also complete cluster paths.
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
            // The first line declares the completion function. Arguments without a completer of
            // their own may be cluster paths.
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
