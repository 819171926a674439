//! Images and volumes on a cluster against the same computed in memory, and files of other programs.

mod formats;
mod pictures;
mod site;
mod statistics;
mod volumes;
