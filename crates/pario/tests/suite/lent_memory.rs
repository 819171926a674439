//! Memory of callers that the client borrows while bytes move over a network: whatever a node does,
//! the client neither writes to it nor sends from it after the call has returned.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pario::{Cluster, ClusterOptions, ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_net::{
    Bulk, BulkBuffer, IncomingRequest, LinkChoice, PortOptions, RecvError, Responder, RpcClient,
    RpcServer, Space,
};
use pario_proto::{Reply, ReplyMessage, Request};
use pario_server::NodeProtocol;

use crate::gate::Gate;
use crate::sites::{Site, Transport};

const LEN: usize = 1 << 20;
/// A time limit that one call of a test exceeds, while the others keep it on a busy machine as well.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(30);

type Responding = Responder<NodeProtocol>;

/// Changes, delays or drops the true reply to a read or a write.
type Twist = Box<dyn FnMut(ReplyMessage<Bulk>, Responding) + Send>;

/// A proxy between a client and a node that forwards everything, except that its [`Twist`] decides
/// about the replies to reads and writes.
struct Liar {
    space: Space,
    /// Clients connect through it.
    gate: Gate,
    twist: Arc<Mutex<Twist>>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    fn new(site: &Site) -> Self {
        let node = site.nodes[0].address().parse().unwrap();
        let far = Space::builder("far side").join(&node).build().unwrap();
        let real: RpcClient<NodeProtocol> = RpcClient::open(&far, "requests", LONG).unwrap();
        let space = Space::builder("liar")
            .listen_tcp("127.0.0.1:0".parse().unwrap())
            .links(LinkChoice::Tcp)
            .host()
            .build()
            .unwrap();
        let port = RpcServer::new(&space, "requests", PortOptions::default()).unwrap();
        let twist: Arc<Mutex<Twist>> = Arc::new(Mutex::new(honest()));
        let gate = Gate::new(&space);
        let (own, address) = (twist.clone(), gate.address.to_string());
        let thread = std::thread::spawn(move || {
            let _far = far;
            loop {
                match port.recv() {
                    Ok(asked) => pass_on(&real, asked, &address, &own),
                    Err(RecvError::Lost { .. }) => {}
                    Err(_) => return,
                }
            }
        });
        Self { space, gate, twist, thread: Some(thread) }
    }

    fn connect(&self, timeout: Duration) -> Cluster {
        let timeout = Some(timeout);
        let options = ClusterOptions { short_cut: Some(false), timeout, ..Default::default() };
        let address = format!("tcp:{}", self.gate.address.tcp.unwrap());
        Cluster::connect_with(&address, options).unwrap()
    }

    /// Replaces the function that handles the replies to reads and writes.
    fn twist(&self, twist: impl FnMut(ReplyMessage<Bulk>, Responding) + Send + 'static) {
        *self.twist.lock().unwrap() = Box::new(twist);
    }

    /// Sends no reply to reads and writes; the receiver gets the replies instead.
    fn hold(&self) -> Receiver<(ReplyMessage<Bulk>, Responding)> {
        let (keep, kept): (Sender<_>, _) = channel();
        self.twist(move |answer, to| drop(keep.send((answer, to))));
        kept
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.space.close();
        let _ = self.thread.take().unwrap().join();
    }
}

/// Sends every reply unchanged.
fn honest() -> Twist {
    Box::new(|answer, to| to.send_now(answer))
}

/// Forwards one request to the node and its reply to the client.
fn pass_on(
    real: &RpcClient<NodeProtocol>,
    asked: IncomingRequest<NodeProtocol>,
    address: &str,
    twist: &Mutex<Twist>,
) {
    let request = &asked.request.request;
    let is_data = matches!(
        request,
        Request::Read { .. }
            | Request::Write { .. }
            | Request::ReadExtent { .. }
            | Request::WriteExtent { .. }
    );
    let mut answer = real.start(asked.request).unwrap().wait().unwrap();
    if let Ok(Reply::Welcome { map, descriptors, .. }) = &mut answer.result {
        map.nodes[0].address = address.to_owned();
        *descriptors = None;
    }
    if is_data {
        twist.lock().unwrap()(answer, asked.responder);
    } else {
        asked.responder.send_now(answer);
    }
}

fn content() -> Vec<u8> {
    (0..251).cycle().take(LEN).collect()
}

/// A cluster with a file of bytes, and a proxy in front of it.
fn set_up() -> (Liar, Site) {
    let site = Site::new(Transport::Socket);
    let file = site.cluster.create("/file").unwrap();
    file.write_at(&content(), 0).unwrap();
    file.close().unwrap();
    (Liar::new(&site), site)
}

#[test]
fn what_an_honest_node_answers_is_read() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(LONG);
    let file = cluster.open("/file").unwrap();
    let mut memory = vec![9; LEN];
    assert_eq!(file.read_at(&mut memory, 0).unwrap(), LEN);
    assert!(memory == content());
    assert!(file.start_read_at(LEN, 0).unwrap().wait().unwrap()[..] == content());
    let links = liar.space.counters().links;
    assert!(!links.is_empty() && links.iter().all(|link| link.carrier == "tcp"));
    // Beyond the end, and over it.
    let mut memory = vec![9; 2 * LEN];
    assert_eq!(file.read_at(&mut memory, 5).unwrap(), LEN - 5);
    assert!(memory[..LEN - 5] == content()[5..]);
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(LONG);
    let file = cluster.open("/file").unwrap();
    let lies: [fn(ReplyMessage<Bulk>) -> ReplyMessage<Bulk>; 6] = [
        // Fewer bytes than it says, or more.
        |answer| ReplyMessage { data: vec![answer.data[0].slice(..100_000)], ..answer },
        |answer| ReplyMessage { data: vec![vec![1; 2 * answer.data[0].len()].into()], ..answer },
        // All bytes, but it says that they are fewer, or something else.
        |answer| ReplyMessage { result: Ok(Reply::Read { lens: vec![5] }), ..answer },
        |answer| ReplyMessage { result: Ok(Reply::Read { lens: vec![] }), ..answer },
        |answer| ReplyMessage { result: Ok(Reply::Done), ..answer },
        // None.
        |answer| ReplyMessage { data: vec![], ..answer },
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        liar.twist(move |answer, to| to.send_now(lie(answer)));
        let mut memory = vec![9; LEN];
        let error = file.read_at(&mut memory, 0).unwrap_err().to_string();
        assert!(error.contains("does not belong to the request"), "{number}: {error}");
        assert!(file.start_read_at(LEN, 0).unwrap().wait().is_err(), "{number}");
        liar.twist(|answer, to| to.send_now(answer));
        assert_eq!(file.read_at(&mut memory, 0).unwrap(), LEN);
        assert!(memory == content(), "{number}");
    }
}

/// The node answers when the time limit is over, and the caller uses its memory for other things.
#[test]
fn late_answers_do_not_reach_memory_that_was_given_back() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(SHORT);
    let file = cluster.open("/file").unwrap();
    let kept = liar.hold();
    let mut memory = vec![9; LEN];
    let error = file.read_at(&mut memory, 0).unwrap_err().to_string();
    assert!(error.contains("no reply within"), "{error}");
    memory.fill(7);
    liar.twist(|answer, to| to.send_now(answer));
    for (answer, to) in kept.try_iter() {
        to.send_now(answer);
    }
    // Answers come in order: when this one is there, the late ones have been read.
    let mut other = vec![9; LEN];
    assert_eq!(file.read_at(&mut other, 0).unwrap(), LEN);
    assert!(other == content() && memory.iter().all(|byte| *byte == 7));
}

/// A started read is dropped; another owner uses its memory when the reply arrives.
#[test]
fn late_answers_do_not_reach_memory_of_a_dropped_request() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(SHORT);
    let file = cluster.open("/file").unwrap();
    let kept = liar.hold();
    // The drop waits for the answers, until the time limit.
    drop(file.start_read_at(LEN, 0).unwrap());
    // The pool hands out the buffer that was returned last.
    let mut memory = BulkBuffer::new(LEN);
    memory.fill(7);
    let first = kept.recv().unwrap();
    liar.twist(|answer, to| to.send_now(answer));
    for (answer, to) in std::iter::once(first).chain(kept.try_iter()) {
        to.send_now(answer);
    }
    let mut other = vec![9; LEN];
    assert_eq!(file.read_at(&mut other, 0).unwrap(), LEN);
    assert!(other == content() && memory.iter().all(|byte| *byte == 7));
}

/// The node is gone after some answers.
#[test]
fn a_node_that_goes_away_leaves_memory_alone() {
    let (liar, site) = set_up();
    let cluster = liar.connect(LONG);
    let file = cluster.open("/file").unwrap();
    let kept = liar.hold();
    let mut memory = vec![9; LEN];
    let (space, mut left) = (liar.space.clone(), 2);
    liar.twist(move |answer, to| {
        if left == 0 {
            space.close();
        }
        left -= 1;
        to.send_now(answer);
    });
    drop(kept);
    assert!(file.read_at(&mut memory, 0).is_err());
    memory.fill(7);
    drop(file);
    drop(cluster);
    assert!(memory.iter().all(|byte| *byte == 7));
    // The others do not notice.
    let file = site.cluster.open("/file").unwrap();
    assert_eq!(file.read_at(&mut memory, 0).unwrap(), LEN);
    assert!(memory == content());
}

#[test]
fn what_is_written_is_sent_from_where_it_is() {
    let (liar, site) = set_up();
    let cluster = liar.connect(LONG);
    let file = cluster.options().write(true).open("/file").unwrap();
    let mut memory: Vec<u8> = content().into_iter().rev().collect();
    file.write_at(&memory, 0).unwrap();
    let written = memory.clone();
    memory.fill(7);
    let mut read = vec![9; LEN];
    assert_eq!(site.cluster.open("/file").unwrap().read_at(&mut read, 0).unwrap(), LEN);
    assert!(read == written);
    let links = liar.space.counters().links;
    assert!(links.iter().any(|link| link.received_bytes > LEN as u64 && link.carrier == "tcp"));
}

/// The node takes a part of what is written and no more; then the caller uses its memory for other
/// things.
#[test]
fn a_write_that_is_not_taken_in_time_gives_the_memory_back() {
    let (liar, site) = set_up();
    let cluster = liar.connect(SHORT);
    let file = cluster.options().write(true).open("/file").unwrap();
    liar.gate.to_host.allow(100_000);
    let mut memory = vec![5; 32 << 20];
    file.write_at(&memory, 0).unwrap_err();
    memory.fill(6);
    // Over a new connection it works, and nothing of the first one comes later.
    liar.gate.to_host.open();
    file.write_at(&memory[..LEN], 0).unwrap();
    let file = site.cluster.open("/file").unwrap();
    let mut read = vec![9; LEN];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), LEN);
    assert!(read.iter().all(|byte| *byte == 6));
}

/// The node takes as much as its credit allows, and no word of it comes back: the call waits for
/// credit, and ends all the same.
#[test]
fn a_write_without_credit_ends_in_time() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(SHORT);
    let file = cluster.options().write(true).open("/file").unwrap();
    liar.gate.to_guests.allow(0);
    let mut memory = vec![5; 32 << 20];
    let error = file.write_at(&memory, 0).unwrap_err();
    assert_eq!(error.kind(), pario::ErrorKind::NodeUnreachable, "{error}");
    memory.fill(6);
}

#[test]
fn a_link_that_is_lost_in_the_middle_of_a_write_gives_the_memory_back() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(LONG);
    let file = cluster.options().write(true).open("/file").unwrap();
    liar.gate.to_host.allow(100_000);
    let memory = vec![5; 32 << 20];
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| file.write_at(&memory, 0));
        liar.gate.to_host.wait_until_full();
        liar.gate.cut();
        writing.join().unwrap().unwrap_err();
    });
    drop(memory);
}

fn release(held: impl IntoIterator<Item = (ReplyMessage<Bulk>, Responding)>) {
    held.into_iter().for_each(|(answer, to)| to.send_now(answer));
}

/// The node answers the last request first, when all have come to it.
#[test]
fn several_extents_are_under_way_at_once() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(LONG);
    let options = cluster.options().read(true).write(true).create(true);
    let file = options.extents().open("/extents").unwrap();
    let place = |number: u8| ExtentPlacement {
        subfile: SubfileIndex(u32::from(number) % 4),
        extent: ExtentIndex(u64::from(number)),
    };
    let kept = liar.hold();
    let held = |count| -> Vec<_> { (0..count).map(|_| kept.recv().unwrap()).collect() };
    let writes: Vec<_> = (0..8)
        .map(|number| file.start_write_extent(vec![number], vec![number; 50_000], place(number)))
        .collect::<Result<_, _>>()
        .unwrap();
    // `is_done` sends the started requests.
    assert!(writes.iter().all(|write| !write.is_done()));
    release(held(8).into_iter().rev());
    writes.into_iter().for_each(|write| write.wait().unwrap());
    let mut reads: Vec<_> = (0..9)
        .map(|number| file.start_read_extent(place(number)))
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(reads.iter().all(|read| !read.is_done()));
    release(held(9).into_iter().rev());
    assert_eq!(reads.pop().unwrap().wait().unwrap(), None);
    for (number, read) in (0..).zip(reads) {
        let extent = read.wait().unwrap().unwrap();
        assert!(extent.header[..] == [number] && extent.body[..] == vec![number; 50_000]);
    }
}

/// Dropping a started write, and closing its file, wait for the answer of the node.
#[test]
fn started_writes_are_over_when_they_are_dropped_and_when_the_file_is_closed() {
    let (liar, _site) = set_up();
    let cluster = liar.connect(LONG);
    let options = cluster.options().read(true).write(true);
    let file = options.open("/file").unwrap();
    let kept = liar.hold();
    let dropped = file.start_write_at(vec![1; 1000], 0).unwrap();
    let dropping = std::thread::spawn(move || drop(dropped));
    let held = kept.recv().unwrap();
    assert!(!dropping.is_finished());
    release([held]);
    dropping.join().unwrap();
    let (first, second) = (
        file.start_write_at(vec![2; 1000], 1000).unwrap(),
        file.start_write_at(vec![3; 1000], 2000).unwrap(),
    );
    let closing = std::thread::spawn(move || file.close());
    let held: Vec<_> = (0..2).map(|_| kept.recv().unwrap()).collect();
    assert!(!closing.is_finished() && !first.is_done() && !second.is_done());
    release(held);
    closing.join().unwrap().unwrap();
    assert!(first.is_done());
    first.wait().unwrap();
    drop(second);
    liar.twist(|answer, to| to.send_now(answer));
    let mut bytes = [0; 3000];
    cluster.open("/file").unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.chunks(1000).zip(1..).all(|(bytes, byte)| *bytes == [byte; 1000]));
}
