/*
 * The preload library, for programs that cannot be compiled again. It takes the system calls that
 * concern shared files and passes all others to the system. by_name.c has the calls by name,
 * directories.c the directory streams, streams.c the stdio streams, and passed.c the calls that see
 * no shared files. report.c prints which calls the library took and why.
 *
 * pfslib_open decides by the name which files are shared. Calls that this library itself makes go
 * to the system, for any file.
 */
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

_Thread_local int inside;

void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) {
    fprintf(stderr, "pario: the preload library cannot find %s in the C library\n", name);
    abort();
  }
  return found;
}

/* Finds the shared files that this process has inherited; standard streams may be among them. */
__attribute__((constructor)) static void inherit(void) {
  inside++;
  int standard = pario_inherit_descriptors();
  inside--;
  for (int fd = 0; fd < 3; fd++)
    if ((standard & 1 << fd) != 0) standard_changed(fd);
}

/*
 * A child of vfork has the memory of its parent and its own descriptors: the table of descriptors
 * would be wrong in one of them.
 */
pid_t vfork(void) { return fork(); }

typedef int open_call(const char *, int, ...);
typedef int openat_call(int, const char *, int, ...);
typedef ssize_t read_call(int, void *, size_t);
typedef ssize_t write_call(int, const void *, size_t);
typedef ssize_t vector_call(int, const struct iovec *, int);
typedef ssize_t pread_call(int, void *, size_t, off_t);
typedef ssize_t pwrite_call(int, const void *, size_t, off_t);
typedef off_t lseek_call(int, off_t, int);
typedef int fd_call(int);
typedef int ftruncate_call(int, off_t);
typedef int fstat_call(int, struct stat *);
typedef int fcntl_call(int, int, ...);
typedef int lockf_call(int, int, off_t);
typedef ssize_t read_chk_call(int, void *, size_t, size_t);

#define MODE_OF(flags, mode)                                                                       \
  mode_t mode = 0;                                                                                 \
  if (((flags) & O_CREAT) != 0 || ((flags) & O_TMPFILE) == O_TMPFILE) {                            \
    va_list rest;                                                                                  \
    va_start(rest, flags);                                                                         \
    mode = va_arg(rest, mode_t);                                                                   \
    va_end(rest);                                                                                  \
  }

/* O_NONBLOCK has no effect on plain files, and programs set it without need: it is left out. */
int open(const char *name, int flags, ...) {
  NEXT(open_call *, "open")
  MODE_OF(flags, mode)
  int rule = rule_of(name);
  if (rule != 0)
    TAKEN_BY_NAME(OPEN, "open", name, rule,
                  standard_opened(pfslib_open(name, flags & ~O_NONBLOCK, mode)));
  return system_call(name, flags, mode);
}

int open64(const char *name, int flags, ...) {
  NEXT(open_call *, "open64")
  MODE_OF(flags, mode)
  int rule = rule_of(name);
  if (rule != 0)
    TAKEN_BY_NAME(OPEN, "open", name, rule,
                  standard_opened(pfslib_open(name, flags & ~O_NONBLOCK, mode)));
  return system_call(name, flags, mode);
}

int openat(int directory, const char *name, int flags, ...) {
  NEXT(openat_call *, "openat")
  MODE_OF(flags, mode)
  int rule = rule_at(directory, name);
  if (rule != 0)
    TAKEN_BY_NAME(OPEN, "open", name, rule,
                  standard_opened(pario_openat(directory, name, flags & ~O_NONBLOCK, mode)));
  return system_call(directory, name, flags, mode);
}

int openat64(int directory, const char *name, int flags, ...) {
  NEXT(openat_call *, "openat64")
  MODE_OF(flags, mode)
  int rule = rule_at(directory, name);
  if (rule != 0)
    TAKEN_BY_NAME(OPEN, "open", name, rule,
                  standard_opened(pario_openat(directory, name, flags & ~O_NONBLOCK, mode)));
  return system_call(directory, name, flags, mode);
}

int creat(const char *name, mode_t mode) {
  return open(name, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int creat64(const char *name, mode_t mode) {
  return open64(name, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

/* The forms of open and read that are checked at run time (_FORTIFY_SOURCE). */
int __open_2(const char *name, int flags) { return open(name, flags); }

int __open64_2(const char *name, int flags) { return open64(name, flags); }

int __openat_2(int directory, const char *name, int flags) { return openat(directory, name, flags); }

int __openat64_2(int directory, const char *name, int flags) {
  return openat64(directory, name, flags);
}

ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room) {
  NEXT(read_chk_call *, "__read_chk")
  if (bytes <= room && is_ours(fd)) TAKEN(READ, ssize_t, pario_read(fd, buffer, bytes));
  return system_call(fd, buffer, bytes, room);
}

ssize_t read(int fd, void *buffer, size_t bytes) {
  NEXT(read_call *, "read")
  if (is_ours(fd)) TAKEN(READ, ssize_t, pario_read(fd, buffer, bytes));
  return system_call(fd, buffer, bytes);
}

ssize_t write(int fd, const void *buffer, size_t bytes) {
  NEXT(write_call *, "write")
  if (is_ours(fd)) TAKEN(WRITE, ssize_t, pario_write(fd, buffer, bytes));
  return system_call(fd, buffer, bytes);
}

ssize_t readv(int fd, const struct iovec *pieces, int count) {
  NEXT(vector_call *, "readv")
  if (is_ours(fd)) TAKEN(READV, ssize_t, pario_readv(fd, pieces, count));
  return system_call(fd, pieces, count);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
  NEXT(vector_call *, "writev")
  if (is_ours(fd)) TAKEN(WRITEV, ssize_t, pario_writev(fd, pieces, count));
  return system_call(fd, pieces, count);
}

ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset) {
  NEXT(pread_call *, "pread")
  if (is_ours(fd)) TAKEN(PREAD, ssize_t, pario_pread(fd, buffer, bytes, offset));
  return system_call(fd, buffer, bytes, offset);
}

ssize_t pread64(int fd, void *buffer, size_t bytes, off_t offset) {
  NEXT(pread_call *, "pread64")
  if (is_ours(fd)) TAKEN(PREAD, ssize_t, pario_pread(fd, buffer, bytes, offset));
  return system_call(fd, buffer, bytes, offset);
}

ssize_t pwrite(int fd, const void *buffer, size_t bytes, off_t offset) {
  NEXT(pwrite_call *, "pwrite")
  if (is_ours(fd)) TAKEN(PWRITE, ssize_t, pario_pwrite(fd, buffer, bytes, offset));
  return system_call(fd, buffer, bytes, offset);
}

ssize_t pwrite64(int fd, const void *buffer, size_t bytes, off_t offset) {
  NEXT(pwrite_call *, "pwrite64")
  if (is_ours(fd)) TAKEN(PWRITE, ssize_t, pario_pwrite(fd, buffer, bytes, offset));
  return system_call(fd, buffer, bytes, offset);
}

off_t lseek(int fd, off_t offset, int whence) {
  NEXT(lseek_call *, "lseek")
  if (is_ours(fd)) TAKEN(LSEEK, off_t, pfslib_lseek(fd, offset, whence));
  return system_call(fd, offset, whence);
}

off_t lseek64(int fd, off_t offset, int whence) {
  NEXT(lseek_call *, "lseek64")
  if (is_ours(fd)) TAKEN(LSEEK, off_t, pfslib_lseek(fd, offset, whence));
  return system_call(fd, offset, whence);
}

int fsync(int fd) {
  NEXT(fd_call *, "fsync")
  if (is_ours(fd)) TAKEN(FSYNC, int, pario_fsync(fd));
  return system_call(fd);
}

int fdatasync(int fd) {
  NEXT(fd_call *, "fdatasync")
  if (is_ours(fd)) TAKEN(FSYNC, int, pario_fsync(fd));
  return system_call(fd);
}

int ftruncate(int fd, off_t len) {
  NEXT(ftruncate_call *, "ftruncate")
  if (is_ours(fd)) TAKEN(FTRUNCATE, int, pario_ftruncate(fd, len));
  return system_call(fd, len);
}

int ftruncate64(int fd, off_t len) {
  NEXT(ftruncate_call *, "ftruncate64")
  if (is_ours(fd)) TAKEN(FTRUNCATE, int, pario_ftruncate(fd, len));
  return system_call(fd, len);
}

int fstat(int fd, struct stat *status) {
  NEXT(fstat_call *, "fstat")
  if (is_ours(fd)) TAKEN(FSTAT, int, pario_fstat(fd, status));
  return system_call(fd, status);
}

int fstat64(int fd, struct stat64 *status) {
  NEXT(fstat_call *, "fstat64")
  if (is_ours(fd)) TAKEN(FSTAT, int, pario_fstat(fd, (struct stat *)status));
  return system_call(fd, (struct stat *)status);
}

int dup(int fd) {
  NEXT(fd_call *, "dup")
  if (is_ours(fd)) TAKEN(DUP, int, standard_opened(pario_dup(fd)));
  return system_call(fd);
}

int dup2(int fd, int number) {
  typedef int dup2_call(int, int);
  NEXT(dup2_call *, "dup2")
  if (is_ours(fd) || is_ours(number)) {
    standard_changes(number);
    TAKEN(DUP, int, standard_opened(pario_dup2(fd, number)));
  }
  return system_call(fd, number);
}

int dup3(int fd, int number, int flags) {
  typedef int dup3_call(int, int, int);
  NEXT(dup3_call *, "dup3")
  if (is_ours(fd) || is_ours(number)) {
    standard_changes(number);
    TAKEN(DUP, int, standard_opened(pario_dup3(fd, number, flags)));
  }
  return system_call(fd, number, flags);
}

static long argument_of(va_list rest) { return va_arg(rest, long); }

int fcntl(int fd, int command, ...) {
  NEXT(fcntl_call *, "fcntl")
  va_list rest;
  va_start(rest, command);
  long argument = argument_of(rest);
  va_end(rest);
  if (is_ours(fd)) TAKEN(FCNTL, int, pario_fcntl(fd, command, argument));
  return system_call(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
  NEXT(fcntl_call *, "fcntl64")
  va_list rest;
  va_start(rest, command);
  long argument = argument_of(rest);
  va_end(rest);
  if (is_ours(fd)) TAKEN(FCNTL, int, pario_fcntl(fd, command, argument));
  return system_call(fd, command, argument);
}

int lockf(int fd, int command, off_t len) {
  NEXT(lockf_call *, "lockf")
  if (is_ours(fd)) TAKEN(LOCKF, int, pario_lockf(fd, command, len));
  return system_call(fd, command, len);
}

int lockf64(int fd, int command, off_t len) {
  NEXT(lockf_call *, "lockf64")
  if (is_ours(fd)) TAKEN(LOCKF, int, pario_lockf(fd, command, len));
  return system_call(fd, command, len);
}

int close(int fd) {
  NEXT(fd_call *, "close")
  if (is_ours(fd)) TAKEN(CLOSE, int, pfslib_close(fd));
  return system_call(fd);
}
