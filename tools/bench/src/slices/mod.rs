//! Slices through volumes, taken where they lie, against what a Python user would pick.

mod body;
mod planes;
mod python;
mod scaling;

use crate::area::{Area, Family};

/// The area of slices.
pub const AREA: Area = Area {
    name: "slices",
    families: &[
        Family {
            name: "warm",
            what: "oblique slices of 512 x 512 from memory, against TensorStore, zarr and memmap",
            run: planes::warm,
        },
        Family {
            name: "aligned",
            what: "slices across the axes from memory, against TensorStore",
            run: planes::aligned,
        },
        Family {
            name: "cold",
            what: "oblique slices from the disk, nothing in memory, against the same three",
            run: planes::cold,
        },
        Family {
            name: "cores",
            what: "oblique slices from memory by two compute threads, against one",
            run: scaling::run,
        },
    ],
};
