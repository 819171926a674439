//! One sender floods a port: another one's token is received soon all the same.

use std::time::Duration;

use pario_net::{Credit, InputPort, LinkChoice, PortOptions, Space, SpaceBuilder};

const SOON: Duration = Duration::from_secs(10);

/// Tokens of the flood that may be received before that of another sender: it is found when the
/// receiver looks around (every 64 tokens), and then waits for the end of a turn of 16.
const WAIT_LIMIT: u64 = 64 + 2 * 16;

fn builder(name: &str, links: LinkChoice) -> SpaceBuilder {
    Space::builder(name).listen_tcp("127.0.0.1:0".parse().unwrap()).links(links)
}

/// Receives tokens until one of the flood's has this number or later.
fn receive_until(input: &InputPort<u64>, number: u64) {
    while input.recv_timeout(SOON).unwrap() < number {}
}

#[test]
fn a_flood_of_one_link_does_not_hold_up_another() {
    for links in [LinkChoice::Unix, LinkChoice::Tcp] {
        let node = builder("node", links).host().build().unwrap();
        let options = PortOptions { credit_bytes: Credit::Bytes(16 << 20) };
        let input: InputPort<u64> = node.input_with("numbers", options).unwrap();
        let flooding = builder("flooding", links).join(&node.address()).build().unwrap();
        let honest = builder("honest", links).join(&node.address()).build().unwrap();
        let flood = flooding.output::<u64>("numbers", SOON).unwrap();
        let question = honest.output::<u64>("numbers", SOON).unwrap();
        for number in 0..200_000 {
            flood.send(number).unwrap();
        }
        flood.flush();
        // The space's own thread leads as long as no other one does; until it hands over, the system
        // decides when it reads. So a few of the first questions may wait longer.
        let mut waits: Vec<u64> = (1..20)
            .map(|round| {
                receive_until(&input, round * 5_000);
                question.send(u64::MAX).unwrap();
                question.flush();
                let is_flood = |_: &u64| input.recv_timeout(SOON).unwrap() != u64::MAX;
                (0..).take_while(is_flood).count() as u64
            })
            .collect();
        waits.sort_unstable();
        let median = waits[waits.len() / 2];
        assert!(median <= WAIT_LIMIT, "tokens of the flood that came first: {waits:?}");
    }
}
