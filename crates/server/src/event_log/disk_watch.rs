//! Which changes of a disk are told: that it is full, fails, hangs, or is slower than usual. A state
//! machine without I/O, with time passed in.

use std::time::{Duration, Instant};

use tracing::Level;

use super::{Event, Topic};

/// A disk with less room is full.
const FULL_BYTES: u64 = 16 << 20;
/// A disk with less than this share of its room left is nearly full, in percent.
const NEARLY_FULL_PERCENT: u64 = 5;
/// A disk that is full or nearly full is told of again when it has this share more, in percent.
const ROOM_AGAIN_PERCENT: u64 = 1;
/// Looks with requests before the usual time of a disk is known.
const USUAL_LOOKS: u32 = 30;
/// A disk is slow if requests take so many times as long as usual ...
const SLOW_FACTOR: u32 = 10;
/// ... and at least so long ...
const SLOW_TIME: Duration = Duration::from_millis(50);
/// ... in so many looks, one after the other.
const SLOW_LOOKS: u32 = 3;
/// The share of one look in the usual time.
const WEIGHT: u32 = 32;

/// How a disk is at one moment.
#[derive(Clone, Debug, Default)]
pub struct DiskLook {
    /// Size of its file system, and what is free there; unknown if it cannot be asked.
    pub space: Option<(u64, u64)>,
    /// Why the file system cannot be asked.
    pub trouble: Option<String>,
    /// That it has finished nothing for long, though requests wait.
    pub stall: Option<String>,
    /// Requests served since the last look.
    pub served: u64,
    /// The time that they took, all together.
    pub took: Duration,
}

/// What is known of a disk.
#[derive(Debug)]
pub struct DiskWatch {
    name: String,
    path: String,
    room: Room,
    fails: bool,
    stalled: Option<Instant>,
    pace: Pace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    Enough,
    NearlyFull,
    Full,
}

/// How long requests usually take.
#[derive(Debug, Default)]
struct Pace {
    usual: Duration,
    looks: u32,
    /// Looks in a row in which the disk was not as it is known to be.
    other: u32,
    slow_since: Option<Instant>,
}

impl DiskWatch {
    /// A disk with a name for people, in a directory.
    pub fn new(name: &str, path: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            room: Room::Enough,
            fails: false,
            stalled: None,
            pace: Pace::default(),
        }
    }

    /// Looks at the disk; gives what has changed.
    pub fn look(&mut self, look: &DiskLook, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        let Self { name, path, room, fails, stalled, pace } = self;
        let event = |level, topic, text: String| Event {
            level,
            topic,
            subject: name.clone(),
            text: format!("disk {name} ({path}) {text}"),
        };
        if let Some((total, free)) = look.space {
            let next = room.next(total, free);
            if next != *room {
                *room = next;
                let free = format!("{} MiB of {} MiB are free", free >> 20, total >> 20);
                let (level, text) = match next {
                    Room::Full => (Level::ERROR, format!("is full: {free}")),
                    Room::NearlyFull => (Level::WARN, format!("is nearly full: {free}")),
                    Room::Enough => (Level::INFO, format!("has room again: {free}")),
                };
                events.push(event(level, Topic::DiskSpace, text));
            }
        }
        if look.trouble.is_some() != *fails {
            *fails = look.trouble.is_some();
            let (level, text) = match &look.trouble {
                Some(why) => (Level::ERROR, format!("cannot be used: {why}")),
                None => (Level::INFO, "can be used again".to_owned()),
            };
            events.push(event(level, Topic::DiskFailure, text));
        }
        match (&look.stall, *stalled) {
            (Some(why), None) => {
                *stalled = Some(now);
                events.push(event(Level::WARN, Topic::DiskStall, format!("hangs: {why}")));
            }
            (None, Some(since)) => {
                *stalled = None;
                let seconds = now.saturating_duration_since(since).as_secs();
                let text = format!("works again, after {seconds} s");
                events.push(event(Level::INFO, Topic::DiskStall, text));
            }
            _ => {}
        }
        if let Some(served) = u32::try_from(look.served).ok().filter(|served| *served > 0)
            && let Some((level, text)) = pace.look(look.took / served, now)
        {
            events.push(event(level, Topic::DiskPace, text));
        }
        events
    }
}

impl Room {
    /// How much room there is, if it was this before: a file that comes and goes is no news.
    fn next(self, total: u64, free: u64) -> Self {
        let percent = |share: u64| total / 100 * share;
        let (full, nearly) = (FULL_BYTES.min(total), percent(NEARLY_FULL_PERCENT));
        let more = |before: Room| if self >= before { percent(ROOM_AGAIN_PERCENT) } else { 0 };
        if free < full + more(Room::Full) {
            Room::Full
        } else if free < nearly + more(Room::NearlyFull) {
            Room::NearlyFull
        } else {
            Room::Enough
        }
    }
}

impl Pace {
    /// Requests have taken so long on average since the last look; what is to be told of that.
    fn look(&mut self, mean: Duration, now: Instant) -> Option<(Level, String)> {
        let limit = (self.usual * SLOW_FACTOR).max(SLOW_TIME);
        let is_slow = self.looks >= USUAL_LOOKS && mean > limit;
        if !is_slow {
            // The first looks count as much as they are; later ones move it slowly.
            let weight = (self.looks + 1).min(WEIGHT);
            self.usual = (self.usual * (weight - 1) + mean) / weight;
            self.looks = self.looks.saturating_add(1);
        }
        if is_slow == self.slow_since.is_some() {
            self.other = 0;
            return None;
        }
        self.other += 1;
        if self.other < SLOW_LOOKS {
            return None;
        }
        self.other = 0;
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        if is_slow {
            self.slow_since = Some(now);
            let text = format!("is slow: requests take {}, usually {}", ms(mean), ms(self.usual));
            return Some((Level::WARN, text));
        }
        let seconds = now.saturating_duration_since(self.slow_since.take()?).as_secs();
        Some((Level::INFO, format!("is as fast as usual again, after {seconds} s")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn texts(events: Vec<Event>) -> Vec<String> {
        let name = "disk a/disk0 (/mnt/d0) ";
        let text = |event: Event| event.text.strip_prefix(name).unwrap().to_owned();
        events.into_iter().map(text).collect()
    }

    #[test]
    fn a_disk_that_becomes_full_is_told_once() {
        let (mut watch, now) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let mut look = |free| {
            let look = DiskLook { space: Some((100 * GIB, free)), ..DiskLook::default() };
            texts(watch.look(&look, now))
        };
        assert_eq!(look(6 * GIB), [] as [&str; 0]);
        assert_eq!(look(5 * GIB - 1), ["is nearly full: 5119 MiB of 102400 MiB are free"]);
        assert_eq!(look(5 * GIB + 1), [] as [&str; 0], "a little more is no news");
        assert_eq!(look(1 << 20), ["is full: 1 MiB of 102400 MiB are free"]);
        assert_eq!(look(0), [] as [&str; 0]);
        assert_eq!(look(50 * GIB), ["has room again: 51200 MiB of 102400 MiB are free"]);
    }

    #[test]
    fn a_disk_that_fails_or_hangs_and_recovers_is_told() {
        let (mut watch, began) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let failing =
            DiskLook { trouble: Some("Input/output error".to_owned()), ..DiskLook::default() };
        let told = texts(watch.look(&failing, began));
        assert_eq!(told, ["cannot be used: Input/output error"]);
        assert_eq!(watch.look(&failing, began), []);
        let stall = "it has finished nothing for 3 s, and 5 requests wait for it";
        let hanging = DiskLook { stall: Some(stall.to_owned()), ..DiskLook::default() };
        let told = texts(watch.look(&hanging, began));
        assert_eq!(told, ["can be used again".to_owned(), format!("hangs: {stall}")]);
        let later = began + Duration::from_secs(9);
        assert_eq!(texts(watch.look(&DiskLook::default(), later)), ["works again, after 9 s"]);
    }

    #[test]
    fn a_disk_is_slow_compared_with_itself() {
        let (mut watch, began) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let mut seconds = 0;
        let mut look = |ms: u64| {
            seconds += 1;
            let look =
                DiskLook { served: 4, took: Duration::from_millis(4 * ms), ..DiskLook::default() };
            texts(watch.look(&look, began + Duration::from_secs(seconds)))
        };
        for _ in 0..USUAL_LOOKS {
            assert_eq!(look(8), [] as [&str; 0]);
        }
        assert_eq!(look(70), [] as [&str; 0], "that may happen");
        for _ in 1..SLOW_LOOKS {
            assert_eq!(look(200), [] as [&str; 0]);
        }
        let [told] = &look(200)[..] else { panic!("it is slow") };
        assert!(told.starts_with("is slow: requests take 200.0 ms, usually "), "{told}");
        assert_eq!(look(300), [] as [&str; 0], "that is known");
        for _ in 1..SLOW_LOOKS {
            assert_eq!(look(9), [] as [&str; 0]);
        }
        assert_eq!(look(9), ["is as fast as usual again, after 4 s"]);
    }

    #[test]
    fn a_disk_that_was_always_slow_is_not_told() {
        let (mut watch, now) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let tape = DiskLook { served: 1, took: Duration::from_millis(500), ..DiskLook::default() };
        for _ in 0..100 {
            assert_eq!(watch.look(&tape, now), []);
        }
    }
}
