//! A directory of a TIFF: its tags, and the positions of their values.
//!
//! `Decoder::new` of the crate `tiff` interprets the first page before its limits can be set: a tag
//! may take 256 MiB whatever the limit of the caller is, a page with pixels that it does not know
//! fails the pages behind it, and a file that omits the offset of the next directory fails too. Its
//! errors name no position in the file.

use std::collections::BTreeMap;
use std::io::{self, SeekFrom};

use super::super::byte_io::{self, ByteSource};
use super::super::{ByteOrder, FilePosition, FormatError};
use super::kind;

/// Limit for the number of tags; programs write far fewer.
const TAGS_LIMIT: u64 = 4096;

/// A directory of a file. It reads values on request.
pub(super) struct TiffDirectory {
    name: String,
    pub order: ByteOrder,
    entries: BTreeMap<u16, TiffEntry>,
    pub file_bytes: u64,
    /// The bytes of the directory itself.
    bytes: u64,
    /// The offset of the next directory, if there is one.
    pub next: Option<u64>,
}

#[derive(Clone, Copy)]
struct TiffEntry {
    kind: u16,
    count: u64,
    /// The offset of the values, in the entry or elsewhere.
    offset: u64,
}

impl TiffDirectory {
    /// Returns the offset of the first directory.
    pub fn first<S: ByteSource>(name: &str, source: &mut S) -> Result<u64, FormatError> {
        let mut cursor = Cursor { name, source, order: ByteOrder::Little, at: 0 };
        Ok(cursor.header()?.1)
    }

    /// Reads the directory at an offset, or the first one.
    pub fn read<S: ByteSource>(
        name: &str,
        source: &mut S,
        offset: Option<u64>,
    ) -> Result<TiffDirectory, FormatError> {
        let file_bytes = byte_io::length(source)
            .map_err(|error| FormatError::reading(name, FilePosition::Header, error))?;
        let mut cursor = Cursor { name, source, order: ByteOrder::Little, at: 0 };
        let (word, first) = cursor.header()?;
        let big = word == 8;
        let start = offset.unwrap_or(first);
        cursor.go_to(start)?;
        let tags = cursor.number(if big { 8 } else { 2 })?;
        if tags > TAGS_LIMIT {
            let what = format!("the directory has {tags} tags, the limit is {TAGS_LIMIT}");
            return Err(FormatError::damaged(name, FilePosition::Byte(start), what));
        }
        let mut entries = BTreeMap::new();
        for _ in 0..tags {
            let (tag, kind) = (cursor.short()?, cursor.short()?);
            let count = cursor.number(word)?;
            let mut offset = cursor.at;
            let value = cursor.number(word)?;
            if count.saturating_mul(value_bytes(kind).unwrap_or(1)) > word as u64 {
                offset = value;
            }
            entries.insert(tag, TiffEntry { kind, count, offset });
        }
        // Some programs omit the offset of the next directory if there is none.
        let next = cursor.number(word).ok().filter(|next| *next != 0);
        let bytes = cursor.at - start;
        let (name, order) = (name.to_owned(), cursor.order);
        Ok(TiffDirectory { name, order, entries, file_bytes, bytes, next })
    }

    /// Returns the bytes that it takes in the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn has(&self, tag: u16) -> bool {
        self.entries.contains_key(&tag)
    }

    /// Returns the first value of a tag, if the tag is present.
    pub fn number<S: ByteSource>(
        &self,
        source: &mut S,
        tag: u16,
    ) -> Result<Option<u64>, FormatError> {
        match self.entries.get(&tag) {
            None => Ok(None),
            Some(entry) => Ok(Some(self.values(source, tag, TiffEntry { count: 1, ..*entry })?[0])),
        }
    }

    /// Returns the value of a tag that must be present.
    pub fn required<S: ByteSource>(&self, source: &mut S, tag: u16) -> Result<u64, FormatError> {
        self.number(source, tag)?.ok_or_else(|| self.missing(tag))
    }

    /// Returns all values of a tag, which must be `count`.
    pub fn numbers<S: ByteSource>(
        &self,
        source: &mut S,
        tag: u16,
        count: u64,
    ) -> Result<Vec<u64>, FormatError> {
        let entry = *self.entries.get(&tag).ok_or_else(|| self.missing(tag))?;
        if entry.count != count {
            let what = format!("tag {tag} has {} values instead of {count}", entry.count);
            return Err(FormatError::damaged(&self.name, FilePosition::Header, what));
        }
        self.values(source, tag, entry)
    }

    /// Returns whether all values of a tag are equal.
    pub fn uniform<S: ByteSource>(&self, source: &mut S, tag: u16) -> Result<bool, FormatError> {
        let Some(entry) = self.entries.get(&tag) else { return Ok(true) };
        let few = TiffEntry { count: entry.count.min(16), ..*entry };
        let values = self.values(source, tag, few)?;
        Ok(values.iter().all(|value| *value == values[0]))
    }

    fn values<S: ByteSource>(
        &self,
        source: &mut S,
        tag: u16,
        entry: TiffEntry,
    ) -> Result<Vec<u64>, FormatError> {
        let damaged =
            |what| Err(FormatError::damaged(&self.name, FilePosition::Byte(entry.offset), what));
        let Some(each) = value_bytes(entry.kind) else {
            return damaged(format!("tag {tag} has values of type {}, not numbers", entry.kind));
        };
        // This limits the memory to a few times the length of the file.
        let end = entry.count.checked_mul(each).and_then(|bytes| entry.offset.checked_add(bytes));
        if end.is_none_or(|end| end > self.file_bytes) {
            return damaged(format!("the {} values of tag {tag} are not in the file", entry.count));
        }
        let mut cursor = Cursor { name: &self.name, source, order: self.order, at: entry.offset };
        cursor.go_to(entry.offset)?;
        // At most the length of the file.
        #[allow(clippy::cast_possible_truncation)]
        let each = each as usize;
        (0..entry.count).map(|_| cursor.number(each)).collect()
    }

    fn missing(&self, tag: u16) -> FormatError {
        FormatError::damaged(&self.name, FilePosition::Header, format!("tag {tag} is missing"))
    }
}

/// Returns the bytes of a whole number of this type.
fn value_bytes(kind: u16) -> Option<u64> {
    match kind {
        kind::BYTE => Some(1),
        kind::SHORT => Some(2),
        kind::LONG => Some(4),
        kind::LONG8 => Some(8),
        _ => None,
    }
}

/// Reads consecutive numbers.
struct Cursor<'a, S> {
    name: &'a str,
    source: &'a mut S,
    order: ByteOrder,
    at: u64,
}

impl<S: ByteSource> Cursor<'_, S> {
    /// Reads the header of the file: the byte order, the bytes of an offset, and the offset of the
    /// first directory.
    fn header(&mut self) -> Result<(usize, u64), FormatError> {
        self.go_to(0)?;
        if self.bytes::<2>()? == *b"MM" {
            self.order = ByteOrder::Big;
        }
        let big = self.number(2)? == 43;
        if big && self.number(4)? != if self.order == ByteOrder::Big { 8 << 16 } else { 8 } {
            let what = "offsets are not of 8 bytes";
            return Err(FormatError::damaged(self.name, FilePosition::Byte(4), what));
        }
        let word = if big { 8 } else { 4 };
        Ok((word, self.number(word)?))
    }

    fn go_to(&mut self, offset: u64) -> Result<(), FormatError> {
        self.source.seek(SeekFrom::Start(offset)).map_err(|error| self.failed(error))?;
        self.at = offset;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(|error| self.failed(error))?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// Reads a number of 1, 2, 4 or 8 bytes.
    fn number(&mut self, bytes: usize) -> Result<u64, FormatError> {
        let mut word = [0; 8];
        let word_bytes = &mut word[..bytes];
        self.source.read_exact(word_bytes).map_err(|error| self.failed(error))?;
        self.at += bytes as u64;
        if self.order == ByteOrder::Big {
            word[..bytes].reverse();
        }
        Ok(u64::from_le_bytes(word))
    }

    fn short(&mut self) -> Result<u16, FormatError> {
        let bytes = self.bytes()?;
        Ok(match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    fn failed(&self, error: io::Error) -> FormatError {
        FormatError::reading(self.name, FilePosition::Byte(self.at), error)
    }
}
