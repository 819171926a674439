//! The caller of a filter: lets the nodes filter, or filters by itself.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use pario::{Cluster, ClusterOptions};
use pario_image::{
    Edge, Filter, FilterBuffers, Image, ImageOptions, ImageWindow, PaddedTile, Pixel, Pixels,
    TileGrid,
};
use pario_proto::{Shape, TilePosition};

use super::near_lab::NODES;
use crate::partner::{ParentProcess, PartnerRole};

/// The process of the caller.
pub const ROLE: PartnerRole = PartnerRole { name: "slices-near-caller", run: serve };

/// A Gaussian with a radius of two pixels: 5 x 5.
const FILTER: Filter = Filter::Gaussian { sigma: 0.66 };
const EDGE: Edge = Edge::Clamp;
const REACH: u32 = 2;
/// Rows of a band: the height of a tile.
const BAND: u32 = 256;
const FROM: &str = "/image";
const TO: &str = "/filtered";
const TIME_LIMIT: Duration = Duration::from_secs(30);

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [address, key, width, height] = words else { bail!("needs an address, a key and a size") };
    let cluster = connect(address, key.into())?;
    let image = make(&cluster, width.parse()?, height.parse()?)?;
    let caller = ImageCaller { cluster, image };
    caller.check()?;
    parent.send_line("ready")?;
    loop {
        let way = parent.receive_line()?;
        let began = Instant::now();
        match way.as_str() {
            "tidy" => {
                caller.cluster.remove(TO)?;
                parent.send_line("done")?;
                continue;
            }
            way => caller.filter(way)?,
        };
        parent.send_line(began.elapsed().as_secs_f64().to_string())?;
    }
}

struct ImageCaller {
    cluster: Cluster,
    image: Image,
}

impl ImageCaller {
    /// Creates the filtered image, durably.
    fn filter(&self, way: &str) -> Result<Image> {
        match way {
            "nodes" => Ok(self.image.apply(&FILTER, EDGE, TO)?),
            "caller" => self.here(),
            "streamed" => self.streamed(),
            _ => bail!("cannot filter by {way}"),
        }
    }

    /// Reads the whole image, filters it, and writes it.
    fn here(&self) -> Result<Image> {
        let pixels = self.image.read(self.image.window())?;
        let filtered = filter_all(&pixels)?;
        let target = self.target()?;
        target.write(0, 0, &filtered)?;
        target.sync()?;
        Ok(target)
    }

    /// Works band by band: reads the next one and writes the last one while it filters.
    fn streamed(&self) -> Result<Image> {
        let target = self.target()?;
        let whole = self.image.window();
        let grid = bands(whole)?;
        let around = |number: u32| {
            let band = TilePosition::image(0, number.into());
            grid.surroundings(band, REACH).context("the band is there")
        };
        let count = whole.height.div_ceil(BAND);
        thread::scope(|scope| {
            let (read, arrived) = sync_channel(1);
            let (filtered, to_write) = sync_channel::<(u32, Pixels)>(1);
            let reader = scope.spawn(move || -> Result<()> {
                for number in 0..count {
                    let window = around(number)?;
                    let pixels = self.image.read(window)?;
                    read.send((number, window, pixels))
                        .map_err(|_| anyhow!("the filtering thread has ended"))?;
                }
                Ok(())
            });
            let target = &target;
            let writer = scope.spawn(move || -> Result<()> {
                for (number, pixels) in to_write {
                    target.write(0, number * BAND, &pixels)?;
                }
                Ok(())
            });
            let mut scratch = FilterBuffers::new();
            for (number, window, pixels) in arrived {
                let made = filter_band(&grid, number, (window, &pixels), &mut scratch)?;
                filtered
                    .send((number, made))
                    .map_err(|_| anyhow!("the writing thread has ended"))?;
            }
            drop(filtered);
            for thread in [reader, writer] {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok::<(), anyhow::Error>(())
        })?;
        target.sync()?;
        Ok(target)
    }

    /// Creates an image like the source.
    fn target(&self) -> Result<Image> {
        let [width, height] = self.image.size();
        let options = ImageOptions::new([width.into(), height.into()], self.image.pixel());
        Ok(options.create(&self.cluster, TO)?)
    }

    /// Checks that all ways give the same pixels.
    fn check(&self) -> Result<()> {
        let mut expected = None;
        for way in ["nodes", "caller", "streamed"] {
            let made = self.filter(way)?;
            let pixels = made.read(made.window())?;
            ensure!(*expected.get_or_insert_with(|| pixels.clone()) == pixels, "{way}: others");
            drop(made);
            self.cluster.remove(TO)?;
        }
        Ok(())
    }
}

/// Filters pixels with one thread per processor.
fn filter_all(pixels: &Pixels) -> Result<Pixels> {
    let whole = pixels.window();
    let grid = bands(whole)?;
    let count = whole.height.div_ceil(BAND);
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let mut made = Pixels::blank(whole.width, whole.height, pixels.pixel())?;
    let filtered = thread::scope(|scope| -> Result<Vec<(u32, Pixels)>> {
        let work = |first: usize| {
            let grid = &grid;
            scope.spawn(move || -> Result<Vec<(u32, Pixels)>> {
                let mut scratch = FilterBuffers::new();
                let mine = (0..count).skip(first).step_by(threads);
                mine.map(|number| {
                    let part = (whole, pixels);
                    Ok((number, filter_band(grid, number, part, &mut scratch)?))
                })
                .collect()
            })
        };
        let running: Vec<_> = (0..threads).map(work).collect();
        let mut all = Vec::new();
        for thread in running {
            let some = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(some?);
        }
        Ok(all)
    })?;
    for (number, band) in filtered {
        made.paste(0, number * BAND, &band)?;
    }
    Ok(made)
}

/// The image in bands of its full width.
fn bands(whole: ImageWindow) -> Result<TileGrid> {
    let image = Shape::image(whole.width.into(), whole.height.into());
    Ok(TileGrid::new(image, Shape::image(whole.width.into(), BAND.into()))?)
}

fn filter_band(
    grid: &TileGrid,
    number: u32,
    part: (ImageWindow, &Pixels),
    scratch: &mut FilterBuffers,
) -> Result<Pixels> {
    let band = TilePosition::image(0, number.into());
    let framed = PaddedTile::assemble(grid, band, REACH, EDGE, [part])?;
    Ok(FILTER.apply(&framed, scratch)?)
}

/// Creates an image without a tile of zeros.
fn make(cluster: &Cluster, width: u32, height: u32) -> Result<Image> {
    let options = ImageOptions::new([width.into(), height.into()], Pixel::RGB);
    let image = options.create(cluster, FROM)?;
    let mut pixels = Pixels::blank(width, height, Pixel::RGB)?;
    let mut random = fastrand::Rng::with_seed(7);
    for y in 0..height {
        random.fill(pixels.row_mut(y));
    }
    image.write(0, 0, &pixels)?;
    image.sync()?;
    Ok(image)
}

/// Connects when all nodes have joined.
fn connect(address: &str, key: PathBuf) -> Result<Cluster> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let options = ClusterOptions { key_file: Some(key.clone()), ..ClusterOptions::default() };
        let cluster = Cluster::connect_with(address, options)?;
        let joined = cluster.map().nodes.iter().filter(|node| !node.disks.is_empty()).count();
        if joined == NODES {
            return Ok(cluster);
        }
        ensure!(Instant::now() < deadline, "not all nodes have joined");
        thread::sleep(Duration::from_millis(20));
    }
}
