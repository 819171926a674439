/* One-sided access to the memory of all processes: every call, and invalid arguments. */
#include <armci.h>
#include <pfslib.h>
#include <string.h>

#include "expect.h"

static int me, all;

/* Each process puts to the next one, and gets from the one after that. */
static void contiguous(void) {
  void *memory[64];
  char mine[1000], theirs[1000];
  int next = (me + 1) % all, after = (me + 2) % all;
  IS(ARMCI_Malloc(memory, 1000) == 0);
  memset(mine, 'a' + me, sizeof mine);
  IS(ARMCI_Put(mine, (char *)memory[next] + 100, 800, next) == 0);
  ARMCI_Fence(next);
  ARMCI_Barrier();
  IS(ARMCI_Get((char *)memory[after] + 100, theirs, 800, after) == 0);
  for (int i = 0; i < 800; i++) IS(theirs[i] == 'a' + (after + all - 1) % all);
  armci_hdl_t put, get;
  ARMCI_INIT_HANDLE(&put);
  ARMCI_INIT_HANDLE(&get);
  IS(ARMCI_NbPut(mine, memory[next], 100, next, &put) == 0);
  IS(ARMCI_Wait(&put) == 0 && ARMCI_Test(&put) == 0);
  IS(ARMCI_NbPut(mine, (char *)memory[next] + 900, 100, next, NULL) == 0);
  IS(ARMCI_WaitProc(next) == 0 && ARMCI_WaitAll() == 0);
  ARMCI_Barrier();
  memset(theirs, 0, sizeof theirs);
  IS(ARMCI_NbGet(memory[after], theirs, 1000, after, &get) == 0);
  IS(ARMCI_Wait(&get) == 0);
  for (int i = 0; i < 1000; i++) IS(theirs[i] == 'a' + (after + all - 1) % all);
  ARMCI_AllFence();
  ARMCI_Barrier();
  IS(ARMCI_Free(memory[me]) == 0);
}

/* All processes add to the same numbers of each process, in every type. */
static void accumulated(void) {
  void *memory[64];
  IS(ARMCI_Malloc(memory, 96) == 0);
  int one = 1, three = 3;
  long many[2] = {5, 7}, twice = 2;
  float real[2] = {0.5f, 1.5f}, half = 0.5f, turn[2] = {0, 1};
  double precise[2] = {0.25, 4}, four = 4, turned[2] = {0, 2};
  for (int p = 0; p < all; p++) {
    char *to = memory[p];
    IS(ARMCI_Acc(ARMCI_ACC_INT, &three, &one, to, 4, p) == 0);
    IS(ARMCI_Acc(ARMCI_ACC_LNG, &twice, many, to + 8, 16, p) == 0);
    IS(ARMCI_Acc(ARMCI_ACC_FLT, &half, real, to + 24, 8, p) == 0);
    IS(ARMCI_NbAcc(ARMCI_ACC_DBL, &four, precise, to + 32, 16, p, NULL) == 0);
    IS(ARMCI_Acc(ARMCI_ACC_CPL, turn, real, to + 48, 8, p) == 0);
    IS(ARMCI_Acc(ARMCI_ACC_DCP, turned, precise, to + 56, 16, p) == 0);
  }
  ARMCI_Barrier();
  char *own = memory[me];
  int n = all;
  IS(*(int *)own == 3 * n);
  IS(((long *)(own + 8))[0] == 10 * n && ((long *)(own + 8))[1] == 14 * n);
  IS(((float *)(own + 24))[0] == 0.25f * n && ((float *)(own + 24))[1] == 0.75f * n);
  IS(((double *)(own + 32))[0] == n && ((double *)(own + 32))[1] == 16.0 * n);
  IS(((float *)(own + 48))[0] == -1.5f * n && ((float *)(own + 48))[1] == 0.5f * n);
  IS(((double *)(own + 56))[0] == -8.0 * n && ((double *)(own + 56))[1] == 0.5 * n);
  ARMCI_Barrier();
  IS(ARMCI_Free(memory[me]) == 0);
}

/* Regions of a matrix of 8 x 10 bytes, and lists. */
static void regions(void) {
  void *memory[64];
  int next = (me + 1) % all;
  IS(ARMCI_Malloc(memory, 80) == 0);
  char packed[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
  int packed_stride[1] = {2}, stride[1] = {10}, count[2] = {2, 3};
  IS(ARMCI_PutS(packed, packed_stride, (char *)memory[next] + 14, stride, count, 1, next) == 0);
  armci_hdl_t handle;
  ARMCI_INIT_HANDLE(&handle);
  IS(ARMCI_NbGetS((char *)memory[next] + 14, stride, back, packed_stride, count, 1, next, &handle) == 0);
  IS(ARMCI_Wait(&handle) == 0 && memcmp(packed, back, 6) == 0);
  ARMCI_Barrier();
  char *own = memory[me];
  IS(own[14] == 1 && own[15] == 2 && own[24] == 3 && own[35] == 6 && own[16] == 0 && own[13] == 0);
  int numbers[2] = {10, 20}, factor = 2, number_stride[1] = {4}, there[1] = {8}, counts[2] = {4, 2};
  IS(ARMCI_AccS(ARMCI_ACC_INT, &factor, numbers, number_stride, (char *)memory[next] + 40, there,
                counts, 1, next) == 0);
  ARMCI_Barrier();
  IS(((int *)(own + 40))[0] == 20 && ((int *)(own + 40))[1] == 0 && ((int *)(own + 40))[2] == 40);
  void *from[2] = {packed, packed + 3}, *to[2] = {(char *)memory[next] + 70, (char *)memory[next] + 60};
  armci_giov_t list = {from, to, 2, 3};
  IS(ARMCI_PutV(&list, 1, next) == 0);
  void *mine[2] = {back + 3, back};
  armci_giov_t back_list = {to, mine, 2, 3};
  IS(ARMCI_GetV(&back_list, 1, next) == 0);
  IS(back[3] == 1 && back[5] == 3 && back[0] == 4 && back[2] == 6);
  ARMCI_Barrier();
  IS(own[70] == 1 && own[72] == 3 && own[60] == 4 && own[62] == 6);
  void *sum[1] = {(char *)memory[next] + 40}, *number[1] = {numbers};
  armci_giov_t add = {number, sum, 1, 4};
  IS(ARMCI_AccV(ARMCI_ACC_INT, &factor, &add, 1, next) == 0);
  ARMCI_Barrier();
  IS(((int *)(own + 40))[0] == 40);
  ARMCI_Barrier();
  IS(ARMCI_Free(memory[me]) == 0);
}

/* Each process draws numbers from a counter, and adds under a mutex. */
static void drawn(void) {
  void *memory[64];
  IS(ARMCI_Malloc(memory, me == 0 ? 32 : 0) == 0);
  IS(ARMCI_Create_mutexes(me == 0 ? 2 : 0) == 0);
  long *counter = memory[0];
  int *small = (int *)(counter + 1);
  long sum = 0;
  for (int i = 0; i < 50; i++) {
    long number = -1;
    IS(ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &number, counter, 1, 0) == 0);
    sum += number;
    int short_number = -1;
    IS(ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &short_number, small, 2, 0) == 0);
    IS(short_number >= 0 && short_number % 2 == 0);
    ARMCI_Lock(1, 0);
    int value;
    IS(ARMCI_Get(small + 1, &value, 4, 0) == 0);
    value++;
    IS(ARMCI_Put(&value, small + 1, 4, 0) == 0);
    ARMCI_Unlock(1, 0);
  }
  armci_msg_lgop(&sum, 1, "+");
  IS(sum == 50L * all * (50L * all - 1) / 2);
  int value, mine = me + 1;
  IS(ARMCI_Get(small + 1, &value, 4, 0) == 0 && value == 50 * all);
  ARMCI_Barrier();
  IS(ARMCI_Rmw(ARMCI_SWAP, &mine, small + 2, 0, 0) == 0);
  armci_msg_igop(&mine, 1, "+");
  ARMCI_Barrier();
  int last;
  IS(ARMCI_Get(small + 2, &last, 4, 0) == 0);
  IS(mine + last == all * (all + 1) / 2);
  double largest = me;
  armci_msg_dgop(&largest, 1, "max");
  float smallest = 10 - me;
  armci_msg_fgop(&smallest, 1, "min");
  IS(largest == all - 1 && smallest == 11 - all);
  int told = me == all - 1 ? 77 : 0;
  armci_msg_brdcst(&told, 4, all - 1);
  IS(told == 77);
  IS(ARMCI_Destroy_mutexes() == 0);
  IS(ARMCI_Free(memory[me]) == 0 || me != 0);
}

static int reversed(int from, int proc, const void *header, int header_size, const void *data,
                    int data_size, void *result, int room, int *len) {
  if (header_size == 3 && memcmp(header, "bad", 3) == 0) return 5;
  if (from < 0 || proc < 0 || data_size + 1 > room) return 6;
  for (int i = 0; i < data_size; i++) ((char *)result)[i] = ((const char *)data)[data_size - 1 - i];
  ((char *)result)[data_size] = (char)proc;
  *len = data_size + 1;
  return 0;
}

static void called(void) {
  ARMCI_Callback_handle_t reverse = ARMCI_Callback_register(reversed);
  IS(reverse >= 0);
  for (int p = 0; p < all; p++) {
    char result[100], data[] = "abc";
    int len = 0;
    int request = ARMCI_Callback_send(reverse, p, "good", 4, data, 3, result, sizeof result, &len);
    IS(request > 0 && ARMCI_Callback_wait(request) == 0);
    IS(len == 4 && memcmp(result, "cba", 3) == 0 && result[3] == p);
    request = ARMCI_Callback_send(reverse, p, "bad", 3, NULL, 0, NULL, 0, NULL);
    IS(request > 0 && ARMCI_Callback_wait(request) == -1);
    IS(ARMCI_Callback_wait(request) == -1);
  }
  ARMCI_Barrier();
}

/* Invalid arguments are refused, and disturb no other process. */
static void wild(void) {
  void *memory[64];
  char own[16];
  IS(ARMCI_Malloc(memory, -1) == -1);
  IS(ARMCI_Malloc(NULL, 10) == -1);
  IS(ARMCI_Malloc(memory, 1L << 50) == -1);
  IS(ARMCI_Malloc(memory, 16) == 0);
  IS(ARMCI_Put(own, memory[me], 17, me) == -1);
  IS(ARMCI_Put(own, memory[me], -1, me) == -1);
  IS(ARMCI_Put(NULL, memory[me], 4, me) == -1);
  IS(ARMCI_Put(own, own, 4, me) == -1);
  IS(ARMCI_Put(own, NULL, 4, me) == -1);
  IS(ARMCI_Put(own, memory[me], 4, all) == -1 && ARMCI_Get(memory[me], own, 4, -1) == -1);
  IS(ARMCI_Get((void *)8, own, 4, me) == -1 && ARMCI_Get(memory[me], NULL, 4, me) == -1);
  IS(ARMCI_Acc(9, own, own, memory[me], 4, me) == -1);
  IS(ARMCI_Acc(ARMCI_ACC_INT, NULL, own, memory[me], 4, me) == -1);
  IS(ARMCI_Acc(ARMCI_ACC_DBL, own, own, memory[me], 7, me) == -1);
  IS(ARMCI_Rmw(99, own, memory[me], 1, me) == -1);
  IS(ARMCI_Rmw(ARMCI_FETCH_AND_ADD, NULL, memory[me], 1, me) == -1);
  IS(ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, own, (char *)memory[me] + 4, 1, me) == -1);
  int count[2] = {4, 2}, stride[1] = {1 << 30}, bad[2] = {-4, 2};
  IS(ARMCI_PutS(own, stride, memory[me], stride, count, 1, me) == -1);
  IS(ARMCI_PutS(own, stride, memory[me], stride, bad, 1, me) == -1);
  IS(ARMCI_PutS(own, NULL, memory[me], stride, count, 1, me) == -1);
  IS(ARMCI_PutS(own, stride, memory[me], stride, count, 99, me) == -1);
  armci_giov_t list = {NULL, NULL, 3, 4};
  IS(ARMCI_PutV(&list, 1, me) == -1 && ARMCI_PutV(NULL, 1, me) == -1);
  IS(ARMCI_Wait(NULL) == -1 && ARMCI_Test(NULL) == -1);
  IS(ARMCI_Callback_send(9, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == -1);
  IS(ARMCI_Callback_register(NULL) == -1);
  IS(ARMCI_Create_mutexes(-1) == -1);
  IS(ARMCI_Free(own) == -1);
  IS(ARMCI_Free(memory[me]) == 0);
}

int main(void) {
  IS(ARMCI_Put(NULL, NULL, 0, 0) == -1 && !ARMCI_Initialized());
  IS(ARMCI_Init() == 0 && ARMCI_Init() == 0 && ARMCI_Initialized());
  me = armci_msg_me();
  all = armci_msg_nproc();
  contiguous();
  accumulated();
  regions();
  drawn();
  called();
  wild();
  void *own = ARMCI_Malloc_local(100);
  IS(own != NULL && ARMCI_Free_local(own) == 0);
  armci_msg_barrier();
  ARMCI_Finalize();
  if (me == 0) printf("%d processes have used each other's memory\n", all);
  return 0;
}
