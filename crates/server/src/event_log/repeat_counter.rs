//! Logs the first event of its kind and counts its repetitions: a state machine without I/O, with
//! time passed in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracing::Level;

use super::{EventTopic, LogEvent};

/// The time for which repetitions are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The most subjects that are counted apart; further ones are counted together for each topic.
const SUBJECTS: usize = 1024;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The level.
    pub level: Level,
    /// The message.
    pub text: String,
}

/// Counts the repetitions of events that were logged within the last minute.
#[derive(Debug, Default)]
pub struct RepeatCounter {
    known: BTreeMap<(EventTopic, Level, String), RepeatedEvent>,
}

#[derive(Debug)]
struct RepeatedEvent {
    /// When the event was last logged.
    since: Instant,
    /// The message of the last repetition.
    text: String,
    /// The number of repetitions since then.
    more: u64,
}

impl RepeatCounter {
    /// Takes an event. Returns the lines to log: none if the event is only counted.
    pub fn note(&mut self, event: LogEvent, now: Instant) -> Vec<LogLine> {
        let LogEvent { level, topic, subject, text } = event;
        let mut key = (topic, level, subject);
        if self.known.len() >= SUBJECTS && !self.known.contains_key(&key) {
            key.2 = "others".to_owned();
        }
        let mut lines = Vec::new();
        if let Some(known) = self.known.get_mut(&key) {
            if now.saturating_duration_since(known.since) < WINDOW {
                known.more += 1;
                known.text = text;
                return lines;
            }
            lines.extend(known.take_line(level, now));
        }
        lines.push(LogLine { level, text: text.clone() });
        self.known.insert(key, RepeatedEvent { since: now, text, more: 0 });
        lines
    }

    /// Returns lines about repetitions that were counted for [`WINDOW`], and forgets events without
    /// repetitions.
    pub fn due(&mut self, now: Instant) -> Vec<LogLine> {
        let mut lines = Vec::new();
        self.known.retain(|(_, level, _), known| {
            if now.saturating_duration_since(known.since) < WINDOW {
                return true;
            }
            let line = known.take_line(*level, now);
            let has_repeated = line.is_some();
            lines.extend(line);
            has_repeated
        });
        lines
    }

    /// Returns lines about all counted repetitions.
    pub fn rest(&mut self, now: Instant) -> Vec<LogLine> {
        let known = std::mem::take(&mut self.known).into_iter();
        known.filter_map(|((_, level, _), mut known)| known.take_line(level, now)).collect()
    }
}

impl RepeatedEvent {
    /// Returns the line about the counted repetitions, if there are any, and resets the count.
    fn take_line(&mut self, level: Level, now: Instant) -> Option<LogLine> {
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
        Some(LogLine { level, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(topic: EventTopic, subject: &str, text: &str) -> LogEvent {
        let (subject, text) = (subject.to_owned(), text.to_owned());
        LogEvent { level: Level::WARN, topic, subject, text }
    }

    fn texts(told: Vec<LogLine>) -> Vec<String> {
        told.into_iter().map(|told| told.text).collect()
    }

    #[test]
    fn the_first_event_is_logged_at_once_and_repetitions_once_a_minute() {
        let (mut repeats, began) = (RepeatCounter::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let full = |file: u32| event(EventTopic::DiskSpace, "a/disk0", &format!("full for {file}"));
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
    fn subjects_and_topics_are_counted_apart() {
        let (mut repeats, now) = (RepeatCounter::default(), Instant::now());
        for subject in ["a/disk0", "a/disk1"] {
            for topic in [EventTopic::DiskSpace, EventTopic::DiskFailure] {
                assert_eq!(repeats.note(event(topic, subject, "x"), now).len(), 1);
                assert_eq!(repeats.note(event(topic, subject, "x"), now), []);
            }
        }
    }

    #[test]
    fn levels_are_counted_apart() {
        let (mut repeats, now) = (RepeatCounter::default(), Instant::now());
        let lost = event(EventTopic::Peer, "b", "lost");
        let back = LogEvent { level: Level::INFO, ..event(EventTopic::Peer, "b", "returned") };
        assert_eq!(texts(repeats.note(lost.clone(), now)), ["lost"]);
        assert_eq!(texts(repeats.note(back, now)), ["returned"]);
        assert_eq!(repeats.note(lost, now), [], "it comes and goes");
        let told = texts(repeats.rest(now + Duration::from_secs(3)));
        assert_eq!(told, ["lost (1 time more in the last 3 s)"]);
        assert_eq!(repeats.rest(now), []);
    }

    #[test]
    fn a_flood_of_subjects_takes_little_memory() {
        let (mut repeats, now) = (RepeatCounter::default(), Instant::now());
        let mut lines = 0;
        for user in 0..10 * SUBJECTS {
            let event = event(EventTopic::Stranger, &format!("user {user}"), "refused");
            lines += repeats.note(event, now).len();
        }
        assert_eq!(lines, SUBJECTS + 1);
        assert_eq!(repeats.known.len(), SUBJECTS + 1);
        let told = texts(repeats.due(now + WINDOW));
        assert_eq!(told, [format!("refused ({} times more in the last minute)", 9 * SUBJECTS - 1)]);
        assert!(repeats.due(now + 2 * WINDOW).is_empty() && repeats.known.is_empty());
    }
}
