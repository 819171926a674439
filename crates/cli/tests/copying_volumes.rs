//! Images and volumes are copied inside the cluster, out of it and in again, and exported; what fails
//! leaves nothing behind.

mod command;

use std::fs;

use command::{Site, stderr};

/// A grey volume and an image.
fn prepare(site: &Site) {
    let bytes = site.write("grey.raw", 40 * 30 * 20 * 2, 1);
    assert_eq!(bytes.len(), 48_000);
    let import = ["volume", "import", "grey.raw", "/grey", "--raw", "40x30x20", "--pixel", "i16"];
    site.ok(&[&import[..], &["--spacing", "0.5,0.5,2", "--compression", "zstd"]].concat());
    site.write("picture.raw", 300 * 200 * 3, 2);
    site.ok(&["image", "import", "picture.raw", "/picture", "--raw", "300x200x3:u8"]);
}

/// Everything that is known of a volume, without its name and its place.
fn known(site: &Site, volume: &str) -> serde_json::Value {
    let mut known = site.json(&["volume", "info", volume]);
    let fields = known.as_object_mut().unwrap();
    fields.remove("volume");
    fields.remove("path");
    known
}

fn voxels(site: &Site, volume: &str) -> Vec<u8> {
    site.ok(&["volume", "export", volume, "out.raw"]);
    site.read("out.raw")
}

#[test]
fn volumes_are_copied_inside_the_cluster() {
    for site in Site::both() {
        prepare(&site);
        let said = site.ok(&["cp", "--verify", "/grey", "/copy"]);
        assert!(said.starts_with("pario:/grey -> pario:/copy  "), "{said}");
        assert_eq!(known(&site, "/copy"), known(&site, "/grey"));
        assert!(voxels(&site, "/copy") == site.read("grey.raw"));
        // A copy replaces what is there, as any file does.
        site.ok(&["cp", "/grey", "/copy"]);
        assert_eq!(site.ok(&["ls", "/"]), "copy\ngrey\npicture\n");
        // On other disks.
        site.ok(&["cp", "--verify", "--disks", "3", "/grey", "/three"]);
        assert_eq!(site.json(&["stat", "/three"])[0]["subfiles"].as_array().unwrap().len(), 3);
        assert!(voxels(&site, "/three") == site.read("grey.raw"));
        assert!(site.refused(2, &["cp", "--disks", "0,1", "/grey", "/x"]).contains("a number"));
    }
}

#[test]
fn trees_with_images_go_out_and_in_again() {
    for site in Site::both() {
        prepare(&site);
        site.write("notes", 1000, 3);
        site.ok(&["mkdir", "/scans"]);
        site.ok(&["mv", "/grey", "/picture", "/scans/"]);
        site.ok(&["put", "notes", "/scans/"]);
        site.ok(&["get", "-r", "--verify", "/scans", "backup"]);
        assert!(
            fs::read(site.file("backup/grey")).unwrap().starts_with(b"\x89parioextents\r\n\x1a")
        );
        site.ok(&["put", "-r", "--verify", "backup", "/restored"]);
        assert_eq!(site.ok(&["ls", "/restored"]), "grey\nnotes\npicture\n");
        assert_eq!(known(&site, "/restored/grey"), known(&site, "/scans/grey"));
        assert!(known(&site, "/restored/grey")["values"]["percentile_99"].is_number());
        assert!(voxels(&site, "/restored/grey") == site.read("grey.raw"));
        site.ok(&["image", "export", "/restored/picture", "again.raw"]);
        assert!(site.read("again.raw") == site.read("picture.raw"));

        // Nothing has changed since.
        let json = site.json(&["put", "-r", "--update", "backup/.", "/restored"]);
        assert_eq!(json["files"], 0, "{json}");
        // As the bytes that it is.
        site.ok(&["put", "--plain", "backup/grey", "/bytes"]);
        assert_eq!(site.json(&["stat", "/bytes"])[0]["kind"], "file");
        // Through a pipe.
        let archive = site.run(&["get", "/scans/grey", "-"]).stdout;
        assert!(archive == site.read("backup/grey"));
        let output = site.run_with(&archive, &["put", "-", "/piped"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(known(&site, "/piped"), known(&site, "/scans/grey"));
    }
}

#[test]
fn damaged_archives_leave_nothing_behind() {
    let site = Site::empty();
    prepare(&site);
    site.ok(&["mkdir", "/d"]);
    site.ok(&["get", "/grey", "archive"]);
    let whole = site.read("archive");
    for (name, damage) in [("short", 0), ("flipped", 1), ("cut", 2)] {
        let mut bytes = whole.clone();
        match damage {
            0 => bytes.truncate(40),
            1 => bytes[whole.len() / 2] ^= 1,
            _ => bytes.truncate(whole.len() - 1),
        }
        fs::write(site.file(name), bytes).unwrap();
        let refused = site.refused(1, &["put", name, "/d/volume"]);
        assert!(refused.contains(name) && refused.contains("cannot be read"), "{refused}");
        assert_eq!(site.ok(&["ls", "/d"]), "", "{name}");
    }
}

#[test]
fn a_failed_import_leaves_nothing_behind() {
    for site in Site::both() {
        prepare(&site);
        site.ok(&["mkdir", "/d"]);
        // The last plane is missing, which is seen when the others are in the cluster.
        site.ok(&["volume", "export", "/grey", "grey.nrrd"]);
        let whole = site.read("grey.nrrd");
        fs::create_dir(site.file("planes")).unwrap();
        for number in 0..3 {
            let mut picture = b"P5 40 30 255\n".to_vec();
            picture.resize(picture.len() + 1200, number);
            if number == 2 {
                picture.truncate(600);
            }
            fs::write(site.file(&format!("planes/{number}.pgm")), picture).unwrap();
        }
        let refused = site.refused(1, &["volume", "import", "planes", "/d/v"]);
        assert!(refused.contains("2.pgm"), "{refused}");
        assert_eq!(site.ok(&["ls", "/d"]), "");
        site.ok(&["volume", "import", "grey.nrrd", "/d/v"]);
        assert!(
            site.refused(1, &["volume", "import", "grey.nrrd", "/d/v"]).contains("exists already")
        );
        assert!(site.read("grey.nrrd") == whole);
        assert_eq!(site.ok(&["ls", "/d"]), "v\n");
    }
}

#[test]
fn volumes_are_exported_for_other_programs() {
    for site in Site::both() {
        prepare(&site);
        for name in ["grey.nrrd", "grey.nii", "grey.npy"] {
            let said = site.ok(&["volume", "export", "/grey", name]);
            let told = format!("pario:/grey -> {name}  40 x 30 x 20 voxels of 1 x i16, 47 KiB\n");
            assert_eq!(said, told);
            let again = format!("/from-{}", name.replace('.', "-"));
            site.ok(&["volume", "import", name, &again]);
            assert!(voxels(&site, &again) == site.read("grey.raw"), "{name}");
            let spacing = known(&site, &again)["spacing"].clone();
            let expected = if name == "grey.npy" { [1.0; 3] } else { [0.5, 0.5, 2.0] };
            assert_eq!(spacing, serde_json::json!(expected), "{name}");
        }
        site.ok(&["volume", "import", "--phantom", "20x20x20", "/colour"]);
        for name in ["colour.nrrd", "colour.nii", "colour.npy"] {
            site.ok(&["volume", "export", "/colour", name]);
            let again = format!("/from-{}", name.replace('.', "-"));
            site.ok(&["volume", "import", name, &again]);
            assert!(voxels(&site, &again) == voxels(&site, "/colour"), "{name}");
        }
        let refused = site.refused(2, &["volume", "export", "/grey", "grey.txt"]);
        assert!(refused.contains("grey.txt") && refused.contains(".nrrd, .nii, .npy"), "{refused}");
        assert!(!site.file("grey.txt").exists());
        assert_eq!(site.refused(3, &["volume", "export", "/none", "x.nrrd"]).lines().count(), 1);
        let json = site.json(&["volume", "export", "/grey", "grey.raw.raw"]);
        assert_eq!(json["bytes"], 48_000);
    }
}
