//! Replies that are read straight into memory of the client, and that are sent straight from files:
//! what is filled, and that memory which was taken back is left alone.

use std::io::Write;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::gate::Gate;
use pario_net::{
    Bulk, FilePart, IncomingRequest, LinkChoice, PortOptions, RecvBuffer, RecvError, RpcClient,
    RpcError, RpcServer, Simulation, Space,
};

const SOON: Duration = Duration::from_secs(10);
const LEN: usize = 1 << 20;

/// The request: a number of bytes.
use crate::protocols::Test;

type Port = RpcServer<Test<u64, (u64, Bulk)>>;
type Client = RpcClient<Test<u64, (u64, Bulk)>>;

fn content(len: usize) -> Vec<u8> {
    (0..251).cycle().take(len).collect()
}

/// Answers with as many bytes as it is asked for.
fn serve(port: Port) -> std::thread::JoinHandle<()> {
    serve_with(port, |asked| {
        let len = asked.request;
        let bytes = content(usize::try_from(len).unwrap());
        asked.responder.send((len, bytes.into()));
    })
}

fn serve_with(
    port: Port,
    answer: impl Fn(IncomingRequest<Test<u64, (u64, Bulk)>>) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        loop {
            match port.recv() {
                Ok(asked) => answer(asked),
                Err(RecvError::Lost { .. }) => {}
                Err(_) => return,
            }
        }
    })
}

/// Memory in two parts, the first of a third.
fn lend(memory: &mut [u8]) -> Arc<RecvBuffer> {
    let third = memory.len() / 3;
    let (one, two) = memory.split_at_mut(third);
    let parts = [one, two].map(|part| (NonNull::from(&mut *part).cast(), part.len()));
    // SAFETY: the tests use the memory after `end` only.
    unsafe { RecvBuffer::new(parts) }.expect("it is long enough")
}

fn host() -> (Space, Port) {
    let host = Space::builder("host")
        .listen_tcp("127.0.0.1:0".parse().unwrap())
        .links(LinkChoice::Tcp)
        .host()
        .build()
        .unwrap();
    let port = RpcServer::new(&host, "bytes", PortOptions::default()).unwrap();
    (host, port)
}

/// A host behind a gate, and a guest.
fn gated() -> (Space, Port, Gate, Space, Client) {
    let (host, port) = host();
    let gate = Gate::new(&host);
    let guest = Space::builder("guest").links(LinkChoice::Tcp).join(&gate.address).build().unwrap();
    let client = RpcClient::open(&guest, "bytes", SOON).unwrap();
    (host, port, gate, guest, client)
}

#[test]
fn an_answer_lands_where_it_is_wanted() {
    for links in [LinkChoice::Unix, LinkChoice::Tcp, LinkChoice::Nearest] {
        let builder =
            |name| Space::builder(name).listen_tcp("127.0.0.1:0".parse().unwrap()).links(links);
        let host = builder("host").host().build().unwrap();
        let guest = builder("guest").join(&host.address()).build().unwrap();
        let server = serve(RpcServer::new(&host, "bytes", PortOptions::default()).unwrap());
        let client: Client = RpcClient::open(&guest, "bytes", SOON).unwrap();
        let mut memory = vec![9; LEN];
        let buffer = lend(&mut memory);
        let (len, bulk) = client.start_into(LEN as u64, &buffer).unwrap().wait().unwrap();
        assert_eq!(len, LEN as u64);
        if links == LinkChoice::Nearest {
            // By memory nothing is read, and bulk moves as it is.
            assert!(!buffer.take_back());
            assert!(bulk[..] == content(LEN) && memory.iter().all(|byte| *byte == 9));
        } else {
            assert!(buffer.take_back());
            assert!(bulk.is_empty() && memory == content(LEN));
        }
        host.close();
        server.join().unwrap();
    }
}

#[test]
fn in_virtual_time_answers_come_as_usual() {
    let simulation = Simulation::new(3);
    let (host, guest) = (simulation.space("host").unwrap(), simulation.space("guest").unwrap());
    let server = serve(RpcServer::new(&host, "bytes", PortOptions::default()).unwrap());
    let client: Client = RpcClient::open(&guest, "bytes", SOON).unwrap();
    let mut memory = vec![9; LEN];
    let buffer = lend(&mut memory);
    let (_, bulk) = client.start_into(LEN as u64, &buffer).unwrap().wait().unwrap();
    assert!(!buffer.take_back() && bulk[..] == content(LEN));
    simulation.kill(&host);
    server.join().unwrap();
}

#[test]
fn what_has_another_length_comes_as_usual() {
    let (host, port) = host();
    let server = serve(port);
    let guest =
        Space::builder("guest").links(LinkChoice::Tcp).join(&host.address()).build().unwrap();
    let client: Client = RpcClient::open(&guest, "bytes", SOON).unwrap();
    for len in [0, 100, LEN - 1, LEN + 1, 2 * LEN] {
        let mut memory = vec![9; LEN];
        let buffer = lend(&mut memory);
        let (_, bulk) = client.start_into(len as u64, &buffer).unwrap().wait().unwrap();
        assert!(!buffer.take_back());
        assert!(bulk[..] == content(len) && memory.iter().all(|byte| *byte == 9));
    }
    host.close();
    server.join().unwrap();
}

/// Two replies for one buffer: the second must not overwrite the first.
#[test]
fn a_receive_buffer_is_used_once() {
    let (host, port) = host();
    let server = serve(port);
    let guest =
        Space::builder("guest").links(LinkChoice::Tcp).join(&host.address()).build().unwrap();
    let client: Client = RpcClient::open(&guest, "bytes", SOON).unwrap();
    let mut memory = vec![9; LEN];
    let buffer = lend(&mut memory);
    let both = [LEN as u64; 2].map(|len| client.start_into(len, &buffer).unwrap());
    let lens = both.map(|pending| pending.wait().unwrap().1.len());
    assert_eq!(lens, [0, LEN]);
    assert!(buffer.take_back() && memory == content(LEN));
    // Nor does one that comes after the memory was taken back.
    memory.fill(7);
    let (_, bulk) = client.start_into(LEN as u64, &buffer).unwrap().wait().unwrap();
    assert!(bulk[..] == content(LEN) && memory.iter().all(|byte| *byte == 7));
    host.close();
    server.join().unwrap();
}

/// The time limit ends the wait in the middle of the answer; what comes later goes nowhere, and the
/// link goes on.
#[test]
fn memory_that_was_taken_back_in_the_middle_of_an_answer_is_left_alone() {
    let (host, port, gate, guest, client) = gated();
    let server = serve(port);
    for way in 0..3 {
        let mut memory = vec![9; LEN];
        let buffer = lend(&mut memory);
        gate.to_guests.allow(LEN as u64 / 2);
        let pending = client.start_into(LEN as u64, &buffer).unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let pending = pending.wait_until(deadline).expect_err("half of it is missing");
        gate.to_guests.wait_until_full();
        match way {
            // The request is forgotten before or after the memory was taken back, or not at all.
            0 => {
                drop(pending);
                assert!(!buffer.take_back());
            }
            1 => {
                assert!(!buffer.take_back());
                drop(pending);
            }
            _ => {
                assert!(!buffer.take_back());
                gate.to_guests.open();
                let (_, bulk) = pending.wait().unwrap();
                assert!(bulk.is_empty(), "half an answer is none");
            }
        }
        memory.fill(7);
        gate.to_guests.open();
        // Answers of a link come in order: when this one is there, the other one has been read.
        let (_, bulk) = client.start(5_000).unwrap().wait().unwrap();
        assert_eq!(bulk[..], content(5_000));
        assert!(memory.iter().all(|byte| *byte == 7));
        assert!(!buffer.take_back());
    }
    guest.close();
    host.close();
    server.join().unwrap();
}

#[test]
fn a_link_that_is_lost_in_the_middle_of_an_answer_leaves_the_memory_alone() {
    let (host, port, gate, guest, client) = gated();
    let server = serve(port);
    let mut memory = vec![9; LEN];
    let buffer = lend(&mut memory);
    gate.to_guests.allow(LEN as u64 / 2);
    let pending = client.start_into(LEN as u64, &buffer).unwrap();
    let deadline = Instant::now() + Duration::from_millis(20);
    let pending = pending.wait_until(deadline).expect_err("half of it is missing");
    gate.to_guests.wait_until_full();
    gate.cut();
    assert!(matches!(pending.wait(), Err(RpcError::Lost { .. })));
    assert!(!buffer.take_back());
    memory.fill(7);
    guest.close();
    assert!(memory.iter().all(|byte| *byte == 7));
    host.close();
    server.join().unwrap();
}

/// Memory is taken back again and again at arbitrary moments while the link reads into it. A
/// thread checker shows whether any thread writes to it afterwards.
#[test]
fn taking_back_at_any_moment() {
    let (host, port) = host();
    let server = serve(port);
    let guest =
        Space::builder("guest").links(LinkChoice::Tcp).join(&host.address()).build().unwrap();
    let client: Client = RpcClient::open(&guest, "bytes", SOON).unwrap();
    let mut random = fastrand::Rng::with_seed(4);
    let mut landed = 0;
    for round in 0..300 {
        let mut memory = vec![9; LEN];
        let buffer = lend(&mut memory);
        let pending = client.start_into(LEN as u64, &buffer).unwrap();
        // Another thread reads for this one.
        let other = client.start(1).unwrap();
        let reader = std::thread::spawn(move || other.wait().unwrap());
        let end = Instant::now() + Duration::from_micros(random.u64(0..1_500));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        if buffer.take_back() {
            landed += 1;
            assert!(memory == content(LEN));
        }
        memory.fill(7);
        reader.join().unwrap();
        drop(pending);
        assert!(memory.iter().all(|byte| *byte == 7), "round {round}");
    }
    println!("{landed} of 300 had landed");
    host.close();
    server.join().unwrap();
}

/// Bytes that are sent from a file arrive as others do, land as others do, and are zeros where the
/// file was truncated while the link sent it.
#[test]
fn answers_come_from_files() {
    for links in [LinkChoice::Unix, LinkChoice::Tcp] {
        let builder =
            |name| Space::builder(name).listen_tcp("127.0.0.1:0".parse().unwrap()).links(links);
        let host = builder("host").host().build().unwrap();
        let guest = builder("guest").join(&host.address()).build().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content(LEN)).unwrap();
        let port: Port = RpcServer::new(&host, "bytes", PortOptions::default()).unwrap();
        let server = serve_with(port, move |asked| {
            assert!(asked.responder.can_send_files());
            let len = usize::try_from(asked.request).unwrap();
            let part = FilePart::new(file.try_clone().unwrap(), 1_000, len);
            asked.responder.send_file((asked.request, Bulk::new()), part);
        });
        let client: Client = RpcClient::open(&guest, "bytes", SOON).unwrap();
        let expected = |len: usize| {
            let mut bytes = content(LEN)[1_000..LEN.min(1_000 + len)].to_vec();
            bytes.resize(len, 0);
            bytes
        };
        let lens = [4_096, 50_001, LEN - 1_000, LEN, 2 * LEN];
        let asked = lens.map(|len| client.start(len as u64).unwrap());
        for (pending, len) in asked.into_iter().zip(lens) {
            assert!(pending.wait().unwrap().1[..] == expected(len), "{len}");
            let mut memory = vec![9; len];
            let buffer = lend(&mut memory);
            let (_, bulk) = client.start_into(len as u64, &buffer).unwrap().wait().unwrap();
            assert!(buffer.take_back() && bulk.is_empty() && memory == expected(len), "{len}");
        }
        host.close();
        server.join().unwrap();
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_in_zeros() {
    let (host, port, gate, guest, client) = gated();
    const LONG: usize = 16 << 20;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[1; LONG]).unwrap();
    let sent = file.try_clone().unwrap();
    let server = serve_with(port, move |asked| {
        let len = usize::try_from(asked.request).unwrap();
        let part = FilePart::new(sent.try_clone().unwrap(), 0, len);
        asked.responder.send_file((asked.request, Bulk::new()), part);
    });
    gate.to_guests.allow(1 << 20);
    let pending = client.start(LONG as u64).unwrap();
    let deadline = Instant::now() + Duration::from_millis(20);
    let pending = pending.wait_until(deadline).expect_err("most of it is missing");
    gate.to_guests.wait_until_full();
    file.set_len(0).unwrap();
    gate.to_guests.open();
    let (_, bulk) = pending.wait().unwrap();
    assert_eq!(bulk.len(), LONG);
    assert!(bulk[..1 << 19].iter().all(|byte| *byte == 1));
    assert!(bulk.iter().all(|byte| *byte <= 1) && bulk.last() == Some(&0));
    guest.close();
    host.close();
    server.join().unwrap();
}

#[test]
fn answers_within_a_process_take_no_files() {
    let space = Space::alone("alone");
    let port: Port = RpcServer::new(&space, "bytes", PortOptions::default()).unwrap();
    let client: Client = RpcClient::open(&space, "bytes", SOON).unwrap();
    let pending = client.start(1).unwrap();
    let asked = port.recv().unwrap();
    assert!(!asked.responder.can_send_files());
    asked.responder.send((1, Bulk::new()));
    assert_eq!(pending.wait().unwrap(), (1, Bulk::new()));
}
