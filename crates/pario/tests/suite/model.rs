//! Random operations on a file of bytes against a plain vector of bytes, over every transport.

use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use fastrand::Rng;
use pario::{Cluster, File};

use crate::sites::{Site, over_every_transport};

const RUNS: u64 = 60;
const OPERATIONS: usize = 50;

/// The file, and what it should be.
struct Pair<'c> {
    cluster: &'c Cluster,
    path: String,
    file: File,
    bytes: Vec<u8>,
    pointer: u64,
    random: Rng,
    /// No operation goes beyond this byte.
    reach: usize,
}

#[test]
fn a_file_of_bytes_is_like_a_vector() {
    over_every_transport(|site| {
        for seed in 0..RUNS {
            let mut pair = Pair::new(site, seed);
            for _ in 0..OPERATIONS {
                pair.step();
            }
            pair.compare_all();
            site.cluster.remove(&pair.path).unwrap();
        }
        site.wait_for_deletions();
        assert_eq!(site.subfiles(), 0);
    });
}

impl<'c> Pair<'c> {
    fn new(site: &'c Site, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let unit = *random.choice(&[1u64, 7, 4096, 65536, 1 << 20]).unwrap();
        let path = format!("/model-{seed}");
        let options = site.cluster.options().read(true).write(true).create_new(true).unit(unit);
        let options = match random.u32(0..3) {
            0 => options,
            1 => options.disk_count(random.u32(1..=4)),
            _ => {
                let mut disks = site.disks();
                random.shuffle(&mut disks);
                disks.truncate(random.usize(1..=4));
                options.disks(disks)
            }
        };
        let file = options.open(&path).unwrap();
        let reach = usize::try_from(unit * 40).unwrap().clamp(300, 2 << 20);
        let cluster = &site.cluster;
        Self { cluster, path, file, bytes: Vec::new(), pointer: 0, random, reach }
    }

    fn step(&mut self) {
        match self.random.u32(0..13) {
            0 | 1 => self.write(),
            2 | 3 => self.read(),
            4 => self.write_vectored(),
            5 => self.read_vectored(),
            6 => self.write_list(),
            7 => self.read_list(),
            8 => self.set_len(),
            9 => self.measure(),
            10 => self.start_several(),
            11 => self.use_pointer(),
            _ => self.reopen(),
        }
    }

    fn random_bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.random.fill(&mut bytes);
        bytes
    }

    /// A range within reach; mostly a small one.
    fn range(&mut self) -> (usize, usize) {
        let offset = self.random.usize(0..self.reach);
        let most = if self.random.bool() { 200 } else { self.reach };
        (offset, self.random.usize(0..=most.min(self.reach - offset)))
    }

    fn apply(&mut self, offset: usize, new: &[u8]) {
        if new.is_empty() {
            return;
        }
        if self.bytes.len() < offset + new.len() {
            self.bytes.resize(offset + new.len(), 0);
        }
        self.bytes[offset..offset + new.len()].copy_from_slice(new);
    }

    /// The expected result of a read.
    fn expected(&self, offset: usize, len: usize) -> &[u8] {
        let end = self.bytes.len();
        &self.bytes[offset.min(end)..(offset + len).min(end)]
    }

    fn write(&mut self) {
        let (offset, len) = self.range();
        let bytes = self.random_bytes(len);
        self.file.write_at(&bytes, offset as u64).unwrap();
        self.apply(offset, &bytes);
    }

    fn read(&mut self) {
        let (offset, len) = self.range();
        let mut buffer = vec![0xee; len];
        let count = self.file.read_at(&mut buffer, offset as u64).unwrap();
        assert_eq!(&buffer[..count], self.expected(offset, len), "{} {offset} {len}", self.path);
    }

    fn write_vectored(&mut self) {
        let (offset, len) = self.range();
        let bytes = self.random_bytes(len);
        let cut = self.random.usize(0..=len);
        let slices = [IoSlice::new(&bytes[..cut]), IoSlice::new(&[]), IoSlice::new(&bytes[cut..])];
        self.file.write_vectored_at(&slices, offset as u64).unwrap();
        self.apply(offset, &bytes);
    }

    fn read_vectored(&mut self) {
        let (offset, len) = self.range();
        let cut = self.random.usize(0..=len);
        let (mut first, mut second) = (vec![0xee; cut], vec![0xee; len - cut]);
        let mut slices = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        let count = self.file.read_vectored_at(&mut slices, offset as u64).unwrap();
        first.extend(second);
        assert_eq!(&first[..count], self.expected(offset, len), "{} {offset} {len}", self.path);
    }

    /// Ranges that are strided, or lie anywhere and may overlap.
    fn ranges(&mut self, may_overlap: bool) -> Vec<(usize, usize)> {
        if may_overlap && self.random.bool() {
            return (0..self.random.usize(0..20)).map(|_| self.range()).collect();
        }
        let (stride, count) = (self.random.usize(1..2000), self.random.usize(0..100));
        let start = self.random.usize(0..self.reach);
        let len = self.random.usize(0..=stride);
        let all = (0..count).map(|number| (start + number * stride, len));
        let mut ranges: Vec<_> =
            all.take_while(|(offset, len)| offset + len <= self.reach).collect();
        if self.random.bool() {
            self.random.shuffle(&mut ranges);
        }
        ranges
    }

    fn write_list(&mut self) {
        let ranges = self.ranges(false);
        let bytes = self.random_bytes(ranges.iter().map(|(_, len)| len).sum());
        self.file.write_list(&bytes, &as_ranges(&ranges)).unwrap();
        let mut rest = &bytes[..];
        for (offset, len) in ranges {
            let (now, later) = rest.split_at(len);
            self.apply(offset, now);
            rest = later;
        }
    }

    /// In a list, what lies beyond the end reads as zeros.
    fn read_list(&mut self) {
        let ranges = self.ranges(true);
        let mut buffer = vec![0xee; ranges.iter().map(|(_, len)| len).sum()];
        let count = self.file.read_list(&mut buffer, &as_ranges(&ranges)).unwrap();
        let (mut expected, mut before_end) = (Vec::new(), 0);
        for (offset, len) in ranges {
            let there = self.expected(offset, len);
            before_end += there.len();
            expected.extend_from_slice(there);
            expected.resize(expected.len() + len - there.len(), 0);
        }
        assert!(buffer == expected, "{}", self.path);
        assert_eq!(count, before_end, "{}", self.path);
    }

    fn set_len(&mut self) {
        let len = match self.random.u32(0..4) {
            0 => 0,
            1 => self.random.usize(0..=self.bytes.len()),
            _ => self.random.usize(0..self.reach),
        };
        self.file.set_len(len as u64).unwrap();
        self.bytes.resize(len, 0);
    }

    fn measure(&mut self) {
        let len = self.bytes.len() as u64;
        assert_eq!(self.file.len().unwrap(), len, "{}", self.path);
        assert_eq!(self.file.is_empty().unwrap(), len == 0);
        assert_eq!(self.file.metadata().unwrap().len, len, "{}", self.path);
        assert_eq!(self.cluster.metadata(&self.path).unwrap().len, len, "{}", self.path);
    }

    /// Writes that do not overlap, then reads, waited for in any order.
    fn start_several(&mut self) {
        let slot = self.reach / 8;
        let mut writes: Vec<(usize, Vec<u8>)> = Vec::new();
        for number in 0..self.random.usize(1..8) {
            let len = self.random.usize(0..=slot);
            let bytes = self.random_bytes(len);
            writes.push((number * slot, bytes));
        }
        self.random.shuffle(&mut writes);
        let mut started: Vec<_> = writes
            .iter()
            .map(|(offset, bytes)| self.file.start_write_at(bytes.clone(), *offset as u64).unwrap())
            .collect();
        while !started.is_empty() {
            let number = self.random.usize(0..started.len());
            started.swap_remove(number).wait().unwrap();
        }
        for (offset, bytes) in &writes {
            self.apply(*offset, bytes);
        }
        let ranges: Vec<_> = (0..6).map(|_| self.range()).collect();
        let mut started: Vec<_> = ranges
            .iter()
            .map(|(offset, len)| {
                (self.file.start_read_at(*len, *offset as u64).unwrap(), *offset, *len)
            })
            .collect();
        let mut random = self.random.clone();
        random.shuffle(&mut started);
        for (request, offset, len) in started {
            let bytes = request.wait().unwrap();
            assert!(bytes[..] == *self.expected(offset, len), "{} {offset} {len}", self.path);
        }
    }

    fn use_pointer(&mut self) {
        let len = self.bytes.len() as i64;
        let (to, expected) = match self.random.u32(0..3) {
            0 => {
                let to = self.random.u64(0..self.reach as u64);
                (SeekFrom::Start(to), to as i64)
            }
            1 => {
                let by = self.random.i64(-300..300);
                (SeekFrom::Current(by), self.pointer as i64 + by)
            }
            _ => {
                let by = self.random.i64(-300..300);
                (SeekFrom::End(by), len + by)
            }
        };
        match self.file.seek(to) {
            Ok(position) => assert_eq!(position as i64, expected),
            Err(error) => {
                assert!(expected < 0, "{error}");
                assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
                return;
            }
        }
        self.pointer = expected as u64;
        let (at, count) = (usize::try_from(expected).unwrap(), self.random.usize(0..3000));
        if self.random.bool() {
            let bytes = self.random_bytes(count);
            self.file.write_all(&bytes).unwrap();
            self.apply(at, &bytes);
            self.pointer += count as u64;
        } else {
            let mut bytes = Vec::new();
            (&mut self.file).take(count as u64).read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, self.expected(at, count), "{} {at} {count}", self.path);
            self.pointer += bytes.len() as u64;
        }
        assert_eq!(self.file.stream_position().unwrap(), self.pointer);
    }

    fn reopen(&mut self) {
        let options = self.cluster.options().read(true).write(true);
        self.file = options.open(&self.path).unwrap();
        self.pointer = 0;
    }

    fn compare_all(&mut self) {
        self.measure();
        let mut bytes = Vec::new();
        self.file.rewind().unwrap();
        self.file.read_to_end(&mut bytes).unwrap();
        assert!(bytes == self.bytes, "{}", self.path);
    }
}

fn as_ranges(ranges: &[(usize, usize)]) -> Vec<Range<u64>> {
    let range = |&(offset, len): &(usize, usize)| offset as u64..(offset + len) as u64;
    ranges.iter().map(range).collect()
}
