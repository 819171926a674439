//! A rank that is lost, and a node that is restarted, end the calls that wait for them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pario::{Cluster, Job, Mode};

use super::{byte_of, over_every_transport, together};
use crate::sites::NodeProcess;

/// When a rank is gone, the calls that wait for it fail at once and name it.
#[test]
fn a_rank_that_is_gone_is_named() {
    over_every_transport(|site| {
        for mode in [Mode::Sync, Mode::Global, Mode::Record, Mode::Log] {
            let path = format!("/{mode}");
            let gone_at = Mutex::new(None);
            together(site, 3, |files| {
                let file = files.create(&path, mode).unwrap();
                file.write(&[1; 100]).unwrap();
                if files.job().rank() == 1 {
                    *gone_at.lock().unwrap() = Some(Instant::now());
                    return; // its connection closes with it
                }
                let error = match mode {
                    Mode::Sync | Mode::Global => file.write(&[2; 100]).unwrap_err(),
                    _ => file.set_mode(Mode::Unix).unwrap_err(),
                };
                let since = gone_at.lock().unwrap().expect("only rank 1 can be the reason");
                assert!(since.elapsed() < Duration::from_secs(2), "{mode}: {:?}", since.elapsed());
                let text = error.to_string();
                let told =
                    text.contains("rank 1 is gone") || text.contains("rank 1 has closed the file");
                assert!(told, "{mode}: {text}");
                // A call that needs no other rank succeeds.
                if mode == Mode::Log {
                    file.write(&[3; 100]).unwrap();
                }
                assert!(
                    file.close().is_err(),
                    "{mode}: it is closed, and all know that one is not"
                );
            });
        }
        crate::sites::until("nothing is open any more", || site.status().open_files == 0);
    });
}

/// When the home node is restarted, the calls of all ranks fail once; then the ranks open the file
/// again.
#[test]
fn ranks_coordinate_again_after_a_restart_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", dir.path().join("s").display());
    let node = Mutex::new(Some(NodeProcess::start(dir.path(), "local", None)));
    let here = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (address, node, here, dir) = (&address, &node, &here, &dir);
            scope.spawn(move || {
                let cluster = Cluster::connect(address).unwrap();
                let files = Job::new("job", 2, rank).unwrap().files(&cluster);
                let file = files.create("/f", Mode::Sync).unwrap();
                file.write(&[byte_of(rank); 10]).unwrap();
                here.wait();
                if rank == 0 {
                    // The other one waits in a call, or will.
                    node.lock().unwrap().as_mut().unwrap().kill();
                } else {
                    let begun = Instant::now();
                    let error = file.write(&[0; 10]).unwrap_err();
                    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
                    let error = error.to_string();
                    assert!(error.starts_with("node local at unix:"), "{error}");
                    assert!(error.contains(" does not answer"), "{error}");
                }
                here.wait();
                if rank == 0 {
                    let again = NodeProcess::start(dir.path(), "local", None);
                    *node.lock().unwrap() = Some(again);
                }
                here.wait();
                crate::sites::until("the file is known to be open no more", || {
                    file.write(&[0; 10]).unwrap_err().to_string().contains("was restarted")
                });
                drop(file);
                let mut file = files.open("/f", Mode::Sync);
                if file.is_err() {
                    // The first open reports the restart; the second one starts anew.
                    file = files.open("/f", Mode::Sync);
                }
                let file = file.unwrap();
                let mut bytes = [0; 10];
                assert_eq!(file.read(&mut bytes).unwrap(), 10);
                assert_eq!(bytes, [byte_of(rank); 10], "what was acknowledged is there");
                file.close().unwrap();
            });
        }
    });
}
