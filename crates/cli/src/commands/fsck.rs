//! `pario fsck`: checks the namespace against the disks.

use std::io::Write;

use clap::Args;
use pario::status::{CheckDepth, CheckReport, CheckRequest, Finding, FindingKind};
use pario::{Cluster, MissingNamespace};
use serde_json::{Value, json};

use crate::amounts::count;
use crate::arguments::GlobalOptions;
use crate::exit::{AlreadyReported, FAILED};
use crate::table::{ColumnAlignment, TextTable};
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario fsck\n  pario fsck --deep\n  pario fsck --repair\n  pario --data ./pario-data fsck --rebuild";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Read all data that has a checksum
    #[arg(long)]
    deep: bool,

    /// Repair what can be repaired without loss
    #[arg(long)]
    repair: bool,

    /// Build the namespace from the descriptions on the disks
    #[arg(long)]
    rebuild: bool,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let cluster = match &global.data {
        // The namespace that is to be rebuilt may be missing.
        Some(data) if options.rebuild => {
            reach::check_data(global, data)?;
            let choice = MissingNamespace::Rebuild;
            Cluster::recover_embedded(data, reach::options(global), choice)?
        }
        _ => reach::cluster(global)?,
    };
    let depth = if options.deep { CheckDepth::Everything } else { CheckDepth::Names };
    let (is_repair, is_rebuild) = (options.repair, options.rebuild);
    let mut report = cluster.check(CheckRequest { depth, is_repair, is_rebuild })?;
    if let Some(rebuilt) = cluster.rebuilt() {
        let findings = rebuilt.findings.into_iter();
        let news = findings
            .filter(|finding| matches!(finding.kind, FindingKind::Rebuilt | FindingKind::Guessed));
        report.findings.splice(0..0, news);
    }
    let mut out = terminal::output();
    if global.json {
        terminal::print_json(&as_json(&report))?;
    } else {
        lines(&report, is_repair, options.deep)
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"))?;
        out.flush()?;
    }
    if is_fine(&report) { Ok(()) } else { Err(AlreadyReported(FAILED).into()) }
}

/// Returns whether no problem remains. A rebuilt entry is a finding, but not a problem.
fn is_fine(report: &CheckReport) -> bool {
    report.silent_nodes.is_empty() && report.findings.iter().all(is_resolved)
}

fn is_resolved(finding: &Finding) -> bool {
    finding.is_repaired || matches!(finding.kind, FindingKind::Rebuilt | FindingKind::Guessed)
}

fn lines(report: &CheckReport, is_repair: bool, is_deep: bool) -> Vec<String> {
    let mut table = TextTable::new([
        ("finding", ColumnAlignment::Left),
        ("repaired", ColumnAlignment::Left),
        ("file", ColumnAlignment::Left),
        ("disk", ColumnAlignment::Left),
        ("", ColumnAlignment::Left),
    ]);
    for finding in &report.findings {
        let file = match &finding.path {
            Some(path) => path.to_string(),
            None => finding.file.to_string(),
        };
        table.push([
            word(finding.kind).to_owned(),
            if is_resolved(finding) { "yes" } else { "no" }.to_owned(),
            file,
            finding.disk.clone().unwrap_or_default(),
            finding.text.clone(),
        ]);
    }
    let mut lines = if table.is_empty() { Vec::new() } else { table.lines() };
    for node in &report.silent_nodes {
        lines.push(format!("node {node} does not answer: its disks were not checked"));
    }
    let open = report.findings.iter().filter(|finding| !is_resolved(finding)).count() as u64;
    let repaired = report.findings.len() as u64 - open;
    let looked_at = format!(
        "checked {} and {}",
        count(report.files, "file"),
        count(report.subfiles, "subfile")
    );
    let result = match (open, repaired) {
        (0, 0) if report.silent_nodes.is_empty() => "everything is fine".to_owned(),
        (0, 0) => "nothing wrong was found".to_owned(),
        (0, repaired) => format!("{} repaired", count(repaired, "finding")),
        (open, repaired) => {
            let hint = if is_repair {
                ""
            } else {
                "; `pario fsck --repair` repairs what can be repaired without loss"
            };
            format!("{} left, {repaired} repaired{hint}", count(open, "finding"))
        }
    };
    if is_deep {
        lines.push(format!(
            "verified {} by checksum; {} have no checksum (flat files)",
            count(report.verified_bytes, "byte"),
            count(report.unverified_bytes, "byte")
        ));
    }
    lines.push(format!("{looked_at}: {result}"));
    lines
}

fn as_json(report: &CheckReport) -> Value {
    let findings = report.findings.iter().map(|finding| {
        json!({
            "kind": word(finding.kind),
            "path": finding.path,
            "file": finding.file.to_string(),
            "disk": finding.disk,
            "text": finding.text,
            "repaired": is_resolved(finding),
        })
    });
    json!({
        "files": report.files,
        "subfiles": report.subfiles,
        "silent_nodes": report.silent_nodes,
        "findings": findings.collect::<Vec<_>>(),
        "verified_bytes": report.verified_bytes,
        "unverified_bytes": report.unverified_bytes,
        "fine": is_fine(report),
    })
}

fn word(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Missing => "missing",
        FindingKind::Extra => "extra",
        FindingKind::Mismatch => "mismatch",
        FindingKind::Damage => "damage",
        FindingKind::UnfinishedDeletion => "doomed",
        FindingKind::Rebuilt => "rebuilt",
        FindingKind::Guessed => "guessed",
        FindingKind::Poisoned => "poisoned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: FindingKind, is_repaired: bool) -> CheckReport {
        let finding = Finding {
            kind,
            path: Some(pario::FilePath::new("/x").unwrap()),
            file: pario_proto::FileId(7),
            disk: Some("local/disk0".to_owned()),
            text: "subfile 0 is not there".to_owned(),
            is_repaired,
        };
        CheckReport { files: 1, subfiles: 3, findings: vec![finding], ..CheckReport::default() }
    }

    #[test]
    fn findings_are_a_table_and_a_sentence() {
        let expected = [
            "finding  repaired  file  disk",
            "missing  no        /x    local/disk0  subfile 0 is not there",
            "checked 1 file and 3 subfiles: 1 finding left, 0 repaired; `pario fsck --repair` \
             repairs what can be repaired without loss",
        ];
        assert_eq!(lines(&report(FindingKind::Missing, false), false, false), expected);
        let fine = CheckReport { files: 2, ..CheckReport::default() };
        let expected = ["checked 2 files and 0 subfiles: everything is fine"];
        assert_eq!(lines(&fine, false, false), expected);
        let deep = CheckReport { verified_bytes: 1, unverified_bytes: 12_000, ..fine };
        assert_eq!(
            lines(&deep, false, true)[0],
            "verified 1 byte by checksum; 12000 bytes have no checksum (flat files)"
        );
    }

    #[test]
    fn what_is_repaired_or_rebuilt_is_fine() {
        assert!(!is_fine(&report(FindingKind::Extra, false)));
        assert!(is_fine(&report(FindingKind::Extra, true)));
        assert!(is_fine(&report(FindingKind::Rebuilt, false)));
        let silent = CheckReport { silent_nodes: vec!["b".into()], ..CheckReport::default() };
        assert!(!is_fine(&silent));
        assert_eq!(as_json(&report(FindingKind::Extra, false))["findings"][0]["kind"], "extra");
    }
}
