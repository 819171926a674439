//! Slices in boxes against a plain loop over the pixels of a whole volume.

mod foreign;
mod planes;
mod reference;
mod slabs;
mod slices;
