//! Collective calls: all hear what all have called, and whether it can be done everywhere.

use pario_team::Team;

use super::error::RecordError;

/// Tells all others what this rank calls and what it has found, and hears it from them. If somebody
/// has an error, or if the ranks have called different things, all get the same error.
///
/// `call` is for people, and together with `arguments` must be the same everywhere; `found` may
/// differ.
pub fn agree(
    team: &Team,
    call: &str,
    arguments: &[u8],
    found: Result<Vec<u8>, RecordError>,
) -> Result<Vec<Vec<u8>>, RecordError> {
    let arguments = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, arguments);
    let mut said = Vec::new();
    said.extend_from_slice(&arguments.to_le_bytes());
    put_bytes(&mut said, call.as_bytes());
    match &found {
        Ok(found) => {
            put_number(&mut said, 0);
            put_bytes(&mut said, found);
        }
        Err(error) => {
            let (kind, text) = error.told();
            said.extend_from_slice(&i64::from(kind).to_le_bytes());
            put_bytes(&mut said, text.as_bytes());
        }
    }
    let all = team.gather(&said)?;
    let heard: Option<Vec<Heard<'_>>> = all.iter().map(|said| hear(said)).collect();
    let Some(heard) = heard else {
        let text = "the processes of the job run different versions of Pario: build all alike";
        return Err(RecordError::Invalid(text.to_owned()));
    };
    if let Some(error) = different_calls(&heard) {
        return Err(error);
    }
    if let Some((rank, first)) = heard.iter().enumerate().find(|(_, heard)| heard.kind != 0) {
        // What all say needs no name.
        let is_common = heard.iter().all(|one| one.found == first.found);
        let text = String::from_utf8_lossy(first.found);
        let text = if is_common { text.into_owned() } else { format!("rank {rank}: {text}") };
        let kind = i32::try_from(first.kind).unwrap_or(-5);
        return Err(RecordError::of_told(kind, text));
    }
    Ok(heard.iter().map(|heard| heard.found.to_vec()).collect())
}

struct Heard<'a> {
    call: &'a [u8],
    arguments: u64,
    kind: i64,
    found: &'a [u8],
}

fn hear(said: &[u8]) -> Option<Heard<'_>> {
    let mut said = Reader(said);
    let arguments = said.number()?;
    let call = said.bytes()?;
    let kind = said.number()?.cast_signed();
    Some(Heard { call, arguments, kind, found: said.bytes()? })
}

fn different_calls(heard: &[Heard<'_>]) -> Option<RecordError> {
    let first = heard.first()?;
    let is_same = |one: &Heard<'_>| one.call == first.call && one.arguments == first.arguments;
    let other = heard.iter().position(|one| !is_same(one))?;
    let call = |rank: usize| String::from_utf8_lossy(heard[rank].call);
    let how = if call(0) == call(other) { ", with other arguments" } else { "" };
    Some(RecordError::Invalid(format!(
        "the ranks of the team disagree\n  rank 0 called {}\n  rank {other} called {}{how}",
        call(0),
        call(other),
    )))
}

/// Adds a number.
pub fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

/// Adds bytes, and before them how many they are.
pub fn put_bytes(bytes: &mut Vec<u8>, more: &[u8]) {
    put_number(bytes, more.len() as u64);
    bytes.extend_from_slice(more);
}

/// Reads what was put.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// A number.
    pub fn number(&mut self) -> Option<u64> {
        let (eight, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*eight))
    }

    /// A small number.
    pub fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}
