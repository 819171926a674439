/*
 * M_SYNC: a shared pointer, in the order of ranks, with any sizes. The parts of a result lie one
 * after the other, whatever their lengths.
 */
#include <nx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  long node = mynode(), nodes = numnodes();
  unsigned len = (unsigned)(1000 * (node + 1));
  char *part = malloc(len), own = (char)('a' + node % 26);
  int fd = gopen("/pfs/examples/sync", O_RDWR | O_CREAT | O_TRUNC, M_SYNC, 0644);
  long wrong = 0;

  memset(part, own, len);
  cwrite(fd, part, len);

  lseek(fd, 0, SEEK_SET);
  memset(part, 0, len);
  cread(fd, part, len);
  for (unsigned at = 0; at < len; at++) wrong += part[at] != own;
  wrong += iseof(fd) != 1;
  wrong += lsize(fd, 0, SIZE_END) != 1000 * nodes * (nodes + 1) / 2;
  close(fd);
  free(part);
  if (node == 0 && wrong == 0) printf("%ld parts in order\n", nodes);
  return wrong != 0;
}
