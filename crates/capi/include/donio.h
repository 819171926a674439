/*
 * Files in the memory of all processes of a job: the calls of DONIO, served by Pario.
 *
 * do_nio, do_open, do_lsize, do_flush and do_close are called by all processes together, and wait for
 * all; the others are each process' own. A call that fails returns -1 and sets errno, for all
 * processes if they have called it together; pfslib_perror (pfslib.h) says more.
 * docs/c-interface.md tells the rest.
 */
#ifndef DONIO_H
#define DONIO_H

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

/*
 * The manual gives O_CREAT the number 512, which is O_TRUNC on this system. Both are understood:
 * with O_CREAT of <fcntl.h>, O_TRUNC means what it means to open; without, 512 means that the file is
 * created if it is not there, and not that it is emptied.
 */
#define DO_CREAT 512

/*
 * Next to the other flags of do_open: do_flush and do_close write the whole file anew, beside the old
 * one, and put it in its place when it is durable. A crash leaves the old file or the new one.
 */
#define DO_REPLACE 0x10000000

#ifdef __cplusplus
extern "C" {
#endif

/* This is process MyId of NProc. Called before all others. */
int do_nio(int MyId, int NProc);

/*
 * O_RDONLY, O_RDWR, or O_WRONLY, which empties a file that is there; O_APPEND lets every write go to
 * the end. Names that contain "pfs" are files of the cluster, and all others of the machine.
 */
int do_open(const char *Path, int Flags, int Mode);

/*
 * The same for a file that need not fit into memory: all processes together keep about so many bytes of
 * it there. What was written may get to the disk before do_flush. Not with DO_REPLACE, and for a
 * file of the machine only if all processes are on it.
 */
int do_open_within(const char *Path, int Flags, int Mode, int64_t Memory);

/* How long the file can become: needed before the first write. Too much does no harm. */
int do_lsize(int FileDescriptor, int NBytes);
int64_t do_lsize64(int FileDescriptor, int64_t NBytes);

/* The pointer is the process' own; with SEEK_END it counts from the highest byte anybody has written. */
int do_lseek(int FileDescriptor, int Offset, int Whence);
int64_t do_lseek64(int FileDescriptor, int64_t Offset, int Whence);

/* All bytes, or an error: there is nothing behind the end, nor behind what do_lsize has said. */
int do_read(int FileDescriptor, void *Buffer, int NBytes);
int64_t do_read64(int FileDescriptor, void *Buffer, int64_t NBytes);
int do_write(int FileDescriptor, const void *Buffer, int NBytes);
int64_t do_write64(int FileDescriptor, const void *Buffer, int64_t NBytes);

/* What was written is durable when they return. do_close closes the descriptor also if it fails. */
int do_flush(int FileDescriptor);
int do_close(int FileDescriptor);

#ifdef __cplusplus
}
#endif

#endif
