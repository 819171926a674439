/*
 * M_GLOBAL: a shared pointer; all processes make the same call, and it is done once. A table is
 * written once and read once, and every process has it.
 */
#include <nx.h>
#include <stdio.h>

#define ENTRIES 20000

int main(void) {
  static double table[ENTRIES];
  long node = mynode(), wrong = 0;
  int fd = gopen("/pfs/examples/global", O_RDWR | O_CREAT | O_TRUNC, M_GLOBAL, 0644);

  for (int at = 0; at < ENTRIES; at++) table[at] = at / 3.0;
  cwrite(fd, table, sizeof table);

  lseek(fd, 0, SEEK_SET);
  for (int at = 0; at < ENTRIES; at++) table[at] = 0;
  cread(fd, table, sizeof table);
  for (int at = 0; at < ENTRIES; at++) wrong += table[at] != at / 3.0;
  wrong += iseof(fd) != 1; /* it was written once, not once per process */
  close(fd);
  if (node == 0 && wrong == 0) printf("every process has the table\n");
  return wrong != 0;
}
