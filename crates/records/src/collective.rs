//! Collective calls: the ranks exchange what each has called and whether it succeeded, so that all
//! of them return the same result. Also the encoding of these messages.

use pario_team::Team;

use super::error::RecordError;

/// Exchanges calls and results with all ranks, and returns the results by rank. If one rank passes
/// an error, or if the calls do not match, all ranks get the same error.
///
/// `call` and `arguments` must be the same on all ranks; errors quote `call`. `result` may differ.
pub fn agree(
    team: &Team,
    call: &str,
    arguments: &[u8],
    result: Result<Vec<u8>, RecordError>,
) -> Result<Vec<Vec<u8>>, RecordError> {
    let arguments = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, arguments);
    let mut message = Vec::new();
    message.extend_from_slice(&arguments.to_le_bytes());
    put_bytes(&mut message, call.as_bytes());
    match &result {
        Ok(bytes) => {
            put_number(&mut message, 0);
            put_bytes(&mut message, bytes);
        }
        Err(error) => {
            let (kind, text) = error.to_code();
            message.extend_from_slice(&i64::from(kind).to_le_bytes());
            put_bytes(&mut message, text.as_bytes());
        }
    }
    let all = team.gather(&message)?;
    let messages: Option<Vec<RankMessage<'_>>> = all.iter().map(|bytes| decode(bytes)).collect();
    let messages = messages.ok_or_else(different_versions)?;
    if let Some(error) = different_calls(&messages) {
        return Err(error);
    }
    if let Some((rank, first)) = messages.iter().enumerate().find(|(_, message)| message.kind != 0)
    {
        // An error that all ranks have needs no rank.
        let is_common = messages.iter().all(|message| message.result == first.result);
        let text = String::from_utf8_lossy(first.result);
        let text = if is_common { text.into_owned() } else { format!("rank {rank}: {text}") };
        let kind = i32::try_from(first.kind).unwrap_or(-5);
        return Err(RecordError::of_code(kind, text));
    }
    Ok(messages.iter().map(|message| message.result.to_vec()).collect())
}

/// Reports that the ranks do not understand each other's messages.
pub fn different_versions() -> RecordError {
    let text = "the processes of the job run different versions of Pario and cannot share a record \
                file; run the same version in all of them";
    RecordError::Invalid(text.to_owned())
}

/// What one rank sends to all in a collective call.
struct RankMessage<'a> {
    call: &'a [u8],
    /// The checksum of the arguments.
    arguments: u64,
    /// 0, or the number of the error.
    kind: i64,
    /// The rank's result, or the text of its error.
    result: &'a [u8],
}

fn decode(bytes: &[u8]) -> Option<RankMessage<'_>> {
    let mut fields = MessageReader(bytes);
    let arguments = fields.number()?;
    let call = fields.bytes()?;
    let kind = fields.number()?.cast_signed();
    Some(RankMessage { call, arguments, kind, result: fields.bytes()? })
}

fn different_calls(messages: &[RankMessage<'_>]) -> Option<RecordError> {
    let first = messages.first()?;
    let is_same =
        |one: &RankMessage<'_>| one.call == first.call && one.arguments == first.arguments;
    let other = messages.iter().position(|one| !is_same(one))?;
    let call = |rank: usize| String::from_utf8_lossy(messages[rank].call);
    let how = if call(0) == call(other) { ", with other arguments" } else { "" };
    Some(RecordError::Invalid(format!(
        "the ranks of the team disagree\n  rank 0 called {}\n  rank {other} called {}{how}",
        call(0),
        call(other),
    )))
}

/// Appends a number to a message.
pub fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

/// Appends the length of some bytes and the bytes to a message.
pub fn put_bytes(bytes: &mut Vec<u8>, more: &[u8]) {
    put_number(bytes, more.len() as u64);
    bytes.extend_from_slice(more);
}

/// Reads the fields of a message in order. A field is `None` if the message ends before it.
pub struct MessageReader<'a>(pub &'a [u8]);

impl<'a> MessageReader<'a> {
    /// Reads a number.
    pub fn number(&mut self) -> Option<u64> {
        let (eight, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*eight))
    }

    /// Reads a number of 32 bits.
    pub fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Reads bytes with their length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}
