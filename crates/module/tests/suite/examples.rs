//! The modules of examples/operations compute what plain functions compute.

use pario_net::Bulk;
use pario_operation::{ExtentBytes, ExtentInput, ExtentOutput, Operation, OperationCall};

use crate::clang::{example, module};
use crate::sandbox::{operation, placement, process};

fn random_bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

#[test]
fn a_threshold_gives_a_result_per_extent_and_checks_its_parameter() {
    let threshold = operation(&example("threshold"));
    for len in [0, 1, 15, 16, 17, 1000, 300_000] {
        let body = random_bytes(len, 1);
        let expected = body.iter().map(|byte| if *byte > 90 { 255 } else { 0 }).collect();
        let found = process(&threshold, b"level=90\nother=7", &body);
        assert_eq!(found, Ok(ExtentOutput::Result(expected)), "{len}");
    }
    for wrong in [&b""[..], b"level=", b"level=256", b"level=x", b"xlevel=1", b"levels=1"] {
        let refused = threshold.prepare(&OperationCall::new(wrong, &[true])).err().unwrap();
        assert_eq!(refused, "threshold needs the parameter level, a number from 0 to 255");
    }
}

#[test]
fn a_histogram_is_merged_from_the_states_of_all_threads() {
    let histogram = operation(&example("histogram"));
    let task = histogram.prepare(&OperationCall::new(b"", &[true])).unwrap();
    let mut scratches = [task.scratch(), task.scratch(), task.scratch(), task.scratch()];
    let mut expected = [0_u64; 256];
    for number in 0..9 {
        let body = random_bytes(10_000, number);
        body.iter().for_each(|byte| expected[usize::from(*byte)] += 1);
        let extent = Some(ExtentBytes { header: b"", body: &body });
        let input = ExtentInput { placement: placement(0, number), extent, neighbours: &[] };
        let scratch = &mut scratches[usize::try_from(number % 3).unwrap()];
        assert_eq!(task.process(&input, scratch), Ok(ExtentOutput::Nothing));
    }
    let merged = task.finish(scratches.into()).unwrap().unwrap();
    let counts: Vec<u64> =
        merged.chunks_exact(8).map(|count| u64::from_le_bytes(count.try_into().unwrap())).collect();
    assert_eq!(counts, expected);
    // A node without extents has a result too.
    assert_eq!(task.finish(Vec::new()).unwrap().unwrap(), [0; 2048]);
}

#[test]
fn grep_returns_lines() {
    let grep = operation(&example("grep"));
    let text = b"one\ntwo apples\n\nthree\napples: 4";
    let found = process(&grep, b"pattern=apple", text);
    assert_eq!(found, Ok(ExtentOutput::Result(b"two apples\napples: 4\n".to_vec())));
    assert_eq!(process(&grep, b"pattern=pear", text), Ok(ExtentOutput::Nothing));
    assert!(process(&grep, b"", text).unwrap_err().contains("needs the parameter pattern"));
}

/// The mean of 5 x 5 bytes of a whole image; outside of it is 0.
fn plain_stencil(image: &[u8], width: usize, height: usize) -> Vec<u8> {
    let at = |x: usize, y: usize| {
        let inside = |at: usize, limit: usize| at.checked_sub(2).filter(|at| *at < limit);
        let (Some(x), Some(y)) = (inside(x, width), inside(y, height)) else { return 0 };
        u32::from(image[y * width + x])
    };
    let mean = |x: usize, y: usize| {
        let sum: u32 = (0..5).flat_map(|dy| (0..5).map(move |dx| at(x + dx, y + dy))).sum();
        u8::try_from(sum / 25).unwrap()
    };
    (0..height).flat_map(|y| (0..width).map(move |x| mean(x, y))).collect()
}

#[test]
fn a_stencil_asks_for_the_borders_of_its_neighbours() {
    const TILE: (usize, usize) = (7, 6);
    const TILES: (usize, usize) = (3, 4);
    const SUBFILES: usize = 2;
    let (width, height) = (TILE.0 * TILES.0, TILE.1 * TILES.1);
    let image = random_bytes(width * height, 5);
    let tile_of = |image: &[u8], number: usize| -> Vec<u8> {
        let (left, top) = (number % TILES.0 * TILE.0, number / TILES.0 * TILE.1);
        let row = |y: usize| &image[(top + y) * width + left..][..TILE.0];
        (0..TILE.1).flat_map(row).copied().collect()
    };
    let placed = |number: usize| {
        placement((number % SUBFILES).try_into().unwrap(), (number / SUBFILES) as u64)
    };
    let tiles: Vec<_> =
        (0..TILES.0 * TILES.1).map(|number| (placed(number), tile_of(&image, number))).collect();
    let stencil = operation(&example("stencil"));
    let call = OperationCall::new(b"width=7\nheight=6\ncolumns=3\nrows=4", &[true, false]);
    let task = stencil.prepare(&call).unwrap();
    assert_eq!(task.has_neighbours(), Some(true));
    let expected = plain_stencil(&image, width, height);
    let mut scratch = task.scratch();
    for (number, (place, body)) in tiles.iter().enumerate() {
        let wanted = task.neighbours(*place).unwrap();
        let cut = |request: &pario_operation::NeighbourRequest| {
            let (_, body) = tiles.iter().find(|(place, _)| *place == request.placement).unwrap();
            let extent = Some(ExtentBytes { header: b"", body });
            Bulk::from(stencil.cut(&request.selection, extent).unwrap())
        };
        let neighbours: Vec<Bulk> = wanted.iter().map(cut).collect();
        let extent = Some(ExtentBytes { header: b"h", body });
        let input = ExtentInput { placement: *place, extent, neighbours: &neighbours };
        let body = tile_of(&expected, number);
        let made = ExtentOutput::Extent { placement: *place, header: b"h".to_vec(), body };
        assert_eq!(task.process(&input, &mut scratch), Ok(made), "tile {number}");
    }
    assert_eq!(task.neighbours(placed(4)).unwrap().len(), 8, "the middle one");
    assert_eq!(task.neighbours(placed(0)).unwrap().len(), 3, "a corner");
    let absent = task.neighbours(placed(0)).unwrap().remove(0).selection;
    assert_eq!(stencil.cut(&absent, None).unwrap(), b"", "an absent tile stands for zeros");
}

#[test]
fn absent_extents_are_processed_if_the_module_has_a_function_for_them() {
    let source = "PARIO_EXPORT(pario_process) { return pario_nothing(); }
        PARIO_EXPORT(pario_process_absent) {
            return pario_result(&input->extent, input->is_present ? 1 : 8);
        }";
    let with = operation(&module(source));
    let task = with.prepare(&OperationCall::new(b"", &[true])).unwrap();
    assert!(task.includes_absent());
    let input = ExtentInput { placement: placement(0, 1 << 33), extent: None, neighbours: &[] };
    let found = task.process(&input, &mut task.scratch());
    assert_eq!(found, Ok(ExtentOutput::Result((1_u64 << 33).to_le_bytes().to_vec())));
    let without = operation(&example("grep"));
    assert!(!without.prepare(&OperationCall::new(b"", &[true])).unwrap().includes_absent());
}

#[test]
fn the_state_of_a_thread_lasts_for_its_call() {
    let counter = operation(&module(
        "static uint32_t calls;
        PARIO_EXPORT(pario_process) { calls++; return pario_result(&calls, 4); }",
    ));
    for _ in 0..2 {
        let task = counter.prepare(&OperationCall::new(b"", &[true])).unwrap();
        let mut scratches = [task.scratch(), task.scratch()];
        for expected in 1_u32..4 {
            for scratch in &mut scratches {
                let extent = Some(ExtentBytes { header: b"", body: b"" });
                let input = ExtentInput { placement: placement(0, 0), extent, neighbours: &[] };
                let found = task.process(&input, scratch);
                assert_eq!(found, Ok(ExtentOutput::Result(expected.to_le_bytes().to_vec())));
            }
        }
    }
}
