//! What must come out, by plain arithmetic over what came in.

use std::collections::BTreeMap;

use pario_proto::{Call, Mode, Seek, Transfer};

/// A file and its pointer, as a careful reader of the manual would keep them.
#[derive(Clone, Debug)]
pub struct Model {
    pub mode: Mode,
    pub pointer: i128,
    pub end: i128,
    limit: i128,
}

/// What a call must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// First byte and bytes.
    Place(i128, i128),
    /// The pointer.
    At(i128),
    /// Nothing but success.
    Done,
    /// A refusal: outside of the largest file.
    Refused,
    /// All are told that they disagree.
    Disagree,
    /// All are told that this cannot be called now.
    NotNow,
}

impl Model {
    pub fn new(mode: Mode, end: u64) -> Self {
        Self { mode, pointer: 0, end: end.into(), limit: 1 << 62 }
    }

    pub fn measured(&mut self, len: u64) {
        self.end = self.end.max(len.into());
    }

    /// One access, here and now.
    pub fn transfer(&mut self, transfer: Transfer) -> Expected {
        let wanted = i128::from(transfer.len);
        let from = if transfer.is_append { self.end } else { self.pointer };
        let bytes = if transfer.is_write { wanted } else { wanted.min((self.end - from).max(0)) };
        if from + bytes > self.limit {
            return Expected::Refused;
        }
        self.pointer = from + bytes;
        if transfer.is_write && bytes > 0 && self.pointer > self.end {
            self.end = self.pointer;
        }
        Expected::Place(from, bytes)
    }

    fn target(&self, seek: Seek) -> i128 {
        match seek {
            Seek::Start(to) => to.into(),
            Seek::Current(by) => self.pointer + i128::from(by),
            Seek::End(by) => self.end + i128::from(by),
        }
    }

    fn can_stand_at(&self, target: i128) -> bool {
        (0..=self.limit).contains(&target)
    }

    pub fn seek(&mut self, seek: Seek) -> Expected {
        let target = self.target(seek);
        if !self.can_stand_at(target) {
            return Expected::Refused;
        }
        self.pointer = target;
        Expected::At(target)
    }

    /// A round in which all have called: what each rank must get.
    pub fn round(&mut self, calls: &BTreeMap<u32, Call>) -> Vec<Expected> {
        let all = |expected| vec![expected; calls.len()];
        let before = self.clone();
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
                    places.push(self.transfer(*transfer));
                }
                if places.contains(&Expected::Refused) {
                    *self = before;
                    return all(Expected::Refused);
                }
                places
            }
            Call::Transfer(transfer) if self.mode == Mode::Global => all(self.transfer(*transfer)),
            Call::Seek(seek) if is_ordered || self.mode == Mode::Record => all(self.seek(*seek)),
            Call::SetMode(mode) => {
                self.mode = *mode;
                all(Expected::At(self.pointer))
            }
            Call::Close if !matches!(self.mode, Mode::Unix | Mode::Async) => all(Expected::Done),
            Call::Barrier => all(Expected::Done),
            _ => all(Expected::NotNow),
        }
    }
}
