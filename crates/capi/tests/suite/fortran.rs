//! Fortran: the calls of NX on units, and the modules of DOLIB, GIO and ARMCI.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::site::{Site, describe_output, flags, new_job, prefix, run_ok};

/// Returns the path of a Fortran test program.
fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fortran").join(name)
}

/// Compiles modules, by their names, and a program, with these flags of pkg-config.
fn compile(site: &Site, modules: &[&str], name: &str, package: &str) -> PathBuf {
    let compiled = site.dir.path().join(name).with_extension("");
    let mut compiler = Command::new("gfortran");
    compiler.args(["-Wall", "-O1", "-g", "-J"]).arg(site.dir.path());
    compiler.args(modules.iter().map(|name| prefix().join("include").join(name)));
    compiler.arg(program(name)).arg("-o").arg(&compiled);
    run_ok(compiler.args(flags(&["--cflags", "--libs", package])));
    compiled
}

/// Runs a program by processes on several machines; all must succeed.
fn run(site: &Site, program: &Path, size: u32, machines: u32, argument: &str) {
    let (job, place) = (new_job(), site.machines(machines));
    let outputs = site.run_ranks_with(size, |rank| {
        let mut command = site.rank(program, &job, size, rank);
        place(&mut command, rank);
        command.arg(argument);
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "rank {rank}: {}", describe_output(output));
    }
}

#[test]
fn nx_calls_work_on_units_that_open_has_connected() {
    let site = Site::new();
    // OPEN reaches shared files through the preload library, which the program links.
    let program = compile(&site, &[], "nx_units.F", "pario-preload");
    let rows: Vec<u8> = (1..=40_i32)
        .flat_map(|row| (1..=1000).flat_map(move |place| (row * 1000 + place).to_ne_bytes()))
        .collect();
    for size in [1, 4] {
        let name = format!("/pfs/units/{size}");
        assert_eq!(site.run_ranks_ok(&program, size, &[&name]), " 40 rows\n");
        assert!(site.content(&name) == rows);
    }
    // Without it, OPEN connects a plain file, and the calls work on that.
    let program = compile(&site, &[], "nx_units.F", "pario");
    let plain = site.dir.path().join("plain");
    assert_eq!(site.run_ranks_ok(&program, 3, &[plain.to_str().unwrap()]), " 40 rows\n");
    assert!(std::fs::read(plain).unwrap() == rows);
}

#[test]
fn nx_calls_work_on_units_of_gopen() {
    let site = Site::new();
    let program = compile(&site, &[], "nx_modes.f90", "pario");
    for size in [1, 4] {
        let outputs = site.run_ranks(&program, size, &[]);
        let printed = String::from_utf8_lossy(&outputs[0].stdout).into_owned();
        assert_eq!(
            printed,
            format!("{size} processes share units\n"),
            "{}",
            describe_output(&outputs[0])
        );
        for output in &outputs {
            let said = describe_output(output);
            assert!(said.contains("unit 99 is not connected: call gopen"), "{said}");
            assert_eq!(output.status.code(), Some(1));
        }
        site.cluster().remove("/pfs/fortran/log").unwrap();
        site.cluster().remove("/pfs/fortran/records").unwrap();
    }
}

#[test]
fn modules_call_arrays_record_files_and_one_sided_access() {
    let site = Site::new();
    let arrays = compile(&site, &["donio.f90", "dolib.f90"], "arrays_module.f90", "pario");
    let records = compile(&site, &["gio.f90"], "records_module.f90", "pario");
    let armci = compile(&site, &["armci.f90"], "armci_module.f90", "pario");
    for (size, machines) in [(1, 1), (4, 1), (3, 3)] {
        run(&site, &arrays, size, machines, "");
        let part = site.dir.path().join(format!("records of {size} on {machines}"));
        run(&site, &records, size, machines, part.to_str().unwrap());
        run(&site, &armci, size, machines, "");
    }
}

/// The names of C calls that a file binds.
fn bound(module: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(prefix().join("include").join(module)).unwrap();
    let names = text.split("name='").skip(1);
    names.map(|rest| rest.split('\'').next().unwrap().to_owned()).collect()
}

#[test]
fn modules_have_every_call_of_their_headers() {
    for (header, modules) in [
        ("dolib.h", &["dolib.f90", "donio.f90"][..]),
        ("gio.h", &["gio.f90"]),
        ("armci.h", &["armci.f90"]),
    ] {
        let declared = crate::headers::declared_in(&[header]);
        let bound: BTreeSet<String> = modules.iter().flat_map(|module| bound(module)).collect();
        let missing: Vec<&String> = declared.difference(&bound).collect();
        assert!(missing.is_empty(), "{header}: the module lacks {missing:?}");
    }
}

/// The constants of fnx.h are those of nx.h.
#[test]
fn constants_are_those_of_c() {
    let text = std::fs::read_to_string(prefix().join("include/fnx.h")).unwrap();
    let mut known = 0;
    for constants in text.split("parameter (").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        for constant in constants.split(',') {
            let (name, value) = constant.split_once('=').unwrap();
            let value: i64 = value.trim().parse().unwrap();
            let expected = crate::headers::constant(name.trim());
            assert!(expected.is_none_or(|expected| expected == value), "{name}");
            known += usize::from(expected.is_some());
        }
    }
    assert_eq!(known, 9);
}
