//! Changes a part of a record file in any way: reading it gives its map or an error, never a panic.
//!
//! The input is a list of edits of a well-formed part. A checksum would stop nearly all of them at
//! once, so an edit may also correct the checksum that covers it.

#![no_main]

use std::sync::OnceLock;

use crc_fast::{CrcAlgorithm, Digest};
use libfuzzer_sys::fuzz_target;
use pario::Job;
use pario::records::{NewRecord, map_of_part};

const EDIT_BYTES: usize = 6;
/// The offset of the log.
const LOG: usize = 8192;

/// A part with a map of some changes.
fn image() -> &'static Vec<u8> {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("pario-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let job = Job::new(&format!("fuzzing {}", std::process::id()), 1, 0).unwrap();
        let file = job.records().create(dir.join("file")).unwrap();
        let new = [NewRecord::Regular(10), NewRecord::Irregular(vec![5000]), NewRecord::Regular(0)];
        let made = file.create_records(&new).unwrap();
        file.destroy_record(made[1]).unwrap();
        file.create_record(7).unwrap();
        file.close().unwrap();
        let mut bytes = std::fs::read(dir.join("file.part0")).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        // Reading the map does not need the blocks.
        bytes.truncate(LOG + (64 << 10));
        bytes
    })
}

fn sum(pieces: &[&[u8]]) -> [u8; 8] {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize().to_le_bytes()
}

/// Sets one byte, and perhaps the checksum that covers it.
fn apply(bytes: &mut Vec<u8>, edit: &[u8]) {
    let at = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
    let is_right = edit[3] & 1 == 1;
    match edit[3] >> 6 {
        0 | 1 => {
            let at = at % 96;
            for start in [0, 4096] {
                bytes[start + at] = edit[2];
                if is_right {
                    let sum = sum(&[&bytes[start + 16..start + 96]]);
                    bytes[start + 8..start + 16].copy_from_slice(&sum);
                }
            }
        }
        2 => {
            let at = LOG + at % 512;
            bytes[at] = edit[2];
            let frame = at / 64 * 64 - usize::from(edit[4] % 4) * 64;
            let end = usize::from(u16::from_le_bytes([bytes[frame + 4], bytes[frame + 5]])) + 32;
            if is_right && frame >= LOG && frame + end <= bytes.len() {
                let (file, number, log) = (&bytes[32..48], &bytes[24..28], &bytes[80..88]);
                let body = &bytes[frame + 16..frame + end.max(16)];
                let sum = sum(&[file, number, log, &bytes[frame + 4..frame + 8], body]);
                bytes[frame + 8..frame + 16].copy_from_slice(&sum);
            }
        }
        _ if edit[4] == 0 => bytes.truncate((at * 2).max(LOG + 1024)),
        _ => {
            let at = at % bytes.len();
            bytes[at] = edit[2];
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let _ = map_of_part(input);
    let mut bytes = image().clone();
    for edit in input.chunks_exact(EDIT_BYTES).take(24) {
        apply(&mut bytes, edit);
    }
    if let Ok(map) = map_of_part(&bytes) {
        for (record, block) in &map.records {
            assert!(*record > 0 && *record < map.next);
            assert!(block.start + block.len <= block.total);
        }
    }
});
