/*
 * A record file: each process stores a part of every record on its own disk, and all read, write
 * and add to all of it.
 *   records [DIRECTORY]      the directory of this process, by default the current one
 * On a machine with several disks, give each process one of them.
 */
#include <gio.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUES 10007 /* no number of processes divides it */

static void check(int result) {
  if (result < 0) {
    fprintf(stderr, "process %d: %s\n", GIO_Rank(), GIO_Error());
    exit(1);
  }
}

int main(int count, char **arguments) {
  char path[1000];
  int file, grid, sums, rank = GIO_Rank(), size = GIO_Size(), wrong = 0;
  snprintf(path, sizeof path, "%s/records-example", count > 1 ? arguments[1] : ".");
  check(rank);

  /* A grid in even parts, and sums of which process i holds i + 1. */
  int *segs = malloc((size_t)size * sizeof *segs);
  for (int i = 0; i < size; i++) segs[i] = (i + 1) * (int)sizeof(double);
  check(GIO_Open(path, &file));
  check(GIO_Create_record(file, &grid, VALUES * (int)sizeof(double)));
  check(GIO_Create_record_irreg(file, &sums, segs, size));

  /* Each process writes every size-th value: the library finds the disk that holds it. */
  for (int at = rank; at < VALUES; at += size) {
    double value = at * 0.5;
    int lo = at * (int)sizeof value;
    check(GIO_Write(file, grid, lo, lo + (int)sizeof value - 1, (char *)&value, 1));
  }
  /* All processes add to all sums, and no addition is lost. */
  int all_sums = size * (size + 1) / 2;
  double *ones = malloc((size_t)all_sums * sizeof *ones), factor = 2.0;
  for (int i = 0; i < all_sums; i++) ones[i] = 1.0;
  int last = all_sums * (int)sizeof(double) - 1;
  check(GIO_Acc(file, sums, 0, last, ones, 1, GIO_DOUBLE, &factor));
  check(GIO_Close(file));

  /* A later job can open it, also with another number of processes. */
  double *values = malloc(VALUES * sizeof *values);
  check(GIO_Open(path, &file));
  int request = GIO_Read_asyn(file, grid, 0, VALUES * (int)sizeof(double) - 1, (char *)values, 1);
  check(request);
  check(GIO_Read(file, sums, 0, last, (char *)ones, 1));
  check(GIO_Wait(request));
  for (int at = 0; at < VALUES; at++) wrong += values[at] != at * 0.5;
  for (int i = 0; i < all_sums; i++) wrong += ones[i] != 2.0 * size;
  check(GIO_Close(file));
  check(GIO_Delete_file(path));
  if (rank == 0 && wrong == 0)
    printf("%d values over the disks of %d processes, and every sum is right\n", VALUES, size);
  free(segs);
  free(ones);
  free(values);
  return wrong != 0;
}
