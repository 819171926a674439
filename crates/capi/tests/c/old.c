/* A program that was compiled with the declarations only, without macros. */
#define PARIO_NO_MACROS
#include <nx.h>
#include <string.h>

#include "expect.h"

int main(void) {
  long node = mynode();
  char text[20], seen[20];
  struct stat status;
  int fd = gopen("/pfs/old", O_RDWR | O_CREAT | O_TRUNC, M_RECORD, 0644);

  snprintf(text, sizeof text, "record %ld", node);
  IS(write(fd, text, 8) == 8);
  gsync();
  IS(lseek(fd, 0, SEEK_SET) == 0);
  IS(read(fd, seen, 8) == 8 && memcmp(text, seen, 8) == 0);
  IS(fstat(fd, &status) == 0 && status.st_size == 8 * numnodes());
  IS(fsync(fd) == 0 && close(fd) == 0);
  gsync();
  fd = open("/pfs/old", O_RDONLY);
  IS(pread(fd, seen, 8, 8 * node) == 8 && memcmp(text, seen, 8) == 0);
  IS(close(fd) == 0);
  gsync();
  if (node == 0) IS(unlink("/pfs/old") == 0);
  return 0;
}
