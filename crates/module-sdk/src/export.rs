//! The exported functions of a module, as docs/operations.md describes them byte by byte. The code
//! that the attribute generates calls them.
//!
//! A module has one thread, so the statics below are never used by two at the same time.

use std::cell::UnsafeCell;

use crate::{Extent, Neighbour, Output, Parameters, Placement, Task};

/// The version of the interface.
pub const VERSION: i32 = 1;

/// A value that only the one thread of the module uses.
struct OneThread<T>(UnsafeCell<T>);

// SAFETY: a module without the feature `threads` of WebAssembly has one thread.
unsafe impl<T> Sync for OneThread<T> {}

/// The task of this instance.
pub struct TaskSlot<T>(OneThread<Option<T>>);

/// Sixteen bytes with the alignment of inputs.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Block([u8; 16]);

#[derive(Clone, Copy)]
#[repr(C)]
struct Bytes {
    data: *const u8,
    len: u32,
}

#[repr(C)]
struct InputRecord {
    parameters: Bytes,
    header: Bytes,
    body: Bytes,
    selection: Bytes,
    neighbours: *const Bytes,
    neighbour_count: u32,
    subfiles: u32,
    is_present: u32,
    subfile: u32,
    reserved: u32,
    extent: u64,
}

#[repr(C)]
struct OutputRecord {
    kind: u32,
    subfile: u32,
    extent: u64,
    header: Bytes,
    body: Bytes,
}

const _: () = assert!(size_of::<InputRecord>() == 64 && size_of::<OutputRecord>() == 32);

/// The last output, with the bytes that its record points to.
struct LastOutput {
    record: OutputRecord,
    header: Vec<u8>,
    body: Vec<u8>,
}

static INPUT: OneThread<Vec<Block>> = OneThread(UnsafeCell::new(Vec::new()));
static LAST_OUTPUT: OneThread<LastOutput> = OneThread(UnsafeCell::new(LastOutput {
    record: OutputRecord {
        kind: 0,
        subfile: 0,
        extent: 0,
        header: Bytes { data: std::ptr::null(), len: 0 },
        body: Bytes { data: std::ptr::null(), len: 0 },
    },
    header: Vec::new(),
    body: Vec::new(),
}));

impl<T> TaskSlot<T> {
    /// A slot without a task.
    pub const fn new() -> Self {
        Self(OneThread(UnsafeCell::new(None)))
    }

    /// # Safety
    /// The caller must not hold another reference to the task.
    #[expect(clippy::mut_from_ref, reason = "the module has one thread")]
    unsafe fn get(&self) -> Result<&mut T, String> {
        // SAFETY: the caller holds no other reference.
        let task = unsafe { &mut *self.0.0.get() };
        task.as_mut().ok_or_else(|| "the node has not prepared the task".to_owned())
    }
}

impl<T> Default for TaskSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns memory for an input.
pub fn pario_alloc(length: u32) -> u32 {
    // SAFETY: the node holds no reference to the input before, and this module has one thread.
    let input = unsafe { &mut *INPUT.0.get() };
    let blocks = length as usize / size_of::<Block>() + 1;
    if input.len() < blocks {
        *input = Vec::new();
        input.resize(blocks, Block([0; 16]));
    }
    input.as_mut_ptr() as u32
}

/// # Safety
/// `input` is the address of an input record. The same holds for all functions below.
pub unsafe fn pario_prepare<T: Task>(slot: &TaskSlot<T>, input: u32) -> u32 {
    // SAFETY: the caller passes a record.
    let input = unsafe { record(input) };
    // SAFETY: the record describes bytes of this memory.
    let prepared = T::prepare(&Parameters::new(unsafe { bytes(input.parameters) }));
    finish_with(prepared.map(|task| {
        // SAFETY: no other function of the module runs.
        unsafe { *slot.0.0.get() = Some(task) };
        Output::Nothing
    }))
}

/// # Safety
/// See [`pario_prepare`].
pub unsafe fn pario_process<T: Task>(slot: &TaskSlot<T>, input: u32) -> u32 {
    // SAFETY: the caller passes a record, and no other function of the module runs.
    finish_with(unsafe { slot.get().and_then(|task| task.process(&extent(record(input)))) })
}

/// # Safety
/// See [`pario_prepare`].
pub unsafe fn pario_process_absent<T: Task>(slot: &TaskSlot<T>, input: u32) -> u32 {
    // SAFETY: the caller passes a record, and no other function of the module runs.
    finish_with(unsafe { slot.get().and_then(|task| task.process_absent(&extent(record(input)))) })
}

/// # Safety
/// See [`pario_prepare`].
pub unsafe fn pario_neighbours<T: Task>(slot: &TaskSlot<T>, input: u32) -> u32 {
    // SAFETY: the caller passes a record, and no other function of the module runs.
    let listed = unsafe { slot.get().and_then(|task| task.neighbours(&extent(record(input)))) };
    finish_with(listed.map(|listed| Output::Result(encode_neighbours(&listed))))
}

/// # Safety
/// See [`pario_prepare`].
pub unsafe fn pario_cut<T: Task>(_: &TaskSlot<T>, input: u32) -> u32 {
    // SAFETY: the caller passes a record.
    let input = unsafe { record(input) };
    // SAFETY: the record describes bytes of this memory.
    let cut = unsafe { T::cut(bytes(input.selection), &extent(input)) };
    finish_with(cut.map(Output::Result))
}

/// # Safety
/// See [`pario_prepare`].
pub unsafe fn pario_finish<T: Task>(slot: &TaskSlot<T>, _: u32) -> u32 {
    // SAFETY: no other function of the module runs.
    let finished = unsafe { slot.get() }.and_then(Task::finish);
    finish_with(finished.map(|result| result.map_or(Output::Nothing, Output::Result)))
}

/// # Safety
/// See [`pario_prepare`].
pub unsafe fn pario_merge<T: Task>(slot: &TaskSlot<T>, input: u32) -> u32 {
    // SAFETY: the caller passes a record, and no other function of the module runs.
    let merged = unsafe { slot.get().and_then(|task| task.merge(bytes(record(input).body))) };
    finish_with(merged.map(|()| Output::Nothing))
}

/// # Safety
/// `address` is that of an input record.
unsafe fn record<'a>(address: u32) -> &'a InputRecord {
    // SAFETY: the node has written the record into memory of `pario_alloc`, which is aligned.
    unsafe { &*(address as *const InputRecord) }
}

/// # Safety
/// The run must be part of an input record.
unsafe fn bytes<'a>(run: Bytes) -> &'a [u8] {
    if run.len == 0 {
        return &[];
    }
    // SAFETY: the node has written the bytes, and changes them only before the next call.
    unsafe { std::slice::from_raw_parts(run.data, run.len as usize) }
}

/// # Safety
/// The record must be an input record.
unsafe fn extent(input: &InputRecord) -> Extent<'_> {
    let count = input.neighbour_count as usize;
    let neighbours: &[Bytes] = match count {
        0 => &[],
        // SAFETY: the node has written the table.
        count => unsafe { std::slice::from_raw_parts(input.neighbours, count) },
    };
    Extent {
        placement: Placement { subfile: input.subfile, extent: input.extent },
        subfiles: input.subfiles,
        is_present: input.is_present != 0,
        // SAFETY: the record describes bytes of this memory.
        header: unsafe { bytes(input.header) },
        // SAFETY: the same.
        body: unsafe { bytes(input.body) },
        // SAFETY: the same.
        neighbours: neighbours.iter().map(|run| unsafe { bytes(*run) }).collect(),
    }
}

fn encode_neighbours(listed: &[Neighbour]) -> Vec<u8> {
    let mut list = Vec::new();
    for Neighbour { placement, selection } in listed {
        list.extend(placement.subfile.to_le_bytes());
        list.extend((selection.len() as u32).to_le_bytes());
        list.extend(placement.extent.to_le_bytes());
        list.extend(selection);
        list.resize(list.len().next_multiple_of(8), 0);
    }
    list
}

/// Keeps the output until the next call, and returns the address of its record.
fn finish_with(output: Result<Output, String>) -> u32 {
    // SAFETY: the module has one thread, and the node has read the output before.
    let last = unsafe { &mut *LAST_OUTPUT.0.get() };
    let (kind, placement, header, body) = match output {
        Ok(Output::Nothing) => return 0,
        Ok(Output::Result(body)) => (1, Placement::default(), Vec::new(), body),
        Ok(Output::Extent { placement, header, body }) => (2, placement, header, body),
        Err(text) => (3, Placement::default(), Vec::new(), text.into_bytes()),
    };
    let run = |bytes: &Vec<u8>| Bytes { data: bytes.as_ptr(), len: bytes.len() as u32 };
    last.record = OutputRecord {
        kind,
        subfile: placement.subfile,
        extent: placement.extent,
        header: run(&header),
        body: run(&body),
    };
    (last.header, last.body) = (header, body);
    &raw const last.record as u32
}
