//! The mode of a table and its shared pointer.

use std::sync::atomic::Ordering;

use super::Table;
use super::encoding::{decode, encode};
use super::words::head;
use crate::modes::call::Call;
use crate::modes::course::Course;
use crate::modes::mode::Mode;
use crate::modes::position::{Placement, Position, Seek, Transfer};
use crate::modes::trouble::Trouble;

impl Table<'_> {
    // What needs the lock.

    /// A rank reads or writes where the shared pointer is, and waits for nobody.
    pub fn transfer(
        &self,
        transfer: Transfer,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<Placement, Trouble> {
        self.change(|course| course.is_unsure_of(transfer), measure, |c| c.transfer(transfer))
    }

    /// A rank moves the shared pointer, and waits for nobody.
    pub fn seek(
        &self,
        seek: Seek,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<u64, Trouble> {
        self.change(|_| Course::is_unsure_of_seek(seek), measure, |course| course.seek(seek))
    }

    fn change<R>(
        &self,
        is_unsure: impl FnOnce(&Course) -> bool,
        measure: impl FnOnce() -> Result<u64, String>,
        change: impl FnOnce(&mut Course) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let mut course = self.course();
        if is_unsure(&course) {
            course.measured(measure().map_err(|why| Trouble::NotMeasured { why })?);
        }
        let changed = change(&mut course);
        self.set_course(&course);
        changed
    }

    /// Finds out how long the file is, for a call of the rank that has the lock; meanwhile people
    /// are told of it.
    pub fn measuring<R>(&self, call: &Call, now_ms: u64, measure: impl FnOnce() -> R) -> R {
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
    pub fn may_close(&self) -> Result<(), Trouble> {
        self.course().close()
    }

    // What needs no lock.

    /// Where the shared pointer is, in modes that have one, as far as can be seen while it changes.
    pub fn shared_offset(&self) -> Option<u64> {
        self.course().shared_offset()
    }

    /// The call for which the size of the file is being found out, of whom, and since when, as far
    /// as can be seen while it changes.
    pub(super) fn measured_for(&self) -> Option<(u32, Call, u64)> {
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
