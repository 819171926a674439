//! Pictures larger than memory: the tests read them from a source that computes their bytes, and
//! measure the memory. Each test needs a process of its own, as nextest runs it.

use std::fs;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use pario_image::formats::{
    FormatOptions, PngRows, PngSink, PnmRows, RowSink, Rows, TiffRows, tiff_sink,
};
use pario_image::{Pixel, Sample};
use tiff::decoder::{Decoder, DecodingResult};

use super::picture::pixel;

const WIDTH: u64 = 60_000;
const HEIGHT: u64 = 40_000;

/// Limit for the memory of reading a picture of 2.4 GB and more.
const MEMORY_KIB: u64 = 48 << 10;

/// A header, followed by bytes that are computed from their position.
struct ComputedSource {
    head: Vec<u8>,
    data_bytes: u64,
    at: u64,
}

fn value(position: u64) -> u8 {
    (position % 251).to_le_bytes()[0]
}

impl ComputedSource {
    fn new(head: Vec<u8>, data_bytes: u64) -> ComputedSource {
        ComputedSource { head, data_bytes, at: 0 }
    }

    fn length(&self) -> u64 {
        self.head.len() as u64 + self.data_bytes
    }
}

impl Read for ComputedSource {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut bytes = 0;
        for byte in out.iter_mut().take(usize::try_from(self.length() - self.at).unwrap()) {
            *byte = match self.at.checked_sub(self.head.len() as u64) {
                None => self.head[usize::try_from(self.at).unwrap()],
                Some(position) => value(position),
            };
            self.at += 1;
            bytes += 1;
        }
        Ok(bytes)
    }
}

impl Seek for ComputedSource {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(place) => place,
            SeekFrom::End(back) => self.length().saturating_add_signed(back),
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        }
        .min(self.length());
        Ok(self.at)
    }
}

/// The peak memory of this process.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Reads rows, compares them with the source, and checks the memory.
fn check(mut rows: impl Rows, count: u64) {
    let row_bytes = rows.size().0 * rows.pixel().bytes() as u64;
    let mut row = vec![0; usize::try_from(row_bytes).unwrap()];
    let before = peak_kib();
    for number in 0..count {
        rows.next_row(&mut row).unwrap();
        let start = number * row_bytes;
        assert!(row.iter().zip(start..).all(|(byte, at)| *byte == value(at)), "row {number}");
    }
    let taken = peak_kib() - before;
    assert!(taken < MEMORY_KIB, "{taken} KiB were taken");
}

#[test]
fn a_pgm_larger_than_memory() {
    let head = format!("P5\n{WIDTH} {HEIGHT}\n255\n").into_bytes();
    let source = BufReader::new(ComputedSource::new(head, WIDTH * HEIGHT));
    let rows = PnmRows::open("huge.pgm", source, &FormatOptions::default()).unwrap();
    assert_eq!(rows.size(), (WIDTH, HEIGHT));
    check(rows, 2_000);
}

/// The bytes before the pixels of our TIFF.
fn tiff_head(pixel: Pixel) -> Vec<u8> {
    let mut head = Vec::new();
    tiff_sink("head", &mut head, (WIDTH, HEIGHT), pixel).unwrap();
    head
}

#[test]
fn a_tiff_larger_than_memory() {
    let head = tiff_head(Pixel::GREY);
    assert_eq!(head[..4], *b"II*\0");
    let source = BufReader::new(ComputedSource::new(head, WIDTH * HEIGHT));
    let rows = TiffRows::open("huge.tif", source, &FormatOptions::default()).unwrap();
    assert_eq!(rows.size(), (WIDTH, HEIGHT));
    check(rows, 2_000);
}

#[test]
fn a_tiff_of_4_gib_and_more_is_bigtiff() {
    let colour = pixel(Sample::U16, 3);
    let data_bytes = WIDTH * HEIGHT * 6;
    let head = tiff_head(colour);
    assert_eq!(head[..4], *b"II+\0");
    let source = BufReader::new(ComputedSource::new(head.clone(), data_bytes));
    let rows = TiffRows::open("huge.tif", source, &FormatOptions::default()).unwrap();
    check(rows, 300);

    // Another program finds the last strip, which lies far beyond 4 GiB.
    let mut decoder = Decoder::new(ComputedSource::new(head, data_bytes)).unwrap();
    let strips = decoder.strip_count().unwrap();
    let DecodingResult::U16(samples) = decoder.read_chunk(strips - 1).unwrap() else {
        panic!("other samples")
    };
    let first = data_bytes - samples.len() as u64 * 2;
    let made = (first..).step_by(2).map(|at| u16::from_le_bytes([value(at), value(at + 1)]));
    assert!(samples.into_iter().eq(made.take(usize::try_from((data_bytes - first) / 2).unwrap())));
}

#[test]
fn a_tiff_of_one_strip_is_not_read_as_a_whole() {
    // A directory by hand: all rows in one strip.
    let mut head = b"II*\0\x08\0\0\0\x07\0".to_vec();
    let data = 8 + 2 + 7 * 12 + 4;
    let tags: [(u16, u64); 7] = [
        (256, WIDTH),
        (257, HEIGHT),
        (258, 8),
        (262, 1),
        (273, data),
        (278, HEIGHT),
        (279, WIDTH * HEIGHT),
    ];
    for (tag, value) in tags {
        head.extend(tag.to_le_bytes());
        head.extend([4, 0, 1, 0, 0, 0]);
        head.extend(u32::try_from(value).unwrap().to_le_bytes());
    }
    head.extend([0; 4]);
    assert_eq!(head.len() as u64, data);
    let source = BufReader::new(ComputedSource::new(head, WIDTH * HEIGHT));
    check(TiffRows::open("strip.tif", source, &FormatOptions::default()).unwrap(), 2_000);
}

/// The start of an output; the rest is only counted.
struct OutputStart {
    bytes: Vec<u8>,
    all: u64,
}

const KEPT_BYTES: usize = 4 << 20;

impl Write for OutputStart {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = KEPT_BYTES - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.all += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_png_larger_than_memory() {
    use std::sync::mpsc;

    /// Sends the output when the sink is dropped.
    struct SentOutput(OutputStart, mpsc::Sender<Vec<u8>>);

    impl Write for SentOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Drop for SentOutput {
        fn drop(&mut self) {
            let _ = self.1.send(std::mem::take(&mut self.0.bytes));
        }
    }

    let (sender, receiver) = mpsc::channel();
    let output = SentOutput(OutputStart { bytes: Vec::new(), all: 0 }, sender);
    let before = peak_kib();
    let mut sink = PngSink::new("huge.png", output, (WIDTH, HEIGHT), Pixel::GREY).unwrap();
    for number in 0..300 {
        let row: Vec<u8> = (number * WIDTH..).take(60_000).map(value).collect();
        sink.put_row(&row).unwrap();
    }
    let taken = peak_kib() - before;
    assert!(taken < MEMORY_KIB, "{taken} KiB were taken");
    drop(sink);
    let file = io::Cursor::new(receiver.recv().unwrap());
    let rows = PngRows::open("huge.png", file, &FormatOptions::default()).unwrap();
    assert_eq!(rows.size(), (WIDTH, HEIGHT));
    check(rows, 200);
}
