/*
 * Every error of the manual, and invalid arguments. The first argument selects the part.
 */
#include <nx.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "expect.h"

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

static char buffer[1 << 16];

/* Errors that need no other process. */
static void arguments(void) {
  char longer[5000], name[300] = "/pfs/";
  struct iovec pieces[2] = {{buffer, 10}, {NULL, 10}}, huge[2] = {{buffer, (size_t)-1}, {buffer, 2}};
  int closed, fd, write_only, read_only, none[] = {-1, 999, 1 << 24, -2147483647 - 1};
  long id;

  memset(longer, 'x', sizeof longer);
  memcpy(longer, "/pfs/", 5);
  longer[sizeof longer - 1] = 0;
  memset(name + 5, 'x', 256);

  /* Opening. */
  FAILS(EFAULT, _gopen(NULL, O_RDWR, M_UNIX, 0));
  FAILS(EFAULT, open(NULL, O_RDWR));
  FAILS(EFAULT, _pfslib_open(NULL, O_RDWR, 0, M_UNIX, 1, 0, 1));
  FAILS(ENOENT, _gopen("", O_RDWR, M_UNIX, 0));
  FAILS(ENOENT, _gopen("/pfs/nothing", O_RDWR, M_UNIX, 0));
  FAILS(ENOENT, open("/pfs/nothing", O_RDONLY));
  FAILS(ENOENT, open("/nowhere/nothing", O_RDONLY));
  FAILS(ENAMETOOLONG, _gopen(longer, O_RDWR, M_UNIX, 0));
  FAILS(ENAMETOOLONG, _gopen(name, O_RDWR | O_CREAT, M_UNIX, 0644));
  FAILS(ENAMETOOLONG, open(name, O_RDWR | O_CREAT, 0644));
  FAILS(EPFSLNDELAY, _gopen("/pfs/x", O_RDWR | O_CREAT | O_NDELAY, M_UNIX, 0644));
  FAILS(EPFSLNDELAY, open("/pfs/x", O_RDWR | O_CREAT | O_NDELAY, 0644));
  FAILS(EPFSLINVAL, _gopen("/pfs/x", O_RDWR | O_CREAT, 6, 0644));
  FAILS(EPFSLINVAL, _gopen("/pfs/x", O_RDWR | O_CREAT, -1, 0644));
  FAILS(EPFSLINVAL, _gopen("/pfs/x", 3 | O_CREAT, M_UNIX, 0644));
  FAILS(ENOENT, open("/pfs", O_RDONLY | O_DIRECTORY));
  FAILS(EPFSLINVAL, _gopen("/pfs", O_RDONLY | O_DIRECTORY, M_UNIX, 0));
  FAILS(EPFSLINVAL, _gopen("/pfs/line\nbreak", O_RDWR | O_CREAT, M_UNIX, 0644));
  FAILS(EPFSLINVAL, _gopen("/pfs/\xff", O_RDWR | O_CREAT, M_UNIX, 0644));
  FAILS(EPFSLINVAL, _pfslib_open("/pfs/x", O_RDWR | O_CREAT, 0644, M_UNIX, 1, 1, 1));
  FAILS(EPFSLINVAL, _pfslib_open("/pfs/x", O_RDWR | O_CREAT, 0644, M_UNIX, 1, -1, 1));
  FAILS(EPFSLINVAL, _pfslib_open("/pfs/x", O_RDWR | O_CREAT, 0644, M_UNIX, -5, 0, 1));
  FAILS(EPFSLINVAL, _pfslib_open("/pfs/x", O_RDWR | O_CREAT, 0644, M_UNIX, 2000000000, 1, 1));
  FAILS(EPFSLINVAL, _pfslib_open("/pfs/x", O_RDWR | O_CREAT, 0644, 77, 1, 0, 1));

  fd = gopen("/pfs/x", O_RDWR | O_CREAT, M_UNIX, 0644);
  FAILS(EEXIST, _gopen("/pfs/x", O_RDWR | O_CREAT | O_EXCL, M_UNIX, 0644));
  FAILS(EISDIR, _gopen("/pfs", O_RDWR, M_UNIX, 0));
  FAILS(ENOTDIR, _gopen("/pfs/x/y", O_RDWR, M_UNIX, 0));
  write_only = gopen("/pfs/x", O_WRONLY, M_UNIX, 0);
  read_only = gopen("/pfs/x", O_RDONLY, M_UNIX, 0);
  closed = gopen("/pfs/x", O_RDONLY, M_UNIX, 0);
  IS(close(closed) == 0);

  /* Numbers that are no descriptors. */
  none[1] = closed;
  for (int at = 0; at < COUNT(none); at++) {
    FAILS(EPFSLBADF, close(none[at]));
    FAILS(EPFSLBADF, lseek(none[at], 0, SEEK_SET));
    FAILS(EPFSLBADF, _cread(none[at], buffer, 1));
    FAILS(EPFSLBADF, _cwrite(none[at], buffer, 1));
    FAILS(EPFSLBADF, _creadv(none[at], pieces, 1));
    FAILS(EPFSLBADF, _cwritev(none[at], pieces, 1));
    FAILS(EPFSLBADF, _iread(none[at], buffer, 1));
    FAILS(EPFSLBADF, _iwrite(none[at], buffer, 1));
    FAILS(EPFSLBADF, _ireadv(none[at], pieces, 1));
    FAILS(EPFSLBADF, _iwritev(none[at], pieces, 1));
    FAILS(EPFSLBADF, _iseof(none[at]));
    FAILS(EPFSLBADF, _iomode(none[at]));
    FAILS(EPFSLBADF, _setiomode(none[at], M_LOG));
    FAILS(EPFSLBADF, _lsize(none[at], 0, SIZE_SET));
    FAILS(EBADF, read(none[at], buffer, 1));
    FAILS(EBADF, write(none[at], buffer, 1));
    FAILS(EBADF, fsync(none[at]));
    FAILS(EBADF, ftruncate(none[at], 1));
    FAILS(EBADF, fcntl(none[at], F_GETFL));
  }
  FAILS(EPFSLBADF, _iomode(0)); /* open, but not a shared file */
  FAILS(EPFSLBADF, _setiomode(0, M_UNIX));

  /* Accesses that the open flags do not permit. */
  FAILS(EBADF, _cread(write_only, buffer, 1));
  FAILS(EBADF, _cwrite(read_only, buffer, 1));
  FAILS(EBADF, _iread(write_only, buffer, 1));
  FAILS(EBADF, _iwrite(read_only, buffer, 1));
  FAILS(EBADF, _lsize(read_only, 100, SIZE_SET));

  /* Null pointers and invalid sizes. */
  FAILS(EFAULT, _cread(fd, NULL, 1));
  FAILS(EFAULT, _cwrite(fd, NULL, 1));
  FAILS(EFAULT, _iread(fd, NULL, 1));
  FAILS(EFAULT, _iwrite(fd, NULL, 1));
  FAILS(EFAULT, _creadv(fd, NULL, 1));
  FAILS(EFAULT, _cwritev(fd, pieces, 2));
  FAILS(EFAULT, _ireadv(fd, pieces, 2));
  FAILS(EFAULT, _iwritev(fd, NULL, 1));
  FAILS(EFAULT, fstat(fd, NULL));
  IS(_cread(fd, NULL, 0) == 0 && _cwrite(fd, NULL, 0) == 0);
  IS(_creadv(fd, NULL, 0) == 0 && _cwritev(fd, NULL, 0) == 0);
  FAILS(EPFSLIOLEN, _cread(fd, buffer, (unsigned)-1));
  FAILS(EPFSLIOLEN, _cwrite(fd, buffer, 0x80000000u));
  FAILS(EPFSLIOLEN, _iread(fd, buffer, (unsigned)-1));
  FAILS(EPFSLIOLEN, _iwrite(fd, buffer, (unsigned)-5));
  FAILS(EPFSLIOLEN, _creadv(fd, huge, 1));
  FAILS(EPFSLIOLEN, _cwritev(fd, huge, 2));
  FAILS(EPFSLIOLEN, _ireadv(fd, huge, 2));
  FAILS(EPFSLIOLEN, _iwritev(fd, huge, 1));
  FAILS(EPFSLIOLEN, read(fd, buffer, (size_t)-1));
  FAILS(EPFSLIOLEN, write(fd, buffer, (size_t)1 << 40));
  FAILS(EPFSLINVAL, _creadv(fd, pieces, -1));
  FAILS(EPFSLINVAL, _cwritev(fd, pieces, 1025));
  FAILS(EPFSLINVAL, _ireadv(fd, pieces, -2147483647));
  FAILS(EPFSLINVAL, _iwritev(fd, pieces, 2147483647));

  /* Offsets outside of every file. */
  FAILS(EINVAL, lseek(fd, -1, SEEK_SET));
  FAILS(EINVAL, lseek(fd, -1, SEEK_CUR));
  FAILS(EINVAL, lseek(fd, 0, 17));
  FAILS(EINVAL, lseek(fd, 0x7fffffffffffffffL, SEEK_SET));
  FAILS(EPFSLINVAL, _lsize(fd, 0, 17));
  FAILS(EPFSLINVAL, _lsize(fd, 0x7fffffffffffffffL, SIZE_SET));
  FAILS(EPFSLINVAL, _lsize(fd, 0x7fffffffffffffffL, SIZE_END));
  FAILS(EINVAL, ftruncate(fd, -1));
  IS(lseek(fd, 1L << 62, SEEK_SET) == 1L << 62);
  FAILS(EPFSLINVAL, _cwrite(fd, buffer, 1));
  FAILS(EPFSLINVAL, _iwrite(fd, buffer, 1));
  IS(lseek(fd, 0, SEEK_CUR) == 1L << 62 && _lsize(fd, 0, SIZE_END) == 0);
  IS(lseek(fd, 0, SEEK_SET) == 0);
  FAILS(EPFSLINVAL, _setiomode(fd, 6));
  FAILS(EPFSLINVAL, _setiomode(fd, -1));
  IS(_iomode(fd) == M_UNIX);

  /* Ids of no request. */
  FAILS(EPFSLBADID, _iodone(-1));
  FAILS(EPFSLBADID, _iowait(-1));
  FAILS(EPFSLBADID, _iodone(1234567));
  FAILS(EPFSLBADID, _iowait(-9223372036854775807L));
  id = _iwrite(fd, buffer, 100);
  IS(id >= 0 && _iowait(id) == 0);
  FAILS(EPFSLBADID, _iowait(id));
  FAILS(EPFSLBADID, _iodone(id));

  /* Calls on shared files block. */
  FAILS(EPFSLNDELAY, fcntl(fd, F_SETFL, O_NONBLOCK));
  FAILS(EINVAL, fcntl(fd, 12345, 0));

  /* The limit of descriptors. */
  struct rlimit usual, limit;
  IS(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  limit = usual;
  limit.rlim_cur = 64;
  IS(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  int last = 0;
  while ((fd = _gopen("/pfs/x", O_RDONLY, M_UNIX, 0)) >= 0) last = fd;
  IS(errno == EPFSLMFILE && last > 0);
  FAILS(EPFSLMFILE, open("/pfs/x", O_RDONLY));
  IS(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  IS(close(last) == 0);
}

/* The limit of requests; a refused request leaves the pointer unchanged. */
static void requests(void) {
  enum { LIMIT = 20 };
  long ids[LIMIT], done = 0;
  int fd = gopen("/pfs/requests", O_RDWR | O_CREAT | O_TRUNC, M_UNIX, 0644);

  for (int at = 0; at < LIMIT; at++) IS((ids[at] = _iwrite(fd, buffer, 1000)) >= 0);
  FAILS(EPFSLMREQUEST, _iwrite(fd, buffer, 1000));
  FAILS(EQNOMID, _iread(fd, buffer, 1000));
  FAILS(EPFSLMREQUEST, _ireadv(fd, NULL, 0));
  FAILS(EPFSLMREQUEST, _iwritev(fd, NULL, 0));
  FAILS(EPFSLMREQUEST, _cread(fd, buffer, 1));
  FAILS(EPFSLMREQUEST, _cwrite(fd, buffer, 1));
  FAILS(EPFSLMREQUEST, _creadv(fd, NULL, 0));
  FAILS(EPFSLMREQUEST, _cwritev(fd, NULL, 0));
  IS(lseek(fd, 0, SEEK_CUR) == LIMIT * 1000);
  while ((done = _iodone(ids[7])) == 0) continue;
  IS(done == 1);
  FAILS(EPFSLBADID, _iodone(ids[7])); /* its id is free, so another request can start */
  IS((ids[7] = _iwrite(fd, buffer, 1000)) >= 0);
  FAILS(EPFSLMREQUEST, _iwrite(fd, buffer, 1000));
  for (int at = 0; at < LIMIT; at++) IS(_iowait(ids[at]) == 0);
  IS(_lsize(fd, 0, SIZE_END) == (LIMIT + 1) * 1000);
  IS(close(fd) == 0);
}

/* Two processes whose calls do not match: both get an error, and the file is unchanged. */
static void mixed(void) {
  long node = mynode();
  struct iovec piece = {buffer, 10};
  int fd = gopen("/pfs/mixed", O_RDWR | O_CREAT | O_TRUNC, M_SYNC, 0644);
  int other;

  cwrite(fd, buffer, 100);
  FAILS(EPFSLMIXIO, node == 0 ? _cread(fd, buffer, 10) : _cwrite(fd, buffer, 10));
  FAILS(EPFSLMIXIO, node == 0 ? _creadv(fd, &piece, 1) : _cwritev(fd, &piece, 1));
  FAILS(EPFSLMIXIO, lseek(fd, node, SEEK_SET));
  FAILS(EPFSLMIXIO, _setiomode(fd, node == 0 ? M_LOG : M_RECORD));
  FAILS(EPFSLMIXIO, node == 0 ? _setiomode(fd, M_LOG) : _cread(fd, buffer, 10));
  long id = node == 0 ? _iread(fd, buffer, 10) : _iwrite(fd, buffer, 10);
  IS(id >= 0);
  FAILS(EPFSLMIXIO, _iowait(id));
  id = node == 0 ? _ireadv(fd, &piece, 1) : _iwritev(fd, &piece, 1);
  IS(id >= 0);
  FAILS(EPFSLMIXIO, _iowait(id));
  IS(_iomode(fd) == M_SYNC);
  IS(lseek(fd, 0, SEEK_CUR) == 200);

  setiomode(fd, M_GLOBAL);
  FAILS(EPFSLMIXIO, _cwrite(fd, buffer, 10 + (unsigned)node));
  IS(lseek(fd, 0, SEEK_CUR) == 200);

  /* Private pointers must be at the same position. */
  setiomode(fd, M_UNIX);
  IS(lseek(fd, 10 * node, SEEK_SET) == 10 * node);
  FAILS(EPFSLMIXIO, _setiomode(fd, M_SYNC));
  IS(_iomode(fd) == M_UNIX && lseek(fd, 0, SEEK_CUR) == 10 * node);
  lseek(fd, 30, SEEK_SET);
  setiomode(fd, M_LOG);
  IS(lseek(fd, 0, SEEK_CUR) == 30);
  setiomode(fd, M_SYNC);

  /* The same for a file that each process opened by itself. */
  other = open("/pfs/mixed", O_RDWR);
  IS(other >= 0 && _iomode(other) == M_UNIX);
  lseek(other, node, SEEK_SET);
  FAILS(EPFSLMIXIO, _setiomode(other, M_SYNC));
  lseek(other, 5, SEEK_SET);
  setiomode(other, M_SYNC);
  IS(lseek(other, 0, SEEK_CUR) == 5);
  IS(close(other) == 0);

  /* A collective open needs the same arguments. */
  FAILS(EPFSLMIXIO, _gopen("/pfs/mixed", O_RDWR, node == 0 ? M_LOG : M_SYNC, 0));
  FAILS(EPFSLMIXIO, _gopen(node == 0 ? "/pfs/mixed" : "/pfs/other", O_RDWR, M_SYNC, 0));

  /* One process closes alone: its descriptor is closed, and the other one gets an error. */
  if (node == 0) {
    gsync();
    FAILS(EPFSLMIXIO, close(fd));
    FAILS(EPFSLBADF, close(fd));
  } else {
    long against = _iread(fd, buffer, 10), after = _iread(fd, buffer, 10);
    IS(against >= 0 && after >= 0 && (id = _iwrite(fd, buffer, 10)) >= 0);
    gsync();
    FAILS(EPFSLMIXIO, _iowait(against));
    FAILS(EPFSLCHLDEXIT, _iowait(after));
    while (errno = 0, _iodone(id) == 0) continue;
    IS(errno == EPFSLCHLDEXIT);
    FAILS(EPFSLMIXIO, _cread(fd, buffer, 10));
    FAILS(EPFSLMIXIO, close(fd));
  }
}

/* The second process is killed while the first one waits. */
static void gone(void) {
  int fd = gopen("/pfs/gone", O_RDWR | O_CREAT | O_TRUNC, M_SYNC, 0644);
  int log = gopen("/pfs/log", O_RDWR | O_CREAT | O_TRUNC, M_LOG, 0644);
  long id = -1, other = -1;

  if (mynode() == 0) IS((id = _iwrite(fd, buffer, 10)) >= 0 && (other = _iread(fd, buffer, 1)) >= 0);
  gsync();
  if (mynode() == 1) raise(SIGKILL);
  FAILS(EPFSLCHLDSIG, _iowait(id));
  while (errno = 0, _iodone(other) == 0) continue;
  IS(errno == EPFSLCHLDSIG);
  FAILS(EPFSLREMOTE, _cwrite(fd, buffer, 10));
  FAILS(EPFSLREMOTE, _cread(fd, buffer, 10));
  FAILS(EPFSLREMOTE, lseek(fd, 0, SEEK_SET));
  FAILS(EPFSLREMOTE, _setiomode(fd, M_LOG));
  FAILS(EPFSLREMOTE, _gopen("/pfs/gone", O_RDWR, M_SYNC, 0));
  pfslib_perror("gone");
  FAILS(EPFSLREMOTE, close(fd));
  IS(_cwrite(log, buffer, 10) == 10); /* an append needs no other process */
  FAILS(EPFSLREMOTE, close(log));
}

/* One process is far ahead of the other: its calls are refused in the end. */
static void ahead(void) {
  long id = -1;
  int fd = gopen("/pfs/ahead", O_RDWR | O_CREAT | O_TRUNC, M_SYNC, 0644);

  if (mynode() == 0) {
    for (int at = 0; at < 4097; at++) IS((id = _iwrite(fd, buffer, 1)) >= 0);
    FAILS(EPFSLBADID, _cwrite(fd, buffer, 1));
    FAILS(EPFSLBADID, _cread(fd, buffer, 1));
    gsync();
    say_and_wait("ahead");
    FAILS(EPFSLBADID, _iowait(id)); /* earlier requests fail when the other process ends */
  } else {
    gsync();
  }
}

/* The node restarts. */
static void restarted(void) {
  int fd = gopen("/pfs/restarted", O_RDWR | O_CREAT | O_TRUNC, M_LOG, 0644);
  int sync = gopen("/pfs/restarted", O_RDWR, M_SYNC, 0644);
  long id;

  cwrite(fd, buffer, 10);
  IS(lseek(sync, 0, SEEK_SET) == 0);
  say_and_wait("open");
  /* Until the library notices the restart. */
  while (_cwrite(fd, buffer, 10) >= 0) continue;
  FAILS(EPFSLBADFH, _cwrite(fd, buffer, 10));
  FAILS(EPFSLBADFH, _cread(fd, buffer, 10));
  FAILS(EPFSLBADFH, lseek(fd, 0, SEEK_SET));
  FAILS(EPFSLBADFH, _iseof(fd));
  FAILS(EPFSLBADFH, _lsize(fd, 0, SIZE_CUR));
  FAILS(EPFSLBADFH, _setiomode(fd, M_SYNC));
  /* A request is refused, or fails later: it depends on where the processes coordinate. */
  errno = 0;
  if ((id = _iwrite(fd, buffer, 10)) >= 0) FAILS(EPFSLBADFH, _iowait(id));
  IS(errno == EPFSLBADFH);
  errno = 0;
  if ((id = _iread(fd, buffer, 10)) >= 0)
    while (errno = 0, _iodone(id) == 0) continue;
  IS(errno == EPFSLBADFH);
  FAILS(EPFSLBADFH, lseek(sync, 0, SEEK_SET));
  FAILS(EPFSLBADFH, close(fd));
}

/* The node stops. */
static void down(void) {
  int fd = gopen("/pfs/down", O_RDWR | O_CREAT | O_TRUNC, M_ASYNC, 0644);
  int log = gopen("/pfs/down", O_RDWR, M_LOG, 0644);
  int append = gopen("/pfs/down", O_RDWR | O_APPEND, M_ASYNC, 0644);
  struct iovec piece = {buffer, 10};
  long id;

  cwrite(fd, buffer, 10);
  say_and_wait("open");
  FAILS(EPFSLNOIOD, _cwrite(fd, buffer, 10));
  pfslib_perror("moving");
  FAILS(EPFSLNOIOD, _cread(fd, buffer, 10));
  FAILS(EPFSLNOIOD, _cwritev(fd, &piece, 1));
  FAILS(EPFSLNOIOD, _creadv(fd, &piece, 1));
  FAILS(EPFSLNOIOD, _iread(fd, buffer, 10)); /* the end of the file is unknown */
  FAILS(EPFSLNOIOD, _ireadv(fd, &piece, 1));
  FAILS(EPFSLNOIOD, _iwrite(append, buffer, 10));
  FAILS(EPFSLNOIOD, _iwritev(append, &piece, 1));
  IS((id = _iwrite(fd, buffer, 10)) >= 0);
  FAILS(EPFSLREMOTE, _iowait(id));
  IS((id = _iwrite(fd, buffer, 10)) >= 0);
  while (errno = 0, _iodone(id) == 0) continue;
  IS(errno == EPFSLREMOTE);
  FAILS(EPFSLREMOTE, _lsize(fd, 100, SIZE_SET));
  FAILS(EPFSLREMOTE, _iseof(fd));
  FAILS(EPFSLREMOTE, lseek(log, 0, SEEK_SET));
  FAILS(EPFSLREMOTE, _setiomode(log, M_SYNC));
  FAILS(EPFSLREMOTE, _gopen("/pfs/down", O_RDWR, M_LOG, 0644));
  FAILS(EPFSLREMOTE, open("/pfs/down", O_RDWR));
  pfslib_perror("down");
  FAILS(EPFSLREMOTE, close(log));
}

/* The permission of an open file is withdrawn. */
static void forbidden(void) {
  if (geteuid() == 0) IS(setgid(65534) == 0 && setuid(65534) == 0);
  int fd = gopen("/pfs/mine", O_RDWR | O_CREAT | O_TRUNC, M_ASYNC, 0600);
  long id;

  FAILS(EACCES, _gopen("/pfs/theirs", O_RDWR, M_ASYNC, 0));
  FAILS(EACCES, open("/pfs/theirs", O_RDONLY));
  pfslib_perror("opening");
  cwrite(fd, buffer, 10);
  say_and_wait("open");
  lseek(fd, 0, SEEK_SET);
  FAILS(EPFSLAUTH, _cread(fd, buffer, 10));
  pfslib_perror("reading");
  FAILS(EPFSLAUTH, _cwrite(fd, buffer, 10));
  FAILS(EPFSLAUTH, _iread(fd, buffer, 10));
  IS((id = _iwrite(fd, buffer, 10)) >= 0);
  FAILS(EPFSLAUTH, _iowait(id));
  IS((id = _iwrite(fd, buffer, 10)) >= 0);
  while (errno = 0, _iodone(id) == 0) continue;
  IS(errno == EPFSLAUTH);
  FAILS(EPFSLAUTH, _lsize(fd, 100, SIZE_SET));
  FAILS(EPFSLAUTH, _iseof(fd));
  FAILS(EPFSLAUTH, lseek(fd, 0, SEEK_END));
  FAILS(EPFSLAUTH, close(fd));
}

/* A user whom the node refuses. */
static void stranger(void) {
  if (geteuid() == 0) IS(setgid(65534) == 0 && setuid(65534) == 0);
  FAILS(EPFSLREMOTE, _gopen("/pfs/x", O_RDWR | O_CREAT, M_ASYNC, 0600));
  FAILS(EPFSLREMOTE, open("/pfs/x", O_RDWR | O_CREAT, 0600));
  pfslib_perror("stranger");
}

/* Causes that follow the text of a number. */
static void causes(void) {
  int fd = gopen("/pfs/x", O_WRONLY | O_CREAT, M_UNIX, 0644);

  FAILS(ENOENT, open("/pfs/nothing", O_RDONLY));
  pfslib_perror("missing");
  FAILS(ENOENT, open("no/such/file", O_RDONLY));
  pfslib_perror("plain");
  FAILS(EEXIST, _gopen("/pfs/x", O_RDWR | O_CREAT | O_EXCL, M_UNIX, 0644));
  pfslib_perror("exists");
  FAILS(EFAULT, _cwrite(fd, NULL, 1));
  pfslib_perror("null");
  FAILS(EPFSLINVAL, _gopen("/pfs/x", O_RDWR, 6, 0));
  pfslib_perror("mode");
  FAILS(EINVAL, lseek(fd, -1, SEEK_SET));
  pfslib_perror("seek");
  FAILS(EINVAL, ftruncate(fd, -1));
  pfslib_perror("length");
  FAILS(EBADF, _cread(fd, buffer, 1));
  pfslib_perror("access");
  FAILS(EPFSLIOLEN, _cwrite(fd, buffer, (unsigned)-1));
  pfslib_perror("long");
  FAILS(EINVAL, lockf(fd, 99, 1));
  pfslib_perror("locked");
  errno = ENOENT; /* not the error of the last call */
  pfslib_perror("other");
  IS(close(fd) == 0);
}

/* A full disk. */
static void full(void) {
  int fd = gopen("/pfs/full", O_RDWR | O_CREAT | O_TRUNC, M_UNIX, 0644);
  while (_cwrite(fd, buffer, sizeof buffer) == sizeof buffer) continue;
  IS(errno == ENOSPC);
  pfslib_perror("full");
  IS(unlink("/pfs/full") == 0);
}

/* Forms that end the process: each call has an error. */
static void plain(const char *name) {
  struct iovec piece = {buffer, 10};
  int short_file = gopen("/pfs/short", O_RDWR | O_CREAT, M_UNIX, 0644);
  int full = open("full", O_RDWR | O_CREAT | O_TRUNC, 0644);
  struct rlimit limit = {100, 100};

  signal(SIGXFSZ, SIG_IGN);
  IS(full >= 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
  errno = 0;
  if (strcmp(name, "cread") == 0) cread(short_file, buffer, 10);
  if (strcmp(name, "creadv") == 0) creadv(short_file, &piece, 1);
  if (strcmp(name, "cwrite") == 0) cwrite(full, buffer, 200);
  if (strcmp(name, "cwritev") == 0) cwritev(-1, &piece, 1);
  if (strcmp(name, "iread") == 0) iread(-1, buffer, 10);
  if (strcmp(name, "ireadv") == 0) ireadv(-1, &piece, 1);
  if (strcmp(name, "iwrite") == 0) iwrite(-1, buffer, 10);
  if (strcmp(name, "iwritev") == 0) iwritev(-1, &piece, 1);
  if (strcmp(name, "iodone") == 0) iodone(-1);
  if (strcmp(name, "iowait") == 0) iowait(-1);
  if (strcmp(name, "iseof") == 0) iseof(-1);
  if (strcmp(name, "iomode") == 0) iomode(-1);
  if (strcmp(name, "setiomode") == 0) setiomode(-1, M_LOG);
  if (strcmp(name, "lsize") == 0) lsize(-1, 0, SIZE_SET);
  if (strcmp(name, "gopen") == 0) gopen("/pfs/nothing", O_RDONLY, M_LOG, 0);
  printf("%s went on\n", name);
}

/* Invalid ranks and sizes. */
static void init(const char *host, int size, int rank) {
  pfslib_init(host, size, rank);
  int fd = _gopen("/pfs/init", O_RDWR | O_CREAT, M_LOG, 0644);
  if (fd < 0) {
    int error = errno;
    pfslib_perror("init");
    exit(error == EPFSLINVAL ? 4 : 5);
  }
  say_and_wait("open");
  IS(close(fd) == 0);
}

/* The text of each error. */
static void texts(void) {
  for (int number = EPFSLFIRST + 1; number <= EPFSLFORK + 1; number++) {
    errno = number;
    pfslib_perror("text");
  }
  errno = ENOENT;
  pfslib_perror("text");
  errno = EACCES;
  pfslib_perror(NULL);
}

/* A forked process cannot use its parent's files, and does not disturb the parent. */
static void forked(void) {
  int status, fd = gopen("/pfs/forked", O_RDWR | O_CREAT | O_TRUNC, M_LOG, 0644);
  long id = iwrite(fd, buffer, 10);

  pid_t child = fork();
  IS(child >= 0);
  if (child == 0) {
    FAILS(EPFSLFORK, _cwrite(fd, buffer, 10));
    FAILS(EPFSLFORK, write(fd, buffer, 10));
    FAILS(EPFSLFORK, _iowait(id));
    FAILS(EPFSLFORK, lseek(fd, 0, SEEK_SET));
    FAILS(EPFSLFORK, _gopen("/pfs/forked", O_RDONLY, M_LOG, 0));
    IS(write(2, "", 0) == 0); /* plain files still work */
    IS(close(fd) == 0);
    exit(0);
  }
  IS(waitpid(child, &status, 0) == child && status == 0);
  iowait(id);
  cwrite(fd, buffer, 10);
  IS(lsize(fd, 0, SIZE_END) == 20);
  IS(close(fd) == 0);
}

int main(int count, char **arguments_given) {
  const char *part = count > 1 ? arguments_given[1] : "";
  if (strcmp(part, "arguments") == 0) arguments();
  else if (strcmp(part, "requests") == 0) requests();
  else if (strcmp(part, "mixed") == 0) mixed();
  else if (strcmp(part, "gone") == 0) gone();
  else if (strcmp(part, "ahead") == 0) ahead();
  else if (strcmp(part, "restarted") == 0) restarted();
  else if (strcmp(part, "down") == 0) down();
  else if (strcmp(part, "forbidden") == 0) forbidden();
  else if (strcmp(part, "stranger") == 0) stranger();
  else if (strcmp(part, "causes") == 0) causes();
  else if (strcmp(part, "full") == 0) full();
  else if (strcmp(part, "plain") == 0 && count == 3) plain(arguments_given[2]);
  else if (strcmp(part, "init") == 0 && count == 5)
    init(arguments_given[2], atoi(arguments_given[3]), atoi(arguments_given[4]));
  else if (strcmp(part, "texts") == 0) texts();
  else if (strcmp(part, "forked") == 0) forked();
  else return 2;
  return 0;
}
