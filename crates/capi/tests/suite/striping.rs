//! Striping from C, by the Paragon's means and by the environment.

use std::path::PathBuf;

use pario::Layout;

use crate::site::{Site, describe_output, new_job, source};

fn compiled(site: &Site) -> PathBuf {
    site.compile(&source("striping.c"))
}

#[test]
fn one_process_sets_the_striping_before_all_open_the_file() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 3, &["creation"]);
    let known = site.cluster().metadata("/pfs/striped").unwrap();
    let Some(Layout::Striped(striped)) = &known.record.layout else { panic!("{known:?}") };
    let disks: Vec<u32> = striped.disks().as_slice().iter().map(|disk| disk.0).collect();
    let all: Vec<u32> = site.cluster().map().nodes[0].disks.iter().map(|disk| disk.id.0).collect();
    assert_eq!((striped.unit_bytes(), disks), (4096, vec![all[3], all[0]]));
    assert_eq!((known.record.mode, known.len), (0o640, 1000));
}

#[test]
fn a_striping_that_is_not_possible_is_refused_with_a_reason() {
    let site = Site::new();
    let program = compiled(&site);
    let output = site.run_ranks(&program, 1, &["refused"]).remove(0);
    assert!(output.status.success(), "{}", describe_output(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("while no other process has it open"), "{said}");
    assert!(said.contains("can only change while it is empty, and it has 8 bytes"), "{said}");
}

#[test]
fn the_striping_of_a_file_that_several_processes_have_open_stays() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 2, &["together"]);
}

#[test]
fn programs_learn_which_file_system_has_a_file() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 1, &["systems"]);
}

#[test]
fn the_environment_gives_new_files_a_striping() {
    let site = Site::new();
    let program = compiled(&site);
    let run = |variables: &[(&str, &str)]| {
        let job = new_job();
        let mut outputs = site.run_ranks_with(1, |rank| {
            let mut command = site.rank(&program, &job, 1, rank);
            command.arg("print").envs(variables.iter().copied());
            command
        });
        let output = outputs.remove(0);
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let (unit, disks, first) = ("PARIO_STRIPE_UNIT", "PARIO_STRIPE_DISKS", "PARIO_STRIPE_FIRST");
    assert_eq!(run(&[(unit, "1M"), (disks, "2"), (first, "3")]), "1048576 2 3\n");
    assert_eq!(run(&[(first, "1")]), "65536 4 1\n");
    let said = run(&[(unit, "4K"), (disks, "3")]);
    assert!(said.starts_with("4096 3 "), "{said}");
    for (name, value) in [(unit, "large"), (disks, "0"), (disks, "5"), (first, "4")] {
        let said = run(&[(name, value)]);
        assert!(said.starts_with("gopen: PFSLib: Invalid argument: "), "{said}");
    }
    assert!(run(&[(unit, "large")]).contains("PARIO_STRIPE_UNIT is \"large\""));
    assert!(run(&[(first, "4")]).contains("there is no disk 4"));
}
