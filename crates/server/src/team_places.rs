//! Where the machines of jobs come together without this node: it only tells them the place.
//!
//! Invariants: a place is that of a process that is connected here, and goes with it. The first one
//! that is offered for a job counts, until then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pario_net::SpaceId;
use pario_proto::{Failure, TeamPlace};
use parking_lot::Mutex;

use crate::job_registry::JobKey;

/// So many jobs can look for their machines at once.
const PLACES_LIMIT: usize = 4096;

/// The places of all jobs whose machines look for each other.
#[derive(Debug, Default)]
pub struct TeamPlaces {
    places: Mutex<HashMap<JobKey, (SpaceId, TeamPlace)>>,
}

impl TeamPlaces {
    /// The place of a job: the one that a process offers, unless another one was there before.
    pub fn settle(&self, job: JobKey, by: SpaceId, offer: TeamPlace) -> Result<TeamPlace, Failure> {
        let mut places = self.places.lock();
        let is_full = places.len() >= PLACES_LIMIT;
        match places.entry(job) {
            Entry::Occupied(mut known) if known.get().0 == by => {
                known.insert((by, offer.clone()));
                Ok(offer)
            }
            Entry::Occupied(known) => Ok(known.get().1.clone()),
            Entry::Vacant(_) if is_full => Err(Failure::Invalid(format!(
                "{PLACES_LIMIT} jobs look for their machines at this node already; try again, or \
                 name the first machine in PARIO_TEAM"
            ))),
            Entry::Vacant(free) => {
                free.insert((by, offer.clone()));
                Ok(offer)
            }
        }
    }

    /// How many places other jobs of the user have, and all jobs but this one.
    pub fn count(&self, job: &JobKey) -> (u64, u64) {
        let places = self.places.lock();
        let others = || places.keys().filter(|known| *known != job);
        (others().filter(|(uid, _)| *uid == job.0).count() as u64, others().count() as u64)
    }

    /// A process takes its offer back.
    pub fn withdraw(&self, job: &JobKey, by: SpaceId) {
        let mut places = self.places.lock();
        if places.get(job).is_some_and(|(offered, _)| *offered == by) {
            places.remove(job);
        }
    }

    /// A process is gone.
    pub fn lose(&self, space: SpaceId) {
        self.places.lock().retain(|_, (by, _)| *by != space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    fn place(number: u8) -> TeamPlace {
        TeamPlace { address: format!("10.0.0.{number}:5000"), key: number.to_string() }
    }

    fn job(uid: u32) -> JobKey {
        (uid, "job".to_owned())
    }

    #[test]
    fn the_first_offer_counts_for_all_of_a_user() {
        let places = TeamPlaces::default();
        assert_eq!(places.settle(job(1), space(1), place(1)), Ok(place(1)));
        assert_eq!(places.settle(job(1), space(2), place(2)), Ok(place(1)));
        assert_eq!(places.settle(job(7), space(3), place(3)), Ok(place(3)), "of another user");
        // Who offers anew has closed what it offered before.
        assert_eq!(places.settle(job(1), space(1), place(4)), Ok(place(4)));
        assert_eq!(places.settle(job(1), space(2), place(2)), Ok(place(4)));
    }

    #[test]
    fn an_offer_goes_with_who_made_it() {
        let places = TeamPlaces::default();
        for end in [TeamPlaces::lose, |places: &TeamPlaces, by| places.withdraw(&job(1), by)] {
            assert_eq!(places.settle(job(1), space(1), place(1)), Ok(place(1)));
            end(&places, space(2));
            assert_eq!(places.settle(job(1), space(3), place(3)), Ok(place(1)), "not its own");
            end(&places, space(1));
            assert_eq!(places.settle(job(1), space(3), place(3)), Ok(place(3)));
            places.withdraw(&job(1), space(3));
        }
    }

    #[test]
    fn there_is_an_end() {
        let places = TeamPlaces::default();
        let of = |number: usize| (1, format!("job {number}"));
        for number in 0..PLACES_LIMIT {
            places.settle(of(number), space(1), place(1)).unwrap();
        }
        let refused = places.settle(of(PLACES_LIMIT), space(2), place(2)).unwrap_err();
        assert!(refused.to_string().contains("4096 jobs look for their machines"), "{refused}");
        assert_eq!(places.settle(of(0), space(2), place(2)), Ok(place(1)), "what is there stays");
    }
}
