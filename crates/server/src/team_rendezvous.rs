//! The rendezvous of a job on several machines: the node passes on the address of the team
//! coordinator, and takes no part in the team itself.
//!
//! Invariants: an address belongs to a process that is connected to this node, and is removed with
//! it. Until then the first address that is offered for a job counts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pario_net::SpaceId;
use pario_proto::{Failure, TeamAddress};
use parking_lot::Mutex;

use crate::job_registry::JobKey;

/// The most jobs with an address.
const JOBS_LIMIT: usize = 4096;

/// The addresses of the team coordinators of all jobs.
#[derive(Debug, Default)]
pub struct TeamRendezvous {
    offers: Mutex<HashMap<JobKey, (SpaceId, TeamAddress)>>,
}

impl TeamRendezvous {
    /// Offers an address for a job. Returns the address that counts: this one, unless another process
    /// was first.
    pub fn offer(
        &self,
        job: JobKey,
        by: SpaceId,
        offer: TeamAddress,
    ) -> Result<TeamAddress, Failure> {
        let mut offers = self.offers.lock();
        let is_full = offers.len() >= JOBS_LIMIT;
        match offers.entry(job) {
            Entry::Occupied(mut known) if known.get().0 == by => {
                known.insert((by, offer.clone()));
                Ok(offer)
            }
            Entry::Occupied(known) => Ok(known.get().1.clone()),
            Entry::Vacant(_) if is_full => Err(Failure::Invalid(format!(
                "{JOBS_LIMIT} jobs look for their machines at this node already; try again, or \
                 name the first machine in PARIO_TEAM"
            ))),
            Entry::Vacant(free) => {
                free.insert((by, offer.clone()));
                Ok(offer)
            }
        }
    }

    /// Returns the number of other jobs of the user, and of all users, that have an address.
    pub fn count(&self, job: &JobKey) -> (u64, u64) {
        let offers = self.offers.lock();
        let others = || offers.keys().filter(|known| *known != job);
        (others().filter(|(uid, _)| *uid == job.0).count() as u64, others().count() as u64)
    }

    /// Withdraws the offer of a process.
    pub fn withdraw(&self, job: &JobKey, by: SpaceId) {
        let mut offers = self.offers.lock();
        if offers.get(job).is_some_and(|(offered, _)| *offered == by) {
            offers.remove(job);
        }
    }

    /// Removes the offers of a lost process.
    pub fn lose(&self, space: SpaceId) {
        self.offers.lock().retain(|_, (by, _)| *by != space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    fn place(number: u8) -> TeamAddress {
        TeamAddress { address: format!("10.0.0.{number}:5000"), key: number.to_string() }
    }

    fn job(uid: u32) -> JobKey {
        (uid, "job".to_owned())
    }

    #[test]
    fn the_first_offer_counts_for_all_of_a_user() {
        let rendezvous = TeamRendezvous::default();
        assert_eq!(rendezvous.offer(job(1), space(1), place(1)), Ok(place(1)));
        assert_eq!(rendezvous.offer(job(1), space(2), place(2)), Ok(place(1)));
        assert_eq!(rendezvous.offer(job(7), space(3), place(3)), Ok(place(3)), "of another user");
        // A process that offers again has closed its earlier address.
        assert_eq!(rendezvous.offer(job(1), space(1), place(4)), Ok(place(4)));
        assert_eq!(rendezvous.offer(job(1), space(2), place(2)), Ok(place(4)));
    }

    #[test]
    fn an_offer_ends_with_its_process() {
        let rendezvous = TeamRendezvous::default();
        for end in [TeamRendezvous::lose, |rendezvous: &TeamRendezvous, by| {
            rendezvous.withdraw(&job(1), by)
        }] {
            assert_eq!(rendezvous.offer(job(1), space(1), place(1)), Ok(place(1)));
            end(&rendezvous, space(2));
            assert_eq!(rendezvous.offer(job(1), space(3), place(3)), Ok(place(1)), "not its own");
            end(&rendezvous, space(1));
            assert_eq!(rendezvous.offer(job(1), space(3), place(3)), Ok(place(3)));
            rendezvous.withdraw(&job(1), space(3));
        }
    }

    #[test]
    fn the_number_of_jobs_is_limited() {
        let rendezvous = TeamRendezvous::default();
        let of = |number: usize| (1, format!("job {number}"));
        for number in 0..JOBS_LIMIT {
            rendezvous.offer(of(number), space(1), place(1)).unwrap();
        }
        let refused = rendezvous.offer(of(JOBS_LIMIT), space(2), place(2)).unwrap_err();
        assert!(refused.to_string().contains("4096 jobs look for their machines"), "{refused}");
        assert_eq!(
            rendezvous.offer(of(0), space(2), place(2)),
            Ok(place(1)),
            "the known offer stays"
        );
    }
}
