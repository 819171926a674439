/*
 * M_RECORD: each process has a private pointer. Records of one size lie in the order of ranks, in
 * whatever order the processes write them.
 */
#include <nx.h>
#include <stdio.h>

#define ROUNDS 50

int main(void) {
  long node = mynode(), nodes = numnodes(), wrong = 0;
  int fd = gopen("/pfs/examples/record", O_RDWR | O_CREAT | O_TRUNC, M_RECORD, 0644);
  long record[100];

  for (long round = 0; round < ROUNDS; round++) {
    for (int at = 0; at < 100; at++) record[at] = round * nodes + node;
    cwrite(fd, record, sizeof record);
  }
  /* A collective call: all processes have written before any reads. */
  setiomode(fd, M_UNIX);
  lseek(fd, 0, SEEK_SET);
  for (long number = 0; number < ROUNDS * nodes; number++) {
    cread(fd, record, sizeof record);
    for (int at = 0; at < 100; at++) wrong += record[at] != number;
  }
  close(fd);
  if (node == 0 && wrong == 0) printf("%ld records in order\n", ROUNDS * nodes);
  return wrong != 0;
}
