//! Nodes that are cut off, hang, or are away: what needs them fails in time and says so, and
//! everything else goes on.

use std::time::{Duration, Instant};

use pario::{Cluster, File};

use super::lab::{ALLOWED, IN_TIME, Lab, NAMES, SOON, fails_in_time, pattern, until};

const LEN: usize = 256 << 10;

/// A file on the two disks of one node.
fn create_on(cluster: &Cluster, node: usize, path: &str) -> File {
    let name = NAMES[node];
    let disks = [format!("{name}/disk0"), format!("{name}/disk1")];
    let options = cluster.options().read(true).write(true).create_new(true).disks(disks);
    options.open(path).unwrap_or_else(|error| panic!("{error}"))
}

/// One file per node, with something in it.
fn files(cluster: &Cluster) -> Vec<File> {
    let file = |node: usize| {
        let file = create_on(cluster, node, &format!("/on-{}", NAMES[node]));
        file.write_at(&pattern(node as u64, 0, LEN), 0).unwrap();
        file
    };
    (0..NAMES.len()).map(file).collect()
}

/// Asserts that a file can be read and written without delay.
#[track_caller]
fn works(file: &File, seed: u64) {
    let began = Instant::now();
    let mut bytes = vec![0; LEN];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == pattern(seed, 0, LEN), "what was acknowledged is gone");
    file.write_at(&bytes, 0).unwrap();
    assert!(began.elapsed() < ALLOWED, "it was held up for {:?}", began.elapsed());
}

/// Asserts that a file can be read and written again soon, and has kept the acknowledged bytes.
fn works_again(file: &File, seed: u64) {
    let mut bytes = vec![0; LEN];
    until("the file works again", || file.read_exact_at(&mut bytes, 0).ok());
    assert!(bytes == pattern(seed, 0, LEN), "what was acknowledged is gone");
    until("the file works again", || file.write_at(&bytes, 0).ok());
}

#[test]
fn a_node_behind_a_cut_link_is_named_in_time_and_works_when_it_is_back() {
    let Some(lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let files = files(&cluster);
    for cut in 0..NAMES.len() {
        lab.set_cable(cut, false);
        let bytes = vec![7; LEN];
        // The first finds the link in use, the second finds none.
        let first = fails_in_time(NAMES[cut], || files[cut].write_at(&bytes, 1 << 20));
        let second = fails_in_time(NAMES[cut], || files[cut].read_at(&mut [0; 100], 0));
        // Many at once do not wait for each other.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| fails_in_time(NAMES[cut], || files[cut].read_at(&mut [0; 9], 0)));
            }
        });
        eprintln!("{} cut off: known after {first:?}, then {second:?}", NAMES[cut]);
        for other in (0..NAMES.len()).filter(|other| *other != cut) {
            works(&files[other], other as u64);
        }
        if cut == 0 {
            fails_in_time(NAMES[0], || cluster.create("/more"));
            fails_in_time(NAMES[0], || cluster.metadata("/on-beta"));
        } else {
            let disks = [format!("{}/disk0", NAMES[cut])];
            let options = cluster.options().write(true).create_new(true).disks(disks);
            let path = format!("/on-{}-while-it-is-cut", NAMES[cut]);
            let there = fails_in_time(NAMES[cut], || options.open(&path)?.write_at(b"x", 0));
            eprintln!("a creation on {}: known after {there:?}", NAMES[cut]);
            // A file whose disks are not chosen goes where it can.
            let mut number = 0;
            until("a file goes where it can", || {
                number += 1;
                let began = Instant::now();
                let path = format!("/anywhere-{cut}-{number}");
                let file = cluster.create(&path).unwrap();
                let written = file.write_at(&bytes, 0).and_then(|()| file.close());
                assert!(began.elapsed() < ALLOWED, "it was held up for {:?}", began.elapsed());
                written.ok()
            });
            let other = 3 - cut;
            let path = format!("/while-{}-is-cut", NAMES[cut]);
            let began = Instant::now();
            create_on(&cluster, other, &path).close().unwrap();
            assert!(began.elapsed() < ALLOWED, "it was held up for {:?}", began.elapsed());
        }
        lab.set_cable(cut, true);
        works_again(&files[cut], cut as u64);
        until("files are created again", || {
            cluster.options().write(true).create(true).open("/whole").ok()?.close().ok()
        });
        until("files are removed again", || cluster.remove("/whole").ok());
    }
}

#[test]
fn a_node_that_hangs_delays_no_other_request_and_is_reported() {
    let Some(lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let files = files(&cluster);
    for paused in (0..NAMES.len()).rev() {
        lab.pause(paused);
        // Both with connections of before and without any.
        let fresh = lab.try_connect((paused + 1) % NAMES.len()).unwrap();
        for asking in [&cluster, &fresh] {
            let began = Instant::now();
            let status = asking.status(IN_TIME);
            assert!(began.elapsed() < ALLOWED, "the status took {:?}", began.elapsed());
            assert_eq!(status.len(), NAMES.len());
            for (node, (name, status)) in status.iter().enumerate() {
                assert_eq!(name, NAMES[node]);
                match status {
                    Ok(status) => {
                        assert!(node != paused && status.name == *name, "it cannot answer");
                    }
                    Err(error) => {
                        assert!(node == paused, "{name} is not the one that hangs: {error}");
                        assert!(error.to_string().contains(name), "{name} is not named: {error}");
                    }
                }
            }
        }
        for other in (0..NAMES.len()).filter(|other| *other != paused) {
            works(&files[other], other as u64);
        }
        // A request sent to the paused node is done when the node goes on.
        let bytes = pattern(paused as u64, 0, LEN);
        let write = files[paused].start_write_at(bytes, 0).unwrap();
        assert!(!write.is_done());
        lab.resume(paused);
        write.wait().unwrap();
        works_again(&files[paused], paused as u64);
    }
}

#[test]
fn without_the_interface_node_open_files_go_on_and_names_fail_in_time() {
    let Some(mut lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let files = files(&cluster);
    lab.kill(0);
    for (other, file) in files.iter().enumerate().skip(1) {
        works(file, other as u64);
        file.set_len(2 * LEN as u64).unwrap();
        assert_eq!(file.len().unwrap(), 2 * LEN as u64);
    }
    let name = NAMES[0];
    let mut longest = Duration::ZERO;
    let mut fails = |took: Duration| longest = longest.max(took);
    fails(fails_in_time(name, || cluster.create("/new")));
    fails(fails_in_time(name, || cluster.open("/on-beta")));
    fails(fails_in_time(name, || cluster.metadata("/on-beta")));
    fails(fails_in_time(name, || cluster.list("/")?.next().unwrap()));
    fails(fails_in_time(name, || cluster.make_directory("/new")));
    fails(fails_in_time(name, || cluster.remove("/on-beta")));
    fails(fails_in_time(name, || cluster.rename("/on-beta", "/b")));
    fails(fails_in_time(name, || cluster.set_mode("/on-beta", 0o600)));
    fails(fails_in_time(name, || files[0].write_at(&[1; 9], 0)));
    eprintln!("names without {name}: known after at most {longest:?}");
    // A node that starts now cannot tell which grants were revoked: it refuses all of them, and
    // names the node that knows.
    lab.stop(1);
    lab.start_node(1);
    let error = until("the node answers again", || {
        let error = files[1].read_at(&mut [0; 9], 0).unwrap_err();
        error.to_string().contains("cannot tell which rights").then_some(error)
    });
    assert!(error.to_string().contains(name), "{error}");
    lab.start_node(0);
    works_again(&files[0], 0);
    works_again(&files[1], 1);
    until("names are back", || cluster.metadata("/on-beta").ok());
    assert_eq!(cluster.metadata("/on-gamma").unwrap().len, 2 * LEN as u64);
    cluster.rename("/on-beta", "/b").unwrap();
    for file in files {
        file.close().unwrap();
    }
}

#[test]
fn a_delete_while_a_node_is_down_is_finished_when_it_is_back() {
    let Some(mut lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let file = cluster.create("/gone").unwrap();
    file.write_at(&[1; 1 << 20], 0).unwrap();
    file.close().unwrap();
    lab.kill(2);
    let began = Instant::now();
    cluster.remove("/gone").unwrap();
    assert!(began.elapsed() < ALLOWED, "the delete took {:?}", began.elapsed());
    assert_eq!(cluster.open("/gone").err().unwrap().kind(), pario::ErrorKind::NotFound);
    // The others have removed their parts; this one could not.
    until("two nodes have removed it", || {
        let report = cluster.check(super::names::LOOK).unwrap();
        assert_eq!(report.silent_nodes, [NAMES[2]]);
        (report.subfiles == 0).then_some(())
    });
    lab.start_node(2);
    let began = Instant::now();
    until("nothing is left of it", || {
        let report = cluster.check(super::names::LOOK).unwrap();
        let is_clean = report.findings.is_empty() && report.silent_nodes.is_empty();
        (is_clean && report.subfiles == 0).then_some(())
    });
    eprintln!("the delete was finished {:?} after the node was back", began.elapsed());
    assert!(began.elapsed() < SOON);
}
