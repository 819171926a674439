/* A program that defines its own dclock and mynode. */
#include <nx.h>

#include "expect.h"

double dclock(void) { return 47.11; }

long mynode(void) { return 42; }

int main(void) {
  int fd = gopen("/pfs/own", O_RDWR | O_CREAT | O_TRUNC, M_LOG, 0644);
  IS(dclock() == 47.11 && mynode() == 42 && numnodes() == 2);
  gsync();
  cwrite(fd, "x", 1);
  gsync();
  IS(lsize(fd, 0, SIZE_END) == 2);
  IS(close(fd) == 0);
  return 0;
}
