//! The C interface of Pario: the calls that `pfslib.h`, `pfslib_errno.h`, `nx.h`, `pfs/pfs.h`,
//! `donio.h`, `dolib.h`, `gio.h` and `armci.h` declare, and their Fortran names.
//!
//! The calls are those of PFSLib and of the Paragon's parallel file system, of DONIO, GIO and
//! ARMCI. The library `pario` does the work; this crate translates. C programs link libpario, which
//! `crates/capi/install` builds from this crate. Writers of C programs read docs/c-interface.md.
//!
//! ```c
//! #include <nx.h>
//!
//! int main(void) {
//!   int fd = gopen("/pfs/runs/7/log", O_WRONLY | O_CREAT, M_LOG, 0644); // one shared pointer
//!   cwrite(fd, "here\n", 5);                                            // in order of arrival
//!   close(fd);
//! }
//! ```
//!
//! What it deliberately is not: it holds no state of a file beyond its descriptor and the started
//! requests; modes, pointers and sizes belong to `pario`. It starts no processes and changes no
//! signal handlers.
//!
//! A call enters through [`boundary`], which stops panics and turns a
//! [`ErrnoError`](errors::ErrnoError) either into `errno` or into a message and the end of the
//! process. [`process`] connects to the job and the cluster, [`team`] joins the ranks that share
//! memory (no cluster needed), [`descriptors`] maps descriptors to open files, and [`requests`]
//! holds started requests. [`inheritance`] passes descriptors on to other processes. [`names`] decides which names are those of shared files; [`by_name`],
//! [`attributes`], [`directories`], [`working_directory`] and [`file_systems`] have the system's
//! calls on names.

pub mod armci;
pub mod attributes;
pub mod boundary;
pub mod buffers;
pub mod by_name;
pub mod descriptors;
pub mod directories;
pub mod dolib;
pub mod donio;
pub mod errors;
pub mod file_status;
pub mod file_systems;
pub mod fortran;
pub mod fortran_units;
pub mod gio;
pub mod inheritance;
pub mod names;
pub mod nx;
pub mod opening;
pub mod pfslib;
pub mod plain_files;
pub mod posix;
pub mod process;
pub mod record_files;
pub mod record_locks;
pub mod requests;
pub mod shared_io;
pub mod striping;
pub mod team;
pub mod working_directory;
