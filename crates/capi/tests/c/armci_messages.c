/* The message layer of ARMCI, groups, domains, single values, flags and notifications. */
#include <armci.h>
#include <math.h>
#include <pfslib.h>
#include <string.h>

#include "expect.h"

static int me, all;

/* Every operation in every type, against what one process computes alone. */
static void operations(void) {
  char *names[] = {"+", "*", "max", "min", "absmax", "absmin", "or"};
  for (int o = 0; o < 7; o++) {
    long expected = 0;
    for (int p = 0; p < all; p++) {
      long x = p % 2 ? p + 2 : -p - 2, a = labs(x);
      if (p == 0) {
        expected = o == 4 || o == 5 ? a : x;
        continue;
      }
      switch (o) {
        case 0: expected += x; break;
        case 1: expected *= x; break;
        case 2: expected = x > expected ? x : expected; break;
        case 3: expected = x < expected ? x : expected; break;
        case 4: expected = a > expected ? a : expected; break;
        case 5: expected = a < expected ? a : expected; break;
        case 6: expected |= x; break;
      }
    }
    long own = me % 2 ? me + 2 : -me - 2, l[2] = {own, own};
    int i[2] = {own, own};
    long long ll[2] = {own, own};
    float f[2] = {own, own};
    double d[2] = {own, own};
    armci_msg_igop(i, 2, names[o]);
    armci_msg_lgop(l, 2, names[o]);
    armci_msg_llgop(ll, 2, names[o]);
    IS(i[0] == (int)expected && i[1] == (int)expected);
    IS(l[0] == expected && l[1] == expected && ll[0] == expected && ll[1] == expected);
    if (o < 6) {
      armci_msg_fgop(f, 2, names[o]);
      armci_msg_dgop(d, 2, names[o]);
      IS(f[0] == (float)expected && d[1] == (double)expected);
    }
  }
  /* More numbers than one round holds. */
  static double many[20000];
  for (int i = 0; i < 20000; i++) many[i] = i + me;
  armci_msg_gop_scope(SCOPE_ALL, many, 20000, "max", ARMCI_DOUBLE);
  for (int i = 0; i < 20000; i++) IS(many[i] == i + all - 1);
  int reduced = me + 1;
  armci_msg_reduce(&reduced, 1, "+", ARMCI_INT);
  IS(reduced == (me == 0 ? all * (all + 1) / 2 : me + 1));
}

/* The process with the smallest or largest number gives its bytes. */
static void selected(void) {
  struct {
    double value;
    int who;
  } x = {fabs(me - 1.5), me};
  armci_msg_sel(&x, sizeof x, "max", ARMCI_DOUBLE, 1);
  IS(x.who == (all > 4 ? all - 1 : 0));
  x.value = 100 - me;
  x.who = me;
  /* Odd processes do not contribute. */
  armci_msg_sel(&x, sizeof x, "min", ARMCI_DOUBLE, me % 2 == 0);
  IS(x.who == (all - 1) / 2 * 2 && x.value == 100 - x.who);
  long none = me;
  armci_msg_sel(&none, sizeof none, "min", ARMCI_LONG, 0);
  IS(none == me);
}

/* A ring, messages in any order of tags, of any sender, and large ones. */
static void messages(void) {
  int next = (me + 1) % all, last = (me + all - 1) % all, len = -1, got = -1;
  armci_msg_snd(1, &me, sizeof me, next);
  armci_msg_rcv(1, &got, sizeof got, &len, last);
  IS(got == last && len == sizeof got);
  /* Tag 8 is received before tag 7. */
  int seven = 7, eight = 8;
  armci_msg_snd(7, &seven, sizeof seven, next);
  armci_msg_snd(8, &eight, sizeof eight, next);
  armci_msg_rcv(8, &got, sizeof got, NULL, last);
  IS(got == 8);
  armci_msg_rcv(7, &got, sizeof got, NULL, last);
  IS(got == 7);
  if (me == 0) {
    int seen = 0;
    for (int p = 1; p < all; p++) {
      int from = armci_msg_rcvany(-5, &got, sizeof got, &len);
      IS(from > 0 && got == 100 + from && len == sizeof got);
      seen += from;
    }
    IS(seen == all * (all - 1) / 2);
  } else {
    got = 100 + me;
    armci_msg_snd(-5, &got, sizeof got, 0);
  }
  int large = 3 << 20;
  char *out = malloc(large), *in = malloc(large);
  for (int i = 0; i < large; i++) out[i] = (char)(i * 7 + me);
  armci_msg_snd(3, out, large, next);
  armci_msg_rcv(3, in, large, &len, last);
  IS(len == large);
  for (int i = 0; i < large; i++) IS(in[i] == (char)(i * 7 + last));
  free(out);
  free(in);
  armci_msg_snd(4, NULL, 0, next);
  armci_msg_rcv(4, NULL, 0, &len, last);
  IS(len == 0);
  armci_msg_barrier();
}

/* Machines, as the test has distributed the processes: in turn. */
static void machines(int count) {
  int d = ARMCI_DOMAIN_SMP, id = armci_domain_my_id(d);
  IS(armci_domain_count(d) == count && id == me % count);
  IS(armci_domain_nprocs(d, id) == (all - id + count - 1) / count);
  IS(armci_domain_nprocs(d, -1) == armci_domain_nprocs(d, id));
  IS(armci_domain_nprocs(d, count) == -1 && armci_domain_nprocs(7, 0) == -1);
  for (int p = 0; p < all; p++) {
    IS(armci_domain_id(d, p) == p % count);
    IS(armci_domain_glob_proc_id(d, p % count, p / count) == p);
    IS(armci_domain_same_id(d, p) == (p % count == id) && ARMCI_Same_node(p) == (p % count == id));
  }
  IS(ARMCI_Same_node(all) == -1 && ARMCI_Uses_shm() == 1);
  ARMCI_Set_shm_limit(1 << 20);

  int sum = 1, masters = 1, told = me == id ? 50 + id : 0;
  armci_msg_clus_igop(&sum, 1, "+");
  IS(sum == armci_domain_nprocs(d, id));
  armci_msg_gop_scope(SCOPE_MASTERS, &masters, 1, "+", ARMCI_INT);
  IS(masters == (me < count ? count : 1));
  armci_msg_clus_brdcst(&told, sizeof told);
  IS(told == 50 + id);
  told = me == 0 ? 9 : 0;
  armci_msg_bcast_scope(SCOPE_MASTERS, &told, sizeof told, 0);
  IS(told == (me < count ? 9 : 0));
  int reduced = 2;
  armci_msg_reduce_scope(SCOPE_NODE, &reduced, 1, "+", ARMCI_INT);
  IS(reduced == (me < count ? 2 * armci_domain_nprocs(d, id) : 2));
  int root, up, left, right;
  armci_msg_bintree(SCOPE_ALL, &root, &up, &left, &right);
  IS(root == 0 && up == (me ? (me - 1) / 2 : -1) && left == (2 * me + 1 < all ? 2 * me + 1 : -1));
}

/* The even processes form a group, and its first two a child; the odd ones do not take part. */
static void groups(void) {
  int list[64], n = 0, rank, size;
  ARMCI_Group world, even, child;
  ARMCI_Group_get_world(&world);
  ARMCI_Group_size(&world, &size);
  IS(ARMCI_Group_rank(&world, &rank) == 0 && rank == me && size == all);
  /* In descending order. */
  for (int p = all - 1; p >= 0; p--)
    if (p % 2 == 0) list[n++] = p;
  if (me % 4 == 3) {
    ARMCI_Group_create(n, list, &even);
    IS(ARMCI_Group_rank(&even, &rank) == 0 && rank == -1);
    void *none[64];
    IS(ARMCI_Malloc_group(none, 8, &even) == -1);
    ARMCI_Group_free(&even);
  }
  if (me % 2 == 0) {
    ARMCI_Group_create(n, list, &even);
    ARMCI_Group_size(&even, &size);
    IS(ARMCI_Group_rank(&even, &rank) == 0 && size == n && list[rank] == me);
    for (int g = 0; g < n; g++) IS(ARMCI_Absolute_id(&even, g) == list[g]);
    IS(ARMCI_Absolute_id(&even, n) == -1);
    long sum = me;
    armci_msg_group_lgop(&sum, 1, "+", &even);
    IS(sum == (long)n * (n - 1));
    double product = 2;
    armci_msg_group_gop_scope(SCOPE_ALL, &product, 1, "*", ARMCI_DOUBLE, &even);
    IS(product == pow(2, n));
    int told = rank == n - 1 ? 77 : 0;
    armci_msg_group_bcast_scope(SCOPE_ALL, &told, sizeof told, n - 1, &even);
    IS(told == 77);

    void *memory[64];
    IS(ARMCI_Malloc_group(memory, 100 + rank, &even) == 0);
    int next = (rank + 1) % n, value = 1000 + me, back = 0;
    IS(ARMCI_Put(&value, memory[next], sizeof value, list[next]) == 0);
    ARMCI_GroupFence(&even);
    armci_msg_group_barrier(&even);
    IS(*(int *)memory[rank] == 1000 + list[(rank + n - 1) % n]);
    IS(ARMCI_Get(memory[next], &back, sizeof back, list[next]) == 0 && back == value);
    IS(ARMCI_Put(&value, (char *)memory[next] + 100 + next, 1, list[next]) == -1);
    IS(ARMCI_Malloc_group(memory + 32, -1, &even) == -1);
    armci_msg_group_barrier(&even);
    IS(ARMCI_Free_group(memory[rank], &even) == 0);
    IS(ARMCI_Put(&value, memory[next], sizeof value, list[next]) == -1);

    /* Ranks of the default group count for a new group. */
    ARMCI_Group_set_default(&even);
    ARMCI_Group_get_default(&child);
    IS(child == even);
    int two[2] = {0, 1}, kids = n < 2 ? n : 2;
    if (rank < kids) {
      ARMCI_Group_create(kids, two, &child);
      IS(ARMCI_Absolute_id(&child, kids - 1) == list[kids - 1]);
      int count = 1;
      armci_msg_group_igop(&count, 1, "+", &child);
      IS(count == kids);
      ARMCI_Group_free(&child);
      ARMCI_Group_create_child(kids, list, &child, &world);
      IS(ARMCI_Absolute_id(&child, 0) == list[0]);
      ARMCI_Group_free(&child);
    }
    ARMCI_Group_free(&even);
    ARMCI_Group_get_default(&child);
    IS(child == world);
  }
  armci_msg_barrier();
}

/* Single values, flags, notifications, and handles that collect requests. */
static void values(void) {
  void *memory[64];
  int next = (me + 1) % all, last = (me + all - 1) % all, waits = 0;
  IS(ARMCI_Malloc(memory, 4096) == 0);
  char *to = memory[next], *own = memory[me];
  IS(ARMCI_PutValueInt(me - 7, to, next) == 0 && ARMCI_PutValueLong(me + (1L << 40), to + 8, next) == 0);
  IS(ARMCI_PutValueFloat(me + 0.5f, to + 16, next) == 0);
  IS(ARMCI_PutValueDouble(me + 0.25, to + 24, next) == 0);
  IS(ARMCI_GetValueInt(to, next) == me - 7 && ARMCI_GetValueLong(to + 8, next) == me + (1L << 40));
  IS(ARMCI_GetValueFloat(to + 16, next) == me + 0.5f);
  IS(ARMCI_GetValueDouble(to + 24, next) == me + 0.25);
  IS(ARMCI_PutValueInt(1, to + 4095, next) == -1);

  armci_hdl_t handle;
  ARMCI_INIT_HANDLE(&handle);
  ARMCI_SET_AGGREGATE_HANDLE(&handle);
  for (int i = 0; i < 100; i++) {
    IS(ARMCI_NbPutValueInt(i + me, to + 1000 + 8 * i, next, &handle) == 0);
    IS(ARMCI_NbPutValueFloat(i, to + 1004 + 8 * i, next, &handle) == 0);
  }
  IS(ARMCI_Wait(&handle) == 0 && ARMCI_Test(&handle) == 0);
  ARMCI_UNSET_AGGREGATE_HANDLE(&handle);
  IS(ARMCI_NbPutValueLong(me, to + 32, next, &handle) == 0);
  IS(ARMCI_NbPutValueDouble(me, to + 40, next, &handle) == 0);
  IS(ARMCI_Wait(&handle) == 0);
  IS(armci_notify(next) == 1);
  IS(armci_notify_wait(last, &waits) >= 1 && waits == 1);
  for (int i = 0; i < 100; i++) IS(*(int *)(own + 1000 + 8 * i) == i + last);
  IS(*(long *)(own + 32) == last && *(double *)(own + 40) == last);
  IS(armci_notify(next) == 2 && armci_notify_wait(last, &waits) == 2 && waits == 2);

  /* The flag follows the bytes. */
  char bytes[512];
  memset(bytes, 'a' + me, sizeof bytes);
  IS(ARMCI_Put_flag(bytes, to + 2048, 512, (int *)(to + 48), me + 1, next) == 0);
  volatile int *flag = (int *)(own + 48);
  while (*flag != last + 1) continue;
  for (int i = 0; i < 512; i++) IS(own[2048 + i] == 'a' + last);
  int here[1] = {4}, there[1] = {8}, count[2] = {4, 3};
  IS(ARMCI_PutS_flag(bytes, here, to + 3000, there, count, 1, (int *)(to + 52), 5, next) == 0);
  IS(ARMCI_PutS_flag_dir(bytes, here, to + 3100, there, count, 1, (int *)(to + 56), 6, next) == 0);
  flag = (int *)(own + 56);
  while (*flag != 6) continue;
  IS(*(int *)(own + 52) == 5 && own[3000] == 'a' + last && own[3004] == 0 && own[3116] == 'a' + last);
  ARMCI_Copy(bytes, bytes + 100, 0);
  ARMCI_Copy(own, bytes, 4);
  IS(*(int *)bytes == last - 7);
  ARMCI_Barrier();
  IS(ARMCI_Free(memory[me]) == 0);
}

int main(int argc, char **argv) {
  double start = armci_timer();
  armci_msg_init(&argc, &argv);
  IS(ARMCI_Init_args(&argc, &argv) == 0);
  me = armci_msg_me();
  all = armci_msg_nproc();
  operations();
  selected();
  messages();
  machines(argc > 1 ? atoi(argv[1]) : 1);
  groups();
  values();
  ARMCI_Finalize();
  /* The message layer lives on. */
  int count = 1;
  armci_msg_igop(&count, 1, "+");
  IS(count == all);
  armci_msg_finalize();
  armci_msg_finalize();
  IS(armci_timer() >= start);
  if (me == 0) printf("%d processes have sent messages\n", all);
  return 0;
}
