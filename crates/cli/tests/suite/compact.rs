//! `pario compact`: files with wasted space become smaller, other paths are refused.

use crate::command::{Sandbox, stderr, stdout};
use pario::{Cluster, ExtentIndex, ExtentPlacement, SubfileIndex};
use serde_json::{Value, json};

const EXTENT_BYTES: usize = 100_000;
/// Extents of each subfile; compaction by the node itself starts only at larger sizes.
const EXTENTS: u64 = 30;
const KEPT: u64 = 3;

fn placement(subfile: u32, extent: u64) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(extent) }
}

fn body(extent: u64) -> Vec<u8> {
    vec![u8::try_from(extent).unwrap(); EXTENT_BYTES]
}

fn connect(sandbox: &Sandbox, is_served: bool) -> Cluster {
    match is_served {
        true => Cluster::connect(&sandbox.file("data").display().to_string()).unwrap(),
        false => Cluster::embedded(sandbox.file("data")).unwrap(),
    }
}

/// Creates a file of extents on two disks, and deletes most of its extents.
fn write_wasteful(cluster: &Cluster, path: &str) {
    let options = cluster.options().read(true).write(true).create(true).extents();
    let file = options.open(path).unwrap();
    for subfile in 0..2 {
        for extent in 0..EXTENTS {
            file.write_extent(b"head", &body(extent), placement(subfile, extent)).unwrap();
        }
        for extent in 0..EXTENTS - KEPT {
            assert!(file.delete_extent(placement(subfile, extent)).unwrap());
        }
    }
    file.close().unwrap();
}

fn check_kept(cluster: &Cluster, path: &str) {
    let file = cluster.open(path).unwrap();
    for subfile in 0..2 {
        for extent in EXTENTS - KEPT..EXTENTS {
            let found = file.read_extent(placement(subfile, extent)).unwrap().unwrap();
            assert_eq!((&found.header[..], &found.body[..]), (&b"head"[..], &body(extent)[..]));
        }
    }
}

#[test]
fn a_file_with_wasted_space_becomes_smaller() {
    for (sandbox, is_served) in Sandbox::both().into_iter().zip([false, true]) {
        let cluster = connect(&sandbox, is_served);
        write_wasteful(&cluster, "/tiles");
        write_wasteful(&cluster, "/more");
        drop(cluster);
        let on_disk = |path| sandbox.json(&["du", path])[0]["disk_bytes"].as_u64().unwrap();
        let before = on_disk("/tiles");
        assert!(before > 2 * EXTENTS * EXTENT_BYTES as u64, "{before}");

        let text = sandbox.ok(&["compact", "/tiles"]);
        let lines: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["before", "after", "freed", "disk", "path"], "{text}");
        assert_eq!(lines[1][6..], ["local/disk0", "/tiles"], "{text}");
        // What is left: three extents on each of two disks, with indices and journals.
        let after = on_disk("/tiles");
        assert!(after < 2 * (KEPT + 4) * EXTENT_BYTES as u64, "{before} to {after}");
        check_kept(&connect(&sandbox, is_served), "/tiles");

        let json = sandbox.json(&["compact", "/more", "/tiles"]);
        let [more, tiles] = &json.as_array().unwrap()[..] else { panic!("{json}") };
        let fields: Vec<_> = more.as_object().unwrap().keys().map(String::as_str).collect();
        let sums = ["after_bytes", "before_bytes"];
        let rest = ["disks", "freed_bytes", "moved_bytes", "path"];
        assert_eq!(fields, [&sums[..], &rest].concat());
        assert_eq!(more["path"], "/more");
        let bytes = |value: &Value, name: &str| value[name].as_u64().unwrap();
        assert!(bytes(more, "freed_bytes") > EXTENTS * EXTENT_BYTES as u64, "{more}");
        assert_eq!(
            bytes(more, "before_bytes") - bytes(more, "after_bytes"),
            bytes(more, "freed_bytes")
        );
        assert!(bytes(more, "moved_bytes") >= 2 * KEPT * EXTENT_BYTES as u64, "{more}");
        let disks = more["disks"].as_array().unwrap();
        let mut names: Vec<_> = disks.iter().map(|disk| disk["disk"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["local/disk0", "local/disk1", "local/disk2", "local/disk3"]);
        let freed: u64 = disks.iter().map(|disk| bytes(disk, "freed_bytes")).sum();
        assert_eq!(freed, bytes(more, "freed_bytes"));
        // Its extents lie together already, and two of its subfiles were never written.
        assert_eq!(tiles["moved_bytes"], 0, "{tiles}");
        check_kept(&connect(&sandbox, is_served), "/more");
    }
}

#[test]
fn what_cannot_be_compacted_is_named_and_the_rest_is_compacted() {
    for (sandbox, is_served) in Sandbox::both().into_iter().zip([false, true]) {
        let cluster = connect(&sandbox, is_served);
        write_wasteful(&cluster, "/tiles");
        cluster.create("/flat").unwrap().write_at(b"bytes", 0).unwrap();
        drop(cluster);
        sandbox.ok(&["mkdir", "/dir"]);
        let told = sandbox.refused(2, &["compact", "/flat"]);
        assert!(told.contains("/flat: this is a file of bytes"), "{told}");
        assert!(told.contains("nothing to compact"), "{told}");
        let told = sandbox.refused(3, &["compact", "/no"]);
        assert!(told.starts_with("pario: /no: there is no such file"), "{told}");
        let told = sandbox.refused(1, &["compact", "/dir"]);
        assert!(told.contains("/dir"), "{told}");
        let told = sandbox.refused(2, &["compact"]);
        assert!(told.contains("PATH"), "{told}");

        let output = sandbox.run(&["--json", "compact", "/no", "/flat", "/tiles"]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let errors: Vec<Value> =
            stderr(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let codes: Vec<_> = errors.iter().map(|error| error["exit_code"].clone()).collect();
        assert_eq!(codes, [json!(3), json!(2)]);
        let json: Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!((json.as_array().unwrap().len(), &json[0]["path"]), (1, &json!("/tiles")));
    }
}
