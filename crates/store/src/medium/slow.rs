//! A medium with the speed of a slower disk, modelled as a disk with one arm.
//!
//! The model: an I/O begins when a thread requests it, or when the I/O before it has ended if that is
//! later. It takes the latency plus the time of its bytes at the rate of the disk. The thread blocks
//! until its I/O has ended. So all threads together get the throughput of one disk. While requests
//! wait, the arm is never idle, even if threads wake up late.
//!
//! Each read and write has this cost, even if the page cache has the bytes; each sync costs the
//! latency. Names, lengths and reads beyond the end are free. The underlying medium should be faster
//! than the model: its own time is not added.

use std::any::Any;
use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{DirectoryEntry, Medium, MediumFile, MediumOpenMode, MediumSpace};

/// The speed of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The fixed time of each I/O.
    pub latency: Duration,
    /// The rate at which the disk moves bytes; unlimited if `None`.
    pub bytes_per_second: Option<NonZeroU64>,
}

impl Pace {
    /// The duration of an I/O of `bytes` bytes.
    ///
    /// ```
    /// use std::num::NonZeroU64;
    /// use std::time::Duration;
    ///
    /// use pario_store::medium::Pace;
    ///
    /// let latency = Duration::from_micros(13_800);
    /// let pace = Pace { latency, bytes_per_second: NonZeroU64::new(3_500_000) };
    /// assert_eq!(pace.duration(0), latency);
    /// assert_eq!(pace.duration(35_000), Duration::from_micros(23_800));
    /// ```
    pub fn duration(&self, bytes: u64) -> Duration {
        let moving = self.bytes_per_second.map_or(Duration::ZERO, |rate| {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        self.latency.saturating_add(moving)
    }
}

/// A medium on which every I/O takes as long as on a disk of a given pace.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use std::sync::Arc;
/// use std::time::{Duration, Instant};
///
/// use pario_store::medium::{Medium, MemoryMedium, MediumOpenMode, Pace, SlowMedium};
///
/// let pace = Pace { latency: Duration::from_millis(5), bytes_per_second: None };
/// let medium = SlowMedium::new(Arc::new(MemoryMedium::new()), pace);
/// let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
/// let (file, begun) = (medium.open("tiles", mode)?, Instant::now());
/// file.write_all_at(b"pixels", 0)?;
/// file.sync()?;
/// assert!(begun.elapsed() >= 2 * pace.latency);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SlowMedium {
    inner: Arc<dyn Medium>,
    arm: Arc<DiskArm>,
}

impl SlowMedium {
    /// A slow medium that stores its bytes on `inner`.
    pub fn new(inner: Arc<dyn Medium>, pace: Pace) -> Self {
        Self::with_clock(inner, pace, Arc::new(SystemClock))
    }

    /// A slow medium with the given clock.
    pub(crate) fn with_clock(inner: Arc<dyn Medium>, pace: Pace, clock: Arc<dyn Clock>) -> Self {
        let arm = DiskArm { pace, clock, free_at: Mutex::new(None) };
        Self { inner, arm: Arc::new(arm) }
    }
}

/// A clock that threads can sleep by.
pub(crate) trait Clock: Send + Sync + Debug {
    /// The time.
    fn now(&self) -> Instant;
    /// Sleeps until an instant; returns at once if it is past.
    fn sleep_until(&self, then: Instant);
}

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, then: Instant) {
        let left = then.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
    }
}

/// The arm of a disk: it performs one I/O at a time.
#[derive(Debug)]
struct DiskArm {
    pace: Pace,
    clock: Arc<dyn Clock>,
    /// The end of the last requested I/O.
    free_at: Mutex<Option<Instant>>,
}

impl DiskArm {
    /// Performs an I/O of `bytes` bytes, and returns at its modelled end.
    fn moves<T>(&self, bytes: u64, real: impl FnOnce() -> T) -> T {
        let end = self.reserve(bytes);
        let done = real();
        self.clock.sleep_until(end);
        done
    }

    /// Reserves the next free interval of the arm; returns its end.
    fn reserve(&self, bytes: u64) -> Instant {
        let mut free_at = self.free_at.lock();
        let now = self.clock.now();
        let begin = free_at.map_or(now, |free_at| free_at.max(now));
        let end = begin + self.pace.duration(bytes);
        *free_at = Some(end);
        end
    }
}

impl Medium for SlowMedium {
    fn open(&self, path: &str, mode: MediumOpenMode) -> io::Result<Arc<dyn MediumFile>> {
        let file = self.inner.open(path, mode)?;
        Ok(Arc::new(SlowFile { file, arm: self.arm.clone() }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.inner.list(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.arm.moves(0, || self.inner.sync_dir(path))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.arm.moves(0, || self.inner.sync_all())
    }

    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.inner.lock(path, exclusive)
    }

    fn space(&self) -> io::Result<MediumSpace> {
        self.inner.space()
    }

    fn label(&self) -> String {
        self.inner.label()
    }
}

/// An open file. It offers neither a descriptor nor the page cache: both would bypass the arm.
#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn MediumFile>,
    arm: Arc<DiskArm>,
}

impl SlowFile {
    fn reads<T>(
        &self,
        wanted: u64,
        position: u64,
        read: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let bytes = wanted.min(self.file.len()?.saturating_sub(position));
        if bytes == 0 { read() } else { self.arm.moves(bytes, read) }
    }

    fn writes(&self, bytes: u64, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if bytes == 0 { write() } else { self.arm.moves(bytes, write) }
    }
}

impl MediumFile for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn begin_sync(&self) {
        self.file.begin_sync();
    }

    fn wait_begun(&self) -> io::Result<()> {
        self.file.wait_begun()
    }

    fn drop_cached(&self) {
        self.file.drop_cached();
    }

    fn next_data(&self, position: u64) -> io::Result<Option<u64>> {
        self.file.next_data(position)
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        self.file.allocate(position, len)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let wanted = buffer.len() as u64;
        self.reads(wanted, position, || self.file.read_at(buffer, position))
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], position: u64) -> io::Result<usize> {
        let wanted = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.reads(wanted, position, || self.file.read_vectored_at(buffers, position))
    }

    fn write_all_at(&self, buffer: &[u8], position: u64) -> io::Result<()> {
        self.writes(buffer.len() as u64, || self.file.write_all_at(buffer, position))
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        let bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.writes(bytes, || self.file.write_all_vectored_at(buffers, position))
    }

    fn sync(&self) -> io::Result<()> {
        self.arm.moves(0, || self.file.sync())
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn modified_ns(&self) -> io::Result<u64> {
        self.file.modified_ns()
    }

    fn set_modified_ns(&self, time: u64) -> io::Result<()> {
        self.file.set_modified_ns(time)
    }

    fn will_need(&self, position: u64, len: u64) {
        self.file.will_need(position, len);
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn is_slow(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DirectoryMedium, MemoryMedium};
    use super::*;

    /// A clock that only the test advances. A sleep returns at once and records its end.
    #[derive(Debug)]
    struct ManualClock {
        begun: Instant,
        now: Mutex<Instant>,
        ends: Mutex<Vec<Instant>>,
    }

    impl ManualClock {
        fn new() -> Arc<Self> {
            let begun = Instant::now();
            Arc::new(Self { begun, now: Mutex::new(begun), ends: Mutex::default() })
        }

        fn set_ms(&self, ms: u64) {
            *self.now.lock() = self.begun + Duration::from_millis(ms);
        }

        /// The ends of the sleeps since the last call, in order, in milliseconds.
        fn ends_ms(&self) -> Vec<u128> {
            let mut ends = std::mem::take(&mut *self.ends.lock());
            ends.sort();
            ends.into_iter().map(|end| (end - self.begun).as_millis()).collect()
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Instant {
            *self.now.lock()
        }

        fn sleep_until(&self, then: Instant) {
            self.ends.lock().push(then);
        }
    }

    /// 10 ms, and 1 ms for each 1,000 bytes.
    const PACE: Pace =
        Pace { latency: Duration::from_millis(10), bytes_per_second: NonZeroU64::new(1_000_000) };

    const CREATE: MediumOpenMode =
        MediumOpenMode { create: true, write: true, direct_alignment: None };

    /// A file of 8,000 bytes on a medium of this pace, at time zero.
    fn file(pace: Pace) -> (Arc<dyn MediumFile>, SlowMedium, Arc<ManualClock>) {
        let clock = ManualClock::new();
        let medium = SlowMedium::with_clock(Arc::new(MemoryMedium::new()), pace, clock.clone());
        let file = medium.open("x", CREATE).unwrap();
        file.set_len(8_000).unwrap();
        (file, medium, clock)
    }

    #[test]
    fn an_io_takes_the_latency_and_the_time_of_its_bytes() {
        let (file, _, clock) = file(PACE);
        assert_eq!(file.read_at(&mut [0; 5_000], 0).unwrap(), 5_000);
        assert_eq!(clock.ends_ms(), [15]);
        clock.set_ms(100);
        file.write_all_at(&[1; 3_000], 0).unwrap();
        assert_eq!(clock.ends_ms(), [113]);
    }

    #[test]
    fn latency_and_rate_may_stand_alone() {
        let (only_latency, _, clock) = file(Pace { bytes_per_second: None, ..PACE });
        only_latency.write_all_at(&[1; 5_000], 0).unwrap();
        assert_eq!(clock.ends_ms(), [10]);
        let (only_rate, _, clock) = file(Pace { latency: Duration::ZERO, ..PACE });
        only_rate.write_all_at(&[1; 5_000], 0).unwrap();
        only_rate.sync().unwrap();
        assert_eq!(clock.ends_ms(), [5, 5]);
    }

    #[test]
    fn many_threads_get_the_throughput_of_one_disk() {
        let (file, _, clock) = file(PACE);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        file.read_at(&mut [0; 2_000], 1_000).unwrap();
                    }
                });
            }
        });
        let expected: Vec<u128> = (1..=40).map(|number| number * 12).collect();
        assert_eq!(clock.ends_ms(), expected);
    }

    #[test]
    fn reads_writes_and_syncs_of_all_files_share_the_arm() {
        let (file, medium, clock) = file(PACE);
        let other = medium.open("y", CREATE).unwrap();
        let (mut one, mut two) = ([0; 1_000], [0; 3_000]);
        file.read_at(&mut one, 0).unwrap();
        other.write_all_at(&[1; 2_000], 0).unwrap();
        other.sync().unwrap();
        medium.sync_dir("").unwrap();
        let mut into = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        file.read_vectored_at(&mut into, 0).unwrap();
        let mut from = [IoSlice::new(&[1; 500]), IoSlice::new(&[1; 1_500])];
        other.write_all_vectored_at(&mut from, 0).unwrap();
        assert_eq!(clock.ends_ms(), [11, 23, 33, 43, 57, 69]);
    }

    #[test]
    fn idle_time_is_lost_and_late_threads_lose_none() {
        let (file, _, clock) = file(PACE);
        let read = || file.read_at(&mut [0; 1_000], 0).unwrap();
        read();
        read();
        // The arm is busy until 22: an earlier request begins then.
        clock.set_ms(21);
        read();
        assert_eq!(clock.ends_ms(), [11, 22, 33]);
        // The arm is idle since 33.
        clock.set_ms(50);
        read();
        read();
        assert_eq!(clock.ends_ms(), [61, 72]);
        // The arm becomes idle at this instant.
        clock.set_ms(72);
        read();
        assert_eq!(clock.ends_ms(), [83]);
    }

    #[test]
    fn only_existing_bytes_take_time() {
        let (file, medium, clock) = file(PACE);
        assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
        assert_eq!(file.read_at(&mut [0; 100], 8_000).unwrap(), 0);
        assert_eq!(file.read_at(&mut [0; 100], u64::MAX).unwrap(), 0);
        file.write_all_at(&[], 0).unwrap();
        file.set_len(9_000).unwrap();
        file.allocate(0, 10_000).unwrap();
        medium.rename("x", "z").unwrap();
        assert_eq!(clock.ends_ms(), [0; 0]);
        assert_eq!(file.read_at(&mut [0; 5_000], 8_000).unwrap(), 2_000);
        assert_eq!(clock.ends_ms(), [12]);
    }

    #[test]
    fn a_failed_io_takes_its_time_too() {
        let (memory, clock) = (MemoryMedium::new(), ManualClock::new());
        let medium = SlowMedium::with_clock(Arc::new(memory.clone()), PACE, clock.clone());
        let file = medium.open("x", CREATE).unwrap();
        memory.set_fault(memory.changes() + 1, super::super::Fault::Error);
        assert!(file.write_all_at(&[1; 1_000], 0).is_err());
        assert_eq!(clock.ends_ms(), [11]);
    }

    #[test]
    fn nothing_bypasses_the_arm() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Arc::new(DirectoryMedium::new(dir.path()).unwrap());
        let medium = SlowMedium::new(directory.clone(), Pace::default());
        let mode = MediumOpenMode { direct_alignment: Some(4096), ..CREATE };
        let file = medium.open("x", mode).unwrap();
        let plain = directory.open("y", mode).unwrap();
        assert_eq!(file.is_direct(), plain.is_direct());
        assert!(plain.descriptor().is_some() && file.descriptor().is_none());
        let file = medium.open("z", CREATE).unwrap();
        file.write_all_at(&[1; 10_000], 0).unwrap();
        assert!(!file.is_cached(0, 10_000) && file.is_slow());
        assert_eq!(medium.label(), directory.label());
    }

    #[test]
    fn the_clock_of_the_system_is_not_early() {
        let begun = Instant::now();
        let then = begun + Duration::from_millis(3);
        SystemClock.sleep_until(then);
        assert!(SystemClock.now() >= then);
        SystemClock.sleep_until(begun);
    }
}
