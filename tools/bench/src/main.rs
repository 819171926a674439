//! Benchmarks that print ratios: Pario and a peer, measured in turns in the same run.
//!
//! Each area is a module with one module per family of figures; each peer has its own module or
//! function. The figures go to standard output, one line each; everything else goes to standard
//! error.

mod area;
mod cluster;
mod fair;
mod figure;
mod flow;
mod memory;
mod modes;
mod namespaces;
mod net;
mod operations;
mod other_load;
mod partner;
mod plot;
mod report;
mod scratch_directory;
mod slices;
mod small;
mod statistics;
mod store;
mod turns;
mod virtual_network;
mod watchdog;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use area::{BenchArea, RunSettings};
use other_load::ProcessorTicks;
use partner::PartnerRole;
use report::Report;
use scratch_directory::ScratchDirectory;
use watchdog::Watchdog;

/// All areas.
const AREAS: &[BenchArea] = &[
    store::AREA,
    net::AREA,
    flow::AREA,
    cluster::AREA,
    modes::AREA,
    slices::AREA,
    memory::AREA,
    fair::AREA,
    small::AREA,
    operations::AREA,
];

/// The roles of second processes of this program.
const ROLES: &[&[PartnerRole]] = &[
    net::ROLES,
    flow::ROLES,
    cluster::ROLES,
    modes::ROLES,
    slices::ROLES,
    memory::ROLES,
    fair::ROLES,
];

/// The command line.
#[derive(Parser, Debug)]
#[command(
    name = "pario-bench",
    about = "Measures Pario and its peers side by side, and prints ratios",
    after_help = "Example:\n  \
        pario-bench store --quick\n  \
        pario-bench store/flat --dir /mnt/ssd\n  \
        pario-bench net/tcp-stream\n  \
        pario-bench slices/warm,aligned,cold --plots pictures\n  \
        pario-bench memory/donio,gio --tables\n\n\
        A larger ratio is better. A missed goal is printed as `short` and is not an error."
)]
struct Arguments {
    /// An area, or the beginnings of figure names in it, for example store/flat or slices/warm,cold
    #[arg(required_unless_present_any = ["list", "partner"])]
    area: Option<String>,
    /// Take about a minute: less data, fewer turns
    #[arg(long)]
    quick: bool,
    /// List the areas and their figures
    #[arg(long)]
    list: bool,
    /// Directory for temporary files [default: next to this program]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write plots as SVG to this directory, for areas that have plots and figures that were
    /// measured
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print tables in the form of the reports that describe the same measurements, behind the
    /// figures
    #[arg(long)]
    tables: bool,
    /// Run as the second process of a measurement
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    partner: Option<Vec<String>>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(words) = arguments.partner {
        return partner::play(ROLES, &words);
    }
    let Some(requested) = arguments.area.filter(|_| !arguments.list) else {
        list();
        return Ok(());
    };
    let (area_name, beginning) = requested.split_once('/').unwrap_or((&requested, ""));
    let area = AREAS.iter().find(|area| area.name == area_name);
    let families: Vec<_> = area.map_or_else(Vec::new, |area| area.beginning(beginning).collect());
    let Some(area) = area.filter(|_| !families.is_empty()) else {
        bail!("no figure is called {requested}; --list names all of them");
    };
    let scratch = ScratchDirectory::make(arguments.dir.as_deref())?;
    eprintln!("temporary files: {}", scratch.path().display());
    let setting = RunSettings { quick: arguments.quick, dir: scratch.path().to_owned() };
    let mut report = Report::new(area_name);
    let mut failed = Vec::new();
    for family in families {
        eprintln!("{area_name}/{}: {}", family.name, family.description);
        let before = ProcessorTicks::now();
        let limit = Duration::from_secs(setting.choose(40 * 60, 3 * 60));
        let watchdog = Watchdog::start(format!("{area_name}/{}", family.name), limit);
        if let Err(error) = (family.run)(&setting, &mut report) {
            eprintln!("  failed: {error:#}");
            failed.push(family.name);
        }
        drop(watchdog);
        if let (Some(before), Some(now)) = (before, ProcessorTicks::now()) {
            let percent = now.others_percent_since(before);
            eprintln!("  other programs used {percent} % of the processors");
        }
    }
    if let Some(dir) = &arguments.plots {
        write_plots(area, &report, dir)?;
    }
    report.close(arguments.tables);
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

fn write_plots(area: &BenchArea, report: &Report, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("creating the directory {}", dir.display()))?;
    for plot in (area.draw)(report) {
        let path = dir.join(plot.name).with_extension("svg");
        fs::write(&path, plot.svg).with_context(|| format!("writing {}", path.display()))?;
        eprintln!("drawn: {}", path.display());
    }
    Ok(())
}

/// Prints the areas and their families.
fn list() {
    for area in AREAS {
        println!("{}", area.name);
        for family in area.families {
            println!("  {}/{:<28} {}", area.name, family.name, family.description);
        }
    }
}
