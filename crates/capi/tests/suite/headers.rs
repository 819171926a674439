//! The headers match the library: types of all calls, values of all constants, and no call is
//! missing on either side.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::site::{Site, prefix, run_ok};
use libc::{
    c_char, c_double, c_float, c_int, c_long, c_uint, c_ulong, c_void, iovec, mode_t, off_t,
    size_t, ssize_t,
};
use pario_c::armci::callbacks::RucT;
use pario_c::armci::lists::armci_giov_t;
use pario_c::armci::nonblocking::armci_hdl_t;
use pario_c::armci::{
    access, allocations, callbacks, collectives, domains, groups, lists, message_layer, messages,
    nonblocking, strided, values,
};
use pario_c::file_systems::{estatfs, statpfs_t};
use pario_c::striping::sattr;
use pario_c::{
    armci, attributes, buffers, by_name, directories, dolib, donio, errors, file_systems, fortran,
    fortran_units, gio, inheritance, nx, pfslib, posix, striping, working_directory,
};

/// A Rust type with a name in C.
trait CType {
    const NAME: &'static str;
}

macro_rules! c_types {
    ($($type:ty => $name:literal,)*) => {$(impl CType for $type { const NAME: &'static str = $name; })*};
}

c_types! {
    () => "void",
    c_int => "int",
    c_uint => "unsigned int",
    c_long => "long",
    c_double => "double",
    c_float => "float",
    c_ulong => "unsigned long",
    size_t => "size_t",
    ssize_t => "ssize_t",
    *const c_char => "const char *",
    *const c_void => "const void *",
    *mut c_void => "void *",
    *const iovec => "const struct iovec *",
    *mut libc::stat => "struct stat *",
    *mut libc::statx => "struct statx *",
    *mut libc::statvfs => "struct statvfs *",
    *mut libc::statfs => "struct statfs *",
    *mut libc::dirent => "struct dirent *",
    *mut libc::DIR => "DIR *",
    *const libc::DIR => "const DIR *",
    *const libc::timespec => "const struct timespec *",
    *const libc::timeval => "const struct timeval *",
    *const libc::utimbuf => "const struct utimbuf *",
    *mut estatfs => "struct estatfs *",
    *mut statpfs_t => "struct statpfs *",
    *const c_long => "const long *",
    *mut c_long => "long *",
    *mut c_double => "double *",
    *mut c_char => "char *",
    *mut c_int => "int *",
    *mut c_float => "float *",
    *mut *mut c_void => "void **",
    *mut *mut *mut c_char => "char ***",
    *mut armci_giov_t => "armci_giov_t *",
    *mut armci_hdl_t => "armci_hdl_t *",
    Option<RucT> => "RUC_t",
    *const c_int => "const int *",
}

/// Checks sizes of types that have other names above, and layouts of structures.
fn type_checks() -> String {
    let mut text = String::new();
    let sizes = [("off_t", size_of::<off_t>()), ("mode_t", size_of::<mode_t>())];
    for (name, size) in sizes {
        writeln!(text, "_Static_assert(sizeof({name}) == {size}, \"{name}\");").unwrap();
    }
    for (name, size, offsets) in [
        (
            "struct iovec",
            size_of::<iovec>(),
            [
                ("iov_base", std::mem::offset_of!(iovec, iov_base)),
                ("iov_len", std::mem::offset_of!(iovec, iov_len)),
            ],
        ),
        (
            "struct stat",
            size_of::<libc::stat>(),
            [
                ("st_size", std::mem::offset_of!(libc::stat, st_size)),
                ("st_mode", std::mem::offset_of!(libc::stat, st_mode)),
            ],
        ),
        (
            "armci_hdl_t",
            size_of::<armci_hdl_t>(),
            [
                ("id", std::mem::offset_of!(armci_hdl_t, id)),
                ("aggregate", std::mem::offset_of!(armci_hdl_t, aggregate)),
            ],
        ),
        (
            "struct sattr",
            size_of::<sattr>(),
            [
                ("s_sfactor", std::mem::offset_of!(sattr, s_sfactor)),
                ("s_start_sdir", std::mem::offset_of!(sattr, s_start_sdir)),
            ],
        ),
        (
            "struct estatfs",
            size_of::<estatfs>(),
            [
                ("f_bavail", std::mem::offset_of!(estatfs, f_bavail)),
                ("f_ffree", std::mem::offset_of!(estatfs, f_ffree)),
            ],
        ),
        (
            "struct statpfs",
            size_of::<statpfs_t>(),
            [
                ("p_sunitsize", std::mem::offset_of!(statpfs_t, p_sunitsize)),
                ("p_start_sdir", std::mem::offset_of!(statpfs_t, p_start_sdir)),
            ],
        ),
        (
            "struct dirent",
            size_of::<libc::dirent>(),
            [
                ("d_type", std::mem::offset_of!(libc::dirent, d_type)),
                ("d_name", std::mem::offset_of!(libc::dirent, d_name)),
            ],
        ),
    ] {
        writeln!(text, "_Static_assert(sizeof({name}) == {size}, \"{name}\");").unwrap();
        for (field, offset) in offsets {
            let field = format!("offsetof({name}, {field}) == {offset}");
            writeln!(text, "_Static_assert({field}, \"{field}\");").unwrap();
        }
    }
    text
}

/// Checks the type of each call twice: here against Rust, and in the generated text against C.
macro_rules! calls {
    ($($module:ident::$call:ident($($argument:ty),*) -> $result:ty;)*) => {{
        let mut all: Vec<(&str, String)> = Vec::new();
        $({
            let _: unsafe extern "C" fn($($argument),*) -> $result = $module::$call;
            let arguments: &[&str] = &[$(<$argument as CType>::NAME),*];
            let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
            let result = <$result as CType>::NAME;
            all.push((stringify!($call), format!("{result} (*)({arguments})")));
        })*
        all
    }};
}

fn calls() -> Vec<(&'static str, String)> {
    type Text = *const c_char;
    type Memory = *mut c_void;
    type Bytes = *const c_void;
    type CallerBuffers = *const iovec;
    type Ints = *mut c_int;
    type Handle = *mut armci_hdl_t;
    type List = *mut armci_giov_t;
    type Int = *mut c_int;
    type Long = *mut c_long;
    calls! {
        pfslib::pfslib_init(Text, c_int, c_int) -> ();
        pfslib::_pfslib_init(Text, c_int, c_int, c_int, c_int) -> ();
        pfslib::pfslib_perror(Text) -> ();
        pfslib::pfslib_open(Text, c_int, mode_t) -> c_int;
        pfslib::_pfslib_open(Text, c_int, mode_t, c_int, c_int, c_int, c_int) -> c_int;
        pfslib::gopen(Text, c_int, c_int, mode_t) -> c_int;
        pfslib::_gopen(Text, c_int, c_int, mode_t) -> c_int;
        pfslib::pfslib_close(c_int) -> c_int;
        pfslib::pfslib_lseek(c_int, off_t, c_int) -> off_t;
        pfslib::iomode(c_int) -> c_long;
        pfslib::_iomode(c_int) -> c_long;
        pfslib::setiomode(c_int, c_int) -> ();
        pfslib::_setiomode(c_int, c_int) -> c_long;
        pfslib::iseof(c_int) -> c_long;
        pfslib::_iseof(c_int) -> c_long;
        pfslib::lsize(c_int, off_t, c_int) -> c_long;
        pfslib::_lsize(c_int, off_t, c_int) -> c_long;
        pfslib::cread(c_int, Memory, c_uint) -> ();
        pfslib::_cread(c_int, Memory, c_uint) -> c_long;
        pfslib::creadv(c_int, CallerBuffers, c_int) -> ();
        pfslib::_creadv(c_int, CallerBuffers, c_int) -> c_long;
        pfslib::cwrite(c_int, Bytes, c_uint) -> ();
        pfslib::_cwrite(c_int, Bytes, c_uint) -> c_long;
        pfslib::cwritev(c_int, CallerBuffers, c_int) -> ();
        pfslib::_cwritev(c_int, CallerBuffers, c_int) -> c_long;
        pfslib::iread(c_int, Memory, c_uint) -> c_long;
        pfslib::_iread(c_int, Memory, c_uint) -> c_long;
        pfslib::ireadv(c_int, CallerBuffers, c_int) -> c_long;
        pfslib::_ireadv(c_int, CallerBuffers, c_int) -> c_long;
        pfslib::iwrite(c_int, Bytes, c_uint) -> c_long;
        pfslib::_iwrite(c_int, Bytes, c_uint) -> c_long;
        pfslib::iwritev(c_int, CallerBuffers, c_int) -> c_long;
        pfslib::_iwritev(c_int, CallerBuffers, c_int) -> c_long;
        pfslib::iodone(c_long) -> c_long;
        pfslib::_iodone(c_long) -> c_long;
        pfslib::iowait(c_long) -> ();
        pfslib::_iowait(c_long) -> c_long;
        nx::mynode() -> c_long;
        nx::numnodes() -> c_long;
        nx::gsync() -> ();
        nx::dclock() -> c_double;
        nx::gisum(*mut c_long, c_long, *mut c_long) -> ();
        nx::gdsum(*mut c_double, c_long, *mut c_double) -> ();
        donio::do_nio(c_int, c_int) -> c_int;
        donio::do_open(Text, c_int, c_int) -> c_int;
        donio::do_open_within(Text, c_int, c_int, i64) -> c_int;
        donio::do_lsize(c_int, c_int) -> c_int;
        donio::do_lsize64(c_int, i64) -> i64;
        donio::do_lseek(c_int, c_int, c_int) -> c_int;
        donio::do_lseek64(c_int, i64, c_int) -> i64;
        donio::do_read(c_int, Memory, c_int) -> c_int;
        donio::do_read64(c_int, Memory, i64) -> i64;
        donio::do_write(c_int, Bytes, c_int) -> c_int;
        donio::do_write64(c_int, Bytes, i64) -> i64;
        donio::do_flush(c_int) -> c_int;
        donio::do_close(c_int) -> c_int;
        dolib::do_array_create(i64, i64) -> c_int;
        dolib::do_array_destroy(c_int) -> c_int;
        dolib::do_array_length(c_int) -> i64;
        dolib::do_array_owner(c_int, i64) -> c_int;
        dolib::do_get(c_int, i64, i64, Memory) -> c_int;
        dolib::do_put(c_int, i64, i64, Bytes) -> c_int;
        dolib::do_gather(c_int, i64, *const i64, Memory) -> c_int;
        dolib::do_scatter(c_int, i64, *const i64, Bytes) -> c_int;
        dolib::do_accumulate(c_int, c_int, i64, *const i64, Bytes) -> c_int;
        dolib::do_barrier() -> c_int;
        armci::ARMCI_Init() -> c_int;
        armci::ARMCI_Init_args(Ints, *mut *mut *mut c_char) -> c_int;
        armci::ARMCI_Initialized() -> c_int;
        armci::ARMCI_Finalize() -> ();
        armci::ARMCI_Cleanup() -> ();
        armci::ARMCI_Error(Text, c_int) -> ();
        armci::ARMCI_Fence(c_int) -> ();
        armci::ARMCI_AllFence() -> ();
        armci::ARMCI_Barrier() -> ();
        armci::ARMCI_Create_mutexes(c_int) -> c_int;
        armci::ARMCI_Destroy_mutexes() -> c_int;
        armci::ARMCI_Lock(c_int, c_int) -> ();
        armci::ARMCI_Unlock(c_int, c_int) -> ();
        allocations::ARMCI_Malloc(*mut *mut c_void, c_long) -> c_int;
        allocations::ARMCI_Free(Memory) -> c_int;
        allocations::ARMCI_Malloc_local(c_long) -> Memory;
        allocations::ARMCI_Free_local(Memory) -> c_int;
        access::ARMCI_Put(Memory, Memory, c_int, c_int) -> c_int;
        access::ARMCI_Get(Memory, Memory, c_int, c_int) -> c_int;
        access::ARMCI_Acc(c_int, Memory, Memory, Memory, c_int, c_int) -> c_int;
        access::ARMCI_Rmw(c_int, Memory, Memory, c_int, c_int) -> c_int;
        nonblocking::ARMCI_NbPut(Memory, Memory, c_int, c_int, Handle) -> c_int;
        nonblocking::ARMCI_NbGet(Memory, Memory, c_int, c_int, Handle) -> c_int;
        nonblocking::ARMCI_NbAcc(c_int, Memory, Memory, Memory, c_int, c_int, Handle) -> c_int;
        nonblocking::ARMCI_Wait(Handle) -> c_int;
        nonblocking::ARMCI_Test(Handle) -> c_int;
        nonblocking::ARMCI_WaitAll() -> c_int;
        nonblocking::ARMCI_WaitProc(c_int) -> c_int;
        strided::ARMCI_PutS(Memory, Ints, Memory, Ints, Ints, c_int, c_int) -> c_int;
        strided::ARMCI_NbPutS(Memory, Ints, Memory, Ints, Ints, c_int, c_int, Handle) -> c_int;
        strided::ARMCI_GetS(Memory, Ints, Memory, Ints, Ints, c_int, c_int) -> c_int;
        strided::ARMCI_NbGetS(Memory, Ints, Memory, Ints, Ints, c_int, c_int, Handle) -> c_int;
        strided::ARMCI_AccS(c_int, Memory, Memory, Ints, Memory, Ints, Ints, c_int, c_int) -> c_int;
        strided::ARMCI_NbAccS(c_int, Memory, Memory, Ints, Memory, Ints, Ints, c_int, c_int, Handle) -> c_int;
        lists::ARMCI_PutV(List, c_int, c_int) -> c_int;
        lists::ARMCI_NbPutV(List, c_int, c_int, Handle) -> c_int;
        lists::ARMCI_GetV(List, c_int, c_int) -> c_int;
        lists::ARMCI_NbGetV(List, c_int, c_int, Handle) -> c_int;
        lists::ARMCI_AccV(c_int, Memory, List, c_int, c_int) -> c_int;
        lists::ARMCI_NbAccV(c_int, Memory, List, c_int, c_int, Handle) -> c_int;
        callbacks::ARMCI_Callback_register(Option<RucT>) -> c_int;
        callbacks::ARMCI_Callback_send(c_int, c_int, Memory, c_int, Memory, c_int, Memory, c_int, Ints) -> c_int;
        callbacks::ARMCI_Callback_wait(c_int) -> c_int;
        collectives::armci_msg_me() -> c_int;
        collectives::armci_msg_nproc() -> c_int;
        collectives::armci_msg_barrier() -> ();
        collectives::armci_msg_brdcst(Memory, c_int, c_int) -> ();
        collectives::armci_msg_igop(*mut c_int, c_int, *mut c_char) -> ();
        collectives::armci_msg_lgop(*mut c_long, c_int, *mut c_char) -> ();
        collectives::armci_msg_fgop(*mut c_float, c_int, *mut c_char) -> ();
        collectives::armci_msg_dgop(*mut c_double, c_int, *mut c_char) -> ();
        values::ARMCI_PutValueInt(c_int, Memory, c_int) -> c_int;
        values::ARMCI_NbPutValueInt(c_int, Memory, c_int, Handle) -> c_int;
        values::ARMCI_GetValueInt(Memory, c_int) -> c_int;
        values::ARMCI_PutValueLong(c_long, Memory, c_int) -> c_int;
        values::ARMCI_NbPutValueLong(c_long, Memory, c_int, Handle) -> c_int;
        values::ARMCI_GetValueLong(Memory, c_int) -> c_long;
        values::ARMCI_PutValueFloat(c_float, Memory, c_int) -> c_int;
        values::ARMCI_NbPutValueFloat(c_float, Memory, c_int, Handle) -> c_int;
        values::ARMCI_GetValueFloat(Memory, c_int) -> c_float;
        values::ARMCI_PutValueDouble(c_double, Memory, c_int) -> c_int;
        values::ARMCI_NbPutValueDouble(c_double, Memory, c_int, Handle) -> c_int;
        values::ARMCI_GetValueDouble(Memory, c_int) -> c_double;
        values::ARMCI_Put_flag(Memory, Memory, c_int, Ints, c_int, c_int) -> c_int;
        values::ARMCI_PutS_flag(Memory, Ints, Memory, Ints, Ints, c_int, Ints, c_int, c_int) -> c_int;
        values::ARMCI_PutS_flag_dir(Memory, Ints, Memory, Ints, Ints, c_int, Ints, c_int, c_int) -> c_int;
        values::ARMCI_Copy(Memory, Memory, c_int) -> ();
        nonblocking::ARMCI_SET_AGGREGATE_HANDLE(Handle) -> ();
        nonblocking::ARMCI_UNSET_AGGREGATE_HANDLE(Handle) -> ();
        domains::armci_domain_nprocs(c_int, c_int) -> c_int;
        domains::armci_domain_id(c_int, c_int) -> c_int;
        domains::armci_domain_glob_proc_id(c_int, c_int, c_int) -> c_int;
        domains::armci_domain_my_id(c_int) -> c_int;
        domains::armci_domain_count(c_int) -> c_int;
        domains::armci_domain_same_id(c_int, c_int) -> c_int;
        domains::ARMCI_Same_node(c_int) -> c_int;
        domains::ARMCI_Uses_shm() -> c_int;
        domains::ARMCI_Uses_shm_grp(Ints) -> c_int;
        domains::ARMCI_Set_shm_limit(c_ulong) -> ();
        groups::ARMCI_Group_create(c_int, Ints, Ints) -> ();
        groups::ARMCI_Group_create_child(c_int, Ints, Ints, Ints) -> ();
        groups::ARMCI_Group_free(Ints) -> ();
        groups::ARMCI_Group_set_default(Ints) -> ();
        groups::ARMCI_Group_get_default(Ints) -> ();
        groups::ARMCI_Group_get_world(Ints) -> ();
        groups::ARMCI_Group_rank(Ints, Ints) -> c_int;
        groups::ARMCI_Group_size(Ints, Ints) -> ();
        groups::ARMCI_GroupFence(Ints) -> ();
        groups::ARMCI_Absolute_id(Ints, c_int) -> c_int;
        groups::ARMCI_Malloc_group(*mut *mut c_void, c_long, Ints) -> c_int;
        groups::ARMCI_Free_group(Memory, Ints) -> c_int;
        groups::armci_msg_group_barrier(Ints) -> ();
        message_layer::armci_msg_init(Ints, *mut *mut *mut c_char) -> ();
        message_layer::armci_msg_finalize() -> ();
        message_layer::armci_msg_abort(c_int) -> ();
        messages::armci_timer() -> c_double;
        messages::armci_msg_snd(c_int, Memory, c_int, c_int) -> ();
        messages::armci_msg_rcv(c_int, Memory, c_int, Ints, c_int) -> ();
        messages::armci_msg_rcvany(c_int, Memory, c_int, Ints) -> c_int;
        messages::armci_notify(c_int) -> c_int;
        messages::armci_notify_wait(c_int, Ints) -> c_int;
        collectives::armci_msg_bintree(c_int, Ints, Ints, Ints, Ints) -> ();
        collectives::armci_msg_bcast(Memory, c_int, c_int) -> ();
        collectives::armci_msg_bcast_scope(c_int, Memory, c_int, c_int) -> ();
        collectives::armci_msg_clus_brdcst(Memory, c_int) -> ();
        collectives::armci_msg_group_bcast_scope(c_int, Memory, c_int, c_int, Ints) -> ();
        collectives::armci_msg_clus_igop(*mut c_int, c_int, *mut c_char) -> ();
        collectives::armci_msg_group_igop(*mut c_int, c_int, *mut c_char, Ints) -> ();
        collectives::armci_msg_clus_lgop(*mut c_long, c_int, *mut c_char) -> ();
        collectives::armci_msg_group_lgop(*mut c_long, c_int, *mut c_char, Ints) -> ();
        collectives::armci_msg_llgop(*mut c_long, c_int, *mut c_char) -> ();
        collectives::armci_msg_clus_llgop(*mut c_long, c_int, *mut c_char) -> ();
        collectives::armci_msg_group_llgop(*mut c_long, c_int, *mut c_char, Ints) -> ();
        collectives::armci_msg_clus_fgop(*mut c_float, c_int, *mut c_char) -> ();
        collectives::armci_msg_group_fgop(*mut c_float, c_int, *mut c_char, Ints) -> ();
        collectives::armci_msg_clus_dgop(*mut c_double, c_int, *mut c_char) -> ();
        collectives::armci_msg_group_dgop(*mut c_double, c_int, *mut c_char, Ints) -> ();
        collectives::armci_msg_gop_scope(c_int, Memory, c_int, *mut c_char, c_int) -> ();
        collectives::armci_msg_group_gop_scope(c_int, Memory, c_int, *mut c_char, c_int, Ints) -> ();
        collectives::armci_msg_reduce(Memory, c_int, *mut c_char, c_int) -> ();
        collectives::armci_msg_reduce_scope(c_int, Memory, c_int, *mut c_char, c_int) -> ();
        collectives::armci_msg_sel(Memory, c_int, *mut c_char, c_int, c_int) -> ();
        collectives::armci_msg_sel_scope(c_int, Memory, c_int, *mut c_char, c_int, c_int) -> ();
        posix::pario_is_shared(c_int) -> c_int;
        inheritance::pario_inherit_descriptors() -> c_int;
        posix::pario_name_rule(Text) -> c_int;
        posix::pario_read(c_int, Memory, size_t) -> ssize_t;
        posix::pario_write(c_int, Bytes, size_t) -> ssize_t;
        posix::pario_readv(c_int, CallerBuffers, c_int) -> ssize_t;
        posix::pario_writev(c_int, CallerBuffers, c_int) -> ssize_t;
        posix::pario_pread(c_int, Memory, size_t, off_t) -> ssize_t;
        posix::pario_pwrite(c_int, Bytes, size_t, off_t) -> ssize_t;
        posix::pario_fsync(c_int) -> c_int;
        posix::pario_ftruncate(c_int, off_t) -> c_int;
        posix::pario_fstat(c_int, *mut libc::stat) -> c_int;
        posix::pario_dup(c_int) -> c_int;
        posix::pario_dup2(c_int, c_int) -> c_int;
        posix::pario_dup3(c_int, c_int, c_int) -> c_int;
        posix::pario_fcntl(c_int, c_int, c_long) -> c_int;
        posix::pario_lockf(c_int, c_int, off_t) -> c_int;
        by_name::pario_openat(c_int, Text, c_int, mode_t) -> c_int;
        by_name::pario_access(Text, c_int) -> c_int;
        by_name::pario_faccessat(c_int, Text, c_int, c_int) -> c_int;
        by_name::pario_stat(Text, *mut libc::stat) -> c_int;
        by_name::pario_lstat(Text, *mut libc::stat) -> c_int;
        by_name::pario_fstatat(c_int, Text, *mut libc::stat, c_int) -> c_int;
        by_name::pario_statx(c_int, Text, c_int, c_uint, *mut libc::statx) -> c_int;
        by_name::pario_truncate(Text, off_t) -> c_int;
        by_name::pario_mkdir(Text, mode_t) -> c_int;
        by_name::pario_mkdirat(c_int, Text, mode_t) -> c_int;
        by_name::pario_rmdir(Text) -> c_int;
        by_name::pario_unlink(Text) -> c_int;
        by_name::pario_unlinkat(c_int, Text, c_int) -> c_int;
        by_name::pario_remove(Text) -> c_int;
        by_name::pario_rename(Text, Text) -> c_int;
        by_name::pario_renameat(c_int, Text, c_int, Text) -> c_int;
        attributes::pario_chmod(Text, mode_t) -> c_int;
        attributes::pario_fchmodat(c_int, Text, mode_t, c_int) -> c_int;
        attributes::pario_fchmod(c_int, mode_t) -> c_int;
        attributes::pario_chown(Text, libc::uid_t, libc::gid_t) -> c_int;
        attributes::pario_lchown(Text, libc::uid_t, libc::gid_t) -> c_int;
        attributes::pario_fchownat(c_int, Text, libc::uid_t, libc::gid_t, c_int) -> c_int;
        attributes::pario_fchown(c_int, libc::uid_t, libc::gid_t) -> c_int;
        attributes::pario_utimensat(c_int, Text, *const libc::timespec, c_int) -> c_int;
        attributes::pario_futimens(c_int, *const libc::timespec) -> c_int;
        attributes::pario_utimes(Text, *const libc::timeval) -> c_int;
        attributes::pario_utime(Text, *const libc::utimbuf) -> c_int;
        file_systems::pario_statvfs(Text, *mut libc::statvfs) -> c_int;
        file_systems::pario_fstatvfs(c_int, *mut libc::statvfs) -> c_int;
        file_systems::pario_statfs(Text, *mut libc::statfs) -> c_int;
        file_systems::pario_fstatfs(c_int, *mut libc::statfs) -> c_int;
        file_systems::statpfs(Text, *mut estatfs, *mut statpfs_t, c_int) -> c_int;
        working_directory::pario_chdir(Text) -> c_int;
        working_directory::pario_fchdir(c_int) -> c_int;
        working_directory::pario_getcwd(*mut c_char, size_t) -> *mut c_char;
        directories::pario_opendir(Text) -> *mut libc::DIR;
        directories::pario_fdopendir(c_int) -> *mut libc::DIR;
        directories::pario_readdir(*mut libc::DIR) -> *mut libc::dirent;
        directories::pario_closedir(*mut libc::DIR) -> c_int;
        directories::pario_rewinddir(*mut libc::DIR) -> ();
        directories::pario_telldir(*mut libc::DIR) -> c_long;
        directories::pario_seekdir(*mut libc::DIR, c_long) -> ();
        directories::pario_dirfd(*mut libc::DIR) -> c_int;
        directories::pario_is_shared_stream(*const libc::DIR) -> c_int;
        gio::GIO_Rank() -> c_int;
        gio::GIO_Size() -> c_int;
        gio::GIO_Barrier() -> c_int;
        gio::GIO_Error() -> Text;
        gio::GIO_Open(Text, Int) -> c_int;
        gio::GIO_Open_cached(Text, Int, c_long) -> c_int;
        gio::GIO_Invalidate(c_int) -> c_int;
        gio::GIO_Close(c_int) -> c_int;
        gio::GIO_Sync(c_int) -> c_int;
        gio::GIO_Delete_file(Text) -> c_int;
        gio::GIO_Create_record(c_int, Int, c_int) -> c_int;
        gio::GIO_Create_record64(c_int, Int, c_long) -> c_int;
        gio::GIO_Create_record_irreg(c_int, Int, *const c_int, c_int) -> c_int;
        gio::GIO_Create_record_irreg64(c_int, Int, *const c_long, c_int) -> c_int;
        gio::GIO_Delete_record(c_int, c_int) -> c_int;
        gio::GIO_Inq_file(c_int, Int, Int) -> c_int;
        gio::GIO_List_records(c_int, Int, c_int) -> c_int;
        gio::GIO_Inq_record(c_int, c_int, Int, Int, Int) -> c_int;
        gio::GIO_Inq_record64(c_int, c_int, Long, Int, Int) -> c_int;
        gio::GIO_Distribution(c_int, c_int, c_int, Int, Int) -> c_int;
        gio::GIO_Distribution64(c_int, c_int, c_int, Long, Long) -> c_int;
        gio::GIO_Locate(c_int, c_int, c_int) -> c_int;
        gio::GIO_Locate64(c_int, c_int, c_long) -> c_int;
        gio::GIO_Read(c_int, c_int, c_int, c_int, *mut c_char, c_int) -> c_int;
        gio::GIO_Read64(c_int, c_int, c_long, c_long, *mut c_char, c_long) -> c_int;
        gio::GIO_Write(c_int, c_int, c_int, c_int, Text, c_int) -> c_int;
        gio::GIO_Write64(c_int, c_int, c_long, c_long, Text, c_long) -> c_int;
        gio::GIO_Acc(c_int, c_int, c_int, c_int, Bytes, c_int, c_int, Bytes) -> c_int;
        gio::GIO_Acc64(c_int, c_int, c_long, c_long, Bytes, c_long, c_int, Bytes) -> c_int;
        gio::GIO_Read_asyn(c_int, c_int, c_int, c_int, *mut c_char, c_int) -> c_int;
        gio::GIO_Read_asyn64(c_int, c_int, c_long, c_long, *mut c_char, c_long) -> c_int;
        gio::GIO_Write_asyn(c_int, c_int, c_int, c_int, Text, c_int) -> c_int;
        gio::GIO_Write_asyn64(c_int, c_int, c_long, c_long, Text, c_long) -> c_int;
        gio::GIO_Acc_asyn(c_int, c_int, c_int, c_int, Bytes, c_int, c_int, Bytes) -> c_int;
        gio::GIO_Acc_asyn64(c_int, c_int, c_long, c_long, Bytes, c_long, c_int, Bytes) -> c_int;
        gio::GIO_Wait(c_int) -> c_int;
        gio::GIO_Test(c_int) -> c_int;
        gio::GIO_Wait_all(c_int) -> c_int;
    }
}

/// The constants of the headers, with their values in Rust.
fn constants() -> Vec<(String, i64)> {
    let mut all: Vec<(String, i64)> = Vec::new();
    all.extend(
        errors::LIBRARY_ERRORS
            .iter()
            .map(|(name, number, _)| ((*name).to_owned(), (*number).into())),
    );
    let modes = pario::Mode::ALL;
    all.extend(modes.iter().map(|mode| (mode.name().to_owned(), mode.number().into())));
    let others = [
        ("EPFSLFIRST", errors::FIRST_NUMBER),
        ("EPFSREMOTE", errors::EPFSLREMOTE),
        ("EPSFLINVAL", errors::EPFSLINVAL),
        ("EQNOMID", errors::EPFSLMREQUEST),
        ("TRUE", 1),
        ("FALSE", 0),
        ("F_GETSATTR", striping::F_GETSATTR),
        ("F_SETSATTR", striping::F_SETSATTR),
        ("F_PFS_SVR_BUF", striping::F_PFS_SVR_BUF),
        ("MOUNT_UFS", file_systems::MOUNT_UFS),
        ("MOUNT_NFS", file_systems::MOUNT_NFS),
        ("MOUNT_PFS", file_systems::MOUNT_PFS),
        ("SDIRS_INIT_SIZE", 0),
        ("SIZE_SET", libc::SEEK_SET),
        ("SIZE_CUR", libc::SEEK_CUR),
        ("SIZE_END", libc::SEEK_END),
        ("DO_CREAT", donio::MANUAL_O_CREAT),
        ("DO_REPLACE", donio::DO_REPLACE),
        ("ARMCI_SWAP", access::ARMCI_SWAP),
        ("ARMCI_SWAP_LONG", access::ARMCI_SWAP_LONG),
        ("ARMCI_FETCH_AND_ADD", access::ARMCI_FETCH_AND_ADD),
        ("ARMCI_FETCH_AND_ADD_LONG", access::ARMCI_FETCH_AND_ADD_LONG),
        ("ARMCI_ACC_INT", access::ARMCI_ACC_INT),
        ("ARMCI_ACC_DBL", access::ARMCI_ACC_DBL),
        ("ARMCI_ACC_FLT", access::ARMCI_ACC_FLT),
        ("ARMCI_ACC_CPL", access::ARMCI_ACC_CPL),
        ("ARMCI_ACC_DCP", access::ARMCI_ACC_DCP),
        ("ARMCI_ACC_LNG", access::ARMCI_ACC_LNG),
        ("ARMCI_MAX_STRIDE_LEVEL", 8),
        ("ARMCI_INT", collectives::ARMCI_INT),
        ("ARMCI_LONG", collectives::ARMCI_LONG),
        ("ARMCI_LONG_LONG", collectives::ARMCI_LONG_LONG),
        ("ARMCI_FLOAT", collectives::ARMCI_FLOAT),
        ("ARMCI_DOUBLE", collectives::ARMCI_DOUBLE),
        ("SCOPE_ALL", message_layer::SCOPE_ALL),
        ("SCOPE_NODE", message_layer::SCOPE_NODE),
        ("SCOPE_MASTERS", message_layer::SCOPE_MASTERS),
        ("ARMCI_DOMAIN_SMP", domains::ARMCI_DOMAIN_SMP),
        ("GIO_INT", gio::GIO_INT),
        ("GIO_UNSIGNED", gio::GIO_UNSIGNED),
        ("GIO_INT64", gio::GIO_INT64),
        ("GIO_UNSIGNED64", gio::GIO_UNSIGNED64),
        ("GIO_FLOAT", gio::GIO_FLOAT),
        ("GIO_DOUBLE", gio::GIO_DOUBLE),
        ("PARIO_NAME_NUMBER", posix::PARIO_NAME_NUMBER),
        ("PARIO_NAME_CONTAINS", posix::PARIO_NAME_CONTAINS),
        ("PARIO_NAME_BELOW", posix::PARIO_NAME_BELOW),
        ("PARIO_NAME_RELATIVE", posix::PARIO_NAME_RELATIVE),
        ("PARIO_NAME_LEAVES", posix::PARIO_NAME_LEAVES),
        ("PFSLIB_MAX_BYTES", c_int::try_from(buffers::MAX_CALL_BYTES).unwrap()),
    ];
    all.extend(dolib::TYPES.map(|(name, value)| (name.to_owned(), value.into())));
    all.extend(others.map(|(name, value)| (name.to_owned(), value.into())));
    all
}

/// Returns the value of a constant of the headers.
pub fn constant(name: &str) -> Option<i64> {
    constants().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

fn header(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn types_and_values_are_the_same_in_c_and_in_rust() {
    let site = Site::new();
    let mut text = String::from(
        "#define PARIO_NO_MACROS\n#include <armci.h>\n#include <dolib.h>\n#include <donio.h>\n#include <gio.h>\n#include <nx.h>\n#include <stddef.h>\n#define SAME(type, call) \
         _Static_assert(__builtin_types_compatible_p(type, __typeof__(&call)), #call)\n",
    );
    text += &type_checks();
    for (name, value) in constants() {
        writeln!(text, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    for (name, signature) in calls() {
        // Calls with optional arguments in C.
        let signature = match name {
            "pfslib_open" => "int (*)(const char *, int, ...)",
            "pario_fcntl" => "int (*)(int, int, ...)",
            // A long in Rust, on this platform.
            "armci_msg_llgop" | "armci_msg_clus_llgop" => "void (*)(long long *, int, char *)",
            "armci_msg_group_llgop" => "void (*)(long long *, int, char *, int *)",
            "pario_openat" => "int (*)(int, const char *, int, ...)",
            _ => &signature,
        };
        writeln!(text, "SAME({signature}, {name});").unwrap();
    }
    text += "int main(void) { return 0; }\n";
    let source = site.dir.path().join("same.c");
    std::fs::write(&source, text).unwrap();
    site.compile(&source);
}

/// Returns the names that the headers declare as functions.
fn declared() -> BTreeSet<String> {
    declared_in(&["pfslib.h", "nx.h", "pfs/pfs.h", "donio.h", "dolib.h", "gio.h", "armci.h"])
}

/// Returns the names that some headers declare as functions.
pub fn declared_in(names: &[&str]) -> BTreeSet<String> {
    let text = names.iter().map(|name| header(name)).collect::<String>();
    let is_declaration = |line: &&str| {
        let types =
            ["int ", "long ", "void ", "float ", "double ", "off_t ", "ssize_t ", "int64_t "];
        [
            &types[..],
            &["const char ", "char ", "DIR ", "struct dirent ", "ARMCI_Callback_handle_t "],
        ]
        .concat()
        .iter()
        .any(|start| line.starts_with(start))
    };
    let name = |line: &str| {
        let before = line.split('(').next().unwrap();
        before.rsplit([' ', '*']).next().unwrap().to_owned()
    };
    text.lines().filter(is_declaration).map(name).collect()
}

#[test]
fn no_call_is_missing() {
    let known: BTreeSet<String> = calls().into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(declared(), known);
    let library = prefix().join("lib/libpario.so");
    let symbols = run_ok(Command::new("nm").args(["-D", "--defined-only"]).arg(library)).stdout;
    let symbols = String::from_utf8(symbols).unwrap();
    let exported: BTreeSet<String> =
        symbols.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
    let fortran = fortran::NAMES.iter().chain(&fortran_units::NAMES).map(|name| (*name).to_owned());
    assert_eq!(exported, known.into_iter().chain(fortran).collect());
}

#[test]
fn no_constant_is_missing() {
    let names = ["pfslib.h", "pfslib_errno.h", "nx.h", "pfs/pfs.h", "donio.h", "dolib.h", "gio.h"];
    let text = names.map(header).concat() + &header("armci.h");
    let defined = |line: &str| {
        let name = line.strip_prefix("#define ")?.split(' ').next()?;
        let is_guard = name.ends_with("_H");
        let is_macro = name.contains('(') || !name.contains(|letter: char| letter.is_uppercase());
        (!is_guard && !is_macro).then(|| name.to_owned())
    };
    let defined: BTreeSet<String> = text.lines().filter_map(defined).collect();
    let known: BTreeSet<String> = constants().into_iter().map(|(name, _)| name).collect();
    assert_eq!(defined, known);
}

/// Programs in strict C can include the headers, and the system's after them.
#[test]
fn strict_c_programs_can_include_them() {
    let site = Site::new();
    let source = site.dir.path().join("strict.c");
    let text = "#include <nx.h>\n#include <fcntl.h>\n#include <pfs/pfs.h>\n#include <sys/stat.h>\n\
                #include <dirent.h>\n#include <stdio.h>\n#include <unistd.h>\n\
                int main(void) { struct stat s; return stat(\"/\", &s) + FALSE; }\n";
    std::fs::write(&source, text).unwrap();
    for options in [&["-std=c99"][..], &["-std=gnu89"], &["-D_FILE_OFFSET_BITS=64", "-O2"]] {
        let mut compiler = Command::new("gcc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-c", "-o", "/dev/null"]).args(options);
        run_ok(compiler.arg(&source).arg("-I").arg(prefix().join("include")));
    }
}

/// C++ programs can include the headers.
#[test]
fn cpp_programs_can_include_them() {
    let site = Site::new();
    let source = site.dir.path().join("plus.cpp");
    let text = "#include <armci.h>\n#include <message.h>\n#include <armci_msg.h>\n#include <dolib.h>\n#include <donio.h>\n#include <gio.h>\n\
                #include <nx.h>\nint main() { return iomode(-1) == 0; }\n";
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("g++");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-c", "-o", "/dev/null"]).arg(source);
    run_ok(compiler.arg("-I").arg(prefix().join("include")));
}
