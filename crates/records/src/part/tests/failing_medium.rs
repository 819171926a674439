//! A medium in memory that fails after a number of operations, and lists what a disk could hold after
//! a power failure.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::super::PartMedium;

#[derive(Clone, Debug)]
enum MediumOperation {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Clear(usize, usize),
}

#[derive(Debug, Default)]
struct MediumState {
    /// The bytes as of the last sync.
    durable: Vec<u8>,
    /// The operations since the last sync.
    pending: Vec<MediumOperation>,
    /// The bytes that a read returns.
    seen: Vec<u8>,
    /// The number of operations that still succeed.
    left: usize,
}

/// The medium. Clones share their bytes.
#[derive(Clone, Debug)]
pub struct FailingMedium(Rc<RefCell<MediumState>>);

impl FailingMedium {
    /// A medium with these durable bytes, which fails after `left` operations.
    pub fn new(bytes: Vec<u8>, left: usize) -> Self {
        let state = MediumState { durable: bytes.clone(), pending: Vec::new(), seen: bytes, left };
        Self(Rc::new(RefCell::new(state)))
    }

    /// The bytes that a read returns.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.borrow().seen.clone()
    }

    /// The number of operations that still succeed.
    pub fn left(&self) -> usize {
        self.0.borrow().left
    }

    /// Lists what the disk could hold after a power failure. Of the operations since the last sync:
    /// none, all, all but one, only one, some, and a part of the last write.
    pub fn after_power_failure(&self, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
        let state = self.0.borrow();
        let count = state.pending.len();
        let mut choices: Vec<Vec<bool>> = vec![vec![false; count], vec![true; count]];
        for one in 0..count {
            choices.push((0..count).map(|other| other == one).collect());
            choices.push((0..count).map(|other| other != one).collect());
        }
        choices.extend((0..3).map(|_| (0..count).map(|_| random.bool()).collect()));
        let mut images: Vec<Vec<u8>> = Vec::new();
        for choice in &choices {
            let mut image = state.durable.clone();
            let done = state.pending.iter().zip(choice).filter(|(_, is_done)| **is_done);
            done.for_each(|(operation, _)| operation.apply(&mut image));
            images.push(image);
        }
        if let Some(MediumOperation::Write(at, bytes)) = state.pending.last() {
            for cut in [1, 9, 17, 33, bytes.len() / 2, bytes.len() - 1] {
                let mut image = state.durable.clone();
                state.pending[..count - 1].iter().for_each(|done| done.apply(&mut image));
                let cut = cut.min(bytes.len());
                MediumOperation::Write(*at, bytes[..cut].to_vec()).apply(&mut image);
                images.push(image);
            }
        }
        images
    }

    fn act(&self, operation: Option<MediumOperation>) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let is_over = state.left == 0;
        state.left = state.left.saturating_sub(1);
        match operation {
            // A failed operation may reach the disk all the same.
            Some(operation) => {
                if !is_over {
                    operation.apply(&mut state.seen);
                }
                state.pending.push(operation);
            }
            None if !is_over => {
                state.durable = state.seen.clone();
                state.pending.clear();
            }
            None => {}
        }
        if is_over { Err(io::Error::other("the test fails this operation")) } else { Ok(()) }
    }
}

impl MediumOperation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(at, more) => {
                let end = at + more.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at..end].copy_from_slice(more);
            }
            Self::SetLen(len) => bytes.resize(*len, 0),
            Self::Clear(at, len) => {
                let len_now = bytes.len();
                bytes[(*at).min(len_now)..(at + len).min(len_now)].fill(0);
            }
        }
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

impl PartMedium for FailingMedium {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let state = self.0.borrow();
        let found = state.seen.get(index(at)..index(at) + bytes.len());
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.act(Some(MediumOperation::Write(index(at), bytes.to_vec())))
    }

    fn sync(&self) -> io::Result<()> {
        self.act(None)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.borrow().seen.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.act(Some(MediumOperation::SetLen(index(len))))
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        let end = index(at + len);
        if self.0.borrow().seen.len() < end { self.set_len(end as u64) } else { Ok(()) }
    }

    fn has_data(&self, at: u64, len: u64) -> bool {
        let state = self.0.borrow();
        let end = index(at + len).min(state.seen.len());
        state.seen.get(index(at)..end).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
    }

    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        self.act(Some(MediumOperation::Clear(index(at), index(len))))
    }
}
