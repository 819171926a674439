//! The phases of the demo, one method each. Each measures itself and checks what it gets.

use std::time::Instant;

use anyhow::{Context, anyhow, bail, ensure};
use pario_store::{Answer, Caching, Extent};

use super::compaction::compact;
use super::content::{Content, Version};
use super::disks::{DISKS, Disks, Place};
use super::plan::Plan;
use super::progress::Progress;
use super::report::{DiskSpace, Phase, PhaseReport};
use super::traffic::Traffic;

/// A demo under way.
///
/// The traffic stands first: it ends before the disks go.
#[derive(Debug)]
pub struct Phases {
    traffic: Traffic,
    disks: Disks,
    plan: Plan,
    content: Content,
    reports: Vec<PhaseReport>,
}

impl Phases {
    /// A demo before its first phase.
    pub fn new(traffic: Traffic, disks: Disks, plan: Plan, content: Content) -> Self {
        Self { traffic, disks, plan, content, reports: Vec::new() }
    }

    /// What the phases did, in their order.
    pub fn into_reports(self) -> Vec<PhaseReport> {
        self.reports
    }

    /// What the disks hold and take now.
    pub fn space(&self) -> anyhow::Result<Vec<DiskSpace>> {
        self.disks.space()
    }

    /// Writes all extents in order, which goes round the disks, and syncs.
    pub fn fill(&mut self) -> anyhow::Result<()> {
        self.write(Phase::Fill, &self.plan.in_order())
    }

    /// Reads all extents from the disks.
    pub fn read_uncached(&mut self) -> anyhow::Result<()> {
        self.read(Phase::ReadUncached, Caching::Bypass)
    }

    /// Reads all extents into the cache.
    pub fn read_cold(&mut self) -> anyhow::Result<()> {
        self.read(Phase::ReadCold, Caching::Use)
    }

    /// Reads all extents from the cache.
    pub fn read_warm(&mut self) -> anyhow::Result<()> {
        self.read(Phase::ReadWarm, Caching::Use)
    }

    /// Writes a third of the extents with other sizes, and syncs.
    pub fn rewrite(&mut self) -> anyhow::Result<()> {
        let extents = self.plan.rewrite_a_third();
        self.write(Phase::Rewrite, &extents)
    }

    /// Deletes a tenth of the extents, and syncs.
    pub fn delete(&mut self) -> anyhow::Result<()> {
        let before = self.plan.live_bytes();
        let extents = self.plan.delete_a_tenth();
        let bytes = before - self.plan.live_bytes();
        let count = extents.len() as u64;
        let progress = Progress::of_bytes(Phase::Delete, bytes);
        self.phase(Phase::Delete, count, bytes, |demo| {
            let disks = &demo.disks;
            let requests = extents.iter().map(|&extent| Ok((extent, disks.delete(extent))));
            demo.traffic.run(requests, |extent, answer| match answer {
                Answer::Deleted(true) => {
                    progress.advance(bytes / count.max(1));
                    Ok(())
                }
                other => bail!("{}: deleting it gave {other:?}", named(disks, extent)),
            })?;
            demo.sync()
        })
    }

    /// Moves the extents of each disk together.
    pub fn compact(&mut self) -> anyhow::Result<()> {
        let (count, bytes) = (self.plan.in_order().len() as u64, self.plan.live_bytes());
        let progress = Progress::of_disks(Phase::Compact, u64::from(DISKS));
        self.phase(Phase::Compact, count, bytes, |demo| {
            compact(demo.disks.subfiles(), &demo.traffic, &progress)
        })
    }

    /// Reads all extents that are left, and looks for those that are not.
    pub fn read_again(&mut self) -> anyhow::Result<()> {
        self.read(Phase::ReadAgain, Caching::Bypass)
    }

    fn write(&mut self, phase: Phase, extents: &[u64]) -> anyhow::Result<()> {
        let (count, bytes) = (extents.len() as u64, self.plan.bytes(extents));
        let progress = Progress::of_bytes(phase, bytes);
        self.phase(phase, count, bytes, |demo| {
            let (disks, plan, content) = (&demo.disks, &demo.plan, &demo.content);
            let requests = extents.iter().map(|&extent| {
                let version = plan
                    .version(extent)
                    .with_context(|| format!("{}: it is deleted", named(disks, extent)))?;
                Ok((extent, disks.write(extent, version, content)?))
            });
            demo.traffic.run(requests, |extent, answer| match answer {
                Answer::Written => {
                    progress.advance(plan.bytes(&[extent]));
                    Ok(())
                }
                other => bail!("{}: writing it gave {other:?}", named(disks, extent)),
            })?;
            demo.sync()
        })
    }

    fn read(&mut self, phase: Phase, caching: Caching) -> anyhow::Result<()> {
        let extents = self.plan.at_random();
        let count = self.plan.in_order().len() as u64;
        let bytes = self.plan.live_bytes();
        let hits_before = self.disks.cache().stat().hits;
        let progress = Progress::of_bytes(phase, bytes);
        self.phase(phase, count, bytes, |demo| {
            let (disks, plan, content) = (&demo.disks, &demo.plan, &demo.content);
            let requests = extents.iter().map(|&extent| Ok((extent, disks.read(extent, caching))));
            demo.traffic.run(requests, |extent, answer| {
                let Answer::Extent(found) = answer else {
                    bail!("{}: reading it gave {answer:?}", named(disks, extent));
                };
                let version = plan.version(extent);
                check(content, extent, version, found.as_ref())
                    .map_err(|wrong| anyhow!("{}: {wrong}", named(disks, extent)))?;
                progress.advance(version.map_or(0, Version::bytes));
                Ok(())
            })
        })?;
        if caching == Caching::Use {
            let hits = self.disks.cache().stat().hits - hits_before;
            let report = self.reports.last_mut().expect("it has just been made");
            report.cache_hits = Some(hits);
        }
        Ok(())
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        let requests = (0..).zip(self.disks.sync()).map(Ok);
        self.traffic.run(requests, |disk, answer| {
            ensure!(matches!(answer, Answer::Synced), "disk{disk}: syncing it gave {answer:?}");
            Ok(())
        })
    }

    /// Measures a phase.
    fn phase(
        &mut self,
        phase: Phase,
        extents: u64,
        bytes: u64,
        work: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        work(self).with_context(|| format!("the demo stopped in phase \"{phase}\""))?;
        let report = PhaseReport::new(phase, extents, bytes, begun.elapsed());
        self.reports.push(report);
        Ok(())
    }
}

/// Compares what was found with what was written, or deleted.
fn check(
    content: &Content,
    extent: u64,
    version: Option<Version>,
    found: Option<&Extent>,
) -> Result<(), String> {
    const WHAT_TO_DO: &str = "this is a defect of Pario or of the disk: run it again with --keep \
                              and the same --seed, and report it";
    let wrong = match (version, found) {
        (None, None) => return Ok(()),
        (Some(version), Some(found)) => {
            match content.check(extent, version, found.header(), found.body()) {
                Ok(()) => return Ok(()),
                Err(difference) => format!("it is not what was written: {difference}"),
            }
        }
        (Some(_), None) => "it was written, and is not there".into(),
        (None, Some(_)) => "it was deleted, and is still there".into(),
    };
    Err(format!("{wrong}; {WHAT_TO_DO}"))
}

/// An extent, for a message.
fn named(disks: &Disks, extent: u64) -> String {
    let Place { disk, index } = disks.place(extent);
    format!("extent {extent} (disk{disk}, index {index})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;

    const SIZE_BYTES: u64 = 2 << 20;

    fn filled(dir: &std::path::Path) -> Phases {
        let traffic = Traffic::new(Interrupt::default()).unwrap();
        let disks = Disks::create(dir, 4 * SIZE_BYTES).unwrap();
        let mut phases = Phases::new(traffic, disks, Plan::new(SIZE_BYTES, 1), Content::new(1));
        phases.fill().unwrap();
        phases
    }

    #[test]
    fn other_content_is_an_error_that_names_the_extent() {
        let dir = tempfile::tempdir().unwrap();
        let mut phases = filled(dir.path());
        let stranger = phases.disks.subfiles()[2].clone();
        stranger.write(3, b"a header", b"a body").unwrap();
        let error = format!("{:#}", phases.read_uncached().unwrap_err());
        assert!(error.contains("extent 14 (disk2, index 3)"), "{error}");
        assert!(error.contains("\"read, no cache\""), "{error}");
    }

    #[test]
    fn a_lost_extent_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut phases = filled(dir.path());
        assert!(phases.disks.subfiles()[1].delete(0).unwrap());
        let error = format!("{:#}", phases.read_cold().unwrap_err());
        assert!(error.contains("extent 1 (disk1, index 0)"), "{error}");
        assert!(error.contains("is not there"), "{error}");
    }

    #[test]
    fn a_deleted_extent_that_is_back_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut phases = filled(dir.path());
        phases.delete().unwrap();
        let mut extents = 0..SIZE_BYTES;
        let gone = extents.find(|&extent| phases.plan.version(extent).is_none());
        let place = phases.disks.place(gone.unwrap());
        let subfile = phases.disks.subfiles()[place.disk].clone();
        subfile.write(place.index, b"", b"").unwrap();
        let error = format!("{:#}", phases.read_again().unwrap_err());
        assert!(error.contains("still there"), "{error}");
    }

    #[test]
    fn the_cache_misses_when_cold_and_hits_when_warm() {
        let dir = tempfile::tempdir().unwrap();
        let mut phases = filled(dir.path());
        phases.read_cold().unwrap();
        phases.read_warm().unwrap();
        let hits: Vec<_> = phases.into_reports().iter().map(|r| r.cache_hits).collect();
        let all = Plan::extents_in(SIZE_BYTES);
        assert_eq!(hits, [None, Some(0), Some(all)]);
    }
}
