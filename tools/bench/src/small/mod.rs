//! Many small files: copied in, copied out and removed, as `pario cp -r` and `pario rm -r` do it,
//! against `cp -r` and `rm -r` of the same tree with one `sync -f` at the end, on the same file
//! system. Both sides are durable when a turn ends, except for `rm`, where only the names are.

mod trees;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pario::{Cluster, FileContent, FilePath, Removal};

use crate::area::{BenchArea, FigureFamily, RunSettings, nothing};
use crate::cluster::node::NodeProcess;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::{Comparison, rotate};
use trees::{LocalTree, plain_copy, plain_remove};

/// The area of small files.
pub const AREA: BenchArea = BenchArea {
    name: "small",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "copy-in",
            description: "files of 6 bytes written into the cluster, against cp -r and sync -f",
            run: copy_in,
        },
        FigureFamily {
            name: "copy-out",
            description: "the same files read from the cluster and written to a directory",
            run: copy_out,
        },
        FigureFamily {
            name: "remove",
            description: "the same files removed, against rm -r and sync -f",
            run: remove,
        },
    ],
};

/// Files of a tree.
fn count(setting: &RunSettings) -> u32 {
    setting.choose(3000, 600)
}

/// The measured node, a client, and a local tree to copy.
struct SmallFileSite {
    cluster: Cluster,
    tree: LocalTree,
    _node: NodeProcess,
}

impl SmallFileSite {
    fn new(setting: &RunSettings, name: &str) -> Result<Self> {
        let dir = setting.subdir(name)?;
        let node = NodeProcess::start(&dir.join("node"))?;
        let tree = LocalTree::make(dir.join("tree"), count(setting))?;
        Ok(Self { cluster: node.connect()?, tree, _node: node })
    }

    /// Copies the tree into a new directory of the cluster, as `pario cp -r` does.
    fn copy_in(&self, to: &str) -> Result<()> {
        self.cluster.make_directory(to)?;
        let files = self.tree.read()?;
        let paths: Vec<String> = files.iter().map(|(name, _)| format!("{to}/{name}")).collect();
        let files: Vec<FileContent<'_>> = paths
            .iter()
            .zip(&files)
            .map(|(path, (_, bytes))| FileContent {
                path,
                mode: Some(0o644),
                bytes,
                modified_ns: Some(1 << 60),
            })
            .collect();
        for written in self.cluster.options().write_files(&files) {
            written?;
        }
        Ok(())
    }

    fn names(&self, directory: &str) -> Result<Vec<String>> {
        let entries = self.cluster.list_names(directory)?;
        entries.map(|entry| Ok(format!("{directory}/{}", entry?.name))).collect()
    }

    /// Removes a directory, as `pario rm -r` does.
    fn remove(&self, directory: &str) -> Result<()> {
        let removal = |path: &String, is_directory| {
            Ok::<_, anyhow::Error>(Removal { path: FilePath::new(path)?, is_directory })
        };
        let names = self.names(directory)?;
        let mut entries: Vec<_> =
            names.iter().map(|path| removal(path, false)).collect::<Result<_>>()?;
        entries.push(removal(&directory.to_owned(), true)?);
        for removed in self.cluster.remove_many(&entries) {
            removed?;
        }
        Ok(())
    }
}

fn measure(
    setting: &RunSettings,
    report: &mut Report,
    name: &str,
    ours: &mut dyn FnMut(u32) -> Result<Duration>,
    theirs: &mut dyn FnMut(u32) -> Result<Duration>,
) -> Result<()> {
    let (mut our_turn, mut their_turn) = (0, 0);
    let seconds = rotate(
        setting.choose(31, 15),
        &mut [
            &mut || {
                our_turn += 1;
                setting.flush_file_system()?;
                ours(our_turn)
            },
            &mut || {
                their_turn += 1;
                setting.flush_file_system()?;
                theirs(their_turn)
            },
        ],
    )?;
    let comparison = Comparison::new(&seconds[0], &seconds[1]);
    eprintln!("  {name}: {:.2} s for {} files", comparison.ours_s, count(setting));
    let quantity = Quantity::Operations(f64::from(count(setting)));
    report.measured(name, comparison, quantity, None);
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn copy_in(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let site = SmallFileSite::new(setting, "copy-in")?;
    let plain = setting.subdir("copy-in-plain")?;
    measure(
        setting,
        report,
        "copy-in",
        &mut |turn| timed(|| site.copy_in(&format!("/{turn}"))),
        &mut |turn| timed(|| plain_copy(site.tree.path(), &plain.join(turn.to_string()))),
    )?;
    ensure!(site.names("/1")?.len() == count(setting) as usize, "not all files are there");
    Ok(())
}

fn copy_out(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let site = SmallFileSite::new(setting, "copy-out")?;
    let plain = setting.subdir("copy-out-plain")?;
    site.copy_in("/tree")?;
    let out = |turn: u32| {
        let names = site.names("/tree")?;
        let mut files = Vec::with_capacity(names.len());
        for (path, bytes) in names.iter().zip(site.cluster.read_files(&names)) {
            let name = path.rsplit('/').next().context("a path has a name")?;
            files.push((name.to_owned(), bytes?));
        }
        LocalTree::write(plain.join(format!("ours-{turn}")), &files).map(|_| ())
    };
    measure(setting, report, "copy-out", &mut |turn| timed(|| out(turn)), &mut |turn| {
        timed(|| plain_copy(site.tree.path(), &plain.join(turn.to_string())))
    })
}

fn remove(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let site = SmallFileSite::new(setting, "remove")?;
    let plain = setting.subdir("remove-plain")?;
    measure(
        setting,
        report,
        "remove",
        &mut |turn| {
            let directory = format!("/{turn}");
            site.copy_in(&directory)?;
            timed(|| site.remove(&directory))
        },
        &mut |turn| {
            let directory = plain.join(turn.to_string());
            plain_copy(site.tree.path(), &directory)?;
            timed(|| plain_remove(&directory))
        },
    )
}
