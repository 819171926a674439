//! Exit codes, one for each kind of failure, and the error report.

use std::io;

use pario::ErrorKind;
use pario_image::ImageError;
use pario_server::NodeError;
use pario_server::config::ConfigError;
use serde_json::json;
use thiserror::Error;

use crate::interrupt::Interrupted;

/// Any other failure.
pub const FAILED: u8 = 1;
/// The arguments are invalid.
pub const WRONG_USAGE: u8 = 2;
/// A file or directory does not exist.
pub const NOT_FOUND: u8 = 3;
/// The user lacks the permission.
pub const NOT_PERMITTED: u8 = 4;
/// A node or the cluster does not answer.
pub const NOT_REACHABLE: u8 = 5;
/// A signal ended the command.
pub const INTERRUPTED: u8 = 130;

/// Invalid arguments; the text says what is valid.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// A failure of the cluster, and the option that the user may have meant.
#[derive(Debug, Error)]
#[error("{failure}; {hint}")]
pub struct HintedFailure {
    /// The failure.
    pub failure: pario::Error,
    /// What to do.
    pub hint: &'static str,
}

/// A failure that is already printed; only the exit code is left.
#[derive(Clone, Copy, Debug, Error)]
#[error("exit code {0}")]
pub struct AlreadyReported(pub u8);

/// Returns the exit code of an error.
pub fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of).unwrap_or(FAILED)
}

/// Returns whether the error is a closed pipe (`pario ls | head`), which is not reported.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints an error on stderr: as text, or with `--json` as one line of JSON.
pub fn report(error: &anyhow::Error, is_json: bool) {
    if is_closed_pipe(error) || error.is::<AlreadyReported>() {
        return;
    }
    match error.downcast_ref::<ConfigError>() {
        // Each line begins with FILE:LINE, which editors recognise.
        Some(error) if !is_json => eprintln!("{error}"),
        _ => report_text(&format!("{error:#}"), code(error), is_json),
    }
}

/// Prints the text of a failure on stderr, like [`report`].
pub fn report_text(text: &str, code: u8, is_json: bool) {
    if is_json {
        eprintln!("{}", json!({ "error": text.trim_end(), "exit_code": code }));
    } else {
        eprintln!("pario: {}", text.trim_end());
    }
}

/// Reports invalid arguments, like [`report`]. `text` is the message of the parser.
pub fn report_usage(text: &str, is_json: bool) {
    const MARK: &str = "error: ";
    let text = match text.strip_prefix(MARK) {
        Some(text) => text.to_owned(),
        None => format!("a command is missing\n\n{text}"),
    };
    report_text(&text, WRONG_USAGE, is_json);
}

fn code_of(error: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if error.is::<Interrupted>() {
        Some(INTERRUPTED)
    } else if let Some(AlreadyReported(code)) = error.downcast_ref() {
        Some(*code)
    } else if error.is::<UsageError>() || error.is::<pario::PathError>() {
        Some(WRONG_USAGE)
    } else if let Some(error) = error.downcast_ref::<pario::Error>() {
        Some(code_of_cluster(error))
    } else if let Some(error) = error.downcast_ref::<HintedFailure>() {
        Some(code_of_cluster(&error.failure))
    } else if let Some(error) = error.downcast_ref::<ImageError>() {
        Some(match error {
            ImageError::Cluster(error) => code_of_cluster(error),
            error => code_of_kind(error.kind()),
        })
    } else if let Some(error) = error.downcast_ref::<NodeError>() {
        Some(code_of_kind(error.kind().into()))
            .filter(|code| *code != NOT_REACHABLE)
            .or(Some(FAILED))
    } else {
        // An unreachable local file is not an unreachable node.
        let error: &io::Error = error.downcast_ref()?;
        Some(code_of_kind(error.kind().into()))
            .filter(|code| *code != NOT_REACHABLE)
            .or(Some(FAILED))
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

fn code_of_kind(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Invalid => WRONG_USAGE,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::PermissionDenied => NOT_PERMITTED,
        ErrorKind::NodeUnreachable | ErrorKind::TimedOut => NOT_REACHABLE,
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
            (UsageError("no".into()).into(), WRONG_USAGE),
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
            (AlreadyReported(FAILED).into(), FAILED),
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
        assert_eq!(code_of_kind(ErrorKind::Invalid), WRONG_USAGE);
        assert_eq!(code_of_kind(ErrorKind::NotFound), NOT_FOUND);
        assert_eq!(code_of_kind(io::ErrorKind::ConnectionRefused.into()), NOT_REACHABLE);
        assert_eq!(code_of_kind(ErrorKind::NoSpace), FAILED);
    }

    #[test]
    fn a_reader_that_has_gone_is_known() {
        assert!(is_closed_pipe(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
        assert!(!is_closed_pipe(&anyhow!("something")));
    }
}
