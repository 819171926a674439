/*
 * Calls without errors. The first argument selects the part.
 */
#define _GNU_SOURCE
#include <nx.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "expect.h"

static char buffer[1 << 16], other[1 << 16];

/* System calls on shared files obey the mode. */
static void system_calls(void) {
  long node = mynode(), nodes = numnodes();
  char letter = (char)('a' + node), two[2] = {letter, letter};
  struct iovec pieces[2] = {{two, 1}, {two + 1, 1}};
  struct stat status;
  int fd = gopen("together", O_RDWR | O_CREAT | O_TRUNC, M_SYNC, 0640);

  IS(write(fd, &letter, 1) == 1);
  IS(writev(fd, pieces, 2) == 2);
  IS(lseek(fd, 0, SEEK_SET) == 0);
  IS(read(fd, buffer, 1) == 1 && buffer[0] == letter);
  memset(two, 0, 2);
  IS(readv(fd, pieces, 2) == 2 && two[0] == letter && two[1] == letter);
  IS(read(fd, buffer, 10) == 0);
  IS(pread(fd, buffer, 3 * (size_t)nodes, 0) == 3 * nodes && buffer[nodes - 1] == 'a' + nodes - 1);
  IS(fstat(fd, &status) == 0 && status.st_size == 3 * nodes);
  IS(S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0640 && status.st_uid == geteuid());
  IS(fsync(fd) == 0);
  IS(fcntl(fd, F_GETFL) == O_RDWR && fcntl(fd, F_GETFD) == FD_CLOEXEC);
  gsync();

  setiomode(fd, M_RECORD);
  IS(lseek(fd, 0, SEEK_SET) == 0);
  IS(read(fd, &letter, 1) == 1 && letter == 'a' + node);
  setiomode(fd, M_GLOBAL);
  IS(lseek(fd, 0, SEEK_SET) == 0);
  IS(read(fd, buffer, 2) == 2 && buffer[0] == 'a');
  IS(write(fd, "xyz", 3) == 3);
  IS(lseek(fd, 0, SEEK_CUR) == 5);
  gsync();
  if (node == 0) IS(ftruncate(fd, 4) == 0 && pwrite(fd, "!", 1, 0) == 1);
  gsync();
  IS(fstat(fd, &status) == 0 && status.st_size == 4);
  IS(pread(fd, buffer, 10, 0) == 4 && buffer[0] == '!' && memcmp(buffer + 2, "xy", 2) == 0);
  IS(close(fd) == 0);
  gsync();
  if (node == 0) {
    IS(unlink("together") == 0);
    FAILS(ENOENT, unlink("together"));
    FAILS(ENOENT, unlink("together.pfs"));
  }
}

/* Calls of the library on plain files. */
static void plain_files(void) {
  struct iovec pieces[2] = {{buffer, 4}, {buffer + 4, 6}};
  int fd = open("plain", O_RDWR | O_CREAT | O_TRUNC, 0644);
  long id;

  IS(fd >= 0 && !pario_is_shared(fd));
  IS(_cwrite(fd, "0123456789", 10) == 10);
  IS((id = _iwrite(fd, "abcdefghij", 10)) >= 0 && _iodone(id) == 1);
  FAILS(EPFSLBADID, _iodone(id));
  IS(_iseof(fd) == 1);
  IS(lseek(fd, 0, SEEK_SET) == 0 && _iseof(fd) == 0);
  cread(fd, buffer, 10);
  IS(memcmp(buffer, "0123456789", 10) == 0);
  IS((id = _ireadv(fd, pieces, 2)) >= 0 && _iowait(id) == 0);
  IS(memcmp(buffer, "abcdefghij", 10) == 0);
  IS(_cread(fd, buffer, 10) == 0);
  IS(_lsize(fd, 5, SIZE_SET) == 20 && _lsize(fd, 5, SIZE_CUR) == 25 && _lsize(fd, 5, SIZE_END) == 30);
  cwritev(fd, pieces, 2);
  creadv(fd, pieces, 0);
  IS((id = _iwritev(fd, pieces, 2)) >= 0 && _iowait(id) == 0 && lseek(fd, 0, SEEK_END) == 40);
  IS(close(fd) == 0);
  IS(unlink("plain") == 0);
}

/* The meaning of names. */
static void names(void) {
  long node = mynode();
  char name[30];
  int fd = open("own.###", O_RDWR | O_CREAT | O_TRUNC, 0644);

  snprintf(name, sizeof name, "own.%03ld", node);
  IS(fd >= 0 && !pario_is_shared(fd) && write(fd, name, 7) == 7 && close(fd) == 0);
  fd = open(name, O_RDONLY);
  IS(fd >= 0 && read(fd, buffer, 10) == 7 && memcmp(buffer, name, 7) == 0 && close(fd) == 0);
  IS(unlink("own.###") == 0);
  FAILS(ENOENT, open(name, O_RDONLY));

  /* Each process opens the file by itself; setiomode is the first collective call. */
  fd = open("some/../own.pfs", O_RDWR | O_CREAT, 0644);
  IS(pario_is_shared(fd) && iomode(fd) == M_UNIX);
  setiomode(fd, M_SYNC);
  cwrite(fd, &node, sizeof node);
  gsync();
  IS(lsize(fd, 0, SIZE_END) == (long)sizeof node * numnodes());
  IS(close(fd) == 0);

  /* Appends of several processes, in turn: each finds the end of the file. */
  fd = open("/pfs/added", O_WRONLY | O_CREAT | O_APPEND, 0644);
  for (int turn = 0; turn < 6 * numnodes(); turn++) {
    if (turn % numnodes() == node) {
      cwrite(fd, &node, sizeof node);
      long id = iwrite(fd, &node, sizeof node);
      IS(write(fd, &node, sizeof node) == (long)sizeof node);
      iowait(id);
    }
    gsync();
  }
  IS(lsize(fd, 0, SIZE_END) == 18 * numnodes() * (long)sizeof node && close(fd) == 0);

  /* A file of only two processes of the job. */
  if (node < 2) {
    fd = _pfslib_open("/pfs/pair", O_RDWR | O_CREAT | O_TRUNC, 0644, M_SYNC, 2, 1 - (int)node, 1);
    IS(fd >= 0);
    cwrite(fd, &node, sizeof node);
    lseek(fd, 0, SEEK_SET);
    long all[2];
    setiomode(fd, M_GLOBAL);
    cread(fd, all, sizeof all);
    IS(all[0] == 1 && all[1] == 0);
    IS(close(fd) == 0);
  }
}

/* Sizes only grow; SIZE_CUR counts from the pointer of the mode. */
static void sizes(void) {
  long node = mynode(), nodes = numnodes();
  int fd = gopen("/pfs/sizes", O_RDWR | O_CREAT | O_TRUNC, M_UNIX, 0644);

  IS(lsize(fd, 1000, SIZE_SET) == 1000);
  IS(lsize(fd, 10, SIZE_SET) == 1000 && lsize(fd, -5, SIZE_SET) == 1000);
  IS(lsize(fd, -5, SIZE_END) == 1000 && lsize(fd, -5000, SIZE_CUR) == 1000);
  IS(lseek(fd, 0, SEEK_CUR) == 0);
  gsync();
  IS(lseek(fd, 2000, SEEK_SET) == 2000 && lsize(fd, 500, SIZE_CUR) == 2500);
  gsync();
  IS(lseek(fd, 0, SEEK_SET) == 0);
  setiomode(fd, M_LOG);
  cwrite(fd, buffer, 1000);
  gsync();
  IS(lsize(fd, 3000, SIZE_CUR) == (nodes * 1000 + 3000 > 2500 ? nodes * 1000 + 3000 : 2500));
  gsync();

  /* Concurrent writes of other processes are not cut. */
  setiomode(fd, M_ASYNC);
  for (int round = 0; round < 300; round++) {
    long place = 100000 + (round * nodes + node) * 1000;
    memset(buffer, 'a' + (int)node, 1000);
    lseek(fd, place, SEEK_SET);
    cwrite(fd, buffer, 1000);
    IS(lsize(fd, place - 500, SIZE_SET) >= place + 1000);
    IS(lsize(fd, 1500, SIZE_CUR) >= place + 2500);
    lseek(fd, place, SEEK_SET);
    cread(fd, other, 1000);
    IS(memcmp(buffer, other, 1000) == 0);
  }
  IS(close(fd) == 0);
}

/* iodone and iowait report the end of requests, and iseof waits for them. */
static void started(void) {
  enum { COUNT = 15 };
  static char parts[COUNT][1000];
  struct iovec pieces[2] = {{buffer, 300}, {buffer + 300, 1700}};
  long ids[COUNT], node = mynode(), nodes = numnodes();
  int fd = gopen("/pfs/started", O_RDWR | O_CREAT | O_TRUNC, M_SYNC, 0644);

  for (int at = 0; at < COUNT; at++) {
    memset(parts[at], (int)(at * nodes + node), sizeof parts[at]);
    IS((ids[at] = _iwrite(fd, parts[at], sizeof parts[at])) >= 0);
  }
  IS(iseof(fd) == 1); /* waits for the requests, and their ids stay valid */
  for (int at = 0; at < COUNT; at++) IS(_iodone(ids[at]) == 1);
  gsync();
  IS(lsize(fd, 0, SIZE_END) == COUNT * nodes * 1000);
  lseek(fd, 0, SEEK_SET);
  for (int at = COUNT - 1; at >= 0; at--) {
    memset(parts[at], 99, sizeof parts[at]);
  }
  for (int at = 0; at < COUNT; at++) ids[at] = iread(fd, parts[at], sizeof parts[at]);
  for (int at = COUNT - 1; at >= 0; at--) iowait(ids[at]);
  for (int at = 0; at < COUNT; at++)
    for (int byte = 0; byte < 1000; byte++) IS(parts[at][byte] == (char)(at * nodes + node));

  setiomode(fd, M_UNIX);
  lseek(fd, 0, SEEK_SET);
  iowait(ireadv(fd, pieces, 2));
  IS(buffer[0] == 0 && buffer[999] == 0 && buffer[1000] == 1 && buffer[1999] == 1);
  lseek(fd, -500, SEEK_END);
  IS(iseof(fd) == 0);
  iowait(iread(fd, buffer, 1000)); /* a read beyond the end is no error */
  IS(iseof(fd) == 1 && lseek(fd, 0, SEEK_CUR) == COUNT * nodes * 1000);
  gsync();
  iowait(iwritev(fd, pieces, 2));
  IS(close(fd) == 0);
}

/* Only the program says its rank and size. */
static void init(int size, int rank) {
  long number = rank;
  _pfslib_init(NULL, size, rank, -1, 1 << 30);
  _pfslib_init("", size, rank, 4096, 4096); /* the same again */
  IS(mynode() == rank && numnodes() == size);
  int fd = gopen("/pfs/init", O_RDWR | O_CREAT | O_TRUNC, M_SYNC, 0644);
  cwrite(fd, &number, sizeof number);
  lseek(fd, 0, SEEK_SET);
  cread(fd, &number, sizeof number);
  IS(number == rank && close(fd) == 0);
}

static void *work(void *argument) {
  long number = (long)argument;
  char name[30], own[500], seen[500];
  snprintf(name, sizeof name, "/pfs/thread%ld-%ld", mynode(), number);
  for (int round = 0; round < 20; round++) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    IS(fd >= 0);
    memset(own, (int)(number + round), sizeof own);
    cwrite(fd, own, sizeof own);
    long id = iwrite(fd, own, sizeof own);
    iowait(id);
    lseek(fd, 250, SEEK_SET);
    cread(fd, seen, sizeof seen);
    IS(memcmp(own, seen, sizeof own) == 0);
    FAILS(EPFSLBADF, _iomode(-1)); /* errno is per thread */
    IS(close(fd) == 0);
  }
  return NULL;
}

static int log_fd;

static void *add(void *argument) {
  for (int round = 0; round < 100; round++) cwrite(log_fd, argument, 10);
  return NULL;
}

/* Threads of a process share files and descriptors. */
static void threads(void) {
  pthread_t all[8];
  log_fd = gopen("/pfs/threads", O_RDWR | O_CREAT | O_TRUNC, M_LOG, 0644);
  for (long number = 0; number < 4; number++)
    IS(pthread_create(&all[number], NULL, work, (void *)number) == 0);
  for (long number = 4; number < 8; number++)
    IS(pthread_create(&all[number], NULL, add, "0123456789") == 0);
  for (int number = 0; number < 8; number++) IS(pthread_join(all[number], NULL) == 0);
  gsync();
  IS(lsize(log_fd, 0, SIZE_END) == 4000 * numnodes());
  IS(close(log_fd) == 0);
}

/* No thread of the library handles signals of the program. */
static void signals(void) {
  int wanted[] = {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGIO, SIGPIPE}, others = 0;
  int fd = gopen("/pfs/signals", O_RDWR | O_CREAT | O_TRUNC, M_LOG, 0644);
  struct dirent *entry;
  sigset_t own;

  cwrite(fd, buffer, 1000);
  iowait(iwrite(fd, buffer, 1000));
  long id = iread(fd, buffer, 1000);
  gsync();
  DIR *tasks = opendir("/proc/self/task");
  IS(tasks != NULL);
  while ((entry = readdir(tasks)) != NULL) {
    char name[300], line[200];
    unsigned long blocked = 0;
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
    snprintf(name, sizeof name, "/proc/self/task/%s/status", entry->d_name);
    FILE *status = fopen(name, "r");
    IS(status != NULL);
    while (fgets(line, sizeof line, status) != NULL) sscanf(line, "SigBlk: %lx", &blocked);
    fclose(status);
    for (size_t at = 0; at < sizeof wanted / sizeof *wanted; at++)
      IS((blocked & 1UL << (wanted[at] - 1)) != 0);
    others++;
  }
  closedir(tasks);
  IS(others > 0);
  IS(sigprocmask(SIG_BLOCK, NULL, &own) == 0 && sigisemptyset(&own));
  for (size_t at = 0; at < sizeof wanted / sizeof *wanted; at++) {
    struct sigaction action;
    IS(sigaction(wanted[at], NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  }
  iowait(id);
  IS(close(fd) == 0);
}

/* A wait for a process that never comes can be interrupted. */
static void interrupted(void) {
  int fd = open("/pfs/interrupted", O_RDWR | O_CREAT, 0644); /* connects to the cluster */
  IS(fd >= 0);
  ualarm(50000, 0);
  gopen("/pfs/interrupted", O_RDWR | O_CREAT, M_SYNC, 0644);
}

/* A descriptor that the program closed directly does not belong to the library any more. */
static void closed_directly(void) {
  int fd = gopen("/pfs/back", O_RDWR | O_CREAT | O_TRUNC, M_UNIX, 0644);
  int low = dup(0);
  IS(pario_is_shared(fd) && low >= 0);
#undef close
  IS(close(fd) == 0);
#undef open
  int again = open("/dev/null", O_RDWR);
  IS(again == fd);
  IS(write(again, "x", 1) == 1 && read(again, buffer, 1) == 0);
  FAILS(EPFSLBADF, _iomode(again));
  IS(pfslib_close(again) == 0);
}

int main(int count, char **arguments) {
  const char *part = count > 1 ? arguments[1] : "";
  if (strcmp(part, "system") == 0) system_calls();
  else if (strcmp(part, "plain") == 0) plain_files();
  else if (strcmp(part, "names") == 0) names();
  else if (strcmp(part, "sizes") == 0) sizes();
  else if (strcmp(part, "started") == 0) started();
  else if (strcmp(part, "threads") == 0) threads();
  else if (strcmp(part, "signals") == 0) signals();
  else if (strcmp(part, "interrupted") == 0) interrupted();
  else if (strcmp(part, "back") == 0) closed_directly();
  else if (strcmp(part, "init") == 0 && count == 4) init(atoi(arguments[2]), atoi(arguments[3]));
  else return 2;
  return 0;
}
