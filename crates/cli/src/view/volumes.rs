//! The volumes of the viewer, and their description as JSON.

use std::sync::Arc;

use axum::http::StatusCode;
use pario_image::{LengthUnit, Volume, VoxelStatistics};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::http::HttpRefusal;

/// A volume that the viewer shows.
#[derive(Clone, Debug)]
pub struct ViewedVolume {
    /// Its path in the cluster.
    pub path: String,
    /// The volume.
    pub volume: Volume,
    /// Statistics computed by the nodes, if the header has none.
    computed: Arc<OnceCell<Option<VoxelStatistics>>>,
}

impl ViewedVolume {
    /// Creates the entry of a volume.
    pub fn new(path: String, volume: Volume) -> Self {
        Self { path, volume, computed: Arc::default() }
    }

    /// Returns the volume's entry in the list of volumes.
    pub fn summary(&self, number: usize) -> Value {
        let path = self.path.as_str();
        json!({ "number": number, "name": path.rsplit('/').next(), "path": path })
    }

    /// Returns the full description.
    pub fn facts(&self, number: usize) -> Value {
        let (shape, description) = (self.volume.shape(), self.volume.description());
        let pixel = description.pixel;
        let mut facts = self.summary(number);
        facts["shape"] = json!([shape.x, shape.y, shape.z]);
        facts["spacing"] = json!(self.volume.spacing());
        facts["centre"] = json!(self.volume.centre());
        facts["pixel"] = json!({
            "sample": pixel.sample().to_string(),
            "channels": pixel.channels(),
            "range": pixel.sample().range(),
        });
        let units = self.volume.units();
        facts["units"] = json!({
            "values": units.values.symbol(),
            "lengths": length_unit(&self.volume).symbol(),
        });
        facts["window"] = json!(default_window(&self.volume));
        facts["values"] = json!(self.volume.statistics().map(values_json));
        facts
    }

    /// Returns whether the nodes must read all voxels to find the range of values.
    pub fn lacks_values(&self) -> bool {
        self.volume.description().pixel.channels() == 1 && self.volume.statistics().is_none()
    }

    /// Returns the range of values and the default window. If the header has none, the nodes
    /// compute it once for all clients.
    pub async fn values(&self) -> Result<Value, HttpRefusal> {
        let values = match self.lacks_values() {
            true => self.computed().await?,
            false => self.volume.statistics(),
        };
        Ok(json!({ "values": values.map(values_json), "window": default_window(&self.volume) }))
    }

    async fn computed(&self) -> Result<Option<VoxelStatistics>, HttpRefusal> {
        let (cell, volume) = (self.computed.clone(), self.volume.clone());
        let compute = async move {
            let found = cell.get_or_try_init(|| async move {
                let computing = spawn_blocking(move || volume.compute_statistics());
                computing.await.map_err(|_| HttpRefusal::bug())?.map_err(|error| {
                    let why = format!("cannot compute the range of values of the volume: {error}");
                    HttpRefusal::new(StatusCode::BAD_GATEWAY, why)
                })
            });
            found.await.copied()
        };
        // A separate task continues when the client that asked first has left.
        tokio::spawn(compute).await.map_err(|_| HttpRefusal::bug())?
    }
}

/// Returns the unit of lengths. A spacing without a unit is in millimetres; without a spacing,
/// lengths are in voxels.
fn length_unit(volume: &Volume) -> LengthUnit {
    match volume.units().lengths {
        #[expect(clippy::float_cmp, reason = "exactly what it is if nothing was given")]
        LengthUnit::Unknown if volume.spacing() != [1.0; 3] => LengthUnit::Millimetre,
        unit => unit,
    }
}

fn values_json(values: VoxelStatistics) -> Value {
    json!({
        "minimum": values.minimum,
        "maximum": values.maximum,
        "percentile_1": values.percentile_1,
        "percentile_99": values.percentile_99,
    })
}

/// Returns the default window: most values of a grey volume if known, otherwise the range of its
/// samples.
pub fn default_window(volume: &Volume) -> [f64; 2] {
    let known = volume.statistics().and_then(|values| values.window());
    known.unwrap_or_else(|| volume.description().pixel.sample().range())
}
