//! Damage: a flipped bit causes an error that names its object, or has no effect. It never causes wrong
//! data or a panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use pario_store::medium::MemoryMedium;
use pario_store::{
    Disk, DiskOptions, ExtentCache, ExtentFile, MAX_EXTENT_INDEX, NewSubfile, StoreError, SubfileId,
};

const ID: SubfileId = SubfileId::data(0xdada, 7);
const INDICES: u64 = 400;

type Model = BTreeMap<u64, Vec<u8>>;

fn options() -> DiskOptions {
    DiskOptions {
        background: false,
        cache: ExtentCache::new(0),
        journal_bytes: 8 << 10,
        ..DiskOptions::default()
    }
}

/// A subfile with a history: written, replaced, deleted, checkpointed.
fn filled(rng: &mut Rng, clean: bool) -> (MemoryMedium, Model) {
    let memory = MemoryMedium::untracked();
    let disk = Disk::create_on(Arc::new(memory.clone()), options()).unwrap();
    let new = NewSubfile { granule_bytes: 512, ..NewSubfile::new(ID) };
    let file = disk.create_extents(new).unwrap();
    let mut model = Model::new();
    for _ in 0..1_500 {
        let index = rng.u64(..INDICES);
        if rng.u8(..4) == 0 {
            file.delete(index).unwrap();
            model.remove(&index);
        } else {
            let body: Vec<u8> = (0..rng.usize(..900)).map(|_| rng.u8(..)).collect();
            file.write(index, &index.to_le_bytes(), &body).unwrap();
            model.insert(index, body);
        }
    }
    file.sync().unwrap();
    if clean {
        file.close().unwrap();
    }
    (memory, model)
}

fn open(memory: &MemoryMedium) -> Result<(Disk, ExtentFile), StoreError> {
    let disk = Disk::open_on(Arc::new(memory.clone()), options())?;
    let file = disk.open_extents(ID)?;
    Ok((disk, file))
}

/// Whether an error names its object.
fn is_clear(error: &StoreError) -> bool {
    let text = error.to_string();
    text.contains("memory")
        && match error {
            StoreError::Damaged { subfile, .. } => *subfile == ID,
            StoreError::NotASubfile { .. } | StoreError::NewerVersion { .. } => true,
            StoreError::NotADisk { .. } | StoreError::NotFound { .. } => true,
            _ => false,
        }
}

/// Reads all extents; returns whether damage was detected.
fn examine(memory: &MemoryMedium, model: &Model) -> bool {
    let (_disk, file) = match open(memory) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(is_clear(&error), "{error}");
            return true;
        }
    };
    let mut noticed = false;
    for index in 0..INDICES {
        match file.read(index) {
            Ok(found) => {
                let found = found.map(|extent| extent.body().to_vec());
                assert_eq!(found.as_ref(), model.get(&index), "extent {index}");
            }
            Err(error) => {
                assert!(is_clear(&error), "{error}");
                noticed = true;
            }
        }
    }
    let mut listed = Vec::new();
    for info in file.list(0..=MAX_EXTENT_INDEX) {
        match info {
            Ok(info) => listed.push(info.index),
            Err(error) => {
                assert!(is_clear(&error), "{error}");
                noticed = true;
                break;
            }
        }
    }
    assert!(noticed || listed.iter().eq(model.keys()));
    noticed
}

fn flip_bits(clean: bool, flips: usize) {
    let mut rng = Rng::with_seed(u64::from(clean));
    let (memory, model) = filled(&mut rng, clean);
    assert!(!examine(&memory.duplicate(), &model));
    let paths = memory.file_paths();
    let mut noticed = 0;
    for _ in 0..flips {
        let path = rng.choice(&paths).unwrap();
        let damaged = memory.duplicate();
        let mut bytes = memory.bytes(path).unwrap();
        let at = rng.usize(..bytes.len());
        bytes[at] ^= 1 << rng.u8(..8);
        damaged.set_bytes(path, bytes).unwrap();
        noticed += usize::from(examine(&damaged, &model));
    }
    // The rest hit free space, old pages, padding.
    assert!(noticed > flips / 5, "{noticed} of {flips} flips were noticed");
}

#[test]
fn flipped_bits_after_a_close_are_found() {
    flip_bits(true, 1_500);
}

#[test]
fn flipped_bits_after_a_sync_are_found() {
    flip_bits(false, 1_500);
}

#[test]
fn every_byte_of_a_live_extent_is_guarded() {
    let mut rng = Rng::with_seed(5);
    let (memory, model) = filled(&mut rng, true);
    let data = memory.file_paths().into_iter().find(|path| path.ends_with("/data")).unwrap();
    let (&index, body) = model.iter().find(|(_, body)| body.len() > 700).unwrap();
    let bytes = memory.bytes(&data).unwrap();
    let header = index.to_le_bytes();
    let block = bytes.chunks(512).position(|block| {
        block[64..].starts_with(&header) && block[72..].starts_with(&body[..256])
    });
    let start = block.unwrap() * 512;
    for at in start..start + 72 + body.len() {
        let damaged = memory.duplicate();
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        damaged.set_bytes(&data, bytes).unwrap();
        let (_disk, file) = open(&damaged).unwrap();
        match file.read(index) {
            Err(StoreError::Damaged { extent: Some(found), .. }) if found == index => {}
            other => panic!("byte {at}: {other:?}"),
        }
        let other = model.keys().find(|&&other| other != index).unwrap();
        assert!(file.read(*other).unwrap().is_some());
    }
}

#[test]
fn a_file_cut_short_or_missing_is_found() {
    let mut rng = Rng::with_seed(6);
    let (memory, model) = filled(&mut rng, true);
    for path in memory.file_paths() {
        let bytes = memory.bytes(&path).unwrap();
        for len in [0, 1, 511, 4_096, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let damaged = memory.duplicate();
            damaged.set_bytes(&path, bytes[..len.min(bytes.len())].to_vec()).unwrap();
            examine(&damaged, &model);
        }
        if !path.ends_with("pario.disk") {
            let damaged = memory.duplicate();
            pario_store::medium::Medium::remove_file(&damaged, &path).unwrap();
            assert!(examine(&damaged, &model), "{path}");
        }
    }
}

#[test]
fn swapped_extents_are_found() {
    let memory = MemoryMedium::untracked();
    let disk = Disk::create_on(Arc::new(memory.clone()), options()).unwrap();
    let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
    file.write(1, b"one", &[1; 100]).unwrap();
    file.write(2, b"two", &[2; 100]).unwrap();
    file.close().unwrap();
    drop(disk);
    let data = memory.file_paths().into_iter().find(|path| path.ends_with("/data")).unwrap();
    let mut bytes = memory.bytes(&data).unwrap();
    let (first, second) = bytes.split_at_mut(4096);
    first.swap_with_slice(&mut second[..4096]);
    memory.set_bytes(&data, bytes).unwrap();
    let (_disk, file) = open(&memory).unwrap();
    for index in [1, 2] {
        let error = file.read(index).unwrap_err();
        assert!(error.to_string().contains(&format!("extent {index}")), "{error}");
    }
}
