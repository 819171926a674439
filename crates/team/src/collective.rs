//! Collective calls on bytes and numbers.

use std::fmt;

use crate::board::SLOT_BYTES;
use crate::call::CollectiveCall;
use crate::error::TeamError;
use crate::number::Number;
use crate::team::Team;

/// A reduction of the numbers of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum, added in the order of ranks: the same on all, and in every run.
    Sum,
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
}

impl Reduction {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Sum => 1,
            Self::Smallest => 2,
            Self::Largest => 3,
        }
    }

    pub(crate) fn of_number(number: u32) -> Option<Self> {
        [Self::Sum, Self::Smallest, Self::Largest].into_iter().find(|one| one.number() == number)
    }

    fn of<T: Number>(self, one: T, other: T) -> T {
        match self {
            Self::Sum => one.plus(other),
            Self::Smallest if other < one => other,
            Self::Largest if other > one => other,
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
        let mut len = why.len().min(SLOT_BYTES);
        while !why.is_char_boundary(len) {
            len -= 1;
        }
        match self.call(CollectiveCall::Failed, &why.as_bytes()[..len]) {
            Err(error) => error,
            Ok(_) => TeamError::Invalid(why.to_owned()),
        }
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
        let size = self.size();
        if root >= size {
            let what =
                format!("a broadcast from rank {root} is not possible: there are {size} ranks");
            // The other ranks learn the reason.
            drop(self.fail_call(&what));
            return Err(TeamError::Invalid(what));
        }
        let call = CollectiveCall::Broadcast { root, bytes: bytes.len() as u64 };
        let is_root = self.rank() == root;
        for chunk in chunks(bytes.len()) {
            let chunk = &mut bytes[chunk];
            let met = self.call(call, if is_root { chunk } else { &[] })?;
            if !is_root {
                chunk.copy_from_slice(&met.of(root, chunk.len()));
            }
        }
        Ok(())
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
        let mut gathered = vec![Vec::new(); self.size() as usize];
        let mut rest = bytes;
        loop {
            let (now, later) = rest.split_at(rest.len().min(SLOT_BYTES));
            rest = later;
            let met = self.call(CollectiveCall::Gather { bytes: now.len() as u64 }, now)?;
            let mut is_over = true;
            for (all, more) in gathered.iter_mut().zip(met.all()) {
                // A rank that fills its slot may have more.
                is_over &= more.len() < SLOT_BYTES;
                all.extend_from_slice(&more);
            }
            if is_over {
                return Ok(gathered);
            }
        }
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
        let call = CollectiveCall::Reduce { reduction, kind: T::KIND, count: numbers.len() as u64 };
        let each = size_of::<T>();
        for chunk in chunks(size_of_val(numbers)) {
            let chunk = &mut numbers[chunk.start / each..chunk.end / each];
            let mut bytes = vec![0; size_of_val(chunk)];
            copy(chunk, &mut bytes);
            let met = self.call(call, &bytes)?;
            let mut theirs = vec![T::default(); chunk.len()];
            for rank in 0..self.size() {
                copy_back(&met.of(rank, bytes.len()), &mut theirs);
                if rank == 0 {
                    chunk.copy_from_slice(&theirs);
                    continue;
                }
                for (one, other) in chunk.iter_mut().zip(&theirs) {
                    *one = reduction.of(*one, *other);
                }
            }
        }
        Ok(())
    }
}

/// Ranges that fit into a slot; one empty range if there is nothing.
fn chunks(len: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = len.div_ceil(SLOT_BYTES).max(1);
    (0..count).map(move |number| number * SLOT_BYTES..((number + 1) * SLOT_BYTES).min(len))
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
