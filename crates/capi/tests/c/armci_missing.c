/* Process 3 is killed while the others wait for it. */
#include <armci.h>
#include <pfslib.h>
#include <signal.h>
#include <string.h>

#include "expect.h"

int main(int argc, char **argv) {
  IS(argc > 1 && ARMCI_Init() == 0);
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
