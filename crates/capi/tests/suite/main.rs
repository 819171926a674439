//! Tests of the C interface: C and Fortran programs, compiled against the installed library and run
//! as the processes of a job.

mod armci;
mod atomic;
mod cached;
mod calls;
mod errors;
mod examples;
mod fortran;
mod headers;
mod jobs;
#[path = "../../../pario/tests/suite/namespaces/lab.rs"]
#[allow(dead_code, reason = "the tests of another crate use more of it")]
mod lab;
mod locks;
mod memory_errors;
mod names;
mod preload;
mod programs;
mod records;
mod redirections;
mod self_declared;
mod site;
mod striping;
