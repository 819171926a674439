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
    Address, AnswerPort, Asked, Asker, PortOptions, RecvError, Responder, Space, SpaceId,
};
use parking_lot::{Condvar, Mutex};

use super::host::Host;
use super::joining::{Joined, PAUSE, further_space, join};
use super::link::way_of;
use super::message::{FromHost, News, Slot, ToHost};
use super::server::{self, Registry};
use crate::board::Board;
use crate::call::CALL_BYTES;
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

type HostAsker = Asker<ToHost, FromHost>;

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
        if !is_host {
            let refused = |why| TeamError::Invalid(format!("job {}: {why}", seat.job));
            come(&asker, seat, seat.rank).map_err(refused)?;
        }
        captain.serve(seat, registry)?;
        captain.follow(seat, &asker)?;
        captain.tell(seat, &asker)?;
        let own = seat.clone();
        Ok((captain, Box::new(move |rank| come(&asker, &own, rank))))
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
        let port = AnswerPort::new(&self.meeting, HOST_PORT, PortOptions::default());
        let port = port.map_err(|error| TeamError::system("meeting other machines", error))?;
        let room = Arc::new(HostRoom::default());
        self.host = Some(room.clone());
        let (size, rank, own) = (seat.size, seat.rank, self.meeting.id());
        self.spawn("host", move || host(&port, (size, rank), own, &room))
    }

    /// Hears what has happened elsewhere, and writes it on the board.
    fn follow(&mut self, seat: &Seat, asker: &HostAsker) -> Result<(), TeamError> {
        let (board, is_over) = (self.board.clone(), self.is_over.clone());
        let (asker, size, own) = (asker.clone(), seat.size, seat.rank);
        self.spawn("follower", move || {
            let (mut known, mut host) = (0, own);
            loop {
                let answer = asker.ask(ToHost::Follow { from: known });
                match answer.and_then(pario_net::Pending::wait) {
                    Ok(FromHost::News(news)) => {
                        if let (0, Some(News::Came { captain, .. })) = (known, news.first()) {
                            host = *captain;
                        }
                        known += news.len() as u64;
                        news.into_iter().for_each(|one| note(&board, own, one));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        let have_all_left = (0..size).all(|rank| board.has_left(rank));
                        if !is_over.load(Ordering::Acquire) && !have_all_left {
                            board.lose(host);
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
        let (asker, size) = (asker.clone(), seat.size);
        self.steward = Some(spawn("steward", move || {
            let mut steward =
                Steward { board, asker, told: vec![false; size as usize], sent: None };
            loop {
                let known = steward.board.news();
                steward.look();
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                steward.board.wait_for_news(known);
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

/// Asks the host whether a rank may come.
fn come(asker: &HostAsker, seat: &Seat, rank: u32) -> Result<(), String> {
    let question = ToHost::Come { captain: seat.rank, rank, size: seat.size };
    match asker.ask(question).and_then(pario_net::Pending::wait) {
        Ok(FromHost::Refused(why)) => Err(why),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the first machine does not answer: {error}")),
    }
}

/// Writes news on the board. What ranks of this machine do, they write themselves.
fn note(board: &Board, own: u32, news: News) {
    match news {
        News::Came { rank, captain } if captain != own => board.came_elsewhere(rank, captain),
        News::Came { .. } => {}
        News::Left { rank, before } => board.left(rank, before),
        News::Lost { rank } => board.lose(rank),
    }
}

/// What the steward of a machine knows.
struct Steward {
    board: Arc<Board>,
    asker: HostAsker,
    /// Of whose end the host was told.
    told: Vec<bool>,
    /// The round to which this machine has come, as the host was told.
    sent: Option<u32>,
}

impl Steward {
    fn look(&mut self) {
        let board = &self.board;
        let near = board.near_ranks();
        let mut news = Vec::new();
        // A loss is why others leave, and of those the first one counts.
        if let Some(rank) = board.lost()
            && !std::mem::replace(&mut self.told[rank as usize], true)
        {
            news.push(News::Lost { rank });
        }
        for rank in board.first_left().iter().filter(|rank| near.contains(rank)).chain(&near) {
            if board.has_left(*rank) && !std::mem::replace(&mut self.told[*rank as usize], true) {
                news.push(News::Left { rank: *rank, before: board.left_before() });
            }
        }
        if !news.is_empty() {
            // If the host is lost, the follower hears it.
            self.asker.ask_then(ToHost::Tell { news }, drop);
        }
        if let Some(number) = board.full_round().filter(|round| self.sent != Some(*round)) {
            self.sent = Some(number);
            let slot = |rank: &u32| {
                let (call, bytes) = board.read_of(*rank, number);
                Slot { rank: *rank, call, bytes: bytes.into() }
            };
            let slots = near.iter().map(slot).collect();
            let board = board.clone();
            self.asker.ask_then(ToHost::Round { number, slots }, move |answer| {
                if let Ok(FromHost::Round(slots)) = answer {
                    for Slot { rank, call, bytes } in slots {
                        let call: [u8; CALL_BYTES] = call;
                        board.write_of(rank, number, &call, &bytes);
                    }
                    board.end_round();
                }
            });
        }
    }
}

/// Runs the host until the space is closed.
fn host(
    port: &AnswerPort<ToHost, FromHost>,
    (size, rank): (u32, u32),
    own: SpaceId,
    room: &HostRoom,
) {
    let mut host: Host<SpaceId, Option<Responder<FromHost>>> = Host::new(size);
    // The captain at the host is the first whom all know.
    host.come(own, (rank, rank), size, None);
    loop {
        let answers = match port.recv() {
            Ok(Asked { question, from, answer }) => match question {
                ToHost::Come { captain, rank, size } => {
                    host.come(from.space, (captain, rank), size, Some(answer))
                }
                ToHost::Follow { from: known } => host.follow(from.space, known, Some(answer)),
                ToHost::Round { slots, .. } => host.round(from.space, slots, Some(answer)),
                ToHost::Tell { news } => host.tell(news, Some(answer)),
            },
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
