//! The first byte creates a subfile, from every client and over every transport.

use std::sync::Barrier;

use pario::status::{CheckDepth, CheckRequest};
use pario::{Cluster, ExtentIndex, ExtentPlacement, SubfileIndex};

use crate::sites::{Site, Transport};

const UNIT: usize = 65_536;

fn assert_no_findings(cluster: &Cluster) {
    let what = CheckRequest { depth: CheckDepth::Everything, is_repair: false, is_rebuild: false };
    assert_eq!(cluster.check(what).unwrap().findings, []);
}

/// Over the nodes, a file has as many subfiles as were written to, and no more.
#[test]
fn subfiles_are_made_when_they_are_written_to() {
    for transport in [Transport::Socket, Transport::Tcp, Transport::TwoNodes] {
        let site = Site::new(transport);
        let disks = site.disks().len();
        let file = site.cluster.create("/f").unwrap();
        assert_eq!((file.len().unwrap(), site.subfiles()), (0, 0), "{transport:?}");
        assert_eq!(file.read_at(&mut [1; 10], 0).unwrap(), 0);
        file.set_len(0).unwrap();
        file.sync().unwrap();
        assert_eq!(site.subfiles(), 0, "{transport:?}: none of that needs one");
        let last = (disks - 1) * UNIT;
        file.write_at(b"last", last as u64).unwrap();
        assert_eq!(site.subfiles(), 1, "{transport:?}");
        let mut bytes = vec![1; last + 10];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), last + 4);
        assert!(bytes[..last].iter().all(|byte| *byte == 0) && &bytes[last..last + 4] == b"last");
        file.sync().unwrap();
        // A client that opens it now sees the same; the subfiles that do not exist are not lost.
        let again = site.another().open("/f").unwrap();
        assert_eq!(again.len().unwrap(), last as u64 + 4, "{transport:?}");
        assert_eq!(again.read_at(&mut bytes, 0).unwrap(), last + 4);
        assert_eq!(site.cluster.metadata("/f").unwrap().subfiles.len(), disks);
        assert_no_findings(&site.cluster);
        file.set_len(((disks + 1) * UNIT) as u64).unwrap();
        assert_eq!(site.subfiles(), disks, "{transport:?}");
        drop((file, again));
        site.cluster.remove("/f").unwrap();
        crate::sites::until("all subfiles are gone", || site.subfiles() == 0);
    }
}

#[test]
fn subfiles_of_extents_too() {
    for transport in [Transport::Socket, Transport::TwoNodes] {
        let site = Site::new(transport);
        let options = site.cluster.options().read(true).write(true).create_new(true);
        let file = options.extents().open("/e").unwrap();
        let place =
            |subfile| ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(7) };
        assert!(file.read_extent(place(1)).unwrap().is_none());
        assert!(!file.delete_extent(place(1)).unwrap());
        assert_eq!(file.list_extents().unwrap().count(), 0);
        assert_eq!(site.subfiles(), 0);
        file.write_extent(b"head", b"body", place(1)).unwrap();
        assert_eq!(site.subfiles(), 1);
        file.sync().unwrap();
        let again = site.another().open("/e").unwrap();
        assert_eq!(&again.read_extent(place(1)).unwrap().unwrap().body[..], b"body");
        assert!(again.read_extent(place(0)).unwrap().is_none());
        assert_eq!(again.list_extents().unwrap().count(), 1);
        assert_no_findings(&site.cluster);
    }
}

/// Many clients write the first bytes at the same moment, some with descriptors and some over the
/// node: all their bytes are there.
#[test]
fn first_writers_do_not_take_from_each_other() {
    let site = Site::new(Transport::Socket);
    let with_short_cut = pario::ClusterOptions { short_cut: Some(true), ..Default::default() };
    let near = Cluster::connect_with(&site.nodes[0].address(), with_short_cut).unwrap();
    const WRITERS: u8 = 8;
    for round in 0..30 {
        let path = format!("/{round}");
        site.cluster.create(&path).unwrap();
        let start = Barrier::new(WRITERS.into());
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let cluster = if writer % 2 == 0 { &site.cluster } else { &near };
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    let file = cluster.options().write(true).open(path).unwrap();
                    start.wait();
                    file.write_at(&[writer + 1; 1000], u64::from(writer) * 1000).unwrap();
                });
            }
        });
        let mut bytes = vec![0; usize::from(WRITERS) * 1000];
        site.cluster.open(&path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        for (writer, piece) in (0..WRITERS).zip(bytes.chunks(1000)) {
            assert!(piece.iter().all(|byte| *byte == writer + 1), "{path}: writer {writer}");
        }
    }
}

/// A file that was deleted while it is open can still be written to where it had no bytes, and
/// leaves nothing behind.
#[test]
fn deleted_files_get_their_first_bytes_as_well() {
    for transport in [Transport::ShortCut, Transport::Socket, Transport::TwoNodes] {
        let site = Site::new(transport);
        let file = site.cluster.create("/f").unwrap();
        file.write_at(b"first", 0).unwrap();
        site.cluster.remove("/f").unwrap();
        file.sync().unwrap();
        file.write_at(b"second", UNIT as u64).unwrap();
        file.sync().unwrap();
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, UNIT as u64).unwrap();
        assert_eq!(&bytes, b"second", "{transport:?}");
        drop(file);
        crate::sites::until("all subfiles are gone", || site.subfiles() == 0);
    }
}
