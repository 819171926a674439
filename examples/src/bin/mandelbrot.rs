//! Static and balanced distribution of work, for a picture whose parts differ in cost.
//!
//! *Static*: each worker computes one band of the picture. *Balanced*: the first free worker
//! computes the next strip. The pictures are equal; the times differ, because the bands near the
//! bottom, inside the Mandelbrot set, take much longer than those above it.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use pario_examples::Options;
use pario_flow::{Bulk, Program, StepContext};
use serde::{Deserialize, Serialize};

/// Draws the upper half of the Mandelbrot set twice and compares the times
#[derive(Parser)]
#[command(after_help = "Example: cargo run --release -p pario-examples --bin mandelbrot -- \
                  --placement examples/mandelbrot.toml --folder pictures")]
struct Arguments {
    #[command(flatten)]
    options: Options,

    /// Directory for static.png and balanced.png
    #[arg(long, default_value = ".")]
    folder: PathBuf,

    /// Width of the pictures in pixels; the height is half of it
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(16..=16384))]
    width: u32,

    /// Iterations after which a point counts as inside
    #[arg(long, default_value_t = 2000)]
    iterations: u32,

    /// Number of threads that compute
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
}

const STRIP: u32 = 4;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Sheet {
    width: u32,
    height: u32,
    iterations: u32,
}

/// Rows to compute.
#[derive(Serialize, Deserialize)]
struct Rows {
    sheet: Sheet,
    from: u32,
    to: u32,
}

/// Computed rows. The pixels are not copied when they travel between processes.
#[derive(Serialize, Deserialize)]
struct Strip {
    from: u32,
    pixels: Bulk,
    worker: usize,
    busy_s: f64,
}

#[derive(Serialize, Deserialize)]
struct Painting {
    width: usize,
    pixels: Vec<u8>,
    /// The time that each worker computed.
    busy_s: Vec<f64>,
}

impl Sheet {
    fn cut(&self, strip: u64) -> Option<Rows> {
        let from = u32::try_from(strip).ok()? * STRIP;
        Some(Rows { sheet: *self, from, to: (from + STRIP).min(self.height) })
    }
}

impl Painting {
    fn blank(sheet: &Sheet, workers: usize) -> Self {
        let width = sheet.width as usize;
        Self { width, pixels: vec![0; width * sheet.height as usize], busy_s: vec![0.0; workers] }
    }

    fn paste(&mut self, strip: Strip) {
        let start = strip.from as usize * self.width;
        self.pixels[start..start + strip.pixels.len()].copy_from_slice(&strip.pixels);
        self.busy_s[strip.worker] += strip.busy_s;
    }

    fn save(&self, path: &Path) -> anyhow::Result<()> {
        let height = self.pixels.len() / self.width;
        let file = BufWriter::new(File::create(path)?);
        let mut png = png::Encoder::new(file, u32::try_from(self.width)?, u32::try_from(height)?);
        png.set_color(png::ColorType::Grayscale);
        png.write_header()?.write_image_data(&self.pixels)?;
        Ok(())
    }
}

struct Worker;

impl Worker {
    fn compute(&mut self, rows: Rows, context: &StepContext<'_>) -> Result<Strip, String> {
        let began = Instant::now();
        let points = (rows.from..rows.to).flat_map(|y| (0..rows.sheet.width).map(move |x| (x, y)));
        let pixels: Vec<u8> = points.map(|(x, y)| shade(&rows.sheet, x, y)).collect();
        let busy_s = began.elapsed().as_secs_f64();
        Ok(Strip { from: rows.from, pixels: pixels.into(), worker: context.index(), busy_s })
    }
}

/// White where the point escapes late, black where it never does.
fn shade(sheet: &Sheet, x: u32, y: u32) -> u8 {
    let step = 3.2 / f64::from(sheet.width);
    let (re, im) = (f64::from(x) * step - 2.2, f64::from(sheet.height - y) * step - 0.2);
    let (mut a, mut b) = (0.0, 0.0);
    for round in 0..sheet.iterations {
        (a, b) = (a * a - b * b + re, 2.0 * a * b + im);
        if a * a + b * b > 4.0 {
            return u8::try_from(40 + 5 * round).unwrap_or(255);
        }
    }
    0
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let workers = usize::from(arguments.workers);
    let mut program = Program::new("mandelbrot");
    let master = program.thread("Master", || ());
    let worker = program.pool("Worker", workers, |_| Worker);
    let strips = |sheet: &Sheet| 0..u64::from(sheet.height.div_ceil(STRIP));
    let blank = move |sheet: &Sheet| Painting::blank(sheet, workers);
    let band = move |rows: &Rows| rows.from as usize * workers / rows.sheet.height as usize;

    #[rustfmt::skip]
    let by_band = program.operation("static", |b| b
        .on(master)
        .split_indexed(strips, Sheet::cut)
            .on(worker.at(band)).run_with(Worker::compute)
        .merge(master, blank, Painting::paste));

    #[rustfmt::skip]
    let by_turn = program.operation("balanced", |b| b
        .on(master)
        .split_indexed(strips, Sheet::cut)
            .on(worker.any()).run_with(Worker::compute)
        .merge(master, blank, Painting::paste));

    let run = arguments.options.launch(program)?;
    arguments.options.draw(&[run.graph(by_turn), run.graph(by_band)])?;
    std::fs::create_dir_all(&arguments.folder)?;
    let (width, iterations) = (arguments.width, arguments.iterations);
    let sheet = Sheet { width, height: width / 2, iterations };
    let mut paintings = Vec::new();
    for (name, operation) in [("static", by_band), ("balanced", by_turn)] {
        let began = Instant::now();
        let painting = run.call(operation, sheet)?;
        let took_s = began.elapsed().as_secs_f64();
        painting.save(&arguments.folder.join(format!("{name}.png")))?;
        let busy = painting.busy_s.iter().map(|busy_s| format!("{:4.0}%", 100.0 * busy_s / took_s));
        println!("{name:>8}: {took_s:6.3} s, workers busy{}", busy.collect::<String>());
        paintings.push(painting.pixels);
    }
    anyhow::ensure!(paintings[0] == paintings[1], "the two pictures differ");
    println!("both pictures are the same: {width} × {} pixels", sheet.height);
    Ok(())
}
