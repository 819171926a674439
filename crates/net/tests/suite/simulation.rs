//! Links in virtual time: partitions, steps, and that a seed decides.

use std::time::Duration;

use pario_net::{RecvError, SendError, Simulation};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_partition_holds_packets_back_until_it_is_healed() {
    let simulation = Simulation::new(1);
    let (a, b) = (simulation.space("a").unwrap(), simulation.space("b").unwrap());
    let input = a.input::<u32>("in").unwrap();
    let output = b.output::<u32>("in", SOON).unwrap();
    simulation.pause();
    while simulation.step() {}
    for number in 0..10 {
        output.send(number).unwrap();
    }
    let sent = simulation.now();
    simulation.partition(&a, &b);
    simulation.heal(&a, &b);
    while simulation.step() {}
    assert!(simulation.now() > sent);
    for number in 0..10 {
        assert_eq!(input.try_recv().unwrap(), number);
    }
}

#[test]
fn a_partition_that_lasts_is_a_loss_for_both() {
    let simulation = Simulation::new(2);
    let (a, b) = (simulation.space("a").unwrap(), simulation.space("b").unwrap());
    let c = simulation.space("c").unwrap();
    let in_a = a.input::<u32>("in a").unwrap();
    let in_b = b.input::<u32>("in b").unwrap();
    let to_a = b.output::<u32>("in a", SOON).unwrap();
    let to_b = a.output::<u32>("in b", SOON).unwrap();
    let c_to_a = c.output::<u32>("in a", SOON).unwrap();
    let c_to_b = c.output::<u32>("in b", SOON).unwrap();
    let before = simulation.now();
    simulation.partition(&a, &b);
    assert!(matches!(in_a.recv_timeout(SOON), Err(RecvError::Lost { peer, .. }) if peer == "b"));
    assert!(matches!(in_b.recv_timeout(SOON), Err(RecvError::Lost { peer, .. }) if peer == "a"));
    assert!(simulation.now() >= before + Duration::from_millis(700));
    assert!(matches!(to_a.send(1), Err(SendError::Lost { .. })));
    assert!(matches!(to_b.send(1), Err(SendError::Lost { .. })));
    // A third sees both.
    c_to_a.send(5).unwrap();
    c_to_b.send(6).unwrap();
    assert_eq!(in_a.recv_timeout(SOON).unwrap(), 5);
    assert_eq!(in_b.recv_timeout(SOON).unwrap(), 6);
}

/// In which order packets of three senders arrive, one packet at a time.
fn arrivals(seed: u64) -> Vec<u32> {
    let simulation = Simulation::new(seed);
    let host = simulation.space("host").unwrap();
    let input = host.input::<u32>("in").unwrap();
    let spaces: Vec<_> = (0..3).map(|i| simulation.space(&format!("space {i}")).unwrap()).collect();
    let outputs: Vec<_> =
        spaces.iter().map(|space| space.output::<u32>("in", SOON).unwrap()).collect();
    simulation.pause();
    while simulation.step() {}
    for number in 0..20 {
        for (sender, output) in (0..).zip(&outputs) {
            output.send(100 * sender + number).unwrap();
        }
    }
    while simulation.step() {}
    let arrived: Vec<u32> = (0..60).map(|_| input.try_recv().unwrap()).collect();
    for sender in 0..3 {
        let own = arrived.iter().copied().filter(|number| number / 100 == sender);
        assert!(own.eq((0..20).map(|number| 100 * sender + number)), "order on each link");
    }
    arrived
}

#[test]
fn a_seed_decides_the_order_between_links() {
    assert_eq!(arrivals(5), arrivals(5));
    assert!((0..5).any(|seed| arrivals(seed) != arrivals(seed + 1)));
}

#[test]
fn a_killed_space_does_not_reply() {
    let simulation = Simulation::new(3);
    let (a, b) = (simulation.space("a").unwrap(), simulation.space("b").unwrap());
    let input = b.input::<u32>("in").unwrap();
    let output = a.output::<u32>("in", SOON).unwrap();
    simulation.kill(&b);
    let error = (0..).find_map(|number| output.send(number).err()).unwrap();
    assert!(matches!(&error, SendError::Lost { peer, .. } if peer == "b"), "{error}");
    assert!(a.output::<u32>("in", Duration::from_millis(10)).is_err());
    assert!(b.input::<u32>("another").is_err());
    assert!((0..).find_map(|_| input.recv().err()).is_some());
}
