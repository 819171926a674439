//! The peer of the writes: a plain file, with the calls every program uses.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Creates an empty plain file.
pub fn create(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(path);
    file.with_context(|| format!("creating {}", path.display()))
}

/// Writes pieces one after the other with `pwrite`, `count` in all, then `fdatasync`.
pub fn write_and_sync(file: &File, pieces: &[Vec<u8>], count: u64) -> Result<()> {
    let mut position = 0;
    for (_, piece) in (0..count).zip(pieces.iter().cycle()) {
        file.write_all_at(piece, position)?;
        position += piece.len() as u64;
    }
    file.sync_data()?;
    Ok(())
}
