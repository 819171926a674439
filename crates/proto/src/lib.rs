//! What two sides of Pario must agree on byte for byte.
#![forbid(unsafe_code)]
