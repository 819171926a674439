//! Scaling a window to a size: the part that nodes compute, and the part that the client computes.

use crate::error::ImageError;
use crate::filter::ImageWindow;
use crate::resample::{AffineMap, Resampling, Sampling};

/// A plan for scaling a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalingPlan {
    /// The resampling at the nodes.
    pub at_nodes: Resampling,
    /// The resampling of their result at the client, if it does not have the size yet.
    pub at_client: Option<Resampling>,
}

impl ScalingPlan {
    /// Plans the scaling. A whole factor along both axes gives means of cells. Otherwise the nodes
    /// reduce by the largest factor that fits along both, and the client interpolates between the
    /// means.
    pub fn new(window: ImageWindow, width: u32, height: u32) -> Result<Self, ImageError> {
        let scaled = AffineMap::scaled(window, width, height)?;
        let mapped =
            |map| Resampling::Mapped { map, width, height, interpolation: Sampling::Bilinear };
        let whole = Resampling::Reduction { window, factor: window.width.div_ceil(width) };
        if whole.size() == (width, height) {
            return Ok(Self { at_nodes: whole, at_client: None });
        }
        let factor = (window.width / width).min(window.height / height);
        if factor < 2 {
            return Ok(Self { at_nodes: mapped(scaled), at_client: None });
        }
        let at_nodes = Resampling::Reduction { window, factor };
        let step = |step: i64| step / i64::from(factor);
        let (right, down) = (step(scaled.right[0]), step(scaled.down[1]));
        let rest = AffineMap { origin: [right / 2, down / 2], right: [right, 0], down: [0, down] };
        Ok(Self { at_nodes, at_client: Some(mapped(rest)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resample::ONE_PIXEL;

    #[test]
    fn whole_factors_are_means_and_nothing_else() {
        let window = ImageWindow { x: 3, y: 4, width: 600, height: 400 };
        let scaling = ScalingPlan::new(window, 150, 100).unwrap();
        assert_eq!(scaling.at_nodes, Resampling::Reduction { window, factor: 4 });
        assert_eq!(scaling.at_client, None);
        let same = ScalingPlan::new(window, 600, 400).unwrap();
        assert_eq!(same.at_nodes, Resampling::Reduction { window, factor: 1 });
        // Cells at the edges may be smaller.
        let window = ImageWindow { width: 599, height: 399, ..window };
        assert_eq!(ScalingPlan::new(window, 300, 200).unwrap().at_client, None);
    }

    #[test]
    fn other_factors_take_two_steps() {
        let window = ImageWindow { x: 0, y: 0, width: 500, height: 300 };
        let scaling = ScalingPlan::new(window, 200, 120).unwrap();
        assert_eq!(scaling.at_nodes, Resampling::Reduction { window, factor: 2 });
        let Some(Resampling::Mapped { map, .. }) = scaling.at_client else { panic!("{scaling:?}") };
        assert_eq!(map.right, [ONE_PIXEL * 5 / 4, 0]);
        // Larger, or hardly smaller: the nodes compute everything.
        for size in [(700, 300), (400, 290), (1000, 100)] {
            let scaling = ScalingPlan::new(window, size.0, size.1).unwrap();
            assert!(matches!(scaling.at_nodes, Resampling::Mapped { .. }));
            assert_eq!(scaling.at_client, None);
        }
        assert!(ScalingPlan::new(window, 0, 10).is_err());
    }
}
