//! `pario complete-path LINE`: which paths of the cluster can stand at the end of a line that is
//! being typed. Scripts for shells run it, people do not; so it says nothing about failures.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use pario::FileKind;

use super::line::Line;
use crate::arguments::{Arguments, Global};
use crate::{paths, reach, terminal};

/// The name of the command.
pub const NAME: &str = "complete-path";

/// How long a node may take to answer, unless the line says otherwise: a user waits.
const ANSWER_SECONDS: f64 = 1.0;
/// Paths that are printed at most; shells do not show more in a useful way.
const PATHS_SHOWN: usize = 2000;

/// What can stand at a place of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A path of the cluster.
    Cluster,
    /// A path of the cluster or of this machine.
    Either,
    /// Something else.
    Other,
}

/// What the line says so far.
#[derive(Debug)]
struct Typed {
    place: Place,
    global: Global,
    /// The word at the cursor.
    current: String,
}

/// Prints the paths, one in each line; directories end with a slash. The arguments are the line up
/// to the cursor and the characters at which the shell breaks words: it wants only what follows the
/// last one of the word. The exit code is 0 if only a path of the cluster can stand there.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut next = || arguments.next().and_then(|text| text.into_string().ok());
    let Some(typed) = next().and_then(|line| understand(&line)) else { return ExitCode::FAILURE };
    let breaks = next().unwrap_or_default();
    let is_break = |letter: char| matches!(letter, ':' | '=') && breaks.contains(letter);
    let cut = typed.current.rfind(is_break).map_or(0, |at| at + 1);
    let mut out = terminal::output();
    for path in found(&typed).unwrap_or_default() {
        // A shell that has gone needs no paths.
        let _ = writeln!(out, "{}", path.get(cut..).unwrap_or_default());
    }
    let _ = out.flush();
    if typed.place == Place::Cluster { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The paths that begin with the word at the cursor.
fn found(typed: &Typed) -> Option<Vec<String>> {
    let current = typed.current.as_str();
    let path = current.strip_prefix(paths::PREFIX).unwrap_or(current);
    let prefix = &current[..current.len() - path.len()];
    let path = if path.is_empty() { "/" } else { path };
    let is_empty = current.is_empty();
    if typed.place == Place::Other || !path.starts_with('/') {
        return None;
    }
    if typed.place == Place::Either && is_empty {
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

/// What the words of a line mean; nothing if it is no line of this program.
fn understand(line: &str) -> Option<Typed> {
    let line = Line::parse(line);
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
    let place = match option {
        Some(option) if names == ["status"] && option.get_id() == "file" => Place::Cluster,
        Some(_) => Place::Other,
        None if line.current.starts_with('-') && !only_values => Place::Other,
        None => place(&names, positions),
    };
    let global = Global {
        cluster: given.get("cluster").cloned(),
        data: given.get("data").map(PathBuf::from),
        key: given.get("key").map(PathBuf::from),
        timeout: given.get("timeout").and_then(|text| text.parse().ok()).or(Some(ANSWER_SECONDS)),
        ..Global::default()
    };
    Some(Typed { place, global, current: line.current })
}

/// What a command takes at one of its places.
fn place(names: &[&str], position: usize) -> Place {
    match names {
        ["ls" | "mkdir" | "rmdir" | "rm" | "mv" | "cat" | "stat" | "du" | "reset" | "view"] => {
            Place::Cluster
        }
        ["chmod" | "chown"] if position > 0 => Place::Cluster,
        ["image" | "volume", "info" | "bench"] => Place::Cluster,
        ["image" | "volume", "apply" | "export" | "slice"] if position == 0 => Place::Cluster,
        ["image" | "volume", _] | ["cp" | "put" | "get"] => Place::Either,
        _ => Place::Other,
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
            ("pario ls ", Place::Cluster),
            ("pario ls -l /a /b", Place::Cluster),
            ("./pario --data d ls /", Place::Cluster),
            ("PARIO_KEY=k pario ls /", Place::Cluster),
            ("pario --data ", Place::Other),
            ("pario ls --cluster ", Place::Other),
            ("pario ls -", Place::Other),
            ("pario chmod ", Place::Other),
            ("pario chmod 640 /", Place::Cluster),
            ("pario cp ", Place::Either),
            ("pario cp x /", Place::Either),
            ("pario status --file /", Place::Cluster),
            ("pario status ", Place::Other),
            ("pario run -n 4 ./x /", Place::Other),
            ("pario volume slice /", Place::Cluster),
            ("pario image import x.png /", Place::Either),
            ("pario ", Place::Other),
        ] {
            let typed = understand(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(typed.place, expected, "{line}");
        }
        assert!(understand("other ls /").is_none());
        assert!(understand("").is_none());
    }

    #[test]
    fn the_cluster_of_the_line_is_asked() {
        let typed = understand("pario --data=d --timeout 3 ls --key k /").unwrap();
        assert_eq!(typed.global.data, Some("d".into()));
        assert_eq!(typed.global.key, Some("k".into()));
        assert_eq!(typed.global.timeout, Some(3.0));
        assert_eq!(understand("pario ls /").unwrap().global.timeout, Some(ANSWER_SECONDS));
    }
}
