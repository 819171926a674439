//! Collective calls on bytes and numbers.

use std::fmt;

use crate::board::SLOT_BYTES;
use crate::call::CollectiveCall;
use crate::error::TeamError;
use crate::number::Number;
use crate::team::{CompletedRound, Team};

/// A reduction of the numbers of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum, added in the order of ranks: the same on all, and in every run.
    Sum,
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
    /// Their product, multiplied in the order of ranks.
    Product,
    /// The smallest absolute value.
    SmallestMagnitude,
    /// The largest absolute value.
    LargestMagnitude,
    /// The bitwise or; of whole numbers only.
    BitOr,
}

/// The reductions, in the order of their numbers on the board, from 1.
const REDUCTIONS: [Reduction; 7] = [
    Reduction::Sum,
    Reduction::Smallest,
    Reduction::Largest,
    Reduction::Product,
    Reduction::SmallestMagnitude,
    Reduction::LargestMagnitude,
    Reduction::BitOr,
];

impl Reduction {
    pub(crate) fn number(self) -> u32 {
        (1..).zip(REDUCTIONS).find(|(_, one)| *one == self).map_or(0, |(number, _)| number)
    }

    pub(crate) fn of_number(number: u32) -> Option<Self> {
        (1..).zip(REDUCTIONS).find(|(own, _)| *own == number).map(|(_, one)| one)
    }

    /// Converts the number of a single rank to the form of a result.
    fn prepare<T: Number>(self, one: T) -> T {
        match self {
            Self::SmallestMagnitude | Self::LargestMagnitude => one.magnitude(),
            _ => one,
        }
    }

    /// Reduces two prepared numbers.
    fn of<T: Number>(self, one: T, other: T) -> T {
        match self {
            Self::Sum => one.plus(other),
            Self::Product => one.times(other),
            Self::BitOr => one.bit_or(other),
            Self::Smallest | Self::SmallestMagnitude if other < one => other,
            Self::Largest | Self::LargestMagnitude if other > one => other,
            _ => one,
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Smallest => "smallest",
            Self::Largest => "largest",
            Self::Product => "product",
            Self::SmallestMagnitude => "smallest absolute value",
            Self::LargestMagnitude => "largest absolute value",
            Self::BitOr => "bitwise or",
        })
    }
}

impl Team {
    /// Waits until all ranks are here. All ranks then see what each has put before.
    pub fn barrier(&self) -> Result<(), TeamError> {
        self.call(CollectiveCall::Barrier, &[]).map(drop)
    }

    /// Takes part in the collective call that the other ranks make, with an error of this rank: the
    /// call fails on all ranks, with this rank and the reason, and the next call works. Returns that
    /// error.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("refused", 1, 0)?;
    /// let error = team.fail_call("the input file is missing");
    /// assert!(error.to_string().contains("rank 0 could not make the call: the input file"));
    /// team.barrier()?;
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn fail_call(&self, why: &str) -> TeamError {
        fail_round(self, why)
    }

    /// Copies the bytes of one rank to all. All ranks give the same number of bytes.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("broadcast", 1, 0)?;
    /// let mut steps = if team.rank() == 0 { [7] } else { [0] };
    /// team.broadcast(0, &mut steps)?;
    /// assert_eq!(steps, [7]);
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), TeamError> {
        broadcast(self, root, bytes)
    }

    /// Returns the bytes of each rank; their numbers may differ.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("gather", 1, 0)?;
    /// let hosts = team.gather(b"node17")?;
    /// assert_eq!(hosts[team.rank() as usize], b"node17");
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TeamError> {
        gather(self, bytes)
    }

    /// Reduces the numbers of all ranks, index by index; all ranks get the result. All give the
    /// same number of them.
    ///
    /// ```
    /// use pario_team::Reduction;
    ///
    /// # let team = pario_team::Team::meet("reduce", 1, 0)?;
    /// let mut residuals = [1.5, 2.5];
    /// team.reduce(Reduction::Largest, &mut residuals)?;
    /// assert_eq!(residuals, [1.5, 2.5]);
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn reduce<T: Number>(
        &self,
        reduction: Reduction,
        numbers: &mut [T],
    ) -> Result<(), TeamError> {
        reduce(self, reduction, numbers)
    }
}

/// Collective rounds: those of a team, or of a group of its ranks. Ranks are counted from 0 among
/// those that take part.
pub trait CollectiveRounds {
    /// A completed round.
    type Round<'a>: RoundSlots
    where
        Self: 'a;

    /// The number of ranks that take part.
    fn size(&self) -> u32;

    /// The rank of this process among them.
    fn rank(&self) -> u32;

    /// The most bytes of a rank in one round: a multiple of eight.
    fn slot_bytes(&self) -> usize;

    /// Makes a round, with some bytes of this rank.
    fn round(&self, call: CollectiveCall, bytes: &[u8]) -> Result<Self::Round<'_>, TeamError>;
}

/// The bytes of all ranks in a completed round.
pub trait RoundSlots {
    /// The first `len` bytes of a rank.
    fn of(&self, rank: u32, len: usize) -> Vec<u8>;

    /// The bytes of each rank in a gather.
    fn all(&self) -> Vec<Vec<u8>>;
}

impl CollectiveRounds for Team {
    type Round<'a> = CompletedRound<'a>;

    fn size(&self) -> u32 {
        self.size()
    }

    fn rank(&self) -> u32 {
        self.rank()
    }

    fn slot_bytes(&self) -> usize {
        SLOT_BYTES
    }

    fn round(&self, call: CollectiveCall, bytes: &[u8]) -> Result<CompletedRound<'_>, TeamError> {
        self.call(call, bytes)
    }
}

/// Takes part in a round with an error of this rank, which the round returns to all.
pub fn fail_round(rounds: &impl CollectiveRounds, why: &str) -> TeamError {
    let mut len = why.len().min(rounds.slot_bytes());
    while !why.is_char_boundary(len) {
        len -= 1;
    }
    match rounds.round(CollectiveCall::Failed, &why.as_bytes()[..len]) {
        Err(error) => error,
        Ok(_) => TeamError::Invalid(why.to_owned()),
    }
}

/// Copies the bytes of one rank to all.
pub fn broadcast(
    rounds: &impl CollectiveRounds,
    root: u32,
    bytes: &mut [u8],
) -> Result<(), TeamError> {
    let size = rounds.size();
    if root >= size {
        let what = format!("a broadcast from rank {root} is not possible: there are {size} ranks");
        // The other ranks learn the reason.
        drop(fail_round(rounds, &what));
        return Err(TeamError::Invalid(what));
    }
    let call = CollectiveCall::Broadcast { root, bytes: bytes.len() as u64 };
    let is_root = rounds.rank() == root;
    for chunk in chunks(bytes.len(), rounds.slot_bytes()) {
        let chunk = &mut bytes[chunk];
        let met = rounds.round(call, if is_root { chunk } else { &[] })?;
        if !is_root {
            chunk.copy_from_slice(&met.of(root, chunk.len()));
        }
    }
    Ok(())
}

/// Returns the bytes of each rank.
pub fn gather(rounds: &impl CollectiveRounds, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TeamError> {
    let mut gathered = vec![Vec::new(); rounds.size() as usize];
    let (mut rest, slot_bytes) = (bytes, rounds.slot_bytes());
    loop {
        let (now, later) = rest.split_at(rest.len().min(slot_bytes));
        rest = later;
        let met = rounds.round(CollectiveCall::Gather { bytes: now.len() as u64 }, now)?;
        let mut is_over = true;
        for (all, more) in gathered.iter_mut().zip(met.all()) {
            // A rank that fills its slot may have more.
            is_over &= more.len() < slot_bytes;
            all.extend_from_slice(&more);
        }
        if is_over {
            return Ok(gathered);
        }
    }
}

/// Reduces the numbers of all ranks, index by index.
pub fn reduce<T: Number>(
    rounds: &impl CollectiveRounds,
    reduction: Reduction,
    numbers: &mut [T],
) -> Result<(), TeamError> {
    let call = CollectiveCall::Reduce { reduction, kind: T::KIND, count: numbers.len() as u64 };
    if reduction == Reduction::BitOr && !T::HAS_BITS {
        // All ranks make the round, so that none waits for one that has failed.
        rounds.round(call, &[])?;
        let kind = crate::number::name_of(T::KIND);
        let what = format!("numbers of type {kind} have no bitwise or: use whole numbers");
        return Err(TeamError::Invalid(what));
    }
    let each = size_of::<T>();
    for chunk in chunks(size_of_val(numbers), rounds.slot_bytes()) {
        let chunk = &mut numbers[chunk.start / each..chunk.end / each];
        let mut bytes = vec![0; size_of_val(chunk)];
        copy(chunk, &mut bytes);
        let met = rounds.round(call, &bytes)?;
        let mut theirs = vec![T::default(); chunk.len()];
        for rank in 0..rounds.size() {
            copy_back(&met.of(rank, bytes.len()), &mut theirs);
            for (one, other) in chunk.iter_mut().zip(&theirs) {
                let other = reduction.prepare(*other);
                *one = if rank == 0 { other } else { reduction.of(*one, other) };
            }
        }
    }
    Ok(())
}

/// Ranges that fit into a slot; one empty range if there is nothing.
fn chunks(len: usize, slot_bytes: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = len.div_ceil(slot_bytes).max(1);
    (0..count).map(move |number| number * slot_bytes..((number + 1) * slot_bytes).min(len))
}

/// Numbers as bytes.
pub fn copy<T: Number>(numbers: &[T], bytes: &mut [u8]) {
    assert_eq!(size_of_val(numbers), bytes.len(), "as many bytes as the numbers have");
    // SAFETY: numbers have no padding, and there is room for as many bytes as they have.
    unsafe {
        std::ptr::copy_nonoverlapping(numbers.as_ptr().cast(), bytes.as_mut_ptr(), bytes.len())
    }
}

fn copy_back<T: Number>(bytes: &[u8], numbers: &mut [T]) {
    assert_eq!(size_of_val(numbers), bytes.len(), "as many bytes as the numbers have");
    // SAFETY: every pattern of bits is a number, and there is room for all.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), numbers.as_mut_ptr().cast(), bytes.len())
    }
}
