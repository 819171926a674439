! For Fortran programs, in fixed or free form: include 'fnx.h'
      integer SEEK_SET, SEEK_CUR, SEEK_END
      parameter (SEEK_SET = 0, SEEK_CUR = 1, SEEK_END = 2)
      integer mynode, numnodes
      external mynode, numnodes, gsync, gisum, gdsum
      double precision dclock
      external dclock
