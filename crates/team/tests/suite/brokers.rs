//! Machines that meet at an endpoint of a broker.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use crate::ranks::new_job;
use pario_team::{Broker, Endpoint, Key, MultiMachine, Rendezvous, Team, TeamError, TeamOptions};
use parking_lot::Mutex;

/// A broker in this process, which may name some dead endpoints first.
#[derive(Debug, Default)]
struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    place: Option<Endpoint>,
    deserted: Vec<Endpoint>,
    asked: usize,
    withdrawn: usize,
}

impl Broker for Memory {
    fn offer(&self, _: &str, offer: &Endpoint) -> Result<Endpoint, String> {
        let mut state = self.state.lock();
        state.asked += 1;
        if let Some(deserted) = state.deserted.pop() {
            return Ok(deserted);
        }
        Ok(state.place.get_or_insert_with(|| offer.clone()).clone())
    }

    fn withdraw(&self, _: &str) {
        let mut state = self.state.lock();
        state.place = None;
        state.withdrawn += 1;
    }

    fn common_address(&self) -> Result<SocketAddr, String> {
        Ok((Ipv4Addr::LOCALHOST, 1).into())
    }
}

/// An endpoint without a listener.
fn deserted() -> Endpoint {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    Endpoint { address: listener.local_addr().unwrap(), key: Key::random() }
}

/// Has ranks meet, in turn on this many machines.
fn meet(
    broker: &Arc<Memory>,
    size: u32,
    machines: u32,
    timeout: Duration,
) -> Vec<Result<Team, TeamError>> {
    let job = &new_job();
    std::thread::scope(|scope| {
        let meet = |rank: u32| {
            let rendezvous = Rendezvous::Brokered(broker.clone());
            let multi_machine =
                MultiMachine { rendezvous, machine: format!("m{}", rank % machines) };
            let options = TeamOptions { timeout, multi_machine: Some(multi_machine) };
            scope.spawn(move || Team::meet_with(job, size, rank, &options))
        };
        let ranks: Vec<_> = (0..size).map(meet).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn all_meet_where_the_first_offers_and_the_place_is_free_again() {
    let broker = Arc::new(Memory::default());
    for (size, machines) in [(2, 2), (5, 3), (4, 1), (1, 1)] {
        let teams = meet(&broker, size, machines, TIMEOUT);
        std::thread::scope(|scope| {
            for team in teams {
                scope.spawn(move || {
                    let team = team.unwrap();
                    let sum = team.segments(8).unwrap();
                    sum.fetch_add(u64::from(team.rank()) + 1, 0, 0).unwrap();
                    team.barrier().unwrap();
                    let all = u64::from(size * (size + 1) / 2);
                    assert_eq!(sum.fetch_add(0_u64, 0, 0).unwrap(), all);
                });
            }
        });
        assert_eq!(broker.state.lock().place, None, "{size} ranks on {machines} machines");
    }
    // One machine of each team with several ranks ran the coordinator.
    assert_eq!(broker.state.lock().withdrawn, 3);
}

#[test]
fn an_offer_of_a_machine_that_is_gone_delays_no_rank() {
    let broker = Arc::new(Memory::default());
    broker.state.lock().deserted = vec![deserted(), deserted(), deserted()];
    let teams = meet(&broker, 3, 3, TIMEOUT);
    assert!(teams.iter().all(Result::is_ok), "{teams:?}");
    assert_eq!(broker.state.lock().asked, 6, "three were sent to endpoints without a listener");
    // Each rank leaves in a thread of its own: a machine leader waits until the others have left.
    std::thread::scope(|scope| {
        for team in teams {
            scope.spawn(move || drop(team));
        }
    });
}

#[test]
fn errors_of_the_broker_are_reported() {
    #[derive(Debug)]
    struct Wrong;
    impl Broker for Wrong {
        fn offer(&self, _: &str, _: &Endpoint) -> Result<Endpoint, String> {
            Err("no machine has offered".to_owned())
        }
        fn withdraw(&self, _: &str) {
            panic!("nothing was offered");
        }
        fn common_address(&self) -> Result<SocketAddr, String> {
            Ok((Ipv4Addr::LOCALHOST, 1).into())
        }
    }
    let job = new_job();
    let multi_machine =
        MultiMachine { rendezvous: Rendezvous::Brokered(Arc::new(Wrong)), machine: "m".into() };
    let options = TeamOptions { multi_machine: Some(multi_machine), ..TeamOptions::default() };
    let error = Team::meet_with(&job, 2, 0, &options).unwrap_err();
    assert_eq!(error.to_string(), format!("job {job}: no machine has offered"));

    // No process listens at the only endpoint.
    let broker = Arc::new(Memory::default());
    broker.state.lock().deserted = vec![deserted()];
    let rendezvous = Rendezvous::Brokered(broker.clone());
    let multi_machine = MultiMachine { rendezvous, machine: "m".into() };
    let options = TeamOptions { timeout: Duration::ZERO, multi_machine: Some(multi_machine) };
    let error = Team::meet_with(&job, 2, 1, &options).unwrap_err().to_string();
    assert!(error.contains("does not answer"), "{error}");
    assert_eq!(broker.state.lock().withdrawn, 0);
}

/// A process whose wait for the others fails withdraws its offer.
#[test]
fn an_offer_ends_at_the_timeout() {
    let broker = Arc::new(Memory::default());
    let rendezvous = Rendezvous::Brokered(broker.clone());
    let multi_machine = MultiMachine { rendezvous, machine: "m".into() };
    let options =
        TeamOptions { timeout: Duration::from_millis(50), multi_machine: Some(multi_machine) };
    let error = Team::meet_with(&new_job(), 2, 0, &options).unwrap_err().to_string();
    assert!(error.contains("rank 1 is"), "{error}");
    let state = broker.state.lock();
    assert_eq!((state.place.clone(), state.withdrawn), (None, 1));
}
