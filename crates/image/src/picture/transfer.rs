//! Import and export of pictures: a row of tiles at a time, while the next one is read.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{Image, ImageState};
use crate::error::ImageError;
use crate::filter::{ImageWindow, Pixels};
use crate::formats::{RowSink, Rows};

/// Writes all rows of a picture to an image. `watch` receives the number of rows read.
pub fn import(
    image: &Image,
    rows: &mut dyn Rows,
    mut watch: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<(), ImageError> {
    let state = &*image.state;
    let whole = state.tiled.image();
    let (has, pixel) = (rows.size(), rows.pixel());
    if has != (whole.width.into(), whole.height.into()) || pixel != image.pixel() {
        return Err(ImageError::Invalid(format!(
            "{}: a picture of {} x {} pixels of {pixel} does not fit into {} x {} of {}",
            state.file.path(),
            has.0,
            has.1,
            whole.width,
            whole.height,
            image.pixel()
        )));
    }
    std::thread::scope(|scope| {
        // The channel holds nothing: two rows of tiles are in memory.
        let (sender, receiver) = sync_channel::<(ImageWindow, Pixels)>(0);
        let writer = scope.spawn(move || {
            let written =
                |(band, pixels): (ImageWindow, Pixels)| image.write(band.x, band.y, &pixels);
            receiver.iter().try_for_each(written)
        });
        let read = bands(state, whole).try_for_each(|band| {
            let mut pixels = Pixels::blank(band.width, band.height, pixel)?;
            for row in 0..band.height {
                rows.next_row(pixels.row_mut(row))?;
                if watch(u64::from(band.y + row) + 1).is_break() {
                    return Err(stopped("import"));
                }
            }
            // If the writer has ended, it failed, and its error is reported.
            sender.send((band, pixels)).map_err(|_| stopped("import"))
        });
        drop(sender);
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(read)
    })
}

/// Writes all rows of a window to a picture, and ends it. `watch` receives the number of rows
/// written.
pub fn export(
    image: &Image,
    window: ImageWindow,
    mut sink: Box<dyn RowSink>,
    mut watch: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<(), ImageError> {
    image.state.check(window)?;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(0);
        scope.spawn(move || read_ahead(image, window, &sender));
        let put = put_all(&receiver, &mut *sink, &mut watch);
        // This ends the reader.
        drop(receiver);
        put
    })?;
    Ok(sink.finish()?)
}

fn read_ahead(image: &Image, window: ImageWindow, sender: &SyncSender<Result<Pixels, ImageError>>) {
    for band in bands(&image.state, window) {
        let read = image.read(band);
        let is_last = read.is_err();
        if sender.send(read).is_err() || is_last {
            return;
        }
    }
}

fn put_all(
    bands: &Receiver<Result<Pixels, ImageError>>,
    sink: &mut dyn RowSink,
    watch: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<(), ImageError> {
    let mut done = 0;
    for band in bands {
        let pixels = band?;
        for row in 0..pixels.height() {
            sink.put_row(pixels.row(row))?;
            done += 1;
            if watch(done).is_break() {
                return Err(stopped("export"));
            }
        }
    }
    Ok(())
}

/// Returns the windows of the rows of tiles within a window.
fn bands(state: &ImageState, window: ImageWindow) -> impl Iterator<Item = ImageWindow> {
    let tiles = state.tiled.grid.parts(ImageWindow { width: 1, ..window });
    tiles.into_iter().map(move |part| {
        let ImageWindow { y, height, .. } = part.window;
        ImageWindow { y, height, ..window }
    })
}

/// Returns the error of a transfer that `watch` stopped.
pub fn stopped(what: &str) -> ImageError {
    ImageError::Cluster(pario::Error::Stopped { operation: format!("image {what}") })
}
