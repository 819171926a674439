//! How the process ends: one code for each kind of reason.

use std::io;

use pario_image::ImageError;
use pario_server::NodeError;
use pario_server::config::ConfigError;
use serde_json::json;
use thiserror::Error;

use crate::interrupt::Interrupted;

/// It failed.
pub const FAILED: u8 = 1;
/// What was typed cannot be meant.
pub const WRONG_USAGE: u8 = 2;
/// Something that should be there is not.
pub const NOT_FOUND: u8 = 3;
/// The user may not do this.
pub const NOT_PERMITTED: u8 = 4;
/// A node or the cluster does not answer.
pub const NOT_REACHABLE: u8 = 5;
/// Somebody asked for the end.
pub const INTERRUPTED: u8 = 130;

/// What was typed cannot be meant; the sentence says what can.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Something is wrong that was printed already: only the code is left to be given.
#[derive(Clone, Copy, Debug, Error)]
#[error("exit code {0}")]
pub struct Told(pub u8);

/// The code of an error.
pub fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of).unwrap_or(FAILED)
}

/// Whether all that failed is that the reader of the output has gone, as in `pario ls | head`.
pub fn nobody_listens(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints an error on stderr: a sentence, or with `--json` one line of JSON.
pub fn tell(error: &anyhow::Error, is_json: bool) {
    if nobody_listens(error) || error.is::<Told>() {
        return;
    }
    match error.downcast_ref::<ConfigError>() {
        // Each of its lines begins with a file and a line of it, where editors look for them.
        Some(error) if !is_json => eprintln!("{error}"),
        _ => tell_text(&format!("{error:#}"), code(error), is_json),
    }
}

/// Prints a sentence about a failure on stderr, as [`tell`] does.
pub fn tell_text(text: &str, code: u8, is_json: bool) {
    if is_json {
        eprintln!("{}", json!({ "error": text.trim_end(), "exit_code": code }));
    } else {
        eprintln!("pario: {}", text.trim_end());
    }
}

/// Reports arguments that cannot be meant, as [`tell`] does. `text` is what the parser says.
pub fn tell_usage(text: &str, is_json: bool) {
    const MARK: &str = "error: ";
    let text = match text.strip_prefix(MARK) {
        Some(text) => text.to_owned(),
        None => format!("a command is missing\n\n{text}"),
    };
    tell_text(&text, WRONG_USAGE, is_json);
}

fn code_of(error: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if error.is::<Interrupted>() {
        Some(INTERRUPTED)
    } else if let Some(Told(code)) = error.downcast_ref() {
        Some(*code)
    } else if error.is::<Usage>() || error.is::<pario::PathError>() {
        Some(WRONG_USAGE)
    } else if let Some(error) = error.downcast_ref::<pario::Error>() {
        Some(code_of_cluster(error))
    } else if let Some(error) = error.downcast_ref::<ImageError>() {
        Some(match error {
            ImageError::Cluster(error) => code_of_cluster(error),
            error => code_of_kind(error.kind()),
        })
    } else if let Some(error) = error.downcast_ref::<NodeError>() {
        Some(code_of_kind(error.kind())).filter(|code| *code != NOT_REACHABLE).or(Some(FAILED))
    } else {
        // Files of this machine: what is unreachable here is no node.
        let error: &io::Error = error.downcast_ref()?;
        Some(code_of_kind(error.kind())).filter(|code| *code != NOT_REACHABLE).or(Some(FAILED))
    }
}

fn code_of_cluster(error: &pario::Error) -> u8 {
    match error {
        pario::Error::Path(_) => WRONG_USAGE,
        pario::Error::NotRunning { .. } | pario::Error::NodeDown { .. } => NOT_REACHABLE,
        pario::Error::Failure(
            pario::Failure::NodeDown { .. } | pario::Failure::Stopping { .. },
        ) => NOT_REACHABLE,
        _ => code_of_kind(error.kind()),
    }
}

fn code_of_kind(kind: io::ErrorKind) -> u8 {
    use io::ErrorKind as Kind;
    match kind {
        Kind::InvalidInput | Kind::InvalidFilename => WRONG_USAGE,
        Kind::NotFound => NOT_FOUND,
        Kind::PermissionDenied => NOT_PERMITTED,
        Kind::ConnectionRefused
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::NotConnected
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::TimedOut => NOT_REACHABLE,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn every_reason_has_its_code() {
        let path = || pario::FilePath::new("/x").unwrap();
        let down = pario::Failure::NodeDown { node: "b".into(), why: "killed".into() };
        let none = || pario::Error::NotRunning { text: "none".into() };
        let key = |kind| pario::Error::KeyFile { kind, text: "no".into() };
        let node = |kind: io::ErrorKind| NodeError::Io { path: "x".into(), error: kind.into() };
        for (error, expected) in [
            (anyhow!("something"), FAILED),
            (Usage("no".into()).into(), WRONG_USAGE),
            (pario::FilePath::new("x").unwrap_err().into(), WRONG_USAGE),
            (pario::Error::from(pario::FilePath::new("").unwrap_err()).into(), WRONG_USAGE),
            (pario::Error::Failure(down).into(), NOT_REACHABLE),
            (none().into(), NOT_REACHABLE),
            (ImageError::Cluster(none()).into(), NOT_REACHABLE),
            (pario::Error::Refused { text: "no".into() }.into(), NOT_PERMITTED),
            (key(io::ErrorKind::PermissionDenied).into(), NOT_PERMITTED),
            (key(io::ErrorKind::NotFound).into(), NOT_FOUND),
            (key(io::ErrorKind::InvalidInput).into(), WRONG_USAGE),
            (node(io::ErrorKind::PermissionDenied).into(), NOT_PERMITTED),
            (node(io::ErrorKind::TimedOut).into(), FAILED),
            (ImageError::Invalid("no".into()).into(), WRONG_USAGE),
            (Interrupted.into(), INTERRUPTED),
            (Told(FAILED).into(), FAILED),
            (io::Error::from(io::ErrorKind::NotFound).into(), NOT_FOUND),
            (io::Error::from(io::ErrorKind::PermissionDenied).into(), NOT_PERMITTED),
            (io::Error::from(io::ErrorKind::TimedOut).into(), FAILED),
        ] {
            assert_eq!(code(&error), expected, "{error}");
        }
        let within = Err::<(), _>(Interrupted).with_context(|| format!("copying {}", path()));
        assert_eq!(code(&within.unwrap_err()), INTERRUPTED);
    }

    #[test]
    fn kinds_become_codes() {
        assert_eq!(code_of_kind(io::ErrorKind::InvalidInput), WRONG_USAGE);
        assert_eq!(code_of_kind(io::ErrorKind::NotFound), NOT_FOUND);
        assert_eq!(code_of_kind(io::ErrorKind::ConnectionRefused), NOT_REACHABLE);
        assert_eq!(code_of_kind(io::ErrorKind::StorageFull), FAILED);
    }

    #[test]
    fn a_reader_that_has_gone_is_known() {
        assert!(nobody_listens(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
        assert!(!nobody_listens(&anyhow!("something")));
    }
}
