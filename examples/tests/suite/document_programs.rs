//! Runs every Rust program of the documents unchanged, with a running node and with the files that
//! the commands above it on the page create.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use pario::Cluster;
use pario_image::{Pixel, VolumeOptions};
use pario_server::Node;
use pario_server::config::Config;
use tempfile::TempDir;

use crate::fences;

/// The number of processes of a program that shares files.
const RANKS: u32 = 4;

/// A directory and a node for one program.
struct ProgramRun {
    dir: TempDir,
    socket: String,
    _node: Node,
}

impl ProgramRun {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::alone(&dir.path().join("data"));
        config.nodes[0].socket = dir.path().join("s");
        let socket = format!("unix:{}", config.nodes[0].socket.display());
        // The operations of `pario serve`.
        let node = Node::new().operations(pario_image::operations());
        let node = node.start_beside(&config, "local").unwrap();
        Self { dir, socket, _node: node }
    }

    fn start(&self, place: &str, rank: Option<u32>) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_documented"));
        command.arg(place).current_dir(self.dir.path()).env("PARIO_CLUSTER", &self.socket);
        if let Some(rank) = rank {
            command.env("PARIO_JOB", place).env("PARIO_SIZE", RANKS.to_string());
            command.env("PARIO_RANK", rank.to_string());
        }
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().unwrap()
    }
}

fn printed(place: &str, output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{place}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_rust_program_of_the_documents_runs_as_it_stands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let programs: Vec<_> =
        fences::all(root).into_iter().filter(|fence| fence.language == "rust").collect();
    assert!(programs.len() >= 9, "only {} programs were found", programs.len());
    let mut all = String::new();
    for program in programs {
        let (page, place) = (ProgramRun::new(), program.place());
        if program.text.contains("\"/body\"") {
            // `pario volume import --phantom`, with fewer voxels.
            let cluster = Cluster::connect(&page.socket).unwrap();
            let options = VolumeOptions::new([64, 32, 96], Pixel::RGB);
            options.create(&cluster, "/body").unwrap().generate(1).unwrap();
        }
        if program.text.contains("Job::from_env") {
            let ranks: Vec<_> = (0..RANKS).map(|rank| page.start(&place, Some(rank))).collect();
            for rank in ranks {
                all += &printed(&place, &rank.wait_with_output().unwrap());
            }
        } else {
            all += &printed(&place, &page.start(&place, None).wait_with_output().unwrap());
        }
        if program.text.contains("/runs/7/log") {
            let log = Cluster::connect(&page.socket).unwrap().open("/runs/7/log").unwrap();
            assert_eq!(log.len().unwrap(), 15 * u64::from(RANKS), "a line of each rank");
        }
    }
    for expected in [
        "1048576 bytes are safe, and 499999500000 is known\n",
        "512 x 512 pixels\n",
        "1024 bytes\n",
        "333833500\n",
        "the letter a occurs 4 times\n",
        "the word disk occurs 2 times\n",
    ] {
        assert!(all.contains(expected), "no program printed {expected:?}:\n{all}");
    }
}
