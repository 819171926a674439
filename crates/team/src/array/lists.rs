//! Access to elements by lists of indices: sorted by machine, so that each machine gets one
//! request.

use super::RawArray;
use super::layout::ElementRun;
use crate::error::TeamError;
use crate::number::Number;
use crate::pending_access::PendingAccesses;
use crate::remote::message::RankPiece;
use crate::segments::SegmentPiece;

/// The elements of one machine.
#[derive(Default)]
struct MachineRequest {
    /// The pieces; neighbours are merged.
    pieces: Vec<RankPiece>,
    /// The positions of the elements in the list, in the same order.
    places: Vec<usize>,
}

impl RawArray {
    /// Copies the elements with these indices, one behind the other. An index may come twice.
    pub fn gather(&self, bytes: &mut [u8], indices: &[u64]) -> Result<(), TeamError> {
        let element = self.element_bytes();
        let sorted = self.sorted(indices, bytes.len())?;
        let room = |wanted: &MachineRequest| vec![0; wanted.places.len() * element];
        let mut found: Vec<Vec<u8>> = sorted.iter().map(room).collect();
        let mut under_way = PendingAccesses::default();
        for (wanted, found) in sorted.iter().zip(&mut found) {
            under_way.add(self.segments.start_get_at(&wanted.pieces, found)?)?;
        }
        under_way.wait()?;
        for (wanted, found) in sorted.iter().zip(&found) {
            for (place, one) in wanted.places.iter().zip(found.chunks_exact(element)) {
                bytes[place * element..][..element].copy_from_slice(one);
            }
        }
        Ok(())
    }

    /// Copies elements to these indices. If an index comes twice, the last one stays.
    pub fn scatter(&self, bytes: &[u8], indices: &[u64]) -> Result<(), TeamError> {
        let element = self.element_bytes();
        let (mut theirs, mut under_way) = (Vec::new(), PendingAccesses::default());
        for wanted in self.sorted(indices, bytes.len())? {
            theirs.clear();
            for place in &wanted.places {
                theirs.extend_from_slice(&bytes[place * element..][..element]);
            }
            under_way.add(self.segments.start_put_at(&wanted.pieces, &theirs)?)?;
        }
        under_way.wait()
    }

    /// Adds numbers to the elements from one on, which must be numbers of this type.
    pub fn accumulate<T: Number>(&self, numbers: &[T], first: u64) -> Result<(), TeamError> {
        self.check_type::<T>()?;
        let (mut rest, mut under_way) = (numbers, PendingAccesses::default());
        for run in self.checked_runs(first, numbers.len() as u64)? {
            let (now, later) = rest.split_at(run.bytes / size_of::<T>());
            let added = self.segments.begin_accumulate(now, T::one(), run.rank, run.offset)?;
            under_way.add(added)?;
            rest = later;
        }
        under_way.wait()
    }

    /// Adds numbers to the elements with these indices, which must be numbers of this type. An
    /// index may come twice. Concurrent additions lose nothing.
    pub fn accumulate_at<T: Number>(
        &self,
        numbers: &[T],
        indices: &[u64],
    ) -> Result<(), TeamError> {
        self.check_type::<T>()?;
        let (mut theirs, mut under_way) = (Vec::new(), PendingAccesses::default());
        for wanted in self.sorted(indices, size_of_val(numbers))? {
            theirs.clear();
            theirs.extend(wanted.places.iter().map(|place| numbers[*place]));
            let added = self.segments.start_accumulate_at(&wanted.pieces, T::one(), &theirs)?;
            under_way.add(added)?;
        }
        under_way.wait()
    }

    pub(super) fn check_type<T: Number>(&self) -> Result<(), TeamError> {
        if size_of::<T>() == self.element_bytes() {
            return Ok(());
        }
        Err(TeamError::Invalid(format!(
            "{self}: its elements have {} bytes, and the numbers to add {}",
            self.element_bytes(),
            size_of::<T>()
        )))
    }

    /// Sorts the elements by machine after checking all indices; this machine comes last, so that
    /// the others work in parallel.
    fn sorted(&self, indices: &[u64], bytes: usize) -> Result<Vec<MachineRequest>, TeamError> {
        let count = self.count(bytes)?;
        if count != indices.len() as u64 {
            let indices = indices.len();
            let what = format!("{self}: {indices} indices, and {count} elements for them");
            return Err(TeamError::Invalid(what));
        }
        // Before anything is changed.
        indices.iter().try_for_each(|index| self.check(*index, 1))?;
        let team = self.team();
        let own = team.machine_of(team.rank()) as usize;
        let mut sorted: Vec<MachineRequest> = Vec::new();
        sorted.resize_with(team.size() as usize, MachineRequest::default);
        for (place, index) in indices.iter().enumerate() {
            let ElementRun { rank, offset, bytes: len } = self.layout.place(*index);
            let wanted = &mut sorted[team.machine_of(rank) as usize];
            wanted.places.push(place);
            match wanted.pieces.last_mut() {
                Some(RankPiece { rank: of, piece })
                    if *of == rank && piece.offset + piece.len == offset =>
                {
                    piece.len += len;
                }
                _ => wanted.pieces.push(SegmentPiece { offset, len }.of(rank)),
            }
        }
        let of_own = std::mem::take(&mut sorted[own]);
        sorted.push(of_own);
        sorted.retain(|wanted| !wanted.places.is_empty());
        Ok(sorted)
    }
}

#[cfg(test)]
mod tests {
    use crate::rendezvous::MultiMachine;
    use crate::team::{Team, TeamOptions};
    use pario_net::Key;

    #[test]
    fn each_machine_is_asked_once_and_this_one_last() {
        let (job, key) = (&format!("lists of {}", std::process::id()), &Key::random());
        // Each process has its own addresses of loopback.
        let [low, high, ..] = std::process::id().to_le_bytes();
        let address = ([127, high / 2 + 64, low, 0xff], 7777).into();
        std::thread::scope(|scope| {
            for rank in 0..6 {
                scope.spawn(move || {
                    let multi_machine =
                        MultiMachine::at(address, key.clone()).called(format!("m{}", rank % 3));
                    let options = TeamOptions {
                        multi_machine: Some(multi_machine),
                        ..TeamOptions::default()
                    };
                    let team = Team::meet_with(job, 6, rank, &options).unwrap();
                    let array = team.raw_array(100 * 8192, 8).unwrap();
                    // Of every page, so of every rank; those of a machine in the order of the list.
                    let indices: Vec<u64> = (0..100).map(|page| page * 8192 + 7).collect();
                    let sorted = array.sorted(&indices, 800).unwrap();
                    assert_eq!(sorted.len(), 3);
                    for (number, wanted) in sorted.iter().enumerate() {
                        let machines = wanted.pieces.iter().map(|place| place.rank % 3);
                        let machines: Vec<u32> = machines.collect();
                        assert!(machines.iter().all(|machine| *machine == machines[0]));
                        assert_eq!(number == 2, machines[0] == rank % 3);
                        assert!(wanted.places.is_sorted());
                    }
                    // Neighbours of one rank are one piece.
                    assert_eq!(array.sorted(&[3, 4, 5], 24).unwrap()[0].pieces.len(), 1);
                    team.barrier().unwrap();
                });
            }
        });
    }
}
