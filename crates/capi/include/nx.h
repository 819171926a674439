/*
 * For programs written for the Paragon: pfslib.h, rank and size, and the system calls that such
 * programs use on shared files, where they obey the mode.
 */
#ifndef PARIO_NX_H
#define PARIO_NX_H

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
int pario_name_rule(const char *FileName);

int pario_is_shared(int FileDescriptor);
ssize_t pario_read(int FileDescriptor, void *Buffer, size_t NBytes);
ssize_t pario_write(int FileDescriptor, const void *Buffer, size_t NBytes);
ssize_t pario_readv(int FileDescriptor, const struct iovec *iov, int iovCount);
ssize_t pario_writev(int FileDescriptor, const struct iovec *iov, int iovCount);
ssize_t pario_pread(int FileDescriptor, void *Buffer, size_t NBytes, off_t Offset);
ssize_t pario_pwrite(int FileDescriptor, const void *Buffer, size_t NBytes, off_t Offset);
int pario_fsync(int FileDescriptor);
int pario_ftruncate(int FileDescriptor, off_t Length);
int pario_fstat(int FileDescriptor, struct stat *Status);
int pario_fcntl(int FileDescriptor, int Command, ...);
int pario_lockf(int FileDescriptor, int Command, off_t Length);
int pario_unlink(const char *FileName);

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
#define fcntl pario_fcntl
#define lockf pario_lockf
#define unlink pario_unlink
#endif

#endif
