! One-sided access, messages and groups through the module.
program armci_module
  use, intrinsic :: iso_c_binding
  use armci_interface
  implicit none
  type(c_ptr) :: memory(64)
  type(armci_hdl_t) :: handle
  integer(c_int) :: me, n, next, group, rank, list(2), length
  integer(c_int), target :: ticket
  real(c_double), target :: own(10), seen(10), scale
  real(c_double), pointer :: mine(:)
  integer(c_long) :: total(1)

  if (armci_init() /= 0) stop 1
  me = armci_msg_me()
  n = armci_msg_nproc()
  next = mod(me + 1, n)
  if (armci_malloc(memory, 160_c_long) /= 0) stop 2
  own = me
  if (armci_put(c_loc(own), memory(next + 1), 80, next) /= 0) stop 3
  scale = 3
  if (armci_acc(armci_acc_dbl, c_loc(scale), c_loc(own), &
      armci_place(memory(next + 1), 80_c_intptr_t), 80, next) /= 0) stop 4
  call armci_barrier()
  call c_f_pointer(memory(me + 1), mine, [20])
  if (any(mine(1:10) /= mod(me + n - 1, n)) .or. any(mine(11:20) /= 3*mod(me + n - 1, n))) stop 5
  if (armci_nbget(memory(next + 1), c_loc(seen), 80, next, handle) /= 0) stop 6
  if (armci_wait(handle) /= 0) stop 7
  if (any(seen /= me)) stop 15
  if (armci_getvaluedouble(memory(next + 1), next) /= me) stop 8
  call armci_barrier()
  ticket = -1
  if (armci_putvalueint(0, memory(me + 1), me) /= 0) stop 9
  call armci_barrier()
  if (armci_rmw(armci_fetch_and_add, c_loc(ticket), memory(1), 1, 0) /= 0) stop 10
  if (ticket < 0 .or. ticket >= n) stop 11
  total = me + 1
  call armci_msg_lgop(total, 1, '*'//c_null_char)
  if (total(1) /= product([(int(length, c_long), length = 1, n)])) stop 12
  call armci_msg_snd(7, c_loc(own), 80, next)
  call armci_msg_rcv(7, c_loc(seen), 80, length, mod(me + n - 1, n))
  if (length /= 80 .or. any(seen /= mod(me + n - 1, n))) stop 13
  if (me < 2 .and. n > 1) then
    list = [1, 0]
    call armci_group_create(2, list, group)
    if (armci_group_rank(group, rank) /= 0) stop 14
    if (rank /= 1 - me) stop 16
    call armci_msg_group_barrier(group)
    call armci_group_free(group)
  end if
  call armci_finalize()
end program armci_module
