//! The interface between node and module, version 1, byte by byte: docs/operations.md.
//!
//! All numbers are little endian. Addresses are offsets in the memory of the module.

use pario_operation::{ExtentBytes, NeighbourRequest};
use pario_proto::{ExtentIndex, ExtentPlacement, SubfileIndex};

use crate::limits::NEIGHBOURS_LIMIT;

/// The version of the interface.
pub const VERSION: i32 = 1;

/// The length of the record that a function gets.
pub const INPUT_BYTES: usize = 64;
/// The length of the record that a function returns.
pub const OUTPUT_BYTES: usize = 32;
/// The alignment of the input record, of header, body, parameters, selection and neighbours.
pub const ALIGNMENT: usize = 16;
/// The length of the fixed part of a neighbour request.
const REQUEST_BYTES: usize = 16;

/// What a function of a module gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModuleInput<'a> {
    /// The parameters of the call.
    pub parameters: &'a [u8],
    /// The extent, or the partial result to merge; `None` if there is none.
    pub extent: Option<ExtentBytes<'a>>,
    /// The part of the extent to cut.
    pub selection: &'a [u8],
    /// The parts of other extents.
    pub neighbours: &'a [pario_net::Bulk],
    /// The number of subfiles of the file.
    pub subfiles: u32,
    /// The placement of the extent.
    pub placement: Option<ExtentPlacement>,
}

/// What a function of a module returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleOutput {
    /// Nothing.
    Nothing,
    /// Bytes: a result, a cut part, or a list of neighbours.
    Result(Vec<u8>),
    /// A new extent.
    Extent {
        /// Its placement.
        placement: ExtentPlacement,
        /// Its header.
        header: Vec<u8>,
        /// Its body.
        body: Vec<u8>,
    },
    /// The text of a failure.
    Failure(String),
}

/// A run of bytes in the memory of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRun {
    /// The address of the first byte.
    pub address: u32,
    /// The number of bytes.
    pub len: u32,
}

/// The output record of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRecord {
    /// The kind: 0 nothing, 1 result, 2 extent, 3 failure.
    pub kind: u32,
    /// The placement of a new extent.
    pub placement: ExtentPlacement,
    /// The header of a new extent.
    pub header: ByteRun,
    /// The result, the body of a new extent, or the text of a failure.
    pub body: ByteRun,
}

impl ModuleInput<'_> {
    /// Returns the number of bytes that the input takes in the memory of a module.
    pub fn len_bytes(&self) -> usize {
        let extent = self.extent.unwrap_or(ExtentBytes { header: &[], body: &[] });
        let runs = [self.parameters, self.selection, extent.header, extent.body];
        let runs: usize = runs.iter().map(|run| aligned(run.len())).sum();
        let neighbours: usize = self.neighbours.iter().map(|bytes| aligned(bytes.len())).sum();
        INPUT_BYTES + aligned(8 * self.neighbours.len()) + runs + neighbours
    }

    /// Writes the input into memory of a module that begins at an address and has
    /// [`len_bytes`](Self::len_bytes) bytes. Each byte is copied once.
    pub fn write(&self, memory: &mut [u8], address: u32) {
        let (record, rest) = memory.split_at_mut(INPUT_BYTES);
        let (table, rest) = rest.split_at_mut(aligned(8 * self.neighbours.len()));
        let table_address = address + to_u32(INPUT_BYTES);
        let mut writer = RunWriter { rest, address: table_address + to_u32(table.len()) };
        let extent = self.extent.unwrap_or(ExtentBytes { header: &[], body: &[] });
        let runs = [self.parameters, extent.header, extent.body, self.selection];
        record.fill(0);
        for (slot, bytes) in record.chunks_exact_mut(8).zip(runs) {
            slot.copy_from_slice(&writer.write(bytes).encode());
        }
        let neighbours = ByteRun { address: table_address, len: to_u32(self.neighbours.len()) };
        record[32..40].copy_from_slice(&neighbours.encode());
        record[40..44].copy_from_slice(&self.subfiles.to_le_bytes());
        record[44..48].copy_from_slice(&u32::from(self.extent.is_some()).to_le_bytes());
        if let Some(placement) = self.placement {
            record[48..52].copy_from_slice(&placement.subfile.0.to_le_bytes());
            record[56..64].copy_from_slice(&placement.extent.0.to_le_bytes());
        }
        for (slot, bytes) in table.chunks_exact_mut(8).zip(self.neighbours) {
            slot.copy_from_slice(&writer.write(bytes).encode());
        }
    }
}

/// Writes runs of bytes one after the other, each at an aligned address.
struct RunWriter<'m> {
    rest: &'m mut [u8],
    address: u32,
}

impl RunWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> ByteRun {
        let run = ByteRun { address: self.address, len: to_u32(bytes.len()) };
        let (to, rest) = std::mem::take(&mut self.rest).split_at_mut(aligned(bytes.len()));
        to[..bytes.len()].copy_from_slice(bytes);
        (self.rest, self.address) = (rest, self.address + to_u32(to.len()));
        run
    }
}

impl ByteRun {
    fn encode(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.address.to_le_bytes());
        bytes[4..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Returns the bytes in the memory of a module; `None` if they lie outside.
    pub fn of(self, memory: &[u8]) -> Option<&[u8]> {
        let start = self.address as usize;
        memory.get(start..start.checked_add(self.len as usize)?)
    }
}

impl OutputRecord {
    /// Decodes the record at an address; `None` if it lies outside of the memory.
    pub fn decode(memory: &[u8], address: u32) -> Option<Self> {
        let record = ByteRun { address, len: to_u32(OUTPUT_BYTES) }.of(memory)?;
        let run = |at: usize| ByteRun { address: u32_at(record, at), len: u32_at(record, at + 4) };
        Some(Self {
            kind: u32_at(record, 0),
            placement: placement_at(record, 4, 8),
            header: run(16),
            body: run(24),
        })
    }
}

/// Decodes the list of neighbours that a module requests.
pub fn decode_neighbours(mut bytes: &[u8]) -> Result<Vec<NeighbourRequest>, String> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        if requests.len() == NEIGHBOURS_LIMIT {
            return Err(format!(
                "it requests more than {NEIGHBOURS_LIMIT} neighbours of one extent: request fewer, \
                 larger ones"
            ));
        }
        let Some((fixed, rest)) = bytes.split_at_checked(REQUEST_BYTES) else {
            return Err("its list of neighbours ends in the middle of an entry".to_owned());
        };
        let selection = u32_at(fixed, 4) as usize;
        let padded = selection.next_multiple_of(8);
        let Some((run, rest)) = rest.split_at_checked(padded) else {
            return Err("its list of neighbours ends in the middle of a selection".to_owned());
        };
        let placement = placement_at(fixed, 0, 8);
        requests.push(NeighbourRequest { placement, selection: run[..selection].to_vec() });
        bytes = rest;
    }
    Ok(requests)
}

fn placement_at(record: &[u8], subfile: usize, extent: usize) -> ExtentPlacement {
    let index =
        (0..8).fold(0, |index, byte| index | u64::from(record[extent + byte]) << (8 * byte));
    ExtentPlacement { subfile: SubfileIndex(u32_at(record, subfile)), extent: ExtentIndex(index) }
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    (0..4).fold(0, |number, byte| number | u32::from(record[at + byte]) << (8 * byte))
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// Lengths of inputs are checked against the memory of a module before they are written.
fn to_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use pario_net::Bulk;

    use super::*;

    #[test]
    fn an_input_is_laid_out_as_the_document_says() {
        let neighbours = [Bulk::from(vec![9_u8; 3]), Bulk::from(Vec::new())];
        let placement = ExtentPlacement { subfile: SubfileIndex(2), extent: ExtentIndex(1 << 40) };
        let input = ModuleInput {
            parameters: b"level=7",
            extent: Some(ExtentBytes { header: b"head", body: &[5; 17] }),
            selection: b"xy",
            neighbours: &neighbours,
            subfiles: 4,
            placement: Some(placement),
        };
        let mut memory = vec![0xaa; input.len_bytes()];
        assert_eq!(memory.len(), 64 + 16 + 16 + 16 + 32 + 16 + 16);
        input.write(&mut memory, 1000);
        let numbers: Vec<u32> = (0..14).map(|number| u32_at(&memory, 4 * number)).collect();
        let expected = [1080, 7, 1096, 4, 1112, 17, 1144, 2, 1064, 2, 4, 1, 2, 0];
        assert_eq!(numbers, expected);
        assert_eq!(memory[56..64], (1_u64 << 40).to_le_bytes());
        assert_eq!(memory[80..87], *b"level=7");
        assert_eq!(memory[112..129], [5; 17]);
        assert_eq!((u32_at(&memory, 64), u32_at(&memory, 68)), (1160, 3));
        assert_eq!(memory[160..163], [9; 3]);
    }

    #[test]
    fn an_output_outside_of_the_memory_is_none() {
        let mut memory = vec![0; 100];
        memory[10] = 2;
        memory[14] = 3;
        memory[18] = 4;
        let record = OutputRecord::decode(&memory, 10).unwrap();
        assert_eq!((record.kind, record.placement.subfile.0, record.placement.extent.0), (2, 3, 4));
        for address in [69, 100, u32::MAX] {
            assert_eq!(OutputRecord::decode(&memory, address), None);
        }
        for run in [ByteRun { address: 99, len: 2 }, ByteRun { address: 0, len: u32::MAX }] {
            assert_eq!(run.of(&memory), None);
        }
    }

    #[test]
    fn a_list_of_neighbours_is_whole_or_an_error() {
        let mut list = Vec::new();
        for (subfile, selection) in [(1_u32, &b"abc"[..]), (2, b"")] {
            list.extend(subfile.to_le_bytes());
            list.extend(to_u32(selection.len()).to_le_bytes());
            list.extend(77_u64.to_le_bytes());
            list.extend(selection);
            list.resize(list.len().next_multiple_of(8), 0);
        }
        let requests = decode_neighbours(&list).unwrap();
        assert_eq!(
            (requests[0].selection.as_slice(), requests[1].placement.subfile.0),
            (&b"abc"[..], 2)
        );
        for cut in [1, 15, 17, 23, list.len() - 1] {
            decode_neighbours(&list[..cut]).unwrap_err();
        }
        let many = vec![0; REQUEST_BYTES * (NEIGHBOURS_LIMIT + 1)];
        assert!(decode_neighbours(&many).unwrap_err().contains("more than 1024"));
    }
}
