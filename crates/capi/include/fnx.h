! For Fortran programs, in fixed or free form: include 'fnx.h'
! The first argument of the calls on files is a unit that gopen or OPEN has connected.
      integer SEEK_SET, SEEK_CUR, SEEK_END
      parameter (SEEK_SET = 0, SEEK_CUR = 1, SEEK_END = 2)
      integer SIZE_SET, SIZE_CUR, SIZE_END
      parameter (SIZE_SET = 0, SIZE_CUR = 1, SIZE_END = 2)
      integer M_UNIX, M_LOG, M_SYNC, M_RECORD, M_GLOBAL, M_ASYNC
      parameter (M_UNIX = 0, M_LOG = 1, M_SYNC = 2, M_RECORD = 3)
      parameter (M_GLOBAL = 4, M_ASYNC = 5)
      integer mynode, numnodes
      external mynode, numnodes, gsync, gisum, gdsum
      double precision dclock
      external dclock
      integer lseek, lsize, iomode, iseof, iread, iwrite, iodone
      external lseek, lsize, iomode, iseof, iread, iwrite, iodone
      external gopen, gclose, cread, cwrite, iowait, setiomode
