/* Record locks: with the macros of the header, or without them and with the preload library. */
#define _GNU_SOURCE
#include <nx.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "expect.h"

static int locking(int fd, int command, int type, int whence, off_t start, off_t len) {
  struct flock lock = {.l_type = (short)type, .l_whence = (short)whence, .l_start = start, .l_len = len};
  return fcntl(fd, command, &lock);
}

static int set(int fd, int type, off_t start, off_t len) {
  return locking(fd, F_SETLK, type, SEEK_SET, start, len);
}

static int set_and_wait(int fd, int type, off_t start, off_t len) {
  return locking(fd, F_SETLKW, type, SEEK_SET, start, len);
}

/* Returns whether F_GETLK finds a lock of this type and range first. */
static int finds(int fd, int wanted, off_t from, off_t len, int type, off_t start, off_t found) {
  struct flock lock = {.l_type = (short)wanted, .l_whence = SEEK_SET, .l_start = from, .l_len = len};
  IS(fcntl(fd, F_GETLK, &lock) == 0);
  return lock.l_type == type && lock.l_whence == SEEK_SET && lock.l_start == start && lock.l_len == found;
}

/* Returns whether F_GETLK finds no conflict and changes only the type. */
static int is_free(int fd, int wanted, off_t from, off_t len) {
  struct flock lock = {.l_type = (short)wanted, .l_whence = SEEK_SET, .l_start = from, .l_len = len};
  lock.l_pid = 77;
  IS(fcntl(fd, F_GETLK, &lock) == 0);
  return lock.l_type == F_UNLCK && lock.l_start == from && lock.l_len == len && lock.l_pid == 77;
}

static int opened(const char *name, int flags) {
  int fd = open(name, flags == O_RDONLY ? flags : flags | O_CREAT, 0644);
  IS(fd >= 0);
  return fd;
}

/* Independent processes count together. */
static void count(int rounds) {
  int fd = opened("/pfs/counter", O_RDWR);
  for (int round = 0; round < rounds; round++) {
    long value = 0;
    IS(set_and_wait(fd, F_WRLCK, 0, sizeof value) == 0);
    IS(pread(fd, &value, sizeof value, 0) >= 0);
    sched_yield();
    value++;
    IS(pwrite(fd, &value, sizeof value, 0) == sizeof value);
    IS(set(fd, F_UNLCK, 0, sizeof value) == 0);
  }
  IS(close(fd) == 0);
}

/* The first process locks, and the second one sees the conflicts. */
static void pair(void) {
  int is_first = mynode() == 0, fd = opened("/pfs/pair", O_RDWR), other;
  int pid = getpid();
  gsync();
  if (is_first) {
    IS(pwrite(fd, &pid, sizeof pid, 1000) == sizeof pid);
    IS(set(fd, F_WRLCK, 10, 10) == 0 && set(fd, F_RDLCK, 30, 0) == 0);
    IS(is_free(fd, F_WRLCK, 0, 0));
  }
  gsync();
  if (!is_first) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    IS(pread(fd, &pid, sizeof pid, 1000) == sizeof pid);
    IS(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_pid == pid && pid != getpid());
    IS(finds(fd, F_WRLCK, 0, 0, F_WRLCK, 10, 10) && finds(fd, F_RDLCK, 0, 0, F_WRLCK, 10, 10));
    IS(finds(fd, F_WRLCK, 25, 0, F_RDLCK, 30, 0) && is_free(fd, F_RDLCK, 25, 0));
    IS(is_free(fd, F_WRLCK, 0, 10) && is_free(fd, F_WRLCK, 20, 10));
    FAILS(EAGAIN, set(fd, F_WRLCK, 15, 1));
    FAILS(EAGAIN, set(fd, F_RDLCK, 19, 1));
    FAILS(EAGAIN, set(fd, F_WRLCK, 1L << 62, 1));
    IS(set(fd, F_RDLCK, 30, 5) == 0);
    /* Ranges start at the pointer or the end, and lengths may be negative. */
    IS(lseek(fd, 15, SEEK_SET) == 15);
    FAILS(EAGAIN, locking(fd, F_SETLK, F_WRLCK, SEEK_CUR, 4, 1));
    FAILS(EAGAIN, locking(fd, F_SETLK, F_WRLCK, SEEK_CUR, -5, 1));
    FAILS(EAGAIN, locking(fd, F_SETLK, F_WRLCK, SEEK_CUR, 10, -6));
    IS(locking(fd, F_SETLK, F_WRLCK, SEEK_CUR, 10, -5) == 0);
    IS(locking(fd, F_SETLK, F_WRLCK, SEEK_CUR, -5, -10) == 0);
    FAILS(EAGAIN, locking(fd, F_SETLK, F_WRLCK, SEEK_END, -1004, 30));
    FAILS(EAGAIN, locking(fd, F_SETLK, F_RDLCK, SEEK_END, -985, 1));
    IS(locking(fd, F_SETLK, F_RDLCK, SEEK_END, 10, 0) == 0);
    FAILS(EACCES, lockf(fd, F_TEST, 1));
    FAILS(EACCES, lockf(fd, F_TEST, -5));
    FAILS(EAGAIN, lockf(fd, F_TLOCK, 1));
    IS(lseek(fd, 5, SEEK_SET) == 5 && lockf(fd, F_TEST, -5) == 0 && lockf(fd, F_TLOCK, -5) == 0);
    IS(lockf(fd, F_LOCK, 5) == 0 && lockf(fd, F_ULOCK, 0) == 0 && lockf(fd, F_ULOCK, -5) == 0);
    IS(set(fd, F_RDLCK, 30, 5) == 0);
  }
  gsync();
  if (is_first) {
    /*
     * Bytes under another process' read lock cannot be write-locked; own locks change their type.
     */
    FAILS(EAGAIN, set(fd, F_WRLCK, 30, 0));
    IS(set(fd, F_UNLCK, 13, 3) == 0 && set(fd, F_RDLCK, 18, 7) == 0 && set(fd, F_WRLCK, 40, 0) == 0);
    IS(set(fd, F_WRLCK, 40, 10) == 0);
    /* A forked process has no locks, and releases none. */
    pid = fork();
    if (pid == 0) {
      FAILS(EPFSLFORK, set(fd, F_UNLCK, 0, 0));
      _exit(close(fd));
    }
    int status;
    IS(waitpid(pid, &status, 0) == pid && status == 0);
  }
  gsync();
  if (!is_first) {
    IS(finds(fd, F_WRLCK, 0, 0, F_WRLCK, 10, 3) && finds(fd, F_WRLCK, 13, 5, F_WRLCK, 16, 2));
    IS(finds(fd, F_WRLCK, 18, 0, F_RDLCK, 18, 7) && is_free(fd, F_RDLCK, 18, 12));
    IS(finds(fd, F_WRLCK, 26, 0, F_RDLCK, 30, 10) && finds(fd, F_RDLCK, 26, 0, F_WRLCK, 40, 0));
    IS(set(fd, F_UNLCK, 0, 0) == 0);
  }
  gsync();
  /* Closing any descriptor of a file releases its locks. */
  if (is_first) {
    other = opened("/pfs/else", O_RDWR);
    IS(close(other) == 0 && set(fd, F_WRLCK, 0, 0) == 0);
  }
  gsync();
  if (!is_first) FAILS(EAGAIN, set(fd, F_RDLCK, 0, 0));
  gsync();
  if (is_first) {
    other = opened("/pfs/pair", O_RDONLY);
    IS(close(other) == 0);
  }
  gsync();
  if (!is_first) IS(set(fd, F_WRLCK, 0, 0) == 0 && set(fd, F_UNLCK, 0, 0) == 0);
  gsync();
  /* A change of the mode keeps the locks. */
  if (is_first) IS(set(fd, F_WRLCK, 0, 1) == 0);
  setiomode(fd, M_ASYNC);
  if (!is_first) IS(finds(fd, F_WRLCK, 0, 0, F_WRLCK, 0, 1));
  gsync();
  IS(close(fd) == 0);
  gsync();
}

/* A deadlock: one of the two processes gets an error. */
static void deadlock(void) {
  int fd = opened("/pfs/deadlock", O_RDWR), mine = (int)mynode();
  IS(set_and_wait(fd, F_WRLCK, mine, 1) == 0);
  gsync();
  if (set_and_wait(fd, F_WRLCK, 1 - mine, 1) == 0) {
    printf("locked\n");
  } else {
    IS(errno == EDEADLK);
    printf("deadlock\n");
  }
  IS(close(fd) == 0);
}

static void hold(const char *name) {
  int fd = opened(name, O_RDWR);
  IS(set(fd, F_WRLCK, 0, 0) == 0);
  say_and_wait("locked");
  IS(close(fd) == 0);
}

static void wait_for(const char *name) {
  int fd = opened(name, O_RDWR);
  IS(set_and_wait(fd, F_WRLCK, 5, 1) == 0);
  IS(close(fd) == 0);
}

static volatile sig_atomic_t ticks;

static void tick(int signal) {
  (void)signal;
  if (++ticks == 100 && write(1, "ticked\n", 7) != 7) _exit(4);
}

static void interrupted(const char *name, int is_restarted) {
  int fd = opened(name, O_RDWR);
  struct sigaction action = {.sa_handler = tick, .sa_flags = is_restarted ? SA_RESTART : 0};
  struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
  IS(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
  if (is_restarted) {
    IS(set_and_wait(fd, F_WRLCK, 0, 0) == 0 && ticks >= 100);
  } else {
    FAILS(EINTR, set_and_wait(fd, F_WRLCK, 0, 0));
  }
  IS(setitimer(ITIMER_REAL, &never, NULL) == 0);
  if (!is_restarted) say_and_wait("interrupted");
  IS(set(fd, F_WRLCK, 0, 0) == 0 && close(fd) == 0);
}

/* The node restarts: its locks are lost, and the process gets an error. */
static void restarted(void) {
  char bytes[4] = "abc";
  int fd = opened("/pfs/restarted", O_RDWR);
  IS(pwrite(fd, bytes, 4, 0) == 4 && set(fd, F_WRLCK, 0, 4) == 0);
  say_and_wait("locked");
  /* Until the library notices the restart. */
  while (pread(fd, bytes, 4, 0) == 4) sched_yield();
  FAILS(EPFSLBADFH, pread(fd, bytes, 4, 0));
  FAILS(EPFSLBADFH, pwrite(fd, bytes, 4, 0));
  FAILS(EPFSLBADFH, set(fd, F_UNLCK, 0, 0));
  FAILS(EPFSLBADFH, set(fd, F_WRLCK, 0, 4));
  close(fd);
  /* The job coordinates anew: the first call reports it. */
  FAILS(EPFSLBADFH, open("/pfs/restarted", O_RDWR));
  fd = opened("/pfs/restarted", O_RDWR);
  IS(set(fd, F_WRLCK, 0, 4) == 0 && pread(fd, bytes, 4, 0) == 4 && strcmp(bytes, "abc") == 0);
  IS(close(fd) == 0);
}

static void arguments(void) {
  const off_t largest = 0x7fffffffffffffffL;
  int fd = opened("/pfs/arguments", O_RDWR), none, plain, at;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  FAILS(EFAULT, fcntl(fd, F_SETLK, NULL));
  FAILS(EFAULT, fcntl(fd, F_SETLKW, NULL));
  FAILS(EFAULT, fcntl(fd, F_GETLK, NULL));
  FAILS(EINVAL, set(fd, 77, 0, 0));
  FAILS(EINVAL, set(fd, -1, 0, 0));
  FAILS(EINVAL, locking(fd, F_GETLK, F_UNLCK, SEEK_SET, 0, 0));
  FAILS(EINVAL, locking(fd, F_SETLK, F_WRLCK, 9, 0, 0));
  FAILS(EINVAL, locking(fd, F_SETLK, F_WRLCK, -1, 0, 0));
  FAILS(EINVAL, set(fd, F_WRLCK, -1, 0));
  FAILS(EINVAL, set(fd, F_WRLCK, -1, 5));
  FAILS(EINVAL, set(fd, F_WRLCK, 4, -5));
  FAILS(EINVAL, set(fd, F_WRLCK, 0, -largest - 1));
  FAILS(EINVAL, locking(fd, F_SETLK, F_WRLCK, SEEK_END, -1, 1));
  FAILS(EOVERFLOW, set(fd, F_WRLCK, largest, 2));
  FAILS(EOVERFLOW, set(fd, F_WRLCK, 2, largest));
  IS(lseek(fd, 100, SEEK_SET) == 100);
  FAILS(EOVERFLOW, locking(fd, F_SETLK, F_WRLCK, SEEK_CUR, largest, 0));
  IS(set(fd, F_WRLCK, largest, 1) == 0 && set(fd, F_WRLCK, largest, -largest) == 0);
  IS(set(fd, F_WRLCK, 0, largest) == 0 && set(fd, F_UNLCK, 0, 0) == 0);
  FAILS(EINVAL, lockf(fd, 17, 0));
  FAILS(EINVAL, lockf(fd, F_LOCK, -101));
  FAILS(EINVAL, fcntl(fd, F_OFD_SETLK, &lock));
  FAILS(EINVAL, fcntl(fd, F_OFD_GETLK, &lock));

  /* The limit of locks. */
  for (at = 0; at < 4096; at++) IS(set(fd, F_WRLCK, 2 * at, 1) == 0);
  FAILS(ENOLCK, set(fd, F_WRLCK, 2 * at, 1));
  FAILS(ENOLCK, set_and_wait(fd, F_WRLCK, 2 * at, 1));
  IS(set(fd, F_WRLCK, 0, 0) == 0 && set(fd, F_UNLCK, 0, 0) == 0);
  IS(close(fd) == 0);
  FAILS(EBADF, set(fd, F_WRLCK, 0, 0));

  fd = opened("/pfs/arguments", O_RDONLY);
  FAILS(EBADF, set(fd, F_WRLCK, 0, 0));
  FAILS(EBADF, set_and_wait(fd, F_WRLCK, 0, 0));
  FAILS(EBADF, lockf(fd, F_TLOCK, 0));
  IS(set(fd, F_RDLCK, 0, 0) == 0 && is_free(fd, F_WRLCK, 0, 0) && close(fd) == 0);
  fd = opened("/pfs/arguments", O_WRONLY);
  FAILS(EBADF, set(fd, F_RDLCK, 0, 0));
  FAILS(EBADF, set_and_wait(fd, F_RDLCK, 0, 0));
  IS(set(fd, F_WRLCK, 0, 0) == 0 && close(fd) == 0);

  /* The system locks plain files. */
  plain = open("plain", O_RDWR | O_CREAT, 0600);
  IS(plain >= 0 && set(plain, F_WRLCK, 0, 10) == 0 && lockf(plain, F_TLOCK, 3) == 0);
  IS(is_free(plain, F_WRLCK, 0, 10) && close(plain) == 0);
  none = plain;
  FAILS(EBADF, set(none, F_WRLCK, 0, 0));
  FAILS(EBADF, lockf(none, F_LOCK, 0));
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "", *name = argc > 2 ? argv[2] : "";
  if (strcmp(what, "count") == 0) count(atoi(name));
  else if (strcmp(what, "pair") == 0) pair();
  else if (strcmp(what, "deadlock") == 0) deadlock();
  else if (strcmp(what, "hold") == 0) hold(name);
  else if (strcmp(what, "wait") == 0) wait_for(name);
  else if (strcmp(what, "interrupted") == 0) interrupted(name, 0);
  else if (strcmp(what, "continued") == 0) interrupted(name, 1);
  else if (strcmp(what, "restarted") == 0) restarted();
  else if (strcmp(what, "arguments") == 0) arguments();
  else return 2;
  return 0;
}
