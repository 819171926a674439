! Cached files for Fortran 90 and later: compile this file with the program, and `use
! donio_interface`. The calls are those of donio.h. Calls that end with 64 take eight-byte offsets
! and sizes. A name ends with c_null_char.
module donio_interface
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int64_t, c_ptr
  implicit none

  integer(c_int), parameter :: do_rdonly = 0, do_wronly = 1, do_rdwr = 2, do_creat = 512
  integer(c_int), parameter :: do_append = 1024, do_replace = 268435456
  integer(c_int), parameter :: do_seek_set = 0, do_seek_cur = 1, do_seek_end = 2

  interface
    integer(c_int) function do_nio(myid, nproc) bind(C, name='do_nio')
      import :: c_int
      integer(c_int), value :: myid, nproc
    end function do_nio

    integer(c_int) function do_open(path, flags, mode) bind(C, name='do_open')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: flags, mode
    end function do_open

    integer(c_int) function do_open_within(path, flags, mode, memory) &
        bind(C, name='do_open_within')
      import :: c_int, c_int64_t, c_char
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: flags, mode
      integer(c_int64_t), value :: memory
    end function do_open_within

    integer(c_int) function do_lsize(fd, nbytes) bind(C, name='do_lsize')
      import :: c_int
      integer(c_int), value :: fd, nbytes
    end function do_lsize

    integer(c_int64_t) function do_lsize64(fd, nbytes) bind(C, name='do_lsize64')
      import :: c_int, c_int64_t
      integer(c_int), value :: fd
      integer(c_int64_t), value :: nbytes
    end function do_lsize64

    integer(c_int) function do_lseek(fd, offset, whence) bind(C, name='do_lseek')
      import :: c_int
      integer(c_int), value :: fd, offset, whence
    end function do_lseek

    integer(c_int64_t) function do_lseek64(fd, offset, whence) bind(C, name='do_lseek64')
      import :: c_int, c_int64_t
      integer(c_int), value :: fd, whence
      integer(c_int64_t), value :: offset
    end function do_lseek64

    ! The buffer is an address: c_loc(array).
    integer(c_int) function do_read(fd, buf, nbytes) bind(C, name='do_read')
      import :: c_int, c_ptr
      integer(c_int), value :: fd, nbytes
      type(c_ptr), value :: buf
    end function do_read

    integer(c_int64_t) function do_read64(fd, buf, nbytes) bind(C, name='do_read64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: fd
      type(c_ptr), value :: buf
      integer(c_int64_t), value :: nbytes
    end function do_read64

    integer(c_int) function do_write(fd, buf, nbytes) bind(C, name='do_write')
      import :: c_int, c_ptr
      integer(c_int), value :: fd, nbytes
      type(c_ptr), value :: buf
    end function do_write

    integer(c_int64_t) function do_write64(fd, buf, nbytes) bind(C, name='do_write64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: fd
      type(c_ptr), value :: buf
      integer(c_int64_t), value :: nbytes
    end function do_write64

    integer(c_int) function do_flush(fd) bind(C, name='do_flush')
      import :: c_int
      integer(c_int), value :: fd
    end function do_flush

    integer(c_int) function do_close(fd) bind(C, name='do_close')
      import :: c_int
      integer(c_int), value :: fd
    end function do_close

    integer(c_int) function do_barrier() bind(C, name='do_barrier')
      import :: c_int
    end function do_barrier
  end interface
end module donio_interface
