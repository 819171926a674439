//! Runs the C and Fortran programs, the sessions and the configurations of README.md and `docs`
//! unchanged: compiled and started by the commands of the documents, against an installed library.
//! `examples/src/fences.rs` defines the kinds of fences;
//! `examples/tests/suite/document_programs.rs` runs the Rust programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pario_server::config::Config;
use tempfile::TempDir;

#[path = "../../../../examples/src/fences.rs"]
pub mod fences;

use fences::Fence;

/// The kinds of fences; programs are tested by their language.
const LANGUAGES: [&str; 15] = [
    "",
    "c",
    "c,module",
    "console",
    "fortran",
    "json",
    "machines",
    "rust",
    "rust,excerpt",
    "rust,sketch",
    "sh",
    "sh install",
    "text",
    "toml",
    "yaml",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the project is there")
}

fn of_language(language: &str) -> Vec<Fence> {
    fences::all(&root()).into_iter().filter(|fence| fence.language == language).collect()
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// The installed library.
struct Library {
    prefix: TempDir,
}

impl Library {
    /// Installs the built library with the script that users call.
    fn install() -> Self {
        let prefix = directory();
        let program = std::env::current_exe().expect("the test is a file");
        let built = program.parent().expect("it is in a directory");
        let install = root().join("crates/capi/install");
        let output = Command::new(install).arg(prefix.path()).arg(built).output();
        let output = output.expect("the script can be started");
        assert!(output.status.success(), "{}", told(&output));
        Self { prefix }
    }
}

/// A user's directory, in which nothing runs.
struct Reader<'l> {
    dir: TempDir,
    /// Runtime directory, which holds the sockets.
    runtime: TempDir,
    library: &'l Library,
}

impl<'l> Reader<'l> {
    fn new(library: &'l Library) -> Self {
        Self { dir: directory(), runtime: directory(), library }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("the directory can be written");
    }

    /// Runs a script in the shell of a user who has installed `pario` and the library.
    fn run(&self, script: &str) -> Output {
        let binary = Path::new(env!("CARGO_BIN_EXE_pario")).parent().expect("it is in a directory");
        let path = std::env::var("PATH").expect("there is a path");
        let script = format!(
            "trap 'pario stop >/dev/null 2>&1 || true; wait' EXIT\nset -euo pipefail\n{script}"
        );
        let mut shell = Command::new("timeout");
        shell
            .args(["--kill-after=10", "300", "bash", "-c", &script])
            .current_dir(self.dir.path())
            .env("PATH", format!("{}:{path}", binary.display()))
            .env("PKG_CONFIG_PATH", self.library.prefix.path().join("lib/pkgconfig"))
            .env("HOME", self.dir.path())
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            // Open MPI refuses root, and more ranks than cores, unless it is asked.
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("PARIO_CLUSTER")
            .env_remove("PARIO_LOG")
            .stdin(Stdio::null());
        shell.output().expect("bash can be started")
    }

    #[track_caller]
    fn runs(&self, fence: &Fence, script: &str) -> String {
        let output = self.run(script);
        let told = told(&output);
        assert!(output.status.success(), "{}:\n{script}\n{told}", fence.place());
        told
    }
}

fn told(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Returns the commands of a session. After a command in the background, the next one waits until
/// the node answers.
fn commands(fence: &Fence) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in fence.text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push(command.to_owned()),
            None if goes_on => {
                let before = commands.last_mut().expect("a first line");
                *before = format!("{before}\n{line}");
            }
            None => continue,
        }
        goes_on = line.ends_with('\\');
        let command = line.split(" #").next().unwrap_or_default().trim_end();
        if command.ends_with('&') {
            commands.push("until pario status >/dev/null 2>&1; do kill -0 $!; done".to_owned());
        }
    }
    commands
}

/// Returns a line without its variable words: those with digits or slashes.
fn shape(line: &str) -> String {
    let is_fixed =
        |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit() || letter == '/');
    line.split_whitespace().filter(is_fixed).collect::<Vec<_>>().join(" ")
}

/// Returns the program that a session compiles: the next one of that language on the page.
fn next_program<'f>(all: &'f [Fence], session: &Fence, language: &str) -> Option<&'f Fence> {
    all.iter().find(|fence| {
        fence.document == session.document
            && fence.line > session.line
            && fence.language == language
    })
}

#[test]
fn every_fence_says_what_it_is() {
    for fence in fences::all(&root()) {
        let place = fence.place();
        let known = LANGUAGES.contains(&fence.language.as_str());
        assert!(known, "{place}: no test knows what to do with {:?}", fence.language);
        let is_program =
            ["#include <", "fn main(", "end program"].map(|sign| fence.text.contains(sign));
        let is_handbook = fence.document == "docs/how-to/administer.md";
        let is_shell = fence.language.starts_with("sh");
        assert!(!is_shell || is_handbook, "{place}: a session is `console`");
        let is_tested = !["", "text", "json", "yaml"].contains(&fence.language.as_str());
        assert!(
            is_tested || !is_program.contains(&true),
            "{place}: a program without its language"
        );
        let is_whole = fence.language != "rust" || fence.text.contains("fn main(");
        assert!(is_whole, "{place}: a program in Rust has a main, or is `rust,excerpt`");
    }
}

#[test]
fn every_session_runs_as_it_stands() {
    let all = fences::all(&root());
    let sessions = of_language("console");
    assert!(sessions.len() >= 4, "only {} sessions were found", sessions.len());
    let library = Library::install();
    for session in sessions {
        let reader = Reader::new(&library);
        // The reader's files: some results, and the program on the page.
        reader.write("results.h5", "results\n");
        for (name, language) in
            [("prog.c", "c"), ("prog.f90", "fortran"), ("threshold.c", "c,module")]
        {
            if session.text.contains(name) {
                let program = next_program(&all, &session, language);
                let program = program.unwrap_or_else(|| panic!("{}: {name}?", session.place()));
                reader.write(name, &program.text);
            }
        }
        let printed = reader.runs(&session, &commands(&session).join("\n"));
        let printed: Vec<String> = printed.lines().map(shape).collect();
        for line in session.text.lines().filter(|line| !line.starts_with("$ ")) {
            let is_shown = printed.contains(&shape(line));
            assert!(is_shown, "{}: {line:?} is not printed:\n{printed:#?}", session.place());
        }
    }
}

/// Compiles and runs every program of a language with the command of its document.
fn compile_and_run(language: &str, name: &str, strict: &str) {
    let programs = of_language(language);
    assert!(!programs.is_empty());
    let sessions = of_language("console");
    let library = Library::install();
    for program in programs {
        let reader = Reader::new(&library);
        reader.write(name, &program.text);
        let session = sessions
            .iter()
            .find(|session| session.document == program.document && session.text.contains(name));
        let session = session.unwrap_or_else(|| panic!("{}: how is it compiled?", program.place()));
        let compile = commands(session).into_iter().find(|command| command.contains(name));
        let compile = compile.expect("the session names the program");
        let script = format!("{strict}\n{compile}\npario run -n 4 ./prog");
        reader.runs(&program, &script);
    }
}

#[test]
fn every_c_program_runs_as_it_stands() {
    let strict = "cc -fsyntax-only -Wall -Wextra -Werror prog.c $(pkg-config --cflags pario)";
    compile_and_run("c", "prog.c", strict);
}

#[test]
fn every_fortran_program_runs_as_it_stands() {
    let strict = "gfortran -fsyntax-only -Wall -Werror prog.f90 $(pkg-config --cflags pario)";
    compile_and_run("fortran", "prog.f90", strict);
}

/// `examples/tests/suite/flow_document.rs` reads the placements, which have processes.
#[test]
fn every_configuration_is_one() {
    let files = of_language("toml").into_iter().filter(|file| !file.text.contains("[processes]"));
    let mut count = 0;
    for file in files {
        count += 1;
        let config = Config::parse(&file.text, &file.place()).unwrap_or_else(|e| panic!("{e}"));
        assert!(!config.nodes.is_empty(), "{}", file.place());
    }
    assert!(count > 0);
}

#[test]
fn shapes_and_commands_are_those_of_the_text() {
    let text = "$ pario serve &      # a node\npario: node \"local\"\n$ a \\\n  b\n".to_owned();
    let fence = Fence { document: String::new(), line: 1, language: "console".into(), text };
    let waits = "until pario status >/dev/null 2>&1; do kill -0 $!; done";
    assert_eq!(commands(&fence), ["pario serve &      # a node", waits, "a \\\n  b"]);
    assert_eq!(shape("process 12 of 4 in /tmp/x"), "process of in");
}
