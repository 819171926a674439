! Calls through the module: eight-byte sizes, and errors as results.
program module_test
  use, intrinsic :: iso_c_binding
  use donio_interface
  implicit none
  integer(c_int), external :: mynode, numnodes
  integer(c_int) :: fd, me, n
  integer(c_int64_t) :: far
  real(c_double), target :: own(1000), theirs(1000)
  character(len=500) :: path

  me = mynode()
  n = numnodes()
  call get_command_argument(1, path)
  if (do_nio(me, n) /= 0) stop 1
  if (do_open('/nowhere/x'//c_null_char, do_rdonly, 0) /= -1) stop 2
  fd = do_open(trim(path)//c_null_char, ior(do_rdwr, do_creat), 420)
  if (fd < 0) stop 3
  far = 3000000000_c_int64_t
  if (do_lsize64(fd, far + 8000_c_int64_t*n) < 0) stop 4
  own = me + 1
  if (do_lseek64(fd, far + 8000_c_int64_t*me, do_seek_set) /= far + 8000_c_int64_t*me) stop 5
  if (do_write(fd, c_loc(own), 8000) /= 8000) stop 6
  if (do_lseek(fd, 0, do_seek_end) /= -1) stop 7
  if (do_flush(fd) /= 0) stop 8
  if (do_lseek64(fd, far + 8000_c_int64_t*mod(me + 1, n), do_seek_set) < 0) stop 9
  if (do_read64(fd, c_loc(theirs), 8000_c_int64_t) /= 8000) stop 10
  if (any(theirs /= mod(me + 1, n) + 1)) stop 11
  if (do_close(fd) /= 0) stop 12
  if (do_barrier() /= 0) stop 13
end program module_test
