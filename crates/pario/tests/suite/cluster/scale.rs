//! Many clients and many files.

use std::time::Instant;

use pario::Cluster;

use super::lab::{Lab, SOON, is_heavy, pattern};

/// As many open descriptors as the system allows this process.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

#[test]
fn a_thousand_clients_are_connected_and_two_hundred_work() {
    const CLIENTS: usize = 1000;
    const ACTIVE: usize = 200;
    const LEN: usize = 128 << 10;
    raise_descriptor_limit();
    let Some(lab) = Lab::start() else { return };
    let before = lab.memory_bytes(0);
    let began = Instant::now();
    // Connecting in turn keeps the test about the number of clients, not about their haste.
    let clients: Vec<Cluster> = (0..CLIENTS).map(|_| lab.cluster()).collect();
    for client in &clients[..ACTIVE] {
        assert!(client.status(SOON).iter().all(|(_, status)| status.is_ok()), "all nodes run");
    }
    eprintln!("{CLIENTS} clients connected after {:?}", began.elapsed());
    let connected = lab.memory_bytes(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (number, cluster) in clients.iter().enumerate().take(ACTIVE) {
            scope.spawn(move || {
                let path = format!("/client{number}");
                let file = cluster.create(&path).unwrap_or_else(|error| panic!("{error}"));
                let bytes = pattern(number as u64, 0, LEN);
                file.write_at(&bytes, 0).unwrap();
                let mut back = vec![0; LEN];
                file.read_exact_at(&mut back, 0).unwrap();
                assert!(back == bytes, "client {number} reads something else");
                file.close().unwrap();
            });
        }
    });
    eprintln!("{ACTIVE} clients worked for {:?}", began.elapsed());
    let (_, status) = clients[CLIENTS - 1].status(SOON).swap_remove(0);
    let status = status.unwrap();
    assert!(status.clients.len() >= CLIENTS, "only {} are known", status.clients.len());
    assert_eq!(status.files, ACTIVE as u64);
    // Another client sees what each has written.
    for number in (0..ACTIVE).step_by(17) {
        let mut back = vec![0; LEN];
        let file = clients[CLIENTS / 2].open(&format!("/client{number}")).unwrap();
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back == pattern(number as u64, 0, LEN));
    }
    let after = lab.memory_bytes(0);
    eprintln!("memory: {before} alone, {connected} connected, {after} after work");
    assert!(connected < before + (512 << 20), "{connected} bytes for {CLIENTS} clients");
    assert!(after < before + (768 << 20), "{after} bytes after work");
}

#[test]
fn a_hundred_thousand_files_in_one_directory() {
    const THREADS: usize = 16;
    let files = if is_heavy() { 100_000 } else { 10_000 };
    let Some(lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    cluster.make_directory("/many").unwrap();
    let each = |work: &(dyn Fn(usize) + Sync)| {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || (thread..files).step_by(THREADS).for_each(work));
            }
        });
    };
    let began = Instant::now();
    each(&|number| {
        let options = cluster.options().write(true).create_new(true).disk_count(1);
        options.open(&format!("/many/{number:06}")).unwrap().close().unwrap();
    });
    let created = began.elapsed();
    let began = Instant::now();
    let mut count = 0;
    for (number, entry) in cluster.list_names("/many").unwrap().enumerate() {
        assert_eq!(entry.unwrap().name, format!("{number:06}"));
        count += 1;
    }
    assert_eq!(count, files);
    let listed = began.elapsed();
    let began = Instant::now();
    each(&|number| cluster.remove(&format!("/many/{number:06}")).unwrap());
    eprintln!(
        "{files} files: created {created:?}, listed {listed:?}, deleted {:?}",
        began.elapsed()
    );
    cluster.remove_directory("/many").unwrap();
    super::lab::until("nothing is left of them", || {
        let report = cluster.check(super::names::LOOK).unwrap();
        (report.findings.is_empty() && report.subfiles == 0).then_some(())
    });
}
