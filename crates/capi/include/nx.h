/*
 * For programs written for the Paragon: pfslib.h, rank and size, striping, and the system calls that
 * such programs use on shared files, where they obey the mode. Sources that do not include this file
 * are compiled with `-include nx.h`, or run with the preload library.
 */
#ifndef PARIO_NX_H
#define PARIO_NX_H

#include <dirent.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <utime.h>

#include "pfs/pfs.h"
#include "pfslib.h"

/* The Paragon's name of "too many requests". */
#define EQNOMID EPFSLMREQUEST

#ifdef __cplusplus
extern "C" {
#endif

/* A program may define these itself; its own take precedence. */
long mynode(void);
long numnodes(void);
void gsync(void);
double dclock(void);

/* Replace each number by its sum over all processes; Work is unused. */
void gisum(long *Numbers, long Count, long *Work);
void gdsum(double *Numbers, long Count, double *Work);

/* The rule that a name matches; 0 for a plain name. */
#define PARIO_NAME_NUMBER 1   /* it contains ###: a plain file of this process */
#define PARIO_NAME_CONTAINS 2 /* it contains pfs: a shared file */
#define PARIO_NAME_BELOW 3    /* it is below PARIO_PREFIX: a shared file */
#define PARIO_NAME_RELATIVE 4 /* it is relative to a shared working directory: a shared file */
#define PARIO_NAME_LEAVES 5   /* it leads out of PARIO_PREFIX by "..": a plain file */
int pario_name_rule(const char *FileName);

int pario_is_shared(int FileDescriptor);
int pario_inherit_descriptors(void);
ssize_t pario_read(int FileDescriptor, void *Buffer, size_t NBytes);
ssize_t pario_write(int FileDescriptor, const void *Buffer, size_t NBytes);
ssize_t pario_readv(int FileDescriptor, const struct iovec *iov, int iovCount);
ssize_t pario_writev(int FileDescriptor, const struct iovec *iov, int iovCount);
ssize_t pario_pread(int FileDescriptor, void *Buffer, size_t NBytes, off_t Offset);
ssize_t pario_pwrite(int FileDescriptor, const void *Buffer, size_t NBytes, off_t Offset);
int pario_fsync(int FileDescriptor);
int pario_ftruncate(int FileDescriptor, off_t Length);
int pario_fstat(int FileDescriptor, struct stat *Status);
int pario_dup(int FileDescriptor);
int pario_dup2(int FileDescriptor, int Number);
int pario_dup3(int FileDescriptor, int Number, int Flags);
int pario_fcntl(int FileDescriptor, int Command, ...);
int pario_lockf(int FileDescriptor, int Command, off_t Length);

/* Calls by name. Directory is a descriptor, or AT_FDCWD. */
struct statx;
struct timespec;
struct timeval;
int pario_openat(int Directory, const char *FileName, int OpenFlags, ...);
int pario_access(const char *FileName, int Wanted);
int pario_faccessat(int Directory, const char *FileName, int Wanted, int Flags);
int pario_stat(const char *FileName, struct stat *Status);
int pario_lstat(const char *FileName, struct stat *Status);
int pario_fstatat(int Directory, const char *FileName, struct stat *Status, int Flags);
int pario_statx(int Directory, const char *FileName, int Flags, unsigned int Wanted,
                struct statx *Status);
int pario_truncate(const char *FileName, off_t Length);
int pario_mkdir(const char *FileName, mode_t Mode);
int pario_mkdirat(int Directory, const char *FileName, mode_t Mode);
int pario_rmdir(const char *FileName);
int pario_unlink(const char *FileName);
int pario_unlinkat(int Directory, const char *FileName, int Flags);
int pario_remove(const char *FileName);
int pario_rename(const char *FileName, const char *NewName);
int pario_renameat(int Directory, const char *FileName, int NewDirectory, const char *NewName);
int pario_chmod(const char *FileName, mode_t Mode);
int pario_fchmodat(int Directory, const char *FileName, mode_t Mode, int Flags);
int pario_fchmod(int FileDescriptor, mode_t Mode);
int pario_chown(const char *FileName, uid_t Owner, gid_t Group);
int pario_lchown(const char *FileName, uid_t Owner, gid_t Group);
int pario_fchownat(int Directory, const char *FileName, uid_t Owner, gid_t Group, int Flags);
int pario_fchown(int FileDescriptor, uid_t Owner, gid_t Group);
int pario_utimensat(int Directory, const char *FileName, const struct timespec *Times, int Flags);
int pario_futimens(int FileDescriptor, const struct timespec *Times);
int pario_utimes(const char *FileName, const struct timeval *Times);
int pario_utime(const char *FileName, const struct utimbuf *Times);
int pario_statvfs(const char *FileName, struct statvfs *Status);
int pario_fstatvfs(int FileDescriptor, struct statvfs *Status);
int pario_statfs(const char *FileName, struct statfs *Status);
int pario_fstatfs(int FileDescriptor, struct statfs *Status);

/* The working directory. Only this process knows a shared one. */
int pario_chdir(const char *FileName);
int pario_fchdir(int FileDescriptor);
char *pario_getcwd(char *Buffer, size_t NBytes);

/* Directory streams, of shared directories and of plain ones. */
DIR *pario_opendir(const char *FileName);
DIR *pario_fdopendir(int FileDescriptor);
struct dirent *pario_readdir(DIR *Directory);
int pario_closedir(DIR *Directory);
void pario_rewinddir(DIR *Directory);
long pario_telldir(DIR *Directory);
void pario_seekdir(DIR *Directory, long Position);
int pario_dirfd(DIR *Directory);
int pario_is_shared_stream(const DIR *Directory);

#ifdef __cplusplus
}
#endif

#ifndef PARIO_NO_MACROS
#define read pario_read
#define write pario_write
#define readv pario_readv
#define writev pario_writev
#define pread pario_pread
#define pwrite pario_pwrite
#define fsync pario_fsync
#define ftruncate pario_ftruncate
#define fstat pario_fstat
#define dup pario_dup
#define dup2 pario_dup2
#define dup3 pario_dup3
#define fcntl pario_fcntl
#define lockf pario_lockf
#define openat pario_openat
#define access pario_access
#define faccessat pario_faccessat
#define lstat pario_lstat
#define fstatat pario_fstatat
#define truncate pario_truncate
#define mkdir pario_mkdir
#define mkdirat pario_mkdirat
#define rmdir pario_rmdir
#define unlink pario_unlink
#define unlinkat pario_unlinkat
#define rename pario_rename
#define renameat pario_renameat
#define chmod pario_chmod
#define fchmodat pario_fchmodat
#define fchmod pario_fchmod
#define chown pario_chown
#define lchown pario_lchown
#define fchownat pario_fchownat
#define fchown pario_fchown
#define utimensat pario_utimensat
#define futimens pario_futimens
#define utimes pario_utimes
#define utime pario_utime
#define fstatvfs pario_fstatvfs
#define fstatfs pario_fstatfs
#define chdir pario_chdir
#define fchdir pario_fchdir
#define getcwd pario_getcwd
#define opendir pario_opendir
#define fdopendir pario_fdopendir
#define readdir pario_readdir
#define closedir pario_closedir
#define rewinddir pario_rewinddir
#define telldir pario_telldir
#define seekdir pario_seekdir
#define dirfd pario_dirfd
/* These are names of structures too: only their calls are replaced. */
#define stat(...) pario_stat(__VA_ARGS__)
#define statx(...) pario_statx(__VA_ARGS__)
#define statvfs(...) pario_statvfs(__VA_ARGS__)
#define statfs(...) pario_statfs(__VA_ARGS__)
/* A C++ program includes <cstdio> and <algorithm>, which have their own remove. */
#ifndef __cplusplus
#define remove pario_remove
#endif
#endif

#endif
