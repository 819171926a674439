//! Striping against brute force: every byte of small files, and arithmetic at the far end of 64 bits.

use std::collections::HashMap;

use pario_proto::{
    BytePlacement, ByteRange, DiskId, Disks, RangeError, Striped, StripedError, SubfileIndex,
};
use proptest::prelude::*;

fn striped(unit_bytes: u64, subfiles: u32) -> Striped {
    // Disk ids differ from subfile numbers, so that mixing them up is seen.
    let disks = Disks::new((0..subfiles).map(|subfile| DiskId(1_000 - subfile))).unwrap();
    Striped::new(unit_bytes, disks).unwrap()
}

fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap()
}

/// Numbers of every magnitude, the extremes included.
fn magnitude() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift),
        1 => (0..4u64).prop_map(|distance| u64::MAX - distance),
        1 => 0..4u64,
    ]
}

/// A part of a range that lies in one unit.
struct Piece {
    placement: BytePlacement,
    file_offset_bytes: u64,
    len_bytes: u64,
}

/// Cuts a range at the borders of units.
fn pieces(striped: &Striped, range: ByteRange) -> Vec<Piece> {
    let (mut pieces, mut next) = (Vec::new(), range.start_bytes());
    while next < range.end_bytes() {
        let unit = striped.unit_bytes();
        let len_bytes = (range.end_bytes() - next).min(unit - next % unit);
        pieces.push(Piece { placement: striped.locate(next), file_offset_bytes: next, len_bytes });
        next += len_bytes;
    }
    pieces
}

/// Deals out the bytes of a file one by one: the placement of each.
fn dealt_out(unit_bytes: u64, subfiles: u32, size_bytes: u64) -> Vec<BytePlacement> {
    let mut lens = vec![0; subfiles as usize];
    let mut placements = Vec::new();
    let mut subfile = 0;
    let mut in_unit = 0;
    for _ in 0..size_bytes {
        if in_unit == unit_bytes {
            in_unit = 0;
            subfile = (subfile + 1) % subfiles;
        }
        in_unit += 1;
        let len = &mut lens[subfile as usize];
        placements.push(BytePlacement { subfile: SubfileIndex(subfile), offset_bytes: *len });
        *len += 1;
    }
    placements
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn locate_and_byte_at_are_inverse(
        unit in magnitude(), subfiles in 1..200u32, byte in magnitude(),
    ) {
        let striped = striped(unit.max(1), subfiles);
        let placement = striped.locate(byte);
        prop_assert!(placement.subfile.0 < subfiles);
        prop_assert_eq!(striped.byte_at(placement), Ok(byte));
    }

    #[test]
    fn byte_at_and_locate_are_inverse_or_the_byte_does_not_exist(
        unit in magnitude(), subfiles in 1..200u32, subfile in 0..200u32, offset in magnitude(),
    ) {
        let unit = unit.max(1);
        let placement = BytePlacement { subfile: SubfileIndex(subfile % subfiles), offset_bytes: offset };
        let striped = striped(unit, subfiles);
        let wide = (u128::from(offset / unit) * u128::from(subfiles)
            + u128::from(placement.subfile.0)) * u128::from(unit) + u128::from(offset % unit);
        match u64::try_from(wide) {
            Ok(byte) => {
                prop_assert_eq!(striped.byte_at(placement), Ok(byte));
                prop_assert_eq!(striped.locate(byte), placement);
            }
            Err(_) => prop_assert_eq!(
                striped.byte_at(placement), Err(StripedError::BeyondLargestFile { placement })
            ),
        }
    }

    #[test]
    fn places_lens_and_sizes_agree_with_dealing_out(
        unit in 1..9u64, subfiles in 1..7u32, size in 0..200u64,
    ) {
        let striped = striped(unit, subfiles);
        let places = dealt_out(unit, subfiles, size);
        for (byte, placement) in (0..).zip(&places) {
            prop_assert_eq!(striped.locate(byte), *placement);
        }
        let lens: Vec<u64> = (0..subfiles)
            .map(|subfile| places.iter().filter(|placement| placement.subfile.0 == subfile).count() as u64)
            .collect();
        prop_assert!(striped.subfile_lens_bytes(size).eq(lens.iter().copied()));
        prop_assert_eq!(striped.file_size_bytes(&lens), Ok(size));
        for (subfile, &len) in (0..).map(SubfileIndex).zip(&lens) {
            prop_assert_eq!(striped.subfile_len_bytes(subfile, size), Ok(len));
        }
    }

    #[test]
    fn pieces_and_runs_agree_with_every_byte(
        unit in 1..9u64, subfiles in 1..7u32, start in 0..100u64, len in 0..150u64,
    ) {
        let striped = striped(unit, subfiles);
        let range = range(start, len);

        let mut next = start;
        for piece in pieces(&striped, range) {
            prop_assert_eq!(piece.file_offset_bytes, next);
            prop_assert!(piece.len_bytes > 0);
            for step in 0..piece.len_bytes {
                let placement = BytePlacement {
                    subfile: piece.placement.subfile,
                    offset_bytes: piece.placement.offset_bytes + step,
                };
                prop_assert_eq!(striped.locate(next + step), placement);
            }
            next += piece.len_bytes;
        }
        prop_assert_eq!(next, start + len);

        // Every byte of the range is in exactly one segment of one run, in its placement.
        let mut seen = HashMap::new();
        let mut runs_of = vec![0; subfiles as usize];
        for run in striped.runs(range) {
            runs_of[run.subfile().0 as usize] += 1;
            let mut offset_bytes = run.offset_bytes();
            for segment in run.segments() {
                for step in 0..segment.len_bytes {
                    let byte = start + segment.buffer_offset_bytes + step;
                    let placement = BytePlacement { subfile: run.subfile(), offset_bytes };
                    prop_assert_eq!(striped.locate(byte), placement);
                    prop_assert!(seen.insert(byte, placement).is_none());
                    offset_bytes += 1;
                }
            }
            prop_assert_eq!(offset_bytes, run.offset_bytes() + run.len_bytes());
            prop_assert_eq!(run.segment_count(), run.segments().count() as u64);
            prop_assert_eq!(striped.run_on(run.subfile(), range), Ok(Some(run)));
        }
        prop_assert_eq!(seen.len() as u64, len);
        for (subfile, runs) in (0..).map(SubfileIndex).zip(runs_of) {
            prop_assert!(runs <= 1);
            prop_assert_eq!(striped.run_on(subfile, range).unwrap().is_some(), runs == 1);
        }
    }

    #[test]
    fn runs_are_coalesced_pieces(
        unit in 1..1_000_000u64, subfiles in 1..40u32, start in magnitude(), len in 0..20_000_000u64,
    ) {
        let unit = unit.max(len / 500).max(1);
        let start = start.min(u64::MAX - len);
        let striped = striped(unit, subfiles);
        let range = range(start, len);
        let mut by_subfile: HashMap<SubfileIndex, Vec<Piece>> = HashMap::new();
        for piece in pieces(&striped, range) {
            by_subfile.entry(piece.placement.subfile).or_default().push(piece);
        }
        let mut runs = 0;
        for run in striped.runs(range) {
            runs += 1;
            let pieces = &by_subfile[&run.subfile()];
            prop_assert_eq!(run.offset_bytes(), pieces[0].placement.offset_bytes);
            prop_assert_eq!(run.len_bytes(), pieces.iter().map(|piece| piece.len_bytes).sum::<u64>());
            if subfiles > 1 {
                let from_pieces = pieces
                    .iter()
                    .map(|piece| (piece.file_offset_bytes - start, piece.len_bytes));
                let from_run = run
                    .segments()
                    .map(|segment| (segment.buffer_offset_bytes, segment.len_bytes));
                prop_assert!(from_run.eq(from_pieces));
            } else {
                prop_assert_eq!(run.segment_count(), 1);
            }
        }
        prop_assert_eq!(runs, by_subfile.len());
    }

    #[test]
    fn runs_of_any_range_add_up(
        unit in magnitude(), subfiles in 1..40u32, start in magnitude(), len in magnitude(),
    ) {
        let striped = striped(unit.max(1), subfiles);
        let len = len.min(u64::MAX - start);
        let range = range(start, len);
        let mut sum = 0u64;
        for run in striped.runs(range) {
            sum += run.len_bytes();
            let first = BytePlacement { subfile: run.subfile(), offset_bytes: run.offset_bytes() };
            let last = BytePlacement {
                subfile: run.subfile(),
                offset_bytes: run.offset_bytes() + (run.len_bytes() - 1),
            };
            prop_assert!(striped.byte_at(first).unwrap() >= start);
            prop_assert!(striped.byte_at(last).unwrap() < start + len);
            let buffer = striped.byte_at(first).unwrap() - start;
            prop_assert_eq!(run.segments().next().unwrap().buffer_offset_bytes, buffer);
        }
        prop_assert_eq!(sum, len);
    }

    #[test]
    fn lens_and_sizes_are_inverse(
        unit in magnitude(), subfiles in 1..200u32, size in magnitude(),
    ) {
        let striped = striped(unit.max(1), subfiles);
        let lens: Vec<u64> = striped.subfile_lens_bytes(size).collect();
        prop_assert_eq!(lens.iter().sum::<u64>(), size);
        prop_assert_eq!(striped.file_size_bytes(&lens), Ok(size));
    }

    #[test]
    fn size_of_a_sparse_file_is_one_past_its_last_byte(
        unit in 1..9u64, lens in prop::collection::vec(0..60u64, 1..6),
    ) {
        let subfiles = u32::try_from(lens.len()).unwrap();
        let places = dealt_out(unit, subfiles, 60 * u64::from(subfiles) + 9 * 6);
        let held = |placement: &BytePlacement| placement.offset_bytes < lens[placement.subfile.0 as usize];
        let size = places.iter().rposition(held).map_or(0, |last| last as u64 + 1);
        prop_assert_eq!(striped(unit, subfiles).file_size_bytes(&lens), Ok(size));
    }
}

#[test]
fn a_range_of_billions_of_units_has_one_run_per_subfile() {
    let striped = striped(1, 1_000);
    let runs: Vec<_> = striped.runs(range(5, u64::MAX - 5)).collect();
    assert_eq!(runs.len(), 1_000);
    assert_eq!(runs[0].subfile(), SubfileIndex(5));
    assert_eq!(runs.iter().map(|run| run.len_bytes()).sum::<u64>(), u64::MAX - 5);
    assert_eq!(runs[0].segment_count(), runs[0].len_bytes());
}

#[test]
fn misuse_is_an_error_with_a_sentence() {
    let disks = Disks::new([DiskId(0)]).unwrap();
    let error = Striped::new(0, disks).unwrap_err();
    assert_eq!(error.to_string(), "the striping unit is 0 bytes: choose at least 1");

    assert_eq!(
        ByteRange::new(u64::MAX, 2),
        Err(RangeError { start_bytes: u64::MAX, len_bytes: 2 })
    );
    assert!(ByteRange::new(u64::MAX, 0).is_ok_and(|range| range.is_empty()));

    let striped = striped(4, 3);
    let placement = BytePlacement { subfile: SubfileIndex(3), offset_bytes: 0 };
    let missing = StripedError::NoSuchSubfile { subfile: SubfileIndex(3), subfiles: 3 };
    assert_eq!(striped.byte_at(placement).unwrap_err(), missing);
    assert_eq!(striped.subfile_len_bytes(SubfileIndex(3), 9).unwrap_err(), missing);
    assert_eq!(missing.to_string(), "subfile 3 does not exist: the file has 3, numbered from 0");
    assert!(striped.run_on(SubfileIndex(3), range(0, 1)).is_err());
    assert_eq!(
        striped.file_size_bytes(&[1, 2]),
        Err(StripedError::WrongNumberOfLengths { given: 2, subfiles: 3 })
    );
    assert!(striped.file_size_bytes(&[u64::MAX, 0, 0]).is_err());
    // Byte 2^64 - 1 has a placement, but a file that holds it would need a size of 2^64.
    let last = striped.locate(u64::MAX);
    let mut lens = [0; 3];
    lens[last.subfile.0 as usize] = last.offset_bytes + 1;
    assert_eq!(
        striped.file_size_bytes(&lens),
        Err(StripedError::BeyondLargestFile { placement: last })
    );
}
