//! How the ranks agree on a collective call: that all make the same one, and that it worked for all.

use std::io;

use pario_team::Team;

use crate::error::Error;

/// The failure of one rank in a collective call, in a form that is sent to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFailure {
    /// The closest error number of the operating system.
    pub number: i32,
    /// What the rank could not do, and why.
    pub text: String,
    /// Whether a sync has failed, so that the content of the disk is unknown.
    pub is_final: bool,
}

impl RankFailure {
    pub fn new(number: rustix::io::Errno, text: impl Into<String>) -> Self {
        Self { number: number.raw_os_error(), text: text.into(), is_final: false }
    }

    /// An impossible argument.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(rustix::io::Errno::INVAL, text)
    }

    /// Puts the action that failed before the text.
    pub fn context(mut self, what: &str) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }

    /// Converts it to the error that all ranks get.
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

impl From<io::Error> for RankFailure {
    fn from(error: io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or_else(|| number_of(error.kind()));
        Self { number, text: error.to_string(), is_final: false }
    }
}

impl From<Error> for RankFailure {
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

/// Makes a collective call with the result of this rank: a number, or its failure. All ranks get the
/// numbers of all, or the same error.
pub fn agree(
    team: &Team,
    path: &str,
    call: &str,
    result: &Result<u64, RankFailure>,
) -> Result<Vec<u64>, Error> {
    let numbers = agree_on(team, path, call, &result.clone().map(|number| [number]))?;
    Ok(numbers.into_iter().map(|[number]| number).collect())
}

/// Like [`agree`], with several numbers of each rank.
pub fn agree_on<const COUNT: usize>(
    team: &Team,
    path: &str,
    call: &str,
    result: &Result<[u64; COUNT], RankFailure>,
) -> Result<Vec<[u64; COUNT]>, Error> {
    let reports = team.gather(&encode(call, result))?;
    let reports: Option<Vec<_>> = reports.iter().map(|report| decode(report)).collect();
    let Some(reports) = reports else {
        let calls = format!(
            "\n  this rank called {call} of {path}, and another rank a call that is unknown here"
        );
        return Err(Error::Disagree { job: team.job().to_owned(), calls });
    };
    if reports.iter().any(|(theirs, _)| theirs != call) {
        let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
        for (rank, (call, _)) in reports.iter().enumerate() {
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
    // A failed sync matters more than a failed write.
    let order = |result: &Result<_, RankFailure>| result.as_ref().err().map(|why| !why.is_final);
    let failed =
        (0..).zip(&reports).filter_map(|(rank, (_, result))| Some((order(result)?, rank, result)));
    if let Some((_, rank, Err(why))) = failed.min_by_key(|(order, rank, _)| (*order, *rank)) {
        return Err(why.clone().of_rank(path, rank));
    }
    Ok(reports.into_iter().filter_map(|(_, result)| result.ok()).collect())
}

fn encode<const COUNT: usize>(call: &str, result: &Result<[u64; COUNT], RankFailure>) -> Vec<u8> {
    let mut bytes = u32::try_from(call.len()).unwrap_or(0).to_le_bytes().to_vec();
    bytes.extend_from_slice(call.as_bytes());
    match result {
        Ok(numbers) => {
            bytes.push(0);
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        Err(RankFailure { number, text, is_final }) => {
            bytes.push(1 + u8::from(*is_final));
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

fn decode<const COUNT: usize>(bytes: &[u8]) -> Option<(String, Result<[u64; COUNT], RankFailure>)> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (call, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let call = String::from_utf8(call.to_vec()).ok()?;
    let (status, rest) = rest.split_first()?;
    if *status == 0 {
        let (numbers, _) = rest.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_le_bytes).collect();
        return Some((call, Ok(numbers.try_into().ok()?)));
    }
    let (number, text) = rest.split_first_chunk::<4>()?;
    let (number, is_final) = (i32::from_le_bytes(*number), *status == 2);
    let text = String::from_utf8_lossy(text).into_owned();
    Some((call, Err(RankFailure { number, text, is_final })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_encoding() {
        let trouble = RankFailure::new(rustix::io::Errno::NOSPC, "full");
        let last = RankFailure { is_final: true, ..trouble.clone() };
        for done in [Ok([0, 1]), Ok([u64::MAX; 2]), Err(trouble), Err(last)] {
            let report = decode(&encode("flush of /x", &done));
            assert_eq!(report, Some(("flush of /x".to_owned(), done)));
        }
        let one = encode("flush of /x", &Ok([7]));
        assert_eq!(decode::<2>(&one), None);
        assert_eq!(decode::<1>(&[9, 0, 0, 0, 1]), None);
        assert_eq!(decode::<1>(&[]), None);
    }
}
