//! The layout of an image or volume as a client sends it to nodes, and the disks of a new one.

use pario::operation::OperationCall;
use pario::{Cluster, DiskId, ExtentPlacement, Layout};
use pario_proto::{Disks, TilePosition, Tiles};
use serde::{Deserialize, Serialize};

use super::description::ImageDescription;
use crate::error::ImageError;
use crate::slice::BoxGrid;

/// Limit for the boxes of a volume that a node works with.
const BOXES_LIMIT: u64 = 1 << 24;

/// Limit for an unpacked box: the length of the largest extent.
const BOX_LIMIT_BYTES: usize = 128 << 20;

/// Layout and description of an image or volume, as a client sends them to nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageLayout {
    layout: Vec<u8>,
    pub description: ImageDescription,
}

impl ImageLayout {
    /// Encodes the layout of an image or volume.
    pub fn new(tiles: &Tiles, description: ImageDescription) -> Self {
        Self { layout: Layout::Tiles(tiles.clone()).encode(), description }
    }

    /// Decodes and checks the layout.
    pub fn decode(&self) -> Result<(Tiles, BoxGrid), String> {
        let layout = Layout::decode(&self.layout).map_err(|error| error.to_string())?;
        let Layout::Tiles(tiles) = layout else {
            return Err("the layout has no tiles".to_owned());
        };
        // The layout comes from a client: the node checks it before it lists or unpacks anything.
        if tiles.tile_count() > BOXES_LIMIT {
            return Err(format!(
                "the volume would have {} boxes, a node works with at most {BOXES_LIMIT}: make \
                 them larger",
                tiles.tile_count()
            ));
        }
        let bytes = self.description.bytes_of(tiles.tile());
        if bytes > BOX_LIMIT_BYTES {
            return Err(format!(
                "a box would have {bytes} bytes, a node works with at most {BOX_LIMIT_BYTES}: make \
                 them smaller"
            ));
        }
        let grid = self.description.grid(&tiles).map_err(|error| error.to_string())?;
        Ok((tiles, grid))
    }
}

/// Returns the placements of those tiles whose subfile this node holds.
pub fn tiles_at_node(
    call: &OperationCall<'_>,
    tiles: &Tiles,
    positions: impl IntoIterator<Item = TilePosition>,
) -> Vec<ExtentPlacement> {
    let place = |tile| tiles.locate(tile).ok().filter(|place| call.is_here(place.subfile));
    positions.into_iter().filter_map(place).collect()
}

/// Chooses the disks of a new image or volume. Consecutive disks belong to different nodes, so that
/// neighbouring tiles lie on different nodes.
pub fn choose_disks(cluster: &Cluster, count: Option<u32>) -> Result<Disks, ImageError> {
    let map = cluster.map();
    let writable = |node: &pario::status::NodeInfo| -> Vec<DiskId> {
        node.disks.iter().filter(|disk| !disk.is_read_only).map(|disk| disk.id).collect()
    };
    let nodes: Vec<Vec<DiskId>> = map.nodes.iter().map(writable).collect();
    let longest = nodes.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| nodes.iter().filter_map(move |disks| disks.get(turn)));
    let limit = count.map_or(Disks::MAX, |count| count.min(Disks::MAX)) as usize;
    let disks: Vec<DiskId> = turns.copied().take(limit).collect();
    if let Some(count) = count.filter(|count| *count as usize != disks.len()) {
        let text =
            format!("the file needs {count} writable disks, the cluster has {}", disks.len());
        return Err(ImageError::Invalid(text));
    }
    Disks::new(disks).map_err(|error| ImageError::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use pario_proto::Shape;

    use super::*;
    use crate::pixel::Pixel;
    use crate::stored::Compression;

    fn claimed(image: Shape, tile: Shape) -> Result<(), String> {
        let tiles = Tiles::new(image, tile, Disks::new([DiskId(0)]).unwrap()).unwrap();
        let description = ImageDescription {
            pixel: Pixel::GREY,
            spacing: [1.0; 3],
            overlap: [false; 3],
            compression: Compression::None,
        };
        ImageLayout::new(&tiles, description).decode().map(|_| ())
    }

    #[test]
    fn a_node_refuses_a_layout_that_it_could_not_hold() {
        let side = |side| Shape::volume(side, side, side);
        assert_eq!(claimed(side(512), side(32)), Ok(()));
        let refused = claimed(side(4096), side(1)).unwrap_err();
        assert!(refused.contains("make them larger"), "{refused}");
        let refused = claimed(side(4096), side(1024)).unwrap_err();
        assert!(refused.contains("make them smaller"), "{refused}");
    }
}
