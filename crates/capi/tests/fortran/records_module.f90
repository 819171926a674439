! Record files through the module.
program records_module
  use, intrinsic :: iso_c_binding
  use gio_interface
  implicit none
  integer(c_int) :: file, record, me, n, request
  real(c_double), target :: own(100), seen(100), half
  character(len=500) :: path

  call get_command_argument(1, path)
  me = gio_rank()
  n = gio_size()
  if (gio_open(trim(path)//c_null_char, file) /= 0) stop 1
  if (gio_create_record(file, record, 800*n) /= 0) stop 2
  own = me + 1
  if (gio_write(file, record, 800*me, 800*me + 799, c_loc(own), 1) < 0) stop 3
  if (gio_barrier() /= 0) stop 4
  request = gio_read_asyn64(file, record, 800_c_int64_t*mod(me + 1, n), &
      800_c_int64_t*mod(me + 1, n) + 799, c_loc(seen), 1_c_int64_t)
  if (request < 0) stop 5
  if (gio_wait(request) /= 0) stop 6
  if (any(seen /= mod(me + 1, n) + 1)) stop 14
  if (gio_barrier() /= 0) stop 7
  half = 0.5d0
  if (gio_acc(file, record, 0, 799, c_loc(own), 1, gio_double, c_loc(half)) < 0) stop 8
  if (gio_barrier() /= 0) stop 9
  if (gio_read(file, record, 0, 799, c_loc(seen), 1) < 0) stop 10
  if (any(seen /= 1 + 0.25d0*n*(n + 1))) stop 11
  if (gio_close(file) /= 0) stop 12
  if (gio_delete_file(trim(path)//c_null_char) /= 0) stop 13
end program records_module
