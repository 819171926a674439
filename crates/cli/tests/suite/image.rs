//! `pario image`: imports, processes and exports pictures.

use crate::command::{Sandbox, stdout};
use pario_image::formats::{FormatOptions, create_picture, open_picture};
use pario_image::{Edge, Pixelwise};
use pario_image::{
    Filter, FilterBuffers, ImageWindow, PaddedTile, Pixel, Pixels, Sample, TileGrid,
};
use pario_proto::{Shape, TilePosition};
use serde_json::json;

/// Writes a picture of random pixels to a file of any format, and returns the pixels.
fn picture(sandbox: &Sandbox, name: &str, width: u32, height: u32, pixel: Pixel) -> Pixels {
    let mut random = fastrand::Rng::with_seed(5);
    let bytes = width as usize * height as usize * pixel.bytes();
    let data = (0..bytes).map(|_| random.u8(..100)).collect();
    let pixels = Pixels::new(width, height, pixel, data).unwrap();
    let mut sink = create_picture(&sandbox.file(name), width.into(), height.into(), pixel).unwrap();
    (0..height).for_each(|row| sink.put_row(pixels.row(row)).unwrap());
    sink.finish().unwrap();
    pixels
}

/// Reads the pixels of a file.
fn pixels_of(sandbox: &Sandbox, name: &str) -> Pixels {
    let mut rows = open_picture(&sandbox.file(name), &FormatOptions::default()).unwrap();
    let (width, height) = rows.size();
    let (width, height) = (width.try_into().unwrap(), height.try_into().unwrap());
    let mut pixels = Pixels::blank(width, height, rows.pixel()).unwrap();
    (0..height).for_each(|row| rows.next_row(pixels.row_mut(row)).unwrap());
    pixels
}

fn filtered(pixels: &Pixels, filter: &Filter, edge: Edge) -> Pixels {
    let size = Shape::image(pixels.width().into(), pixels.height().into());
    let grid = TileGrid::new(size, size).unwrap();
    let parts = [(pixels.window(), pixels)];
    let corner = TilePosition::image(0, 0);
    let framed = PaddedTile::assemble(&grid, corner, filter.radius(), edge, parts).unwrap();
    filter.apply(&framed, &mut FilterBuffers::new()).unwrap()
}

#[test]
fn a_picture_comes_in_is_changed_and_goes_out() {
    for sandbox in Sandbox::both() {
        let pixels = picture(&sandbox, "in.png", 300, 200, Pixel::RGB);
        let line = "image import in.png /photo --tile 64x48 --compression lz4 --disks 3";
        assert_eq!(sandbox.ok(&line.split(' ').collect::<Vec<_>>()), "");
        sandbox.ok(&["image", "export", "/photo", "out.tif"]);
        assert!(pixels_of(&sandbox, "out.tif") == pixels);

        sandbox.ok(&["image", "apply", "/photo", "gaussian", "1.5", "/soft"]);
        sandbox.ok(&["image", "export", "pario:/soft", "soft.png", "--window", "10,20,100,90"]);
        let soft = filtered(&pixels, &Filter::Gaussian { sigma: 1.5 }, Edge::Clamp);
        let window = ImageWindow { x: 10, y: 20, width: 100, height: 90 };
        assert!(pixels_of(&sandbox, "soft.png") == soft.cut(window).unwrap());

        std::fs::write(sandbox.file("kernel"), "-1 0 1\n-2 0 2\n-1 0 1\n").unwrap();
        let line = "image apply /photo convolve kernel /sharp --edge mirror --divisor 8 --offset 9";
        sandbox.ok(&line.split(' ').collect::<Vec<_>>());
        sandbox.ok(&["image", "export", "/sharp", "sharp.ppm"]);
        let kernel = Filter::Convolution {
            width: 3,
            height: 3,
            weights: vec![-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0],
            divisor: 8.0,
            offset: 9.0,
        };
        assert!(pixels_of(&sandbox, "sharp.ppm") == filtered(&pixels, &kernel, Edge::Mirror));

        let made = sandbox.json(&["image", "apply", "/photo", "mix", "0.3,0.6,0.1:-5", "/grey"]);
        assert_eq!((&made["channels"], &made["tile_width"]), (&json!(1), &json!(64)));
        sandbox.ok(&["image", "export", "/grey", "grey.pgm"]);
        let mix = Pixelwise::ChannelMix { matrix: vec![0.3, 0.6, 0.1], offsets: vec![-5.0] };
        assert!(pixels_of(&sandbox, "grey.pgm") == mix.apply(&pixels).unwrap());
    }
}

#[test]
fn pictures_are_made_smaller_and_turned() {
    let sandbox = Sandbox::empty();
    let pixels = picture(&sandbox, "in.png", 120, 80, Pixel::GREY);
    sandbox.ok(&["image", "import", "in.png", "/photo"]);
    sandbox.ok(&["image", "export", "/photo", "small.png", "--scale", "30x20"]);
    let small = pixels_of(&sandbox, "small.png");
    let sum: u32 = (0..4).flat_map(|y| pixels.row(y)[..4].to_vec()).map(u32::from).sum();
    assert_eq!((small.width(), small.height()), (30, 20));
    assert_eq!(u32::from(small.data()[0]), (sum + 8) / 16);

    sandbox.ok(&[
        "image",
        "export",
        "/photo",
        "turned.png",
        "--turn",
        "-180",
        "--sampling",
        "nearest",
    ]);
    let backwards: Vec<u8> = pixels.data().iter().rev().copied().collect();
    assert!(pixels_of(&sandbox, "turned.png").data() == backwards);
    let line = "image export /photo corner.png --turn 45 --scale 60x40 --background 255";
    sandbox.ok(&line.split(' ').collect::<Vec<_>>());
    let corner = pixels_of(&sandbox, "corner.png");
    assert_eq!((corner.width(), corner.height(), corner.data()[0]), (60, 40, 255));
}

#[test]
fn images_are_shown() {
    let sandbox = Sandbox::served();
    let sample = Pixel::new(Sample::U16, 2).unwrap();
    let pixels = Pixels::new(2, 1, sample, vec![7, 0, 1, 0, 5, 0, 3, 1]).unwrap();
    std::fs::write(sandbox.file("in.raw"), [b"head", pixels.data()].concat()).unwrap();
    let line = "image import in.raw /image --raw 2x1x2:u16 --skip 4";
    let made = sandbox.json(&line.split(' ').collect::<Vec<_>>());
    assert_eq!((&made["width"], &made["sample"]), (&json!(2), &json!("u16")));

    let text = sandbox.ok(&["image", "info", "/image", "--summary"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "/image   2 x 1 pixels of 2 x u16");
    assert!(lines[1].starts_with("  1 of 1 tiles of 256 x 256 are stored ("), "{text}");
    assert!(lines[1].ends_with("compression none, over 4 disks"), "{text}");
    assert_eq!(lines[2..], ["  channel 0: 5 to 7, mean 6", "  channel 1: 1 to 259, mean 130"]);
    let known = sandbox.json(&["image", "info", "/image"]);
    assert_eq!((&known[0]["stored_tiles"], &known[0]["summary"]), (&json!(1), &json!(null)));

    let text = sandbox.ok(&["image", "apply", "/image", "histogram"]);
    assert_eq!(text, "1\t0\t1\n5\t1\t0\n7\t1\t0\n259\t0\t1\n");
    let counted = sandbox.json(&["image", "apply", "/image", "histogram"]);
    assert_eq!((&counted["bins"], &counted["counts"][1][259]), (&json!(65_536), &json!(1)));
    // Big-endian samples are swapped.
    let line = "image import in.raw /other --raw 2x1x2:u16 --skip 4 --big-endian";
    sandbox.ok(&line.split(' ').collect::<Vec<_>>());
    let text = sandbox.ok(&["image", "apply", "/other", "histogram"]);
    assert!(text.starts_with("256\t0\t1\n769\t0\t1\n"), "{text}");
}

#[test]
fn what_cannot_be_is_told_with_its_code() {
    let sandbox = Sandbox::empty();
    picture(&sandbox, "in.png", 20, 10, Pixel::RGB);
    std::fs::write(sandbox.file("text.txt"), "no picture").unwrap();
    let lines = |line: &'static str| line.split(' ').collect::<Vec<_>>();
    sandbox.ok(&lines("image import in.png /photo"));
    sandbox.ok(&lines("cp text.txt /text"));
    for (code, line, told) in [
        (3, "image import none.png /x", "none.png: cannot open"),
        (2, "image import text.txt /x", "its format is not known"),
        (1, "image import in.png /photo", "/photo"),
        (2, "image import in.png photo", "relative"),
        (2, "image import in.png /x --tile 0x5", "such as 256x256"),
        (2, "image import in.png /x --compression gzip", "lz4"),
        (2, "image import in.png /x --disks 99", "99 writable disks"),
        (2, "image import in.png /x --raw 3x3:u8", "1920x1080x3:u8"),
        (2, "image import in.png /x --skip 3", "--raw"),
        (1, "image import in.png /x --raw 9999x9999x4:f32", "bytes"),
        (3, "image info /none", "/none"),
        (2, "image info /text", "not an image"),
        (3, "image export /none x.png", "/none"),
        (2, "image export /photo x.doc", "doc"),
        (2, "image export /photo x.png --window 15,0,10,10", "not in an image of 20 x 10"),
        (2, "image export /photo x.png --window 1,2,3", "X,Y,WIDTH,HEIGHT"),
        (2, "image export /photo x.png --scale 0x5", "such as 256x256"),
        (2, "image export /photo x.png --turn nan", "the angle"),
        (2, "image apply /photo sharpen /x", "the operations are gaussian"),
        (2, "image apply /photo gaussian /x", "write gaussian SIGMA"),
        (2, "image apply /photo gaussian 99 /x", "sigma 99"),
        (2, "image apply /photo mix 1,2 /x", "2 channels"),
        (2, "image apply /photo gamma 2 x", "relative"),
        (3, "image apply /none gamma 2 /x", "/none"),
        (1, "image apply /photo gamma 2 /photo", "/photo"),
        (3, "image apply /photo convolve none /x", "none"),
        (2, "image apply /photo histogram 0 1 10", "not for 3 x u8"),
        (2, "image", "Usage"),
    ] {
        let refused = sandbox.refused(code, &lines(line));
        assert!(refused.contains(told), "{line}: {refused}");
    }
    // Nothing was created, locally and in the cluster.
    assert_eq!(sandbox.ok(&["ls", "/"]), "photo\ntext\n");
    assert!(!sandbox.file("x.png").exists());
}

#[test]
fn every_command_of_images_has_help() {
    let sandbox = Sandbox::empty();
    for name in ["import", "export", "info", "apply"] {
        let output = sandbox.pario(&["image", name, "--help"]).output().unwrap();
        let text = stdout(&output);
        for told in ["Usage: pario image", "Examples:", "Exit codes:", "--json"] {
            assert!(text.contains(told), "{name}: {told}\n{text}");
        }
    }
}
