//! The expected ranges of accesses, by plain arithmetic over the calls.

use std::collections::BTreeMap;

use pario_proto::{Call, Mode, Seek, Transfer};

/// The pointers of an open file, as the manual defines them.
#[derive(Clone, Debug)]
pub struct Pointers {
    pub mode: Mode,
    shared: i128,
    end: i128,
    /// The private pointers: an offset, or the start of the next records of all ranks.
    own: Vec<i128>,
    limit: i128,
}

/// The expected outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Offset and length.
    Range(i128, i128),
    /// The offset of the pointer.
    At(i128),
    /// Success without a value.
    Done,
    /// A refusal: outside of the largest file.
    Refused,
    /// All ranks get a disagreement.
    Disagree,
    /// All ranks get the error of this one, which could not make its call.
    Failed(u32),
    /// All ranks get a refusal, because of the mode.
    NotNow,
}

impl Pointers {
    pub fn new(mode: Mode, end: u64, size: usize) -> Self {
        Self { mode, shared: 0, end: end.into(), own: vec![0; size], limit: 1 << 62 }
    }

    pub fn measured(&mut self, len: u64) {
        self.end = self.end.max(len.into());
    }

    /// An access of one rank, at the shared pointer or at the end.
    pub fn transfer(&mut self, rank: u32, transfer: Transfer) -> Expected {
        let placed = self.place(transfer);
        if let Expected::Range(from, bytes) = placed {
            self.own[rank as usize] = from + bytes;
        }
        placed
    }

    fn place(&mut self, transfer: Transfer) -> Expected {
        let wanted = i128::from(transfer.len);
        let from = if transfer.is_append { self.end } else { self.shared };
        let bytes = if transfer.is_write { wanted } else { wanted.min((self.end - from).max(0)) };
        if from + bytes > self.limit {
            return Expected::Refused;
        }
        self.shared = from + bytes;
        if transfer.is_write && bytes > 0 && self.shared > self.end {
            self.end = self.shared;
        }
        Expected::Range(from, bytes)
    }

    fn target(&self, seek: Seek) -> i128 {
        match seek {
            Seek::Start(to) => to.into(),
            Seek::Current(by) => self.shared + i128::from(by),
            Seek::End(by) => self.end + i128::from(by),
        }
    }

    /// An access at the private pointer of a rank. A read moves it later, by the bytes that were
    /// read.
    pub fn own_transfer(&mut self, rank: u32, transfer: Transfer) -> Expected {
        let (size, wanted) = (self.own.len() as i128, i128::from(transfer.len));
        let own = &mut self.own[rank as usize];
        let (from, after) = match self.mode {
            Mode::Record => (*own + wanted * i128::from(rank), *own + wanted * size),
            _ if transfer.is_write => (*own, *own + wanted),
            _ => (*own, *own),
        };
        if after > self.limit {
            return Expected::Refused;
        }
        *own = after;
        Expected::Range(from, wanted)
    }

    /// Moves the private pointer of a rank behind bytes that it has read.
    pub fn has_read(&mut self, rank: u32, count: usize) {
        self.own[rank as usize] += count as i128;
    }

    /// Moves the private pointer of a rank, in a file of `len` bytes.
    pub fn own_seek(&mut self, rank: u32, seek: Seek, len: u64) -> Expected {
        let own = self.own[rank as usize];
        let target = match seek {
            Seek::Start(to) => to.into(),
            Seek::Current(by) => own + i128::from(by),
            Seek::End(by) => i128::from(len) + i128::from(by),
        };
        if !self.can_stand_at(target) {
            return Expected::Refused;
        }
        self.own[rank as usize] = target;
        Expected::At(target)
    }

    fn can_stand_at(&self, target: i128) -> bool {
        (0..=self.limit).contains(&target)
    }

    pub fn seek(&mut self, seek: Seek) -> Expected {
        let target = self.target(seek);
        if !self.can_stand_at(target) {
            return Expected::Refused;
        }
        self.shared = target;
        Expected::At(target)
    }

    /// The expected outcomes of a complete round.
    pub fn round(&mut self, calls: &BTreeMap<u32, Call>) -> Vec<Expected> {
        let all = |expected| vec![expected; calls.len()];
        let before = self.clone();
        let is_failed = |(_, call): &(&u32, &Call)| matches!(call, Call::Failed(_));
        if let Some((rank, _)) = calls.iter().find(is_failed) {
            return all(Expected::Failed(*rank));
        }
        let first = &calls[&0];
        let agrees = calls.values().all(|call| match (first, call) {
            (Call::Transfer(one), Call::Transfer(two)) if self.mode == Mode::Sync => {
                one.is_write == two.is_write
            }
            (Call::Seek(one), Call::Seek(two)) => {
                let (one, two) = (self.target(*one), self.target(*two));
                one == two || !self.can_stand_at(one) && !self.can_stand_at(two)
            }
            (one, two) => one == two,
        });
        if !agrees {
            return all(Expected::Disagree);
        }
        let is_ordered = matches!(self.mode, Mode::Sync | Mode::Global);
        match first {
            Call::Transfer(_) if self.mode == Mode::Sync => {
                let mut places = Vec::new();
                for call in calls.values() {
                    let Call::Transfer(transfer) = call else { unreachable!("they agree") };
                    places.push(self.place(*transfer));
                }
                if places.contains(&Expected::Refused) {
                    *self = before;
                    return all(Expected::Refused);
                }
                places
            }
            Call::Transfer(transfer) if self.mode == Mode::Global => all(self.place(*transfer)),
            Call::Seek(seek) if is_ordered || self.mode == Mode::Record => {
                let sought = self.seek(*seek);
                if let Expected::At(target) = sought {
                    self.own.fill(target);
                }
                all(sought)
            }
            Call::SetMode(mode) => {
                self.mode = *mode;
                self.own.fill(self.shared);
                all(Expected::At(self.shared))
            }
            Call::Close if !matches!(self.mode, Mode::Unix | Mode::Async) => all(Expected::Done),
            Call::Barrier => all(Expected::Done),
            _ => all(Expected::NotNow),
        }
    }
}
