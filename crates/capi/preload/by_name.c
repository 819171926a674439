/*
 * Calls by name: on a name that the rule matches, and on a name relative to the descriptor of a
 * shared directory, they go to the library. Calls on descriptors that belong to them are here too.
 */
#include "preload.h"

#include <errno.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>

/* Defines a call that goes to the library because of its name. */
#define NAMED(call, count, label, directory, name, parameters, arguments, work)                    \
  int call parameters {                                                                            \
    typedef int call_type parameters;                                                              \
    NEXT(call_type *, #call)                                                                       \
    int rule = rule_at(directory, name);                                                           \
    if (rule != 0) TAKEN_BY_NAME(count, label, name, rule, work);                                  \
    return system_call arguments;                                                                  \
  }

/* Defines a call that goes to the library because of its descriptor. */
#define DESCRIBED(call, count, fd, parameters, arguments, work)                                    \
  int call parameters {                                                                            \
    typedef int call_type parameters;                                                              \
    NEXT(call_type *, #call)                                                                       \
    if (is_ours(fd)) TAKEN(count, int, work);                                                      \
    return system_call arguments;                                                                  \
  }

NAMED(access, ACCESS, "access", AT_FDCWD, name, (const char *name, int wanted), (name, wanted),
      pario_access(name, wanted))
NAMED(euidaccess, ACCESS, "access", AT_FDCWD, name, (const char *name, int wanted), (name, wanted),
      pario_access(name, wanted))
NAMED(eaccess, ACCESS, "access", AT_FDCWD, name, (const char *name, int wanted), (name, wanted),
      pario_access(name, wanted))
NAMED(faccessat, ACCESS, "access", at, name, (int at, const char *name, int wanted, int flags),
      (at, name, wanted, flags), pario_faccessat(at, name, wanted, flags))

NAMED(stat, STAT, "stat", AT_FDCWD, name, (const char *restrict name, struct stat *restrict to),
      (name, to), pario_stat(name, to))
NAMED(stat64, STAT, "stat", AT_FDCWD, name, (const char *restrict name, struct stat64 *restrict to),
      (name, to), pario_stat(name, (struct stat *)to))
NAMED(lstat, STAT, "stat", AT_FDCWD, name, (const char *restrict name, struct stat *restrict to),
      (name, to), pario_lstat(name, to))
NAMED(lstat64, STAT, "stat", AT_FDCWD, name,
      (const char *restrict name, struct stat64 *restrict to), (name, to),
      pario_lstat(name, (struct stat *)to))
NAMED(fstatat, STAT, "stat", at, name,
      (int at, const char *restrict name, struct stat *restrict to, int flags),
      (at, name, to, flags), pario_fstatat(at, name, to, flags))
NAMED(fstatat64, STAT, "stat", at, name,
      (int at, const char *restrict name, struct stat64 *restrict to, int flags),
      (at, name, to, flags), pario_fstatat(at, name, (struct stat *)to, flags))
NAMED(statx, STAT, "stat", at, name,
      (int at, const char *restrict name, int flags, unsigned wanted, struct statx *restrict to),
      (at, name, flags, wanted, to), pario_statx(at, name, flags, wanted, to))

/* The names that programs of older systems call. */
int __xstat(int version, const char *name, struct stat *to) {
  (void)version;
  return stat(name, to);
}

int __xstat64(int version, const char *name, struct stat64 *to) {
  (void)version;
  return stat64(name, to);
}

int __lxstat(int version, const char *name, struct stat *to) {
  (void)version;
  return lstat(name, to);
}

int __lxstat64(int version, const char *name, struct stat64 *to) {
  (void)version;
  return lstat64(name, to);
}

int __fxstat(int version, int fd, struct stat *to) {
  (void)version;
  return fstat(fd, to);
}

int __fxstat64(int version, int fd, struct stat64 *to) {
  (void)version;
  return fstat64(fd, to);
}

int __fxstatat(int version, int at, const char *name, struct stat *to, int flags) {
  (void)version;
  return fstatat(at, name, to, flags);
}

int __fxstatat64(int version, int at, const char *name, struct stat64 *to, int flags) {
  (void)version;
  return fstatat64(at, name, to, flags);
}

NAMED(truncate, TRUNCATE, "truncate", AT_FDCWD, name, (const char *name, off_t len), (name, len),
      pario_truncate(name, len))
NAMED(truncate64, TRUNCATE, "truncate", AT_FDCWD, name, (const char *name, off64_t len),
      (name, len), pario_truncate(name, len))

NAMED(mkdir, MKDIR, "mkdir", AT_FDCWD, name, (const char *name, mode_t mode), (name, mode),
      pario_mkdir(name, mode))
NAMED(mkdirat, MKDIR, "mkdir", at, name, (int at, const char *name, mode_t mode), (at, name, mode),
      pario_mkdirat(at, name, mode))
NAMED(rmdir, RMDIR, "rmdir", AT_FDCWD, name, (const char *name), (name), pario_rmdir(name))
NAMED(unlink, UNLINK, "unlink", AT_FDCWD, name, (const char *name), (name), pario_unlink(name))
NAMED(remove, UNLINK, "unlink", AT_FDCWD, name, (const char *name), (name), pario_remove(name))
NAMED(unlinkat, flags & AT_REMOVEDIR ? RMDIR : UNLINK, flags & AT_REMOVEDIR ? "rmdir" : "unlink",
      at, name, (int at, const char *name, int flags), (at, name, flags),
      pario_unlinkat(at, name, flags))

NAMED(chmod, CHMOD, "chmod", AT_FDCWD, name, (const char *name, mode_t mode), (name, mode),
      pario_chmod(name, mode))
NAMED(lchmod, CHMOD, "chmod", AT_FDCWD, name, (const char *name, mode_t mode), (name, mode),
      pario_chmod(name, mode))
NAMED(fchmodat, CHMOD, "chmod", at, name, (int at, const char *name, mode_t mode, int flags),
      (at, name, mode, flags), pario_fchmodat(at, name, mode, flags))
DESCRIBED(fchmod, CHMOD, fd, (int fd, mode_t mode), (fd, mode), pario_fchmod(fd, mode))
NAMED(chown, CHOWN, "chown", AT_FDCWD, name, (const char *name, uid_t owner, gid_t group),
      (name, owner, group), pario_chown(name, owner, group))
NAMED(lchown, CHOWN, "chown", AT_FDCWD, name, (const char *name, uid_t owner, gid_t group),
      (name, owner, group), pario_lchown(name, owner, group))
NAMED(fchownat, CHOWN, "chown", at, name,
      (int at, const char *name, uid_t owner, gid_t group, int flags),
      (at, name, owner, group, flags), pario_fchownat(at, name, owner, group, flags))
DESCRIBED(fchown, CHOWN, fd, (int fd, uid_t owner, gid_t group), (fd, owner, group),
          pario_fchown(fd, owner, group))

NAMED(utimensat, UTIMES, "utimes", at, name,
      (int at, const char *name, const struct timespec times[2], int flags),
      (at, name, times, flags), pario_utimensat(at, name, times, flags))
NAMED(utimes, UTIMES, "utimes", AT_FDCWD, name, (const char *name, const struct timeval times[2]),
      (name, times), pario_utimes(name, times))
NAMED(lutimes, UTIMES, "utimes", AT_FDCWD, name, (const char *name, const struct timeval times[2]),
      (name, times), pario_utimes(name, times))
NAMED(utime, UTIMES, "utimes", AT_FDCWD, name, (const char *name, const struct utimbuf *times),
      (name, times), pario_utime(name, times))
DESCRIBED(futimens, UTIMES, fd, (int fd, const struct timespec times[2]), (fd, times),
          pario_futimens(fd, times))

NAMED(statvfs, STATVFS, "statvfs", AT_FDCWD, name,
      (const char *restrict name, struct statvfs *restrict to), (name, to), pario_statvfs(name, to))
NAMED(statvfs64, STATVFS, "statvfs", AT_FDCWD, name,
      (const char *restrict name, struct statvfs64 *restrict to), (name, to),
      pario_statvfs(name, (struct statvfs *)to))
NAMED(statfs, STATVFS, "statvfs", AT_FDCWD, name, (const char *name, struct statfs *to), (name, to),
      pario_statfs(name, to))
NAMED(statfs64, STATVFS, "statvfs", AT_FDCWD, name, (const char *name, struct statfs64 *to),
      (name, to), pario_statfs(name, (struct statfs *)to))
DESCRIBED(fstatvfs, STATVFS, fd, (int fd, struct statvfs *to), (fd, to), pario_fstatvfs(fd, to))
DESCRIBED(fstatvfs64, STATVFS, fd, (int fd, struct statvfs64 *to), (fd, to),
          pario_fstatvfs(fd, (struct statvfs *)to))
DESCRIBED(fstatfs, STATVFS, fd, (int fd, struct statfs *to), (fd, to), pario_fstatfs(fd, to))
DESCRIBED(fstatfs64, STATVFS, fd, (int fd, struct statfs64 *to), (fd, to),
          pario_fstatfs(fd, (struct statfs *)to))

/* A call with two names goes to the library if either of them is that of a shared file. */
int renameat(int from_at, const char *from, int to_at, const char *to) {
  typedef int renameat_call(int, const char *, int, const char *);
  NEXT(renameat_call *, "renameat")
  int rule = rule_at(from_at, from), to_rule = rule_at(to_at, to);
  if (rule != 0 || to_rule != 0)
    TAKEN_BY_NAME(RENAME, "rename", rule != 0 ? from : to, rule != 0 ? rule : to_rule,
                  pario_renameat(from_at, from, to_at, to));
  return system_call(from_at, from, to_at, to);
}

int rename(const char *from, const char *to) {
  typedef int rename_call(const char *, const char *);
  NEXT(rename_call *, "rename")
  if (rule_of(from) != 0 || rule_of(to) != 0) return renameat(AT_FDCWD, from, AT_FDCWD, to);
  return system_call(from, to);
}

/* Programs try another way when the flags are not supported. */
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
  typedef int renameat2_call(int, const char *, int, const char *, unsigned);
  NEXT(renameat2_call *, "renameat2")
  if (rule_at(from_at, from) == 0 && rule_at(to_at, to) == 0)
    return system_call(from_at, from, to_at, to, flags);
  if (flags == 0) return renameat(from_at, from, to_at, to);
  errno = EINVAL;
  return -1;
}

/* Shared files have no extended attributes. */
static ssize_t no_attributes(void) {
  errno = ENOTSUP;
  return -1;
}

#define ATTRIBUTES(result, call, is_shared, parameters, arguments)                                 \
  result call parameters {                                                                         \
    typedef result call_type parameters;                                                           \
    NEXT(call_type *, #call)                                                                       \
    return is_shared ? (result)no_attributes() : system_call arguments;                            \
  }

ATTRIBUTES(ssize_t, getxattr, rule_of(name) != 0,
           (const char *name, const char *key, void *to, size_t room), (name, key, to, room))
ATTRIBUTES(ssize_t, lgetxattr, rule_of(name) != 0,
           (const char *name, const char *key, void *to, size_t room), (name, key, to, room))
ATTRIBUTES(ssize_t, fgetxattr, is_ours(fd), (int fd, const char *key, void *to, size_t room),
           (fd, key, to, room))
ATTRIBUTES(ssize_t, listxattr, rule_of(name) != 0, (const char *name, char *to, size_t room),
           (name, to, room))
ATTRIBUTES(ssize_t, llistxattr, rule_of(name) != 0, (const char *name, char *to, size_t room),
           (name, to, room))
ATTRIBUTES(ssize_t, flistxattr, is_ours(fd), (int fd, char *to, size_t room), (fd, to, room))
ATTRIBUTES(int, setxattr, rule_of(name) != 0,
           (const char *name, const char *key, const void *from, size_t bytes, int flags),
           (name, key, from, bytes, flags))
ATTRIBUTES(int, lsetxattr, rule_of(name) != 0,
           (const char *name, const char *key, const void *from, size_t bytes, int flags),
           (name, key, from, bytes, flags))
ATTRIBUTES(int, fsetxattr, is_ours(fd),
           (int fd, const char *key, const void *from, size_t bytes, int flags),
           (fd, key, from, bytes, flags))

/* Copies inside the kernel are not possible; programs copy with read and write then. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes,
                        unsigned flags) {
  typedef ssize_t copy_call(int, off64_t *, int, off64_t *, size_t, unsigned);
  NEXT(copy_call *, "copy_file_range")
  if (!is_ours(from) && !is_ours(to)) return system_call(from, from_at, to, to_at, bytes, flags);
  errno = EXDEV;
  return -1;
}

ssize_t sendfile(int to, int from, off_t *from_at, size_t bytes) {
  typedef ssize_t sendfile_call(int, int, off_t *, size_t);
  NEXT(sendfile_call *, "sendfile")
  if (!is_ours(from) && !is_ours(to)) return system_call(to, from, from_at, bytes);
  errno = EINVAL;
  return -1;
}

ssize_t sendfile64(int to, int from, off64_t *from_at, size_t bytes) {
  return sendfile(to, from, from_at, bytes);
}

/* Advice has no effect on shared files. */
int posix_fadvise(int fd, off_t offset, off_t len, int advice) {
  typedef int advise_call(int, off_t, off_t, int);
  NEXT(advise_call *, "posix_fadvise")
  return is_ours(fd) ? 0 : system_call(fd, offset, len, advice);
}

int posix_fadvise64(int fd, off64_t offset, off64_t len, int advice) {
  return posix_fadvise(fd, offset, len, advice);
}
