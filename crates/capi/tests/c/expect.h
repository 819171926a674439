/* What test programs expect, and how they say that it is not so. */
#ifndef EXPECT_H
#define EXPECT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static inline void wrong(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: %s (errno %d): ", file, line, what, errno);
  pfslib_perror("last error");
  exit(3);
}

/* Something is so. */
#define IS(condition)                                                                              \
  do {                                                                                             \
    if (!(condition)) wrong(__FILE__, __LINE__, #condition);                                       \
  } while (0)

/* A call fails with an error. */
#define FAILS(error, call)                                                                         \
  do {                                                                                             \
    errno = 0;                                                                                     \
    if ((call) != -1 || errno != (error)) wrong(__FILE__, __LINE__, #call " fails with " #error);  \
  } while (0)

/* Tells whoever has started this program that it has come so far, and waits until it may go on. */
static inline void say_and_wait(const char *what) {
  char line[100];
  printf("%s\n", what);
  fflush(stdout);
  IS(fgets(line, sizeof line, stdin) != NULL);
}

#endif
