//! The mode of a table and its shared pointer.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::encoding::{decode, encode};
use super::words::head;
use crate::modes::call::Call;
use crate::modes::collective_error::CollectiveError;
use crate::modes::course::Course;
use crate::modes::mode::Mode;
use crate::modes::position::{AccessRange, Position, Seek, Transfer};

impl CoordinationTable<'_> {
    // These need the lock.

    /// Places an access at the shared pointer, without the other ranks.
    pub fn transfer(
        &self,
        transfer: Transfer,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<AccessRange, CollectiveError> {
        self.change(|course| course.needs_size_for(transfer), measure, |c| c.transfer(transfer))
    }

    /// Moves the shared pointer, without the other ranks.
    pub fn seek(
        &self,
        seek: Seek,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<u64, CollectiveError> {
        self.change(|_| Course::seek_needs_size(seek), measure, |course| course.seek(seek))
    }

    fn change<R>(
        &self,
        needs_size: impl FnOnce(&Course) -> bool,
        measure: impl FnOnce() -> Result<u64, String>,
        change: impl FnOnce(&mut Course) -> Result<R, CollectiveError>,
    ) -> Result<R, CollectiveError> {
        let mut course = self.course();
        if needs_size(&course) {
            course.measured(measure().map_err(|why| CollectiveError::NotMeasured { why })?);
        }
        let changed = change(&mut course);
        self.set_course(&course);
        changed
    }

    /// Runs `measure`, by which a rank finds out the size of the file for its call, and shows the
    /// call as waiting until it returns.
    pub fn measure_for<R>(
        &self,
        (rank, call): (u32, &Call),
        now_ms: u64,
        measure: impl FnOnce() -> R,
    ) -> R {
        let (kind, flags, value) = encode(call);
        self.word(head::MEASURING_RANK).store(rank, Ordering::Relaxed);
        self.word(head::MEASURING_FLAGS).store(flags, Ordering::Relaxed);
        self.put(head::MEASURING_VALUE, value);
        self.put(head::MEASURING_SINCE_MS, now_ms);
        self.word(head::MEASURING).store(kind, Ordering::Release);
        let measured = measure();
        self.word(head::MEASURING).store(0, Ordering::Release);
        measured
    }

    /// The shared pointer.
    pub fn offset(&self) -> u64 {
        self.number(head::OFFSET)
    }

    /// Fails if the ranks close the file together in this mode.
    pub fn check_close(&self) -> Result<(), CollectiveError> {
        self.course().check_close()
    }

    // These need no lock. What they read may change at the same time.

    /// The shared pointer, in modes that have one.
    pub fn shared_offset(&self) -> Option<u64> {
        self.course().shared_offset()
    }

    /// The end of the file, if it is known.
    pub fn known_end(&self) -> Option<u64> {
        self.course().known_end()
    }

    /// The call for which the size of the file is being found out: its rank, the call, and since
    /// when.
    pub(super) fn measuring_call(&self) -> Option<(u32, Call, u64)> {
        let kind = self.word(head::MEASURING).load(Ordering::Acquire);
        let rank = self.word(head::MEASURING_RANK).load(Ordering::Relaxed);
        if kind == 0 || rank >= self.size || self.is_lost(rank) {
            return None;
        }
        let flags = self.word(head::MEASURING_FLAGS).load(Ordering::Relaxed);
        let call = decode(kind, flags, self.number(head::MEASURING_VALUE));
        Some((rank, call, self.number(head::MEASURING_SINCE_MS)))
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        let mode = self.word(head::MODE).load(Ordering::Relaxed);
        u8::try_from(mode).ok().and_then(Mode::from_number).unwrap_or_default()
    }

    pub(super) fn course(&self) -> Course {
        Course {
            mode: self.mode(),
            position: Position { offset: self.number(head::OFFSET), end: self.number(head::END) },
            is_measured: self.word(head::IS_MEASURED).load(Ordering::Relaxed) != 0,
        }
    }

    pub(super) fn set_course(&self, course: &Course) {
        self.word(head::MODE).store(course.mode.number().into(), Ordering::Relaxed);
        self.put(head::OFFSET, course.position.offset);
        self.put(head::END, course.position.end);
        self.word(head::IS_MEASURED).store(course.is_measured.into(), Ordering::Relaxed);
    }
}
