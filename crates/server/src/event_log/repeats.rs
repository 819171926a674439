//! Which events are told at once, and which are counted: a state machine without I/O, with time
//! passed in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracing::Level;

use super::{Event, Topic};

/// Repetitions of an event are counted for so long.
const WINDOW: Duration = Duration::from_secs(60);
/// Subjects that are told apart; what is beyond is counted together for each topic.
const SUBJECTS: usize = 1024;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// How serious it is.
    pub level: Level,
    /// What it says.
    pub text: String,
}

/// Events that were told within the last minute.
#[derive(Debug, Default)]
pub struct Repeats {
    known: BTreeMap<(Topic, Level, String), Repeated>,
}

#[derive(Debug)]
struct Repeated {
    /// When it was last told.
    since: Instant,
    /// What the last one said.
    text: String,
    /// How many were counted since then.
    more: u64,
}

impl Repeats {
    /// An event happens; gives the lines that tell it, none if it is counted.
    pub fn note(&mut self, event: Event, now: Instant) -> Vec<Told> {
        let Event { level, topic, subject, text } = event;
        let mut key = (topic, level, subject);
        if self.known.len() >= SUBJECTS && !self.known.contains_key(&key) {
            key.2 = "others".to_owned();
        }
        let mut told = Vec::new();
        if let Some(known) = self.known.get_mut(&key) {
            if now.saturating_duration_since(known.since) < WINDOW {
                known.more += 1;
                known.text = text;
                return told;
            }
            told.extend(known.tell(level, now));
        }
        told.push(Told { level, text: text.clone() });
        self.known.insert(key, Repeated { since: now, text, more: 0 });
        told
    }

    /// Lines about what was counted for long enough. What has not repeated is forgotten.
    pub fn due(&mut self, now: Instant) -> Vec<Told> {
        let mut told = Vec::new();
        self.known.retain(|(_, level, _), known| {
            if now.saturating_duration_since(known.since) < WINDOW {
                return true;
            }
            let line = known.tell(*level, now);
            let has_repeated = line.is_some();
            told.extend(line);
            has_repeated
        });
        told
    }

    /// Lines about all that was counted.
    pub fn rest(&mut self, now: Instant) -> Vec<Told> {
        let known = std::mem::take(&mut self.known).into_iter();
        known.filter_map(|((_, level, _), mut known)| known.tell(level, now)).collect()
    }
}

impl Repeated {
    /// The line about what was counted, if there is anything; counting begins anew.
    fn tell(&mut self, level: Level, now: Instant) -> Option<Told> {
        let seconds = now.saturating_duration_since(self.since).as_secs();
        let more = std::mem::take(&mut self.more);
        self.since = now;
        if more == 0 {
            return None;
        }
        let time = match seconds {
            60..120 => "the last minute".to_owned(),
            ..60 => format!("the last {} s", seconds.max(1)),
            _ => format!("the last {} minutes", seconds / 60),
        };
        let times = if more == 1 { "time" } else { "times" };
        let text = format!("{} ({more} {times} more in {time})", self.text);
        Some(Told { level, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(topic: Topic, subject: &str, text: &str) -> Event {
        let (subject, text) = (subject.to_owned(), text.to_owned());
        Event { level: Level::WARN, topic, subject, text }
    }

    fn texts(told: Vec<Told>) -> Vec<String> {
        told.into_iter().map(|told| told.text).collect()
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_once_a_minute() {
        let (mut repeats, began) = (Repeats::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let full = |file: u32| event(Topic::DiskSpace, "a/disk0", &format!("full for {file}"));
        assert_eq!(texts(repeats.note(full(0), at(0))), ["full for 0"]);
        for file in 1..=37 {
            assert_eq!(repeats.note(full(file), at(u64::from(file))), []);
        }
        assert_eq!(repeats.due(at(59)), []);
        let told = texts(repeats.due(at(60)));
        assert_eq!(told, ["full for 37 (37 times more in the last minute)"]);
        assert_eq!(repeats.note(full(38), at(61)), [], "it goes on");
        let told = texts(repeats.due(at(121)));
        assert_eq!(told, ["full for 38 (1 time more in the last minute)"]);
        assert_eq!(repeats.due(at(181)), [], "it is over");
        assert_eq!(texts(repeats.note(full(39), at(182))), ["full for 39"], "so this is news");
    }

    #[test]
    fn subjects_and_topics_are_told_apart() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        for subject in ["a/disk0", "a/disk1"] {
            for topic in [Topic::DiskSpace, Topic::DiskFailure] {
                assert_eq!(repeats.note(event(topic, subject, "x"), now).len(), 1);
                assert_eq!(repeats.note(event(topic, subject, "x"), now), []);
            }
        }
    }

    #[test]
    fn bad_news_and_good_news_are_told_apart() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let lost = event(Topic::Peer, "b", "lost");
        let back = Event { level: Level::INFO, ..event(Topic::Peer, "b", "returned") };
        assert_eq!(texts(repeats.note(lost.clone(), now)), ["lost"]);
        assert_eq!(texts(repeats.note(back, now)), ["returned"]);
        assert_eq!(repeats.note(lost, now), [], "it comes and goes");
        let told = texts(repeats.rest(now + Duration::from_secs(3)));
        assert_eq!(told, ["lost (1 time more in the last 3 s)"]);
        assert_eq!(repeats.rest(now), []);
    }

    #[test]
    fn a_flood_of_subjects_takes_little_memory() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let mut lines = 0;
        for user in 0..10 * SUBJECTS {
            let event = event(Topic::Stranger, &format!("user {user}"), "refused");
            lines += repeats.note(event, now).len();
        }
        assert_eq!(lines, SUBJECTS + 1);
        assert_eq!(repeats.known.len(), SUBJECTS + 1);
        let told = texts(repeats.due(now + WINDOW));
        assert_eq!(told, [format!("refused ({} times more in the last minute)", 9 * SUBJECTS - 1)]);
        assert!(repeats.due(now + 2 * WINDOW).is_empty() && repeats.known.is_empty());
    }
}
