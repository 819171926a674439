//! The second part of the demo: files and extents on an embedded cluster.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use pario::{Cluster, ExtentPlacement, Layout};

use super::content::DemoContent;
use super::report::{DemoPhase, DiskReport, Phases};
use crate::commands::cp::copy::Copier;
use crate::commands::cp::direction::Location;
use crate::commands::cp::plan::CopyItem;
use crate::commands::cp::{self, progress::Progress};
use crate::interrupt::Interrupt;

/// Bytes of an extent: header and body.
const EXTENT_BYTES: usize = 51 << 10;

/// Limit for all extents, which otherwise take an eighth of the file's size.
const EXTENTS_LIMIT_BYTES: u64 = 64 << 20;

/// Copies a file in and out, uses extents, and returns the file's bytes on each disk.
pub fn run(
    cluster: &Cluster,
    directory: &Path,
    content: &DemoContent,
    phases: &mut Phases,
) -> anyhow::Result<Vec<DiskReport>> {
    let original = directory.join("original");
    write_original(&original, content, phases.interrupt())?;
    let inside = Location::Cluster(pario::FilePath::new("/demo")?);
    let outside = directory.join("copied-out");

    let item = |from: Location, to: Location| CopyItem {
        from,
        to,
        len: Some(content.size_bytes()),
        mode: None,
        modified_ns: None,
        is_extents: false,
    };
    let copy_in = item(Location::Local(original), inside.clone());
    let copy_out = item(inside, Location::Local(outside.clone()));
    for (phase, item) in [(DemoPhase::CopyIn, copy_in), (DemoPhase::CopyOut, copy_out)] {
        phases.run(phase, content.size_bytes(), |progress, interrupt| {
            let flags = &cp::Flags::default();
            let copied = Copier { cluster, flags, progress, interrupt }.copy(&item)?;
            Ok(copied.bytes)
        })?;
    }
    phases.run(DemoPhase::Compare, content.size_bytes(), |progress, interrupt| {
        compare(&outside, content, progress, interrupt)
    })?;
    std::fs::remove_file(&outside).context("cannot remove the copy")?;
    let disks = disks(cluster)?;
    extents(cluster, content, phases)?;
    // Frees the space before the same bytes are copied to another node.
    cluster.remove("/demo")?;
    Ok(disks)
}

fn write_original(path: &Path, content: &DemoContent, interrupt: &Interrupt) -> anyhow::Result<()> {
    let shown = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(shown)?);
    for piece in 0..content.pieces() {
        interrupt.check()?;
        file.write_all(content.piece(piece)).with_context(shown)?;
    }
    file.flush().with_context(shown)
}

fn compare(
    path: &Path,
    content: &DemoContent,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<u64> {
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let mut found = Vec::new();
    for number in 0..content.pieces() {
        interrupt.check()?;
        let piece = content.piece(number);
        found.resize(piece.len(), 0);
        file.read_exact(&mut found).with_context(|| path.display().to_string())?;
        if let Some(byte) = first_difference(&found, piece) {
            let byte = content.range(number).start + byte;
            bail!("{}: byte {byte} differs from the byte copied in; this is a bug", path.display());
        }
        progress.advance(piece.len() as u64);
    }
    ensure!(
        file.read(&mut [0])? == 0,
        "{}: it is longer than the file that was copied in; this is a bug",
        path.display()
    );
    Ok(content.size_bytes())
}

/// Returns the offset of the first difference.
pub fn first_difference(found: &[u8], expected: &[u8]) -> Option<u64> {
    if found == expected {
        return None;
    }
    Some(found.iter().zip(expected).take_while(|(a, b)| a == b).count() as u64)
}

fn disks(cluster: &Cluster) -> anyhow::Result<Vec<DiskReport>> {
    let (map, known) = (cluster.map(), cluster.metadata("/demo")?);
    let layout = known.record.layout.as_ref().context("/demo: it has no layout; this is a bug")?;
    let disk = |subfile: &pario::SubfileMeasure| DiskReport {
        disk: match layout.disks().disk_of(subfile.subfile) {
            Some(disk) => map.disk_name(disk),
            None => subfile.subfile.to_string(),
        },
        bytes: subfile.len,
        disk_bytes: subfile.disk_bytes,
    };
    Ok(known.subfiles.iter().map(disk).collect())
}

/// Writes extents, and reads them back in random order.
fn extents(cluster: &Cluster, content: &DemoContent, phases: &mut Phases) -> anyhow::Result<()> {
    let bytes = (content.size_bytes() / 8).min(EXTENTS_LIMIT_BYTES);
    let count = (bytes / EXTENT_BYTES as u64).max(1);
    let total = count * EXTENT_BYTES as u64;
    let file =
        cluster.options().read(true).write(true).create_new(true).extents().open("/extents")?;
    let Some(Layout::Extents(layout)) = &file.record().layout else {
        bail!("/extents: it has another layout than requested; this is a bug");
    };
    let place = |number: u64| -> anyhow::Result<ExtentPlacement> {
        layout
            .locate(number)
            .with_context(|| format!("/extents: extent {number} has no placement; this is a bug"))
    };
    let parts = |number: u64| {
        let header = number.to_le_bytes();
        (header, content.cut(number, EXTENT_BYTES - header.len()))
    };
    phases.run(DemoPhase::WriteExtents, total, |progress, interrupt| {
        for number in 0..count {
            interrupt.check()?;
            let (header, body) = parts(number);
            file.write_extent(&header, body, place(number)?)?;
            progress.advance(EXTENT_BYTES as u64);
        }
        file.sync()?;
        Ok(total)
    })?;
    let mut order: Vec<u64> = (0..count).collect();
    fastrand::Rng::with_seed(count).shuffle(&mut order);
    phases.run(DemoPhase::ReadExtents, total, |progress, interrupt| {
        for number in order {
            interrupt.check()?;
            let (header, body) = parts(number);
            let found = file
                .read_extent(place(number)?)?
                .with_context(|| format!("/extents: extent {number} is missing; this is a bug"))?;
            let is_same = found.header == header[..] && found.body == *body;
            ensure!(
                is_same,
                "/extents: extent {number} differs from what was written; this is a bug"
            );
            progress.advance(EXTENT_BYTES as u64);
        }
        Ok(total)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_compared_byte_by_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let content = DemoContent::new(1, (1 << 20) + 9);
        let progress = Progress::begin("x", None, true);
        let check = || compare(&path, &content, &progress, &Interrupt::default());
        write_original(&path, &content, &Interrupt::default()).unwrap();
        assert_eq!(check().unwrap(), (1 << 20) + 9);

        let mut bytes = std::fs::read(&path).unwrap();
        bytes[1_048_580] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(check().unwrap_err().to_string().contains("byte 1048580 differs"));
        bytes[1_048_580] ^= 1;
        bytes.push(0);
        std::fs::write(&path, &bytes).unwrap();
        assert!(check().unwrap_err().to_string().contains("longer"));
        bytes.truncate(100);
        std::fs::write(&path, &bytes).unwrap();
        assert!(check().is_err());
    }
}
