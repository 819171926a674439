//! What all ranks must agree about: what they call, and whether it worked for all of them.

use std::io;

use pario_team::Team;

use crate::error::Error;

/// Why something failed for this rank, in a form that can be told to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The number of the system's error that is most like it.
    pub number: i32,
    /// What happened.
    pub text: String,
    /// Whether nobody knows any more what is on the disk.
    pub is_final: bool,
}

impl Trouble {
    pub fn new(number: rustix::io::Errno, text: impl Into<String>) -> Self {
        Self { number: number.raw_os_error(), text: text.into(), is_final: false }
    }

    /// An impossible wish.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(rustix::io::Errno::INVAL, text)
    }

    /// The same, said of what was done.
    pub fn doing(mut self, what: &str) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }

    /// As an error of a rank.
    pub fn of_rank(self, path: &str, rank: u32) -> Error {
        let kind = io::Error::from_raw_os_error(self.number).kind();
        Error::Cached {
            path: path.to_owned(),
            rank,
            kind,
            what: self.text,
            is_final: self.is_final,
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or_else(|| number_of(error.kind()));
        Self { number, text: error.to_string(), is_final: false }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self { number: number_of(error.kind().into()), text: error.to_string(), is_final: false }
    }
}

fn number_of(kind: io::ErrorKind) -> i32 {
    use io::ErrorKind as Kind;
    use rustix::io::Errno;
    let number = match kind {
        Kind::NotFound => Errno::NOENT,
        Kind::PermissionDenied => Errno::ACCESS,
        Kind::AlreadyExists => Errno::EXIST,
        Kind::IsADirectory => Errno::ISDIR,
        Kind::NotADirectory => Errno::NOTDIR,
        Kind::StorageFull => Errno::NOSPC,
        Kind::ReadOnlyFilesystem => Errno::ROFS,
        Kind::InvalidInput => Errno::INVAL,
        Kind::NotConnected => Errno::NOTCONN,
        Kind::StaleNetworkFileHandle => Errno::STALE,
        Kind::ConnectionAborted => Errno::CONNABORTED,
        Kind::ResourceBusy => Errno::BUSY,
        Kind::QuotaExceeded => Errno::DQUOT,
        Kind::Deadlock => Errno::DEADLK,
        Kind::TimedOut => Errno::TIMEDOUT,
        Kind::OutOfMemory => Errno::NOMEM,
        Kind::FileTooLarge => Errno::FBIG,
        _ => Errno::IO,
    };
    number.raw_os_error()
}

/// Comes to a call with all others, and says how it went for this rank: a number, or why it failed.
/// All get the numbers of all, or all get the same error.
pub fn agree(
    team: &Team,
    path: &str,
    call: &str,
    done: &Result<u64, Trouble>,
) -> Result<Vec<u64>, Error> {
    let told = team.gather(&to_bytes(call, done))?;
    let told: Option<Vec<_>> = told.iter().map(|told| of_bytes(told)).collect();
    let Some(told) = told else {
        let calls = format!(
            "\n  this one called {call} of {path}, and another something that is not known here"
        );
        return Err(Error::Disagree { job: team.job().to_owned(), calls });
    };
    if told.iter().any(|(theirs, _)| theirs != call) {
        let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
        for (rank, (call, _)) in told.iter().enumerate() {
            match lines.iter_mut().find(|(known, _)| known == call) {
                Some((_, ranks)) => ranks.push(rank.to_string()),
                None => lines.push((call, vec![rank.to_string()])),
            }
        }
        let line = |(call, ranks): &(&str, Vec<String>)| {
            let name = if ranks.len() == 1 { "rank" } else { "ranks" };
            format!("\n  {name} {} called {call}", ranks.join(", "))
        };
        let calls = lines.iter().map(line).collect();
        return Err(Error::Disagree { job: team.job().to_owned(), calls });
    }
    // Who lost sight of the disk matters more than who could not write.
    let is_worst = |done: &Result<u64, Trouble>| done.as_ref().err().map(|why| !why.is_final);
    let worst =
        (0..).zip(&told).filter_map(|(rank, (_, done))| Some((is_worst(done)?, rank, done)));
    if let Some((_, rank, Err(why))) = worst.min_by_key(|(order, rank, _)| (*order, *rank)) {
        return Err(why.clone().of_rank(path, rank));
    }
    Ok(told.into_iter().filter_map(|(_, done)| done.ok()).collect())
}

fn to_bytes(call: &str, done: &Result<u64, Trouble>) -> Vec<u8> {
    let mut bytes = u32::try_from(call.len()).unwrap_or(0).to_le_bytes().to_vec();
    bytes.extend_from_slice(call.as_bytes());
    match done {
        Ok(number) => {
            bytes.push(0);
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        Err(Trouble { number, text, is_final }) => {
            bytes.push(1 + u8::from(*is_final));
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

fn of_bytes(bytes: &[u8]) -> Option<(String, Result<u64, Trouble>)> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (call, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let call = String::from_utf8(call.to_vec()).ok()?;
    let (status, rest) = rest.split_first()?;
    if *status == 0 {
        return Some((call, Ok(u64::from_le_bytes(*rest.first_chunk()?))));
    }
    let (number, text) = rest.split_first_chunk::<4>()?;
    let (number, is_final) = (i32::from_le_bytes(*number), *status == 2);
    let text = String::from_utf8_lossy(text).into_owned();
    Some((call, Err(Trouble { number, text, is_final })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let trouble = Trouble::new(rustix::io::Errno::NOSPC, "full");
        let last = Trouble { is_final: true, ..trouble.clone() };
        for done in [Ok(0), Ok(u64::MAX), Err(trouble), Err(last)] {
            let told = of_bytes(&to_bytes("flush of /x", &done));
            assert_eq!(told, Some(("flush of /x".to_owned(), done)));
        }
        assert_eq!(of_bytes(&[9, 0, 0, 0, 1]), None);
        assert_eq!(of_bytes(&[]), None);
    }
}
