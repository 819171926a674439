/*
 * Directory streams over shared directories. A stream of the library is not one of the C library:
 * every call on a stream asks the library whether it is its own.
 */
#include "preload.h"

#include <errno.h>
#include <stdlib.h>

static int is_our_stream(DIR *stream) { return !inside && pario_is_shared_stream(stream); }

/* Runs a call in the library, and counts it. */
#define INSIDE(call, type, variable, work)                                                         \
  count_taken(call);                                                                               \
  inside++;                                                                                        \
  type variable = (work);                                                                          \
  inside--

/* The library notices every change of the working directory: a plain one ends a shared one. */
int chdir(const char *name) {
  typedef int chdir_call(const char *);
  NEXT(chdir_call *, "chdir")
  if (inside) return system_call(name);
  int rule = rule_of(name);
  if (rule != 0) TAKEN_BY_NAME(CHDIR, "chdir", name, rule, pario_chdir(name));
  inside++;
  int result = pario_chdir(name);
  inside--;
  return result;
}

int fchdir(int fd) {
  typedef int fchdir_call(int);
  NEXT(fchdir_call *, "fchdir")
  if (inside) return system_call(fd);
  if (is_ours(fd)) TAKEN(CHDIR, int, pario_fchdir(fd));
  inside++;
  int result = pario_fchdir(fd);
  inside--;
  return result;
}

char *getcwd(char *to, size_t room) {
  typedef char *getcwd_call(char *, size_t);
  NEXT(getcwd_call *, "getcwd")
  if (inside) return system_call(to, room);
  inside++;
  char *result = pario_getcwd(to, room);
  inside--;
  return result;
}

char *get_current_dir_name(void) { return getcwd(NULL, 0); }

DIR *opendir(const char *name) {
  typedef DIR *opendir_call(const char *);
  NEXT(opendir_call *, "opendir")
  int rule = rule_of(name);
  if (rule == 0) return system_call(name);
  report_match("opendir", name, rule);
  INSIDE(OPENDIR, DIR *, stream, pario_opendir(name));
  if (stream == NULL) report_failure("opendir", name);
  return stream;
}

DIR *fdopendir(int fd) {
  typedef DIR *fdopendir_call(int);
  NEXT(fdopendir_call *, "fdopendir")
  if (is_ours(fd)) TAKEN(OPENDIR, DIR *, pario_fdopendir(fd));
  return system_call(fd);
}

struct dirent *readdir(DIR *stream) {
  typedef struct dirent *readdir_call(DIR *);
  NEXT(readdir_call *, "readdir")
  if (is_our_stream(stream)) TAKEN(READDIR, struct dirent *, pario_readdir(stream));
  return system_call(stream);
}

struct dirent64 *readdir64(DIR *stream) {
  typedef struct dirent64 *readdir64_call(DIR *);
  NEXT(readdir64_call *, "readdir64")
  if (is_our_stream(stream))
    TAKEN(READDIR, struct dirent64 *, (struct dirent64 *)pario_readdir(stream));
  return system_call(stream);
}

/* Returns an error number, and the entry or NULL at the end. */
static int read_into(DIR *stream, struct dirent *entry, struct dirent **result) {
  int before = errno;
  errno = 0;
  INSIDE(READDIR, struct dirent *, found, pario_readdir(stream));
  int error = errno;
  errno = before;
  *result = NULL;
  if (found == NULL) return error;
  *entry = *found;
  *result = entry;
  return 0;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int readdir_r(DIR *stream, struct dirent *entry, struct dirent **result) {
  typedef int readdir_r_call(DIR *, struct dirent *, struct dirent **);
  NEXT(readdir_r_call *, "readdir_r")
  return is_our_stream(stream) ? read_into(stream, entry, result)
                               : system_call(stream, entry, result);
}

int readdir64_r(DIR *stream, struct dirent64 *entry, struct dirent64 **result) {
  return readdir_r(stream, (struct dirent *)entry, (struct dirent **)result);
}

int closedir(DIR *stream) {
  typedef int closedir_call(DIR *);
  NEXT(closedir_call *, "closedir")
  if (is_our_stream(stream)) TAKEN(CLOSEDIR, int, pario_closedir(stream));
  return system_call(stream);
}

void rewinddir(DIR *stream) {
  typedef void rewinddir_call(DIR *);
  NEXT(rewinddir_call *, "rewinddir")
  if (!is_our_stream(stream)) {
    system_call(stream);
    return;
  }
  inside++;
  pario_rewinddir(stream);
  inside--;
}

long telldir(DIR *stream) {
  typedef long telldir_call(DIR *);
  NEXT(telldir_call *, "telldir")
  return is_our_stream(stream) ? pario_telldir(stream) : system_call(stream);
}

void seekdir(DIR *stream, long position) {
  typedef void seekdir_call(DIR *, long);
  NEXT(seekdir_call *, "seekdir")
  if (!is_our_stream(stream)) {
    system_call(stream, position);
    return;
  }
  inside++;
  pario_seekdir(stream, position);
  inside--;
}

int dirfd(DIR *stream) {
  typedef int dirfd_call(DIR *);
  NEXT(dirfd_call *, "dirfd")
  return is_our_stream(stream) ? pario_dirfd(stream) : system_call(stream);
}

/* The C library's own scandir does not call the functions above. */
int scandir(const char *name, struct dirent ***entries, int (*is_wanted)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **)) {
  typedef int scandir_call(const char *, struct dirent ***, int (*)(const struct dirent *),
                           int (*)(const struct dirent **, const struct dirent **));
  NEXT(scandir_call *, "scandir")
  if (rule_of(name) == 0) return system_call(name, entries, is_wanted, order);
  DIR *stream = opendir(name);
  if (stream == NULL) return -1;
  struct dirent **list = NULL, *entry;
  int count = 0, room = 0, error = 0;
  while (error == 0 && (errno = 0, entry = readdir(stream)) != NULL) {
    if (is_wanted != NULL && !is_wanted(entry)) continue;
    if (count == room) {
      struct dirent **larger = realloc(list, (size_t)(room = 2 * room + 16) * sizeof *list);
      if (larger == NULL) {
        error = ENOMEM;
        break;
      }
      list = larger;
    }
    list[count] = malloc(sizeof *entry);
    if (list[count] == NULL) error = ENOMEM;
    else *list[count++] = *entry;
  }
  if (error == 0) error = errno;
  closedir(stream);
  if (error != 0) {
    while (count > 0) free(list[--count]);
    free(list);
    errno = error;
    return -1;
  }
  if (order != NULL && count > 0)
    qsort(list, (size_t)count, sizeof *list, (int (*)(const void *, const void *))order);
  *entries = list;
  return count;
}

int scandir64(const char *name, struct dirent64 ***entries,
              int (*is_wanted)(const struct dirent64 *),
              int (*order)(const struct dirent64 **, const struct dirent64 **)) {
  return scandir(name, (struct dirent ***)entries, (int (*)(const struct dirent *))is_wanted,
                 (int (*)(const struct dirent **, const struct dirent **))order);
}
