//! TIFF files of every variant: byte orders, strips and tiles, planes, compressions, predictors.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pario_image::Sample;
use weezl::BitOrder;
use weezl::encode::Encoder;

use super::picture::Picture;

/// A variant of the format.
#[derive(Clone, Copy, Debug)]
pub struct TiffVariant {
    pub big_endian: bool,
    pub bigtiff: bool,
    /// The size of tiles; strips of `strip_rows` if it is `None`.
    pub tile: Option<(usize, usize)>,
    pub strip_rows: usize,
    pub planar: bool,
    pub compression: u16,
    pub predictor: u16,
}

pub const PLAIN: TiffVariant = TiffVariant {
    big_endian: false,
    bigtiff: false,
    tile: None,
    strip_rows: 3,
    planar: false,
    compression: 1,
    predictor: 1,
};

impl TiffVariant {
    pub fn file(&self, picture: &Picture) -> Vec<u8> {
        let side = |side: u64| usize::try_from(side).unwrap();
        let (width, height) = (side(picture.size.0), side(picture.size.1));
        let channels = picture.pixel.channels();
        let (chunk_width, chunk_height) = self.tile.unwrap_or((width, self.strip_rows));
        let planes = if self.planar { channels } else { 1 };

        let mut chunks = Vec::new();
        for plane in 0..planes {
            for top in (0..height).step_by(chunk_height) {
                for left in (0..width).step_by(chunk_width) {
                    // Tiles are always whole, the last strip may be shorter.
                    let rows = if self.tile.is_some() {
                        chunk_height
                    } else {
                        chunk_height.min(height - top)
                    };
                    let mut data = Vec::new();
                    for y in top..top + rows {
                        let mut row = Vec::new();
                        for x in left..left + chunk_width {
                            row.extend(self.samples(picture, x, y, plane));
                        }
                        data.extend(self.predict(row, picture.pixel.sample(), channels / planes));
                    }
                    chunks.push(self.compress(&data));
                }
            }
        }
        self.assemble(picture, &chunks, (chunk_width, chunk_height))
    }

    /// The samples of a pixel in this plane, little-endian; zeros outside of the picture.
    fn samples(&self, picture: &Picture, x: usize, y: usize, plane: usize) -> Vec<u8> {
        let sample = picture.pixel.sample().bytes();
        let bytes = picture.pixel.bytes();
        let at = y * picture.row_bytes() + x * bytes;
        let inside = x * bytes < picture.row_bytes() && at < picture.bytes.len();
        let pixel = if inside { picture.bytes[at..at + bytes].to_vec() } else { vec![0; bytes] };
        if self.planar { pixel[plane * sample..][..sample].to_vec() } else { pixel }
    }

    /// The row before compression, in the byte order of the file.
    fn predict(&self, row: Vec<u8>, sample: Sample, channels: usize) -> Vec<u8> {
        let bytes = sample.bytes();
        let values: Vec<u32> = row
            .chunks(bytes)
            .map(|value| value.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte)))
            .collect();
        if self.predictor == 3 {
            let mut shuffled: Vec<u8> = Vec::new();
            for weight in (0..4).rev() {
                shuffled.extend(values.iter().map(|value| value.to_le_bytes()[weight]));
            }
            return (0..shuffled.len())
                .map(|i| match i.checked_sub(channels) {
                    None => shuffled[i],
                    Some(left) => shuffled[i].wrapping_sub(shuffled[left]),
                })
                .collect();
        }
        let coded = (0..values.len()).map(|i| match i.checked_sub(channels) {
            Some(left) if self.predictor == 2 => values[i].wrapping_sub(values[left]),
            _ => values[i],
        });
        coded.flat_map(|value| self.number(value.into(), bytes)).collect()
    }

    fn compress(&self, data: &[u8]) -> Vec<u8> {
        match self.compression {
            1 => data.to_vec(),
            5 => Encoder::with_tiff_size_switch(BitOrder::Msb, 8).encode(data).unwrap(),
            8 | 32_946 => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            32_773 => pack_bits(data),
            other => panic!("compression {other}"),
        }
    }

    fn number(&self, value: u64, bytes: usize) -> Vec<u8> {
        let mut number = value.to_le_bytes()[..bytes].to_vec();
        if self.big_endian {
            number.reverse();
        }
        number
    }

    /// Chunks first, then the directory, then values that do not fit into it.
    fn assemble(&self, picture: &Picture, chunks: &[Vec<u8>], chunk: (usize, usize)) -> Vec<u8> {
        let word = if self.bigtiff { 8 } else { 4 };
        let mut file = if self.big_endian { b"MM".to_vec() } else { b"II".to_vec() };
        file.extend(self.number(if self.bigtiff { 43 } else { 42 }, 2));
        if self.bigtiff {
            file.extend(self.number(8, 2));
            file.extend(self.number(0, 2));
        }
        let data: usize = chunks.iter().map(Vec::len).sum();
        let directory = file.len() + word + data;
        file.extend(self.number(directory as u64, word));
        let mut offsets = Vec::new();
        for chunk in chunks {
            offsets.push(file.len() as u64);
            file.extend(chunk);
        }
        let lengths = chunks.iter().map(|chunk| chunk.len() as u64).collect();

        let channels = picture.pixel.channels();
        let (bits, format) = match picture.pixel.sample() {
            Sample::U8 => (8, 1),
            Sample::U16 => (16, 1),
            Sample::I8 => (8, 2),
            Sample::I16 => (16, 2),
            Sample::F32 => (32, 3),
        };
        let long = if self.bigtiff { 16 } else { 4 };
        let mut tags = vec![
            (256u16, 4u16, vec![picture.size.0]),
            (257, 4, vec![picture.size.1]),
            (258, 3, vec![bits; channels]),
            (259, 3, vec![self.compression.into()]),
            (262, 3, vec![if channels < 3 { 1 } else { 2 }]),
            (277, 3, vec![channels as u64]),
            (284, 3, vec![if self.planar { 2 } else { 1 }]),
            (317, 3, vec![self.predictor.into()]),
            (339, 3, vec![format; channels]),
        ];
        if channels.is_multiple_of(2) {
            tags.push((338, 3, vec![2]));
        }
        if self.tile.is_some() {
            tags.push((322, 4, vec![chunk.0 as u64]));
            tags.push((323, 4, vec![chunk.1 as u64]));
            tags.extend([(324, long, offsets), (325, long, lengths)]);
        } else {
            tags.push((278, 4, vec![chunk.1 as u64]));
            tags.extend([(273, long, offsets), (279, long, lengths)]);
        }
        tags.sort();

        let each = if self.bigtiff { 20 } else { 12 };
        let count = if self.bigtiff { 8 } else { 2 };
        let mut values_at = directory + count + tags.len() * each + word;
        let mut values = Vec::new();
        file.extend(self.number(tags.len() as u64, count));
        for (tag, kind, numbers) in tags {
            let bytes = if kind == 3 {
                2
            } else if kind == 4 {
                4
            } else {
                8
            };
            file.extend(self.number(tag.into(), 2));
            file.extend(self.number(kind.into(), 2));
            file.extend(self.number(numbers.len() as u64, word));
            let mut value: Vec<u8> =
                numbers.iter().flat_map(|number| self.number(*number, bytes)).collect();
            if value.len() > word {
                file.extend(self.number(values_at as u64, word));
                values_at += value.len();
                values.extend(value);
            } else {
                value.resize(word, 0);
                file.extend(value);
            }
        }
        file.extend(self.number(0, word));
        file.extend(values);
        file
    }
}

/// Runs of equal bytes as repeats, others as literals, with no-op bytes in between.
fn pack_bits(data: &[u8]) -> Vec<u8> {
    let mut packed = vec![128];
    for run in data.chunk_by(|a, b| a == b) {
        for part in run.chunks(128) {
            match part.len() {
                1 => packed.extend([0, part[0]]),
                len => packed.extend([u8::try_from(257 - len).unwrap(), part[0]]),
            }
        }
    }
    packed
}
