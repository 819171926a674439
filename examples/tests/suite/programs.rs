//! Every example in one process and in several: its output is known and does not depend on the
//! placement.

use std::path::Path;
use std::process::Command;

/// Runs an example and returns its output.
fn run(executable: &str, arguments: &[&str]) -> String {
    let output = Command::new(executable).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{executable} {arguments:?}: {}\n{errors}", output.status);
    assert!(errors.is_empty(), "{executable} {arguments:?} prints errors:\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn placement(example: &str) -> String {
    format!("{}/{example}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Tests that an example prints a text with any placement.
macro_rules! prints {
    ($test:ident, $example:literal, $text:expr) => {
        #[test]
        fn $test() {
            let executable = env!(concat!("CARGO_BIN_EXE_", $example));
            assert_eq!(run(executable, &[]), $text, "in one process");
            let placement = placement($example);
            assert_eq!(run(executable, &["--placement", &placement]), $text, "in several");
            let help = run(executable, &["--help"]);
            assert!(help.contains("Example: "), "{help}");
        }
    };
}

prints!(
    pipeline,
    "pipeline",
    "telegram 1: KHOORZRUOG\ntelegram 2: VHQGPRQHB\ntelegram 3: JRRGEBH\n"
);

prints!(
    if_,
    "if",
    "parcel from Lausanne: worth 120, duty 0\n\
     parcel from Lima: worth 300, duty 30\n\
     parcel from Oslo: worth 70, duty 7\n"
);

prints!(
    if_else,
    "if-else",
    "1 x² + -3 x + 2 = 0: 2 and 1\n\
     1 x² + 2 x + 5 = 0: -1 ± 2 i\n\
     2 x² + 4 x + 2 = 0: -1 and -1\n"
);

prints!(
    while_,
    "while",
    "√2 = 1.414214 after 4 rounds\n\
     √49 = 7.000000 after 7 rounds\n\
     √1000000 = 1000.000000 after 14 rounds\n"
);

prints!(for_, "for", "1\n1 1\n1 2 1\n1 3 3 1\n1 4 6 4 1\n1 5 10 10 5 1\n");

prints!(parallel, "parallel", "6 numbers from 4 to 92\nmean 40.33, median 33.00\n");

prints!(parallel_while, "parallel-while", "  6 big\n  6 black\n  4 a\n  3 bear\n  3 bug\n");

prints!(
    indexed_parallel,
    "indexed-parallel",
    "Geneva        0   1501   6074   9608   9793
Lisbon     1501      0   6463   8243  11144
Nairobi    6074   6463      0  12818  11251
Quito      9608   8243  12818      0  14437
Tokyo      9793  11144  11251  14437      0
"
);

prints!(
    extend,
    "extend",
    "Candide has 129 pages: 3 days
Emma has 474 pages: 10 days
Ulysses has 730 pages: 15 days
error: Library.fetch, step Shelf::fetch on thread Library.Shelf: there is no Faust
error: program reading room has no operation \"Library.lend\"; it has Library.fetch, plan, catalogue
error: operation \"Library.fetch\" is a alloc::string::String → extend::library::Book, \
not a alloc::string::String → alloc::string::String
"
);

prints!(
    sieve,
    "sieve",
    "25 prime numbers up to 100:
     2     3     5     7    11    13    17    19    23    29
    31    37    41    43    47    53    59    61    67    71
    73    79    83    89    97
"
);

/// A job of one process; the tests of the command run several under launchers.
#[test]
fn group() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = pario_server::config::Config::alone(folder.path());
    config.nodes[0].socket = folder.path().join("socket");
    let node = pario_server::Node::start(&config, "local").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_shared-files"))
        .env("PARIO_CLUSTER", node.address())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        text,
        "ranks 0 to 0, six modes: every byte is where it belongs\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_longer_sieve() {
    let sieve = env!("CARGO_BIN_EXE_sieve");
    let here = run(sieve, &["3000"]);
    assert!(here.starts_with("430 prime numbers up to 3000:\n"), "{here}");
    assert_eq!(run(sieve, &["3000", "--placement", &placement("sieve")]), here);
}

#[test]
fn five_stages() {
    let arguments = ["--stages", "0.5,1.6,2,1,1.5", "--tokens", "20", "--window"];
    let placement = placement("five-stages");
    let windows = ["1", "4", "10", "2x5", "automatic"];
    let in_several = ["--placement", &placement];
    for places in [&[] as &[&str], &in_several] {
        let executable = env!("CARGO_BIN_EXE_five-stages");
        let text = run(executable, &[&arguments[..], &[&windows.join(",")], places].concat());
        let lines: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), windows.len(), "{text}");
        for (line, peak) in lines.iter().zip(["1", "4", "10", "10"]) {
            assert_eq!(line.last(), Some(&peak), "tokens under way in\n{text}");
        }
        for line in &lines {
            let measured_s: f64 = line[line.len() - 4].parse().unwrap();
            assert!(measured_s >= 0.040, "the slowest stage alone takes 40 ms:\n{text}");
        }
    }
}

/// Three tokens keep the slowest stage busy; waits in another process count.
#[test]
fn the_automatic_window_stays_small_in_several_processes() {
    let placement = placement("five-stages");
    let arguments =
        ["--stages", "1,3,8,2,3", "--tokens", "60", "--window", "automatic", "--placement"];
    let executable = env!("CARGO_BIN_EXE_five-stages");
    let text = run(executable, &[&arguments[..], &[&placement]].concat());
    let peak: u64 = text.split_whitespace().last().unwrap().parse().unwrap();
    assert!((3..=16).contains(&peak), "{text}");
}

#[test]
fn wrong_windows_are_refused() {
    for window in ["0", "0x3", "many"] {
        let output = Command::new(env!("CARGO_BIN_EXE_five-stages"))
            .args(["--window", window])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{window}");
    }
}

#[test]
fn mandelbrot() {
    let folder = tempfile::tempdir().unwrap();
    let draw = |name: &str, more: &[&str]| {
        let target = folder.path().join(name);
        let arguments = ["--width", "64", "--iterations", "100", "--folder"];
        let target_text = target.to_str().unwrap();
        let executable = env!("CARGO_BIN_EXE_mandelbrot");
        let text = run(executable, &[&arguments[..], &[target_text], more].concat());
        assert!(text.ends_with("both pictures are the same: 64 × 32 pixels\n"), "{text}");
        let pictures = ["static.png", "balanced.png"].map(|name| pixels(&target.join(name)));
        assert_eq!(pictures[0], pictures[1]);
        let [picture, _] = pictures;
        picture
    };
    let here = draw("here", &[]);
    assert_eq!(here.len(), 64 * 32);
    assert!(here.contains(&0), "some points are inside");
    assert_ne!(here[0], 0, "the corner is not");
    assert_eq!(draw("several", &["--placement", &placement("mandelbrot")]), here);
    assert_eq!(draw("alone", &["--workers", "1"]), here);
}

fn pixels(path: &Path) -> Vec<u8> {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    pixels
}

#[test]
fn a_trace_is_written_when_the_environment_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_sieve"))
        .args(["20", "--placement", &placement("sieve")])
        .env("PARIO_TRACE", folder.path().join("trace"))
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    for text in [read("trace.svg"), read("trace.json")] {
        assert!(text.contains("Slave[4]") && text.contains("Master"));
    }
}

#[test]
fn a_wrong_placement_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    std::fs::write(&path, "[processes]\nA = \"user\"\n\n[threads]\nMaster = \"B\"\n").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_sieve")).arg("--placement").arg(&path).output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("wrong.toml:5: thread \"Master\": there is no process \"B\""),
        "{errors}"
    );
}

/// A node with an additional operation, in a separate process that ends with the test.
#[test]
fn own_operation() {
    struct Serving(std::process::Child);
    impl Drop for Serving {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let executable = env!("CARGO_BIN_EXE_own-operation");
    // The test must not find a node that the user runs.
    let mut serving = Command::new(executable);
    serving.args(["serve", path]).env("XDG_RUNTIME_DIR", dir.path());
    let _serving = Serving(serving.spawn().unwrap());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while pario::Cluster::connect(path).is_err() {
        assert!(std::time::Instant::now() < deadline, "the node has not started");
        std::thread::yield_now();
    }
    assert_eq!(run(executable, &["count", path]), "disk: 3\nmoves: 2\nwhat: 3\n");
}

#[test]
fn records() {
    let dir = tempfile::tempdir().unwrap();
    let printed = run(env!("CARGO_BIN_EXE_records"), &[dir.path().to_str().unwrap()]);
    assert_eq!(printed, "10007 values over the disks of 1 processes, and every sum is right\n");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
