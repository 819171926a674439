/*
 * M_UNIX: each process has a private pointer. Every process writes its block, and reads its
 * neighbour's when all have written.
 */
#include <nx.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 10000

int main(void) {
  static char block[BLOCK], expected[BLOCK];
  long node = mynode(), nodes = numnodes(), neighbour = (node + 1) % nodes;
  int fd = gopen("/pfs/examples/unix", O_RDWR | O_CREAT | O_TRUNC, M_UNIX, 0644);

  memset(block, 'a' + (int)node, BLOCK);
  lseek(fd, node * BLOCK, SEEK_SET);
  cwrite(fd, block, BLOCK);
  gsync();

  lseek(fd, neighbour * BLOCK, SEEK_SET);
  cread(fd, block, BLOCK);
  memset(expected, 'a' + (int)neighbour, BLOCK);
  close(fd);
  if (memcmp(block, expected, BLOCK) != 0) {
    fprintf(stderr, "process %ld: the block of %ld is wrong\n", node, neighbour);
    return 1;
  }
  printf("process %ld has read the block of process %ld\n", node, neighbour);
  return 0;
}
