//! How many tiles of a window lie on each subfile, without looking at each tile.
//!
//! Invariants: along each axis, as many neighbours as there are subfiles load each subfile once, so
//! whole turns add the same to all and only the remainders need a closer look. There, the rows that
//! start on each subfile are counted first, then widened to the row's tiles. Both steps add up
//! intervals on a circle, so the cost is proportional to the number of subfiles.

use crate::layout::declustering::Declustering;
use crate::layout::declustering::modular::inverse;
use crate::layout::geometry::{Shape, TileWindow};

/// The tiles per subfile of a window that was checked to lie inside an image.
pub(super) fn counts(declustering: Declustering, window: TileWindow) -> Vec<u64> {
    let subfiles = u64::from(declustering.subfiles());
    let size = window.size;
    if size.is_empty() {
        return circle(subfiles);
    }
    let turns = Shape { x: size.x / subfiles, y: size.y / subfiles, z: size.z / subfiles };
    let rest = Shape { x: size.x % subfiles, y: size.y % subfiles, z: size.z % subfiles };
    // Each summand is at most the number of tiles of the window, which fits 64 bits.
    let even = turns.y * size.x * size.z + rest.y * size.x * turns.z + turns.x * rest.y * rest.z;

    let starts = row_starts(declustering, window, rest);
    let mut counts = circle(subfiles);
    if rest.x > 0 {
        for (start, &rows) in (0..subfiles).zip(&starts) {
            mark_interval(&mut counts, start, rest.x, rows);
        }
        sum_up(&mut counts);
    }
    for count in &mut counts {
        *count += even;
    }
    counts
}

/// How many of the remaining rows start on each subfile.
fn row_starts(declustering: Declustering, window: TileWindow, rest: Shape) -> Vec<u64> {
    let subfiles = u64::from(declustering.subfiles());
    let row_offset = u64::from(declustering.row_offset());
    let row_inverse = inverse(row_offset, subfiles);
    // Number the subfiles in the order in which the rows of a plane start on them: then the rows
    // of each plane are an interval.
    let mut by_turn = circle(subfiles);
    if rest.y > 0 {
        for plane in 0..rest.z {
            // The plane's number is taken modulo the subfiles first, so that nothing can overflow.
            let z = (window.start.z % subfiles + plane) % subfiles;
            let first = declustering.row_start(window.start.y, z) + window.start.x % subfiles;
            let turn = first % subfiles * row_inverse % subfiles;
            mark_interval(&mut by_turn, turn, rest.y, 1);
        }
        sum_up(&mut by_turn);
    }
    let mut starts = circle(subfiles);
    for (turn, rows) in (0..subfiles).zip(by_turn) {
        starts[place(turn * row_offset % subfiles)] = rows;
    }
    starts
}

fn circle(subfiles: u64) -> Vec<u64> {
    vec![0; place(subfiles)]
}

/// Notes `times` intervals of `len` places from `start` on, around the end; `len` is above 0 and
/// below the number of places. [`sum_up`] turns the notes into counts.
fn mark_interval(notes: &mut [u64], start: u64, len: u64, times: u64) {
    let places = notes.len() as u64;
    let end = start + len;
    // Notes are differences between neighbours, and may be negative: they wrap, the sums do not.
    let mut note = |at: u64, difference: u64| {
        if let Some(slot) = notes.get_mut(place(at)) {
            *slot = slot.wrapping_add(difference);
        }
    };
    note(start, times);
    note(end, times.wrapping_neg());
    if end > places {
        note(0, times);
        note(end - places, times.wrapping_neg());
    }
}

fn sum_up(notes: &mut [u64]) {
    let mut sum = 0u64;
    for note in notes {
        sum = sum.wrapping_add(*note);
        *note = sum;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most twice the number of subfiles")]
fn place(number: u64) -> usize {
    number as usize
}
