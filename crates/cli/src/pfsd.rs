//! The commands of PFSLib: other names for commands of `pario`. They translate their arguments and
//! become `pario`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

/// Exit code for invalid arguments.
const WRONG_USAGE: u8 = 2;

/// Data requests that `pfsd` serves at once, unless its argument says otherwise.
const DAEMONS: &str = "8";

/// Runs the command with this name and the arguments of this process.
pub fn run(name: &str) -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
    if typed.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{}", help(name));
        return ExitCode::SUCCESS;
    }
    let here = std::env::current_dir().unwrap_or_default();
    let Some(arguments) = translate(name, &typed, &here) else {
        eprintln!("pario: {name}: invalid arguments\n\n{}", help(name));
        return WRONG_USAGE.into();
    };
    let error = Command::new(pario()).args(arguments).exec();
    eprintln!("{name}: cannot start `pario`: {error}; install it beside this command");
    ExitCode::FAILURE
}

/// Returns the arguments of `pario`; `None` if the typed ones are invalid. Relative names of files
/// begin at the directory `here`.
fn translate(name: &str, typed: &[OsString], here: &Path) -> Option<Vec<OsString>> {
    if name == "pfsd" {
        return serve(typed);
    }
    let (host, mut rest) = typed.split_first()?;
    if host.is_empty() || host.as_encoded_bytes().starts_with(b"-") {
        return None;
    }
    let mut arguments: Vec<OsString> = vec!["--host".into(), host.clone()];
    match (name, rest) {
        ("pfsdexit", []) => arguments.push("stop".into()),
        ("pfsdreset", files) => {
            arguments.extend(["reset".into(), "--".into()]);
            arguments.extend(files.iter().map(|file| cluster_path(file, here)));
        }
        ("pfsdstat", _) => {
            arguments.push("status".into());
            while let Some((option, more)) = rest.split_first() {
                rest = more;
                match option.to_str() {
                    Some("-i") => arguments.push("--threads".into()),
                    Some("-v") => arguments.push("--all".into()),
                    Some("-f") => {
                        let (file, more) = rest.split_first()?;
                        arguments.extend(["--file".into(), cluster_path(file, here)]);
                        rest = more;
                    }
                    _ => return None,
                }
            }
        }
        _ => return None,
    }
    Some(arguments)
}

/// Returns the arguments of `pario serve`.
fn serve(mut typed: &[OsString]) -> Option<Vec<OsString>> {
    let (mut daemons, mut others) = (None, Vec::new());
    while let Some((argument, rest)) = typed.split_first() {
        typed = rest;
        match argument.to_str() {
            Some("--listen") => {
                others.push(argument.clone());
                // A number alone is that of the daemons.
                if let Some((address, rest)) = rest.split_first()
                    && !is_number(address)
                    && !address.as_encoded_bytes().starts_with(b"-")
                {
                    others.push(address.clone());
                    typed = rest;
                }
            }
            Some("--data" | "--key") => {
                let (value, rest) = rest.split_first()?;
                others.extend([argument.clone(), value.clone()]);
                typed = rest;
            }
            _ if is_number(argument) && daemons.is_none() => daemons = Some(argument.clone()),
            _ => return None,
        }
    }
    let daemons = daemons.unwrap_or_else(|| DAEMONS.into());
    let mut arguments = vec!["serve".into(), "--concurrent-requests".into(), daemons];
    arguments.extend(others);
    Some(arguments)
}

/// Returns the path of the file that programs open by this name: a relative name begins at the
/// working directory, and `.` and `..` are resolved.
fn cluster_path(name: &OsStr, here: &Path) -> OsString {
    let mut path = PathBuf::from("/");
    for part in here.join(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => {
                path.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path.into()
}

fn is_number(text: &OsString) -> bool {
    text.to_str().is_some_and(|text| text.parse::<u32>().is_ok_and(|number| number > 0))
}

/// Returns the `pario` beside this program, otherwise the one in PATH.
fn pario() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.with_file_name("pario");
    if beside.is_file() { beside } else { "pario".into() }
}

fn help(name: &str) -> String {
    let (arguments, what) = match name {
        "pfsd" => (
            "[NUMBER] [--listen [ADDRESS]] [--data DIR] [--key FILE]",
            "runs a node in ./pario-data that serves NUMBER data requests at once (8 by default), \
             whatever the number of its disks",
        ),
        "pfsdexit" => ("HOST", "stops the nodes of the cluster on HOST"),
        "pfsdreset" => (
            "HOST [FILE...]",
            "resets shared files, named as programs name them; without FILE, all files and jobs",
        ),
        _ => (
            "HOST [-f FILE] [-i] [-v]",
            "shows the state of the cluster on HOST, or of one file; -i adds the threads that serve \
             the disks with their files and queues, -v everything else: pointers and ends of shared \
             files, started requests, calls that wait, idle threads",
        ),
    };
    let command = match name {
        "pfsd" => "serve",
        "pfsdexit" => "stop",
        "pfsdreset" => "reset",
        _ => "status",
    };
    let place = match name {
        "pfsd" => {
            "With --listen, other machines reach the node at port 7411 with the key that the first \
             start makes\nand `pario serve --help` explains."
        }
        _ => {
            "HOST is localhost or this machine for your running node; another machine, at port \
             7411;\nor any address of a cluster: a data directory as ./DIR, unix:PATH, \
             tcp:HOST:PORT."
        }
    };
    format!(
        "Usage: {name} {arguments}\n\n{name} {what}. It is another name for `pario {command}`, \
         which can do more.\n\n{place}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split_whitespace().skip(1).map(OsString::from).collect();
        let name = line.split_whitespace().next().unwrap();
        let words = translate(name, &words, Path::new("/home/anna"))?;
        Some(words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn old_words_become_new_ones() {
        for (old, new) in [
            ("pfsd", "serve --concurrent-requests 8"),
            ("pfsd 3", "serve --concurrent-requests 3"),
            ("pfsd --listen 3", "serve --concurrent-requests 3 --listen"),
            ("pfsd 3 --listen 10.0.0.7", "serve --concurrent-requests 3 --listen 10.0.0.7"),
            ("pfsd --data d --key k", "serve --concurrent-requests 8 --data d --key k"),
            ("pfsdexit localhost", "--host localhost stop"),
            ("pfsdexit there", "--host there stop"),
            ("pfsdexit unix:/x", "--host unix:/x stop"),
            ("pfsdreset localhost", "--host localhost reset --"),
            (
                "pfsdreset localhost /pfs/a x.pfs",
                "--host localhost reset -- /pfs/a /home/anna/x.pfs",
            ),
            ("pfsdreset localhost ../pfs/./b/", "--host localhost reset -- /home/pfs/b"),
            ("pfsdstat localhost", "--host localhost status"),
            (
                "pfsdstat localhost -v -f x.pfs -i",
                "--host localhost status --all --file /home/anna/x.pfs --threads",
            ),
        ] {
            assert_eq!(translated(old).as_deref(), Some(new), "{old}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        for line in [
            "pfsd 0",
            "pfsd many",
            "pfsd 1 2",
            "pfsd --data",
            "pfsd --listen -x",
            "pfsdexit",
            "pfsdexit a b",
            "pfsdreset",
            "pfsdstat",
            "pfsdstat -v",
            "pfsdstat localhost -f",
            "pfsdstat localhost -x",
        ] {
            assert_eq!(translated(line), None, "{line}");
        }
    }
}
