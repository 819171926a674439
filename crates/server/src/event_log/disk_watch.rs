//! Detects changes of a disk: it is full, fails, hangs, or is slower than usual. A state machine
//! without I/O, with time passed in.

use std::time::{Duration, Instant};

use tracing::Level;

use super::{EventTopic, LogEvent};

/// A disk with less free space is full.
const FULL_BYTES: u64 = 16 << 20;
/// The share of free space below which a disk is nearly full, in percent.
const NEARLY_FULL_PERCENT: u64 = 5;
/// The share by which the free space must rise before a disk counts as less full, in percent.
const ROOM_AGAIN_PERCENT: u64 = 1;
/// Samples with requests before the usual time of a disk is known.
const USUAL_SAMPLES: u32 = 30;
/// A disk is slow if requests take this many times their usual time ...
const SLOW_FACTOR: u32 = 10;
/// ... and at least this long ...
const SLOW_TIME: Duration = Duration::from_millis(50);
/// ... in this many consecutive samples.
const SLOW_SAMPLES: u32 = 3;
/// A new sample has this fraction of the weight of the usual time.
const WEIGHT: u32 = 32;

/// The state of a disk at one time.
#[derive(Clone, Debug, Default)]
pub struct DiskSample {
    /// The size and the free space of its file system; `None` if they cannot be read.
    pub space: Option<(u64, u64)>,
    /// Why the file system cannot be used.
    pub trouble: Option<String>,
    /// A message if the disk has completed nothing for long although requests wait.
    pub stall: Option<String>,
    /// Requests served since the last sample.
    pub served: u64,
    /// The total time of these requests.
    pub took: Duration,
}

/// Watches one disk.
#[derive(Debug)]
pub struct DiskWatch {
    name: String,
    path: String,
    space: SpaceLevel,
    fails: bool,
    stalled: Option<Instant>,
    pace: DiskPace,
}

/// How much of a disk is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SpaceLevel {
    Enough,
    NearlyFull,
    Full,
}

/// The usual time of requests.
#[derive(Debug, Default)]
struct DiskPace {
    usual: Duration,
    samples: u32,
    /// Consecutive samples that contradict `slow_since`.
    contrary: u32,
    slow_since: Option<Instant>,
}

impl DiskWatch {
    /// Watches a disk, with its name and directory for messages.
    pub fn new(name: &str, path: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            space: SpaceLevel::Enough,
            fails: false,
            stalled: None,
            pace: DiskPace::default(),
        }
    }

    /// Takes a sample. Returns the events for what has changed.
    pub fn observe(&mut self, sample: &DiskSample, now: Instant) -> Vec<LogEvent> {
        let mut events = Vec::new();
        let Self { name, path, space, fails, stalled, pace } = self;
        let event = |level, topic, text: String| LogEvent {
            level,
            topic,
            subject: name.clone(),
            text: format!("disk {name} ({path}) {text}"),
        };
        if let Some((total, free)) = sample.space {
            let next = space.next(total, free);
            if next != *space {
                *space = next;
                let free = format!("{} MiB of {} MiB are free", free >> 20, total >> 20);
                let (level, text) = match next {
                    SpaceLevel::Full => (Level::ERROR, format!("is full: {free}")),
                    SpaceLevel::NearlyFull => (Level::WARN, format!("is nearly full: {free}")),
                    SpaceLevel::Enough => (Level::INFO, format!("has room again: {free}")),
                };
                events.push(event(level, EventTopic::DiskSpace, text));
            }
        }
        if sample.trouble.is_some() != *fails {
            *fails = sample.trouble.is_some();
            let (level, text) = match &sample.trouble {
                Some(why) => (Level::ERROR, format!("cannot be used: {why}")),
                None => (Level::INFO, "can be used again".to_owned()),
            };
            events.push(event(level, EventTopic::DiskFailure, text));
        }
        match (&sample.stall, *stalled) {
            (Some(why), None) => {
                *stalled = Some(now);
                events.push(event(Level::WARN, EventTopic::DiskStall, format!("hangs: {why}")));
            }
            (None, Some(since)) => {
                *stalled = None;
                let seconds = now.saturating_duration_since(since).as_secs();
                let text = format!("works again, after {seconds} s");
                events.push(event(Level::INFO, EventTopic::DiskStall, text));
            }
            _ => {}
        }
        if let Some(served) = u32::try_from(sample.served).ok().filter(|served| *served > 0)
            && let Some((level, text)) = pace.observe(sample.took / served, now)
        {
            events.push(event(level, EventTopic::DiskPace, text));
        }
        events
    }
}

impl SpaceLevel {
    /// Returns the next state. A small rise of the free space changes nothing, so that one file that
    /// comes and goes causes no events.
    fn next(self, total: u64, free: u64) -> Self {
        let percent = |share: u64| total / 100 * share;
        let (full, nearly) = (FULL_BYTES.min(total), percent(NEARLY_FULL_PERCENT));
        let more =
            |before: SpaceLevel| if self >= before { percent(ROOM_AGAIN_PERCENT) } else { 0 };
        if free < full + more(SpaceLevel::Full) {
            SpaceLevel::Full
        } else if free < nearly + more(SpaceLevel::NearlyFull) {
            SpaceLevel::NearlyFull
        } else {
            SpaceLevel::Enough
        }
    }
}

impl DiskPace {
    /// Takes the mean time of requests since the last sample. Returns what to log.
    fn observe(&mut self, mean: Duration, now: Instant) -> Option<(Level, String)> {
        let limit = (self.usual * SLOW_FACTOR).max(SLOW_TIME);
        let is_slow = self.samples >= USUAL_SAMPLES && mean > limit;
        if !is_slow {
            // The first samples form the mean; later ones move it slowly.
            let weight = (self.samples + 1).min(WEIGHT);
            self.usual = (self.usual * (weight - 1) + mean) / weight;
            self.samples = self.samples.saturating_add(1);
        }
        if is_slow == self.slow_since.is_some() {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        if self.contrary < SLOW_SAMPLES {
            return None;
        }
        self.contrary = 0;
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

    fn texts(events: Vec<LogEvent>) -> Vec<String> {
        let name = "disk a/disk0 (/mnt/d0) ";
        let text = |event: LogEvent| event.text.strip_prefix(name).unwrap().to_owned();
        events.into_iter().map(text).collect()
    }

    #[test]
    fn a_disk_that_becomes_full_is_reported_once() {
        let (mut watch, now) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let mut observe = |free| {
            let sample = DiskSample { space: Some((100 * GIB, free)), ..DiskSample::default() };
            texts(watch.observe(&sample, now))
        };
        assert_eq!(observe(6 * GIB), [] as [&str; 0]);
        assert_eq!(observe(5 * GIB - 1), ["is nearly full: 5119 MiB of 102400 MiB are free"]);
        assert_eq!(observe(5 * GIB + 1), [] as [&str; 0], "a little more is no news");
        assert_eq!(observe(1 << 20), ["is full: 1 MiB of 102400 MiB are free"]);
        assert_eq!(observe(0), [] as [&str; 0]);
        assert_eq!(observe(50 * GIB), ["has room again: 51200 MiB of 102400 MiB are free"]);
    }

    #[test]
    fn failures_hangs_and_recoveries_of_a_disk_are_reported() {
        let (mut watch, began) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let failing =
            DiskSample { trouble: Some("Input/output error".to_owned()), ..DiskSample::default() };
        let told = texts(watch.observe(&failing, began));
        assert_eq!(told, ["cannot be used: Input/output error"]);
        assert_eq!(watch.observe(&failing, began), []);
        let stall = "it has finished nothing for 3 s, and 5 requests wait for it";
        let hanging = DiskSample { stall: Some(stall.to_owned()), ..DiskSample::default() };
        let told = texts(watch.observe(&hanging, began));
        assert_eq!(told, ["can be used again".to_owned(), format!("hangs: {stall}")]);
        let later = began + Duration::from_secs(9);
        assert_eq!(texts(watch.observe(&DiskSample::default(), later)), ["works again, after 9 s"]);
    }

    #[test]
    fn a_disk_is_slow_compared_with_itself() {
        let (mut watch, began) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let mut seconds = 0;
        let mut observe = |ms: u64| {
            seconds += 1;
            let sample = DiskSample {
                served: 4,
                took: Duration::from_millis(4 * ms),
                ..DiskSample::default()
            };
            texts(watch.observe(&sample, began + Duration::from_secs(seconds)))
        };
        for _ in 0..USUAL_SAMPLES {
            assert_eq!(observe(8), [] as [&str; 0]);
        }
        assert_eq!(observe(70), [] as [&str; 0], "that may happen");
        for _ in 1..SLOW_SAMPLES {
            assert_eq!(observe(200), [] as [&str; 0]);
        }
        let [told] = &observe(200)[..] else { panic!("it is slow") };
        assert!(told.starts_with("is slow: requests take 200.0 ms, usually "), "{told}");
        assert_eq!(observe(300), [] as [&str; 0], "that is known");
        for _ in 1..SLOW_SAMPLES {
            assert_eq!(observe(9), [] as [&str; 0]);
        }
        assert_eq!(observe(9), ["is as fast as usual again, after 4 s"]);
    }

    #[test]
    fn a_disk_that_was_always_slow_is_not_reported() {
        let (mut watch, now) = (DiskWatch::new("a/disk0", "/mnt/d0"), Instant::now());
        let tape =
            DiskSample { served: 1, took: Duration::from_millis(500), ..DiskSample::default() };
        for _ in 0..100 {
            assert_eq!(watch.observe(&tape, now), []);
        }
    }
}
