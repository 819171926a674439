/*
 * Handles that are used again while their request is under way, and gets for which the program
 * never waits.
 */
#include <armci.h>
#include <pfslib.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

#define BYTES (4 << 20)

int main(void) {
  void *memory[64];
  IS(ARMCI_Init() == 0);
  int me = armci_msg_me(), all = armci_msg_nproc(), next = (me + 1) % all;
  IS(ARMCI_Malloc(memory, 2 * BYTES) == 0);
  memset(memory[me], 'a' + me, BYTES);
  memset((char *)memory[me] + BYTES, 'A' + me, BYTES);
  ARMCI_Barrier();

  /* When a call with a handle returns, the former request of the handle is complete. */
  char *first = malloc(BYTES), *second = malloc(BYTES);
  for (int round = 0; round < 20; round++) {
    armci_hdl_t handle;
    ARMCI_INIT_HANDLE(&handle);
    memset(first, 0, BYTES);
    memset(second, 0, BYTES);
    IS(ARMCI_NbGet(memory[next], first, BYTES, next, &handle) == 0);
    IS(ARMCI_NbGet((char *)memory[next] + BYTES, second, BYTES, next, &handle) == 0);
    for (int i = 0; i < BYTES; i += 511) IS(first[i] == 'a' + next);
    IS(first[BYTES - 1] == 'a' + next);
    IS(ARMCI_Wait(&handle) == 0);
    IS(second[0] == 'A' + next && second[BYTES - 1] == 'A' + next);
  }
  ARMCI_Barrier();

  /* The memory of this get is gone before the data is waited for. */
  char *gone = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  IS(gone != MAP_FAILED);
  armci_hdl_t lost;
  ARMCI_INIT_HANDLE(&lost);
  IS(ARMCI_NbGet(memory[next], gone, BYTES, next, &lost) == 0);
  IS(munmap(gone, BYTES) == 0);
  /* A put for which the program does not wait arrives. */
  IS(ARMCI_NbPut(first, memory[next], BYTES, next, NULL) == 0);
  ARMCI_Finalize();
  printf("process %d ends\n", me);
  return 0;
}
