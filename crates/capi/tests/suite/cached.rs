//! Cached files and arrays (`donio.h`, `dolib.h`), from C and Fortran; plain files need no node.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::site::{Site, describe_output, flags, new_job, output, prefix, run_ok, source};

fn compiled(site: &Site) -> PathBuf {
    site.compile(&source("cached.c"))
}

/// Runs a program as the processes of a job, without a node. Returns what each printed.
fn without_node(site: &Site, program: &Path, size: u32, arguments: &[&str]) -> Vec<String> {
    without_node_on(site, program, (size, 1), arguments)
}

/// The same, on several machines.
fn without_node_on(
    site: &Site,
    program: &Path,
    (size, machines): (u32, u32),
    arguments: &[&str],
) -> Vec<String> {
    let (job, place) = (new_job(), site.machines(machines));
    let outputs = site.run_ranks_with(size, |rank| {
        let mut command = site.rank(program, &job, size, rank);
        command.args(arguments).env("PARIO_CLUSTER", "unix:/nowhere");
        place(&mut command, rank);
        command
    });
    let said = |(rank, output): (usize, &std::process::Output)| {
        assert!(output.status.success(), "rank {rank}: {}", describe_output(output));
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    outputs.iter().enumerate().map(said).collect()
}

#[test]
fn calls_do_what_the_manual_says_on_plain_files() {
    let site = Site::new();
    let program = compiled(&site);
    for size in [1, 4] {
        let path = site.dir.path().join(format!("file of {size}"));
        without_node(&site, &program, size, &["calls", path.to_str().unwrap()]);
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
    }
}

#[test]
fn calls_do_the_same_on_several_machines() {
    let site = Site::new();
    let program = compiled(&site);
    for (size, machines) in [(2, 2), (5, 3)] {
        let path = site.dir.path().join(format!("file of {size}"));
        let path = path.to_str().unwrap();
        without_node_on(&site, &program, (size, machines), &["calls", path]);
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
        without_node_on(&site, &program, (size, machines), &["arrays", ""]);
    }
}

#[test]
fn calls_do_what_the_manual_says_on_files_of_a_cluster() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 3, &["calls", "/pfs/new/directory/file"]);
    assert_eq!(site.content("/pfs/new/directory/file").len(), 0);
}

#[test]
fn files_are_replaced_and_kept_in_part() {
    let site = Site::new();
    let program = compiled(&site);
    for size in [1, 3] {
        let path = site.dir.path().join(format!("file of {size}"));
        without_node(&site, &program, size, &["switches", path.to_str().unwrap()]);
        let content = std::fs::read(path).unwrap();
        let right = (0..100_u8).flat_map(|number| [number; 100_000]);
        assert!(content.into_iter().eq(right));
    }
}

#[test]
fn arrays_are_shared_by_all_ranks() {
    let site = Site::new();
    let program = compiled(&site);
    for size in [1, 3] {
        without_node(&site, &program, size, &["arrays", ""]);
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let site = Site::new();
    without_node(&site, &compiled(&site), 1, &["arguments", "wild"]);
}

#[test]
fn a_rank_that_ends_without_closing_is_named() {
    let site = Site::new();
    let said = without_node(&site, &compiled(&site), 3, &["leaves", "left"]);
    for rank in [0, 2] {
        assert!(said[rank].contains("rank 1 has ended without leaving"), "{}", said[rank]);
    }
    assert_eq!(std::fs::read(site.dir.path().join("left")).unwrap(), b"flushed");
}

/// Compiles Fortran programs as users do.
fn fortran(site: &Site, sources: &[PathBuf], name: &str) -> PathBuf {
    let program = site.dir.path().join(name);
    let mut compiler = Command::new("gfortran");
    compiler.args(["-Wall", "-Wextra", "-O1", "-g", "-J"]).arg(site.dir.path());
    compiler.args(sources).arg("-o").arg(&program).args(flags(&["--cflags", "--libs"]));
    run_ok(&mut compiler);
    program
}

fn elements(site: &Site) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fortran");
    fortran(site, &[root.join("elements.f90")], "elements")
}

/// The file that the program must write, with any number of processes.
fn right(nodes: [i32; 3]) -> Vec<u8> {
    let [nx, ny, nz] = nodes;
    let mut bytes = Vec::new();
    for y in 0..ny - 1 {
        for x in 0..nx - 1 {
            for z in 0..nz - 1 {
                for up in 0..2 {
                    for (east, north) in [(0, 0), (1, 0), (1, 1), (0, 1)] {
                        let node = 1 + z + up + nz * (x + east + nx * (y + north));
                        bytes.extend(node.to_ne_bytes());
                    }
                }
            }
        }
    }
    bytes
}

#[test]
fn a_fortran_program_writes_the_same_file_by_any_number_of_processes() {
    let site = Site::new();
    let program = elements(&site);
    for size in [1, 4, 7] {
        let said = without_node(&site, &program, size, &["a grid", "9", "8", "7"]).concat();
        assert_eq!(said, format!("336 elements written and read by {size} processes\n"));
        assert!(std::fs::read(site.dir.path().join("a grid")).unwrap() == right([9, 8, 7]));
    }
    let said = site.run_ranks_ok(&program, 3, &["/pfs/grid"]);
    assert_eq!(said, "48000 elements written and read by 3 processes\n");
    assert!(site.content("/pfs/grid") == right([41, 41, 31]));
    // The program prints the error.
    let mut command = site.rank(&program, &new_job(), 1, 0);
    let failed = output(command.args(["/nowhere/x"]));
    assert!(!failed.status.success());
    assert!(
        describe_output(&failed).contains("elements: /nowhere/x: the file cannot be opened"),
        "{}",
        describe_output(&failed)
    );
}

fn under(launcher: &[&str]) {
    let site = Site::new();
    let program = elements(&site);
    let mut command = site.command(launcher[0]);
    command.args(&launcher[1..]).args(["-n", "4"]).arg(&program).args(["grid", "30", "20", "10"]);
    // Only the launcher may say rank and size; no node is needed.
    for variable in ["PARIO_RANK", "PARIO_SIZE", "PARIO_JOB"] {
        command.env_remove(variable);
    }
    command.env("PARIO_CLUSTER", "unix:/nowhere");
    let printed = String::from_utf8(run_ok(&mut command).stdout).unwrap();
    assert!(printed.contains("4959 elements written and read by 4 processes"), "{printed}");
    assert!(std::fs::read(site.dir.path().join("grid")).unwrap() == right([30, 20, 10]));
}

#[test]
fn open_mpi_starts_it() {
    under(&["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]);
}

#[test]
fn mpich_starts_it() {
    under(&["mpirun.mpich"]);
}

#[test]
fn the_module_has_what_the_header_has() {
    let site = Site::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fortran/module.f90");
    let program = fortran(&site, &[prefix().join("include/donio.f90"), own], "module");
    without_node(&site, &program, 3, &["large"]);
    let known = std::fs::metadata(site.dir.path().join("large")).unwrap();
    assert_eq!(known.len(), 3_000_000_000 + 3 * 8000);
}
