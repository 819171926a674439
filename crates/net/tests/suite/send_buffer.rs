//! Memory that is sent from where it is, and when it is the sender's again.

use std::time::{Duration, Instant};

use crate::gate::Gate;
use pario_net::{Bulk, LinkChoice, PortOptions, RpcClient, RpcError, RpcServer, SendBuffer, Space};

const SOON: Duration = Duration::from_secs(10);
/// More than sockets hold.
const LEN: usize = 32 << 20;

use crate::protocols::Test;

type Port = RpcServer<Test<Bulk, u64>>;
type Client = RpcClient<Test<Bulk, u64>>;

/// A host behind a gate that counts sevens, and a guest.
fn gated() -> (Space, std::thread::JoinHandle<()>, Gate, Space, Client) {
    let host = Space::builder("host")
        .listen_tcp("127.0.0.1:0".parse().unwrap())
        .links(LinkChoice::Tcp)
        .host()
        .build()
        .unwrap();
    let port: Port = RpcServer::new(&host, "sevens", PortOptions::default()).unwrap();
    let server = std::thread::spawn(move || {
        loop {
            match port.recv() {
                Ok(asked) => {
                    let sevens = asked.request.iter().filter(|byte| **byte == 7).count();
                    asked.responder.send(sevens as u64);
                }
                Err(pario_net::RecvError::Lost { .. }) => {}
                Err(_) => return,
            }
        }
    });
    let gate = Gate::new(&host);
    let guest = Space::builder("guest").links(LinkChoice::Tcp).join(&gate.address).build().unwrap();
    let client = RpcClient::open(&guest, "sevens", SOON).unwrap();
    (host, server, gate, guest, client)
}

fn now() -> Instant {
    Instant::now()
}

#[test]
fn what_was_answered_is_given_back() {
    let (host, server, _gate, guest, client) = gated();
    assert!(client.releases_when_sent());
    let mut memory = vec![7; LEN];
    for _ in 0..3 {
        memory.fill(7);
        let buffer = SendBuffer::new();
        // SAFETY: the memory is used after `wait` only.
        let bulk = unsafe { buffer.lend(&memory) };
        assert!(!buffer.wait_until(now()), "it is lent");
        assert_eq!(client.start(bulk).unwrap().wait(), Ok(LEN as u64));
        buffer.wait();
        memory.fill(9);
    }
    guest.close();
    host.close();
    server.join().unwrap();
}

/// The host reads a part and no more: the memory stays borrowed until the link is cut.
#[test]
fn what_is_not_taken_is_given_back_when_the_link_is_cut() {
    let (host, server, gate, guest, client) = gated();
    let mut memory = vec![7; LEN];
    let buffer = SendBuffer::new();
    gate.to_host.allow(1 << 20);
    // SAFETY: the memory is used after `wait` only.
    let bulk = unsafe { buffer.lend(&memory) };
    let pending = client.start(bulk).unwrap();
    let deadline = now() + Duration::from_millis(50);
    let pending = pending.wait_until(deadline).expect_err("it was not received");
    gate.to_host.wait_until_full();
    assert!(!buffer.wait_until(now()));
    client.close_link("enough");
    buffer.wait();
    memory.fill(9);
    assert!(matches!(pending.wait(), Err(RpcError::Lost { .. })));
    assert!(!client.is_alive());
    guest.close();
    host.close();
    server.join().unwrap();
}

#[test]
fn what_is_not_taken_is_given_back_when_the_link_is_lost() {
    let (host, server, gate, guest, client) = gated();
    let memory = vec![7; LEN];
    let buffer = SendBuffer::new();
    gate.to_host.allow(1 << 20);
    // SAFETY: the memory is used after `wait` only.
    let bulk = unsafe { buffer.lend(&memory) };
    let pending = client.start(bulk).unwrap();
    gate.to_host.wait_until_full();
    gate.cut();
    assert!(matches!(pending.wait(), Err(RpcError::Lost { .. })));
    buffer.wait();
    drop(memory);
    guest.close();
    host.close();
    server.join().unwrap();
}

/// A request that is dropped unsent, and one that cannot be sent, release the memory at once.
#[test]
fn what_is_not_sent_is_given_back() {
    let (host, server, _gate, guest, client) = gated();
    let memory = vec![7; LEN];
    let buffer = SendBuffer::new();
    // SAFETY: the memory is used after `wait` only.
    drop(unsafe { buffer.lend(&memory) });
    buffer.wait();
    client.close_link("enough");
    // SAFETY: as above.
    let bulk = unsafe { buffer.lend(&memory) };
    assert!(client.start(bulk).is_err());
    buffer.wait();
    guest.close();
    host.close();
    server.join().unwrap();
}

#[test]
fn within_a_process_the_receiver_has_it() {
    let space = Space::alone("alone");
    let port: Port = RpcServer::new(&space, "sevens", PortOptions::default()).unwrap();
    let client: Client = RpcClient::open(&space, "sevens", SOON).unwrap();
    assert!(!client.releases_when_sent());
    let memory = vec![7; 100];
    let buffer = SendBuffer::new();
    // SAFETY: the memory is used after `wait` only.
    let pending = client.start(unsafe { buffer.lend(&memory) }).unwrap();
    let asked = port.recv().unwrap();
    client.close_link("there is nothing to cut");
    assert!(!buffer.wait_until(now()));
    drop(asked.request);
    assert!(buffer.wait_until(now()));
    asked.responder.send(5);
    assert_eq!(pending.wait(), Ok(5));
}
