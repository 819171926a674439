//! Writing pixels: tiles that are covered as a whole, and parts of tiles.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use pario::operation::ExtentBytes;

use super::ImageState;
use crate::error::ImageError;
use crate::filter::{ImageWindow, Pixels, TilePart};

/// Tiles that are written at the same time.
const UNDER_WAY: usize = 4;

/// Writes pixels from a position on.
pub fn write(state: &ImageState, x: u32, y: u32, pixels: &Pixels) -> Result<(), ImageError> {
    let (path, pixel) = (state.file.path(), state.tiled.description.pixel);
    if pixels.pixel() != pixel {
        let given = pixels.pixel();
        let text = format!("{path}: it has pixels of {pixel}, {given} cannot be written to it");
        return Err(ImageError::Invalid(text));
    }
    let window = ImageWindow { x, y, ..pixels.window() };
    state.check(window)?;
    let parts = state.tiled.grid.parts(window);
    let threads = UNDER_WAY.min(parts.len());
    let waiting = Mutex::new(parts.into_iter());
    let has_failed = AtomicBool::new(false);
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        waiting.next().filter(|_| !has_failed.load(Ordering::Relaxed))
    };
    let work = || {
        while let Some(part) = next() {
            if let Err(error) = write_part(state, window, part, pixels) {
                has_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    if threads == 1 {
        return work();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(Ok(()), Result::and)
    })
}

/// Writes the part of a window that lies in a tile.
fn write_part(
    state: &ImageState,
    window: ImageWindow,
    TilePart { tile, window: part }: TilePart,
    pixels: &Pixels,
) -> Result<(), ImageError> {
    let tiled = &state.tiled;
    let outside = |error: pario_proto::OutsideError| ImageError::Invalid(error.to_string());
    let place = tiled.tiles.locate(tile).map_err(outside)?;
    let whole = tiled.grid.tile(tile).unwrap_or(part);
    let from = ImageWindow { x: part.x - window.x, y: part.y - window.y, ..part };
    let all = if part == whole {
        pixels.cut(from)?
    } else {
        let extent = state.file.read_extent(place)?;
        let stored =
            extent.as_ref().map(|found| ExtentBytes { header: &found.header, body: &found.body });
        let mut all = tiled.pixels(whole, stored, &mut Vec::new()).map_err(|why| {
            ImageError::other(state.file.path(), format!("the tile at {tile}: {why}"))
        })?;
        all.paste_window(part.x - whole.x, part.y - whole.y, pixels, from)?;
        all
    };
    let (header, body) = tiled.description.compression.pack(all.data());
    Ok(state.file.write_extent(&header, &body, place)?)
}
