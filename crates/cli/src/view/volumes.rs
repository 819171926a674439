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
        facts
    }
}
