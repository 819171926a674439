//! Tests of the C interface: C and Fortran programs, compiled against the installed library and run
//! as the processes of a job.

mod armci;
mod cached;
mod calls;
mod errors;
mod examples;
mod headers;
mod jobs;
mod locks;
mod memory_errors;
mod preload;
mod records;
mod site;
