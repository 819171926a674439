//! Copies images and volumes inside the cluster, out and back, and exports them; failures leave
//! nothing behind.

use std::fs;

use crate::command::{Sandbox, stderr};

/// A grey volume and an image.
fn prepare(sandbox: &Sandbox) {
    let bytes = sandbox.write("grey.raw", 40 * 30 * 20 * 2, 1);
    assert_eq!(bytes.len(), 48_000);
    let import = ["volume", "import", "grey.raw", "/grey", "--raw", "40x30x20", "--pixel", "i16"];
    sandbox.ok(&[&import[..], &["--spacing", "0.5,0.5,2", "--compression", "zstd"]].concat());
    sandbox.write("picture.raw", 300 * 200 * 3, 2);
    sandbox.ok(&["image", "import", "picture.raw", "/picture", "--raw", "300x200x3:u8"]);
}

/// Returns all properties of a volume except its path.
fn known(sandbox: &Sandbox, volume: &str) -> serde_json::Value {
    let mut known = sandbox.json(&["volume", "info", volume]);
    let fields = known.as_object_mut().unwrap();
    fields.remove("volume");
    fields.remove("path");
    known
}

fn voxels(sandbox: &Sandbox, volume: &str) -> Vec<u8> {
    sandbox.ok(&["volume", "export", volume, "out.raw"]);
    sandbox.read("out.raw")
}

#[test]
fn volumes_are_copied_inside_the_cluster() {
    for sandbox in Sandbox::both() {
        prepare(&sandbox);
        let said = sandbox.ok(&["cp", "--verify", "/grey", "/copy"]);
        assert!(said.starts_with("pario:/grey -> pario:/copy  "), "{said}");
        assert_eq!(known(&sandbox, "/copy"), known(&sandbox, "/grey"));
        assert!(voxels(&sandbox, "/copy") == sandbox.read("grey.raw"));
        // A copy replaces an existing file.
        sandbox.ok(&["cp", "/grey", "/copy"]);
        assert_eq!(sandbox.ok(&["ls", "/"]), "copy\ngrey\npicture\n");
        // On other disks.
        sandbox.ok(&["cp", "--verify", "--disks", "3", "/grey", "/three"]);
        assert_eq!(sandbox.json(&["stat", "/three"])[0]["subfiles"].as_array().unwrap().len(), 3);
        assert!(voxels(&sandbox, "/three") == sandbox.read("grey.raw"));
        assert!(sandbox.refused(2, &["cp", "--disks", "0,1", "/grey", "/x"]).contains("a number"));
    }
}

#[test]
fn trees_with_images_go_out_and_in_again() {
    for sandbox in Sandbox::both() {
        prepare(&sandbox);
        sandbox.write("notes", 1000, 3);
        sandbox.ok(&["mkdir", "/scans"]);
        sandbox.ok(&["mv", "/grey", "/picture", "/scans/"]);
        sandbox.ok(&["put", "notes", "/scans/"]);
        sandbox.ok(&["get", "-r", "--verify", "/scans", "backup"]);
        assert!(
            fs::read(sandbox.file("backup/grey")).unwrap().starts_with(b"\x89parioextents\r\n\x1a")
        );
        sandbox.ok(&["put", "-r", "--verify", "backup", "/restored"]);
        assert_eq!(sandbox.ok(&["ls", "/restored"]), "grey\nnotes\npicture\n");
        assert_eq!(known(&sandbox, "/restored/grey"), known(&sandbox, "/scans/grey"));
        assert!(known(&sandbox, "/restored/grey")["values"]["percentile_99"].is_number());
        assert!(voxels(&sandbox, "/restored/grey") == sandbox.read("grey.raw"));
        sandbox.ok(&["image", "export", "/restored/picture", "again.raw"]);
        assert!(sandbox.read("again.raw") == sandbox.read("picture.raw"));

        // Nothing has changed since.
        let json = sandbox.json(&["put", "-r", "--update", "backup/.", "/restored"]);
        assert_eq!(json["files"], 0, "{json}");
        // As plain bytes.
        sandbox.ok(&["put", "--plain", "backup/grey", "/bytes"]);
        assert_eq!(sandbox.json(&["stat", "/bytes"])[0]["kind"], "file");
        // Through a pipe.
        let archive = sandbox.run(&["get", "/scans/grey", "-"]).stdout;
        assert!(archive == sandbox.read("backup/grey"));
        let output = sandbox.run_with(&archive, &["put", "-", "/piped"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(known(&sandbox, "/piped"), known(&sandbox, "/scans/grey"));
    }
}

#[test]
fn damaged_archives_leave_nothing_behind() {
    let sandbox = Sandbox::empty();
    prepare(&sandbox);
    sandbox.ok(&["mkdir", "/d"]);
    sandbox.ok(&["get", "/grey", "archive"]);
    let whole = sandbox.read("archive");
    for (name, damage) in [("short", 0), ("flipped", 1), ("cut", 2)] {
        let mut bytes = whole.clone();
        match damage {
            0 => bytes.truncate(40),
            1 => bytes[whole.len() / 2] ^= 1,
            _ => bytes.truncate(whole.len() - 1),
        }
        fs::write(sandbox.file(name), bytes).unwrap();
        let refused = sandbox.refused(1, &["put", name, "/d/volume"]);
        assert!(refused.contains(name) && refused.contains("cannot be read"), "{refused}");
        assert_eq!(sandbox.ok(&["ls", "/d"]), "", "{name}");
    }
}

#[test]
fn a_failed_import_leaves_nothing_behind() {
    for sandbox in Sandbox::both() {
        prepare(&sandbox);
        sandbox.ok(&["mkdir", "/d"]);
        // The last plane is missing; this is detected after the others are in the cluster.
        sandbox.ok(&["volume", "export", "/grey", "grey.nrrd"]);
        let whole = sandbox.read("grey.nrrd");
        fs::create_dir(sandbox.file("planes")).unwrap();
        for number in 0..3 {
            let mut picture = b"P5 40 30 255\n".to_vec();
            picture.resize(picture.len() + 1200, number);
            if number == 2 {
                picture.truncate(600);
            }
            fs::write(sandbox.file(&format!("planes/{number}.pgm")), picture).unwrap();
        }
        let refused = sandbox.refused(1, &["volume", "import", "planes", "/d/v"]);
        assert!(refused.contains("2.pgm"), "{refused}");
        assert_eq!(sandbox.ok(&["ls", "/d"]), "");
        sandbox.ok(&["volume", "import", "grey.nrrd", "/d/v"]);
        assert!(
            sandbox
                .refused(1, &["volume", "import", "grey.nrrd", "/d/v"])
                .contains("exists already")
        );
        assert!(sandbox.read("grey.nrrd") == whole);
        assert_eq!(sandbox.ok(&["ls", "/d"]), "v\n");
    }
}

#[test]
fn volumes_are_exported_for_other_programs() {
    for sandbox in Sandbox::both() {
        prepare(&sandbox);
        for name in ["grey.nrrd", "grey.nii", "grey.npy"] {
            let said = sandbox.ok(&["volume", "export", "/grey", name]);
            let told = format!("pario:/grey -> {name}  40 x 30 x 20 voxels of 1 x i16, 47 KiB\n");
            assert_eq!(said, told);
            let again = format!("/from-{}", name.replace('.', "-"));
            sandbox.ok(&["volume", "import", name, &again]);
            assert!(voxels(&sandbox, &again) == sandbox.read("grey.raw"), "{name}");
            let spacing = known(&sandbox, &again)["spacing"].clone();
            let expected = if name == "grey.npy" { [1.0; 3] } else { [0.5, 0.5, 2.0] };
            assert_eq!(spacing, serde_json::json!(expected), "{name}");
        }
        sandbox.ok(&["volume", "import", "--phantom", "20x20x20", "/colour"]);
        for name in ["colour.nrrd", "colour.nii", "colour.npy"] {
            sandbox.ok(&["volume", "export", "/colour", name]);
            let again = format!("/from-{}", name.replace('.', "-"));
            sandbox.ok(&["volume", "import", name, &again]);
            assert!(voxels(&sandbox, &again) == voxels(&sandbox, "/colour"), "{name}");
        }
        let refused = sandbox.refused(2, &["volume", "export", "/grey", "grey.txt"]);
        assert!(refused.contains("grey.txt") && refused.contains(".nrrd, .nii, .npy"), "{refused}");
        assert!(!sandbox.file("grey.txt").exists());
        assert_eq!(sandbox.refused(3, &["volume", "export", "/none", "x.nrrd"]).lines().count(), 1);
        let json = sandbox.json(&["volume", "export", "/grey", "grey.raw.raw"]);
        assert_eq!(json["bytes"], 48_000);
    }
}
