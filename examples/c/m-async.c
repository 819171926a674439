/*
 * M_ASYNC: as M_UNIX, but not atomic, for processes whose accesses do not overlap: no access is
 * coordinated. Each process fills every nth block of a matrix.
 */
#include <nx.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 4096
#define BLOCKS 64

int main(void) {
  static char block[BLOCK];
  long node = mynode(), nodes = numnodes(), wrong = 0;
  int fd = gopen("/pfs/examples/async", O_RDWR | O_CREAT | O_TRUNC, M_ASYNC, 0644);

  for (long number = node; number < BLOCKS; number += nodes) {
    memset(block, (int)number, BLOCK);
    lseek(fd, number * BLOCK, SEEK_SET);
    cwrite(fd, block, BLOCK);
  }
  gsync();
  lseek(fd, 0, SEEK_SET);
  for (long number = 0; number < BLOCKS; number++) {
    cread(fd, block, BLOCK);
    for (int at = 0; at < BLOCK; at++) wrong += block[at] != (char)number;
  }
  close(fd);
  if (node == 0 && wrong == 0) printf("%d blocks by %ld processes\n", BLOCKS, nodes);
  return wrong != 0;
}
