//! The request for bytes of a part that a rank sends to the machine that has the part.

use super::collective::{MessageReader, put_number};

/// A byte range of a part, and what the serving machine does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRequest {
    pub part: u32,
    /// The offset in the part.
    pub at: u64,
    /// The number of bytes.
    pub len: usize,
    pub action: PartAction,
}

/// What an access does with bytes of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartAction {
    Read,
    Write,
    Add(Addend, AddTarget),
}

/// The type and factor of the numbers that are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addend {
    /// The type of the numbers ([`pario_team::Number::KIND`]).
    pub kind: u32,
    /// Bytes per number.
    pub each: usize,
    pub factor: [u8; 8],
}

/// The numbers of a record that are added to. They determine which mutexes an addition takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddTarget {
    pub record: u64,
    /// The offset of the first number in the block of the record.
    pub in_block: u64,
}

impl PartRequest {
    /// Encodes the request.
    pub fn to_bytes(self) -> Vec<u8> {
        let Self { part, at, len, action } = self;
        let code = match action {
            PartAction::Read => 1,
            PartAction::Write => 2,
            PartAction::Add(..) => 3,
        };
        let mut bytes = Vec::with_capacity(72);
        for number in [code, part.into(), at, len as u64] {
            put_number(&mut bytes, number);
        }
        if let PartAction::Add(Addend { kind, each, factor }, AddTarget { record, in_block }) =
            action
        {
            let factor = u64::from_le_bytes(factor);
            for number in [kind.into(), each as u64, factor, record, in_block] {
                put_number(&mut bytes, number);
            }
        }
        bytes
    }

    /// Decodes a request; `None` if the bytes are not one.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bytes = MessageReader(bytes);
        let (code, part, at) = (bytes.number()?, bytes.small()?, bytes.number()?);
        let len = usize::try_from(bytes.number()?).ok()?;
        let action = match code {
            1 => PartAction::Read,
            2 => PartAction::Write,
            3 => {
                let kind = bytes.small()?;
                let each = usize::try_from(bytes.number()?).ok().filter(|each| *each > 0)?;
                let factor = bytes.number()?.to_le_bytes();
                let (record, in_block) = (bytes.number()?, bytes.number()?);
                PartAction::Add(Addend { kind, each, factor }, AddTarget { record, in_block })
            }
            _ => return None,
        };
        Some(Self { part, at, len, action })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let factor = 1.5_f64.to_ne_bytes();
        let addend = Addend { kind: 6, each: 8, factor };
        let target = AddTarget { record: 7, in_block: 1 << 40 };
        for action in [PartAction::Read, PartAction::Write, PartAction::Add(addend, target)] {
            let request = PartRequest { part: 3, at: 1 << 50, len: 1 << 20, action };
            let bytes = request.to_bytes();
            assert_eq!(PartRequest::of_bytes(&bytes), Some(request));
            assert_eq!(PartRequest::of_bytes(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(PartRequest::of_bytes(&[9; 64]), None);
    }
}
