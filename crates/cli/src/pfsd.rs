//! The commands of PFSLib: other names for commands of `pario`. They translate their arguments and
//! become `pario`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Exit code for invalid arguments.
const WRONG_USAGE: u8 = 2;

/// Default port of a cluster that is named by its host.
const PORT: u16 = 7411;

/// Runs the command with this name and the arguments of this process.
pub fn run(name: &str) -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
    if typed.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{}", help(name));
        return ExitCode::SUCCESS;
    }
    let Some(arguments) = translate(name, &typed, &own_names()) else {
        eprintln!("pario: {name}: invalid arguments\n\n{}", help(name));
        return WRONG_USAGE.into();
    };
    let error = Command::new(pario()).args(arguments).exec();
    eprintln!("{name}: cannot start `pario`: {error}; install it beside this command");
    ExitCode::FAILURE
}

/// Returns the arguments of `pario`; `None` if the typed ones are invalid.
fn translate(name: &str, typed: &[OsString], own_names: &[String]) -> Option<Vec<OsString>> {
    let mut arguments: Vec<OsString> = Vec::new();
    if name == "pfsd" {
        arguments.push("serve".into());
        match typed {
            [] => {}
            [number] if is_number(number) => {
                arguments.extend(["--storage-threads".into(), number.clone()]);
            }
            _ => return None,
        }
        return Some(arguments);
    }
    let (host, rest) = typed.split_first()?;
    if host.is_empty() || host.as_encoded_bytes().starts_with(b"-") {
        return None;
    }
    if let Some(address) = address(host, own_names) {
        arguments.extend(["--cluster".into(), address]);
    }
    match (name, rest) {
        ("pfsdexit", []) => arguments.push("stop".into()),
        ("pfsdreset", files) => {
            arguments.extend(["reset".into(), "--".into()]);
            arguments.extend(files.iter().cloned());
        }
        ("pfsdstat", mut rest) => {
            arguments.push("status".into());
            while let Some((option, more)) = rest.split_first() {
                rest = more;
                match option.to_str() {
                    // `pario status` always shows everything.
                    Some("-i" | "-v") => {}
                    Some("-f") => {
                        let (file, more) = rest.split_first()?;
                        arguments.extend(["--file".into(), file.clone()]);
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

/// Returns the address of a cluster on a host; `None` for this machine, where `pario` finds it.
fn address(host: &OsString, own_names: &[String]) -> Option<OsString> {
    let Some(text) = host.to_str() else { return Some(host.clone()) };
    if own_names.iter().any(|own| own == text) {
        return None;
    }
    let is_name = !text.contains(['/', ':', '=']) && !PathBuf::from(text).is_dir();
    if is_name { Some(format!("tcp:{text}:{PORT}").into()) } else { Some(host.clone()) }
}

/// Returns the names of this machine.
fn own_names() -> Vec<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    vec!["localhost".to_owned(), name.trim().to_owned()]
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
        "pfsd" => ("[NUMBER]", "runs a node in ./pario-data, with NUMBER threads for its disks"),
        "pfsdexit" => ("HOST", "stops the nodes of the cluster on HOST"),
        "pfsdreset" => ("HOST [FILE...]", "resets shared files; without FILE, all files and jobs"),
        _ => ("HOST [-f FILE] [-i] [-v]", "shows the state of the cluster on HOST, or of one file"),
    };
    let command = match name {
        "pfsd" => "serve",
        "pfsdexit" => "stop",
        "pfsdreset" => "reset",
        _ => "status",
    };
    format!(
        "Usage: {name} {arguments}\n\n{name} {what}. It is another name for `pario {command}`, \
         which can do more.\n\nHOST is localhost or this machine for your running node; another \
         machine, at port {PORT};\nor any address of a cluster: a data directory, unix:PATH, \
         tcp:HOST:PORT."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split_whitespace().skip(1).map(OsString::from).collect();
        let name = line.split_whitespace().next().unwrap();
        let own = ["localhost".to_owned(), "here".to_owned()];
        let words = translate(name, &words, &own)?;
        Some(words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn old_words_become_new_ones() {
        for (old, new) in [
            ("pfsd", "serve"),
            ("pfsd 8", "serve --storage-threads 8"),
            ("pfsdexit localhost", "stop"),
            ("pfsdexit here", "stop"),
            ("pfsdexit there", "--cluster tcp:there:7411 stop"),
            ("pfsdexit tcp:there:9", "--cluster tcp:there:9 stop"),
            ("pfsdexit unix:/x", "--cluster unix:/x stop"),
            ("pfsdexit /data", "--cluster /data stop"),
            ("pfsdexit src", "--cluster src stop"),
            ("pfsdreset localhost", "reset --"),
            ("pfsdreset localhost /a /b", "reset -- /a /b"),
            ("pfsdstat localhost", "status"),
            ("pfsdstat localhost -v -f /a -i", "status --file /a"),
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
