/*
 * One-sided access to the memory of all processes (armci.h): no process assigns tasks. A free
 * process draws the next task from a counter of process 0, computes it, puts the result to the
 * process that stores it, and adds to a sum at process 0. Then each process gets its neighbour's
 * results while it checks the sum.
 */
#include <armci.h>
#include <stdio.h>
#include <stdlib.h>

#define TASKS 1000

static void expect(int is_so, const char *what) {
  if (!is_so) {
    fprintf(stderr, "process %d: %s failed\n", armci_msg_me(), what);
    exit(1);
  }
}

int main(void) {
  expect(ARMCI_Init() == 0, "ARMCI_Init");
  int me = armci_msg_me(), size = armci_msg_nproc();

  /* Each process has a counter, a sum, and the results of its tasks. */
  int kept = TASKS / size + 1;
  long **counter = malloc(size * sizeof *counter);
  double **sum = malloc(size * sizeof *sum), **results = malloc(size * sizeof *results);
  expect(counter && sum && results, "malloc");
  expect(ARMCI_Malloc((void **)counter, sizeof(long)) == 0, "ARMCI_Malloc");
  expect(ARMCI_Malloc((void **)sum, sizeof(double)) == 0, "ARMCI_Malloc");
  expect(ARMCI_Malloc((void **)results, kept * (int)sizeof(double)) == 0, "ARMCI_Malloc");

  long task, mine = 0;
  double one = 1;
  for (;;) {
    expect(ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &task, counter[0], 1, 0) == 0, "ARMCI_Rmw");
    if (task >= TASKS) break;
    double result = (double)task * (double)task;
    int keeper = (int)(task % size);
    expect(ARMCI_Put(&result, results[keeper] + task / size, sizeof result, keeper) == 0, "ARMCI_Put");
    expect(ARMCI_Acc(ARMCI_ACC_DBL, &one, &result, sum[0], sizeof result, 0) == 0, "ARMCI_Acc");
    mine++;
  }
  ARMCI_Barrier();

  /* The neighbour's results are under way while the sum is checked. */
  int next = (me + 1) % size;
  double *theirs = malloc(kept * sizeof *theirs), all;
  expect(theirs != NULL, "malloc");
  armci_hdl_t request;
  ARMCI_INIT_HANDLE(&request);
  expect(ARMCI_NbGet(results[next], theirs, kept * (int)sizeof *theirs, next, &request) == 0,
         "ARMCI_NbGet");
  expect(ARMCI_Get(sum[0], &all, sizeof all, 0) == 0, "ARMCI_Get");
  expect(all == (TASKS - 1.0) * TASKS * (2.0 * TASKS - 1) / 6, "the sum");
  expect(ARMCI_Wait(&request) == 0, "ARMCI_Wait");
  for (int i = 0; i * size + next < TASKS; i++) {
    double number = (double)i * size + next;
    expect(theirs[i] == number * number, "a result");
  }

  armci_msg_lgop(&mine, 1, "+");
  expect(mine == TASKS, "every task once");
  if (me == 0) printf("%d tasks drawn by %d processes, sum %.0f\n", TASKS, size, all);
  expect(ARMCI_Free(results[me]) == 0 && ARMCI_Free(sum[me]) == 0 && ARMCI_Free(counter[me]) == 0,
         "ARMCI_Free");
  free(theirs), free(results), free(sum), free(counter);
  ARMCI_Finalize();
  return 0;
}
