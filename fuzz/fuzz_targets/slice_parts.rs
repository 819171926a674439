//! Decodes any bytes as parts of slices, as nodes send them, and as extents, as disks hold them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pario_image::{
    Blend, BoxGrid, Compression, Cut, Interpolation, Pixel, Plane, Sample, SlabCut, Slice,
    SliceParts,
};
use pario_proto::Shape;

fuzz_target!(|data: &[u8]| {
    let [kind, message @ ..] = data else { return };
    let samples = Sample::ALL;
    let sample = samples[usize::from(*kind) % samples.len()];
    let pixel = Pixel::new(sample, u32::from(kind / 5 % 4) + 1).expect("one to four channels");
    let mut slice = Slice::blank(9, 7, pixel, &[]);
    let _ = slice.paste_message(message);
    if let Ok(parts) = SliceParts::decode(message) {
        let mut again = Vec::new();
        parts.encode(&mut again);
        assert!(SliceParts::decode(&again).is_ok());
    }
    let grid =
        BoxGrid::new(Shape::volume(8, 8, 8), Shape::volume(4, 4, 4), [false; 3]).expect("fits");
    let plane = Plane::spanned([0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).size(9, 7);
    for blend in [Blend::Maximum, Blend::Mean] {
        let slab = plane.slab_in_volume([1.0; 3], 3, 1.0, blend).expect("possible");
        let cut = SlabCut::new(slab, grid, pixel, Interpolation::Trilinear).expect("possible");
        let _ = cut.blank().merge_message(message);
    }
    let plane = plane.in_volume([1.0; 3]).expect("possible");
    let _ = Cut::new(plane, grid, pixel, Interpolation::Nearest);
    let (header, body) = message.split_at(message.len().min(8));
    let _ = Compression::unpack(header, body, usize::from(*kind), &mut Vec::new());
});
