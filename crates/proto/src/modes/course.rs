//! The course of a shared file, and how a round of calls changes it. The node and the ranks in
//! shared memory use the same functions.

use super::call::{Call, Disagreement, OPEN_REPLY_LIMIT_BYTES};
use super::collective_error::CollectiveError;
use super::mode::{AccessOrder, CallKind, Mode, Pointer};
use super::position::{AccessRange, OutOfRange, Position, Seek, Transfer};

/// The mode, position and end of a file that the ranks of a job have open together.
///
/// Invariant: a call that fails leaves the course as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// The mode.
    pub mode: Mode,
    /// The shared pointer, and the end of the file.
    pub position: Position,
    /// Whether the size of the file has ever been measured.
    pub is_measured: bool,
}

/// The decision of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundDecision {
    /// It is done.
    Done,
    /// The pointer is at this byte.
    At(u64),
    /// Each rank has a range, in the order of ranks.
    Ranges(Vec<AccessRange>),
    /// One rank performs the access for all.
    Once(AccessRange),
    /// The file is closed.
    Closed,
}

impl Course {
    /// The course of a file that was opened in a mode; `len` is its length, if that is known.
    pub fn new(mode: Mode, len: Option<u64>) -> Self {
        let position = Position { offset: 0, end: len.unwrap_or(0) };
        Self { mode, position, is_measured: len.is_some() }
    }

    /// The shared pointer, in modes that have one.
    pub fn shared_offset(&self) -> Option<u64> {
        (self.mode.axes().pointer == Pointer::Shared).then_some(self.position.offset)
    }

    /// The end of the file, if it is known.
    pub fn known_end(&self) -> Option<u64> {
        self.is_measured.then_some(self.position.end)
    }

    /// Takes a measured length into account.
    pub fn measured(&mut self, len: u64) {
        self.is_measured = true;
        self.position.measured(len);
    }

    /// Whether the size of the file must be measured before an access is placed.
    pub fn needs_size_for(&self, transfer: Transfer) -> bool {
        transfer.is_append && !self.is_measured || self.position.needs_size_for(transfer)
    }

    /// Whether the size of the file must be measured before a seek.
    pub fn seek_needs_size(seek: Seek) -> bool {
        matches!(seek, Seek::End(_))
    }

    /// Whether the size of the file must be measured before a round is decided. The calls are in
    /// the order of ranks.
    pub fn round_needs_size<'a>(&self, calls: impl IntoIterator<Item = &'a Call>) -> bool {
        let mut ahead = *self;
        let is_once = self.mode.axes().order == AccessOrder::AllTheSame;
        let calls = calls.into_iter().take(if is_once { 1 } else { usize::MAX });
        for call in calls {
            match call {
                Call::Transfer(transfer) if ahead.needs_size_for(*transfer) => return true,
                // Accesses of lower ranks move the pointer.
                Call::Transfer(transfer) => drop(ahead.position.place(*transfer)),
                Call::Seek(seek) if Self::seek_needs_size(*seek) => return true,
                Call::Failed(_) => return false,
                _ => {}
            }
        }
        false
    }

    /// Places the access of one rank, without the others.
    pub fn transfer(&mut self, transfer: Transfer) -> Result<AccessRange, CollectiveError> {
        if self.mode.axes().order != AccessOrder::FirstCome && !transfer.is_append {
            return Err(CollectiveError::WrongMode { call: Call::Transfer(transfer) });
        }
        Ok(self.position.place(transfer)?)
    }

    /// Moves the pointer for one rank, without the others.
    pub fn seek(&mut self, seek: Seek) -> Result<u64, CollectiveError> {
        if self.mode.is_collective(CallKind::Seek) {
            return Err(CollectiveError::WrongMode { call: Call::Seek(seek) });
        }
        self.position.offset = self.position.target(seek)?;
        Ok(self.position.offset)
    }

    /// Fails if the ranks close the file together in this mode.
    pub fn check_close(&self) -> Result<(), CollectiveError> {
        if self.mode.is_collective(CallKind::Close) {
            return Err(CollectiveError::WrongMode { call: Call::Close });
        }
        Ok(())
    }

    /// Decides a round in which all ranks have called. The calls are in the order of ranks.
    pub fn decide(&mut self, calls: &[Call]) -> Result<RoundDecision, CollectiveError> {
        self.agree(calls)?;
        match calls.first() {
            Some(Call::Transfer(transfer)) if self.mode.axes().order == AccessOrder::AllTheSame => {
                Ok(RoundDecision::Once(self.position.place(*transfer)?))
            }
            Some(Call::Transfer(_)) => Ok(RoundDecision::Ranges(self.place_by_rank(calls)?)),
            Some(Call::Seek(seek)) => {
                self.position.offset = self.position.target(*seek)?;
                Ok(RoundDecision::At(self.position.offset))
            }
            Some(Call::SetMode(mode)) => {
                self.mode = *mode;
                Ok(RoundDecision::At(self.position.offset))
            }
            Some(Call::Close) => Ok(RoundDecision::Closed),
            // One rank opens the file, and broadcasts the reply.
            Some(Call::Open(_)) => {
                Ok(RoundDecision::Once(AccessRange { offset: 0, len: OPEN_REPLY_LIMIT_BYTES }))
            }
            // `agree` refuses a call that failed.
            Some(Call::Barrier | Call::Failed(_)) | None => Ok(RoundDecision::Done),
        }
    }

    /// Fails if the calls of the ranks do not match, or are not collective in this mode.
    fn agree(&self, calls: &[Call]) -> Result<(), CollectiveError> {
        check_failed(calls)?;
        let Some(first) = calls.first() else { return Ok(()) };
        let is_same = |call: &Call| match (first, call) {
            (Call::Seek(one), Call::Seek(other)) => {
                self.position.target(*one) == self.position.target(*other)
            }
            (one, other) => one.fits(other, self.mode),
        };
        if !calls.iter().all(is_same) {
            return Err(CollectiveError::Disagreement(Disagreement { calls: calls.to_vec() }));
        }
        let is_allowed = match first {
            Call::Transfer(_) => self.mode.is_collective(CallKind::Transfer),
            Call::Seek(_) => self.mode.is_collective(CallKind::Seek),
            Call::Close => self.mode.is_collective(CallKind::Close),
            Call::SetMode(_) | Call::Barrier | Call::Open(_) | Call::Failed(_) => true,
        };
        if is_allowed { Ok(()) } else { Err(CollectiveError::WrongMode { call: first.clone() }) }
    }

    fn place_by_rank(&mut self, calls: &[Call]) -> Result<Vec<AccessRange>, OutOfRange> {
        let mut position = self.position;
        let mut placed = Vec::with_capacity(calls.len());
        for call in calls {
            if let Call::Transfer(transfer) = call {
                placed.push(position.place(*transfer)?);
            }
        }
        self.position = position;
        Ok(placed)
    }
}

/// Fails if a rank could not make its call. The calls are in the order of ranks.
pub fn check_failed<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Result<(), CollectiveError> {
    for (rank, call) in (0..).zip(calls) {
        if let Call::Failed(why) = call {
            return Err(CollectiveError::RankFailed { rank, why: why.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(lens: &[u64]) -> Vec<Call> {
        lens.iter().map(|len| Call::Transfer(Transfer::write(*len))).collect()
    }

    #[test]
    fn ranks_get_their_places_in_their_order_or_none_does() {
        let mut course = Course::new(Mode::Sync, Some(0));
        let place = |offset, len| AccessRange { offset, len };
        let decided = course.decide(&writes(&[3, 0, 5])).unwrap();
        assert_eq!(decided, RoundDecision::Ranges(vec![place(0, 3), place(3, 0), place(3, 5)]));
        let before = course;
        let refused = course.decide(&writes(&[1, u64::MAX, 1]));
        assert_eq!(refused, Err(CollectiveError::OutOfRange(OutOfRange)));
        let mixed = [Call::Transfer(Transfer::read(1)), Call::Transfer(Transfer::write(1))];
        assert!(matches!(course.decide(&mixed), Err(CollectiveError::Disagreement(_))));
        assert!(matches!(course.seek(Seek::Start(0)), Err(CollectiveError::WrongMode { .. })));
        assert_eq!(course, before, "what fails moves nothing");
    }

    #[test]
    fn a_call_that_failed_on_one_rank_ends_every_round_and_moves_nothing() {
        let calls = [
            Call::Transfer(Transfer::write(7)),
            Call::Transfer(Transfer::read(7)),
            Call::Seek(Seek::End(0)),
            Call::SetMode(Mode::Log),
            Call::Close,
            Call::Open("/a".to_owned()),
            Call::Barrier,
            Call::failed("another reason"),
        ];
        let modes = [Mode::Unix, Mode::Log, Mode::Sync, Mode::Record, Mode::Global, Mode::Async];
        for (mode, call) in modes.iter().flat_map(|mode| calls.iter().map(move |call| (mode, call)))
        {
            let before = Course::new(*mode, Some(5));
            let mut course = before;
            let round = [call.clone(), Call::failed("mode 77 is unknown"), call.clone()];
            let Err(CollectiveError::RankFailed { rank, why }) = course.decide(&round) else {
                panic!("{mode}: a round of {call} with a failure was decided");
            };
            let first = if matches!(call, Call::Failed(_)) {
                (0, "another reason")
            } else {
                (1, "mode 77 is unknown")
            };
            assert_eq!((rank, &*why), first);
            assert_eq!(course, before);
        }
    }

    #[test]
    fn one_does_it_where_all_are_the_same() {
        let mut course = Course::new(Mode::Global, Some(4));
        let reads = vec![Call::Transfer(Transfer::read(6)); 3];
        assert!(course.round_needs_size(&reads));
        assert_eq!(
            course.decide(&reads),
            Ok(RoundDecision::Once(AccessRange { offset: 0, len: 4 }))
        );
        course.measured(10);
        let reads = vec![Call::Transfer(Transfer::read(6)); 3];
        assert!(!course.round_needs_size(&reads), "it is read once");
        assert_eq!(
            course.decide(&reads),
            Ok(RoundDecision::Once(AccessRange { offset: 4, len: 6 }))
        );
    }
}
