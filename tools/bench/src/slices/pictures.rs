//! Plots of slices: against the disks' bound, and against the libraries that a Python user would
//! choose.

use super::disks::SITES;
use crate::plot::{BarPair, Plot, PlotFrame, PlotPoint, pairs, points};
use crate::report::Report;

/// The names of the peers.
const PEERS: [(&str, &str); 3] =
    [("tensorstore", "TensorStore"), ("zarr", "zarr"), ("memmap", "memmap")];

/// All plots whose figures were measured.
pub fn draw(report: &Report) -> Vec<Plot> {
    [disks(report), peers(report)].into_iter().flatten().collect()
}

fn disks(report: &Report) -> Option<Plot> {
    let found: Option<Vec<PlotPoint>> = SITES
        .iter()
        .map(|(_, disks)| {
            let shown = report.shown(&format!("disks-{disks}"))?;
            let at = u32::try_from(*disks).ok()?.into();
            Some(PlotPoint { at, ours: shown.ours, bound: shown.theirs })
        })
        .collect();
    let frame = PlotFrame {
        title: "Oblique slices of 512 x 512 from disks as slow as the thesis', without a cache",
        across: "disks, up to 12 at a node (above each point: its share of the bound)",
        up: "slices per second",
        sides: ["pario", "the disks' bound"],
    };
    Some(points("slices-disks", frame, &found?))
}

fn peers(report: &Report) -> Option<Plot> {
    let of_peers = ["warm", "cold"].into_iter().flat_map(|family| {
        PEERS.map(|(peer, called)| (format!("{family}-{peer}"), family.to_owned(), called))
    });
    let of_axes = ["x", "y", "z"]
        .map(|axis| (format!("aligned-{axis}"), format!("across {axis}"), "TensorStore"));
    let found: Option<Vec<BarPair>> = of_peers
        .chain(of_axes)
        .map(|(figure, family, called)| {
            let shown = report.shown(&figure)?;
            let note = format!("{:.1} x", shown.ratio);
            let label = [family, called.to_owned()];
            Some(BarPair { label, ours: shown.ours, theirs: shown.theirs, note })
        })
        .collect();
    let frame = PlotFrame {
        title: "Slices of 512 x 512 through 1024 x 1024 x 512 RGB voxels",
        across: "oblique from memory (warm), oblique from the disk (cold), across an axis from memory",
        up: "slices per second, logarithmic",
        sides: ["pario", "the peer below"],
    };
    Some(pairs("slices-peers", frame, &found?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Quantity;
    use crate::turns::Comparison;

    #[test]
    fn a_plot_is_drawn_when_all_its_figures_were_measured() {
        let mut report = Report::new("slices");
        for (number, (_, disks)) in SITES.into_iter().enumerate() {
            assert_eq!(draw(&report), [], "{number} figures are not enough");
            let compared = Comparison { ours_s: 0.5, theirs_s: 0.4, ratio: 0.8, spread: 0.0 };
            report.measured(&format!("disks-{disks}"), compared, Quantity::Events(1.0), None);
        }
        let drawn = draw(&report);
        assert_eq!(drawn.iter().map(|plot| plot.name).collect::<Vec<_>>(), ["slices-disks"]);
        assert_eq!(drawn[0].svg.matches(">0.800<").count(), SITES.len());
    }
}
