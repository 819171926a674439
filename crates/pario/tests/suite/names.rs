//! Files and directories by name, over every transport.

use std::collections::{BTreeSet, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use pario::{Cluster, DiskId, ErrorKind, FileKind, Layout};

use crate::sites::{Over, Site, over_every_transport, until};

fn names(cluster: &Cluster, path: &str) -> Vec<String> {
    cluster.list_names(path).unwrap().map(|entry| entry.unwrap().name).collect()
}

fn text(cluster: &Cluster, path: &str) -> String {
    let mut bytes = vec![0; 100];
    let count = cluster.open(path).unwrap().read_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

fn write(cluster: &Cluster, path: &str, text: &str) {
    let file = cluster.create(path).unwrap();
    file.write_at(text.as_bytes(), 0).unwrap();
    file.close().unwrap();
}

#[test]
fn files_are_created_opened_emptied_and_deleted() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let new = || cluster.options().write(true).create_new(true);
        new().open("/a").unwrap().write_at(b"first", 0).unwrap();
        assert_eq!(new().open("/a").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(text(cluster, "/a"), "first");
        let same = cluster.options().write(true).create(true).open("/a").unwrap();
        same.write_at(b"F", 0).unwrap();
        assert_eq!(text(cluster, "/a"), "First");
        let empty = cluster.options().write(true).truncate(true).open("/a").unwrap();
        assert!(empty.is_empty().unwrap());
        assert_eq!(text(cluster, "/a"), "");
        cluster.remove("/a").unwrap();
        assert_eq!(cluster.remove("/a").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(cluster.open("/a").unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn directories_are_made_and_removed() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        cluster.make_directories("/a/b/c").unwrap();
        write(cluster, "/a/b/f", "x");
        assert!(cluster.metadata("/a/b").unwrap().is_directory());
        assert_eq!(names(cluster, "/a/b"), ["c", "f"]);
        let kind = |result: Result<(), pario::Error>| result.unwrap_err().kind();
        assert_eq!(kind(cluster.remove_directory("/a/b")), ErrorKind::DirectoryNotEmpty);
        assert_eq!(kind(cluster.make_directory("/a/b")), ErrorKind::AlreadyExists);
        assert_eq!(kind(cluster.make_directory("/x/y")), ErrorKind::NotFound);
        assert_eq!(kind(cluster.make_directory("/a/b/f/g")), ErrorKind::NotADirectory);
        assert_eq!(kind(cluster.make_directories("/a/b/f")), ErrorKind::NotADirectory);
        assert_eq!(kind(cluster.remove("/a/b")), ErrorKind::IsADirectory);
        assert_eq!(kind(cluster.remove_directory("/a/b/f")), ErrorKind::NotADirectory);
        cluster.remove("/a/b/f").unwrap();
        cluster.remove_directory("/a/b/c").unwrap();
        cluster.remove_directory("/a/b").unwrap();
        cluster.remove_directory("/a").unwrap();
        assert!(names(cluster, "/").is_empty());
    });
}

#[test]
fn files_and_directories_are_renamed() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        cluster.make_directories("/from/below").unwrap();
        cluster.make_directory("/to").unwrap();
        write(cluster, "/from/a", "a");
        let subfiles = site.subfiles();
        write(cluster, "/to/b", "b");
        let replaced = cluster.open("/to/b").unwrap();
        cluster.rename("/from/a", "/to/b").unwrap();
        assert_eq!(text(cluster, "/to/b"), "a");
        let mut byte = [0];
        replaced.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(&byte, b"b", "a client that has it open still reads the replaced file");
        drop(replaced);
        site.wait_for_deletions();
        assert_eq!(site.subfiles(), subfiles);
        let kind = |from, to| cluster.rename(from, to).unwrap_err().kind();
        assert_eq!(kind("/from", "/from/below/x"), ErrorKind::Invalid);
        assert_eq!(kind("/from", "/to"), ErrorKind::DirectoryNotEmpty);
        assert_eq!(kind("/to/b", "/from"), ErrorKind::IsADirectory);
        assert_eq!(kind("/from", "/to/b"), ErrorKind::NotADirectory);
        assert_eq!(kind("/none", "/x"), ErrorKind::NotFound);
        assert_eq!(kind("/", "/x"), ErrorKind::Invalid);
        cluster.rename("/to", "/from/below").unwrap();
        assert_eq!(text(cluster, "/from/below/b"), "a");
    });
}

/// The bytes stay until the last user has closed the file, and then go from the disks.
#[test]
fn a_file_that_is_deleted_while_open_can_be_used() {
    over_every_transport(|site| {
        let file = site.cluster.create("/gone").unwrap();
        file.write_at(&[7; 300_000], 0).unwrap();
        let theirs = site.another().open("/gone").unwrap();
        site.cluster.remove("/gone").unwrap();
        assert_eq!(site.cluster.open("/gone").unwrap_err().kind(), ErrorKind::NotFound);
        file.write_at(&[8; 1000], 299_500).unwrap();
        assert_eq!(file.len().unwrap(), 300_500);
        let mut byte = [0];
        theirs.read_exact_at(&mut byte, 300_499).unwrap();
        assert_eq!(byte, [8]);
        file.sync().unwrap();
        drop(file);
        theirs.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [7]);
        assert_eq!((site.status().unfinished_deletions, site.subfiles()), (1, 4));
        drop(theirs);
        site.wait_for_deletions();
        assert_eq!(site.subfiles(), 0);
        assert_eq!(site.status().open_files, 0);
    });
}

/// A client that has opened a file can read it, however soon another one deletes it.
#[test]
fn opening_and_deleting_at_once() {
    over_every_transport(|site| {
        let (other, is_over) = (site.another(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _over = Over(&is_over);
                for _ in 0..60 {
                    let file = site.cluster.create("/f").unwrap();
                    file.write_at(b"x", 70_000).unwrap();
                    drop(file);
                    site.cluster.remove("/f").unwrap();
                }
            });
            while !is_over.load(Ordering::Acquire) {
                match other.options().read(true).write(true).open("/f") {
                    Ok(file) => {
                        file.read_at(&mut [0; 1000], 0).unwrap();
                        file.write_at(b"y", 3).unwrap();
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                }
            }
        });
        site.wait_for_deletions();
        assert_eq!(site.subfiles(), 0);
    });
}

/// Creators and deleters of one name: a file that was created can be used by its creator.
#[test]
fn a_created_file_is_usable_though_others_delete_it() {
    over_every_transport(|site| {
        let other = site.another();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    if let Err(error) = other.remove("/f") {
                        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    }
                }
            });
            let _over = Over(&is_over);
            for number in 0..60u8 {
                let options = site.cluster.options().read(true).write(true);
                let file = options.create_new(true).open("/f").unwrap();
                file.write_at(&[number; 10], 100_000).unwrap();
                let mut bytes = [0; 10];
                file.read_exact_at(&mut bytes, 100_000).unwrap();
                assert_eq!(bytes, [number; 10]);
                drop(file);
                until("it is deleted", || site.cluster.metadata("/f").is_err());
            }
        });
        site.wait_for_deletions();
        assert_eq!(site.subfiles(), 0);
    });
}

#[test]
fn a_large_directory_is_listed_while_it_changes() {
    const STAY: usize = 2500;
    let stays = |number: usize| format!("stays-{number:05}");
    over_every_transport(|site| {
        let cluster = &site.cluster;
        cluster.make_directory("/d").unwrap();
        std::thread::scope(|scope| {
            for part in 0..16 {
                scope.spawn(move || {
                    for number in (part..STAY).step_by(16) {
                        let path = format!("/d/{}", stays(number));
                        let options = cluster.options().write(true).create_new(true).disk_count(1);
                        options.open(&path).unwrap();
                    }
                });
            }
        });
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    if is_over.load(Ordering::Acquire) {
                        break;
                    }
                    // Names before, between and after those that stay.
                    let path = format!("/d/{}-{number}", ["a", "stays-01234", "z"][number % 3]);
                    cluster.options().write(true).create_new(true).open(&path).unwrap();
                    cluster.remove(&path).unwrap();
                }
            });
            let _over = Over(&is_over);
            for round in 0..3 {
                let mut listed = Vec::new();
                if round == 0 {
                    for entry in cluster.list("/d").unwrap() {
                        let entry = entry.unwrap();
                        // One that is removed after it was listed has no size.
                        let may_be_gone = entry.measured.is_none()
                            && (!entry.name.starts_with("stays-") || entry.name.len() > 11);
                        assert!(may_be_gone || entry.measured.unwrap().len == 0, "{}", entry.name);
                        listed.push(entry.name);
                    }
                } else {
                    listed = names(cluster, "/d");
                }
                assert!(listed.is_sorted());
                let different: HashSet<_> = listed.iter().collect();
                assert_eq!(different.len(), listed.len());
                let stayed = (0..STAY).filter(|number| different.contains(&stays(*number)));
                assert_eq!(stayed.count(), STAY);
            }
        });
        assert_eq!(names(cluster, "/d").len(), STAY);
    });
}

/// Of the clients that create with `create_new`, one succeeds; those without it all get the same
/// file.
#[test]
fn many_create_one_name() {
    over_every_transport(|site| {
        for round in 0..15 {
            let path = format!("/one-{round}");
            let start = Barrier::new(8);
            let others: Vec<Cluster> = (0..2).map(|_| site.another()).collect();
            let create = |is_new: bool, client: &Cluster| {
                start.wait();
                let options = client.options().read(true).write(true).create(true);
                options.create_new(is_new).open(&path).map(|file| file.record().id)
            };
            let results: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|number| {
                        let (create, others) = (&create, &others);
                        scope.spawn(move || create(round % 2 == 0, &others[number % 2]))
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
            if round % 2 == 0 {
                assert_eq!(won.len(), 1);
                for error in results.iter().filter_map(|result| result.as_ref().err()) {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                }
            } else {
                assert_eq!(won.len(), 8);
                assert!(won.iter().all(|id| **id == *won[0]));
            }
        }
        site.wait_for_deletions();
        assert_eq!((site.status().files, site.subfiles()), (15, 0));
    });
}

fn disks_of(site: &Site, path: &str) -> Vec<String> {
    let record = site.cluster.metadata(path).unwrap().record;
    let map = site.cluster.map();
    record.layout.unwrap().disks().as_slice().iter().map(|disk| map.disk_name(*disk)).collect()
}

#[test]
fn files_are_spread_over_disks_as_wished() {
    over_every_transport(|site| {
        let new = || site.cluster.options().read(true).write(true).create_new(true);
        let mut first: BTreeSet<String> = BTreeSet::new();
        for number in 0..4 {
            let path = format!("/{number}");
            new().open(&path).unwrap();
            let disks = disks_of(site, &path);
            assert_eq!(disks.iter().collect::<BTreeSet<_>>().len(), 4);
            first.insert(disks[0].clone());
        }
        assert_eq!(first.len(), 4, "the first disk is another one each time");
        let wished = site.disks()[2].clone();
        if site.transport != crate::sites::Transport::TwoNodes {
            assert_eq!(wished, "local/disk2");
        }
        let file = new().disks([wished.as_str()]).open("/chosen").unwrap();
        file.write_at(&[1; 500_000], 0).unwrap();
        assert_eq!(disks_of(site, "/chosen"), std::slice::from_ref(&wished));
        let id = site.cluster.map().nodes.iter().flat_map(|node| &node.disks).nth(2).unwrap().id;
        new().disks([id.0.to_string()]).open("/by-number").unwrap();
        assert_eq!(disks_of(site, "/by-number"), [wished]);
        let directory = &site.disk_directories()[2];
        let name = format!("{}", file.record().id);
        let there = std::fs::read_dir(directory)
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().contains(&name));
        assert!(there, "the bytes are in {}", directory.display());
        assert_eq!(file.record().kind, FileKind::Flat);
    });
}

#[test]
fn an_empty_file_that_is_open_once_gets_another_striping() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let nodes = cluster.map().nodes;
        let disks: Vec<DiskId> =
            nodes.iter().flat_map(|node| &node.disks).map(|disk| disk.id).collect();
        let wanted = [disks[1], disks[0]];
        let options = || cluster.options().read(true).write(true);
        let file = options().create_new(true).mode(0o600).open("/a").unwrap();
        let refused =
            |file: &pario::File| file.set_striping(4096, &wanted).unwrap_err().to_string();
        let other = cluster.open("/a").unwrap();
        assert!(refused(&file).contains("while no other process has it open"));
        assert!(refused(&other).contains("not opened for writing"));
        other.close().unwrap();
        assert!(file.set_striping(0, &wanted).is_err());
        assert!(file.set_striping(4096, &[]).is_err());
        assert!(file.set_striping(4096, &[disks[0], disks[0]]).is_err());
        assert!(file.set_striping(4096, &[DiskId(77_777)]).is_err());

        file.set_striping(4096, &wanted).unwrap();
        // The name is that of the new file at once; the old one has none.
        let again = options().open("/a").unwrap();
        assert!(again.record().id != file.record().id);
        file.write_at(b"unseen", 0).unwrap();
        again.write_at(b"seen", 0).unwrap();
        file.close().unwrap();
        let known = cluster.metadata("/a").unwrap();
        assert_eq!((known.record.mode, known.len, known.subfiles.len()), (0o600, 4, 2));
        let Some(Layout::Striped(striped)) = &known.record.layout else { panic!("{known:?}") };
        assert_eq!((striped.unit_bytes(), striped.disks().as_slice()), (4096, &wanted[..]));
        assert_eq!((text(cluster, "/a").as_str(), names(cluster, "/").len()), ("seen", 1));
        assert!(refused(&again).contains("it has 4 bytes"));

        // A file without a name, and one of extents, have no striping to set.
        again.set_len(0).unwrap();
        cluster.remove("/a").unwrap();
        let gone = again.set_striping(4096, &disks[..1]).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        again.close().unwrap();
        let extents = options().create_new(true).extents().open("/e").unwrap();
        assert!(extents.set_striping(4096, &wanted).is_err());
    });
}

#[test]
fn a_listing_that_cannot_go_on_has_given_every_name_before() {
    let mut site = Site::new(crate::sites::Transport::Socket);
    // One more than a page.
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cluster = &site.cluster;
            scope.spawn(move || {
                for number in (thread..1001).step_by(8) {
                    cluster.make_directory(&format!("/{number:04}")).unwrap();
                }
            });
        }
    });
    let listing = site.cluster.list_names("/").unwrap();
    site.nodes.clear();
    let mut listed: Vec<_> = listing.collect();
    let last = listed.pop().unwrap();
    assert_eq!(last.unwrap_err().kind(), ErrorKind::NodeUnreachable);
    let listed: Vec<String> = listed.into_iter().map(|entry| entry.unwrap().name).collect();
    assert_eq!(listed, (0..1000).map(|number| format!("{number:04}")).collect::<Vec<_>>());
}

#[test]
fn directories_above_a_new_file_are_made_on_request() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let error = cluster.create("/runs/7/state").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let said = error.to_string();
        assert!(said.starts_with("/runs/7/state: there is no directory /runs:"), "{said}");
        assert!(said.contains("create_parents(true)"), "{said}");

        cluster.create_all("/runs/7/state").unwrap().write_at(b"one", 0).unwrap();
        assert_eq!(text(cluster, "/runs/7/state"), "one");
        // They are there already; the file is emptied.
        assert!(cluster.create_all("/runs/7/state").unwrap().is_empty().unwrap());
        let error = cluster.create("/runs/8/state").unwrap_err().to_string();
        assert!(error.starts_with("/runs/8/state: there is no directory /runs/8:"), "{error}");

        // Nothing is made for a file that is only opened, and nothing below a file.
        let open = cluster.options().read(true).create_parents(true).open("/other/x");
        assert_eq!(open.unwrap_err().kind(), ErrorKind::NotFound);
        let below = cluster.create_all("/runs/7/state/x").unwrap_err();
        assert_eq!(below.kind(), ErrorKind::NotADirectory);
        assert_eq!(names(cluster, "/"), ["runs"]);
    });
}
