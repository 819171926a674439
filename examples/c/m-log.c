/*
 * M_LOG: a shared pointer, in order of arrival. Every process adds lines to a log; the first one
 * counts them.
 */
#include <nx.h>
#include <stdio.h>
#include <string.h>

#define LINES 10

int main(void) {
  long node = mynode(), nodes = numnodes(), lines = 0;
  int fd = gopen("/pfs/examples/log", O_RDWR | O_CREAT | O_TRUNC, M_LOG, 0644);
  char letter;

  for (int number = 0; number < LINES; number++) {
    char line[80];
    int len = snprintf(line, sizeof line, "process %ld says %d\n", node, number);
    cwrite(fd, line, (unsigned)len);
  }
  close(fd);

  if (node == 0) {
    fd = open("/pfs/examples/log", O_RDONLY);
    while (!iseof(fd)) {
      cread(fd, &letter, 1);
      lines += letter == '\n';
    }
    close(fd);
    printf("%ld lines of %ld processes\n", lines, nodes);
    return lines != LINES * nodes;
  }
  return 0;
}
