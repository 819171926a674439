//! Where the captains of all machines meet: a state machine without I/O.
//!
//! What happens to ranks is one list of news, which every captain follows to its end. A round is over
//! when all machines have come to it; then each gets what those of the others have told.

use std::collections::BTreeMap;

use super::message::{FromHost, News, Slot, ToHost};

/// The host. `M` is how a machine is known, `R` is how somebody is answered.
pub struct Host<M, R> {
    size: u32,
    /// The captain who came first: that at the host.
    first: Option<u32>,
    /// The machines, and the ranks that each has.
    machines: BTreeMap<M, Machine>,
    news: Vec<News>,
    /// Machines that wait for news behind those they know.
    followers: Vec<(M, u64, R)>,
    /// Who has come to the round.
    arrived: BTreeMap<M, (Vec<Slot>, R)>,
    /// Whose end is known: those who have left, and those who were lost.
    ended: Vec<u32>,
}

#[derive(Default)]
struct Machine {
    ranks: Vec<u32>,
    /// How many of the news it knows.
    known: u64,
    is_gone: bool,
}

/// What is to be said to whom.
pub type Answers<R> = Vec<(R, FromHost)>;

impl<M: Ord + Clone, R> Host<M, R> {
    /// The host of a team of this size.
    pub fn new(size: u32) -> Self {
        Self {
            size,
            first: None,
            machines: BTreeMap::new(),
            news: Vec::new(),
            followers: Vec::new(),
            arrived: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// A machine asks something.
    pub fn ask(&mut self, machine: M, question: ToHost, answer: R) -> Answers<R> {
        match question {
            ToHost::Come { captain, rank, size } => {
                self.come(machine, (captain, rank), size, answer)
            }
            ToHost::Follow { from } => self.follow(machine, from, answer),
            ToHost::Round { slots, .. } => self.round(machine, slots, answer),
            ToHost::Tell { news } => self.tell(news, answer),
        }
    }

    /// A rank has come to a machine.
    pub fn come(&mut self, machine: M, who: (u32, u32), size: u32, answer: R) -> Answers<R> {
        let (captain, rank) = who;
        let refuse = |why: String| FromHost::Refused(why);
        if size != self.size {
            let ours = self.size;
            let why = format!(
                "the first machine says that the job has {ours} processes, and rank {rank} that it \
                 has {size}"
            );
            return vec![(answer, refuse(why))];
        }
        let is_taken = self.machines.values().any(|machine| machine.ranks.contains(&rank));
        if is_taken || rank >= size || captain >= size {
            let why = format!("two processes say that they are rank {rank}");
            return vec![(answer, refuse(why))];
        }
        self.machines.entry(machine).or_default().ranks.push(rank);
        self.news.push(News::Came { rank, captain });
        let host = *self.first.get_or_insert(captain);
        let mut answers = vec![(answer, FromHost::Accepted { host })];
        answers.extend(self.spread());
        answers
    }

    /// A machine wants to know what has happened.
    pub fn follow(&mut self, machine: M, from: u64, answer: R) -> Answers<R> {
        if let Some(known) = self.machines.get_mut(&machine) {
            known.known = from;
        }
        self.followers.push((machine, from, answer));
        self.spread()
    }

    /// All ranks of a machine have come to a round.
    pub fn round(&mut self, machine: M, slots: Vec<Slot>, answer: R) -> Answers<R> {
        self.arrived.insert(machine, (slots, answer));
        if self.machines.keys().any(|machine| !self.arrived.contains_key(machine)) {
            return Vec::new();
        }
        let mut arrived = std::mem::take(&mut self.arrived).into_values();
        let (told, answers): (Vec<_>, Vec<_>) = arrived.by_ref().unzip();
        let answers = answers.into_iter().enumerate().map(|(number, answer)| {
            let others = told.iter().enumerate().filter(|(other, _)| *other != number);
            let others = others.flat_map(|(_, slots)| slots.iter().cloned()).collect();
            (answer, FromHost::Round(others))
        });
        answers.collect()
    }

    /// Something has happened at a machine.
    pub fn tell(&mut self, news: Vec<News>, answer: R) -> Answers<R> {
        news.into_iter().for_each(|one| self.note(one));
        let mut answers = vec![(answer, FromHost::Done)];
        answers.extend(self.spread());
        answers
    }

    /// A machine is gone: whoever was there and has not left is lost.
    pub fn gone(&mut self, machine: &M) -> Answers<R> {
        self.followers.retain(|(follower, ..)| follower != machine);
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
        self.ended.len() == self.size as usize && self.is_heard(own)
    }

    /// Whether every machine but this one knows that somebody was lost.
    pub fn is_loss_known(&self, own: &M) -> bool {
        self.news.iter().any(|one| matches!(one, News::Lost { .. })) && self.is_heard(own)
    }

    /// Whether every machine but this one knows all news.
    fn is_heard(&self, own: &M) -> bool {
        let all = self.news.len() as u64;
        let mut others = self.machines.iter().filter(|(machine, _)| *machine != own);
        others.all(|(_, machine)| machine.is_gone || machine.known == all)
    }

    /// Keeps what is news: a rank ends once.
    fn note(&mut self, news: News) {
        if let News::Left { rank, .. } | News::Lost { rank } = news {
            if self.ended.contains(&rank) {
                return;
            }
            self.ended.push(rank);
        }
        self.news.push(news);
    }

    /// Tells news to those who wait for some.
    fn spread(&mut self) -> Answers<R> {
        let all = self.news.len() as u64;
        let is_behind = |(_, from, _): &mut (M, u64, R)| *from < all;
        let behind: Vec<(M, u64, R)> = self.followers.extract_if(.., is_behind).collect();
        let answers = behind.into_iter().map(|(_, from, answer)| {
            let from = usize::try_from(from).unwrap_or(self.news.len());
            (answer, FromHost::News(self.news[from..].to_vec()))
        });
        answers.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slot(rank: u32, round: u32) -> Slot {
        let bytes = format!("{rank} in {round}").into_bytes().into();
        Slot { rank, call: [0; crate::call::CALL_BYTES], bytes }
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

    /// A captain that follows the news, and what it has heard.
    #[derive(Default)]
    struct Captain {
        heard: Vec<News>,
        round: u32,
        is_waiting: bool,
        is_gone: bool,
    }

    /// Plays the answers to captains, who go on following; an answer is to a machine, and whether it
    /// is to its following.
    fn play(
        host: &mut Host<usize, (usize, bool)>,
        captains: &mut [Captain; 3],
        mut answers: Answers<(usize, bool)>,
    ) {
        while let Some(((machine, _), answer)) = answers.pop() {
            let captain = &mut captains[machine];
            match answer {
                FromHost::News(news) => {
                    captain.heard.extend(news);
                    if !captain.is_gone {
                        let from = captain.heard.len() as u64;
                        answers.extend(host.follow(machine, from, (machine, true)));
                    }
                }
                FromHost::Round(slots) => {
                    let mut ranks: Vec<u32> = slots.iter().map(|slot| slot.rank).collect();
                    ranks.sort_unstable();
                    let others = (0..6).filter(|rank| *rank as usize / 2 != machine);
                    assert_eq!(ranks, others.collect::<Vec<_>>());
                    for told in &slots {
                        assert_eq!(*told, slot(told.rank, captain.round));
                    }
                    captain.round += 1;
                    captain.is_waiting = false;
                }
                FromHost::Done | FromHost::Accepted { .. } => {}
                FromHost::Refused(why) => panic!("{why}"),
            }
        }
    }

    proptest! {
        /// Two ranks at each of three machines: rounds end when all have come, with what the others
        /// told; all who stay know the same news in the same order, and nobody ends twice.
        #[test]
        fn captains_know_the_same_and_rounds_are_whole(
            events in prop::collection::vec(event(), 0..60),
        ) {
            let mut host = Host::new(6);
            let mut captains: [Captain; 3] = Default::default();
            for rank in 0..6_u32 {
                let machine = rank as usize / 2;
                let answers = host.come(machine, (rank / 2 * 2, rank), 6, (machine, false));
                play(&mut host, &mut captains, answers);
                if rank % 2 == 0 {
                    let answers = host.follow(machine, 0, (machine, true));
                    play(&mut host, &mut captains, answers);
                }
            }
            let mut ended = std::collections::BTreeSet::new();
            for event in events {
                let answers = match event {
                    Event::Round(machine) => {
                        let captain = &mut captains[machine];
                        if captain.is_waiting || captain.is_gone {
                            continue;
                        }
                        captain.is_waiting = true;
                        let first = u32::try_from(machine).unwrap() * 2;
                        let slots = [first, first + 1].map(|rank| slot(rank, captain.round));
                        host.round(machine, slots.to_vec(), (machine, false))
                    }
                    Event::Leave(rank) => {
                        let machine = rank as usize / 2;
                        if captains[machine].is_gone {
                            continue;
                        }
                        ended.insert(rank);
                        host.tell(vec![News::Left { rank, before: 0 }], (machine, false))
                    }
                    Event::Vanish(machine) => {
                        captains[machine].is_gone = true;
                        let first = u32::try_from(machine).unwrap() * 2;
                        ended.extend([first, first + 1]);
                        host.gone(&machine)
                    }
                };
                play(&mut host, &mut captains, answers);
                // Whoever came to a round has ended it unless somebody is missing.
                let is_complete =
                    captains.iter().all(|captain| captain.is_waiting && !captain.is_gone);
                prop_assert!(!is_complete);
            }
            let here: Vec<&Captain> = captains.iter().filter(|captain| !captain.is_gone).collect();
            for captain in &here {
                prop_assert_eq!(&captain.heard, &here[0].heard);
                let ends = captain.heard.iter().filter(|one| !matches!(one, News::Came { .. }));
                prop_assert_eq!(ends.count(), ended.len());
            }
            prop_assert_eq!(host.is_over(&0), ended.len() == 6);
        }
    }

    #[test]
    fn who_cannot_be_is_refused() {
        let mut host = Host::new(2);
        let answers = host.come("a", (0, 0), 2, 1);
        assert_eq!(answers, [(1, FromHost::Accepted { host: 0 })]);
        let refused = |answers: Answers<i32>| match &answers[..] {
            [(_, FromHost::Refused(why))] => why.clone(),
            _ => panic!("{answers:?}"),
        };
        let why = refused(host.come("b", (0, 0), 2, 2));
        assert_eq!(why, "two processes say that they are rank 0");
        let why = refused(host.come("b", (1, 1), 3, 3));
        assert!(why.contains("has 2 processes, and rank 1 that it has 3"), "{why}");
    }
}
