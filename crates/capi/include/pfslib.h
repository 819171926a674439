/*
 * Shared files of the processes of a job: the calls of PFSLib, served by Pario.
 *
 * On failure a call whose name begins with an underscore returns -1 and sets errno; the same call
 * without the underscore prints the error and ends the process. docs/c-interface.md has more.
 */
#ifndef PFSLIB_H
#define PFSLIB_H

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pfslib_errno.h"

/* Modes: which pointer an access uses, and in which order accesses happen. */
#define M_UNIX 0   /* private pointer; overlapping accesses of any processes are atomic */
#define M_LOG 1    /* shared pointer, in order of arrival */
#define M_SYNC 2   /* shared pointer, in order of ranks, any sizes */
#define M_RECORD 3 /* private pointer; records of one size, interleaved by rank */
#define M_GLOBAL 4 /* shared pointer; all make the same call, and it is done once */
#define M_ASYNC 5  /* as M_UNIX, but overlapping accesses may mix */

/* The base of the offset of lsize. */
#define SIZE_SET SEEK_SET
#define SIZE_CUR SEEK_CUR
#define SIZE_END SEEK_END

/* Most bytes per call. */
#define PFSLIB_MAX_BYTES 0x7fffffff

#ifdef __cplusplus
extern "C" {
#endif

void pfslib_init(const char *PfsdHostName, int NumberOfClients, int MyNumber);
void _pfslib_init(const char *PfsdHostName, int NumberOfClients, int MyNumber, int ServerThreshold,
                  int ClientThreshold);
void pfslib_perror(const char *String);

/* O_CREAT needs the third argument, a mode_t. */
int pfslib_open(const char *FileName, int OpenFlags, ...);
int _pfslib_open(const char *FileName, int OpenFlags, mode_t Mode, int IOMode, int NumberOfClients,
                 int MyNumber, int GlobalFlag);
int gopen(const char *FileName, int OpenFlags, int IOMode, mode_t Mode);
int _gopen(const char *FileName, int OpenFlags, int IOMode, mode_t Mode);
int pfslib_close(int FileDescriptor);
off_t pfslib_lseek(int FileDescriptor, off_t Offset, int Whence);

long iomode(int FileDescriptor);
long _iomode(int FileDescriptor);
void setiomode(int FileDescriptor, int IOMode);
long _setiomode(int FileDescriptor, int IOMode);
long iseof(int FileDescriptor);
long _iseof(int FileDescriptor);
long lsize(int FileDescriptor, off_t Offset, int Whence);
long _lsize(int FileDescriptor, off_t Offset, int Whence);

void cread(int FileDescriptor, void *Buffer, unsigned int NBytes);
long _cread(int FileDescriptor, void *Buffer, unsigned int NBytes);
void creadv(int FileDescriptor, const struct iovec *iov, int iovCount);
long _creadv(int FileDescriptor, const struct iovec *iov, int iovCount);
void cwrite(int FileDescriptor, const void *Buffer, unsigned int NBytes);
long _cwrite(int FileDescriptor, const void *Buffer, unsigned int NBytes);
void cwritev(int FileDescriptor, const struct iovec *iov, int iovCount);
long _cwritev(int FileDescriptor, const struct iovec *iov, int iovCount);

/* Buffers belong to the request until iodone or iowait reports that it is over. */
long iread(int FileDescriptor, void *Buffer, unsigned int NBytes);
long _iread(int FileDescriptor, void *Buffer, unsigned int NBytes);
long ireadv(int FileDescriptor, const struct iovec *iov, int iovCount);
long _ireadv(int FileDescriptor, const struct iovec *iov, int iovCount);
long iwrite(int FileDescriptor, const void *Buffer, unsigned int NBytes);
long _iwrite(int FileDescriptor, const void *Buffer, unsigned int NBytes);
long iwritev(int FileDescriptor, const struct iovec *iov, int iovCount);
long _iwritev(int FileDescriptor, const struct iovec *iov, int iovCount);
long iodone(long IOIdentifier);
long _iodone(long IOIdentifier);
void iowait(long IOIdentifier);
long _iowait(long IOIdentifier);

#ifdef __cplusplus
}
#endif

/* System calls that also work on shared files; define PARIO_NO_MACROS to keep the system's. */
#ifndef PARIO_NO_MACROS
#define open pfslib_open
#define close pfslib_close
#define lseek pfslib_lseek
#endif

#endif
