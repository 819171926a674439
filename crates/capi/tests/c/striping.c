/*
 * Striping by the Paragon's means. The first argument selects the part.
 */
#include <nx.h>
#include <fcntl.h>
#include <pfs/pfs.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static int has(int fd, int unit, int factor, int first) {
  struct sattr known;
  IS(fcntl(fd, F_GETSATTR, &known) == 0);
  return known.s_sunitsize == unit && known.s_sfactor == factor && known.s_start_sdir == first;
}

/* One process creates the file and sets its striping; then all open it. */
static void creation(void) {
  struct sattr wanted;
  char block[1000];
  int fd;
  memset(block, 'x', sizeof block);
  if (mynode() == 0) {
    fd = open("/pfs/striped", O_RDWR | O_CREAT, 0640);
    IS(fcntl(fd, F_GETSATTR, &wanted) == 0 && wanted.s_sunitsize == 65536 && wanted.s_sfactor == 4);
    IS(wanted.s_start_sdir >= 0 && wanted.s_start_sdir < 4);
    wanted.s_sunitsize = 4096;
    wanted.s_sfactor = 2;
    wanted.s_start_sdir = 3;
    IS(fcntl(fd, F_SETSATTR, &wanted) == 0 && has(fd, 4096, 2, 3));
    IS(write(fd, block, sizeof block) == sizeof block && close(fd) == 0);
  }
  gsync();
  fd = gopen("/pfs/striped", O_RDWR, M_RECORD, 0);
  IS(has(fd, 4096, 2, 3));
  cread(fd, block, 300);
  IS(close(fd) == 0);
}

/* What is refused, and why. */
static void refused(void) {
  struct sattr known, changed;
  char text[100];
  int fd = open("/pfs/refused", O_RDWR | O_CREAT, 0644), other, plain;
  IS(fcntl(fd, F_GETSATTR, &known) == 0);
  FAILS(EFAULT, fcntl(fd, F_GETSATTR, NULL));
  FAILS(EFAULT, fcntl(fd, F_SETSATTR, NULL));
  int units[] = {0, -1, -2147483647 - 1}, factors[] = {0, -1, 5, 2147483647}, firsts[] = {-1, 4, 2147483647};
  for (int at = 0; at < 3; at++) {
    changed = known;
    changed.s_sunitsize = units[at];
    FAILS(EINVAL, fcntl(fd, F_SETSATTR, &changed));
  }
  for (int at = 0; at < 4; at++) {
    changed = known;
    changed.s_sfactor = factors[at];
    FAILS(EINVAL, fcntl(fd, F_SETSATTR, &changed));
  }
  for (int at = 0; at < 3; at++) {
    changed = known;
    changed.s_start_sdir = firsts[at];
    FAILS(EINVAL, fcntl(fd, F_SETSATTR, &changed));
  }
  changed = known;
  changed.s_sunitsize = 1 << 20;
  other = open("/pfs/refused", O_RDONLY);
  FAILS(EINVAL, fcntl(fd, F_SETSATTR, &changed)); /* another descriptor is open */
  pfslib_perror("open elsewhere");
  FAILS(EBADF, fcntl(other, F_SETSATTR, &changed));
  IS(fcntl(other, F_SETSATTR, &known) == 0); /* nothing to change */
  IS(close(other) == 0);

  /* The pointer and the mode stay, and so does the permission. */
  IS(lseek(fd, 7, SEEK_SET) == 7 && fcntl(fd, F_SETSATTR, &changed) == 0);
  IS(lseek(fd, 0, SEEK_CUR) == 7 && iomode(fd) == M_UNIX && write(fd, "x", 1) == 1);
  FAILS(EINVAL, fcntl(fd, F_SETSATTR, &known)); /* it has bytes */
  pfslib_perror("not empty");
  IS(ftruncate(fd, 0) == 0 && fcntl(fd, F_SETSATTR, &known) == 0);
  IS(has(fd, known.s_sunitsize, known.s_sfactor, known.s_start_sdir));

  IS(fcntl(fd, F_PFS_SVR_BUF, TRUE) == 0);
  FAILS(EOPNOTSUPP, fcntl(fd, F_PFS_SVR_BUF, FALSE));
  FAILS(EINVAL, fcntl(fd, F_PFS_SVR_BUF, 2));
  IS(unlink("/pfs/refused") == 0);
  FAILS(ENOENT, fcntl(fd, F_SETSATTR, &changed)); /* it has no name */
  IS(close(fd) == 0);

  plain = open("plain", O_RDWR | O_CREAT, 0644);
  FAILS(EINVAL, fcntl(plain, F_GETSATTR, &known));
  FAILS(EINVAL, fcntl(plain, F_SETSATTR, &known));
  FAILS(EINVAL, fcntl(plain, F_PFS_SVR_BUF, TRUE));
  FAILS(EBADF, fcntl(-1, F_GETSATTR, &known));
  IS(close(plain) == 0 && sprintf(text, "%d", TRUE + FALSE) == 1);
}

/* While several processes have the file open, its striping stays. */
static void together(void) {
  struct sattr wanted;
  int fd = gopen("/pfs/together", O_RDWR | O_CREAT, M_UNIX, 0644);
  IS(fcntl(fd, F_GETSATTR, &wanted) == 0);
  wanted.s_sunitsize *= 2;
  FAILS(EINVAL, fcntl(fd, F_SETSATTR, &wanted));
  gsync();
  cwrite(fd, "x", 1);
  IS(close(fd) == 0);
}

/* Which file system has a file. */
static void systems(void) {
  struct estatfs known;
  struct statpfs striping;
  int fd = open("/pfs/known", O_RDWR | O_CREAT, 0644);
  IS(close(fd) == 0);
  IS(statpfs("/pfs/known", &known, NULL, 0) == 0 && known.f_type == MOUNT_PFS);
  IS(known.f_bsize == 1024 && known.f_bavail > 0 && known.f_bavail <= known.f_blocks);
  IS(statpfs("/pfs", &known, &striping, sizeof striping + SDIRS_INIT_SIZE) == 0);
  IS(known.f_type == MOUNT_PFS && striping.p_sunitsize == 65536 && striping.p_sfactor == 4);
  IS(statpfs("/pfs/known", &known, &striping, sizeof striping) == 0 && striping.p_sfactor == 4);
  IS(statpfs("/", &known, &striping, sizeof striping) == 0 && striping.p_sfactor == 0);
  IS(known.f_type != MOUNT_PFS && known.f_type != MOUNT_NFS && known.f_blocks > 0);
  FAILS(ENOENT, statpfs("/pfs/nothing", &known, NULL, 0));
  FAILS(ENOENT, statpfs("/nowhere/nothing", &known, NULL, 0));
  FAILS(EFAULT, statpfs(NULL, &known, NULL, 0));
  FAILS(EFAULT, statpfs("/pfs/known", NULL, NULL, 0));
  FAILS(EINVAL, statpfs("/pfs/known", &known, &striping, 3));
  FAILS(EINVAL, statpfs("/pfs/known", &known, &striping, -1));
}

/* Creates a file and prints its striping. */
static void print(void) {
  struct sattr known;
  int fd = _gopen("/pfs/printed", O_RDWR | O_CREAT, M_UNIX, 0644);
  if (fd < 0) {
    pfslib_perror("gopen");
    exit(1);
  }
  IS(fcntl(fd, F_GETSATTR, &known) == 0);
  printf("%d %d %d\n", known.s_sunitsize, known.s_sfactor, known.s_start_sdir);
  IS(close(fd) == 0 && unlink("/pfs/printed") == 0);
}

int main(int count, char **arguments) {
  IS(count > 1);
  if (strcmp(arguments[1], "creation") == 0) creation();
  if (strcmp(arguments[1], "refused") == 0) refused();
  if (strcmp(arguments[1], "together") == 0) together();
  if (strcmp(arguments[1], "systems") == 0) systems();
  if (strcmp(arguments[1], "print") == 0) print();
  return 0;
}
