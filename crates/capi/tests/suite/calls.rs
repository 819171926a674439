//! Calls without errors, from C: with the macros of the headers, with the preload library, and with
//! the static library.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use crate::site::{Site, describe_output, new_job, prefix, run_ok, source};

fn compiled(site: &Site) -> PathBuf {
    site.compile(&source("calls.c"))
}

#[test]
fn calls_of_the_system_obey_the_mode() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 3, &["system"]);
}

#[test]
fn calls_of_the_library_work_on_plain_files() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 1, &["plain"]);
}

#[test]
fn names_mean_what_the_manual_says() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 3, &["names"]);
    // A relative name starts at the program's working directory.
    let here = site.dir.path().canonicalize().unwrap();
    let path = format!("{}/own.pfs", here.to_str().unwrap());
    assert_eq!(site.content(&path).len(), 24);
}

#[test]
fn sizes_only_grow() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 3, &["sizes"]);
}

#[test]
fn started_requests_are_over_when_iodone_says_so() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 2, &["started"]);
}

#[test]
fn threads_share_everything() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 2, &["threads"]);
}

#[test]
fn the_library_takes_no_signals() {
    let site = Site::new();
    let program = compiled(&site);
    let job = new_job();
    let outputs = site.run_ranks_with(2, |rank| {
        let mut command = site.rank(&program, &job, 2, rank);
        // With and without the threads of connections.
        command.arg("signals").env("PARIO_SHORT_CUT", if rank == 0 { "0" } else { "1" });
        command
    });
    for output in outputs {
        assert!(output.status.success(), "{}", describe_output(&output));
    }
}

#[test]
fn a_waiting_process_can_be_interrupted() {
    let site = Site::new();
    let program = compiled(&site);
    let outputs = site.run_ranks_with(1, |_| {
        let mut command = site.rank(&program, &new_job(), 2, 0);
        command.arg("interrupted");
        command
    });
    assert_eq!(outputs[0].status.signal(), Some(libc::SIGALRM), "{}", describe_output(&outputs[0]));
}

#[test]
fn descriptors_that_the_program_closed_directly_are_forgotten() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 1, &["back"]);
}

/// Processes without a launcher that call `pfslib_init` meet at the node.
#[test]
fn programs_may_say_themselves_which_process_they_are() {
    let site = Site::new();
    let program = compiled(&site);
    let outputs = site.run_ranks_with(3, |rank| {
        let mut command = site.command(&program);
        command.args(["init", "3", &rank.to_string()]);
        command
    });
    for output in outputs {
        assert!(output.status.success(), "{}", describe_output(&output));
    }
    assert_eq!(site.content("/pfs/init").len(), 24);
}

/// A program's own definitions take precedence over the static library's.
#[test]
fn programs_may_define_their_own_clock() {
    let site = Site::new();
    let shared = site.compile(&source("own.c"));
    site.run_ranks_ok(&shared, 2, &[]);
    let library = prefix().join("lib/libpario.a");
    let whole = ["-Wl,--whole-archive", library.to_str().unwrap(), "-Wl,--no-whole-archive"];
    let rest = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
    let all = [&whole[..], &rest].concat();
    let static_one = site.compile_with(&source("own.c"), &["--cflags"], &all);
    site.run_ranks_ok(&static_one, 2, &[]);
}

#[test]
fn the_preload_library_helps_programs_that_know_no_macros() {
    let site = Site::new();
    let program = site.compile(&source("old.c"));
    let job = new_job();
    let outputs = site.run_ranks_with(2, |rank| {
        let mut command = site.rank(&program, &job, 2, rank);
        let preload = prefix().join("lib/libpario_preload.so");
        command.env("LD_PRELOAD", preload).env("PARIO_PRELOAD_REPORT", "1");
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "rank {rank}: {}", describe_output(output));
        let said = String::from_utf8_lossy(&output.stderr);
        let unlinked = if rank == 0 { ", unlink 1" } else { "" };
        let helped = format!(
            "calls taken: open 1, read 1, write 1, pread 1, lseek 1, fsync 1, fstat 1, close \
             2{unlinked}\n"
        );
        assert!(said.contains(&helped), "{said}");
    }
    // Without the preload library the program gets an error; no byte is lost silently.
    let alone = site.run_ranks(&program, 1, &[]).remove(0);
    assert!(!alone.status.success());
    assert!(
        String::from_utf8_lossy(&alone.stderr).contains("errno 9"),
        "{}",
        describe_output(&alone)
    );
}

#[test]
fn with_the_preload_library_a_program_of_the_system_reads_a_shared_file() {
    let site = Site::new();
    let cluster = site.cluster();
    cluster.make_directory("/pfs").unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    cluster.create("/pfs/data").unwrap().write_at(&bytes, 0).unwrap();
    let mut command = site.command("cat");
    command.arg("/pfs/data").env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"));
    assert!(run_ok(&mut command).stdout == bytes);
}
