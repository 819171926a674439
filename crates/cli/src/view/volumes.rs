//! The volumes that are shown, and what is told of them.

use pario_image::Volume;
use serde_json::{Value, json};

/// A volume that may be looked at.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its path in the cluster.
    pub path: String,
    /// The volume.
    pub volume: Volume,
}

impl Shown {
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
        let values = self.volume.statistics();
        facts["window"] = json!(default_window(&self.volume));
        facts["values"] = json!(values.map(|values| json!({
            "minimum": values.minimum,
            "maximum": values.maximum,
            "percentile_1": values.percentile_1,
            "percentile_99": values.percentile_99,
        })));
        facts
    }
}

/// The values that are shown from black to white if the request names none: where most values of a
/// grey volume lie if its header says so, otherwise the range of its samples.
pub fn default_window(volume: &Volume) -> [f64; 2] {
    let known = volume.statistics().and_then(|values| values.window());
    known.unwrap_or_else(|| volume.description().pixel.sample().range())
}
