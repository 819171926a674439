//! What is ordered from the machine that has a part.

use super::agree::{Reader, put_number};

/// Bytes of a part, and what is to be done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub part: u32,
    /// Where in the part.
    pub at: u64,
    /// How many.
    pub len: usize,
    pub work: Work,
}

/// What is done with bytes of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Read,
    Write,
    Add(Addend, Target),
}

/// What numbers are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addend {
    /// What numbers they are.
    pub kind: u32,
    /// Bytes of a number.
    pub each: usize,
    pub factor: [u8; 8],
}

/// What they are added to: by this the mutexes are chosen that keep others away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub record: u64,
    /// Where in the block of the record the first one begins.
    pub in_block: u64,
}

impl Order {
    /// As it is sent.
    pub fn to_bytes(self) -> Vec<u8> {
        let Self { part, at, len, work } = self;
        let what = match work {
            Work::Read => 1,
            Work::Write => 2,
            Work::Add(..) => 3,
        };
        let mut bytes = Vec::with_capacity(72);
        for number in [what, part.into(), at, len as u64] {
            put_number(&mut bytes, number);
        }
        if let Work::Add(Addend { kind, each, factor }, Target { record, in_block }) = work {
            let factor = u64::from_le_bytes(factor);
            for number in [kind.into(), each as u64, factor, record, in_block] {
                put_number(&mut bytes, number);
            }
        }
        bytes
    }

    /// What was sent.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Reader(bytes);
        let (what, part, at) = (bytes.number()?, bytes.small()?, bytes.number()?);
        let len = usize::try_from(bytes.number()?).ok()?;
        let work = match what {
            1 => Work::Read,
            2 => Work::Write,
            3 => {
                let kind = bytes.small()?;
                let each = usize::try_from(bytes.number()?).ok().filter(|each| *each > 0)?;
                let factor = bytes.number()?.to_le_bytes();
                let (record, in_block) = (bytes.number()?, bytes.number()?);
                Work::Add(Addend { kind, each, factor }, Target { record, in_block })
            }
            _ => return None,
        };
        Some(Self { part, at, len, work })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_as_they_were_sent() {
        let factor = 1.5_f64.to_ne_bytes();
        let addend = Addend { kind: 6, each: 8, factor };
        let target = Target { record: 7, in_block: 1 << 40 };
        for work in [Work::Read, Work::Write, Work::Add(addend, target)] {
            let order = Order { part: 3, at: 1 << 50, len: 1 << 20, work };
            let bytes = order.to_bytes();
            assert_eq!(Order::of_bytes(&bytes), Some(order));
            assert_eq!(Order::of_bytes(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Order::of_bytes(&[9; 64]), None);
    }
}
