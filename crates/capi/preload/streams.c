/*
 * stdio streams over shared files: fopen, fdopen, and calls that reach a stream's descriptor. The C
 * library owns the buffer; its reads and writes go to this library's calls.
 */
#include "preload.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The striping unit, so that a full buffer is one request. */
enum { BUFFER_BYTES = 1 << 16 };

struct stream {
  FILE *file;
  int fd; /* -1 if the descriptor stays open when the stream is closed */
  struct stream *after;
  char buffer[BUFFER_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;
static atomic_int open_streams;

typedef FILE *fopen_call(const char *, const char *);
typedef FILE *fdopen_call(int, const char *);
typedef FILE *freopen_call(const char *, const char *, FILE *);
typedef int fileno_call(FILE *);

#define INSIDE(call, type, variable, work)                                                         \
  count_taken(call);                                                                               \
  inside++;                                                                                        \
  type variable = (work);                                                                          \
  inside--

static ssize_t stream_read(void *cookie, char *buffer, size_t bytes) {
  INSIDE(READ, ssize_t, got, pario_read(((struct stream *)cookie)->fd, buffer, bytes));
  return got;
}

/* On failure fopencookie expects 0, not -1. */
static ssize_t stream_write(void *cookie, const char *buffer, size_t bytes) {
  INSIDE(WRITE, ssize_t, put, pario_write(((struct stream *)cookie)->fd, buffer, bytes));
  return put < 0 ? 0 : put;
}

static int stream_seek(void *cookie, off64_t *offset, int whence) {
  INSIDE(LSEEK, off_t, at, pfslib_lseek(((struct stream *)cookie)->fd, *offset, whence));
  if (at < 0) return -1;
  *offset = at;
  return 0;
}

static int stream_close(void *cookie) {
  struct stream *stream = cookie;
  pthread_mutex_lock(&lock);
  struct stream **place = &streams;
  while (*place != stream) place = &(*place)->after;
  *place = stream->after;
  pthread_mutex_unlock(&lock);
  atomic_fetch_sub(&open_streams, 1);
  int closed = 0;
  if (stream->fd >= 0) {
    INSIDE(CLOSE, int, result, pfslib_close(stream->fd));
    closed = result;
  }
  int error = errno;
  free(stream);
  errno = error;
  return closed;
}

/* Returns a stream of a shared file; NULL for any other stream. */
static struct stream *find(FILE *file) {
  if (atomic_load_explicit(&open_streams, memory_order_relaxed) == 0) return NULL;
  pthread_mutex_lock(&lock);
  struct stream *found = streams;
  while (found != NULL && found->file != file) found = found->after;
  pthread_mutex_unlock(&lock);
  return found;
}

/* Returns the descriptor of a stream of a shared file; -1 for any other stream. */
static int descriptor_of(FILE *file) {
  struct stream *stream = find(file);
  return stream != NULL ? stream->fd : -1;
}

void flush_streams(void) {
  FILE *files[64];
  int count = 0;
  pthread_mutex_lock(&lock);
  for (struct stream *stream = streams; stream != NULL && count < 64; stream = stream->after)
    files[count++] = stream->file;
  pthread_mutex_unlock(&lock);
  while (count > 0) fflush(files[--count]);
}

/* Converts the letters of a mode to flags of open; -1 if they are invalid. */
static int flags_of(const char *mode) {
  int flags;
  switch (mode[0]) {
    case 'r': flags = O_RDONLY; break;
    case 'w': flags = O_WRONLY | O_CREAT | O_TRUNC; break;
    case 'a': flags = O_WRONLY | O_CREAT | O_APPEND; break;
    default: errno = EINVAL; return -1;
  }
  for (const char *letter = mode + 1; *letter != 0 && *letter != ','; letter++) {
    if (*letter == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
    if (*letter == 'x') flags |= O_EXCL;
  }
  return flags;
}

/* Creates a stream over a descriptor of a shared file. */
static FILE *stream_over(int fd, const char *mode) {
  const cookie_io_functions_t calls = {stream_read, stream_write, stream_seek, stream_close};
  const char own_mode[3] = {mode[0], strchr(mode, '+') != NULL ? '+' : 0, 0};
  struct stream *stream = malloc(sizeof *stream);
  if (stream == NULL) return NULL;
  FILE *file = fopencookie(stream, own_mode, calls);
  if (file == NULL) {
    free(stream);
    return NULL;
  }
  setvbuf(file, stream->buffer, _IOFBF, sizeof stream->buffer);
  stream->file = file;
  stream->fd = fd;
  pthread_mutex_lock(&lock);
  stream->after = streams;
  streams = stream;
  pthread_mutex_unlock(&lock);
  atomic_fetch_add(&open_streams, 1);
  return file;
}

/*
 * The standard streams. The C library lets programs assign stdin, stdout and stderr, and uses the
 * variables itself. A stream of the system cannot reach a shared file, so that another one takes its
 * place as long as its descriptor is that of a shared file.
 */
static FILE **const standard[3] = {&stdin, &stdout, &stderr};
static FILE *of_system[3];

void standard_changes(int fd) {
  if (fd < 0 || fd > 2 || *standard[fd] == NULL) return;
  int error = errno;
  if (fd != 0) fflush(*standard[fd]);
  errno = error;
}

void standard_changed(int fd) {
  if (fd < 0 || fd > 2) return;
  int error = errno;
  struct stream *now = find(*standard[fd]);
  if (pario_is_shared(fd) && now == NULL) {
    FILE *file = stream_over(fd, fd == 0 ? "r" : "w");
    if (file != NULL) {
      if (fd == 2) setvbuf(file, NULL, _IONBF, 0);
      of_system[fd] = *standard[fd];
      *standard[fd] = file;
    }
  } else if (!pario_is_shared(fd) && now != NULL && of_system[fd] != NULL) {
    FILE *file = *standard[fd];
    *standard[fd] = of_system[fd];
    now->fd = -1;
    fclose(file);
  }
  errno = error;
}

/* Opens a name that matches the rule. */
static FILE *open_by_name(const char *name, const char *mode, int rule) {
  NEXT(fdopen_call *, "fdopen")
  report_match("fopen", name, rule);
  int flags = flags_of(mode);
  if (flags < 0) return NULL;
  INSIDE(FOPEN, int, fd, pfslib_open(name, flags, 0666));
  if (fd < 0) {
    report_failure("fopen", name);
    return NULL;
  }
  FILE *file = pario_is_shared(fd) ? stream_over(fd, mode) : system_call(fd, mode);
  if (file == NULL) {
    int error = errno;
    inside++;
    pfslib_close(fd);
    inside--;
    errno = error;
  }
  return file;
}

FILE *fopen(const char *name, const char *mode) {
  NEXT(fopen_call *, "fopen")
  int rule = rule_of(name);
  return rule != 0 ? open_by_name(name, mode, rule) : system_call(name, mode);
}

FILE *fopen64(const char *name, const char *mode) {
  NEXT(fopen_call *, "fopen64")
  int rule = rule_of(name);
  return rule != 0 ? open_by_name(name, mode, rule) : system_call(name, mode);
}

FILE *fdopen(int fd, const char *mode) {
  NEXT(fdopen_call *, "fdopen")
  if (!is_ours(fd)) return system_call(fd, mode);
  int wanted = flags_of(mode);
  if (wanted < 0) return NULL;
  INSIDE(FDOPEN, int, flags, pario_fcntl(fd, F_GETFL, 0));
  if (flags < 0) return NULL;
  int access = flags & O_ACCMODE;
  if ((access != O_RDWR && access != (wanted & O_ACCMODE)) || (wanted & ~flags & O_APPEND) != 0) {
    errno = EINVAL;
    return NULL;
  }
  return stream_over(fd, mode);
}

/*
 * A FILE object cannot change its kind: a stream of the system cannot become one of a shared file,
 * or the reverse.
 */
static FILE *reopen(freopen_call *system_call, const char *name, const char *mode, FILE *file) {
  if (descriptor_of(file) >= 0) {
    errno = EINVAL;
    return NULL;
  }
  int rule = rule_of(name);
  if (rule != 0)
    report_passed("freopen", name, "only fopen and fdopen create streams of shared files");
  return system_call(name, mode, file);
}

FILE *freopen(const char *name, const char *mode, FILE *file) {
  NEXT(freopen_call *, "freopen")
  return reopen(system_call, name, mode, file);
}

FILE *freopen64(const char *name, const char *mode, FILE *file) {
  NEXT(freopen_call *, "freopen64")
  return reopen(system_call, name, mode, file);
}

int fileno(FILE *file) {
  NEXT(fileno_call *, "fileno")
  int fd = descriptor_of(file);
  return fd >= 0 ? fd : system_call(file);
}

int fileno_unlocked(FILE *file) {
  NEXT(fileno_call *, "fileno_unlocked")
  int fd = descriptor_of(file);
  return fd >= 0 ? fd : system_call(file);
}
