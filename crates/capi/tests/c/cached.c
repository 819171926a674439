/* Cached files and arrays: what the manual says, and invalid arguments. */
#include <dolib.h>
#include <donio.h>
#include <limits.h>
#include <nx.h>
#include <string.h>
#include <sys/stat.h>

#include "expect.h"

static int node, nodes;
static const char *path;

/* Every call without errors, on a plain file or one of the cluster. */
static void calls(void) {
  char text[40], more[40];
  FAILS(EPFSLINVAL, do_open(path, O_RDONLY, 0)); /* do_nio was not called yet */
  IS(do_nio(node, nodes) == 0 && do_nio(node, nodes) == 0);
  FAILS(EPFSLINVAL, do_nio(node, nodes + 1));
  FAILS(ENOENT, do_open(path, O_RDONLY, 0));
  FAILS(ENOENT, do_open(path, O_RDWR, 0));

  /* Numbers as in the manual: 513 is for writing and creates the file. */
  int fd = do_open(path, 513, 0644);
  IS(fd >= 0);
  FAILS(EPFSLINVAL, do_write(fd, "x", 1)); /* before do_lsize */
  IS(do_lsize(fd, 1000000) == 1000000);
  snprintf(text, sizeof text, "process %8d\n", node);
  int len = (int)strlen(text);
  IS(do_lseek(fd, node * len, SEEK_SET) == node * len);
  IS(do_write(fd, text, len) == len);
  IS(do_lseek(fd, 0, SEEK_CUR) == (node + 1) * len);
  FAILS(EPFSLINVAL, do_read(fd, more, 1));
  IS(do_flush(fd) == 0 && do_flush(fd) == 0);
  IS(do_lseek(fd, 0, SEEK_END) == nodes * len);
  IS(do_lseek(fd, 999999, SEEK_SET) == 999999);
  FAILS(EPFSLINVAL, do_write(fd, "xx", 2)); /* beyond do_lsize */
  IS(do_lseek(fd, 0, SEEK_CUR) == 999999);
  IS(do_close(fd) == 0);
  FAILS(EPFSLBADF, do_close(fd));

  /* 514 does not empty the file. */
  fd = do_open(path, 514, 0644);
  IS(fd >= 0 && do_lseek(fd, 0, SEEK_END) == nodes * len);
  FAILS(EPFSLINVAL, do_lsize(fd, 3));
  IS(do_close(fd) == 0);

  fd = do_open(path, O_RDONLY, 0);
  FAILS(EPFSLINVAL, do_lsize(fd, 1000));
  FAILS(EPFSLINVAL, do_write(fd, "x", 1));
  int next = (node + 1) % nodes;
  snprintf(text, sizeof text, "process %8d\n", next);
  IS(do_lseek(fd, next * len, SEEK_SET) == next * len);
  IS(do_read(fd, more, len) == len && memcmp(text, more, len) == 0);
  IS(do_lseek(fd, -1, SEEK_END) == nodes * len - 1);
  FAILS(EPFSLNBYTES, do_read(fd, more, 2)); /* beyond the end */
  IS(do_read(fd, more, 1) == 1 && more[0] == '\n');
  FAILS(EPFSLNBYTES, do_read(fd, more, 1));
  IS(do_close(fd) == 0);

  /* Together with the system's O_CREAT, O_TRUNC and O_EXCL have their usual meaning. */
  fd = do_open(path, O_RDWR | O_CREAT | O_APPEND, 0644);
  IS(do_lsize64(fd, 1000000) == 1000000);
  IS(do_write64(fd, "z", 1) == 1);
  gsync();
  IS(do_lseek64(fd, 0, SEEK_END) == nodes * len + nodes);
  IS(do_close(fd) == 0);
  FAILS(EEXIST, do_open(path, O_RDWR | O_CREAT | O_EXCL, 0644));
  fd = do_open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  IS(fd >= 0 && do_lseek(fd, 0, SEEK_END) == 0);
  IS(do_close(fd) == 0);

  /* If one process passes other arguments, all of them get an error. */
  if (nodes > 1) {
    FAILS(EPFSLMIXIO, do_open(path, node == 1 ? O_RDONLY : O_RDWR, 0));
    FAILS(EPFSLINVAL, do_open(path, node == 1 ? -1 : O_RDWR, 0));
  }
  long sums[2] = {node, 1}, work[2];
  double parts[2] = {0.5, 2.0 * node}, place[2];
  gisum(sums, 2, work);
  gdsum(parts, 2, place);
  IS(sums[0] == (long)nodes * (nodes - 1) / 2 && sums[1] == nodes);
  IS(parts[0] == 0.5 * nodes && parts[1] == 1.0 * nodes * (nodes - 1));
}

/* A file that is replaced as a whole, and one that exceeds its memory. */
static void switches(void) {
  static char page[100000], found[100000];
  IS(do_nio(node, nodes) == 0);
  FAILS(EPFSLINVAL, do_open(path, O_RDONLY | DO_REPLACE, 0));
  FAILS(EPFSLINVAL, do_open_within(path, O_RDWR | O_CREAT | DO_REPLACE, 0644, 0));
  FAILS(EPFSLINVAL, do_open_within(path, O_RDWR | O_CREAT, 0644, -1));
  if (nodes > 1) FAILS(EPFSLMIXIO, do_open_within(path, O_RDWR | O_CREAT, 0644, node));

  int fd = do_open(path, O_WRONLY | O_CREAT | DO_REPLACE, 0644);
  IS(fd >= 0 && do_lsize(fd, 100) == 100);
  if (node == 0) IS(do_write(fd, "the old one", 11) == 11);
  IS(do_close(fd) == 0);
  struct stat before, after;
  IS(stat(path, &before) == 0);
  gsync();
  fd = do_open(path, O_RDWR | DO_REPLACE, 0);
  IS(fd >= 0 && do_lsize(fd, 100) == 100);
  IS(do_lseek(fd, 4, SEEK_SET) == 4);
  if (node == nodes - 1) IS(do_write(fd, "new", 3) == 3);
  IS(do_close(fd) == 0);
  IS(stat(path, &after) == 0 && after.st_ino != before.st_ino && after.st_size == 11);

  /* 10 MB in 512 KiB of memory. */
  gsync();
  fd = do_open_within(path, O_RDWR | O_CREAT | O_TRUNC, 0644, 524288);
  IS(fd >= 0 && do_lsize64(fd, 10000000) == 10000000);
  for (int i = node; i < 100; i += nodes) {
    memset(page, i, sizeof page);
    IS(do_lseek(fd, i * 100000, SEEK_SET) == i * 100000);
    IS(do_write(fd, page, sizeof page) == (int)sizeof page);
  }
  gsync();
  for (int i = (node + 1) % nodes; i < 100; i += nodes) {
    memset(page, i, sizeof page);
    IS(do_lseek(fd, i * 100000, SEEK_SET) == i * 100000);
    IS(do_read(fd, found, sizeof found) == (int)sizeof found && memcmp(page, found, sizeof page) == 0);
  }
  IS(do_close(fd) == 0);
}

static void arrays(void) {
  int64_t indices[3] = {0, 99999, 50000}, length = 100000, values[3] = {7, 8, 9};
  double more[3] = {1.5, 2.5, 3.5}, all[3];
  int ints = do_array_create(length, sizeof(int64_t));
  int doubles = do_array_create(length, sizeof(double));
  IS(ints >= 0 && doubles >= 0 && ints != doubles && do_array_length(ints) == length);
  IS(do_array_owner(ints, 0) == 0 && do_array_owner(ints, 8192) == 1 % nodes);
  if (node == 0) IS(do_scatter(ints, 3, indices, values) == 0);
  IS(do_accumulate(doubles, DO_DOUBLE, 3, indices, more) == 0);
  IS(do_barrier() == 0);
  values[0] = values[1] = values[2] = 0;
  IS(do_gather(ints, 3, indices, values) == 0);
  IS(values[0] == 7 && values[1] == 8 && values[2] == 9);
  IS(do_gather(doubles, 3, indices, all) == 0);
  IS(all[0] == 1.5 * nodes && all[1] == 2.5 * nodes && all[2] == 3.5 * nodes);
  IS(do_put(ints, 99998, 2, values) == 0 && do_get(ints, 99999, 1, values) == 0);
  IS(values[0] == 8);
  IS(do_array_destroy(doubles) == 0);
  FAILS(EPFSLBADF, do_array_length(doubles));
  IS(do_array_destroy(ints) == 0);
}

static void arguments(void) {
  char byte = 0;
  int64_t index = -1, large = INT64_MAX;
  FAILS(EPFSLINVAL, do_nio(-1, 1));
  FAILS(EPFSLINVAL, do_nio(0, 0));
  FAILS(EPFSLINVAL, do_nio(3, 3));
  FAILS(EPFSLINVAL, do_nio(0, INT_MAX));
  IS(do_nio(0, 1) == 0);
  FAILS(EFAULT, do_open(NULL, O_RDONLY, 0));
  FAILS(ENOENT, do_open("", O_RDONLY, 0));
  FAILS(EPFSLINVAL, do_open(path, 3, 0));
  FAILS(EPFSLINVAL, do_open(path, -1, 0));
  FAILS(EPFSLINVAL, do_open(path, O_RDONLY | DO_CREAT, 0));
  FAILS(EISDIR, do_open("/", O_RDONLY, 0));
  FAILS(EPFSLINVAL, do_open("/dev/null", O_RDWR, 0));
  int none[] = {-1, INT_MIN, INT_MAX, 0, 1, 2, 99999};
  for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
    FAILS(EPFSLBADF, do_lsize(none[i], 1));
    FAILS(EPFSLBADF, do_lseek(none[i], 1, SEEK_SET));
    FAILS(EPFSLBADF, do_read(none[i], &byte, 1));
    FAILS(EPFSLBADF, do_write(none[i], &byte, 1));
    FAILS(EPFSLBADF, do_flush(none[i]));
    FAILS(EPFSLBADF, do_close(none[i]));
    FAILS(EPFSLBADF, do_array_length(none[i]));
    FAILS(EPFSLBADF, do_array_destroy(none[i]));
    FAILS(EPFSLBADF, do_get(none[i], 0, 1, &byte));
  }
  int fd = do_open(path, O_RDWR | O_CREAT, -1);
  IS(fd >= 0);
  FAILS(EPFSLINVAL, do_lsize(fd, -1));
  FAILS(EPFSLINVAL, do_lsize64(fd, INT64_MIN));
  FAILS(ENOMEM, do_lsize64(fd, (int64_t)1 << 50));
  FAILS(EPFSLINVAL, do_lsize64(fd, large));
  IS(do_lsize(fd, 100) == 100);
  FAILS(EFAULT, do_write(fd, NULL, 1));
  FAILS(EFAULT, do_read(fd, NULL, 1));
  IS(do_write(fd, NULL, 0) == 0 && do_read(fd, NULL, 0) == 0);
  FAILS(EPFSLIOLEN, do_write(fd, &byte, -1));
  FAILS(EPFSLIOLEN, do_read(fd, &byte, INT_MIN));
  FAILS(EPFSLINVAL, do_lseek(fd, -1, SEEK_SET));
  FAILS(EPFSLINVAL, do_lseek(fd, INT_MIN, SEEK_CUR));
  FAILS(EPFSLINVAL, do_lseek64(fd, large, SEEK_SET));
  FAILS(EPFSLINVAL, do_lseek64(fd, INT64_MIN, SEEK_END));
  FAILS(EPFSLINVAL, do_lseek(fd, 0, 77));
  IS(do_lseek64(fd, (int64_t)1 << 40, SEEK_SET) == (int64_t)1 << 40);
  FAILS(EOVERFLOW, do_lseek(fd, 0, SEEK_CUR));
  FAILS(EPFSLINVAL, do_write(fd, &byte, 1));
  FAILS(EBADF, read(fd, &byte, 1)); /* the library's descriptor cannot be read directly */
  IS(do_close(fd) == 0);

  FAILS(EPFSLINVAL, do_array_create(-1, 8));
  FAILS(EPFSLINVAL, do_array_create(1, 0));
  FAILS(EPFSLINVAL, do_array_create(1, -8));
  FAILS(EPFSLINVAL, do_array_create(large, 1));
  FAILS(ENOMEM, do_array_create((int64_t)1 << 50, 8));
  int array = do_array_create(10, 8);
  IS(array >= 0);
  FAILS(EPFSLINVAL, do_get(array, 10, 1, &large));
  FAILS(EPFSLINVAL, do_get(array, -1, 1, &large));
  FAILS(EPFSLINVAL, do_get(array, 0, -1, &large));
  FAILS(EPFSLINVAL, do_put(array, 0, INT64_MAX, &large));
  FAILS(EFAULT, do_put(array, 0, 1, NULL));
  FAILS(EPFSLINVAL, do_gather(array, 1, &index, &large));
  FAILS(EFAULT, do_gather(array, 1, NULL, &large));
  FAILS(EFAULT, do_scatter(array, 1, &large, NULL));
  index = 3;
  FAILS(EPFSLINVAL, do_accumulate(array, 77, 1, &index, &large));
  FAILS(EPFSLINVAL, do_accumulate(array, DO_INT32, 1, &index, &large));
  FAILS(EPFSLINVAL, do_array_owner(array, 10));
  IS(do_get(array, 0, 0, NULL) == 0);
  IS(do_array_destroy(array) == 0);
}

/* One process ends without closing; the others get an error that names it. */
static void leaves(void) {
  IS(do_nio(node, nodes) == 0);
  int fd = do_open(path, O_WRONLY | O_CREAT, 0644);
  IS(fd >= 0 && do_lsize(fd, 100) == 100);
  if (node == 0) IS(do_write(fd, "flushed", 7) == 7);
  IS(do_flush(fd) == 0);
  if (node == 1) exit(0);
  FAILS(EPFSLREMOTE, do_close(fd));
  pfslib_perror("close");
}

int main(int count, char **given) {
  IS(count == 3);
  path = given[2];
  node = (int)mynode();
  nodes = (int)numnodes();
  if (strcmp(given[1], "calls") == 0) calls();
  if (strcmp(given[1], "switches") == 0) switches();
  if (strcmp(given[1], "arrays") == 0) arrays();
  if (strcmp(given[1], "arguments") == 0) arguments();
  if (strcmp(given[1], "leaves") == 0) leaves();
  return 0;
}
