//! The captain of a machine: the process that speaks for it, and whose data server serves others.
//!
//! Its threads: the *steward* looks what ranks of this machine have to tell (they have come to a
//! round, one has left or was lost), the *follower* hears what has happened elsewhere, the *data
//! server* serves; one of all captains has the *host* as well, where all meet.
//!
//! Whoever waits in a space may have to read for the others who wait there, and to wake them. So on
//! several machines the data server has a space of its own, and so have the questions that this
//! process asks data servers: neither is ever woken by another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pario_net::{
    Address, IncomingRequest, PendingReply, PortOptions, RecvError, Responder, RpcClient,
    RpcServer, Space, SpaceId,
};
use parking_lot::{Condvar, Mutex};

use super::follower::Follower;
use super::host::Host;
use super::joining::{Joined, PAUSE, further_space, join};
use super::link::way_of;
use super::message::{CoordinatorProtocol, FromHost, ToHost};
use super::server::{self, Registry};
use super::steward::{RoundEnd, Steward};
use crate::board::Board;
use crate::error::TeamError;
use crate::meeting::{Gate, Seat};
use crate::rendezvous::{Across, Broker};

/// The port of the host.
const HOST_PORT: &str = "team";
/// How long the host stays for those who have not heard the last news.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a captain has.
pub struct Captain {
    /// In which captains meet.
    meeting: Space,
    /// In which the data server is.
    data: Space,
    /// In which data servers are asked.
    asking: Space,
    board: Arc<Board>,
    is_over: Arc<AtomicBool>,
    host: Option<Arc<HostRoom>>,
    /// Who tells the other captains of the host, as long as they have to find it.
    offer: Option<(Arc<dyn Broker>, String)>,
    steward: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// Whether the host is needed any more.
#[derive(Default)]
struct HostRoom {
    /// Whether all have ended, or somebody was lost, and all know it.
    is_over: Mutex<bool>,
    is_changed: Condvar,
}

type HostAsker = RpcClient<CoordinatorProtocol>;

impl Captain {
    /// The captain of a machine of a team on one machine: only the data server.
    pub fn alone(
        seat: &Seat,
        board: Arc<Board>,
        registry: Arc<Registry>,
    ) -> Result<Self, TeamError> {
        let space = Space::builder(&format!("captain {}", seat.rank)).host().build();
        let space = space.map_err(|error| TeamError::system("the data server", error))?;
        board.set_way(&way_of(&space.address(), None));
        let mut captain = Self::new(space.clone(), space.clone(), space, board);
        captain.serve(seat, registry)?;
        Ok(captain)
    }

    /// The captain of one of several machines: meets those of the others. Gives what asks the host
    /// whether somebody may come.
    pub fn meet(
        seat: &Seat,
        across: &Across,
        board: Arc<Board>,
        registry: Arc<Registry>,
        until: Instant,
    ) -> Result<(Self, Gate), TeamError> {
        let Joined { space, spot, is_host, broker } = join(seat, across, until)?;
        board.set_way(&way_of(&Address::tcp(spot.address), Some(&spot.key)));
        let further = |what, listens| further_space(seat, across, &spot, what, listens);
        let (data, asking) = (further("data", true)?, further("asking", false)?);
        let mut captain = Self::new(space, data, asking, board);
        captain.offer = broker.map(|broker| (broker, seat.job.clone()));
        if is_host {
            captain.start_host(seat)?;
        }
        let patience = until.saturating_duration_since(Instant::now()).max(PAUSE);
        let asker = HostAsker::open(&captain.meeting, HOST_PORT, patience);
        let asker = asker.map_err(|error| TeamError::system("meeting other machines", error))?;
        let mut host = seat.rank;
        if !is_host {
            let refused = |why| TeamError::Invalid(format!("job {}: {why}", seat.job));
            host = come(&asker, seat, seat.rank).map_err(refused)?;
        }
        captain.serve(seat, registry)?;
        captain.follow(seat, host, &asker)?;
        captain.tell(seat, &asker)?;
        let own = seat.clone();
        Ok((captain, Box::new(move |rank| come(&asker, &own, rank).map(drop))))
    }

    fn new(meeting: Space, data: Space, asking: Space, board: Arc<Board>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (host, offer, steward, threads) = (None, None, None, Vec::new());
        Self { meeting, data, asking, board, is_over, host, offer, steward, threads }
    }

    /// The space in which data servers are to be asked.
    pub fn space(&self) -> &Space {
        &self.asking
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), TeamError> {
        let thread = std::thread::Builder::new().name(format!("team {name}")).spawn(work);
        self.threads.push(thread.map_err(|error| TeamError::system("a thread", error))?);
        Ok(())
    }

    fn serve(&mut self, seat: &Seat, registry: Arc<Registry>) -> Result<(), TeamError> {
        let port = server::open(&self.data, seat.rank);
        let port = port.map_err(|error| TeamError::system("the data server", error))?;
        let board = self.board.clone();
        self.spawn("data", move || server::serve(&port, &board, &registry))
    }

    fn start_host(&mut self, seat: &Seat) -> Result<(), TeamError> {
        let port = RpcServer::new(&self.meeting, HOST_PORT, PortOptions::default());
        let port = port.map_err(|error| TeamError::system("meeting other machines", error))?;
        let room = Arc::new(HostRoom::default());
        self.host = Some(room.clone());
        let (size, rank, own) = (seat.size, seat.rank, self.meeting.id());
        self.spawn("host", move || host(&port, (size, rank), own, &room))
    }

    /// Hears what has happened elsewhere, and writes it on the board.
    fn follow(&mut self, seat: &Seat, host: u32, asker: &HostAsker) -> Result<(), TeamError> {
        let (board, is_over) = (self.board.clone(), self.is_over.clone());
        let (asker, mut follower) = (asker.clone(), Follower::new(seat.rank, host));
        self.spawn("follower", move || {
            loop {
                let answer = asker.start(follower.question());
                match answer.and_then(PendingReply::wait) {
                    Ok(FromHost::News(news)) => {
                        news.into_iter().for_each(|one| follower.note(&board, one));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        if !is_over.load(Ordering::Acquire) {
                            follower.host_gone(&board);
                        }
                        return;
                    }
                }
            }
        })
    }

    /// Tells the host what ranks of this machine have to tell.
    fn tell(&mut self, seat: &Seat, asker: &HostAsker) -> Result<(), TeamError> {
        let (board, is_over) = (self.board.clone(), self.is_over.clone());
        let (asker, mut steward) = (asker.clone(), Steward::new(seat.size));
        self.steward = Some(spawn("steward", move || {
            loop {
                // What is to be told is on the board before this captain ends: the look after that
                // finds it.
                let is_last = is_over.load(Ordering::Acquire);
                let known = board.news();
                look(&mut steward, &board, &asker);
                if is_last {
                    return;
                }
                board.wait_for_news(known);
            }
        })?);
        Ok(())
    }

    /// Nobody looks for the host any more: all have come, or nobody waits for them.
    pub fn withdraw(&mut self) {
        if let Some((broker, job)) = self.offer.take() {
            broker.withdraw(&job);
        }
    }

    /// Waits until all others have heard what they must.
    pub fn say_farewell(&self) {
        if let Some(room) = &self.host {
            let until = Instant::now() + FAREWELL;
            let mut is_over = room.is_over.lock();
            while !*is_over {
                if room.is_changed.wait_until(&mut is_over, until).timed_out() {
                    break;
                }
            }
        }
    }

    /// Ends.
    pub fn end(&mut self) {
        self.withdraw();
        self.is_over.store(true, Ordering::Release);
        self.board.call_captain();
        if let Some(steward) = self.steward.take() {
            // What it has to tell is told first.
            let _ = steward.join();
        }
        for space in [&self.asking, &self.data, &self.meeting] {
            space.close();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Captain {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, TeamError> {
    let thread = std::thread::Builder::new().name(format!("team {name}"));
    thread.spawn(work).map_err(|error| TeamError::system("a thread", error))
}

/// Asks the host whether a rank may come; which captain is at the host.
fn come(asker: &HostAsker, seat: &Seat, rank: u32) -> Result<u32, String> {
    let question = ToHost::Come { captain: seat.rank, rank, size: seat.size };
    match asker.start(question).and_then(PendingReply::wait) {
        Ok(FromHost::Accepted { host }) => Ok(host),
        Ok(FromHost::Refused(why)) => Err(why),
        Ok(other) => Err(format!("the first machine answers something else: {other:?}")),
        Err(error) => Err(format!("the first machine does not answer: {error}")),
    }
}

/// Tells the host what the steward finds.
fn look(steward: &mut Steward, board: &Arc<Board>, asker: &HostAsker) {
    if let Some(ends) = steward.look_for_ends(board) {
        // If the host is lost, the follower hears it.
        asker.call_then(ends, drop);
    }
    if let Some((number, round)) = steward.look_for_round(board) {
        let board = board.clone();
        asker.call_then(round, move |answer| {
            if let Some(mut end) = answer.ok().and_then(|answer| RoundEnd::new(number, answer)) {
                while end.go_on(&board) {}
            }
        });
    }
}

/// Runs the host until the space is closed.
fn host(
    port: &RpcServer<CoordinatorProtocol>,
    (size, rank): (u32, u32),
    own: SpaceId,
    room: &HostRoom,
) {
    let mut host: Host<SpaceId, Option<Responder<CoordinatorProtocol>>> = Host::new(size);
    // The captain at the host is the first whom all know.
    host.come(own, (rank, rank), size, None);
    loop {
        let answers = match port.recv() {
            Ok(IncomingRequest { request, sender, responder }) => {
                host.ask(sender.space, request, Some(responder))
            }
            Err(RecvError::Lost { space, .. }) => host.gone(&space),
            Err(RecvError::Closed { .. }) => return,
            Err(_) => Vec::new(),
        };
        for (responder, answer) in answers {
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        *room.is_over.lock() = host.is_over(&own) || host.is_loss_known(&own);
        room.is_changed.notify_all();
    }
}
