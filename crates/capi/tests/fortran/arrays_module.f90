! Arrays through the module.
program arrays_module
  use, intrinsic :: iso_c_binding
  use donio_interface
  use dolib_interface
  implicit none
  integer(c_int), external :: mynode, numnodes
  integer(c_int) :: a, me, n
  integer(c_int64_t), target :: own(10), seen(10), indices(10), ones(10)
  integer :: i

  me = mynode()
  n = numnodes()
  if (do_nio(me, n) /= 0) stop 1
  a = do_array_create(10_c_int64_t*n, 8_c_int64_t)
  if (a < 0) stop 2
  own = [(10*me + i, i = 0, 9)]
  if (do_put(a, 10_c_int64_t*me, 10_c_int64_t, c_loc(own)) /= 0) stop 3
  if (do_barrier() /= 0) stop 4
  indices = [(int(mod(7*i, 10*n), c_int64_t), i = 0, 9)]
  if (do_gather(a, 10_c_int64_t, indices, c_loc(seen)) /= 0) stop 5
  if (any(seen /= indices)) stop 6
  if (do_barrier() /= 0) stop 7
  ones = 1
  if (do_accumulate(a, do_int64, 10_c_int64_t, indices, c_loc(ones)) /= 0) stop 8
  if (do_barrier() /= 0) stop 9
  if (do_get(a, 0_c_int64_t, 1_c_int64_t, c_loc(seen)) /= 0) stop 10
  if (seen(1) /= n*count(indices == 0)) stop 11
  if (do_array_length(a) /= 10*n .or. do_array_owner(a, 0_c_int64_t) /= 0) stop 12
  if (do_array_destroy(a) /= 0) stop 13
end program arrays_module
