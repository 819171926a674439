/* Declarations that the parts of the preload library share. */
#ifndef PARIO_PRELOAD_H
#define PARIO_PRELOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define PARIO_NO_MACROS
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "nx.h"

/* Calls that the library takes, as the report counts them. */
enum call {
  OPEN, READ, WRITE, READV, WRITEV, PREAD, PWRITE, LSEEK, FSYNC, FTRUNCATE, FSTAT, FCNTL, LOCKF,
  CLOSE, UNLINK, FOPEN, FDOPEN, ACCESS, STAT, TRUNCATE, MKDIR, RMDIR, RENAME, CHMOD, CHOWN, UTIMES,
  STATVFS, OPENDIR, READDIR, CLOSEDIR, CHDIR, DUP, CALLS
};

/* The rule of a name that is relative to the descriptor of a shared directory. */
enum { RULE_DIRECTORY = 100 };

/* Above 0 while this thread runs code of the library, whose own calls go to the system. */
extern _Thread_local int inside __attribute__((visibility("hidden")));

/* Returns the system's function of a name. Aborts the process if there is none. */
__attribute__((visibility("hidden"))) void *next(const char *name);

/* Returns whether the environment asks for the report. */
__attribute__((visibility("hidden"))) int report_is_wanted(void);

/* Counts a call that the library took. */
__attribute__((visibility("hidden"))) void count_taken(enum call call);

/* Reports, once per call and name, that a call is taken because of the name. */
__attribute__((visibility("hidden"))) void report_match(const char *call, const char *name, int rule);

/* Reports, once per call and name, why a call that was taken because of the name failed. */
__attribute__((visibility("hidden"))) void report_failure(const char *call, const char *name);

/*
 * Reports, once per call and name, that a call goes to the system although the name is that of a
 * shared file.
 */
__attribute__((visibility("hidden"))) void report_passed(const char *call, const char *name,
                                                         const char *why);

/* Flushes the streams of shared files. */
__attribute__((visibility("hidden"))) void flush_streams(void);

/* Flushes a standard stream whose descriptor (0 to 2) is about to become that of another file. */
__attribute__((visibility("hidden"))) void standard_changes(int fd);

/*
 * Makes a standard stream one over a shared file if its descriptor (0 to 2) has become that of one,
 * and the one of the system again if it is no longer.
 */
__attribute__((visibility("hidden"))) void standard_changed(int fd);

/* Finds the system's function that this library replaces, once. */
#define NEXT(type, name)                                                                           \
  static _Atomic(type) known;                                                                      \
  type system_call = atomic_load_explicit(&known, memory_order_relaxed);                           \
  if (system_call == NULL) {                                                                       \
    system_call = (type)next(name);                                                                \
    atomic_store_explicit(&known, system_call, memory_order_relaxed);                              \
  }

/* Runs a call in the library, and counts it. */
#define TAKEN(call, type, work)                                                                    \
  do {                                                                                             \
    count_taken(call);                                                                             \
    inside++;                                                                                      \
    type result = (work);                                                                          \
    inside--;                                                                                      \
    return result;                                                                                 \
  } while (0)

/* Runs a call in the library because of a name, counts it and reports it. */
#define TAKEN_BY_NAME(call, label, name, rule, work)                                               \
  do {                                                                                             \
    count_taken(call);                                                                             \
    report_match(label, name, rule);                                                               \
    inside++;                                                                                      \
    int result = (work);                                                                           \
    inside--;                                                                                      \
    if (result < 0) report_failure(label, name);                                                   \
    return result;                                                                                 \
  } while (0)

/* Returns a new descriptor; if it is that of a standard stream, the stream follows it. */
static inline int standard_opened(int fd) {
  if (fd >= 0 && fd < 3) standard_changed(fd);
  return fd;
}

static inline int is_ours(int fd) { return !inside && pario_is_shared(fd); }

/* Returns the rule that a name matches; 0 for a plain name. */
static inline int rule_of(const char *name) {
  if (inside || name == NULL) return 0;
  inside++;
  int rule = pario_name_rule(name);
  inside--;
  return rule;
}

/* Returns whether the names that match a rule are those of shared files. */
static inline int is_shared_rule(int rule) {
  return rule != 0 && rule != PARIO_NAME_NUMBER && rule != PARIO_NAME_LEAVES;
}

/*
 * Returns the rule of a name relative to a directory descriptor. A name relative to a plain directory other
 * than the working directory is that of a plain file.
 */
static inline int rule_at(int directory, const char *name) {
  if (directory == AT_FDCWD || name == NULL || name[0] == '/') return rule_of(name);
  return is_ours(directory) ? RULE_DIRECTORY : 0;
}

#endif
