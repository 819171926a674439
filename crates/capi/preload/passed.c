/*
 * Calls by name that always go to the system: they see no shared files. The report says so if the
 * name is that of a shared file.
 */
#include "preload.h"

#include <ftw.h>
#include <glob.h>
#include <stdlib.h>

static const char WHY[] = "this call supports plain files only";

static void check_name(const char *call, int directory, const char *name) {
  int rule = report_is_wanted() ? rule_at(directory, name) : 0;
  if (is_shared_rule(rule)) report_passed(call, name, WHY);
}

/* Defines a call that checks one name for the report and goes to the system. */
#define PASSED(result, call, directory, name, parameters, arguments)                               \
  result call parameters {                                                                         \
    typedef result call_type parameters;                                                           \
    NEXT(call_type *, #call)                                                                       \
    check_name(#call, directory, name);                                                            \
    return system_call arguments;                                                                  \
  }

PASSED(int, chroot, AT_FDCWD, name, (const char *name), (name))
PASSED(int, mkstemp, AT_FDCWD, name, (char *name), (name))
PASSED(int, mkstemp64, AT_FDCWD, name, (char *name), (name))
PASSED(int, mkostemp, AT_FDCWD, name, (char *name, int flags), (name, flags))
PASSED(int, mkostemp64, AT_FDCWD, name, (char *name, int flags), (name, flags))
PASSED(char *, mkdtemp, AT_FDCWD, name, (char *name), (name))
PASSED(int, mkfifo, AT_FDCWD, name, (const char *name, mode_t mode), (name, mode))
PASSED(int, symlink, AT_FDCWD, name, (const char *to, const char *name), (to, name))
PASSED(int, symlinkat, at, name, (const char *to, int at, const char *name), (to, at, name))
PASSED(int, link, AT_FDCWD, name, (const char *from, const char *name), (from, name))
PASSED(int, linkat, to_at, name,
       (int from_at, const char *from, int to_at, const char *name, int flags),
       (from_at, from, to_at, name, flags))
PASSED(ssize_t, readlink, AT_FDCWD, name,
       (const char *restrict name, char *restrict to, size_t room), (name, to, room))
PASSED(ssize_t, readlinkat, at, name,
       (int at, const char *restrict name, char *restrict to, size_t room), (at, name, to, room))
PASSED(char *, realpath, AT_FDCWD, name, (const char *restrict name, char *restrict to), (name, to))
PASSED(int, nftw, AT_FDCWD, name, (const char *name, __nftw_func_t work, int room, int flags),
       (name, work, room, flags))
PASSED(int, glob, AT_FDCWD, name,
       (const char *restrict name, int flags, int (*failed)(const char *, int),
        glob_t *restrict found),
       (name, flags, failed, found))
