//! A process without descriptors: new connections have to wait, and existing links notice nothing.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::stranger::{HELLO, SOON};
use pario_net::{
    Address, InputPort, LinkChoice, Options, OutputPort, RecvError, Space, SpaceBuilder,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const ADDRESS: &str = "PARIO_NET_TEST_DESCRIPTORS_ADDRESS";
/// Descriptors that the other process may have while it opens files.
const FEW: u64 = 100;
/// So long the other process is watched while callers wait.
const WATCHED: Duration = Duration::from_secs(1);

/// What the other process is asked to do.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// To say how it is.
    Report,
    /// To open files until there are no descriptors left.
    OpenFiles,
    /// To close one of them.
    CloseOneFile,
    /// To close them.
    CloseFiles,
    /// To lower the limit below all descriptors that are in use.
    LowerLimit,
    /// To raise it again.
    RaiseLimit,
    Stop,
}

/// How the other process is, after an order was carried out.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    address: Address,
    processor_time: Duration,
    /// Why a peer was refused.
    reasons: Vec<String>,
}

fn builder(name: &str, links: LinkChoice) -> SpaceBuilder {
    // Callers over TCP have no key here, and would have to leave descriptors in reserve.
    let options = Options { reserved_descriptors: 0, ..Options::default() };
    let builder = Space::builder(name).listen_tcp("127.0.0.1:0".parse().unwrap()).links(links);
    builder.options(options)
}

/// Carries out orders; without an address it has nothing to do.
#[test]
fn other_process() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let space = builder("narrow", LinkChoice::Tcp).join(&address.parse().unwrap()).build().unwrap();
    let orders = space.input::<Order>("orders").unwrap();
    let reports = space.output::<Report>("reports", SOON).unwrap();
    let usual = getrlimit(Resource::Nofile);
    let limit = |current| {
        setrlimit(Resource::Nofile, Rlimit { current, maximum: usual.maximum }).unwrap();
    };
    let mut files = Vec::new();
    loop {
        match orders.recv_timeout(SOON).unwrap() {
            Order::Report => {}
            Order::OpenFiles => {
                limit(Some(FEW));
                files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
            }
            Order::CloseOneFile => drop(files.pop()),
            Order::CloseFiles => files.clear(),
            Order::LowerLimit => limit(Some(0)),
            Order::RaiseLimit => limit(usual.current),
            Order::Stop => return,
        }
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let processor_time = Duration::try_from(time).unwrap();
        let reasons = space.refusals().into_iter().map(|refusal| refusal.reason).collect();
        reports.send(Report { address: space.address(), processor_time, reasons }).unwrap();
    }
}

/// The other process, and the link to it that exists all the time.
struct Narrow {
    child: Child,
    orders: OutputPort<Order>,
    reports: InputPort<Report>,
    space: Space,
}

impl Narrow {
    fn start() -> Self {
        let space = builder("parent", LinkChoice::Tcp).host().build().unwrap();
        let reports = space.input("reports").unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shortage::other_process", "--nocapture"])
            .env(ADDRESS, space.address().to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let orders = space.output("orders", SOON).unwrap();
        Self { child, orders, reports, space }
    }

    fn order(&self, order: Order) -> Report {
        self.orders.send(order).unwrap();
        self.reports.recv_timeout(SOON).unwrap()
    }

    /// A space that was not there before talks to the other process.
    fn let_in(&self, name: &str, links: LinkChoice) -> Report {
        let space = builder(name, links).join(&self.space.address()).build().unwrap();
        let orders = space.output::<Order>("orders", SOON).unwrap();
        orders.send(Order::Report).unwrap();
        orders.flush();
        self.reports.recv_timeout(SOON).unwrap()
    }

    fn stop(&mut self) {
        self.orders.send(Order::Stop).unwrap();
        self.orders.flush();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects to both listeners and sends a greeting.
fn knock(address: &Address) -> (TcpStream, UnixStream) {
    let mut tcp = TcpStream::connect(address.tcp.unwrap()).unwrap();
    tcp.set_read_timeout(Some(SOON)).unwrap();
    tcp.write_all(&HELLO).unwrap();
    let mut unix = UnixStream::connect(address.unix.as_ref().unwrap()).unwrap();
    unix.set_read_timeout(Some(SOON)).unwrap();
    unix.write_all(&HELLO).unwrap();
    (tcp, unix)
}

/// The host answers with a hello of its own.
fn is_greeted(mut caller: impl Read) {
    let mut first = [9];
    caller.read_exact(&mut first).unwrap();
    assert_eq!(first, [0]);
}

fn shortage(begin: Order, end: Order) {
    let mut narrow = Narrow::start();
    let before = narrow.order(begin);
    let began = Instant::now();
    let callers: Vec<_> = (0..5).map(|_| knock(&before.address)).collect();
    // The link stays as it is while they wait: no loss, and no token that the peer did not send.
    let nothing = narrow.reports.recv_timeout(WATCHED).unwrap_err();
    assert!(matches!(nothing, RecvError::Timeout { .. }), "{nothing}");
    let after = narrow.order(Order::Report);
    let busy = after.processor_time - before.processor_time;
    let watched = began.elapsed();
    assert!(busy < watched / 5, "busy for {busy:?} of {watched:?}");
    // One shortage is one refusal, however long it lasts.
    assert_eq!(after.reasons, ["no descriptors are left"]);

    // The waiting connections are accepted, and so are new ones.
    narrow.order(end);
    for (tcp, unix) in callers {
        is_greeted(tcp);
        is_greeted(unix);
    }
    narrow.let_in("late over TCP", LinkChoice::Tcp);
    narrow.let_in("late over a Unix socket", LinkChoice::Unix);
    narrow.stop();
}

/// Trying for one caller more must not cost the last one its place.
#[test]
fn the_last_descriptor_is_enough_for_one_caller() {
    let mut narrow = Narrow::start();
    narrow.order(Order::OpenFiles);
    narrow.order(Order::CloseOneFile);
    let report = narrow.let_in("last", LinkChoice::Tcp);
    assert_eq!(report.reasons, [""; 0]);
    narrow.stop();
}

#[test]
fn files_take_all_descriptors() {
    shortage(Order::OpenFiles, Order::CloseFiles);
}

#[test]
fn the_limit_sinks_below_what_is_in_use() {
    shortage(Order::LowerLimit, Order::RaiseLimit);
}
