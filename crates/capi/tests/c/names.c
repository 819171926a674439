/*
 * Calls by name: on shared files, on plain files, and with invalid arguments. The first argument
 * selects the part; the second one is a directory for plain files.
 */
#define _GNU_SOURCE
#include <nx.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "expect.h"

static int exists(const char *name) { return access(name, F_OK) == 0; }

/* Creates a file with some bytes. */
static void make(const char *name, const char *content) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0640);
  IS(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content) && close(fd) == 0);
}

/* Returns the names in a directory, in order, each with a letter for its type. */
static void list(DIR *stream, char *to) {
  struct dirent *entry;
  *to = 0;
  errno = 0;
  while ((entry = readdir(stream)) != NULL) {
    IS(entry->d_ino != 0);
    to += sprintf(to, "%s%c ", entry->d_name, entry->d_type == DT_DIR ? '/' : '.');
  }
  IS(errno == 0);
}

/* The life of files and directories below a directory, the same for shared and for plain ones. */
static void life(const char *root) {
  char before[4096], dir[300], a[320], b[320], below[320], names[1000];
  struct stat status, again;
  struct statx extended;
  struct statvfs space;
  struct statfs system;
  struct timespec times[2] = {{0, UTIME_OMIT}, {1000000000, 500000000}};
  struct timeval old[2] = {{1, 0}, {900000000, 250000}};
  struct utimbuf older = {1, 800000000};
  DIR *stream;
  long second;
  int fd, at;

  sprintf(dir, "%s/life", root);
  sprintf(a, "%s/a", dir);
  sprintf(b, "%s/b", dir);
  sprintf(below, "%s/below", dir);

  /* Nothing is there. */
  FAILS(ENOENT, access(a, F_OK));
  FAILS(ENOENT, stat(a, &status));
  FAILS(ENOENT, lstat(a, &status));
  FAILS(ENOENT, truncate(a, 1));
  FAILS(ENOENT, unlink(a));
  FAILS(ENOENT, remove(a));
  FAILS(ENOENT, rmdir(dir));
  FAILS(ENOENT, chmod(a, 0600));
  FAILS(ENOENT, rename(a, b));
  FAILS(ENOENT, mkdir(below, 0700));
  FAILS(ENOENT, utime(a, &older));
  FAILS(ENOENT, statvfs(a, &space));
  FAILS(ENOENT, statfs(a, &system));
  errno = 0;
  IS(opendir(dir) == NULL && errno == ENOENT);

  /* Directories and files. */
  umask(022);
  IS(mkdir(dir, 0777) == 0 && exists(dir) && !exists(a));
  FAILS(EEXIST, mkdir(dir, 0777));
  IS(stat(dir, &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & 07777) == 0755);
  make(a, "twelve bytes");
  IS(stat(a, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 07777) == 0640);
  IS(status.st_size == 12 && status.st_uid == geteuid() && status.st_nlink == 1);
  IS(lstat(a, &again) == 0 && again.st_ino == status.st_ino && again.st_dev == status.st_dev);
  IS(fstatat(AT_FDCWD, a, &again, 0) == 0 && again.st_ino == status.st_ino);
  IS(statx(AT_FDCWD, a, 0, STATX_BASIC_STATS, &extended) == 0 && extended.stx_size == 12);
  IS(extended.stx_ino == status.st_ino && S_ISREG(extended.stx_mode));
  IS(access(a, R_OK | W_OK) == 0 && access(dir, R_OK | W_OK | X_OK) == 0);
  FAILS(EACCES, access(a, X_OK));
  IS(faccessat(AT_FDCWD, a, R_OK, AT_EACCESS) == 0);
  FAILS(EINVAL, access(a, 8));
  FAILS(ENOTDIR, mkdir(strcat(strcpy(names, a), "/x"), 0700));
  FAILS(ENOTDIR, stat(names, &status));
  FAILS(ENOTDIR, rmdir(a));
  FAILS(EISDIR, unlink(dir));
  FAILS(EISDIR, truncate(dir, 1));

  /* Sizes, permissions and times. */
  IS(truncate(a, 5) == 0 && stat(a, &status) == 0 && status.st_size == 5);
  IS(truncate(a, 100000) == 0 && stat(a, &status) == 0 && status.st_size == 100000);
  FAILS(EINVAL, truncate(a, -1));
  IS(chmod(a, 0600) == 0 && stat(a, &status) == 0 && (status.st_mode & 07777) == 0600);
  IS(fchmodat(AT_FDCWD, a, 0444, 0) == 0 && stat(a, &status) == 0);
  IS((status.st_mode & 07777) == 0444 && chmod(a, 0644) == 0);
  IS(chown(a, (uid_t)-1, (gid_t)-1) == 0 && chown(a, geteuid(), getegid()) == 0);
  IS(utimensat(AT_FDCWD, a, times, 0) == 0 && stat(a, &status) == 0);
  IS(status.st_mtim.tv_sec == 1000000000 && status.st_mtim.tv_nsec == 500000000);
  times[1].tv_nsec = UTIME_OMIT;
  IS(utimensat(AT_FDCWD, a, times, 0) == 0 && stat(a, &again) == 0);
  IS(again.st_mtim.tv_sec == 1000000000 && again.st_mtim.tv_nsec == 500000000);
  IS(utimes(a, old) == 0 && stat(a, &status) == 0);
  IS(status.st_mtim.tv_sec == 900000000 && status.st_mtim.tv_nsec == 250000000);
  IS(utime(a, &older) == 0 && stat(a, &status) == 0 && status.st_mtime == 800000000);
  IS(utime(dir, &older) == 0 && stat(dir, &status) == 0 && status.st_mtime == 800000000);
  IS(utimes(a, NULL) == 0 && stat(a, &status) == 0 && status.st_mtime > 1700000000);
  times[1].tv_nsec = 1000000000;
  FAILS(EINVAL, utimensat(AT_FDCWD, a, times, 0));
  old[0].tv_usec = 1000000;
  FAILS(EINVAL, utimes(a, old));
  fd = open(a, O_RDWR);
  times[1].tv_nsec = 7;
  IS(fchmod(fd, 0640) == 0 && fchown(fd, (uid_t)-1, (gid_t)-1) == 0 && futimens(fd, times) == 0);
  IS(fstat(fd, &status) == 0 && (status.st_mode & 07777) == 0640);
  IS(status.st_mtim.tv_sec == 1000000000 && status.st_mtim.tv_nsec == 7);
  IS(fstatat(fd, "", &again, AT_EMPTY_PATH) == 0 && again.st_ino == status.st_ino);
  IS(fstatvfs(fd, &space) == 0 && space.f_blocks > 0 && fstatfs(fd, &system) == 0);
  FAILS(ENOTDIR, fstatat(fd, "x", &again, 0));
  errno = 0;
  IS(fdopendir(fd) == NULL && errno == ENOTDIR && close(fd) == 0);

  /* Renaming. */
  make(b, "b");
  IS(rename(a, b) == 0 && !exists(a) && stat(b, &status) == 0 && status.st_size == 100000);
  IS(rename(b, b) == 0 && mkdir(below, 0700) == 0);
  FAILS(EISDIR, rename(b, below));
  FAILS(ENOTDIR, rename(below, b));
  FAILS(EINVAL, rename(dir, strcat(strcpy(names, below), "/x")));
  FAILS(ENOTEMPTY, rmdir(dir));
  FAILS(ENOTEMPTY, remove(dir));

  /* Directory streams. */
  stream = opendir(dir);
  IS(stream != NULL && (fd = dirfd(stream)) >= 0);
  list(stream, names);
  IS(strstr(names, "./ ") && strstr(names, "../ ") && strstr(names, "b. ") && strstr(names, "below/ "));
  IS(strlen(names) == strlen("./ ../ b. below/ "));
  IS(readdir(stream) == NULL);
  rewinddir(stream);
  IS(readdir(stream) != NULL && readdir(stream) != NULL);
  second = telldir(stream);
  IS(readdir(stream) != NULL && readdir(stream) != NULL && readdir(stream) == NULL);
  seekdir(stream, second);
  IS(readdir(stream) != NULL && readdir(stream) != NULL && readdir(stream) == NULL);

  /* The working directory. */
  IS(getcwd(before, sizeof before) != NULL && chdir(dir) == 0);
  IS(getcwd(names, sizeof names) == names && strcmp(names, dir) == 0);
  IS(exists("b") && exists("below") && !exists("a") && stat("../life/b", &status) == 0);
  FAILS(ENOTDIR, chdir("b"));
  FAILS(ENOENT, chdir("nothing"));
  errno = 0;
  IS(getcwd(names, strlen(dir)) == NULL && errno == ERANGE);
  IS(chdir("below") == 0 && chdir("..") == 0 && exists("b") && fchdir(fd) == 0 && exists("b"));
  char *allocated = getcwd(NULL, 0);
  IS(allocated != NULL && strcmp(allocated, dir) == 0);
  free(allocated);
  IS(chdir(before) == 0 && !exists("b") && getcwd(names, sizeof names) != NULL);
  IS(strcmp(names, before) == 0);

  /* Names relative to a directory. */
  IS(fstat(fd, &status) == 0 && S_ISDIR(status.st_mode));
  IS(fstatat(fd, "b", &status, 0) == 0 && status.st_size == 100000);
  IS(faccessat(fd, "b", R_OK, 0) == 0 && renameat(fd, "b", fd, "c") == 0);
  at = openat(fd, "c", O_RDONLY);
  IS(at >= 0 && close(at) == 0);
  at = openat(fd, "below", O_RDONLY | O_DIRECTORY);
  IS(at >= 0 && mkdirat(at, "deep", 0700) == 0 && unlinkat(at, "deep", AT_REMOVEDIR) == 0);
  IS(unlinkat(at, "../c", 0) == 0 && fsync(at) == 0);
  FAILS(EISDIR, read(at, names, 1));
  IS(closedir(stream) == 0);
  stream = fdopendir(at);
  list(stream, names);
  IS(strlen(names) == strlen("./ ../ ") && closedir(stream) == 0);
  FAILS(EBADF, fstat(fd, &status));
  FAILS(EBADF, fstat(at, &status));
  FAILS(ENOTDIR, open(strcat(strcpy(names, root), "/file"), O_RDONLY | O_DIRECTORY));
  FAILS(EISDIR, open(dir, O_WRONLY));
  at = open(dir, O_RDONLY);
  IS(at >= 0 && close(at) == 0);

  IS(statvfs(dir, &space) == 0 && space.f_bavail > 0 && space.f_bavail <= space.f_blocks);
  IS(statfs(dir, &system) == 0 && system.f_blocks > 0);
  IS(rmdir(below) == 0 && remove(dir) == 0 && !exists(dir));
}

/* A file that gopen created can have any name, and calls by name find it. */
static void any_name(const char *root) {
  char name[300], other[300];
  struct stat status;
  sprintf(name, "%s/anything", root);
  sprintf(other, "%s/other", root);
  int fd = gopen(name, O_RDWR | O_CREAT, M_UNIX, 0644);
  cwrite(fd, "1234", 4);
  IS(close(fd) == 0 && exists(name) && stat(name, &status) == 0 && status.st_size == 4);
  IS(truncate(name, 2) == 0 && stat(name, &status) == 0 && status.st_size == 2);
  IS(rename(name, other) == 0 && !exists(name) && unlink(other) == 0 && !exists(other));
}

/* A file does not move between the cluster and the system. */
static void crossing(const char *root) {
  char plain[300];
  sprintf(plain, "%s/plain", root);
  make(plain, "x");
  make("/pfs/shared", "x");
  FAILS(EXDEV, rename(plain, "/pfs/moved"));
  FAILS(EXDEV, rename("/pfs/shared", plain));
  pfslib_perror("crossing");
  IS(exists(plain) && exists("/pfs/shared") && !exists("/pfs/moved"));
}

/* Wild arguments. */
static void arguments(void) {
  char longer[5000];
  struct stat status;
  struct timespec times[2] = {{0, 0}, {-1, 0}};
  int none[] = {-1, 999, 1 << 24};

  memset(longer, 'x', sizeof longer);
  memcpy(longer, "/pfs/", 5);
  longer[sizeof longer - 1] = 0;
  make("/pfs/file", "x");

  FAILS(EFAULT, access(NULL, F_OK));
  FAILS(EFAULT, stat(NULL, &status));
  FAILS(EFAULT, stat("/pfs/file", NULL));
  FAILS(EFAULT, pario_statx(AT_FDCWD, "/pfs/file", 0, 0, NULL));
  FAILS(EFAULT, truncate(NULL, 0));
  FAILS(EFAULT, mkdir(NULL, 0));
  FAILS(EFAULT, rmdir(NULL));
  FAILS(EFAULT, unlink(NULL));
  FAILS(EFAULT, remove(NULL));
  FAILS(EFAULT, rename(NULL, "/pfs/x"));
  FAILS(EFAULT, rename("/pfs/file", NULL));
  FAILS(EFAULT, chmod(NULL, 0));
  FAILS(EFAULT, chown(NULL, 0, 0));
  FAILS(EFAULT, utime(NULL, NULL));
  FAILS(EFAULT, statvfs("/pfs/file", NULL));
  FAILS(EFAULT, statfs("/pfs/file", NULL));
  errno = 0;
  IS(opendir(NULL) == NULL && errno == EFAULT);
  errno = 0;
  IS(opendir("/pfs/file") == NULL && errno == ENOTDIR);

  FAILS(ENOENT, access("", F_OK));
  FAILS(ENOENT, stat("", &status));
  FAILS(ENOENT, mkdir("", 0));
  FAILS(ENAMETOOLONG, access(longer, F_OK));
  FAILS(ENAMETOOLONG, stat(longer, &status));
  FAILS(ENAMETOOLONG, mkdir(longer, 0));
  FAILS(ENAMETOOLONG, rename("/pfs/file", longer));
  FAILS(EPFSLINVAL, stat("/pfs/\xff", &status));
  FAILS(ENOENT, stat("/nowhere/\xff", &status));
  FAILS(EPFSLINVAL, mkdir("/pfs/line\nbreak", 0));

  FAILS(EINVAL, faccessat(AT_FDCWD, "/pfs/file", F_OK, 0x8000));
  FAILS(EINVAL, fstatat(AT_FDCWD, "/pfs/file", &status, 0x8000));
  FAILS(EINVAL, unlinkat(AT_FDCWD, "/pfs/file", 0x8000));
  FAILS(EINVAL, fchmodat(AT_FDCWD, "/pfs/file", 0, 0x8000));
  FAILS(EINVAL, fchownat(AT_FDCWD, "/pfs/file", 0, 0, 0x8000));
  FAILS(EINVAL, utimensat(AT_FDCWD, "/pfs/file", times, 0x8000));
  FAILS(EINVAL, utimensat(AT_FDCWD, "/pfs/file", times, 0));
  FAILS(EINVAL, access("/pfs/file", -1));
  FAILS(EPFSLINVAL, open("/pfs/file", O_RDONLY | O_PATH));

  for (int at = 0; at < 3; at++) {
    FAILS(EBADF, fstatat(none[at], "x", &status, 0));
    FAILS(EBADF, openat(none[at], "x", O_RDONLY));
    FAILS(EBADF, mkdirat(none[at], "x", 0700));
    FAILS(EBADF, unlinkat(none[at], "x", 0));
    FAILS(EBADF, faccessat(none[at], "x", F_OK, 0));
    FAILS(EBADF, fchmod(none[at], 0));
    FAILS(EBADF, fchown(none[at], 0, 0));
    FAILS(EBADF, futimens(none[at], NULL));
    FAILS(EBADF, pario_fstatvfs(none[at], NULL));
    errno = 0;
    IS(fdopendir(none[at]) == NULL && errno == EBADF);
  }
  FAILS(EBUSY, rmdir("/pfs/.."));
  FAILS(EEXIST, mkdir("/pfs/..", 0700));
  IS(exists("/pfs/file"));
}

/* A descriptor of a file that was renamed does not change the file that has the name now. */
static void renamed(void) {
  struct stat status;
  make("/pfs/one", "1");
  make("/pfs/two", "22");
  int fd = open("/pfs/one", O_RDWR);
  IS(fd >= 0 && rename("/pfs/two", "/pfs/one") == 0);
  FAILS(ENOENT, fchmod(fd, 0600));
  IS(stat("/pfs/one", &status) == 0 && (status.st_mode & 07777) == 0640 && status.st_size == 2);
  IS(fstat(fd, &status) == 0 && status.st_size == 1 && close(fd) == 0);
}

/* Two descriptors of one file share its pointer, and the last close closes it. */
static void duplicates(const char *name) {
  char byte;
  struct stat status;
  int fd = open(name, O_RDWR | O_CREAT, 0644), second, third, plain = open("/dev/null", O_RDONLY);
  IS(write(fd, "abcd", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0);
  second = dup(fd);
  third = fcntl(fd, F_DUPFD, 50);
  IS(second >= 0 && second != fd && third >= 50 && dup2(fd, fd) == fd);
  IS(read(fd, &byte, 1) == 1 && byte == 'a' && read(second, &byte, 1) == 1 && byte == 'b');
  IS(close(fd) == 0 && read(third, &byte, 1) == 1 && byte == 'c');
  FAILS(EBADF, read(fd, &byte, 1));
  IS(dup2(third, plain) == plain && read(plain, &byte, 1) == 1 && byte == 'd');
  IS(close(third) == 0 && close(second) == 0 && fstat(plain, &status) == 0 && status.st_size == 4);
  fd = open("/dev/null", O_RDONLY);
  IS(dup2(fd, plain) == plain && read(plain, &byte, 1) == 0 && close(fd) == 0);
  IS(close(plain) == 0 && unlink(name) == 0);
  FAILS(EBADF, dup(plain));
  FAILS(EBADF, dup2(plain, 60));
  fd = open(name, O_RDWR | O_CREAT, 0644);
  FAILS(EBADF, dup2(fd, -1));
  FAILS(EBADF, dup2(fd, 1 << 24));
  FAILS(EINVAL, dup3(fd, 60, 0x8000));
  FAILS(EINVAL, dup3(fd, fd, 0));
  IS(close(fd) == 0);
}

/* What belongs to another user. */
static void theirs(void) {
  struct stat status;
  struct utimbuf times = {1, 1};
  if (geteuid() == 0) IS(setgid(65534) == 0 && setuid(65534) == 0);
  IS(stat("/pfs/theirs", &status) == 0 && access("/pfs/theirs", R_OK) == 0);
  FAILS(EACCES, access("/pfs/theirs", W_OK));
  pfslib_perror("writing");
  FAILS(EPERM, chmod("/pfs/theirs", 0666));
  FAILS(EPERM, chown("/pfs/theirs", 65534, (gid_t)-1));
  FAILS(EPERM, utime("/pfs/closed", &times));
  FAILS(EACCES, utime("/pfs/theirs", &times));
  FAILS(EACCES, truncate("/pfs/theirs", 0));
  FAILS(EACCES, unlink("/pfs/theirs"));
  FAILS(EACCES, rename("/pfs/theirs", "/pfs/mine"));
  FAILS(EACCES, mkdir("/pfs/mine", 0700));
  FAILS(EACCES, rmdir("/pfs/closed"));
  FAILS(EACCES, stat("/pfs/closed/x", &status));
  FAILS(EACCES, access("/pfs/closed", R_OK));
  FAILS(EACCES, chdir("/pfs/closed"));
  errno = 0;
  IS(opendir("/pfs/closed") == NULL && errno == EACCES);
}

int main(int count, char **arguments_given) {
  IS(count > 2);
  const char *part = arguments_given[1], *root = arguments_given[2];
  if (strcmp(part, "shared") == 0) {
    make("/pfs/file", "x");
    life("/pfs");
    renamed();
    duplicates("/pfs/duplicates");
  }
  if (strcmp(part, "plain") == 0) {
    char name[300];
    sprintf(name, "%s/file", root);
    make(name, "x");
    life(root);
    sprintf(name, "%s/duplicates", root);
    duplicates(name);
  }
  if (strcmp(part, "any") == 0) any_name(root);
  if (strcmp(part, "crossing") == 0) crossing(root);
  if (strcmp(part, "arguments") == 0) arguments();
  if (strcmp(part, "theirs") == 0) theirs();
  if (strcmp(part, "unix") == 0) {
    int fd;
    FAILS(ENOENT, _gopen(root, O_RDONLY, M_UNIX, 0));
    pfslib_perror("gopen");
    FAILS(ENOENT, open(root, O_RDONLY));
    pfslib_perror("open");
    FAILS(ENOENT, _gopen("/pfs/nowhere", O_RDONLY, M_UNIX, 0));
    pfslib_perror("neither");
    fd = gopen(root, O_RDONLY, M_UNIX, 0);
    (void)fd;
  }
  return 0;
}
