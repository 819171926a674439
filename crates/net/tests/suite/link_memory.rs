//! What links cost the process that receives: no memory for bulk beyond the credit, and little for
//! links that are idle. The receiver is a process of its own, and its resident memory is measured.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::stranger::peer::{RawPeer, promise};
use crate::stranger::{SOON, builder};
use pario_net::wire::WireLimits;
use pario_net::{Address, Credit, Options, PortOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const RECEIVER: &str = "PARIO_NET_TEST_RECEIVER";
/// The credit of the receiver's port.
const CREDIT: usize = 16 << 20;
/// The largest token that the receiver takes.
const TOKEN: usize = 20 << 20;
/// What a measurement may be off by: the receiver has threads, pools and an allocator.
const SLACK_KIB: u64 = 8 << 10;
const MIB: usize = 1 << 20;

/// The receiver: a space with one port, until its standard input ends.
#[test]
fn receiver() {
    if std::env::var_os(RECEIVER).is_none() {
        return;
    }
    raise_descriptors();
    let options = Options { limits: WireLimits::for_tokens(TOKEN), ..Options::default() };
    let space = builder("receiver").options(options).host().build().unwrap();
    let port = PortOptions { credit_bytes: Credit::Bytes(CREDIT) };
    let _input = space.input_with::<u64>("port", port).unwrap();
    println!("@{}", space.address());
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Whether this process may open enough files for two thousand links.
fn raise_descriptors() -> bool {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.is_none_or(|limit| limit > 4_500)
}

struct Receiver {
    process: Child,
    address: Address,
}

impl Receiver {
    fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "link_memory::receiver", "--nocapture"])
            .env(RECEIVER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).find_map(|line| {
            let at = line.find('@')?;
            Some(line[at + 1..].to_owned())
        });
        Self { process, address: said.unwrap().parse().unwrap() }
    }

    fn connect(&self) -> RawPeer<TcpStream> {
        let stream = TcpStream::connect(self.address.tcp.unwrap()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        RawPeer::come_in(stream)
    }

    /// Resident memory of its own, in KiB: not what it shares with files.
    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends zeros until all are written or the receiver has cut the link: how many bytes it took.
fn pour(peer: &mut RawPeer<TcpStream>, bytes: usize) -> usize {
    let zeros = vec![0; MIB];
    let mut written = 0;
    while written < bytes {
        match peer.stream.write(&zeros[..MIB.min(bytes - written)]) {
            Ok(count) => written += count,
            Err(_) => break,
        }
    }
    written
}

#[test]
fn bulk_beyond_the_credit_takes_no_memory() {
    let receiver = Receiver::start();
    let before = receiver.resident_kib();
    // Many frames that exceed the credit together, with few and with many segments.
    let frames: Vec<Vec<usize>> = vec![vec![16 * MIB], vec![16 * MIB], vec![2 * MIB; 4]];
    for lengths in [vec![&frames[0][..]; 2], vec![&frames[2][..]; 4], vec![&[4096; 1000]; 9]] {
        let mut peer = receiver.connect();
        let (channel, _) = peer.open("port");
        peer.stream.write_all(&promise(channel, &lengths)).unwrap();
        let total: usize = lengths.iter().flat_map(|frame| frame.iter()).sum();
        pour(&mut peer, total);
        peer.sees_the_end();
        let after = receiver.resident_kib();
        assert!(after < before + SLACK_KIB, "{after} KiB resident, {before} KiB before");
    }
}

#[test]
fn a_token_beyond_the_limit_is_refused_and_one_within_is_bounded() {
    let receiver = Receiver::start();
    let before = receiver.resident_kib();
    let mut peer = receiver.connect();
    let (channel, _) = peer.open("port");
    peer.stream.write_all(&promise(channel, &[&[TOKEN / 2, TOKEN / 2 + 4096]])).unwrap();
    peer.sees_the_end();
    assert!(receiver.resident_kib() < before + SLACK_KIB);

    // One token is larger than the credit and passes alone; nothing passes with it or after it.
    let mut peer = receiver.connect();
    let (channel, _) = peer.open("port");
    peer.stream.write_all(&promise(channel, &[&[TOKEN]])).unwrap();
    assert_eq!(pour(&mut peer, TOKEN), TOKEN);
    peer.find("port");
    let held = receiver.resident_kib();
    let allowed = before + (TOKEN as u64 >> 10) + SLACK_KIB;
    assert!(held < allowed, "{held} KiB resident, {before} KiB before");
    peer.stream.write_all(&promise(channel, &[&[MIB]])).unwrap();
    pour(&mut peer, MIB);
    peer.sees_the_end();
    assert!(receiver.resident_kib() < allowed);
}

/// A header promises, and nothing follows: memory follows what has come.
#[test]
fn promises_cost_little() {
    let receiver = Receiver::start();
    let before = receiver.resident_kib();
    let mut peers = Vec::new();
    for number in 0..100 {
        let mut peer = receiver.connect();
        let (channel, _) = peer.open("port");
        let packet = promise(channel, &[&[MIB - 4096; 15]]);
        match number % 2 {
            0 => peer.stream.write_all(&packet).unwrap(),
            // An inline area of 30 MiB, of which nothing comes.
            _ => {
                let header = [&(30_u32 << 20).to_le_bytes()[..], &[1, 0, 0, 0], &[0; 8]].concat();
                peer.stream.write_all(&header).unwrap();
            }
        }
        peers.push(peer);
    }
    // Links are read in turn: when one that came later is answered, so were these.
    receiver.connect().find("port");
    receiver.connect().find("port");
    let after = receiver.resident_kib();
    println!("100 promises cost {} KiB", after.saturating_sub(before));
    assert!(after < before + 100 * 64 + SLACK_KIB, "{after} KiB resident, {before} KiB before");
}

/// The limit of the issue: 64 KiB for each of two thousand idle links.
#[test]
fn idle_links_cost_little() {
    const LINKS: u64 = 2_000;
    if !raise_descriptors() {
        println!("skipped: this process may not open 4,500 files (ulimit -n)");
        return;
    }
    let receiver = Receiver::start();
    let before = receiver.resident_kib();
    let mut peers = Vec::new();
    for _ in 0..LINKS {
        let mut peer = receiver.connect();
        peer.open("port");
        peers.push(peer);
    }
    let cost = |resident: u64| resident.saturating_sub(before) / LINKS;
    println!("2,000 links cost {} KiB each at once", cost(receiver.resident_kib()));
    assert!(cost(receiver.resident_kib()) <= 64, "before anything was given back");

    // After much has come over each, they rest again.
    for peer in &mut peers {
        (0..100).for_each(|_| drop(peer.find("port")));
    }
    let began = Instant::now();
    while cost(receiver.resident_kib()) > 32 {
        assert!(began.elapsed() < SOON, "{} KiB each", cost(receiver.resident_kib()));
        peers[0].find("port");
    }
    println!("2,000 links cost {} KiB each at rest", cost(receiver.resident_kib()));
}
