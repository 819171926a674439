//! One-sided reads and writes, as callers see them.

use std::ops::Range;

use super::caller_memory::CallerMemory;
use super::error::RecordError;
use super::file::RecordFile;
use super::part_request::PartAction;
use super::record::RecordId;
use super::request::Pending;

impl RecordFile {
    /// Reads a byte range of a record. Bytes that were never written are zero.
    pub fn read(
        &self,
        bytes: &mut [u8],
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        self.read_strided(bytes, 1, record, range)
    }

    /// Writes a byte range of a record.
    pub fn write(
        &self,
        bytes: &[u8],
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        self.write_strided(bytes, 1, record, range)
    }

    /// Reads bytes to memory with gaps: byte `i` of the range goes to `bytes[stride * i]`, and the
    /// bytes between stay unchanged.
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
        let memory = CallerMemory::bytes(bytes.as_mut_ptr(), stride);
        // SAFETY: the slice has room for the whole range and is borrowed until the call returns.
        unsafe { self.transfer(PartAction::Read, record, range, memory) }
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
        let memory = CallerMemory::bytes(bytes.as_ptr().cast_mut(), stride);
        // SAFETY: as in `read_strided`; a write only reads the memory.
        unsafe { self.transfer(PartAction::Write, record, range, memory) }
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
        let place = CallerMemory::bytes(memory.as_mut_ptr(), 1);
        // SAFETY: the request keeps the memory, which does not move, until it is complete.
        unsafe { self.start_transfer(PartAction::Read, record, range, place, memory) }
    }

    /// Starts to write from memory that is as long as the range. The memory is the result.
    pub fn start_write(
        &self,
        mut memory: Vec<u8>,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<Vec<u8>>, RecordError> {
        check_room(&range, memory.len(), 1)?;
        let place = CallerMemory::bytes(memory.as_mut_ptr(), 1);
        // SAFETY: as in `start_read`.
        unsafe { self.start_transfer(PartAction::Write, record, range, place, memory) }
    }

    /// Reads to memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is writable for every byte `i` of the range, and no other
    /// thread uses it during the call.
    pub unsafe fn read_to(
        &self,
        memory: *mut u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        // SAFETY: the caller guarantees it.
        unsafe {
            self.transfer(PartAction::Read, record, range, CallerMemory::bytes(memory, stride))
        }
    }

    /// Writes from memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is readable for every byte `i` of the range, and does not
    /// change during the call.
    pub unsafe fn write_from(
        &self,
        memory: *const u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        let memory = CallerMemory::bytes(memory.cast_mut(), stride);
        // SAFETY: the caller guarantees it, and a write only reads the memory.
        unsafe { self.transfer(PartAction::Write, record, range, memory) }
    }

    /// Starts to read to memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is writable for every byte `i` of the range, and no other
    /// thread uses it until the request is complete: until its result was taken, or it was dropped.
    pub unsafe fn start_read_to(
        &self,
        memory: *mut u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<()>, RecordError> {
        check_stride(stride)?;
        let memory = CallerMemory::bytes(memory, stride);
        // SAFETY: the caller guarantees it.
        unsafe { self.start_transfer(PartAction::Read, record, range, memory, ()) }
    }

    /// Starts to write from memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is readable for every byte `i` of the range, and does not
    /// change until the request is complete: until its result was taken, or it was dropped.
    pub unsafe fn start_write_from(
        &self,
        memory: *const u8,
        stride: usize,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<()>, RecordError> {
        check_stride(stride)?;
        let memory = CallerMemory::bytes(memory.cast_mut(), stride);
        // SAFETY: the caller guarantees it, and a write only reads the memory.
        unsafe { self.start_transfer(PartAction::Write, record, range, memory, ()) }
    }

    /// Waits until all accesses that this process has started on the file are done. Each request
    /// returns its own result.
    pub fn wait_for_all(&self) {
        self.file.wait_for_all();
    }
}

/// Checks that a caller's memory has the length that a range needs.
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
        "bytes {start} to {} of the record need {needed} bytes of memory at a stride of {stride}; \
         the caller gave {room}",
        end - 1
    )))
}

/// Fails for a stride of 0.
pub(super) fn check_stride(stride: usize) -> Result<(), RecordError> {
    if stride == 0 {
        let text = "the access has a stride of 0; give 1 for memory without gaps".to_owned();
        return Err(RecordError::Invalid(text));
    }
    Ok(())
}
