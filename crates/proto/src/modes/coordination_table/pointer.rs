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
    // What needs the lock.

    /// A rank reads or writes where the shared pointer is, and waits for nobody.
    pub fn transfer(
        &self,
        transfer: Transfer,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<AccessRange, CollectiveError> {
        self.change(|course| course.needs_size_for(transfer), measure, |c| c.transfer(transfer))
    }

    /// A rank moves the shared pointer, and waits for nobody.
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

    /// Finds out how long the file is, for a call of the rank that has the lock; meanwhile people
    /// are told of it.
    pub fn measure_for<R>(&self, call: &Call, now_ms: u64, measure: impl FnOnce() -> R) -> R {
        let (kind, flags, value) = encode(call);
        self.word(head::MEASURING_FLAGS).store(flags, Ordering::Relaxed);
        self.put(head::MEASURING_VALUE, value);
        self.put(head::MEASURING_SINCE_MS, now_ms);
        self.word(head::MEASURING).store(kind, Ordering::Release);
        let measured = measure();
        self.word(head::MEASURING).store(0, Ordering::Release);
        measured
    }

    /// Where the shared pointer is.
    pub fn offset(&self) -> u64 {
        self.number(head::OFFSET)
    }

    /// Whether a rank may close the file, and wait for nobody.
    pub fn check_close(&self) -> Result<(), CollectiveError> {
        self.course().check_close()
    }

    // What needs no lock.

    /// Where the shared pointer is, in modes that have one, as far as can be seen while it changes.
    pub fn shared_offset(&self) -> Option<u64> {
        self.course().shared_offset()
    }

    /// The call for which the size of the file is being found out, of whom, and since when, as far
    /// as can be seen while it changes.
    pub(super) fn measuring_call(&self) -> Option<(u32, Call, u64)> {
        let kind = self.word(head::MEASURING).load(Ordering::Acquire);
        let rank = self.holder().filter(|rank| kind != 0 && !self.is_lost(*rank))?;
        let flags = self.word(head::MEASURING_FLAGS).load(Ordering::Relaxed);
        let call = decode(kind, flags, self.number(head::MEASURING_VALUE));
        Some((rank, call, self.number(head::MEASURING_SINCE_MS)))
    }

    /// The mode, as far as can be seen while it changes.
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
