//! Two-dimensional images: cut into tiles, one extent each, on many disks. The nodes compute with
//! the tiles on their disks.
//!
//! Nodes and clients share `tiled_image`. `window_operation`, `resample_operation`,
//! `filter_operation`, `pixelwise_operation` and `measure_operation` run at the nodes; `scaling`
//! says which part of a change of scale they compute, `sparsity` which tiles a filter can skip.
//! `writing` and `transfer` run at the client.

mod filter_operation;
mod measure_operation;
mod options;
mod pixelwise_operation;
mod resample_operation;
mod scaling;
mod sparsity;
mod tiled_image;
mod transfer;
mod window_operation;
mod writing;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use pario::{Cluster, File, ProcessCall, ProcessReport};
use pario_proto::Tiles;

pub(crate) use filter_operation::FilterOperation;
pub(crate) use measure_operation::{MeasureOperation, MeasureScratch, Measurement, Quantity};
pub use options::ImageOptions;
pub(crate) use pixelwise_operation::PixelwiseOperation;
pub(crate) use resample_operation::ResampleOperation;
pub(crate) use window_operation::WindowOperation;

use crate::error::ImageError;
use crate::filter::{Edge, Filter, ImageWindow, Pixels};
use crate::formats::{RowSink, Rows};
use crate::node::{self, bad_result};
use crate::pixel::Pixel;
use crate::pixelwise::{Bins, Histogram, Pixelwise, Summary};
use crate::resample::{AffineMap, Canvas, Contribution, Resampling, Sampling};
use crate::stored::{ImageDescription, ImageLayout, StoredDescription, read_description};
use filter_operation::{FilterCall, Sparsity};
use measure_operation::MeasureCall;
use pixelwise_operation::PixelwiseCall;
use resample_operation::ResampleCall;
use scaling::ScalingPlan;
use tiled_image::TiledImage;
use window_operation::WindowCall;

/// An image on a cluster. Clones are the same image; any number of threads may use them.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use pario_image::{Compression, Edge, Filter, ImageOptions, ImageWindow, Pixel, Pixels};
///
/// let cluster = pario::Cluster::embedded(dir.path())?;
/// let options = ImageOptions::new([60_000, 40_000], Pixel::RGB).compression(Compression::Lz4);
/// let sky = options.create(&cluster, "/sky")?; // unwritten pixels are 0
/// let star = Pixels::new(1, 1, Pixel::RGB, vec![250, 240, 200])?;
/// sky.write(30_000, 20_000, &star)?;
///
/// // The nodes read and write only the tiles within reach of the star.
/// let soft = sky.apply(&Filter::Dilation { radius: 2 }, Edge::Clamp, "/soft")?;
/// let window = ImageWindow { x: 29_990, y: 19_990, width: 20, height: 20 };
/// let bright = soft.read(window)?.data().iter().filter(|byte| **byte > 0).count();
/// assert_eq!(bright, 5 * 5 * 3);
/// assert_eq!(soft.summary()?.channels()[0].maximum, 250.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Image {
    state: Arc<ImageState>,
}

struct ImageState {
    cluster: Cluster,
    file: File,
    tiled: TiledImage,
    layout: ImageLayout,
}

impl ImageState {
    /// Fails if a window is not in the image.
    fn check(&self, window: ImageWindow) -> Result<(), ImageError> {
        let image = self.tiled.image();
        if !window.is_empty() && image.contains(window) {
            return Ok(());
        }
        Err(ImageError::Invalid(format!(
            "{}: {window} are not in an image of {} x {}",
            self.file.path(),
            image.width,
            image.height
        )))
    }
}

impl Image {
    /// Opens an image for reading.
    pub fn open(cluster: &Cluster, path: &str) -> Result<Self, ImageError> {
        Self::of(cluster, cluster.open(path)?)
    }

    /// Opens an image for reading and writing.
    pub fn open_to_write(cluster: &Cluster, path: &str) -> Result<Self, ImageError> {
        Self::of(cluster, cluster.options().read(true).write(true).open(path)?)
    }

    fn of(cluster: &Cluster, file: File) -> Result<Self, ImageError> {
        let (tiles, StoredDescription { description, .. }) = read_description(&file)?;
        Self::new(cluster, file, tiles, description)
    }

    fn new(
        cluster: &Cluster,
        file: File,
        tiles: Tiles,
        description: ImageDescription,
    ) -> Result<Self, ImageError> {
        node::register_operations(cluster);
        let layout = ImageLayout::new(&tiles, description);
        let tiled = TiledImage::new(tiles, description).map_err(|why| {
            let path = file.path().to_string();
            ImageError::NotAnImage { path, why: format!("it is not two-dimensional: {why}") }
        })?;
        Ok(Self { state: Arc::new(ImageState { cluster: cluster.clone(), file, tiled, layout }) })
    }

    /// Returns width and height.
    pub fn size(&self) -> [u32; 2] {
        let ImageWindow { width, height, .. } = self.window();
        [width, height]
    }

    /// Returns the window of the whole image.
    pub fn window(&self) -> ImageWindow {
        self.state.tiled.image()
    }

    /// Returns the pixel type.
    pub fn pixel(&self) -> Pixel {
        self.state.tiled.description.pixel
    }

    /// Returns the pixel type, and how pixels are stored.
    pub fn description(&self) -> &ImageDescription {
        &self.state.tiled.description
    }

    /// Returns the tiles, and where they lie.
    pub fn tiles(&self) -> &Tiles {
        &self.state.tiled.tiles
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.state.file
    }

    /// Reads the pixels of a window, which must lie in the image.
    pub fn read(&self, window: ImageWindow) -> Result<Pixels, ImageError> {
        Ok(self.read_reported(window)?.0)
    }

    /// Reads the pixels of a window. The report says what it cost.
    pub fn read_reported(
        &self,
        window: ImageWindow,
    ) -> Result<(Pixels, ProcessReport), ImageError> {
        let state = &self.state;
        state.check(window)?;
        let mut pixels = Pixels::blank(window.width, window.height, self.pixel())?;
        let call = WindowCall { layout: state.layout.clone(), window };
        let report = self.work(node::WINDOW, call).for_each_bytes(|place, bytes| {
            window_operation::paste(&state.tiled, window, place, &bytes, &mut pixels)
                .map_err(bad_result)
        })?;
        Ok((pixels, report))
    }

    /// Writes pixels from a position on. Replaces tiles that are covered as a whole; reads the rest
    /// of the others first. Two writers must not write one tile at the same time, unless both cover
    /// it as a whole: one would undo the work of the other.
    pub fn write(&self, x: u32, y: u32, pixels: &Pixels) -> Result<(), ImageError> {
        writing::write(&self.state, x, y, pixels)
    }

    /// Reads a window as a picture of a size.
    ///
    /// If the sizes differ by a whole factor along both axes, each pixel is the mean of a cell.
    /// Otherwise the nodes reduce the window by the largest whole factor that fits, and the client
    /// interpolates between the means, bilinear. Enlarged windows are bilinear, too.
    pub fn read_scaled(
        &self,
        window: ImageWindow,
        width: u32,
        height: u32,
    ) -> Result<Pixels, ImageError> {
        self.state.check(window)?;
        let scaling = ScalingPlan::new(window, width, height)?;
        let made = self.read_resampled(scaling.at_nodes, [0.0; 4])?;
        let Some(rest) = scaling.at_client else { return Ok(made) };
        let mut canvas = Canvas::new(rest, self.pixel(), [0.0; 4])?;
        let mut contribution = Contribution::new();
        rest.contribute(made.window(), made.window(), &made, &mut contribution)?;
        canvas.add(&contribution)?;
        Ok(canvas.finish())
    }

    /// Reads a window that is turned around its middle, in as many pixels. At 90 degrees, rows run
    /// down the image. Pixels outside of the image are background.
    pub fn read_turned(
        &self,
        window: ImageWindow,
        degrees: f64,
        sampling: Sampling,
        background: [f32; 4],
    ) -> Result<Pixels, ImageError> {
        let middle = |start: u32, length: u32| f64::from(start) + f64::from(length) / 2.0;
        let ImageWindow { x, y, width, height } = window;
        let middle = [middle(x, width), middle(y, height)];
        let map = AffineMap::turned(middle, degrees, 1.0, width, height)?;
        let turned = Resampling::Mapped { map, width, height, interpolation: sampling };
        self.read_resampled(turned, background)
    }

    /// Reads the image at any positions, or reduced. Pixels outside of the image are background.
    pub fn read_resampled(
        &self,
        resampling: Resampling,
        background: [f32; 4],
    ) -> Result<Pixels, ImageError> {
        let state = &self.state;
        let mut canvas = Canvas::new(resampling, self.pixel(), background)?;
        let is_blank_outside = background.iter().all(|value| value.to_bits() == 0);
        let layout = state.layout.clone();
        let call = ResampleCall { layout, resampling, is_blank_outside };
        self.work(node::RESAMPLE, call).for_each_bytes(|_, message| {
            let contribution = resample_operation::decode(&message).map_err(bad_result)?;
            canvas.add(&contribution).map_err(bad_result)
        })?;
        Ok(canvas.finish())
    }

    /// Filters the image at the nodes into a new one, with the same tiles at the same placements.
    pub fn apply(&self, filter: &Filter, edge: Edge, target: &str) -> Result<Image, ImageError> {
        let go_on = |_: &ProcessReport| ControlFlow::Continue(());
        Ok(self.apply_watched(filter, edge, target, go_on)?.0)
    }

    /// Filters the image; `watch` receives a report of the progress and can stop the work. On
    /// failure the new image is removed.
    pub fn apply_watched(
        &self,
        filter: &Filter,
        edge: Edge,
        target: &str,
        watch: impl FnMut(&ProcessReport) -> ControlFlow<()>,
    ) -> Result<(Image, ProcessReport), ImageError> {
        filter.validate()?;
        let state = &self.state;
        let pixel = self.pixel();
        let sparsity = Sparsity::new(filter, edge, pixel).map_err(ImageError::Invalid)?;
        let layout = state.layout.clone();
        let call = FilterCall { layout, filter: filter.clone(), edge };
        let process = state.cluster.process(&state.file);
        let work = match sparsity::tiles_in_reach(state, filter.radius(), sparsity)? {
            Some(few) => process.extents(few).operation(node::FILTER, call),
            None => process.operation(node::FILTER, call),
        };
        self.make(target, pixel, work, watch)
    }

    /// Applies a pixel-wise operation at the nodes into a new image, with the same tiles at the
    /// same placements; its pixels may be of another type.
    pub fn map(&self, operation: &Pixelwise, target: &str) -> Result<Image, ImageError> {
        Ok(self.map_watched(operation, target, |_| ControlFlow::Continue(()))?.0)
    }

    /// Applies a pixel-wise operation; `watch` receives a report of the progress and can stop the
    /// work. On failure the new image is removed.
    pub fn map_watched(
        &self,
        operation: &Pixelwise,
        target: &str,
        watch: impl FnMut(&ProcessReport) -> ControlFlow<()>,
    ) -> Result<(Image, ProcessReport), ImageError> {
        let pixel = operation.output_pixel(self.pixel())?;
        let layout = self.state.layout.clone();
        let call = PixelwiseCall { layout, operation: operation.clone() };
        self.make(target, pixel, self.work(node::PIXELWISE, call), watch)
    }

    /// Counts the values of all pixels at the nodes.
    pub fn histogram(&self, bins: Bins) -> Result<Histogram, ImageError> {
        bins.validate(self.pixel())?;
        Ok(self.measure(Quantity::Histogram(bins))?.into_histogram())
    }

    /// Computes the smallest and the greatest value and the mean of each channel at the nodes.
    pub fn summary(&self) -> Result<Summary, ImageError> {
        Ok(self.measure(Quantity::Summary)?.into_summary())
    }

    /// Writes all rows of a picture of the same size and pixels, a row of tiles at a time. `watch`
    /// receives the number of rows read, and can stop the import.
    pub fn import(
        &self,
        rows: &mut dyn Rows,
        watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), ImageError> {
        transfer::import(self, rows, watch)
    }

    /// Writes the rows of a window to a picture of the same size and pixels, and ends it. Reads the
    /// next row of tiles at the same time. `watch` receives the number of rows written, and can
    /// stop the export.
    pub fn export(
        &self,
        window: ImageWindow,
        sink: Box<dyn RowSink>,
        watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), ImageError> {
        transfer::export(self, window, sink, watch)
    }

    /// Makes written pixels durable.
    pub fn sync(&self) -> Result<(), ImageError> {
        Ok(self.state.file.sync()?)
    }

    fn work(&self, operation: &str, call: impl serde::Serialize) -> ProcessCall<'_> {
        self.state.cluster.process(&self.state.file).operation(operation, call)
    }

    /// Runs work that writes a new image with tiles at the same placements.
    fn make<'f>(
        &'f self,
        path: &str,
        pixel: Pixel,
        work: ProcessCall<'f>,
        mut watch: impl FnMut(&ProcessReport) -> ControlFlow<()> + 'f,
    ) -> Result<(Image, ProcessReport), ImageError> {
        let cluster = &self.state.cluster;
        let description = ImageDescription { pixel, ..*self.description() };
        let target = options::create(cluster, path, self.tiles().clone(), description)?;
        let stopper = work.stopper();
        let work = work.watch(move |report| {
            if watch(report).is_break() {
                stopper.stop();
            }
        });
        let written = write_to(work, target.file());
        match written.and_then(|report| target.sync().map(|()| report)) {
            Ok(report) => Ok((target, report)),
            Err(error) => {
                drop(target);
                // Report the failure of the work, not that of the removal.
                let _ = cluster.remove(path);
                Err(error)
            }
        }
    }

    fn measure(&self, quantity: Quantity) -> Result<Measurement, ImageError> {
        let pixel = self.pixel();
        let mut all = Measurement::empty(quantity, pixel).map_err(ImageError::Invalid)?;
        let call = MeasureCall { layout: self.state.layout.clone(), quantity };
        self.work(node::MEASURE, call)
            .for_each(|_, more: Measurement| all.add(&more).map_err(bad_result))?;
        all.fill(self.window().area(), quantity, pixel).map_err(bad_result)?;
        Ok(all)
    }
}

/// Gives the work and the target file separate lifetimes.
fn write_to(work: ProcessCall<'_>, target: &File) -> Result<ProcessReport, ImageError> {
    Ok(work.write_to(target)?)
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [width, height] = self.size();
        write!(f, "Image({}, {width} x {height})", self.state.file.path())
    }
}
