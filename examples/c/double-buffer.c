/*
 * Two buffers: while one is written or read, the process works on the other.
 */
#include <nx.h>
#include <stdio.h>

#define STEPS 20
#define VALUES 10000

static double buffer[2][VALUES];

static double value(long node, int step, int at) { return (double)node + step * 0.5 + at * 0.001; }

int main(void) {
  long node = mynode(), wrong = 0, pending[2] = {-1, -1};
  int fd = gopen("/pfs/examples/steps", O_RDWR | O_CREAT | O_TRUNC, M_RECORD, 0644);

  for (int step = 0; step < STEPS; step++) {
    int half = step % 2;
    if (pending[half] >= 0) iowait(pending[half]);
    for (int at = 0; at < VALUES; at++) buffer[half][at] = value(node, step, at);
    pending[half] = iwrite(fd, buffer[half], sizeof buffer[half]);
  }
  iowait(pending[0]);
  iowait(pending[1]);

  lseek(fd, 0, SEEK_SET);
  pending[0] = iread(fd, buffer[0], sizeof buffer[0]);
  for (int step = 0; step < STEPS; step++) {
    int half = step % 2;
    if (step + 1 < STEPS) pending[1 - half] = iread(fd, buffer[1 - half], sizeof buffer[0]);
    iowait(pending[half]);
    for (int at = 0; at < VALUES; at++) wrong += buffer[half][at] != value(node, step, at);
  }
  close(fd);
  if (node == 0 && wrong == 0) printf("%d steps written and read\n", STEPS);
  return wrong != 0;
}
