/* What the parts of the preload library have in common. */
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

/* Calls that are taken, as the report counts them. */
enum call {
  OPEN, READ, WRITE, READV, WRITEV, PREAD, PWRITE, LSEEK, FSYNC, FTRUNCATE, FSTAT, FCNTL, LOCKF,
  CLOSE, UNLINK, FOPEN, FDOPEN, CALLS
};

/* Whether this thread is at work in the library already: then its calls are those of the library. */
extern _Thread_local int inside __attribute__((visibility("hidden")));

/* The function of the system that has this name. */
__attribute__((visibility("hidden"))) void *next(const char *name);

/* Whether the environment asks for the report. */
__attribute__((visibility("hidden"))) int report_is_wanted(void);

/* Counts a call that was taken. */
__attribute__((visibility("hidden"))) void count_taken(enum call call);

/* Says, once for each name, that a call is taken because of the name. */
__attribute__((visibility("hidden"))) void report_match(const char *call, const char *name, int rule);

/* Says, once for each name, why a call that was taken because of the name has failed. */
__attribute__((visibility("hidden"))) void report_failure(const char *call, const char *name);

/* Says, once for each name, that a call goes to the system although the name is a shared file's. */
__attribute__((visibility("hidden"))) void report_passed(const char *call, const char *name,
                                                         const char *why);

/* Writes out what streams of shared files have in their buffers. */
__attribute__((visibility("hidden"))) void flush_streams(void);

/* The function of the system that this library stands before. */
#define NEXT(type, name)                                                                           \
  static _Atomic(type) known;                                                                      \
  type system_call = atomic_load_explicit(&known, memory_order_relaxed);                           \
  if (system_call == NULL) {                                                                       \
    system_call = (type)next(name);                                                                \
    atomic_store_explicit(&known, system_call, memory_order_relaxed);                              \
  }

/* Does it in the library, and counts it. */
#define TAKEN(call, type, work)                                                                    \
  do {                                                                                             \
    count_taken(call);                                                                             \
    inside++;                                                                                      \
    type result = (work);                                                                          \
    inside--;                                                                                      \
    return result;                                                                                 \
  } while (0)

/* Does it in the library because of a name, counts it and reports it. */
#define TAKEN_BY_NAME(call, said, name, rule, work)                                                \
  do {                                                                                             \
    count_taken(call);                                                                             \
    report_match(said, name, rule);                                                                \
    inside++;                                                                                      \
    int result = (work);                                                                           \
    inside--;                                                                                      \
    if (result < 0) report_failure(said, name);                                                    \
    return result;                                                                                 \
  } while (0)

static inline int is_ours(int fd) { return !inside && pario_is_shared(fd); }

/* Why a name is not simply that of a plain file; 0 if it is. */
static inline int rule_of(const char *name) {
  if (inside || name == NULL) return 0;
  inside++;
  int rule = pario_name_rule(name);
  inside--;
  return rule;
}

/* The same for a call whose name begins at a directory: only where that is the working directory. */
static inline int rule_at(int directory, const char *name) {
  return directory == AT_FDCWD || (name != NULL && name[0] == '/') ? rule_of(name) : 0;
}

#endif
