//! Reads any bytes as a picture or volume: an error or pixels, with no more memory than allowed.
//!
//! The first byte chooses the beginning of the rest, so that each reader is reached at once.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use pario_image::formats::{FormatOptions, read_picture, read_volume};

const MEMORY_BYTES: usize = 256 << 10;

/// The most rows to read, because a few bytes can encode very many.
const ROWS_LIMIT: u64 = 300;

const HEADS: [&[u8]; 16] = [
    b"",
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    b"II*\0\x08\0\0\0",
    b"MM\0*\0\0\0\x08",
    b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0",
    b"P",
    b"P7\n",
    b"NRRD0004\n",
    b"NRRD0004\ntype: uchar\ndimension: 3\nsizes: 5 5 3\nencoding: gzip\n",
    b"NRRD0004\ntype: float\ndimension: 2\nsizes: 3 3\nencoding: raw\nendian: big\n",
    b"NRRD0004\ntype: double\ndimension: 2\nsizes: 3 3\nencoding: raw\nendian: big\n",
    b"\x93NUMPY\x01\0",
    b"\x93NUMPY\x01\0\x3e\0{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3, 3), }",
    b"\x5c\x01\0\0",
    b"\0\0\x01\x5c",
    b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
];

/// Compression and predictor of a TIFF with a valid directory, whose data follows.
const TIFFS: [(u16, u16); 5] = [(1, 1), (5, 1), (5, 2), (8, 3), (32_773, 1)];

/// Tiles of 16 x 16 in a picture of 20 x 5, of u16 or of f32.
fn tiff_head((compression, predictor): (u16, u16)) -> Vec<u8> {
    let float = predictor == 3;
    let (bits, format) = if float { (32, 3) } else { (16, 1) };
    let tags: [(u16, u32); 11] = [
        (256, 20),
        (257, 5),
        (258, bits),
        (259, compression.into()),
        (262, 1),
        (317, predictor.into()),
        (322, 16),
        (323, 16),
        // The values of two tiles are behind the directory.
        (324, 146),
        (325, 154),
        (339, format),
    ];
    let mut head = b"II*\0\x08\0\0\0\x0b\0".to_vec();
    for (tag, value) in tags {
        head.extend(tag.to_le_bytes());
        head.extend(4u16.to_le_bytes());
        head.extend(if matches!(tag, 324 | 325) { 2u32 } else { 1 }.to_le_bytes());
        head.extend(value.to_le_bytes());
    }
    head.extend([0; 4]);
    for value in [162u32, 190, 28, 60] {
        head.extend(value.to_le_bytes());
    }
    head
}

fn head(choice: u8) -> Vec<u8> {
    let choice = usize::from(choice) % (HEADS.len() + TIFFS.len());
    match HEADS.get(choice) {
        Some(head) => head.to_vec(),
        None => tiff_head(TIFFS[choice - HEADS.len()]),
    }
}

fuzz_target!(|input: (u8, &[u8])| {
    let bytes = [&head(input.0), input.1].concat();
    let options = FormatOptions { memory_bytes: MEMORY_BYTES, ..FormatOptions::default() };
    if let Ok(mut rows) = read_picture("fuzz", Cursor::new(bytes.clone()), &options) {
        let (width, height) = rows.size();
        let mut row = vec![0; usize::try_from(width).unwrap() * rows.pixel().bytes()];
        assert!(row.len() <= MEMORY_BYTES);
        let _ = (0..height.min(ROWS_LIMIT)).try_for_each(|_| rows.next_row(&mut row));
    }
    if let Ok(mut volume) = read_volume("fuzz", Cursor::new(bytes), &options) {
        let [width, height, depth] = volume.size();
        let mut row = vec![0; usize::try_from(width).unwrap() * volume.pixel().bytes()];
        assert!(row.len() <= MEMORY_BYTES);
        let rows = (height * depth).min(ROWS_LIMIT);
        let _ = (0..rows).try_for_each(|_| volume.next_row(&mut row));
    }
});
