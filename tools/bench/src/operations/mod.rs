//! Operations that arrive as WebAssembly modules, against the same operations compiled into the node:
//! on extents in the cache of an embedded node, by all its compute threads.

mod compiled;
mod module;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario::{Cluster, ExtentIndex, ExtentPlacement, File, SubfileIndex};

use crate::area::{BenchArea, FigureFamily, RunSettings, nothing};
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;
use compiled::{CompiledHistogram, CompiledThreshold};

/// The area of operations.
pub const AREA: BenchArea = BenchArea {
    name: "operations",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "threshold",
            description: "a threshold of extents of 1 MiB, each with a result, as a module and compiled",
            run: |setting, report| {
                let compiled = Arc::new(CompiledThreshold);
                measure(setting, report, "threshold", compiled, Some(GOAL))
            },
        },
        FigureFamily {
            name: "histogram",
            description: "a histogram of the same extents, as a module and compiled",
            run: |setting, report| {
                let compiled = Arc::new(CompiledHistogram);
                measure(setting, report, "histogram", compiled, None)
            },
        },
    ],
};

const GOAL: f64 = 0.6;
const EXTENT_BYTES: usize = 1 << 20;
const EXTENTS: u64 = 64;
const PARAMETERS: &[u8] = b"level=90";

fn measure(
    setting: &RunSettings,
    report: &mut Report,
    name: &'static str,
    compiled: Arc<dyn pario::operation::Operation>,
    goal: Option<f64>,
) -> Result<()> {
    let Some(module) = module::build(setting, name)? else {
        report.skipped(name, "clang and lld for wasm32 are not installed");
        return Ok(());
    };
    let cluster = Cluster::embedded(setting.subdir(name)?)?;
    let file = fill(&cluster)?;
    cluster.add_operation("compiled", compiled);
    cluster.add_module("module", &module, 0o700)?;
    let expected = results(&cluster, &file, "compiled")?;
    ensure!(results(&cluster, &file, "module")? == expected, "the module computes something else");
    let rounds = setting.choose(20, 5);
    let timed = |operation: &str| -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..rounds {
            let call = cluster.process(&file).operation_with(operation, PARAMETERS.to_vec());
            call.for_each_bytes(|_, _| Ok(()))?;
        }
        Ok(start.elapsed())
    };
    let turns = setting.choose(41, 21);
    let comparison = alternate(turns, &mut || timed("module"), &mut || timed("compiled"))?;
    let bytes = (EXTENTS * EXTENT_BYTES as u64 * rounds) as f64;
    report.measured(name, comparison, Quantity::Megabytes(bytes), goal);
    Ok(())
}

/// Writes extents of random bytes.
fn fill(cluster: &Cluster) -> Result<File> {
    let options = cluster.options().read(true).write(true).create(true);
    let file = options.extents().open("/extents")?;
    let mut random = fastrand::Rng::with_seed(8);
    let mut body = vec![0; EXTENT_BYTES];
    for number in 0..EXTENTS {
        random.fill(&mut body);
        let subfile = SubfileIndex(u32::try_from(number % 4)?);
        file.write_extent(
            b"",
            &body,
            ExtentPlacement { subfile, extent: ExtentIndex(number / 4) },
        )?;
    }
    Ok(file)
}

/// Returns the results of an operation in the order of placements.
fn results(
    cluster: &Cluster,
    file: &File,
    operation: &str,
) -> Result<Vec<(Option<ExtentPlacement>, Vec<u8>)>> {
    let mut all = Vec::new();
    let call = cluster.process(file).operation_with(operation, PARAMETERS.to_vec());
    call.for_each_bytes(|placement, bytes| {
        all.push((placement, bytes.to_vec()));
        Ok(())
    })?;
    all.sort();
    Ok(all)
}
