//! The machine leader: the process that speaks for its machine, and whose data server serves
//! others.
//!
//! Its threads: the *reporter* reports rounds and ends of ranks of this machine, the *news feed*
//! copies news of other machines to the board, the *data server* serves memory. One leader also
//! runs the *coordinator*.
//!
//! A thread that waits in a space may have to read for other waiting threads and wake them. So on
//! several machines the data server has a space of its own, and so have the requests of this
//! process to data servers: no other thread wakes either.

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
use super::data_server::{self, MemoryRegistry};
use super::joining::{Joined, PAUSE, further_space, join};
use super::machine_reporter::{MachineReporter, RoundEnd};
use super::message::{CoordinatorProtocol, CoordinatorReply, CoordinatorRequest};
use super::news_feed::NewsFeed;
use crate::board::Board;
use crate::error::TeamError;
use crate::local_rendezvous::{AdmissionCheck, Member};
use crate::rendezvous::{Broker, MultiMachine};

/// The port of the coordinator.
const COORDINATOR_PORT: &str = "team";
/// The longest time that the coordinator stays for machines that do not know the last news.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);

/// The threads and spaces of a machine leader.
pub struct MachineLeader {
    /// The space of the machine leaders.
    meeting: Space,
    /// The space of the data server.
    data: Space,
    /// The space for requests to data servers.
    asking: Space,
    board: Arc<Board>,
    is_over: Arc<AtomicBool>,
    coordinator: Option<Arc<CoordinatorEnd>>,
    /// The broker that knows the coordinator, as long as other leaders must find it.
    offer: Option<(Arc<dyn Broker>, String)>,
    reporter: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// The end of the coordinator.
#[derive(Default)]
struct CoordinatorEnd {
    /// Whether all ranks have ended, or one was lost, and all machines know it.
    is_over: Mutex<bool>,
    is_changed: Condvar,
}

type CoordinatorClient = RpcClient<CoordinatorProtocol>;

impl MachineLeader {
    /// Creates the leader of a team on one machine: only the data server.
    pub fn alone(
        member: &Member,
        board: Arc<Board>,
        registry: Arc<MemoryRegistry>,
    ) -> Result<Self, TeamError> {
        let space = Space::builder(&format!("leader {}", member.rank)).host().build();
        let space = space.map_err(|error| TeamError::system("the data server", error))?;
        board.set_directory(&encode_directory(&space.address(), None));
        let mut leader = Self::new(space.clone(), space.clone(), space, board);
        leader.serve(member, registry)?;
        Ok(leader)
    }

    /// Creates the leader of one of several machines and meets the others. Also returns the check
    /// whether a rank may join.
    pub fn meet(
        member: &Member,
        multi_machine: &MultiMachine,
        board: Arc<Board>,
        registry: Arc<MemoryRegistry>,
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
            leader.start_coordinator(member)?;
        }
        let timeout = until.saturating_duration_since(Instant::now()).max(PAUSE);
        let client = CoordinatorClient::open(&leader.meeting, COORDINATOR_PORT, timeout);
        let client = client.map_err(|error| TeamError::system("meeting other machines", error))?;
        let mut coordinator = member.rank;
        if !is_host {
            let refused = |why| TeamError::Invalid(format!("job {}: {why}", member.job));
            coordinator = ask_to_join(&client, member, member.rank).map_err(refused)?;
        }
        leader.serve(member, registry)?;
        leader.start_news_feed(member, coordinator, &client)?;
        leader.start_reporter(member, &client)?;
        let own = member.clone();
        Ok((leader, Box::new(move |rank| ask_to_join(&client, &own, rank).map(drop))))
    }

    fn new(meeting: Space, data: Space, asking: Space, board: Arc<Board>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (coordinator, offer, reporter, threads) = (None, None, None, Vec::new());
        Self { meeting, data, asking, board, is_over, coordinator, offer, reporter, threads }
    }

    /// The space for requests to data servers.
    pub fn space(&self) -> &Space {
        &self.asking
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), TeamError> {
        let thread = std::thread::Builder::new().name(format!("team {name}")).spawn(work);
        self.threads.push(thread.map_err(|error| TeamError::system("a thread", error))?);
        Ok(())
    }

    fn serve(&mut self, member: &Member, registry: Arc<MemoryRegistry>) -> Result<(), TeamError> {
        let port = data_server::open(&self.data, member.rank);
        let port = port.map_err(|error| TeamError::system("the data server", error))?;
        let board = self.board.clone();
        self.spawn("data", move || data_server::serve(&port, &board, &registry))
    }

    fn start_coordinator(&mut self, member: &Member) -> Result<(), TeamError> {
        let port = RpcServer::new(&self.meeting, COORDINATOR_PORT, PortOptions::default());
        let port = port.map_err(|error| TeamError::system("meeting other machines", error))?;
        let room = Arc::new(CoordinatorEnd::default());
        self.coordinator = Some(room.clone());
        let (size, rank, own) = (member.size, member.rank, self.meeting.id());
        self.spawn("coordinator", move || run_coordinator(&port, (size, rank), own, &room))
    }

    /// Starts the thread that copies news to the board.
    fn start_news_feed(
        &mut self,
        member: &Member,
        coordinator: u32,
        client: &CoordinatorClient,
    ) -> Result<(), TeamError> {
        let (board, is_over) = (self.board.clone(), self.is_over.clone());
        let (client, mut feed) = (client.clone(), NewsFeed::new(member.rank, coordinator));
        self.spawn("news feed", move || {
            loop {
                let answer = client.start(feed.request());
                match answer.and_then(PendingReply::wait) {
                    Ok(CoordinatorReply::News(news)) => {
                        news.into_iter().for_each(|one| feed.note(&board, one));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        if !is_over.load(Ordering::Acquire) {
                            feed.on_coordinator_gone(&board);
                        }
                        return;
                    }
                }
            }
        })
    }

    /// Starts the thread that reports to the coordinator.
    fn start_reporter(
        &mut self,
        member: &Member,
        client: &CoordinatorClient,
    ) -> Result<(), TeamError> {
        let (board, is_over) = (self.board.clone(), self.is_over.clone());
        let (client, mut reporter) = (client.clone(), MachineReporter::new(member.size));
        self.reporter = Some(spawn("reporter", move || {
            loop {
                // All ends are on the board before this leader stops: the check after that finds
                // them.
                let is_last = is_over.load(Ordering::Acquire);
                let known = board.news();
                report(&mut reporter, &board, &client);
                if is_last {
                    return;
                }
                board.wait_for_news(known);
            }
        })?);
        Ok(())
    }

    /// Withdraws the offer: all have joined, or the wait is over.
    pub fn withdraw(&mut self) {
        if let Some((broker, job)) = self.offer.take() {
            broker.withdraw(&job);
        }
    }

    /// Waits until all other machines know what they must.
    pub fn wait_for_others(&self) {
        if let Some(room) = &self.coordinator {
            let until = Instant::now() + FAREWELL_TIMEOUT;
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
        if let Some(reporter) = self.reporter.take() {
            // It first reports what is left.
            let _ = reporter.join();
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

/// Asks the coordinator whether a rank may join; returns the leader at the coordinator.
fn ask_to_join(client: &CoordinatorClient, member: &Member, rank: u32) -> Result<u32, String> {
    let request = CoordinatorRequest::Join { leader: member.rank, rank, size: member.size };
    match client.start(request).and_then(PendingReply::wait) {
        Ok(CoordinatorReply::Accepted { coordinator }) => Ok(coordinator),
        Ok(CoordinatorReply::Refused(why)) => Err(why),
        Ok(other) => Err(format!("the first machine answers something else: {other:?}")),
        Err(error) => Err(format!("the first machine does not answer: {error}")),
    }
}

/// Reports what the reporter finds.
fn report(reporter: &mut MachineReporter, board: &Arc<Board>, client: &CoordinatorClient) {
    if let Some(ends) = reporter.take_ends(board) {
        // If the coordinator is lost, the news feed notices.
        client.call_then(ends, drop);
    }
    if let Some((number, round)) = reporter.take_round(board) {
        let board = board.clone();
        client.call_then(round, move |answer| {
            if let Some(mut end) = answer.ok().and_then(|answer| RoundEnd::new(number, answer)) {
                while end.write_next(&board) {}
            }
        });
    }
}

/// Runs the coordinator until the space is closed.
fn run_coordinator(
    port: &RpcServer<CoordinatorProtocol>,
    (size, rank): (u32, u32),
    own: SpaceId,
    end: &CoordinatorEnd,
) {
    let mut coordinator: TeamCoordinator<SpaceId, Option<Responder<CoordinatorProtocol>>> =
        TeamCoordinator::new(size);
    // The leader at the coordinator is the first one.
    coordinator.join(own, (rank, rank), size, None);
    loop {
        let replies = match port.recv() {
            Ok(IncomingRequest { request, sender, responder }) => {
                coordinator.handle(sender.space, request, Some(responder))
            }
            Err(RecvError::Lost { space, .. }) => coordinator.gone(&space),
            Err(RecvError::Closed { .. }) => return,
            Err(_) => Vec::new(),
        };
        for (responder, reply) in replies {
            if let Some(responder) = responder {
                responder.send(reply);
            }
        }
        *end.is_over.lock() = coordinator.is_over(&own) || coordinator.is_loss_known(&own);
        end.is_changed.notify_all();
    }
}
