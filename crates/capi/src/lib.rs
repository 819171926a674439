//! The C interface of Pario: what `pfslib.h`, `pfslib_errno.h`, `nx.h`, `donio.h`, `dolib.h`, `gio.h` and
//! `armci.h` declare, and the calls of Fortran programs.
//!
//! Programs that were written for the parallel file system of the Paragon, or for PFSLib, find their
//! calls here; everything they do is done by the library `pario`. C programs link libpario, which
//! `crates/capi/install` makes of this crate; docs/c-interface.md is for those who write them.
//!
//! ```c
//! #include <nx.h>
//!
//! int main(void) {
//!   int fd = gopen("/pfs/runs/7/log", O_WRONLY | O_CREAT, M_LOG, 0644); // one pointer for all
//!   cwrite(fd, "here\n", 5);                                            // first come, first served
//!   close(fd);
//! }
//! ```
//!
//! What it deliberately is not: it keeps no state of files but which descriptor is which file and
//! which requests are under way; modes, pointers and sizes are the business of `pario`. It starts no
//! processes and touches no signals.
//!
//! A call comes in through [`boundary`], which lets no panic out and turns a [`CallError`](errors::CallError)
//! into `errno` or into a message and the end of the process. [`process`] knows the job and the
//! cluster, [`team`] those who have met for their memory, for which no cluster is needed, [`descriptors`]
//! the open files, [`requests`] what was started.

pub mod armci;
pub mod boundary;
pub mod buffers;
pub mod descriptors;
pub mod dolib;
pub mod donio;
pub mod errors;
pub mod fortran;
pub mod gio;
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
pub mod team;
