//! Layouts against brute force and golden bytes.

mod declustering;
mod encoding;
mod striped;
mod tiles;
