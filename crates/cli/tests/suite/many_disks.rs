//! A node with many disks: few threads drive them.

use std::fs;
use std::time::{Duration, Instant};

use crate::command::{Sandbox, ServerProcess};

const DISKS: usize = 60;

/// The limit of threads of an idle node, with two compute threads.
const THREADS: usize = 20;

/// Returns the names of the threads of a process.
fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    let mut names: Vec<_> =
        tasks.flatten().filter_map(name).map(|name| name.trim().to_owned()).collect();
    names.sort();
    names
}

/// Waits until the node is idle again. Threads for work that blocks end half a second after it.
fn idle_threads(pid: u32) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let names = threads(pid);
        if names.len() < THREADS {
            return names;
        }
        assert!(Instant::now() < deadline, "{} threads: {names:?}", names.len());
        std::thread::yield_now();
    }
}

#[test]
fn an_idle_node_with_sixty_disks_has_few_threads() {
    let mut sandbox = Sandbox::empty();
    let disks: Vec<_> = (0..DISKS)
        .map(|number| format!("{:?}", sandbox.file(&format!("disks/{number}"))))
        .collect();
    let text = format!(
        "[nodes.a]\ndata = {:?}\ncompute_threads = 2\nshort_cut = \"off\"\ndisks = [{}]\n",
        sandbox.file("data"),
        disks.join(", ")
    );
    fs::write(sandbox.file("cluster.toml"), text).unwrap();
    let serve = ["serve", "--config", "cluster.toml", "--node", "a"];
    let node = ServerProcess::start(sandbox.pario(&serve));
    let pid = node.pid();
    sandbox.serve_by(node);
    let fresh = idle_threads(pid);
    assert!(fresh.iter().any(|name| name == "Storage[0]"), "{fresh:?}");

    // Bytes and extents on all disks, and reads of bytes that are not in memory.
    let bytes = sandbox.write("x", 8_000_000, 1);
    sandbox.ok(&["cp", "x", "/x"]);
    sandbox.ok(&["volume", "import", "--phantom", "96x64x80", "/body"]);
    for number in 0..DISKS {
        drop_cached(&sandbox.file(&format!("disks/{number}")));
    }
    let found = sandbox.run(&["cat", "/x"]);
    assert!(found.stdout == bytes);
    let status = &sandbox.json(&["status"])["nodes"][0];
    let storage_threads = status["storage_threads"].as_u64().unwrap();
    let listed = status["threads"].as_array().unwrap();
    assert_eq!(listed.len() as u64, storage_threads);
    assert!(listed.iter().all(|thread| thread["served"].as_u64().unwrap() > 0), "{listed:?}");
    idle_threads(pid);
}

/// Drops the files of a directory from the page cache.
fn drop_cached(directory: &std::path::Path) {
    for file in fs::read_dir(directory).unwrap().flatten() {
        if let Ok(file) = fs::File::open(file.path()) {
            // Advice: a file system that ignores it reads from memory, which is right, too.
            let _ = file.sync_all();
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}
