/*
 * The processes of a job and one file: who opens it first, what was issued counts, started accesses
 * overlap, and a call that one process cannot make fails on all. The first argument selects the part.
 */
#include <nx.h>
#include <armci.h>
#include <dolib.h>
#include <donio.h>
#include <gio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "expect.h"

#define UNIT (64 << 10)

static int node, nodes;
static char buffer[4 * UNIT], other[4 * UNIT];

static int size_of(int fd) {
  struct stat status;
  IS(fstat(fd, &status) == 0);
  return (int)status.st_size;
}

/* The first open of the job counts until its last close. */
static void first_open(void) {
  int fd = -1, again;
  /* What the first process has written is not erased by the others. */
  if (node == 0) {
    IS((fd = open("/pfs/shared", O_RDWR | O_CREAT | O_TRUNC, 0644)) >= 0);
    IS(write(fd, "zero", 4) == 4);
  }
  gsync();
  if (node != 0) IS((fd = open("/pfs/shared", O_RDWR | O_CREAT | O_TRUNC, 0644)) >= 0);
  gsync();
  IS(size_of(fd) == 4 && pread(fd, buffer, 10, 0) == 4 && memcmp(buffer, "zero", 4) == 0);
  /* Each process has its own pointer, and one that opens the file twice has two. */
  IS(lseek(fd, 0, SEEK_CUR) == (node == 0 ? 4 : 0));
  IS((again = open("/pfs/shared", O_RDWR)) >= 0);
  IS(lseek(fd, 2, SEEK_SET) == 2 && lseek(again, 0, SEEK_CUR) == 0);
  IS(read(again, buffer, 3) == 3 && lseek(again, 0, SEEK_CUR) == 3 && lseek(fd, 0, SEEK_CUR) == 2);
  IS(close(again) == 0);
  gsync();
  /* A process that closes the file and opens it again performs its own open. */
  if (node == 0) {
    IS(close(fd) == 0);
    IS((fd = open("/pfs/shared", O_RDWR | O_TRUNC)) >= 0 && size_of(fd) == 0);
    IS(write(fd, "again", 5) == 5);
  }
  gsync();
  IS(size_of(fd) == 5 && close(fd) == 0);
  gsync();
  /* All have closed it: the next open is a first one. */
  if (node == 1) {
    IS((fd = open("/pfs/shared", O_RDWR | O_TRUNC)) >= 0 && size_of(fd) == 0);
    IS(close(fd) == 0);
  }
  /* All ask for a new file at the same time, and get it. */
  for (int round = 0; round < 20; round++) {
    char name[40], letter = (char)('a' + node);
    sprintf(name, "/pfs/new%d", round);
    IS((fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_TRUNC, 0644)) >= 0);
    IS(pwrite(fd, &letter, 1, node) == 1);
    gsync();
    IS(pread(fd, buffer, 10, 0) == nodes);
    for (int rank = 0; rank < nodes; rank++) IS(buffer[rank] == 'a' + rank);
    IS(close(fd) == 0);
    gsync();
    if (node == round % nodes) FAILS(EEXIST, open(name, O_RDWR | O_CREAT | O_EXCL, 0644));
    gsync();
  }
  /* A file whose name was removed is not the one that is opened next. */
  if (node == 0) {
    IS((fd = open("/pfs/removed", O_RDWR | O_CREAT, 0644)) >= 0);
    IS(write(fd, "old", 3) == 3 && unlink("/pfs/removed") == 0);
  }
  gsync();
  if (node != 0) IS((fd = open("/pfs/removed", O_RDWR | O_CREAT | O_EXCL, 0644)) >= 0);
  gsync();
  IS(size_of(fd) == (node == 0 ? 3 : 0) && close(fd) == 0);
  /* A first open that fails is no open. */
  gsync();
  FAILS(ENOENT, open("/pfs/nothing", O_RDWR));
  if (node == 0) FAILS(EISDIR, open("/pfs", O_RDWR | O_CREAT, 0644));
  gsync();
  /* Then all share a pointer. */
  IS((fd = open("/pfs/log", O_RDWR | O_CREAT | O_EXCL, 0644)) >= 0);
  setiomode(fd, M_LOG);
  IS(write(fd, "12345", 5) == 5);
  gsync();
  IS(size_of(fd) == 5 * nodes && close(fd) == 0);
}

/* What this process has issued counts for its own later calls, before it is on the disks. */
static void issued(void) {
  const int modes[] = {M_UNIX, M_LOG, M_SYNC, M_RECORD, M_GLOBAL, M_ASYNC};
  for (int at = 0; at < 6; at++) {
    int mode = modes[at], all = mode == M_UNIX || mode == M_ASYNC || mode == M_GLOBAL ? 1 : nodes;
    char name[40];
    long id;
    int fd;
    sprintf(name, "/pfs/issued%d", mode);
    fd = gopen(name, O_RDWR | O_CREAT, mode, 0644);
    memset(buffer, 'A' + mode, sizeof buffer);
    id = iwrite(fd, buffer, sizeof buffer);
    if (mode == M_LOG) gsync(); /* both have issued their write */
    if (mode != M_LOG || node == 0) {
      IS(lseek(fd, 0, SEEK_END) == all * (off_t)sizeof buffer);
      IS(size_of(fd) >= (int)sizeof buffer);
      IS(lseek(fd, 0, SEEK_SET) == 0);
    }
    if (mode == M_LOG) gsync();
    memset(other, 0, sizeof other);
    long next = iread(fd, other, sizeof other);
    iowait(next);
    IS(memcmp(buffer, other, sizeof buffer) == 0);
    iowait(id);
    /* The pointer is where the read has ended. */
    gsync();
    off_t end = mode == M_LOG || mode == M_SYNC || mode == M_RECORD ? nodes : 1;
    IS(lseek(fd, 0, SEEK_CUR) == end * (off_t)sizeof buffer);
    gsync();
    IS(close(fd) == 0);
  }
  /* The same with a file of this process alone, and with blocking calls. */
  char name[40];
  struct stat status;
  sprintf(name, "/pfs/alone%d", node);
  int fd = open(name, O_RDWR | O_CREAT, 0644), twice = open(name, O_RDWR);
  IS(lseek(fd, UNIT, SEEK_SET) == UNIT);
  long id = iwrite(fd, buffer, sizeof buffer);
  IS(fstat(twice, &status) == 0 && status.st_size == UNIT + (off_t)sizeof buffer);
  IS(lseek(twice, 0, SEEK_END) == UNIT + (off_t)sizeof buffer && lseek(twice, 0, SEEK_SET) == 0);
  memset(other, 1, sizeof other);
  IS(read(twice, other, 100) == 100 && other[0] == 0 && other[99] == 0); /* the hole before it */
  IS(pread(twice, other, 10, UNIT) == 10 && memcmp(other, buffer, 10) == 0);
  id = (iowait(id), iwrite(fd, buffer, sizeof buffer));
  IS(ftruncate(fd, 7) == 0); /* after the write */
  iowait(id);
  IS(size_of(fd) == 7);
  IS(close(fd) == 0 && close(twice) == 0);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Started accesses of one descriptor overlap: four on four disks take as long as one. */
static void overlap(double latency) {
  const int modes[] = {M_ASYNC, M_LOG, M_SYNC, M_RECORD, M_GLOBAL};
  memset(buffer, 'x', sizeof buffer);
  for (int at = -1; at < 5; at++) {
    char name[40];
    long ids[4];
    sprintf(name, "/pfs/overlap%d", at);
    int fd = at < 0 ? open(name, O_RDWR | O_CREAT, 0644)
                    : gopen(name, O_RDWR | O_CREAT, modes[at], 0644);
    IS(write(fd, buffer, sizeof buffer) == sizeof buffer);
    for (int is_write = 0; is_write < 2; is_write++) {
      IS(lseek(fd, 0, SEEK_SET) == 0);
      double begun = now();
      for (int unit = 0; unit < 4; unit++) {
        char *place = other + unit * UNIT;
        ids[unit] = is_write ? iwrite(fd, place, UNIT) : iread(fd, place, UNIT);
      }
      IS(now() - begun < latency); /* starting does not wait */
      for (int unit = 0; unit < 4; unit++) iowait(ids[unit]);
      double took = now() - begun;
      printf("mode %d, write %d: %.2f\n", at < 0 ? 0 : modes[at], is_write, took);
      IS(took >= latency && took < 2.5 * latency);
      IS(memcmp(buffer, other, sizeof buffer) == 0);
      IS(lseek(fd, 0, SEEK_CUR) == sizeof buffer);
    }
    /* Overlapping ranges keep the order of issue. */
    if (at >= 0 && modes[at] != M_SYNC && modes[at] != M_GLOBAL) {
      IS(close(fd) == 0);
      continue;
    }
    for (int round = 0; round < 4; round++) {
      IS(lseek(fd, 0, SEEK_SET) == 0);
      memset(other + round * UNIT, 'a' + round, UNIT);
      ids[round] = iwrite(fd, other + round * UNIT, UNIT);
    }
    IS(lseek(fd, 0, SEEK_SET) == 0);
    long last = iread(fd, buffer, UNIT);
    for (int round = 0; round < 4; round++) iowait(ids[round]);
    iowait(last);
    for (int byte = 0; byte < UNIT; byte++) IS(buffer[byte] == 'd');
    memset(buffer, 'x', sizeof buffer);
    IS(close(fd) == 0);
  }
}

/* The same in a file that the processes have open together in M_UNIX, while another one waits. */
static void overlap_atomic(double latency) {
  int fd = gopen("/pfs/atomic", O_RDWR | O_CREAT, M_UNIX, 0644);
  long ids[4];
  memset(buffer, 'x', sizeof buffer);
  if (node == 0) {
    IS(write(fd, buffer, sizeof buffer) == sizeof buffer && lseek(fd, 0, SEEK_SET) == 0);
    double begun = now();
    for (int unit = 0; unit < 4; unit++) ids[unit] = iread(fd, other + unit * UNIT, UNIT);
    for (int unit = 0; unit < 4; unit++) iowait(ids[unit]);
    double took = now() - begun;
    printf("M_UNIX together: %.2f\n", took);
    IS(took >= latency && took < 3.5 * latency && memcmp(buffer, other, sizeof buffer) == 0);
  }
  gsync();
  IS(close(fd) == 0);
}

/* Pointers and started requests, for a test that looks at them from outside. */
static void shown(int mode) {
  char line[100];
  int fd = gopen("/pfs/shown", O_RDWR | O_CREAT, mode, 0644);
  long first = iwrite(fd, buffer, 1000), second = iread(fd, other, 0);
  sprintf(line, "%ld %ld", first, second);
  say_and_wait(line);
  iowait(second);
  IS(lseek(fd, 7, SEEK_SET) == 7);
  say_and_wait("one");
  iowait(first);
  say_and_wait("none");
  IS(close(fd) == 0);
  say_and_wait("closed");
}

/* A read of records past the end leaves the pointers of all processes at the end. */
static void past_end(void) {
  int fd = gopen("/pfs/records", O_RDWR | O_CREAT, M_RECORD, 0644);
  char letter = (char)('a' + node), line[40];
  if (node == 0) IS(pwrite(fd, "0123456789", 10, 0) == 10 && pwrite(fd, "ABCDEFGHIJ", 10, 20) == 10);
  gsync();
  memset(line, letter, 10);
  IS(_cread(fd, buffer, 10) == 10);
  /* One record is left for two processes. */
  IS(_cread(fd, buffer, 10) == (node == 0 ? 10 : 0));
  IS(lseek(fd, 0, SEEK_CUR) == 30);
  IS(_cread(fd, buffer, 10) == 0 && lseek(fd, 0, SEEK_CUR) == 30);
  IS(_cwrite(fd, line, 10) == 10 && lseek(fd, 0, SEEK_CUR) == 50);
  gsync();
  IS(size_of(fd) == 50 && pread(fd, buffer, 50, 0) == 50);
  IS(memcmp(buffer + 20, "ABCDEFGHIJaaaaaaaaaabbbbbbbbbb", 30) == 0);
  /* The same for a started read. */
  gsync();
  IS(lseek(fd, 40, SEEK_SET) == 40);
  long id = iread(fd, buffer, 10);
  IS(lseek(fd, 0, SEEK_CUR) == 50);
  iowait(id);
  /* Records that are being written are not the end for the processes that write them. */
  id = iwrite(fd, line, 10);
  IS(lseek(fd, 50, SEEK_SET) == 50);
  IS(_cread(fd, buffer, 10) == 10 && buffer[0] == letter && lseek(fd, 0, SEEK_CUR) == 70);
  iowait(id);
  IS(close(fd) == 0);
}

/* The collective calls of PFS. A process passes garbage if it is told to. */
static int pfs_call(int which, int fd, int is_bad) {
  struct iovec piece = {buffer, 10};
  long id;
  int opened;
  switch (which) {
  case 0: return _setiomode(fd, is_bad ? 77 : M_SYNC);
  case 1: return _cwrite(fd, is_bad ? NULL : buffer, 10) == 10 ? 0 : -1;
  case 2: return _cwrite(fd, buffer, is_bad ? 0x80000000u : 10) == 10 ? 0 : -1;
  case 3: return _cwritev(fd, &piece, is_bad ? -1 : 1) == 10 ? 0 : -1;
  case 4: return lseek(fd, is_bad ? -5 : 0, SEEK_SET) == 0 ? 0 : -1;
  case 5: return lseek(fd, 0, is_bad ? 9 : SEEK_SET) == 0 ? 0 : -1;
  case 6: return _cread(fd, is_bad ? NULL : other, 10) >= 0 ? 0 : -1;
  case 7: return (id = _iwrite(fd, is_bad ? NULL : buffer, 10)) < 0 ? -1 : (int)_iowait(id);
  case 8: return (id = _ireadv(fd, &piece, is_bad ? 5000 : 1)) < 0 ? -1 : (int)_iowait(id);
  case 9: opened = _gopen("/pfs/bad", O_RDWR, is_bad ? 77 : M_LOG, 0); break;
  case 10: opened = _gopen("/pfs/bad", is_bad ? 3 : O_RDWR, M_UNIX, 0); break;
  case 11: opened = _gopen(is_bad ? NULL : "/pfs/bad", O_RDWR, M_UNIX, 0); break;
  case 12: opened = _gopen("/pfs/bad", is_bad ? O_RDWR | O_NDELAY : O_RDWR, M_UNIX, 0); break;
  case 13: opened = _gopen(is_bad ? "/pfs/line\nbreak" : "/pfs/bad", O_RDWR, M_UNIX, 0); break;
  case 14: /* a file of each process, until all set a mode */
    IS((opened = open("/pfs/bad", O_RDWR)) >= 0);
    if (_setiomode(opened, is_bad ? -1 : M_LOG) != 0) {
      int failed = errno;
      IS(_iomode(opened) == M_UNIX && close(opened) == 0);
      errno = failed;
      return -1;
    }
    break;
  default: return -2;
  }
  if (opened < 0) return -1;
  IS(close(opened) == 0);
  return 0;
}

static int donio_fd, record_file, one_record, one_array;
static void *memory[8];
static char op[] = "+";

static int no_callback(int from, int at, const void *h, int hs, const void *d, int ds, void *r,
                       int rs, int *len) {
  (void)from, (void)at, (void)h, (void)hs, (void)d, (void)ds, (void)r, (void)rs;
  *len = 0;
  return 0;
}

/* The collective calls of DONIO, DOLIB, GIO and ARMCI. */
static int team_call(int which, int is_bad) {
  int result, segs[8] = {1, 1, 1, 1, 1, 1, 1, 1}, number;
  void *own[8];
  switch (which) {
  case 0:
    if ((result = do_open("/pfs/cached", is_bad ? 3 : O_RDWR, 0)) < 0) return -1;
    return do_close(result);
  case 1:
    if ((result = do_open(is_bad ? NULL : "/pfs/cached", O_RDWR, 0)) < 0) return -1;
    return do_close(result);
  case 2: return do_lsize(is_bad ? 999 : donio_fd, 1000) == 1000 ? 0 : -1;
  case 3: return do_lsize(donio_fd, is_bad ? -5 : 1000) == 1000 ? 0 : -1;
  case 4: return do_flush(is_bad ? 999 : donio_fd);
  case 5:
    if ((result = do_open("/pfs/cached", O_RDWR, 0)) < 0) return -1;
    return do_close(is_bad ? 999 : result);
  case 6: return do_array_create(is_bad ? -1 : 10, 8) >= 0 ? 0 : -1;
  case 7: return do_array_create(10, is_bad ? 0 : 8) >= 0 ? 0 : -1;
  case 8:
    if ((result = do_array_destroy(is_bad ? 999 : one_array)) == 0) one_array = do_array_create(5, 4);
    return result;
  case 9: return GIO_Open(is_bad ? NULL : "other", &number) < 0 ? -1 : GIO_Close(number);
  case 10: return GIO_Open("other", is_bad ? NULL : &number) < 0 ? -1 : GIO_Close(number);
  case 11: return GIO_Sync(is_bad ? 999 : record_file);
  case 12: return GIO_Create_record(record_file, &number, is_bad ? -5 : 100);
  case 13: return GIO_Create_record(is_bad ? 999 : record_file, &number, 100);
  case 14: return GIO_Create_record(record_file, is_bad ? NULL : &number, 100);
  case 15: return GIO_Create_record_irreg(record_file, &number, is_bad ? NULL : segs, nodes);
  case 16: return GIO_Create_record_irreg(record_file, &number, segs, is_bad ? -1 : nodes);
  case 17:
    if ((result = GIO_Delete_record(record_file, is_bad ? -7 : one_record)) == 0)
      IS(GIO_Create_record(record_file, &one_record, 10) == 0);
    return result;
  case 18:
    if ((result = GIO_Delete_file(is_bad ? NULL : "deleted")) == 0)
      IS(GIO_Open("deleted", &number) == 0 && GIO_Close(number) == 0);
    return result;
  case 19: return ARMCI_Malloc(own, is_bad ? -1 : 100);
  case 20: return ARMCI_Malloc(is_bad ? NULL : own, 100);
  case 21:
    if ((result = ARMCI_Free(is_bad ? (void *)&number : memory[node])) == 0)
      IS(ARMCI_Malloc(memory, 100) == 0);
    return result;
  case 22: return ARMCI_Create_mutexes(is_bad ? -1 : 2);
  case 23: return ARMCI_Callback_register(is_bad ? NULL : no_callback) >= 0 ? 0 : -1;
  default: return -2;
  }
}

/* Says which error this process got, for the test. */
static void say(const char *interface, int which, const char *text) {
  printf("%s %d: %s\n", interface, which, text);
  fflush(stdout);
}

static void bad_arguments(void) {
  int fd = gopen("/pfs/bad", O_RDWR | O_CREAT, M_SYNC, 0644), result;
  long sum = 1;
  for (int which = 0; pfs_call(which, fd, 0) != -2; which++) {
    int bad = which % nodes;
    result = pfs_call(which, fd, node == bad);
    if (result != -1) wrong("PFS", which, "fails");
    say("PFS", which, node == bad ? "own" : (pfslib_perror("PFS"), "other"));
    /* The next calls work. */
    gsync();
    IS(_iomode(fd) == M_SYNC && lseek(fd, 0, SEEK_SET) == 0 && _cwrite(fd, buffer, 10) == 10);
  }
  IS(close(fd) == 0);

  IS(do_nio(node, nodes) == 0);
  if (node == 0) IS((fd = open("/pfs/cached", O_RDWR | O_CREAT, 0644)) >= 0 && close(fd) == 0);
  do_barrier();
  IS((donio_fd = do_open("/pfs/cached", O_RDWR, 0)) >= 0 && do_lsize(donio_fd, 1000) == 1000);
  IS((one_array = do_array_create(5, 4)) >= 0);
  IS(GIO_Open("records", &record_file) == 0 && GIO_Create_record(record_file, &one_record, 10) == 0);
  IS(GIO_Open("deleted", &fd) == 0 && GIO_Close(fd) == 0);
  IS(ARMCI_Init() == 0 && ARMCI_Malloc(memory, 100) == 0);
  for (int which = 0; (result = team_call(which, 0)) != -2; which++) {
    int bad = which % nodes;
    if (result != 0) wrong("team", which, "works");
    result = team_call(which, node == bad);
    if (result != -1) wrong("team", which, "fails");
    say("team", which, node == bad ? "own" : (pfslib_perror("team"), "other"));
    do_barrier();
  }
  gisum(&sum, 1, NULL);
  IS(sum == nodes);
  armci_msg_igop(&fd, 0, op);
}

/* Collective calls with a number that is no descriptor, and with numbers of a process that are wrong. */
static int call_with_number(int which, int fd, int is_bad) {
  struct iovec piece = {buffer, 10};
  int number = is_bad ? 999 : fd, opened;
  long id;
  switch (which) {
  case 0: return _setiomode(number, M_SYNC);
  case 1: return _cwrite(number, buffer, 10) == 10 ? 0 : -1;
  case 2: return _creadv(number, &piece, 1) >= 0 ? 0 : -1;
  case 3: return (id = _iwrite(number, buffer, 10)) < 0 ? -1 : (int)_iowait(id);
  case 4: return (id = _ireadv(number, &piece, 1)) < 0 ? -1 : (int)_iowait(id);
  case 5: opened = _pfslib_open(is_bad ? NULL : "/pfs/n", O_RDWR, 0, M_LOG, nodes, node, 1); break;
  case 6: opened = _pfslib_open("/pfs/n", O_RDWR, 0, M_LOG, nodes, is_bad ? -1 : node, 1); break;
  case 7: opened = _pfslib_open("/pfs/n", O_RDWR, 0, M_LOG, is_bad ? 0 : nodes, node, 1); break;
  default: return -2;
  }
  if (opened < 0) return -1;
  IS(close(opened) == 0);
  return 0;
}

/* Others learn the rank and the reason, and the next call works. */
static void bad_numbers(void) {
  int fd = gopen("/pfs/n", O_RDWR | O_CREAT, M_SYNC, 0644), single, result;
  for (int which = 0; call_with_number(which, fd, 0) != -2; which++) {
    int bad = which % nodes;
    result = call_with_number(which, fd, node == bad);
    if (result != -1) wrong("number", which, "fails");
    if (node != bad) IS(errno == EPFSLMIXIO);
    say("number", which, node == bad ? "own" : (pfslib_perror("number"), "other"));
    gsync();
    IS(_iomode(fd) == M_SYNC && lseek(fd, 0, SEEK_SET) == 0 && _cwrite(fd, buffer, 10) == 10);
  }
  /* All processes may be wrong at the same time. */
  FAILS(EPFSLBADF, _cread(-1, buffer, 10));
  IS(_cwrite(fd, buffer, 10) == 10);
  IS(close(fd) == 0);
  /* A process that could not open its file: the others open it together first. */
  single = node == 1 ? open("/pfs/none/n", O_RDWR) : open("/pfs/n", O_RDWR);
  IS((single < 0) == (node == 1));
  IS(_setiomode(single, M_LOG) == -1);
  say("number", 100, node == 1 ? "own" : (pfslib_perror("number"), "other"));
  if (node != 1) IS(close(single) == 0);
  gsync();
}

/* The file is not known: the call fails on all as soon as the process waits elsewhere. */
static void misdirected(void) {
  int one = gopen("/pfs/one", O_RDWR | O_CREAT, M_SYNC, 0644);
  int two = gopen("/pfs/two", O_RDWR | O_CREAT, M_SYNC, 0644);
  /* Two files could be meant. */
  if (node == 1) FAILS(EPFSLBADF, _cwrite(999, buffer, 10));
  else FAILS(EPFSLMIXIO, _cwrite(two, buffer, 10));
  say("misdirected", 0, node == 1 ? "own" : (pfslib_perror("number"), "other"));
  gsync();
  IS(_cwrite(two, buffer, 10) == 10 && _cwrite(one, buffer, 10) == 10);
  /* Calls of the system. */
  if (node == 1) FAILS(EPFSLBADF, lseek(999, 0, SEEK_SET));
  else FAILS(EPFSLMIXIO, lseek(one, 0, SEEK_SET));
  say("misdirected", 1, node == 1 ? "own" : (pfslib_perror("number"), "other"));
  gsync();
  IS(lseek(one, 0, SEEK_SET) == 0);
  if (node == 1) FAILS(EBADF, read(999, buffer, 10));
  else FAILS(EPFSLMIXIO, read(one, buffer, 10));
  say("misdirected", 2, node == 1 ? "own" : (pfslib_perror("number"), "other"));
  IS(_cwrite(two, buffer, 10) == 10);
  if (node == 1) FAILS(EPFSLBADF, close(999));
  else FAILS(EPFSLMIXIO, close(one));
  say("misdirected", 3, node == 1 ? "own" : (pfslib_perror("number"), "other"));
  gsync();
  if (node == 1) IS(close(one) == -1);
  IS(close(two) == 0);
}

/* Closing numbers that are no descriptors is common, and disturbs no other process. */
static void harmless(void) {
  for (int round = 0; round < 20; round++) {
    int fd = gopen("/pfs/h", O_RDWR | O_CREAT, M_SYNC, 0644), more;
    if (node == round % nodes) close(-1);
    IS(_cwrite(fd, buffer, 10) == 10);
    if (node != round % nodes) close(-1), read(-1, buffer, 1), lseek(-1, 0, SEEK_SET);
    IS((more = gopen("/pfs/more", O_RDWR | O_CREAT, M_LOG, 0644)) >= 0);
    gsync();
    IS(close(more) == 0);
    close(-1);
    IS(close(fd) == 0);
  }
}

/* Processes of a job without a name, which need no node. */
static void unnamed(int rank, int size) {
  IS(do_nio(rank, size) == 0);
  do_barrier();
  IS(mynode() == rank && numnodes() == size);
}

/* A global sum that one process cannot make ends all processes, with the reason. */
static void bad_sum(void) {
  long sum = 1;
  gisum(&sum, node == 1 ? -1 : 1, NULL);
  IS(0);
}

static void bad_operation(void) {
  int number = 1;
  char unknown[] = "unknown";
  IS(ARMCI_Init() == 0);
  armci_msg_igop(&number, 1, node == 1 ? unknown : op);
  IS(0);
}

int main(int count, char **arguments) {
  const char *part = count > 1 ? arguments[1] : "";
  alarm(100); /* no process waits forever */
  node = (int)mynode();
  nodes = (int)numnodes();
  if (!strcmp(part, "first open")) first_open();
  else if (!strcmp(part, "issued")) issued();
  else if (!strcmp(part, "overlap")) overlap(atof(arguments[2]));
  else if (!strcmp(part, "overlap atomic")) overlap_atomic(atof(arguments[2]));
  else if (!strcmp(part, "shown")) shown(atoi(arguments[2]));
  else if (!strcmp(part, "past end")) past_end();
  else if (!strcmp(part, "bad arguments")) bad_arguments();
  else if (!strcmp(part, "unnamed")) unnamed(atoi(arguments[2]), atoi(arguments[3]));
  else if (!strcmp(part, "bad numbers")) bad_numbers();
  else if (!strcmp(part, "misdirected")) misdirected();
  else if (!strcmp(part, "harmless")) harmless();
  else if (!strcmp(part, "bad sum")) bad_sum();
  else if (!strcmp(part, "bad operation")) bad_operation();
  else return 2;
  return 0;
}
