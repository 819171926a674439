/*
 * A checkpoint that is read by another number of processes than wrote it:
 *   checkpoint write    by 4 processes, for example
 *   checkpoint read     by 3
 * The header is written once for all (M_GLOBAL), the values in the order of ranks (M_SYNC).
 */
#include <nx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES 100003L /* no number of processes divides it */

/* Returns the index of a process' first value. */
static long first(long node, long nodes, long values) { return values * node / nodes; }

int main(int count, char **arguments) {
  const char *name = "/pfs/examples/checkpoint";
  long node = mynode(), nodes = numnodes(), values = VALUES, wrong = 0;
  int is_write = count == 2 && strcmp(arguments[1], "write") == 0;
  int fd;

  if (!is_write && (count != 2 || strcmp(arguments[1], "read") != 0)) {
    fprintf(stderr, "usage: checkpoint write | read\n");
    return 2;
  }
  if (is_write) {
    fd = gopen(name, O_WRONLY | O_CREAT | O_TRUNC, M_GLOBAL, 0644);
    cwrite(fd, &values, sizeof values);
  } else {
    fd = gopen(name, O_RDONLY, M_GLOBAL, 0);
    cread(fd, &values, sizeof values);
  }

  long from = first(node, nodes, values), to = first(node + 1, nodes, values);
  unsigned bytes = (unsigned)((size_t)(to - from) * sizeof(double));
  double *state = malloc(bytes);
  setiomode(fd, M_SYNC);
  if (is_write) {
    for (long at = from; at < to; at++) state[at - from] = at * 0.25;
    cwrite(fd, state, bytes);
  } else {
    cread(fd, state, bytes);
    for (long at = from; at < to; at++) wrong += state[at - from] != at * 0.25;
    wrong += iseof(fd) != 1;
  }
  close(fd);
  free(state);
  if (node == 0 && wrong == 0)
    printf("%ld values %s by %ld processes\n", values, is_write ? "written" : "read", nodes);
  return wrong != 0;
}
