//! Picture and volume files: written and read back, made by other programs, damaged, huge.

mod foreign_png;
mod golden_nrrd;
mod golden_pnm;
mod pictures;
mod round_trips;
mod volumes;
