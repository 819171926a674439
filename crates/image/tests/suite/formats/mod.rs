//! Picture and volume files: round trips, files of other programs, damaged files, huge files.

mod arrays;
mod damage;
mod dicom;
mod foreign_png;
mod foreign_tiff;
mod golden_nrrd;
mod golden_pnm;
mod huge;
mod jpeg;
mod nifti;
mod pages;
mod picture;
mod round_trips;
mod tiff_files;
mod volumes;
