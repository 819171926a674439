/* Record files: every call, and invalid arguments. */
#include <gio.h>
#include <limits.h>
#include <pfslib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static void all_calls(void) {
  int file, one, two, rank = GIO_Rank(), size = GIO_Size();
  int segs[64], handles[4], length, blocks, irregular, parts, records;
  int64_t wide[64], length64, lo64, hi64;
  IS(GIO_Open("file", &file) == 0);
  for (int i = 0; i < size; i++) wide[i] = segs[i] = 10 + i;
  IS(GIO_Create_record_irreg(file, &one, segs, size) == 0);
  IS(GIO_Create_record_irreg64(file, &two, wide, size) == 0);
  IS(GIO_Inq_record(file, one, &length, &blocks, &irregular) == 0);
  IS(length == 10 * size + size * (size - 1) / 2 && blocks == size && irregular == 1);
  IS(GIO_Inq_record64(file, two, &length64, NULL, NULL) == 0 && length64 == length);
  IS(GIO_Inq_file(file, &parts, &records) == 0 && parts == size && records == 2);
  IS(GIO_List_records(file, handles, 4) == 2 && handles[0] == one && handles[1] == two);
  IS(GIO_List_records(file, NULL, 0) == 2);

  /* The own block, with a stride; then the next process' block. */
  int lo, hi, next = (rank + 1) % size;
  char buf[300], back[300];
  IS(GIO_Distribution(file, one, rank, &lo, &hi) == rank);
  IS(hi - lo + 1 == 10 + rank && GIO_Locate(file, one, lo) == rank);
  memset(buf, 'a' + rank, sizeof buf);
  IS(GIO_Write(file, one, lo, hi, buf, 3) == 0);
  IS(GIO_Barrier() == 0);
  IS(GIO_Distribution64(file, one, next, &lo64, &hi64) == next);
  memset(back, '-', sizeof back);
  int request = GIO_Read_asyn64(file, one, lo64, hi64, back, 2);
  IS(request >= 0 && GIO_Wait(request) == 0);
  FAILS(EINVAL, GIO_Wait(request));
  for (int i = 0; i <= hi64 - lo64; i++) IS(back[2 * i] == 'a' + next && back[2 * i + 1] == '-');

  /* Accumulation, with all number types. */
  int i1 = 3, i2 = 2;
  unsigned u1 = 3, u2 = 2;
  int64_t l1 = 3, l2 = 2;
  uint64_t v1 = 3, v2 = 2;
  float f1 = 3, f2 = 0.5f;
  double d1 = 3, d2 = 0.5, total;
  int rec;
  IS(GIO_Create_record64(file, &rec, 48) == 0);
  IS(GIO_Acc(file, rec, 0, 3, &i1, 1, GIO_INT, &i2) == 0);
  IS(GIO_Acc(file, rec, 4, 7, &u1, 1, GIO_UNSIGNED, &u2) == 0);
  IS(GIO_Acc(file, rec, 8, 15, &l1, 1, GIO_INT64, &l2) == 0);
  IS(GIO_Acc64(file, rec, 16, 23, &v1, 1, GIO_UNSIGNED64, &v2) == 0);
  IS(GIO_Acc(file, rec, 24, 27, &f1, 1, GIO_FLOAT, &f2) == 0);
  request = GIO_Acc_asyn(file, rec, 32, 39, &d1, 1, GIO_DOUBLE, &d2);
  int other = GIO_Acc_asyn64(file, rec, 40, 47, &d1, 1, GIO_DOUBLE, &d2);
  IS(request >= 0 && other >= 0);
  int done;
  while ((done = GIO_Test(request)) == 0) {}
  IS(done == 1);
  FAILS(EINVAL, GIO_Test(request));
  IS(GIO_Wait_all(file) == 0);
  FAILS(EINVAL, GIO_Wait(other));
  IS(GIO_Barrier() == 0);
  int sum;
  IS(GIO_Read(file, rec, 0, 3, (char *)&sum, 1) == 0 && sum == 6 * size);
  IS(GIO_Read64(file, rec, 40, 47, (char *)&total, 1) == 0 && total == 1.5 * size);
  request = GIO_Write_asyn64(file, one, 0, -1, NULL, 1);
  IS(request >= 0 && GIO_Wait(request) == 0);
  IS(GIO_Barrier() == 0);
  if (rank == 0) {
    request = GIO_Write_asyn(file, one, 0, 1, "xy", 1);
    IS(request >= 0 && GIO_Wait(request) == 0);
    IS(GIO_Write64(file, one, 1, 1, "z", 1) == 0);
  }
  IS(GIO_Delete_record(file, two) == 0);
  IS(GIO_Sync(file) == 0);
  IS(GIO_Close(file) == 0);
  FAILS(EBADF, GIO_Sync(file));

  IS(GIO_Open("file", &file) == 0);
  IS(GIO_List_records(file, handles, 1) == 2 && handles[0] == one);
  IS(GIO_Read(file, one, 0, 1, back, 1) == 0 && back[0] == 'x' && back[1] == 'z');
  IS(GIO_Locate64(file, one, 0) == 0);
  IS(GIO_Close(file) == 0);
  IS(GIO_Delete_file("file") == 0);
}

/* Parts in a directory; records with fewer segments than processes. */
static void directory(void) {
  int file, rec, length, blocks, lo, hi, size = GIO_Size(), segs[] = {30};
  char name[32], buf[30];
  struct stat info;
  if (GIO_Rank() == 0) IS(mkdir("run", 0755) == 0);
  IS(GIO_Barrier() == 0);
  IS(GIO_Open("run", &file) == 0);
  sprintf(name, "run/gio.part%d", GIO_Rank());
  IS(stat(name, &info) == 0 && S_ISREG(info.st_mode));
  IS(GIO_Create_record_irreg(file, &rec, segs, 1) == 0);
  IS(GIO_Inq_record(file, rec, &length, &blocks, NULL) == 0 && length == 30 && blocks == size);
  IS(GIO_Distribution(file, rec, 0, &lo, &hi) == 0 && lo == 0 && hi == 29);
  for (int seg = 1; seg < size; seg++)
    IS(GIO_Distribution(file, rec, seg, &lo, &hi) == seg && hi < lo);
  if (GIO_Rank() == size - 1) IS(GIO_Write(file, rec, 0, 4, "fewer", 1) == 0);
  IS(GIO_Barrier() == 0);
  IS(GIO_Read(file, rec, 0, 4, buf, 1) == 0 && memcmp(buf, "fewer", 5) == 0);
  IS(GIO_Close(file) == 0);
  IS(GIO_Delete_file("run") == 0);
  IS(stat("run", &info) == 0 && S_ISDIR(info.st_mode));
  IS(GIO_Barrier() == 0);
  if (GIO_Rank() == 0) IS(rmdir("run") == 0); /* nothing is left in it */
}

/* A cache: reads see what any process has written before. */
static void cached(void) {
  int file, rec, size = GIO_Size(), one = 1;
  char buf[4];
  IS(GIO_Open_cached("cached", &file, 1 << 20) == 0);
  IS(GIO_Create_record(file, &rec, 4 * size) == 0);
  for (int turn = 0; turn < 3 * size; turn++) {
    for (int at = 0; at < size; at++) {
      IS(GIO_Read(file, rec, 4 * at, 4 * at + 3, buf, 1) == 0);
      IS(*(int *)buf == turn);
    }
    IS(GIO_Barrier() == 0);
    if (turn % size == GIO_Rank())
      for (int at = 0; at < size; at++)
        IS(GIO_Acc(file, rec, 4 * at, 4 * at + 3, &one, 1, GIO_INT, &one) == 0);
    IS(GIO_Barrier() == 0);
  }
  IS(GIO_Invalidate(file) == 0);
  IS(GIO_Read(file, rec, 0, 3, buf, 1) == 0 && *(int *)buf == 3 * size);
  IS(GIO_Close(file) == 0);
  FAILS(EBADF, GIO_Invalidate(file));
  IS(GIO_Delete_file("cached") == 0);
}

static void arguments(void) {
  int file, rec, out;
  char buf[10] = {0};
  double one = 1;
  FAILS(EFAULT, GIO_Open(NULL, &file));
  FAILS(EFAULT, GIO_Open("x", NULL));
  FAILS(ENOENT, GIO_Open("no/such/directory/x", &file));
  FAILS(EINVAL, GIO_Open("", &file));
  FAILS(EFAULT, GIO_Open_cached(NULL, &file, 0));
  FAILS(EFAULT, GIO_Open_cached("x", NULL, 0));
  FAILS(EINVAL, GIO_Open_cached("x", &file, -1));
  FAILS(EBADF, GIO_Invalidate(77));
  FAILS(ENOENT, GIO_Delete_file("nothing"));
  FAILS(EFAULT, GIO_Delete_file(NULL));
  int wild[] = {-1, INT_MIN, INT_MAX, 77};
  IS(GIO_Open("wild", &file) == 0);
  IS(GIO_Create_record(file, &rec, 10) == 0);
  for (int i = 0; i < 4; i++) {
    int w = wild[i];
    FAILS(EBADF, GIO_Close(w));
    FAILS(EBADF, GIO_Sync(w));
    FAILS(EBADF, GIO_Read(w, rec, 0, 0, buf, 1));
    FAILS(EBADF, GIO_Read_asyn(w, rec, 0, 0, buf, 1));
    FAILS(EBADF, GIO_Wait_all(w));
    FAILS(EBADF, GIO_Inq_file(w, NULL, NULL));
    FAILS(EINVAL, GIO_Wait(w));
    FAILS(EINVAL, GIO_Test(w));
    FAILS(ENOENT, GIO_Read(file, w, 0, 0, buf, 1));
    FAILS(ENOENT, GIO_Delete_record(file, w));
    FAILS(EINVAL, GIO_Distribution(file, rec, w, &out, &out));
    FAILS(EINVAL, GIO_Locate(file, rec, w));
    FAILS(EINVAL, GIO_Acc(file, rec, 0, 7, &one, 1, w, &one));
    if (w > 0) FAILS(EINVAL, GIO_Read(file, rec, 0, w, buf, 1));
    if (w < 0) FAILS(EINVAL, GIO_Read(file, rec, w, 5, buf, 1));
    if (w < 0) FAILS(EINVAL, GIO_Read(file, rec, 0, 5, buf, w));
    if (w < 0) FAILS(EINVAL, GIO_Create_record(file, &rec, w));
    FAILS(EINVAL, GIO_Create_record_irreg(file, &rec, wild, w < 4 ? w : 3));
  }
  FAILS(EINVAL, GIO_Read(file, rec, 0, 5, buf, 0));
  FAILS(EINVAL, GIO_Read(file, rec, 5, 3, buf, 1));
  FAILS(EINVAL, GIO_Read64(file, rec, 0, INT64_MAX, buf, 1));
  FAILS(EINVAL, GIO_Read64(file, rec, 0, 5, buf, INT64_MAX));
  FAILS(EINVAL, GIO_Acc(file, rec, 0, 6, &one, 1, GIO_DOUBLE, &one));
  FAILS(EFAULT, GIO_Acc(file, rec, 0, 7, NULL, 1, GIO_DOUBLE, &one));
  FAILS(EFAULT, GIO_Acc(file, rec, 0, 7, &one, 1, GIO_DOUBLE, NULL));
  FAILS(EFAULT, GIO_Read(file, rec, 0, 5, NULL, 1));
  FAILS(EFAULT, GIO_Write_asyn(file, rec, 0, 5, NULL, 1));
  FAILS(EFAULT, GIO_Create_record(file, NULL, 5));
  FAILS(EFAULT, GIO_Create_record_irreg(file, &rec, NULL, 1));
  IS(GIO_Create_record_irreg(file, &out, NULL, 0) == 0); /* no byte in any part */
  FAILS(EFAULT, GIO_List_records(file, NULL, 1));
  FAILS(EINVAL, GIO_List_records(file, &out, -1));
  FAILS(EINVAL, GIO_Create_record64(file, &out, INT64_MAX));
  IS(strstr(GIO_Error(), "would become longer than its format allows") != NULL);
  IS(GIO_Create_record64(file, &out, 5000000000) == 0);
  FAILS(EOVERFLOW, GIO_Inq_record(file, out, &rec, NULL, NULL));
  FAILS(EOVERFLOW, GIO_Distribution(file, out, 0, &rec, NULL));
  IS(GIO_Write64(file, out, 4999999999, 4999999999, "e", 1) == 0);
  FAILS(EINVAL, GIO_Read(file, out, -1, 5, buf, 1));
  IS(strstr(GIO_Error(), "bytes start at 0") != NULL);
  IS(GIO_Close(file) == 0);
  IS(GIO_Delete_file("wild") == 0);
}

/* A forked process is not in the job, and its end disturbs no other. */
static void forked(void) {
  int file, out, status;
  IS(GIO_Open("forked", &file) == 0);
  pid_t child = fork();
  if (child == 0) {
    FAILS(EPFSLFORK, GIO_Sync(file));
    FAILS(EPFSLFORK, GIO_Open("other", &out));
    FAILS(EPFSLFORK, GIO_Rank());
    exit(0);
  }
  IS(waitpid(child, &status, 0) == child && status == 0);
  IS(GIO_Create_record(file, &out, 10) == 0);
  IS(GIO_Close(file) == 0);
}

int main(int count, char **names) {
  IS(count == 2);
  if (strcmp(names[1], "calls") == 0) all_calls();
  if (strcmp(names[1], "arguments") == 0) arguments();
  if (strcmp(names[1], "forked") == 0) forked();
  if (strcmp(names[1], "directory") == 0) directory();
  if (strcmp(names[1], "cached") == 0) cached();
  return 0;
}
