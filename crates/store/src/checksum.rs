//! The one checksum of the store: CRC-64/NVME.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of `parts` one after the other.
pub(crate) fn checksum(parts: &[&[u8]]) -> u64 {
    match parts {
        [only] => crc_fast::checksum(CrcAlgorithm::Crc64Nvme, only),
        _ => {
            let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
            for part in parts {
                digest.update(part);
            }
            digest.finalize()
        }
    }
}
