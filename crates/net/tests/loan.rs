//! Memory that is sent from where it is, and when it is the sender's again.

mod gate;

use std::time::{Duration, Instant};

use gate::Gate;
use pario_net::{AnswerPort, AskError, Asker, Bulk, LinkChoice, Loan, PortOptions, Space};

const SOON: Duration = Duration::from_secs(10);
/// More than sockets hold.
const LEN: usize = 32 << 20;

type Port = AnswerPort<Bulk, u64>;
type Client = Asker<Bulk, u64>;

/// A host behind a gate that counts sevens, and a guest.
fn gated() -> (Space, std::thread::JoinHandle<()>, Gate, Space, Client) {
    let host = Space::builder("host")
        .listen_tcp("127.0.0.1:0".parse().unwrap())
        .links(LinkChoice::Tcp)
        .host()
        .build()
        .unwrap();
    let port: Port = AnswerPort::new(&host, "sevens", PortOptions::default()).unwrap();
    let server = std::thread::spawn(move || {
        loop {
            match port.recv() {
                Ok(asked) => {
                    let sevens = asked.question.iter().filter(|byte| **byte == 7).count();
                    asked.answer.send(sevens as u64);
                }
                Err(pario_net::RecvError::Lost { .. }) => {}
                Err(_) => return,
            }
        }
    });
    let gate = Gate::new(&host);
    let guest = Space::builder("guest").links(LinkChoice::Tcp).join(&gate.address).build().unwrap();
    let asker = Asker::open(&guest, "sevens", SOON).unwrap();
    (host, server, gate, guest, asker)
}

fn now() -> Instant {
    Instant::now()
}

#[test]
fn what_was_answered_is_given_back() {
    let (host, server, _gate, guest, asker) = gated();
    assert!(asker.gives_back());
    let mut memory = vec![7; LEN];
    for _ in 0..3 {
        memory.fill(7);
        let loan = Loan::new();
        // SAFETY: the memory is used after `wait` only.
        let bulk = unsafe { loan.lend(&memory) };
        assert!(!loan.wait_until(now()), "it is lent");
        assert_eq!(asker.ask(bulk).unwrap().wait(), Ok(LEN as u64));
        loan.wait();
        memory.fill(9);
    }
    guest.close();
    host.close();
    server.join().unwrap();
}

/// The host takes a part and no more: the memory is lent until the link is cut.
#[test]
fn what_is_not_taken_is_given_back_when_the_link_is_cut() {
    let (host, server, gate, guest, asker) = gated();
    let mut memory = vec![7; LEN];
    let loan = Loan::new();
    gate.to_host.allow(1 << 20);
    // SAFETY: the memory is used after `wait` only.
    let bulk = unsafe { loan.lend(&memory) };
    let pending = asker.ask(bulk).unwrap();
    let deadline = now() + Duration::from_millis(50);
    let pending = pending.wait_until(deadline).expect_err("it was not received");
    gate.to_host.wait_until_full();
    assert!(!loan.wait_until(now()));
    asker.cut("enough");
    loan.wait();
    memory.fill(9);
    assert!(matches!(pending.wait(), Err(AskError::Lost { .. })));
    assert!(!asker.is_alive());
    guest.close();
    host.close();
    server.join().unwrap();
}

#[test]
fn what_is_not_taken_is_given_back_when_the_link_is_lost() {
    let (host, server, gate, guest, asker) = gated();
    let memory = vec![7; LEN];
    let loan = Loan::new();
    gate.to_host.allow(1 << 20);
    // SAFETY: the memory is used after `wait` only.
    let bulk = unsafe { loan.lend(&memory) };
    let pending = asker.ask(bulk).unwrap();
    gate.to_host.wait_until_full();
    gate.cut();
    assert!(matches!(pending.wait(), Err(AskError::Lost { .. })));
    loan.wait();
    drop(memory);
    guest.close();
    host.close();
    server.join().unwrap();
}

/// A question that is dropped unsent, and one that nobody can be asked, are given back at once.
#[test]
fn what_is_not_sent_is_given_back() {
    let (host, server, _gate, guest, asker) = gated();
    let memory = vec![7; LEN];
    let loan = Loan::new();
    // SAFETY: the memory is used after `wait` only.
    drop(unsafe { loan.lend(&memory) });
    loan.wait();
    asker.cut("enough");
    // SAFETY: as above.
    let bulk = unsafe { loan.lend(&memory) };
    assert!(asker.ask(bulk).is_err());
    loan.wait();
    guest.close();
    host.close();
    server.join().unwrap();
}

#[test]
fn within_a_process_the_receiver_has_it() {
    let space = Space::alone("alone");
    let port: Port = AnswerPort::new(&space, "sevens", PortOptions::default()).unwrap();
    let asker: Client = Asker::open(&space, "sevens", SOON).unwrap();
    assert!(!asker.gives_back());
    let memory = vec![7; 100];
    let loan = Loan::new();
    // SAFETY: the memory is used after `wait` only.
    let pending = asker.ask(unsafe { loan.lend(&memory) }).unwrap();
    let asked = port.recv().unwrap();
    asker.cut("there is nothing to cut");
    assert!(!loan.wait_until(now()));
    drop(asked.question);
    assert!(loan.wait_until(now()));
    asked.answer.send(5);
    assert_eq!(pending.wait(), Ok(5));
}
