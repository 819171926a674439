//! One-sided reading and writing, as callers see it.

use std::ops::Range;

use super::error::RecordError;
use super::file::RecordFile;
use super::memory::Memory;
use super::order::Work;
use super::record::RecordId;
use super::request::Pending;

impl RecordFile {
    /// Reads a range of bytes of a record. Bytes that no rank has written are zero.
    pub fn read(
        &self,
        bytes: &mut [u8],
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        self.read_strided(bytes, 1, record, range)
    }

    /// Writes a range of bytes of a record.
    pub fn write(
        &self,
        bytes: &[u8],
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        self.write_strided(bytes, 1, record, range)
    }

    /// Reads bytes to memory with gaps: byte `i` of the range goes to `bytes[stride * i]`, and what
    /// is between stays as it is.
    ///
    /// ```
    /// # use pario_records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario_team::Team::meet("strides", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let record = file.create_record(10)?;
    /// file.write(b"abc", record, 4..7)?;
    /// let mut pixels = *b"rgbrgbrgb";
    /// file.read_strided(&mut pixels, 3, record, 4..7)?;
    /// assert_eq!(&pixels, b"agbbgbcgb");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_strided(
        &self,
        bytes: &mut [u8],
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_room(&range, bytes.len(), stride)?;
        let memory = Memory::bytes(bytes.as_mut_ptr(), stride);
        // SAFETY: there is room for all bytes of the range, and the memory is lent until it is
        // over.
        unsafe { self.move_now(Work::Read, record, range, memory) }
    }

    /// Writes bytes from memory with gaps: byte `i` of the range comes from `bytes[stride * i]`.
    pub fn write_strided(
        &self,
        bytes: &[u8],
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_room(&range, bytes.len(), stride)?;
        let memory = Memory::bytes(bytes.as_ptr().cast_mut(), stride);
        // SAFETY: as in `read_strided`; it is only read.
        unsafe { self.move_now(Work::Write, record, range, memory) }
    }

    /// Starts to read into memory that is as long as the range. The memory is the result.
    ///
    /// ```
    /// # use pario_records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario_team::Team::meet("started", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let record = file.create_record(1 << 20)?;
    /// let writing = file.start_write(b"abc".to_vec(), record, 0..3)?;
    /// // ... compute ...
    /// let memory = writing.wait()?;
    /// let bytes = file.start_read(memory, record, 0..3)?.wait()?;
    /// assert_eq!(bytes, b"abc");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_read(
        &self,
        mut memory: Vec<u8>,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<Vec<u8>>, RecordError> {
        check_room(&range, memory.len(), 1)?;
        let place = Memory::bytes(memory.as_mut_ptr(), 1);
        // SAFETY: the access keeps the memory, which does not move, until it is over.
        unsafe { self.start(Work::Read, record, range, place, memory) }
    }

    /// Starts to write from memory that is as long as the range. The memory is the result.
    pub fn start_write(
        &self,
        mut memory: Vec<u8>,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<Vec<u8>>, RecordError> {
        check_room(&range, memory.len(), 1)?;
        let place = Memory::bytes(memory.as_mut_ptr(), 1);
        // SAFETY: as in `start_read`.
        unsafe { self.start(Work::Write, record, range, place, memory) }
    }

    /// Reads to memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and is used by
    /// nobody else meanwhile.
    pub unsafe fn read_to(
        &self,
        memory: *mut u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        // SAFETY: the caller says so.
        unsafe { self.move_now(Work::Read, record, range, Memory::bytes(memory, stride)) }
    }

    /// Writes from memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and is changed by
    /// nobody meanwhile.
    pub unsafe fn write_from(
        &self,
        memory: *const u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        let memory = Memory::bytes(memory.cast_mut(), stride);
        // SAFETY: the caller says so, and it is only read.
        unsafe { self.move_now(Work::Write, record, range, memory) }
    }

    /// Starts to read to memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and no other code
    /// uses it until the request is over: until its result was taken, or it was dropped.
    pub unsafe fn start_read_to(
        &self,
        memory: *mut u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<()>, RecordError> {
        check_stride(stride)?;
        let memory = Memory::bytes(memory, stride);
        // SAFETY: the caller says so.
        unsafe { self.start(Work::Read, record, range, memory, ()) }
    }

    /// Starts to write from memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and no other code
    /// changes it until the request is over: until its result was taken, or it was dropped.
    pub unsafe fn start_write_from(
        &self,
        memory: *const u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<()>, RecordError> {
        check_stride(stride)?;
        let memory = Memory::bytes(memory.cast_mut(), stride);
        // SAFETY: the caller says so, and it is only read.
        unsafe { self.start(Work::Write, record, range, memory, ()) }
    }

    /// Waits until everything is over that this process has started on the file. What came of it,
    /// each request says.
    pub fn wait_for_all(&self) {
        self.shared.wait_for_all();
    }
}

/// Whether memory has room for a range.
fn check_room(range: &Range<u64>, room: usize, stride: usize) -> Result<(), RecordError> {
    check_stride(stride)?;
    if range.is_empty() {
        return Ok(());
    }
    let Range { start, end } = *range;
    let needed = u128::from(end - start - 1) * stride as u128 + 1;
    let is_right = if stride == 1 { needed == room as u128 } else { needed <= room as u128 };
    if is_right {
        return Ok(());
    }
    Err(RecordError::Invalid(format!(
        "bytes {start} to {} of a record with a stride of {stride} are {needed} bytes of memory, \
         and {room} were given",
        end - 1
    )))
}

/// Strides begin at 1.
pub(super) fn check_stride(stride: usize) -> Result<(), RecordError> {
    if stride == 0 {
        let text = "a stride of 0: 1 means that the memory has no gaps".to_owned();
        return Err(RecordError::Invalid(text));
    }
    Ok(())
}
