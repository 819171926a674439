//! Changes the files of an extent subfile in any way: opening and using it gives errors or data,
//! never a panic, in bounded time.
//!
//! The input is a list of edits of a well-formed disk. A checksum would stop nearly all of them at
//! once, so an edit may also correct the checksum that covers it.

#![no_main]

use std::sync::{Arc, OnceLock};

use crc_fast::{CrcAlgorithm, checksum};
use libfuzzer_sys::fuzz_target;
use pario_store::medium::{Medium, MemoryMedium};
use pario_store::{CheckDepth, Disk, DiskOptions, ExtentCache, NewSubfile, StoreError, SubfileId};

const ID: SubfileId = SubfileId::data(0xf022, 1);
const EDIT_BYTES: usize = 8;

fn options() -> DiskOptions {
    DiskOptions {
        background: false,
        cache: ExtentCache::new(0),
        index_cache_bytes: 256 << 10,
        journal_bytes: 4 << 10,
        ..DiskOptions::default()
    }
}

/// A disk with a checkpoint and changes after it.
fn image() -> &'static MemoryMedium {
    static IMAGE: OnceLock<MemoryMedium> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let memory = MemoryMedium::untracked();
        let disk = Disk::create_on(Arc::new(memory.clone()), options()).unwrap();
        let new = NewSubfile { granule_bytes: 512, ..NewSubfile::new(ID) };
        let file = disk.create_extents(new).unwrap();
        for round in 0..3 {
            for index in 0..150u64 {
                let len = (index * 37 + round * 101) % 700;
                file.write(index * index, b"head", &vec![round as u8; len as usize]).unwrap();
            }
            for index in (0..150u64).step_by(7) {
                file.delete(index * index).unwrap();
            }
        }
        file.clone().close().unwrap();
        for index in 0..20 {
            file.write(index, b"", &[7; 100]).unwrap();
        }
        file.sync().unwrap();
        file.write(5, b"", b"not synced").unwrap();
        memory
    })
}

/// Sets one byte, and perhaps the checksum that covers it.
fn apply(memory: &MemoryMedium, edit: &[u8]) {
    let paths = memory.file_paths();
    let path = &paths[edit[0] as usize % paths.len()];
    let mut bytes = memory.bytes(path).unwrap();
    let at = u32::from_le_bytes([edit[1], edit[2], edit[3], 0]) as usize;
    if edit[4] & 0x80 != 0 {
        bytes.truncate(at.min(bytes.len()));
    } else if !bytes.is_empty() {
        let at = at % bytes.len();
        bytes[at] = edit[5];
        let page = at / 4096 * 4096;
        let (sum_at, from, to) = match edit[4] % 5 {
            // A page of the index, a superblock or the head of another file, a journal record.
            1 => (page, page + 8, page + 4096),
            2 => (page + 8, page + 16, page + 4096),
            3 => (at / 64 * 64, at / 64 * 64 + 8, at / 64 * 64 + 64),
            4 => (8, 16, 64 + usize::from(edit[6])),
            _ => (0, 0, 0),
        };
        if from < to && to <= bytes.len() {
            let sum = checksum(CrcAlgorithm::Crc64Nvme, &bytes[from..to]);
            bytes[sum_at..sum_at + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    memory.set_bytes(path, bytes).unwrap();
}

fn use_subfile(memory: &MemoryMedium) -> Result<(), StoreError> {
    let disk = Disk::open_on(Arc::new(memory.clone()), options())?;
    for found in disk.subfiles()? {
        let _ = found.description;
    }
    let file = disk.open_extents(ID)?;
    let indices: Vec<u64> = file.list(0..=u64::MAX).take(600).flatten().map(|i| i.index).collect();
    for &index in &indices {
        let _ = file.read(index);
    }
    let _ = file.check(CheckDepth::Index);
    for &index in indices.iter().step_by(17) {
        let _ = file.write(index, b"new", &[1; 700]);
        let _ = file.delete(index + 1);
    }
    file.sync()?;
    let _ = file.compact();
    file.close()?;
    Ok(())
}

fuzz_target!(|input: &[u8]| {
    let memory = image().duplicate();
    memory.set_capacity(64 << 20);
    for edit in input.chunks_exact(EDIT_BYTES).take(24) {
        apply(&memory, edit);
    }
    let _ = use_subfile(&memory);
    memory.kill();
    let _ = use_subfile(&memory);
    let _ = memory.space();
});
