//! Volumes: cut into boxes, one extent each, on many disks. The nodes extract slices from the boxes
//! on their disks.

mod boxes;
mod export;
mod import;
mod measure_operation;
mod options;
#[cfg(feature = "phantom")]
mod phantom_operation;
mod slab_operation;
mod slice_operation;
mod slice_series;
mod statistics;

use std::fmt;
use std::sync::Arc;

use pario::{Cluster, File, ProcessReport};
use pario_proto::{PixelWindow, Shape, TilePosition, Tiles};
use parking_lot::Mutex;

pub(crate) use measure_operation::MeasureVolumeOperation;
pub use options::VolumeOptions;
#[cfg(feature = "phantom")]
pub(crate) use phantom_operation::PhantomOperation;
pub(crate) use slab_operation::SlabOperation;
pub(crate) use slice_operation::SliceOperation;
pub use slice_series::SliceSeries;

use crate::error::ImageError;
use crate::node::{self, bad_result};
use crate::slice::{Blend, BoxGrid, Cut, Interpolation, Plane, SlabCut, Slice, SliceQuery};
use crate::stored::{
    ImageDescription, ImageLayout, StoredDescription, VoxelStatistics, read_description,
};
use crate::units::VoxelUnits;
use slab_operation::SlabCall;
use slice_operation::SliceCall;

/// A volume on a cluster: a three-dimensional image, cut into boxes that lie on many disks. Clones are
/// the same volume; any number of threads may use them.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use pario_image::{Pixel, Plane, VolumeOptions};
///
/// let cluster = pario::Cluster::embedded(dir.path())?;
/// let options = VolumeOptions::new([64, 64, 48], Pixel::RGB).spacing([1.0, 1.0, 2.0]);
/// let body = options.create(&cluster, "/body")?;
/// body.generate(7)?; // at the nodes
///
/// let centre = [32.0, 32.0, 48.0]; // in the units of the spacing
/// let slice = body.slice(Plane::through(centre).normal([1.0, 1.0, 1.0]).size(100, 80))?;
/// assert_eq!(slice.data().len(), 100 * 80 * 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Volume {
    state: Arc<VolumeState>,
}

struct VolumeState {
    cluster: Cluster,
    file: File,
    tiles: Tiles,
    grid: BoxGrid,
    description: ImageDescription,
    layout: ImageLayout,
    /// The statistics of the header, or those that this process computed.
    statistics: Mutex<Option<VoxelStatistics>>,
    units: VoxelUnits,
}

impl Volume {
    /// Opens a volume for reading.
    pub fn open(cluster: &Cluster, path: &str) -> Result<Self, ImageError> {
        Self::of(cluster, cluster.open(path)?)
    }

    /// Opens a volume for reading and writing.
    pub fn open_to_write(cluster: &Cluster, path: &str) -> Result<Self, ImageError> {
        Self::of(cluster, cluster.options().read(true).write(true).open(path)?)
    }

    fn of(cluster: &Cluster, file: File) -> Result<Self, ImageError> {
        let (tiles, described) = read_description(&file)?;
        Self::new(cluster, file, tiles, described)
    }

    fn new(
        cluster: &Cluster,
        file: File,
        tiles: Tiles,
        described: StoredDescription,
    ) -> Result<Self, ImageError> {
        node::register_operations(cluster);
        let StoredDescription { description, statistics, units } = described;
        let grid = description.grid(&tiles)?;
        let layout = ImageLayout::new(&tiles, description);
        let (cluster, statistics) = (cluster.clone(), Mutex::new(statistics));
        let state =
            VolumeState { cluster, file, tiles, grid, description, layout, statistics, units };
        Ok(Self { state: Arc::new(state) })
    }

    /// Returns the number of voxels along each axis.
    pub fn shape(&self) -> Shape {
        self.state.tiles.image()
    }

    /// Returns the spacing of the voxels.
    pub fn spacing(&self) -> [f64; 3] {
        self.state.description.spacing
    }

    /// Returns the units of values and spacing.
    pub fn units(&self) -> VoxelUnits {
        self.state.units
    }

    /// Returns the voxel type, and how voxels are stored.
    pub fn description(&self) -> &ImageDescription {
        &self.state.description
    }

    /// Returns the boxes, and where they lie.
    pub fn tiles(&self) -> &Tiles {
        &self.state.tiles
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.state.file
    }

    /// Returns the bytes of all voxels.
    pub fn voxel_bytes(&self) -> u64 {
        self.state.description.bytes_of(self.shape()) as u64
    }

    /// Returns the bytes of all stored voxels before compression; boxes store some voxels twice.
    pub fn stored_bytes(&self) -> u64 {
        let (tiles, grid) = (&self.state.tiles, &self.state.grid);
        let along = |axis: fn(Shape) -> u64, tile: fn(u64) -> TilePosition| -> u64 {
            let boxes = axis(tiles.tiles_per_axis());
            let stored = |number| grid.stored(tile(number)).map_or(0, |stored| axis(stored.size));
            // All boxes of an axis but the last two are alike.
            let alike = boxes.saturating_sub(2);
            alike * stored(0) + (alike..boxes).map(stored).sum::<u64>()
        };
        let x = along(|shape| shape.x, |x| TilePosition { x, y: 0, z: 0 });
        let y = along(|shape| shape.y, |y| TilePosition { x: 0, y, z: 0 });
        let z = along(|shape| shape.z, |z| TilePosition { x: 0, y: 0, z });
        x * y * z * self.state.description.pixel.bytes() as u64
    }

    /// Returns the position of the middle, in the units of the spacing.
    pub fn centre(&self) -> [f64; 3] {
        let (Shape { x, y, z }, spacing) = (self.shape(), self.spacing());
        let sides = [x, y, z];
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let middle = |axis: usize| (sides[axis] - 1) as f64 / 2.0 * spacing[axis];
        [middle(0), middle(1), middle(2)]
    }

    /// Returns a slice of the nearest voxels. Outside of the volume it is 0.
    pub fn slice(&self, plane: SliceQuery) -> Result<Slice, ImageError> {
        let plane = plane.in_volume(self.spacing())?;
        Ok(self.slice_of(&plane, Interpolation::Nearest, &[])?.0)
    }

    /// Returns a slice with this interpolation and background. The report says what it cost.
    pub fn slice_of(
        &self,
        plane: &Plane,
        interpolation: Interpolation,
        background: &[u8],
    ) -> Result<(Slice, ProcessReport), ImageError> {
        self.traced_slice(plane, interpolation, background, false)
    }

    /// Returns a slice; the report has a trace if `is_traced`.
    pub fn traced_slice(
        &self,
        plane: &Plane,
        interpolation: Interpolation,
        background: &[u8],
        is_traced: bool,
    ) -> Result<(Slice, ProcessReport), ImageError> {
        let slice = self.cut(plane, interpolation)?.blank(background);
        self.fill(slice, plane, interpolation, is_traced)
    }

    /// Returns a slice that records which of its pixels lie in the volume ([`Slice::coverage`]).
    /// The others, and those of unwritten boxes, are 0. The report has a trace if `is_traced`.
    pub fn covered_slice(
        &self,
        plane: &Plane,
        interpolation: Interpolation,
        is_traced: bool,
    ) -> Result<(Slice, ProcessReport), ImageError> {
        let slice = self.cut(plane, interpolation)?.blank(&[]).with_coverage();
        self.fill(slice, plane, interpolation, is_traced)
    }

    fn cut(&self, plane: &Plane, interpolation: Interpolation) -> Result<Cut, ImageError> {
        let state = &self.state;
        Ok(Cut::new(*plane, state.grid, state.description.pixel, interpolation)?)
    }

    /// Fills a blank slice with the parts that the nodes extract.
    fn fill(
        &self,
        mut slice: Slice,
        plane: &Plane,
        interpolation: Interpolation,
        is_traced: bool,
    ) -> Result<(Slice, ProcessReport), ImageError> {
        let state = &self.state;
        let call = SliceCall { layout: state.layout.clone(), plane: *plane, interpolation };
        let work = state.cluster.process(&state.file).operation(node::SLICE, call);
        let report = work
            .trace(is_traced)
            .for_each_bytes(|_, message| slice.paste_message(&message).map_err(bad_result))?;
        slice.check_finished()?;
        Ok((slice, report))
    }

    /// Returns several parallel slices, `step` apart in the units of the spacing, blended into one.
    pub fn slab(
        &self,
        plane: SliceQuery,
        depth: u32,
        step: f64,
        blend: Blend,
        interpolation: Interpolation,
    ) -> Result<(Slice, ProcessReport), ImageError> {
        let state = &self.state;
        let slab = plane.slab_in_volume(self.spacing(), depth, step, blend)?;
        let cut = SlabCut::new(slab, state.grid, state.description.pixel, interpolation)?;
        let mut whole = cut.blank();
        let call = SlabCall { layout: state.layout.clone(), slab, interpolation };
        let work = state.cluster.process(&state.file).operation(node::SLAB, call);
        let report =
            work.for_each_bytes(|_, message| whole.merge_message(&message).map_err(bad_result))?;
        Ok((whole.finish(&[])?, report))
    }

    /// Returns an iterator over the slices of planes, in order, which fetches some slices ahead.
    pub fn series(
        &self,
        planes: impl IntoIterator<Item = Plane>,
        interpolation: Interpolation,
    ) -> SliceSeries {
        SliceSeries::new(self.clone(), planes.into_iter().collect(), interpolation)
    }

    /// Reads the stored voxels of a box; `None` if it is not written.
    pub fn read_box(
        &self,
        tile: TilePosition,
    ) -> Result<Option<(PixelWindow, Vec<u8>)>, ImageError> {
        boxes::read_box(&self.state, tile)
    }

    /// Writes all stored voxels of a box, also the layer that is the first of the next box.
    pub fn write_box(&self, tile: TilePosition, voxels: &[u8]) -> Result<(), ImageError> {
        boxes::write_box(&self.state, tile, voxels)
    }

    /// Makes written voxels durable.
    pub fn sync(&self) -> Result<(), ImageError> {
        Ok(self.state.file.sync()?)
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Volume({}, {})", self.state.file.path(), self.shape())
    }
}
