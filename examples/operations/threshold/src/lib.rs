//! threshold: each byte of the body becomes 255 if it is above the parameter `level`, and 0
//! otherwise.

use pario_module_sdk::{Extent, operation};

#[operation]
fn threshold(extent: &Extent<'_>, level: u8) -> Vec<u8> {
    extent.body.iter().map(|byte| if *byte > level { 255 } else { 0 }).collect()
}
