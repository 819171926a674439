/*
 * Calls by name that always go to the system: they see no shared files. The report says so if the
 * name is that of a shared file.
 */
#include "preload.h"

#include <dirent.h>
#include <stdlib.h>

static const char WHY[] = "this call supports plain files only";

static void check_name(const char *call, int directory, const char *name) {
  int rule = report_is_wanted() ? rule_at(directory, name) : 0;
  if (rule != 0 && rule != PARIO_NAME_NUMBER) report_passed(call, name, WHY);
}

/* Defines a call that checks one name for the report and goes to the system. */
#define PASSED(result, call, directory, name, parameters, arguments)                               \
  result call parameters {                                                                         \
    typedef result call_type parameters;                                                           \
    NEXT(call_type *, #call)                                                                       \
    check_name(#call, directory, name);                                                            \
    return system_call arguments;                                                                  \
  }

PASSED(int, stat, AT_FDCWD, name, (const char *restrict name, struct stat *restrict to), (name, to))
PASSED(int, stat64, AT_FDCWD, name, (const char *restrict name, struct stat64 *restrict to),
       (name, to))
PASSED(int, lstat, AT_FDCWD, name, (const char *restrict name, struct stat *restrict to),
       (name, to))
PASSED(int, lstat64, AT_FDCWD, name, (const char *restrict name, struct stat64 *restrict to),
       (name, to))
PASSED(int, fstatat, at, name,
       (int at, const char *restrict name, struct stat *restrict to, int flags),
       (at, name, to, flags))
PASSED(int, fstatat64, at, name,
       (int at, const char *restrict name, struct stat64 *restrict to, int flags),
       (at, name, to, flags))
PASSED(int, statx, at, name,
       (int at, const char *restrict name, int flags, unsigned wanted, struct statx *restrict to),
       (at, name, flags, wanted, to))
PASSED(int, access, AT_FDCWD, name, (const char *name, int how), (name, how))
PASSED(int, faccessat, at, name, (int at, const char *name, int how, int flags),
       (at, name, how, flags))
PASSED(int, truncate, AT_FDCWD, name, (const char *name, off_t len), (name, len))
PASSED(int, truncate64, AT_FDCWD, name, (const char *name, off64_t len), (name, len))
PASSED(int, chmod, AT_FDCWD, name, (const char *name, mode_t mode), (name, mode))
PASSED(int, mkdir, AT_FDCWD, name, (const char *name, mode_t mode), (name, mode))
PASSED(int, mkdirat, at, name, (int at, const char *name, mode_t mode), (at, name, mode))
PASSED(int, rmdir, AT_FDCWD, name, (const char *name), (name))
PASSED(int, chdir, AT_FDCWD, name, (const char *name), (name))
PASSED(DIR *, opendir, AT_FDCWD, name, (const char *name), (name))
PASSED(int, mkstemp, AT_FDCWD, name, (char *name), (name))
PASSED(int, mkstemp64, AT_FDCWD, name, (char *name), (name))
PASSED(int, mkostemp, AT_FDCWD, name, (char *name, int flags), (name, flags))
PASSED(int, mkostemp64, AT_FDCWD, name, (char *name, int flags), (name, flags))

int rename(const char *from, const char *to) {
  typedef int rename_call(const char *, const char *);
  NEXT(rename_call *, "rename")
  check_name("rename", AT_FDCWD, from);
  check_name("rename", AT_FDCWD, to);
  return system_call(from, to);
}

int renameat(int from_at, const char *from, int to_at, const char *to) {
  typedef int renameat_call(int, const char *, int, const char *);
  NEXT(renameat_call *, "renameat")
  check_name("renameat", from_at, from);
  check_name("renameat", to_at, to);
  return system_call(from_at, from, to_at, to);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
  typedef int renameat2_call(int, const char *, int, const char *, unsigned);
  NEXT(renameat2_call *, "renameat2")
  check_name("renameat2", from_at, from);
  check_name("renameat2", to_at, to);
  return system_call(from_at, from, to_at, to, flags);
}
