//! Where the tiles of an image or volume lie, as it is told to nodes.

use pario::operation::Call;
use pario::{Cluster, DiskId, ExtentPlace, Layout};
use pario_proto::{Disks, TilePosition, Tiles};
use serde::{Deserialize, Serialize};

use super::description::Description;
use crate::error::ImageError;
use crate::slice::Grid;

/// What nodes must know of an image or volume, as it travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    layout: Vec<u8>,
    pub description: Description,
}

impl Placed {
    /// What is to be told of an image or volume.
    pub fn new(tiles: &Tiles, description: Description) -> Self {
        Self { layout: Layout::Tiles(tiles.clone()).encode(), description }
    }

    /// What was told.
    pub fn open(&self) -> Result<(Tiles, Grid), String> {
        let layout = Layout::decode(&self.layout).map_err(|error| error.to_string())?;
        let Layout::Tiles(tiles) = layout else {
            return Err("the layout is not one of tiles".to_owned());
        };
        let grid = self.description.grid(&tiles).map_err(|error| error.to_string())?;
        Ok((tiles, grid))
    }
}

/// The places of tiles that are at a node.
pub fn here(
    call: &Call<'_>,
    tiles: &Tiles,
    wanted: impl IntoIterator<Item = TilePosition>,
) -> Vec<ExtentPlace> {
    let place = |tile| tiles.locate(tile).ok().filter(|place| call.is_here(place.subfile));
    wanted.into_iter().filter_map(place).collect()
}

/// The disks of a cluster for a new image or volume, a different node each time, so that tiles side
/// by side lie at different nodes.
pub fn spread(cluster: &Cluster, count: Option<u32>) -> Result<Disks, ImageError> {
    let map = cluster.map();
    let writable = |node: &pario::NodeInfo| -> Vec<DiskId> {
        node.disks.iter().filter(|disk| !disk.is_read_only).map(|disk| disk.id).collect()
    };
    let nodes: Vec<Vec<DiskId>> = map.nodes.iter().map(writable).collect();
    let longest = nodes.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| nodes.iter().filter_map(move |disks| disks.get(turn)));
    let limit = count.map_or(Disks::MAX, |count| count.min(Disks::MAX)) as usize;
    let disks: Vec<DiskId> = turns.copied().take(limit).collect();
    if let Some(count) = count.filter(|count| *count as usize != disks.len()) {
        let text = format!("{count} disks are wanted, and {} can be written to", disks.len());
        return Err(ImageError::Invalid(text));
    }
    Disks::new(disks).map_err(|error| ImageError::Invalid(error.to_string()))
}
