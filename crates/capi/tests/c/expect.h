/* Expectations of test programs: a failed one prints where it is and ends the program. */
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

/* Expects a condition. */
#define IS(condition)                                                                              \
  do {                                                                                             \
    if (!(condition)) wrong(__FILE__, __LINE__, #condition);                                       \
  } while (0)

/* Expects a call to fail with an error number. */
#define FAILS(error, call)                                                                         \
  do {                                                                                             \
    errno = 0;                                                                                     \
    if ((call) != -1 || errno != (error)) wrong(__FILE__, __LINE__, #call " fails with " #error);  \
  } while (0)

/* Prints a line for the test, and waits until it may go on. */
static inline void say_and_wait(const char *what) {
  char line[100];
  printf("%s\n", what);
  fflush(stdout);
  IS(fgets(line, sizeof line, stdin) != NULL);
}

#endif
