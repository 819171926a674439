/*
 * The report, with PARIO_PRELOAD_REPORT=1: which names the library takes and why, which calls on
 * them fail and why, which go to the system, and at exit how often the library took each call.
 */
#include "preload.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static const char *const names[CALLS] = {
    "open",  "read",      "write", "readv", "writev", "pread",  "pwrite", "lseek", "fsync",
    "ftruncate", "fstat", "fcntl", "lockf", "close",  "unlink", "fopen",  "fdopen", "access",
    "stat", "truncate", "mkdir", "rmdir", "rename", "chmod", "chown", "utimes", "statvfs", "opendir",
    "readdir", "closedir", "chdir", "dup"};
static atomic_ulong taken[CALLS];

/* Each line is printed once, as far as there is room to remember it. */
enum { ROOM = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t printed[ROOM];
static unsigned long remembered, left_out;

int report_is_wanted(void) {
  static atomic_int known = -1;
  int wanted = atomic_load_explicit(&known, memory_order_relaxed);
  if (wanted < 0) {
    const char *value = getenv("PARIO_PRELOAD_REPORT");
    wanted = value != NULL && strcmp(value, "1") == 0;
    atomic_store_explicit(&known, wanted, memory_order_relaxed);
  }
  return wanted;
}

void count_taken(enum call call) {
  atomic_fetch_add_explicit(&taken[call], 1, memory_order_relaxed);
}

static uint64_t hash(uint64_t value, const char *text) {
  for (; *text != 0; text++) value = (value ^ (unsigned char)*text) * 0x100000001b3;
  return (value ^ 0xff) * 0x100000001b3;
}

/* Returns whether this line is new and can be remembered. */
static int is_new(const char *kind, const char *call, const char *name) {
  uint64_t key = hash(hash(hash(0xcbf29ce484222325, kind), call), name);
  int result = 1;
  pthread_mutex_lock(&lock);
  for (unsigned long at = 0; at < remembered && result; at++) result = printed[at] != key;
  if (result && remembered == ROOM) {
    left_out++;
    result = 0;
  } else if (result) {
    printed[remembered++] = key;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static void line_start(char *text, size_t room, const char *call, const char *name) {
  snprintf(text, room, "pario: process %d (%s): %s of \"%s\"", (int)getpid(),
           program_invocation_short_name, call, name);
}

/* Writes a line with one system call, so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 2))) static void print_line(const char *format, ...) {
  char line[6000];
  va_list rest;
  va_start(rest, format);
  int len = vsnprintf(line, sizeof line, format, rest);
  va_end(rest);
  if (len >= (int)sizeof line) line[(len = sizeof line) - 1] = '\n';
  if (len > 0 && syscall(SYS_write, 2, line, (size_t)len) < 0) return;
}

void report_match(const char *call, const char *name, int rule) {
  if (!report_is_wanted() || !is_new("match", call, name)) return;
  int error = errno;
  char start[5000];
  line_start(start, sizeof start, call, name);
  if (rule == PARIO_NAME_NUMBER)
    print_line("%s is a plain file of this process: the name contains \"###\"\n", start);
  else if (rule == PARIO_NAME_LEAVES)
    print_line("%s is a plain file: the name leads out of PARIO_PREFIX (%s)\n", start,
               getenv("PARIO_PREFIX"));
  else if (rule == PARIO_NAME_RELATIVE)
    print_line("%s is a shared file: the working directory is a shared one\n", start);
  else if (rule == RULE_DIRECTORY)
    print_line("%s is a shared file: the descriptor of its directory is that of a shared one\n", start);
  else if (rule == PARIO_NAME_BELOW)
    print_line("%s is a shared file: the name is below PARIO_PREFIX (%s)\n", start,
               getenv("PARIO_PREFIX"));
  else
    print_line("%s is a shared file: the name contains \"pfs\" (set PARIO_PREFIX to a directory to "
               "limit shared files to it)\n",
               start);
  errno = error;
}

void report_failure(const char *call, const char *name) {
  if (!report_is_wanted() || !is_new("failure", call, name)) return;
  int error = errno;
  char start[5100];
  line_start(start, sizeof start - 10, call, name);
  strcat(start, " failed");
  inside++;
  pfslib_perror(start);
  inside--;
  errno = error;
}

void report_passed(const char *call, const char *name, const char *why) {
  if (!report_is_wanted() || !is_new("passed", call, name)) return;
  int error = errno;
  char start[5000];
  line_start(start, sizeof start, call, name);
  print_line("%s goes to the system although the name is that of a shared file: %s\n", start, why);
  errno = error;
}

__attribute__((destructor)) static void report(void) {
  flush_streams();
  if (!report_is_wanted()) return;
  char text[1024];
  size_t len = 0;
  for (int call = 0; call < CALLS; call++) {
    unsigned long count = atomic_load(&taken[call]);
    if (count > 0 && len < sizeof text)
      len += (size_t)snprintf(text + len, sizeof text - len, "%s %s %lu", len > 0 ? "," : "",
                              names[call], count);
  }
  if (left_out > 0)
    print_line("pario: process %d (%s): %lu further lines about names are left out\n",
               (int)getpid(), program_invocation_short_name, left_out);
  print_line("pario: process %d (%s): calls taken:%s\n", (int)getpid(),
             program_invocation_short_name, len > 0 ? text : " none");
}
