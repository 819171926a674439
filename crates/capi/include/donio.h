/*
 * Cached files: files in the memory of all processes of a job. The calls are those of DONIO.
 *
 * do_nio, do_open, do_lsize, do_flush and do_close are collective: all processes call them. The
 * other calls need no other process. On failure a call returns -1 and sets errno; a collective call
 * fails on all processes. pfslib_perror (pfslib.h) prints the cause. docs/c-interface.md has more.
 */
#ifndef DONIO_H
#define DONIO_H

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

/*
 * The manual's O_CREAT is 512, which is O_TRUNC on Linux. Both work: together with O_CREAT of
 * <fcntl.h>, 512 is O_TRUNC; without it, 512 creates a missing file and never empties one.
 */
#define DO_CREAT 512

/*
 * A flag of do_open: do_flush and do_close write the whole file anew, beside the old one, and
 * replace the old one when the new one is durable. After a crash the file is the old one or the new
 * one.
 */
#define DO_REPLACE 0x10000000

#ifdef __cplusplus
extern "C" {
#endif

/* This is process MyId of NProc. The first call of a program. */
int do_nio(int MyId, int NProc);

/*
 * O_RDONLY, O_RDWR, or O_WRONLY, which empties an existing file. With O_APPEND every write goes to
 * the end. Names that contain "pfs" are files of the cluster, all others plain files.
 */
int do_open(const char *Path, int Flags, int Mode);

/*
 * The same for a file that may exceed memory: all processes together keep about Memory bytes of it.
 * Written bytes may reach the disk before do_flush. Not with DO_REPLACE; for a plain file, all
 * processes must run on one machine.
 */
int do_open_within(const char *Path, int Flags, int Mode, int64_t Memory);

/* Reserves room for NBytes: needed before the first write. Too much room costs nothing. */
int do_lsize(int FileDescriptor, int NBytes);
int64_t do_lsize64(int FileDescriptor, int64_t NBytes);

/*
 * Moves this process' pointer. SEEK_END counts from the highest byte that any process has written.
 */
int do_lseek(int FileDescriptor, int Offset, int Whence);
int64_t do_lseek64(int FileDescriptor, int64_t Offset, int Whence);

/* Transfer all bytes or fail: reads end at the end of the file, writes at the size of do_lsize. */
int do_read(int FileDescriptor, void *Buffer, int NBytes);
int64_t do_read64(int FileDescriptor, void *Buffer, int64_t NBytes);
int do_write(int FileDescriptor, const void *Buffer, int NBytes);
int64_t do_write64(int FileDescriptor, const void *Buffer, int64_t NBytes);

/* When they return, all writes are durable. do_close closes the descriptor even if it fails. */
int do_flush(int FileDescriptor);
int do_close(int FileDescriptor);

#ifdef __cplusplus
}
#endif

#endif
