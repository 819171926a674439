/* Process 3 is killed while the others wait for it; or process 0 ends the program. */
#include <armci.h>
#include <fcntl.h>
#include <pfslib.h>
#include <signal.h>
#include <string.h>

#include "expect.h"

/* Process 1 reads from a FIFO until process 0 has ended, and makes no call of ARMCI until then. */
static void aborted(const char *fifo) {
  int me = armci_msg_me(), fd = open(fifo, me == 0 ? O_WRONLY : O_RDONLY);
  char byte;
  IS(fd >= 0);
  armci_msg_barrier();
  if (me == 0) armci_msg_abort(4);
  IS(read(fd, &byte, 1) == 0);
  armci_msg_barrier();
}

int main(int argc, char **argv) {
  IS(argc > 1 && ARMCI_Init() == 0);
  if (strcmp(argv[1], "abort") == 0) aborted(argv[2]);
  int me = armci_msg_me(), number = 0, list[3] = {0, 2, 3};
  ARMCI_Group group;
  if (me != 1) ARMCI_Group_create(3, list, &group);
  armci_msg_barrier();
  if (me == 3) raise(SIGKILL);
  if (strcmp(argv[1], "message") == 0) armci_msg_rcv(1, &number, sizeof number, NULL, 3);
  if (strcmp(argv[1], "any") == 0) armci_msg_rcvany(1, &number, sizeof number, NULL);
  if (strcmp(argv[1], "notify") == 0) IS(armci_notify_wait(3, &number) != -1);
  if (strcmp(argv[1], "group") == 0 && me != 1) armci_msg_group_igop(&number, 1, "+", &group);
  return 0;
}
