//! No invalid memory access and no leak: C programs under Valgrind.

use std::path::Path;

use crate::site::{Site, describe_output, new_job, source};

/// Runs a part of a program as all processes of a job, each under Valgrind.
fn is_clean(site: &Site, program: &Path, size: u32, parts: &[&str], short_cut: &str) {
    let job = new_job();
    let outputs = site.run_ranks_with(size, |rank| {
        let mut command = site.rank(Path::new("valgrind"), &job, size, rank);
        command
            .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
            .args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"])
            // A thread that polls must not starve the others.
            .arg("--fair-sched=yes")
            .arg(program)
            .args(parts)
            .env("PARIO_SHORT_CUT", short_cut);
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "{parts:?}, rank {rank}: {}", describe_output(output));
    }
}

#[test]
fn calls_touch_no_memory_that_is_not_theirs() {
    let site = Site::new();
    let program = site.compile(&source("calls.c"));
    is_clean(&site, &program, 2, &["started"], "0");
    is_clean(&site, &program, 2, &["system"], "1");
}

#[test]
fn errors_touch_no_memory_that_is_not_theirs() {
    let site = Site::new();
    let program = site.compile(&source("errors.c"));
    is_clean(&site, &program, 1, &["arguments"], "1");
}

#[test]
fn cached_files_touch_no_memory_that_is_not_theirs() {
    let site = Site::new();
    let program = site.compile(&source("cached.c"));
    is_clean(&site, &program, 2, &["calls", "file"], "1");
    is_clean(&site, &program, 2, &["arrays", ""], "1");
    is_clean(&site, &program, 1, &["arguments", "wild"], "1");
}
