//! Benchmarks that print ratios: pario and a peer, measured in turns in the same run.
//!
//! Each area is a module with one module per family of figures; what a figure is compared to
//! stands in a module or function of its own. The figures go to standard output, one line each;
//! everything else goes to standard error.

mod area;
mod cluster;
mod fair;
mod figure;
mod flow;
mod memory;
mod modes;
mod namespaces;
mod net;
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
];

/// What a second process of this program can be told to be.
const ROLES: &[&[PartnerRole]] = &[
    net::ROLES,
    flow::ROLES,
    cluster::ROLES,
    modes::ROLES,
    slices::ROLES,
    memory::ROLES,
    fair::ROLES,
];

/// What was typed.
#[derive(Parser, Debug)]
#[command(
    name = "pario-bench",
    about = "Measures pario side by side with what it is compared to, and prints ratios",
    after_help = "Example:\n  \
        pario-bench store --quick\n  \
        pario-bench store/flat --dir /mnt/ssd\n  \
        pario-bench net/tcp-stream\n  \
        pario-bench slices/warm,aligned,cold --plots pictures\n\n\
        A ratio is larger-is-better. A missed goal is shown as `short` and is no error."
)]
struct Arguments {
    /// An area, or beginnings of the names of its figures, like store/flat or slices/warm,cold
    #[arg(required_unless_present_any = ["list", "partner"])]
    area: Option<String>,
    /// Stay under a minute: less data, fewer turns
    #[arg(long)]
    quick: bool,
    /// Name the areas and what they measure
    #[arg(long)]
    list: bool,
    /// Where temporary files go [default: next to this program]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write plots of the figures there, as SVG, where the area has some and all were measured
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Be the second process of a measurement
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    partner: Option<Vec<String>>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(words) = arguments.partner {
        return partner::play(ROLES, &words);
    }
    let Some(asked) = arguments.area.filter(|_| !arguments.list) else {
        list();
        return Ok(());
    };
    let (area_name, beginning) = asked.split_once('/').unwrap_or((&asked, ""));
    let area = AREAS.iter().find(|area| area.name == area_name);
    let families: Vec<_> = area.map_or_else(Vec::new, |area| area.beginning(beginning).collect());
    let Some(area) = area.filter(|_| !families.is_empty()) else {
        bail!("there are no figures {asked}; --list names what there is");
    };
    let scratch = ScratchDirectory::make(arguments.dir.as_deref())?;
    eprintln!("temporary files: {}", scratch.path().display());
    let setting = RunSettings { quick: arguments.quick, dir: scratch.path().to_owned() };
    let mut report = Report::new(area_name);
    let mut failed = Vec::new();
    for family in families {
        eprintln!("{area_name}/{}: {}", family.name, family.what);
        let before = ProcessorTicks::now();
        let limit = Duration::from_secs(setting.choose(40 * 60, 3 * 60));
        let patience = Watchdog::start(format!("{area_name}/{}", family.name), limit);
        if let Err(error) = (family.run)(&setting, &mut report) {
            eprintln!("  failed: {error:#}");
            failed.push(family.name);
        }
        drop(patience);
        if let (Some(before), Some(now)) = (before, ProcessorTicks::now()) {
            let percent = now.others_percent_since(before);
            eprintln!("  others used {percent} % of the processors meanwhile");
        }
    }
    if let Some(dir) = &arguments.plots {
        write_plots(area, &report, dir)?;
    }
    report.close();
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

fn write_plots(area: &BenchArea, report: &Report, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("making the directory {}", dir.display()))?;
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
            println!("  {}/{:<28} {}", area.name, family.name, family.what);
        }
    }
}
