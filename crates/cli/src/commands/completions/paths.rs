//! `pario complete-path LINE`: prints the cluster paths that can complete a partly typed line. Only
//! the shell scripts call it, so it reports no failures.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use pario::FileKind;

use super::line::CompletionLine;
use crate::arguments::{Arguments, GlobalOptions};
use crate::{paths, reach, terminal};

/// The name of the command.
pub const NAME: &str = "complete-path";

/// Default time limit for the node, short because a user waits.
const ANSWER_SECONDS: f64 = 1.0;
/// Most paths printed; shells cannot usefully show more.
const PATHS_SHOWN: usize = 2000;

/// The kind of argument that a command takes at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentKind {
    /// A path in the cluster.
    Cluster,
    /// A path in the cluster or on this machine.
    Either,
    /// Something else.
    Other,
}

/// A line up to the cursor, as far as completion needs it.
#[derive(Debug)]
struct ParsedLine {
    argument_kind: ArgumentKind,
    global: GlobalOptions,
    /// The word at the cursor.
    current: String,
}

/// Prints the matching paths, one per line; directories end with a slash. The arguments are the
/// line up to the cursor and the characters at which the shell breaks words: the shell expects only
/// the part of the word after the last break. The exit code is 0 if only a cluster path can
/// complete the line.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut next = || arguments.next().and_then(|text| text.into_string().ok());
    let Some(typed) = next().and_then(|line| parse_line(&line)) else { return ExitCode::FAILURE };
    let breaks = next().unwrap_or_default();
    let is_break = |letter: char| matches!(letter, ':' | '=') && breaks.contains(letter);
    let cut = typed.current.rfind(is_break).map_or(0, |at| at + 1);
    let mut out = terminal::output();
    for path in matching_paths(&typed).unwrap_or_default() {
        // The shell may have closed the pipe.
        let _ = writeln!(out, "{}", path.get(cut..).unwrap_or_default());
    }
    let _ = out.flush();
    if typed.argument_kind == ArgumentKind::Cluster { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the paths that begin with the word at the cursor.
fn matching_paths(typed: &ParsedLine) -> Option<Vec<String>> {
    let current = typed.current.as_str();
    let path = current.strip_prefix(paths::PREFIX).unwrap_or(current);
    let prefix = &current[..current.len() - path.len()];
    let path = if path.is_empty() { "/" } else { path };
    let is_empty = current.is_empty();
    if typed.argument_kind == ArgumentKind::Other || !path.starts_with('/') {
        return None;
    }
    if typed.argument_kind == ArgumentKind::Either && is_empty {
        return None;
    }
    let (directory, begin) = path.split_at(path.rfind('/')? + 1);
    let cluster = reach::cluster_quietly(&typed.global).ok()?;
    let listing = cluster.list_names(directory).ok()?;
    let fits = listing.filter_map(Result::ok).filter(|entry| entry.name.starts_with(begin));
    let shown = fits.take(PATHS_SHOWN).map(|entry| {
        let slash = if entry.record.kind == FileKind::Directory { "/" } else { "" };
        format!("{prefix}{directory}{}{slash}", entry.name)
    });
    Some(shown.collect())
}

/// Parses a line; returns `None` if it does not call this program.
fn parse_line(line: &str) -> Option<ParsedLine> {
    let line = CompletionLine::parse(line);
    let is_setting = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let mut words = line.words.iter().skip_while(is_setting);
    let program = Path::new(words.next()?);
    program.file_name().filter(|name| *name == "pario")?;
    let mut root = Arguments::command();
    root.build();
    let mut command = &root;
    let mut names = Vec::new();
    let mut positions = 0;
    let mut given: HashMap<String, String> = HashMap::new();
    let mut only_values = false;
    let mut option: Option<&clap::Arg> = None;
    for word in words {
        if let Some(option) = option.take() {
            given.insert(option.get_id().to_string(), word.clone());
        } else if word == "--" {
            only_values = true;
        } else if !only_values && word.starts_with('-') && word.len() > 1 {
            let (name, value) = word.split_once('=').map_or((&**word, None), |(n, v)| (n, Some(v)));
            let known = option_of(command, name).or_else(|| option_of(&root, name));
            let Some(known) = known.filter(|known| known.get_action().takes_values()) else {
                continue;
            };
            match value {
                Some(value) => drop(given.insert(known.get_id().to_string(), value.to_owned())),
                None => option = Some(known),
            }
        } else if let Some(below) = command.find_subcommand(word).filter(|_| positions == 0) {
            names.push(below.get_name());
            command = below;
        } else {
            positions += 1;
        }
    }
    let argument_kind = match option {
        Some(option) if names == ["status"] && option.get_id() == "file" => ArgumentKind::Cluster,
        Some(_) => ArgumentKind::Other,
        None if line.current.starts_with('-') && !only_values => ArgumentKind::Other,
        None => argument_kind(&names, positions),
    };
    let global = GlobalOptions {
        cluster: given.get("cluster").cloned(),
        data: given.get("data").map(PathBuf::from),
        key: given.get("key").map(PathBuf::from),
        timeout: given.get("timeout").and_then(|text| text.parse().ok()).or(Some(ANSWER_SECONDS)),
        ..GlobalOptions::default()
    };
    Some(ParsedLine { argument_kind, global, current: line.current })
}

/// Returns the kind of argument at a position of a command.
fn argument_kind(names: &[&str], position: usize) -> ArgumentKind {
    match names {
        [
            "ls" | "mkdir" | "rmdir" | "rm" | "mv" | "cat" | "stat" | "du" | "compact" | "reset"
            | "view",
        ] => ArgumentKind::Cluster,
        ["chmod" | "chown"] if position > 0 => ArgumentKind::Cluster,
        ["image" | "volume", "info" | "bench"] => ArgumentKind::Cluster,
        ["image" | "volume", "apply" | "export" | "slice"] if position == 0 => {
            ArgumentKind::Cluster
        }
        ["image" | "volume", _] | ["cp" | "put" | "get"] => ArgumentKind::Either,
        _ => ArgumentKind::Other,
    }
}

fn option_of<'c>(command: &'c Command, name: &str) -> Option<&'c clap::Arg> {
    let is_it = |arg: &&clap::Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| name == format!("-{short}")),
    };
    command.get_arguments().find(is_it)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_paths_are_known() {
        for (line, expected) in [
            ("pario ls ", ArgumentKind::Cluster),
            ("pario ls -l /a /b", ArgumentKind::Cluster),
            ("./pario --data d ls /", ArgumentKind::Cluster),
            ("PARIO_KEY=k pario ls /", ArgumentKind::Cluster),
            ("pario --data ", ArgumentKind::Other),
            ("pario ls --cluster ", ArgumentKind::Other),
            ("pario ls -", ArgumentKind::Other),
            ("pario chmod ", ArgumentKind::Other),
            ("pario chmod 640 /", ArgumentKind::Cluster),
            ("pario cp ", ArgumentKind::Either),
            ("pario cp x /", ArgumentKind::Either),
            ("pario status --file /", ArgumentKind::Cluster),
            ("pario status ", ArgumentKind::Other),
            ("pario run -n 4 ./x /", ArgumentKind::Other),
            ("pario volume slice /", ArgumentKind::Cluster),
            ("pario image import x.png /", ArgumentKind::Either),
            ("pario ", ArgumentKind::Other),
        ] {
            let typed = parse_line(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(typed.argument_kind, expected, "{line}");
        }
        assert!(parse_line("other ls /").is_none());
        assert!(parse_line("").is_none());
    }

    #[test]
    fn the_cluster_of_the_line_is_asked() {
        let typed = parse_line("pario --data=d --timeout 3 ls --key k /").unwrap();
        assert_eq!(typed.global.data, Some("d".into()));
        assert_eq!(typed.global.key, Some("k".into()));
        assert_eq!(typed.global.timeout, Some(3.0));
        assert_eq!(parse_line("pario ls /").unwrap().global.timeout, Some(ANSWER_SECONDS));
    }
}
