/*
 * A cached file (donio.h) and an array beside it (dolib.h): each process writes rows of a table,
 * reads back those of its neighbour, and counts in a histogram that all share.
 */
#include <dolib.h>
#include <donio.h>
#include <nx.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 1000
#define COLUMNS 500
#define CLASSES 10

static void expect(int is_so, const char *what) {
  if (!is_so) {
    pfslib_perror(what);
    exit(1);
  }
}

int main(void) {
  const char *name = "/pfs/examples/cached";
  int node = (int)mynode(), nodes = (int)numnodes(), bytes = COLUMNS * (int)sizeof(int);
  int row[COLUMNS], fd, counts;
  int64_t class[COLUMNS], one[COLUMNS], histogram[CLASSES];
  long wrong = 0, work;

  expect(do_nio(node, nodes) == 0, "do_nio");

  /* The reserved length is an estimate: too much costs nothing. */
  expect((fd = do_open(name, O_WRONLY | O_CREAT, 0644)) >= 0, "do_open");
  expect(do_lsize(fd, 2 * ROWS * bytes) >= 0, "do_lsize");
  for (int i = node; i < ROWS; i += nodes) {
    for (int j = 0; j < COLUMNS; j++) row[j] = i * j;
    expect(do_lseek(fd, i * bytes, SEEK_SET) == i * bytes, "do_lseek");
    expect(do_write(fd, row, bytes) == bytes, "do_write");
  }
  expect(do_flush(fd) == 0, "do_flush"); /* a checkpoint: durable now, and the work goes on */
  expect(do_lseek(fd, 0, SEEK_END) == ROWS * bytes, "the end");
  expect(do_close(fd) == 0, "do_close");

  expect((fd = do_open(name, O_RDONLY, 0)) >= 0, "do_open for reading");
  expect((counts = do_array_create(CLASSES, sizeof(int64_t))) >= 0, "do_array_create");
  for (int i = (node + 1) % nodes; i < ROWS; i += nodes) {
    expect(do_lseek(fd, i * bytes, SEEK_SET) == i * bytes, "do_lseek");
    expect(do_read(fd, row, bytes) == bytes, "do_read");
    for (int j = 0; j < COLUMNS; j++) {
      wrong += row[j] != i * j;
      class[j] = row[j] % CLASSES;
      one[j] = 1;
    }
    expect(do_accumulate(counts, DO_INT64, COLUMNS, class, one) == 0, "do_accumulate");
  }
  expect(do_barrier() == 0, "do_barrier");
  expect(do_get(counts, 0, CLASSES, histogram) == 0, "do_get");
  int64_t all = 0;
  for (int i = 0; i < CLASSES; i++) all += histogram[i];
  wrong += all != (int64_t)ROWS * COLUMNS;
  expect(do_array_destroy(counts) == 0, "do_array_destroy");
  expect(do_close(fd) == 0, "do_close");

  gisum(&wrong, 1, &work);
  if (node == 0 && wrong == 0) printf("%d rows in memory, %lld values counted\n", ROWS, (long long)all);
  return wrong != 0;
}
