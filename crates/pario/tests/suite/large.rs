//! Large sparse files: arithmetic up to 2^62, and where the file systems end.

use pario::{Error, File};

use crate::sites::{Transport, over_every_transport};

const TIB: u64 = 1 << 40;

/// Writes a mark and reads it back with what lies around it.
fn mark(file: &File, offset: u64) {
    let text = format!("byte {offset}");
    file.write_at(text.as_bytes(), offset).unwrap();
    let before = offset.saturating_sub(100_000);
    let skipped = usize::try_from(offset - before).unwrap();
    let mut bytes = vec![0xee; skipped + text.len() + 50];
    let count = file.read_at(&mut bytes, before).unwrap();
    assert!(count >= skipped + text.len());
    assert_eq!(&bytes[skipped..skipped + text.len()], text.as_bytes());
}

#[test]
fn a_file_of_a_tebibyte_has_its_bytes_where_they_belong() {
    over_every_transport(|site| {
        for unit in [7, 4096, 65_536, 1 << 30] {
            let path = format!("/{unit}");
            let options = site.cluster.options().read(true).write(true).create_new(true);
            let file = options.unit(unit).open(&path).unwrap();
            file.set_len(TIB).unwrap();
            assert_eq!(file.len().unwrap(), TIB);
            let offsets = [0, TIB / 3, TIB / 2 - 5, (1 << 32) - 3, 5 * unit - 1, TIB - 30];
            for offset in offsets {
                mark(&file, offset);
            }
            assert_eq!(file.len().unwrap(), TIB);
            let ranges = offsets.map(|offset| offset..offset + 5);
            let mut bytes = [0; 30];
            assert_eq!(file.read_list(&mut bytes, &ranges).unwrap(), 30);
            assert_eq!(&bytes, b"byte byte byte byte byte byte ");
            file.write_at(b"x", TIB).unwrap();
            assert_eq!(file.len().unwrap(), TIB + 1);
            let metadata = site.cluster.metadata(&path).unwrap();
            assert_eq!(metadata.len, TIB + 1);
            assert!(metadata.disk_bytes() < 2 << 20, "{} bytes", metadata.disk_bytes());
            file.set_len(10).unwrap();
            assert_eq!(file.len().unwrap(), 10);
        }
    });
}

/// The largest file of this file system, less than two blocks below its limit, by trying.
fn largest_subfile(dir: &std::path::Path) -> u64 {
    let file = std::fs::File::create(dir.join("probe")).unwrap();
    let (mut good, mut bad) = (0u64, 1 << 63);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match file.set_len(middle) {
            Ok(()) => good = middle,
            Err(_) => bad = middle,
        }
    }
    std::fs::remove_file(dir.join("probe")).unwrap();
    good
}

/// Four disks hold four times what one holds; beyond that the error says what is too large.
#[test]
fn the_file_systems_end_somewhere() {
    over_every_transport(|site| {
        let largest = largest_subfile(site.dir.path());
        let new = |path: &str, disks| {
            let options = site.cluster.options().read(true).write(true).create_new(true);
            options.disk_count(disks).open(path).unwrap()
        };
        // A unit less than the limit is room for what a subfile says of itself.
        let room = largest / 65_536 * 65_536 - 65_536;
        if room > 1 << 60 {
            return; // The file system takes every file; there is no end to be found.
        }
        let (one, four) = (new("/one", 1), new("/four", 4));
        one.set_len(room).unwrap();
        four.set_len(4 * room).unwrap();
        mark(&one, room - 30);
        mark(&four, 4 * room - 30);
        assert_eq!(four.len().unwrap(), 4 * room);
        let too_large = |result: Result<(), Error>| {
            let text = result.unwrap_err().to_string();
            assert!(
                text.contains("too large") && text.contains("disk"),
                "{:?}: {text}",
                site.transport
            );
        };
        too_large(one.write_at(b"x", largest));
        too_large(one.set_len(largest + 1));
        too_large(one.write_at(b"x", (1 << 62) - 1));
        too_large(one.set_len(1 << 62));
        too_large(four.write_at(b"x", (1 << 62) - 1));
        too_large(four.set_len(1 << 62));
        assert_eq!(one.len().unwrap(), room);
        assert_eq!(four.len().unwrap(), 4 * room);
        one.write_at(b"still usable", 0).unwrap();
        if matches!(site.transport, Transport::Embedded | Transport::ShortCut) {
            assert!(one.has_short_cut());
        }
    });
}
