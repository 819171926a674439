//! The volumes that are shown, and what is told of them.

use std::sync::Arc;

use axum::http::StatusCode;
use pario_image::{LengthUnit, Volume, VoxelStatistics};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::http::Refusal;

/// A volume that may be looked at.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its path in the cluster.
    pub path: String,
    /// The volume.
    pub volume: Volume,
    /// What the nodes have found of its values, if its header does not say it.
    computed: Arc<OnceCell<Option<VoxelStatistics>>>,
}

impl Shown {
    /// A volume at a path.
    pub fn new(path: String, volume: Volume) -> Self {
        Self { path, volume, computed: Arc::default() }
    }

    /// What the list of all volumes says of it.
    pub fn summary(&self, number: usize) -> Value {
        let path = self.path.as_str();
        json!({ "number": number, "name": path.rsplit('/').next(), "path": path })
    }

    /// All that is told of it.
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

    /// Whether the nodes have to go over all voxels to find out what values there are.
    pub fn lacks_values(&self) -> bool {
        self.volume.description().pixel.channels() == 1 && self.volume.statistics().is_none()
    }

    /// What values there are, and the window from them. If the header does not say it, the nodes
    /// compute it, once for all who ask.
    pub async fn values(&self) -> Result<Value, Refusal> {
        let values = match self.lacks_values() {
            true => self.computed().await?,
            false => self.volume.statistics(),
        };
        Ok(json!({ "values": values.map(values_json), "window": default_window(&self.volume) }))
    }

    async fn computed(&self) -> Result<Option<VoxelStatistics>, Refusal> {
        let (cell, volume) = (self.computed.clone(), self.volume.clone());
        let compute = async move {
            let found = cell.get_or_try_init(|| async move {
                let computing = spawn_blocking(move || volume.compute_statistics());
                computing.await.map_err(|_| Refusal::bug())?.map_err(|error| {
                    let why = format!("the values of the volume could not be found: {error}");
                    Refusal::new(StatusCode::BAD_GATEWAY, why)
                })
            });
            found.await.copied()
        };
        // A task of its own goes on when the client that asked first has left.
        tokio::spawn(compute).await.map_err(|_| Refusal::bug())?
    }
}

/// What lengths are counted in. A spacing that was given without a unit is in millimetres; where
/// none was given, lengths are counted in voxels.
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

/// The values that are shown from black to white if the request names none: where most values of a
/// grey volume lie if that is known, otherwise the range of its samples.
pub fn default_window(volume: &Volume) -> [f64; 2] {
    let known = volume.statistics().and_then(|values| values.window());
    known.unwrap_or_else(|| volume.description().pixel.sample().range())
}
