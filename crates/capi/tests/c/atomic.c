/* Atomic access to files that processes open each for itself: with the macros of the header, or
 * without them and with the preload library. */
#define _GNU_SOURCE
#include <nx.h>
#include <string.h>

#include "expect.h"

/* Several units of the file on each of four disks. */
enum { BLOCK = 300000, RECORD = 100 };

static char block[BLOCK], found[BLOCK];

/* Writes blocks of one letter, and reads blocks that must have one letter. */
static void overwrite(int fd, char letter, int rounds) {
  memset(block, letter, BLOCK);
  for (int round = 0; round < rounds; round++) {
    IS(lseek(fd, 0, SEEK_SET) == 0);
    IS(write(fd, block, BLOCK) == BLOCK);
    IS(lseek(fd, 0, SEEK_SET) == 0);
    IS(read(fd, found, BLOCK) == BLOCK);
    for (int at = 1; at < BLOCK; at++) {
      if (found[at] != found[0]) {
        fprintf(stderr, "round %d: %c at 0, %c at %d\n", round, found[0], found[at], at);
        exit(3);
      }
    }
    IS(pwrite(fd, block, BLOCK, 0) == BLOCK);
    IS(lseek(fd, 0, SEEK_END) == BLOCK);
  }
}

/* A line of RECORD bytes that names the writer and its number. */
static void record(char *line, char letter, int number) {
  memset(line, letter, RECORD);
  line[RECORD - 1] = '\n';
  for (int digit = 5; digit > 0; digit--, number /= 10) line[digit] = (char)('0' + number % 10);
}

static void append(int fd, char letter, int count) {
  char line[RECORD];
  for (int number = 0; number < count; number++) {
    record(line, letter, number);
    IS(write(fd, line, RECORD) == RECORD);
    IS(lseek(fd, 0, SEEK_CUR) % RECORD == 0);
  }
}

int main(int argc, char **argv) {
  IS(argc > 3);
  const char *what = argv[1], *name = argv[2];
  char letter = argv[3][0];
  int count = argc > 4 ? atoi(argv[4]) : 0;
  if (strcmp(what, "overwrite") == 0) {
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    IS(fd >= 0);
    overwrite(fd, letter, count);
    IS(close(fd) == 0);
  } else if (strcmp(what, "together") == 0) {
    /* As a rank of a job that opens the file together. */
    int fd = gopen(name, O_RDWR | O_CREAT, M_UNIX, 0644);
    IS(fd >= 0);
    overwrite(fd, letter, count);
    IS(close(fd) == 0);
  } else if (strcmp(what, "append") == 0) {
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
    IS(fd >= 0);
    append(fd, letter, count);
    IS(close(fd) == 0);
  } else if (strcmp(what, "append together") == 0) {
    int fd = gopen(name, O_WRONLY | O_CREAT | O_APPEND, M_UNIX, 0644);
    IS(fd >= 0);
    append(fd, letter, count);
    IS(close(fd) == 0);
  } else if (strcmp(what, "stream") == 0) {
    /* Opens the file for each record. */
    char line[RECORD];
    for (int number = 0; number < count; number++) {
      FILE *stream = fopen(name, "a");
      IS(stream != NULL);
      record(line, letter, number);
      IS(fwrite(line, 1, RECORD, stream) == RECORD);
      IS(fclose(stream) == 0);
    }
  } else if (strcmp(what, "hold") == 0) {
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    IS(fd >= 0 && write(fd, "x", 1) == 1);
    say_and_wait("open");
    IS(pwrite(fd, "y", 1, 0) == 1);
    IS(close(fd) == 0);
  } else {
    IS(strcmp(what, "modes") == 0);
    /* M_ASYNC pays nothing and gives nothing up; M_UNIX is atomic again. */
    int fd = gopen(name, O_RDWR | O_CREAT, M_ASYNC, 0644);
    IS(fd >= 0 && _setiomode(fd, M_UNIX) == 0);
    overwrite(fd, letter, count);
    IS(lseek(fd, 0, SEEK_SET) == 0 && _setiomode(fd, M_ASYNC) == 0);
    IS(close(fd) == 0);
  }
  return 0;
}
