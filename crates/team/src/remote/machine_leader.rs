//! The leader of a machine: the process that speaks for it, and whose data server serves others.
//!
//! Its threads: the *steward* looks what ranks of this machine have to tell (they have come to a
//! round, one has left or was lost), the *follower* hears what has happened elsewhere, the *data
//! server* serves; one of all leaders has the *host* as well, where all meet.
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

use super::coordinator::TeamCoordinator;
use super::data_connections::encode_directory;
use super::data_server::{self, Registry};
use super::joining::{Joined, PAUSE, further_space, join};
use super::machine_reporter::{MachineReporter, RoundEnd};
use super::message::{CoordinatorProtocol, CoordinatorReply, CoordinatorRequest};
use super::news_feed::NewsFeed;
use crate::board::Board;
use crate::error::TeamError;
use crate::local_rendezvous::{AdmissionCheck, Member};
use crate::rendezvous::{Broker, MultiMachine};

/// The port of the host.
const HOST_PORT: &str = "team";
/// How long the host stays for those who have not heard the last news.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a leader has.
pub struct MachineLeader {
    /// In which leaders meet.
    meeting: Space,
    /// In which the data server is.
    data: Space,
    /// In which data servers are asked.
    asking: Space,
    board: Arc<Board>,
    is_over: Arc<AtomicBool>,
    host: Option<Arc<HostRoom>>,
    /// Who tells the other leaders of the host, as long as they have to find it.
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

impl MachineLeader {
    /// The leader of a machine of a team on one machine: only the data server.
    pub fn alone(
        member: &Member,
        board: Arc<Board>,
        registry: Arc<Registry>,
    ) -> Result<Self, TeamError> {
        let space = Space::builder(&format!("leader {}", member.rank)).host().build();
        let space = space.map_err(|error| TeamError::system("the data server", error))?;
        board.set_directory(&encode_directory(&space.address(), None));
        let mut leader = Self::new(space.clone(), space.clone(), space, board);
        leader.serve(member, registry)?;
        Ok(leader)
    }

    /// The leader of one of several machines: meets those of the others. Gives what asks the host
    /// whether somebody may come.
    pub fn meet(
        member: &Member,
        multi_machine: &MultiMachine,
        board: Arc<Board>,
        registry: Arc<Registry>,
        until: Instant,
    ) -> Result<(Self, AdmissionCheck), TeamError> {
        let Joined { space, endpoint, is_host, broker } = join(member, multi_machine, until)?;
        board
            .set_directory(&encode_directory(&Address::tcp(endpoint.address), Some(&endpoint.key)));
        let further =
            |what, listens| further_space(member, multi_machine, &endpoint, what, listens);
        let (data, asking) = (further("data", true)?, further("asking", false)?);
        let mut leader = Self::new(space, data, asking, board);
        leader.offer = broker.map(|broker| (broker, member.job.clone()));
        if is_host {
            leader.start_host(member)?;
        }
        let timeout = until.saturating_duration_since(Instant::now()).max(PAUSE);
        let asker = HostAsker::open(&leader.meeting, HOST_PORT, timeout);
        let asker = asker.map_err(|error| TeamError::system("meeting other machines", error))?;
        let mut host = member.rank;
        if !is_host {
            let refused = |why| TeamError::Invalid(format!("job {}: {why}", member.job));
            host = come(&asker, member, member.rank).map_err(refused)?;
        }
        leader.serve(member, registry)?;
        leader.follow(member, host, &asker)?;
        leader.tell(member, &asker)?;
        let own = member.clone();
        Ok((leader, Box::new(move |rank| come(&asker, &own, rank).map(drop))))
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

    fn serve(&mut self, member: &Member, registry: Arc<Registry>) -> Result<(), TeamError> {
        let port = data_server::open(&self.data, member.rank);
        let port = port.map_err(|error| TeamError::system("the data server", error))?;
        let board = self.board.clone();
        self.spawn("data", move || data_server::serve(&port, &board, &registry))
    }

    fn start_host(&mut self, member: &Member) -> Result<(), TeamError> {
        let port = RpcServer::new(&self.meeting, HOST_PORT, PortOptions::default());
        let port = port.map_err(|error| TeamError::system("meeting other machines", error))?;
        let room = Arc::new(HostRoom::default());
        self.host = Some(room.clone());
        let (size, rank, own) = (member.size, member.rank, self.meeting.id());
        self.spawn("host", move || host(&port, (size, rank), own, &room))
    }

    /// Hears what has happened elsewhere, and writes it on the board.
    fn follow(&mut self, member: &Member, host: u32, asker: &HostAsker) -> Result<(), TeamError> {
        let (board, is_over) = (self.board.clone(), self.is_over.clone());
        let (asker, mut follower) = (asker.clone(), NewsFeed::new(member.rank, host));
        self.spawn("follower", move || {
            loop {
                let answer = asker.start(follower.question());
                match answer.and_then(PendingReply::wait) {
                    Ok(CoordinatorReply::News(news)) => {
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
    fn tell(&mut self, member: &Member, asker: &HostAsker) -> Result<(), TeamError> {
        let (board, is_over) = (self.board.clone(), self.is_over.clone());
        let (asker, mut steward) = (asker.clone(), MachineReporter::new(member.size));
        self.steward = Some(spawn("steward", move || {
            loop {
                // What is to be told is on the board before this leader ends: the look after that
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
        self.board.wake_leader();
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

impl Drop for MachineLeader {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, TeamError> {
    let thread = std::thread::Builder::new().name(format!("team {name}"));
    thread.spawn(work).map_err(|error| TeamError::system("a thread", error))
}

/// Asks the host whether a rank may come; which leader is at the host.
fn come(asker: &HostAsker, member: &Member, rank: u32) -> Result<u32, String> {
    let question = CoordinatorRequest::Join { leader: member.rank, rank, size: member.size };
    match asker.start(question).and_then(PendingReply::wait) {
        Ok(CoordinatorReply::Accepted { coordinator: host }) => Ok(host),
        Ok(CoordinatorReply::Refused(why)) => Err(why),
        Ok(other) => Err(format!("the first machine answers something else: {other:?}")),
        Err(error) => Err(format!("the first machine does not answer: {error}")),
    }
}

/// Tells the host what the steward finds.
fn look(steward: &mut MachineReporter, board: &Arc<Board>, asker: &HostAsker) {
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
    let mut host: TeamCoordinator<SpaceId, Option<Responder<CoordinatorProtocol>>> =
        TeamCoordinator::new(size);
    // The leader at the host is the first whom all know.
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
