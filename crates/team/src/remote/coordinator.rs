//! The team coordinator, at which the machine leaders meet: a state machine without I/O.
//!
//! It keeps one list of news about ranks, which every leader follows to its end. A round is over
//! when all machines have arrived; then each gets the slots of the other machines.

use std::collections::BTreeMap;

use super::message::{CoordinatorReply, CoordinatorRequest, News, RoundSlot};

/// The team coordinator. `M` identifies a machine, `R` sends a reply.
pub struct TeamCoordinator<M, R> {
    size: u32,
    /// The leader at the coordinator: the first one.
    first: Option<u32>,
    /// The machines, and the ranks that each has.
    machines: BTreeMap<M, MachineState>,
    news: Vec<News>,
    /// The open requests for news, each after the news that the machine knows.
    news_requests: Vec<(M, u64, R)>,
    /// The machines that have arrived at the round.
    arrived: BTreeMap<M, (Vec<RoundSlot>, R)>,
    /// The ranks that have left or are lost.
    ended: Vec<u32>,
}

#[derive(Default)]
struct MachineState {
    ranks: Vec<u32>,
    /// The number of news it knows.
    known: u64,
    is_gone: bool,
}

/// Replies to send.
pub type CoordinatorReplies<R> = Vec<(R, CoordinatorReply)>;

impl<M: Ord + Clone, R> TeamCoordinator<M, R> {
    /// Creates the coordinator of a team of this size.
    pub fn new(size: u32) -> Self {
        Self {
            size,
            first: None,
            machines: BTreeMap::new(),
            news: Vec::new(),
            news_requests: Vec::new(),
            arrived: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Handles a request of a machine.
    pub fn handle(
        &mut self,
        machine: M,
        request: CoordinatorRequest,
        ticket: R,
    ) -> CoordinatorReplies<R> {
        match request {
            CoordinatorRequest::Join { leader, rank, size } => {
                self.join(machine, (leader, rank), size, ticket)
            }
            CoordinatorRequest::Follow { from } => self.request_news(machine, from, ticket),
            CoordinatorRequest::Round { slots, .. } => self.round(machine, slots, ticket),
            CoordinatorRequest::Report { news } => self.report(news, ticket),
        }
    }

    /// Adds a rank of a machine.
    pub fn join(
        &mut self,
        machine: M,
        who: (u32, u32),
        size: u32,
        ticket: R,
    ) -> CoordinatorReplies<R> {
        let (leader, rank) = who;
        let refuse = |why: String| CoordinatorReply::Refused(why);
        if size != self.size {
            let ours = self.size;
            let why = format!(
                "the first machine says that the job has {ours} processes, and rank {rank} that it \
                 has {size}"
            );
            return vec![(ticket, refuse(why))];
        }
        let is_taken = self.machines.values().any(|machine| machine.ranks.contains(&rank));
        if is_taken || rank >= size || leader >= size {
            let why = format!("two processes say that they are rank {rank}");
            return vec![(ticket, refuse(why))];
        }
        self.machines.entry(machine).or_default().ranks.push(rank);
        self.news.push(News::Joined { rank, leader });
        let coordinator = *self.first.get_or_insert(leader);
        let mut replies = vec![(ticket, CoordinatorReply::Accepted { coordinator })];
        replies.extend(self.spread());
        replies
    }

    /// Adds the request of a machine for news after the first `from`.
    pub fn request_news(&mut self, machine: M, from: u64, ticket: R) -> CoordinatorReplies<R> {
        if let Some(known) = self.machines.get_mut(&machine) {
            known.known = from;
        }
        self.news_requests.push((machine, from, ticket));
        self.spread()
    }

    /// Adds a machine that has arrived at the round.
    pub fn round(&mut self, machine: M, slots: Vec<RoundSlot>, ticket: R) -> CoordinatorReplies<R> {
        self.arrived.insert(machine, (slots, ticket));
        if self.machines.keys().any(|machine| !self.arrived.contains_key(machine)) {
            return Vec::new();
        }
        let mut arrived = std::mem::take(&mut self.arrived).into_values();
        let (sent, replies): (Vec<_>, Vec<_>) = arrived.by_ref().unzip();
        let replies = replies.into_iter().enumerate().map(|(number, ticket)| {
            let others = sent.iter().enumerate().filter(|(other, _)| *other != number);
            let others = others.flat_map(|(_, slots)| slots.iter().cloned()).collect();
            (ticket, CoordinatorReply::Round(others))
        });
        replies.collect()
    }

    /// Adds the news of a machine.
    pub fn report(&mut self, news: Vec<News>, ticket: R) -> CoordinatorReplies<R> {
        news.into_iter().for_each(|one| self.note(one));
        let mut replies = vec![(ticket, CoordinatorReply::Done)];
        replies.extend(self.spread());
        replies
    }

    /// Handles the loss of a machine: its ranks that have not left are lost.
    pub fn gone(&mut self, machine: &M) -> CoordinatorReplies<R> {
        self.news_requests.retain(|(requesting, ..)| requesting != machine);
        self.arrived.remove(machine);
        let ranks = match self.machines.get_mut(machine) {
            Some(machine) => {
                machine.is_gone = true;
                machine.ranks.clone()
            }
            None => Vec::new(),
        };
        ranks.into_iter().for_each(|rank| self.note(News::Lost { rank }));
        self.spread()
    }

    /// Whether all ranks have ended and every machine but this one knows it.
    pub fn is_over(&self, own: &M) -> bool {
        self.ended.len() == self.size as usize && self.is_known_to_all(own)
    }

    /// Whether every machine but this one knows of a loss.
    pub fn is_loss_known(&self, own: &M) -> bool {
        self.news.iter().any(|one| matches!(one, News::Lost { .. })) && self.is_known_to_all(own)
    }

    /// Whether every machine but this one knows all news.
    fn is_known_to_all(&self, own: &M) -> bool {
        let all = self.news.len() as u64;
        let mut others = self.machines.iter().filter(|(machine, _)| *machine != own);
        others.all(|(_, machine)| machine.is_gone || machine.known == all)
    }

    /// Adds news: a rank ends once.
    fn note(&mut self, news: News) {
        if let News::Left { rank, .. } | News::Lost { rank } = news {
            if self.ended.contains(&rank) {
                return;
            }
            self.ended.push(rank);
        }
        self.news.push(news);
    }

    /// Sends news to the machines that wait for some.
    fn spread(&mut self) -> CoordinatorReplies<R> {
        let all = self.news.len() as u64;
        let is_behind = |(_, from, _): &mut (M, u64, R)| *from < all;
        let behind: Vec<(M, u64, R)> = self.news_requests.extract_if(.., is_behind).collect();
        let replies = behind.into_iter().map(|(_, from, ticket)| {
            let from = usize::try_from(from).unwrap_or(self.news.len());
            (ticket, CoordinatorReply::News(self.news[from..].to_vec()))
        });
        replies.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slot(rank: u32, round: u32) -> RoundSlot {
        let bytes = format!("{rank} in {round}").into_bytes().into();
        RoundSlot { rank, call: [0; crate::call::CALL_BYTES], bytes }
    }

    /// What happens next.
    #[derive(Clone, Debug)]
    enum Event {
        Round(usize),
        Leave(u32),
        Vanish(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            8 => (0..3_usize).prop_map(Event::Round),
            2 => (0..6_u32).prop_map(Event::Leave),
            1 => (0..3_usize).prop_map(Event::Vanish),
        ]
    }

    /// A leader that requests news, and the news that it has received.
    #[derive(Default)]
    struct Leader {
        received: Vec<News>,
        round: u32,
        is_waiting: bool,
        is_gone: bool,
    }

    /// Delivers the replies to leaders, which request more news; a ticket is a machine, and whether
    /// the reply is to its request for news.
    fn play(
        coordinator: &mut TeamCoordinator<usize, (usize, bool)>,
        leaders: &mut [Leader; 3],
        mut replies: CoordinatorReplies<(usize, bool)>,
    ) {
        while let Some(((machine, _), reply)) = replies.pop() {
            let leader = &mut leaders[machine];
            match reply {
                CoordinatorReply::News(news) => {
                    leader.received.extend(news);
                    if !leader.is_gone {
                        let from = leader.received.len() as u64;
                        replies.extend(coordinator.request_news(machine, from, (machine, true)));
                    }
                }
                CoordinatorReply::Round(slots) => {
                    let mut ranks: Vec<u32> = slots.iter().map(|slot| slot.rank).collect();
                    ranks.sort_unstable();
                    let others = (0..6).filter(|rank| *rank as usize / 2 != machine);
                    assert_eq!(ranks, others.collect::<Vec<_>>());
                    for sent in &slots {
                        assert_eq!(*sent, slot(sent.rank, leader.round));
                    }
                    leader.round += 1;
                    leader.is_waiting = false;
                }
                CoordinatorReply::Done | CoordinatorReply::Accepted { .. } => {}
                CoordinatorReply::Refused(why) => panic!("{why}"),
            }
        }
    }

    proptest! {
        /// Two ranks on each of three machines: rounds end when all have arrived, with the bytes of
        /// the others; all machines that stay know the same news in the same order, and no rank
        /// ends twice.
        #[test]
        fn machine_leaders_know_the_same_and_rounds_are_whole(
            events in prop::collection::vec(event(), 0..60),
        ) {
            let mut coordinator = TeamCoordinator::new(6);
            let mut leaders: [Leader; 3] = Default::default();
            for rank in 0..6_u32 {
                let machine = rank as usize / 2;
                let replies = coordinator.join(machine, (rank / 2 * 2, rank), 6, (machine, false));
                play(&mut coordinator, &mut leaders, replies);
                if rank % 2 == 0 {
                    let replies = coordinator.request_news(machine, 0, (machine, true));
                    play(&mut coordinator, &mut leaders, replies);
                }
            }
            let mut ended = std::collections::BTreeSet::new();
            for event in events {
                let replies = match event {
                    Event::Round(machine) => {
                        let leader = &mut leaders[machine];
                        if leader.is_waiting || leader.is_gone {
                            continue;
                        }
                        leader.is_waiting = true;
                        let first = u32::try_from(machine).unwrap() * 2;
                        let slots = [first, first + 1].map(|rank| slot(rank, leader.round));
                        coordinator.round(machine, slots.to_vec(), (machine, false))
                    }
                    Event::Leave(rank) => {
                        let machine = rank as usize / 2;
                        if leaders[machine].is_gone {
                            continue;
                        }
                        ended.insert(rank);
                        coordinator.report(vec![News::Left { rank, before: 0 }], (machine, false))
                    }
                    Event::Vanish(machine) => {
                        leaders[machine].is_gone = true;
                        let first = u32::try_from(machine).unwrap() * 2;
                        ended.extend([first, first + 1]);
                        coordinator.gone(&machine)
                    }
                };
                play(&mut coordinator, &mut leaders, replies);
                // A machine that has arrived leaves the round unless another one is missing.
                let is_complete =
                    leaders.iter().all(|leader| leader.is_waiting && !leader.is_gone);
                prop_assert!(!is_complete);
            }
            let here: Vec<&Leader> = leaders.iter().filter(|leader| !leader.is_gone).collect();
            for leader in &here {
                prop_assert_eq!(&leader.received, &here[0].received);
                let ends = leader.received.iter().filter(|one| !matches!(one, News::Joined { .. }));
                prop_assert_eq!(ends.count(), ended.len());
            }
            prop_assert_eq!(coordinator.is_over(&0), ended.len() == 6);
        }
    }

    #[test]
    fn ranks_that_contradict_others_are_refused() {
        let mut coordinator = TeamCoordinator::new(2);
        let replies = coordinator.join("a", (0, 0), 2, 1);
        assert_eq!(replies, [(1, CoordinatorReply::Accepted { coordinator: 0 })]);
        let refused = |replies: CoordinatorReplies<i32>| match &replies[..] {
            [(_, CoordinatorReply::Refused(why))] => why.clone(),
            _ => panic!("{replies:?}"),
        };
        let why = refused(coordinator.join("b", (0, 0), 2, 2));
        assert_eq!(why, "two processes say that they are rank 0");
        let why = refused(coordinator.join("b", (1, 1), 3, 3));
        assert!(why.contains("has 2 processes, and rank 1 that it has 3"), "{why}");
    }
}
