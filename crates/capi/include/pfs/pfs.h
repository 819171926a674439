/*
 * The Paragon's header of its parallel file system: which kind of file system has a file, and how
 * files are striped over disks. nx.h includes it.
 *
 * Disks have numbers from 0 on, in the order in which `pario df` lists them. A file begins on one
 * disk and goes on with the disks that follow; disk 0 follows the last one.
 */
#ifndef PARIO_PFS_PFS_H
#define PARIO_PFS_PFS_H

#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif

/* Commands of fcntl on shared files: numbers that Linux does not use. */
#define F_GETSATTR 0x50460001    /* struct sattr *: returns the striping */
#define F_SETSATTR 0x50460002    /* struct sattr *: sets the striping of an empty file */
#define F_PFS_SVR_BUF 0x50460003 /* TRUE or FALSE: buffers of the nodes; FALSE is refused */

/* The striping of a file. */
struct sattr {
  int s_sunitsize;  /* bytes of a unit, which lie on one disk */
  int s_sfactor;    /* the number of disks */
  int s_start_sdir; /* the first disk */
};

/* Values of f_type. */
#define MOUNT_UFS 1  /* a file system of this machine */
#define MOUNT_NFS 2  /* a file system that another machine serves by NFS */
#define MOUNT_PFS 19 /* the cluster: shared files */

/* A file system. Sizes are in blocks of 1024 bytes. */
struct estatfs {
  int f_type;
  int f_bsize;
  long f_blocks;
  long f_bfree;
  long f_bavail;
  long f_files; /* 0: no limit */
  long f_ffree;
};

/* The striping of a file, or of new files in a directory; zeros for plain files. */
struct statpfs {
  unsigned int p_reclen; /* bytes of this structure */
  unsigned int p_sunitsize;
  unsigned int p_sfactor;
  unsigned int p_start_sdir;
};

/* Programs allocate so many bytes beside a struct statpfs, for names of stripe directories. */
#define SDIRS_INIT_SIZE 0

#ifdef __cplusplus
extern "C" {
#endif

/* Striping may be NULL; otherwise NBytes is the size of its memory. */
int statpfs(const char *FileName, struct estatfs *FileSystem, struct statpfs *Striping, int NBytes);

#ifdef __cplusplus
}
#endif

#endif
