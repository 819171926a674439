/*
 * An ordinary stdio program that knows no shared files: the names are arguments. The first argument
 * selects the part.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IS(condition)                                                                              \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);            \
      exit(3);                                                                                     \
    }                                                                                              \
  } while (0)

enum { LINES = 20000 };

/* Text and numbers, in all modes of fopen. */
static void all_modes(const char *name) {
  char line[100], expected[100];
  double number = 0;
  FILE *file = fopen(name, "w");

  IS(file != NULL);
  for (int at = 0; at < LINES; at++) IS(fprintf(file, "line %d\n", at) > 0);
  IS(ftell(file) > 1 << 16 && fclose(file) == 0);

  file = fopen(name, "r");
  IS(file != NULL);
  for (int at = 0; at < LINES; at++) {
    snprintf(expected, sizeof expected, "line %d\n", at);
    IS(fgets(line, sizeof line, file) != NULL && strcmp(line, expected) == 0);
  }
  IS(fgets(line, sizeof line, file) == NULL && feof(file) && !ferror(file));
  rewind(file);
  IS(fscanf(file, "line %lf", &number) == 1 && number == 0);
  IS(fputs("not for writing", file) == EOF);
  IS(fclose(file) == 0);

  file = fopen(name, "a");
  IS(file != NULL && fputs("the end\n", file) >= 0 && fclose(file) == 0);

  file = fopen(name, "r+b");
  IS(file != NULL && fseek(file, -8, SEEK_END) == 0);
  IS(fgets(line, sizeof line, file) != NULL && strcmp(line, "the end\n") == 0);
  IS(fseeko(file, 0, SEEK_SET) == 0 && fwrite("LINE", 1, 4, file) == 4 && fflush(file) == 0);
  rewind(file);
  IS(fgets(line, sizeof line, file) != NULL && strcmp(line, "LINE 0\n") == 0);

  /* fileno returns a usable descriptor. */
  struct stat status;
  long before = ftell(file);
  IS(fileno(file) >= 0 && fstat(fileno(file), &status) == 0 && status.st_size > 1 << 16);
  IS(ftruncate(fileno(file), 4) == 0 && fsync(fileno(file)) == 0 && before == 7);
  IS(fclose(file) == 0);

  file = fopen(name, "r");
  IS(file != NULL && fread(line, 1, sizeof line, file) == 4 && memcmp(line, "LINE", 4) == 0);
  IS(fclose(file) == 0);

  IS(fopen(name, "wx") == NULL && errno == EEXIST);
  IS(fopen(name, "q") == NULL && errno == EINVAL);
  IS(remove(name) == 0);
  IS(fopen(name, "r") == NULL && errno == ENOENT);

  /* A stream over an open descriptor. */
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  IS(fd >= 0);
  file = fdopen(fd, "r+");
  IS(file != NULL && fileno(file) == fd && fputs("by descriptor\n", file) >= 0);
  rewind(file);
  IS(fgets(line, sizeof line, file) != NULL && strcmp(line, "by descriptor\n") == 0);
  IS(fclose(file) == 0 && read(fd, line, 1) == -1 && errno == EBADF);
}

/* Operations that a stream over a shared file refuses. */
static void refused(const char *name) {
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  IS(fd >= 0 && fdopen(fd, "a") == NULL && errno == EINVAL); /* only open can set O_APPEND */
  FILE *file = fdopen(fd, "w");
  IS(file != NULL && freopen("/dev/null", "r", file) == NULL && errno == EINVAL);
  IS(fputs("still here", file) >= 0 && fclose(file) == 0);
}

/* A stream that is left open is written at exit. */
static void left_open(const char *name) {
  FILE *file = fopen(name, "w");
  IS(file != NULL && fputs("never closed\n", file) >= 0);
}

/* A file without a name (O_TMPFILE). */
static void unnamed(const char *directory) {
  char seen[20];
  int fd = open(directory, O_TMPFILE | O_RDWR, 0600);

  IS(fd >= 0 && write(fd, "nameless", 8) == 8 && lseek(fd, 0, SEEK_SET) == 0);
  IS(read(fd, seen, 20) == 8 && memcmp(seen, "nameless", 8) == 0);
  IS(close(fd) == 0);
  IS(open(directory, O_TMPFILE | O_RDONLY, 0600) == -1 && errno == EINVAL);
}

/* Opens and writes a file; the exit code is errno if it fails. */
static void simply(const char *name) {
  FILE *file = fopen(name, "w");
  if (file == NULL) exit(errno);
  IS(fputs("bytes\n", file) >= 0 && fclose(file) == 0);
}

/* Calls that see no shared files. */
static void passed(const char *name) {
  char text[10];
  IS(realpath(name, NULL) == NULL && errno == ENOENT);
  IS(readlink(name, text, sizeof text) == -1 && errno == ENOENT);
  IS(symlink("/nowhere/target", name) == -1 && errno == ENOENT);
  IS(freopen(name, "r", stdin) == NULL && errno == ENOENT);
}

/* Calls by name that see shared files. */
static void taken(const char *name) {
  struct stat status;
  struct dirent **entries;
  char directory[200];
  int count;
  snprintf(directory, sizeof directory, "%s", name);
  *strrchr(directory, '/') = 0;
  IS(stat(name, &status) == -1 && errno == ENOENT);
  IS(access(name, R_OK) == -1 && errno == ENOENT);
  simply(name);
  IS(stat(name, &status) == 0 && status.st_size == 6 && access(name, R_OK) == 0);
  count = scandir(directory, &entries, NULL, alphasort);
  IS(count == 3 && strcmp(entries[0]->d_name, ".") == 0 && strcmp(entries[1]->d_name, "..") == 0);
  while (count > 0) free(entries[--count]);
  free(entries);
}

int main(int count, char **arguments) {
  const char *part = count == 3 ? arguments[1] : "";
  if (strcmp(part, "modes") == 0) all_modes(arguments[2]);
  else if (strcmp(part, "refused") == 0) refused(arguments[2]);
  else if (strcmp(part, "open") == 0) left_open(arguments[2]);
  else if (strcmp(part, "unnamed") == 0) unnamed(arguments[2]);
  else if (strcmp(part, "simply") == 0) simply(arguments[2]);
  else if (strcmp(part, "passed") == 0) passed(arguments[2]);
  else if (strcmp(part, "taken") == 0) taken(arguments[2]);
  else return 2;
  return 0;
}
