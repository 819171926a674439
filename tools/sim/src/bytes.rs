//! The bytes of a simulated file: those that were written, and zero between them.

use std::collections::BTreeMap;

const PAGE: usize = 256;

/// Sparse bytes, and their end.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    len: u64,
}

impl Bytes {
    /// One past the last byte that was written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Writes bytes, and extends the file if needed.
    pub fn write(&mut self, from: u64, bytes: &[u8]) {
        for (page, at, part) in parts(from, bytes.len()) {
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            page[at..at + part.len()].copy_from_slice(&bytes[part]);
        }
        if !bytes.is_empty() {
            self.len = self.len.max(from + bytes.len() as u64);
        }
    }

    /// Reads `len` bytes; bytes that were not written are zero.
    pub fn read(&self, from: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (page, at, part) in parts(from, len) {
            if let Some(page) = self.pages.get(&page) {
                bytes[part.clone()].copy_from_slice(&page[at..at + part.len()]);
            }
        }
        bytes
    }

    /// The first byte in which two files differ, if any.
    pub fn difference(&self, other: &Self) -> Option<u64> {
        let zero = [0; PAGE];
        let pages = self.pages.keys().chain(other.pages.keys());
        let of = |bytes: &Self, page| bytes.pages.get(page).map_or(zero, |page| **page);
        let differs = pages.filter_map(|page| {
            let (one, two) = (of(self, page), of(other, page));
            let at = one.iter().zip(&two).position(|(one, two)| one != two)?;
            Some(page * PAGE as u64 + at as u64)
        });
        let len = (self.len != other.len).then_some(self.len.min(other.len));
        differs.chain(len).min()
    }
}

/// Splits a range by pages: page number, offset in the page, and range of the bytes.
fn parts(from: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let offset = from + next as u64;
        let at = usize::try_from(offset % PAGE as u64).unwrap_or(0);
        let count = (len - next).min(PAGE - at);
        let part = next..next + count;
        next += count;
        (count > 0).then_some((offset / PAGE as u64, at, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_they_were_written_and_zero_elsewhere() {
        let mut bytes = Bytes::default();
        bytes.write(250, &[1; 300]);
        bytes.write(1 << 62, &[]);
        assert_eq!((bytes.len(), bytes.read(248, 4)), (550, vec![0, 0, 1, 1]));
        let mut other = bytes.clone();
        assert_eq!(bytes.difference(&other), None);
        other.write(700, &[0]);
        assert_eq!(bytes.difference(&other), Some(550), "it is longer");
        other.write(255, &[2; 3]);
        assert_eq!(other.difference(&bytes), Some(255));
    }
}
