! One-sided access for Fortran 2008: compile this file with the program, and `use armci_interface`.
! The calls are those of armci.h. Memory is an address: c_loc(array), or a pointer of ARMCI_Malloc,
! from which armci_place counts bytes. A text ends with c_null_char. A group is an integer(c_int).
module armci_interface
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_float, c_funptr, c_int, c_intptr_t, &
      c_long, c_long_long, c_ptr
  implicit none

  ! A handle of non-blocking requests; a new one stands for no request.
  type, bind(C) :: armci_hdl_t
    integer(c_int) :: id = 0, proc = 0, aggregate = 0
  end type armci_hdl_t

  ! Memory blocks: ptr_array_len blocks of `bytes` bytes each.
  type, bind(C) :: armci_giov_t
    type(c_ptr) :: src_ptr_array, dst_ptr_array
    integer(c_int) :: ptr_array_len, bytes
  end type armci_giov_t

  integer(c_int), parameter :: armci_max_stride_level = 8
  integer(c_int), parameter :: armci_swap = 10, armci_swap_long = 11
  integer(c_int), parameter :: armci_fetch_and_add = 12, armci_fetch_and_add_long = 13
  integer(c_int), parameter :: armci_acc_int = 37, armci_acc_dbl = 38, armci_acc_flt = 39
  integer(c_int), parameter :: armci_acc_cpl = 40, armci_acc_dcp = 41, armci_acc_lng = 42
  integer(c_int), parameter :: armci_int = -99, armci_long = -101, armci_long_long = -102
  integer(c_int), parameter :: armci_float = -306, armci_double = -307
  integer(c_int), parameter :: scope_all = 333, scope_node = 337, scope_masters = 339
  integer(c_int), parameter :: armci_domain_smp = 0

  interface
    integer(c_int) function armci_init() bind(C, name='ARMCI_Init')
      import :: c_int
    end function armci_init

    integer(c_int) function armci_init_args(argc, argv) bind(C, name='ARMCI_Init_args')
      import :: c_int, c_ptr
      type(c_ptr), value :: argc, argv
    end function armci_init_args

    integer(c_int) function armci_initialized() bind(C, name='ARMCI_Initialized')
      import :: c_int
    end function armci_initialized

    subroutine armci_finalize() bind(C, name='ARMCI_Finalize')
    end subroutine armci_finalize

    subroutine armci_cleanup() bind(C, name='ARMCI_Cleanup')
    end subroutine armci_cleanup

    subroutine armci_error(message, code) bind(C, name='ARMCI_Error')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: message(*)
      integer(c_int), value :: code
    end subroutine armci_error

    integer(c_int) function armci_malloc(ptr_arr, bytes) bind(C, name='ARMCI_Malloc')
      import :: c_int, c_long, c_ptr
      type(c_ptr) :: ptr_arr(*)
      integer(c_long), value :: bytes
    end function armci_malloc

    integer(c_int) function armci_free(ptr) bind(C, name='ARMCI_Free')
      import :: c_int, c_ptr
      type(c_ptr), value :: ptr
    end function armci_free

    type(c_ptr) function armci_malloc_local(bytes) bind(C, name='ARMCI_Malloc_local')
      import :: c_long, c_ptr
      integer(c_long), value :: bytes
    end function armci_malloc_local

    integer(c_int) function armci_free_local(ptr) bind(C, name='ARMCI_Free_local')
      import :: c_int, c_ptr
      type(c_ptr), value :: ptr
    end function armci_free_local

    subroutine armci_copy(src, dst, n) bind(C, name='ARMCI_Copy')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int), value :: n
    end subroutine armci_copy

    integer(c_int) function armci_put(src, dst, bytes, proc) bind(C, name='ARMCI_Put')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int), value :: bytes, proc
    end function armci_put

    integer(c_int) function armci_get(src, dst, bytes, proc) bind(C, name='ARMCI_Get')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int), value :: bytes, proc
    end function armci_get

    integer(c_int) function armci_acc(optype, scale, src, dst, bytes, proc) bind(C, &
        name='ARMCI_Acc')
      import :: c_int, c_ptr
      integer(c_int), value :: optype, bytes, proc
      type(c_ptr), value :: scale, src, dst
    end function armci_acc

    integer(c_int) function armci_puts(src, src_strides, dst, dst_strides, count, &
        stride_levels, proc) bind(C, name='ARMCI_PutS')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
      integer(c_int), value :: stride_levels, proc
    end function armci_puts

    integer(c_int) function armci_gets(src, src_strides, dst, dst_strides, count, &
        stride_levels, proc) bind(C, name='ARMCI_GetS')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
      integer(c_int), value :: stride_levels, proc
    end function armci_gets

    integer(c_int) function armci_accs(optype, scale, src, src_strides, dst, dst_strides, &
        count, stride_levels, proc) bind(C, name='ARMCI_AccS')
      import :: c_int, c_ptr
      integer(c_int), value :: optype, stride_levels, proc
      type(c_ptr), value :: scale, src, dst
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
    end function armci_accs

    integer(c_int) function armci_putv(pieces, len, proc) bind(C, name='ARMCI_PutV')
      import :: armci_giov_t, c_int
      type(armci_giov_t) :: pieces(*)
      integer(c_int), value :: len, proc
    end function armci_putv

    integer(c_int) function armci_getv(pieces, len, proc) bind(C, name='ARMCI_GetV')
      import :: armci_giov_t, c_int
      type(armci_giov_t) :: pieces(*)
      integer(c_int), value :: len, proc
    end function armci_getv

    integer(c_int) function armci_accv(optype, scale, pieces, len, proc) bind(C, name='ARMCI_AccV')
      import :: armci_giov_t, c_int, c_ptr
      integer(c_int), value :: optype, len, proc
      type(c_ptr), value :: scale
      type(armci_giov_t) :: pieces(*)
    end function armci_accv

    integer(c_int) function armci_nbput(src, dst, bytes, proc, handle) bind(C, name='ARMCI_NbPut')
      import :: armci_hdl_t, c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int), value :: bytes, proc
      type(armci_hdl_t) :: handle
    end function armci_nbput

    integer(c_int) function armci_nbget(src, dst, bytes, proc, handle) bind(C, name='ARMCI_NbGet')
      import :: armci_hdl_t, c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int), value :: bytes, proc
      type(armci_hdl_t) :: handle
    end function armci_nbget

    integer(c_int) function armci_nbacc(optype, scale, src, dst, bytes, proc, handle) bind(C, &
        name='ARMCI_NbAcc')
      import :: armci_hdl_t, c_int, c_ptr
      integer(c_int), value :: optype, bytes, proc
      type(c_ptr), value :: scale, src, dst
      type(armci_hdl_t) :: handle
    end function armci_nbacc

    integer(c_int) function armci_nbputs(src, src_strides, dst, dst_strides, count, &
        stride_levels, proc, handle) bind(C, name='ARMCI_NbPutS')
      import :: armci_hdl_t, c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
      integer(c_int), value :: stride_levels, proc
      type(armci_hdl_t) :: handle
    end function armci_nbputs

    integer(c_int) function armci_nbgets(src, src_strides, dst, dst_strides, count, &
        stride_levels, proc, handle) bind(C, name='ARMCI_NbGetS')
      import :: armci_hdl_t, c_int, c_ptr
      type(c_ptr), value :: src, dst
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
      integer(c_int), value :: stride_levels, proc
      type(armci_hdl_t) :: handle
    end function armci_nbgets

    integer(c_int) function armci_nbaccs(optype, scale, src, src_strides, dst, dst_strides, &
        count, stride_levels, proc, handle) bind(C, name='ARMCI_NbAccS')
      import :: armci_hdl_t, c_int, c_ptr
      integer(c_int), value :: optype, stride_levels, proc
      type(c_ptr), value :: scale, src, dst
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
      type(armci_hdl_t) :: handle
    end function armci_nbaccs

    integer(c_int) function armci_nbputv(pieces, len, proc, handle) bind(C, name='ARMCI_NbPutV')
      import :: armci_giov_t, armci_hdl_t, c_int
      type(armci_giov_t) :: pieces(*)
      integer(c_int), value :: len, proc
      type(armci_hdl_t) :: handle
    end function armci_nbputv

    integer(c_int) function armci_nbgetv(pieces, len, proc, handle) bind(C, name='ARMCI_NbGetV')
      import :: armci_giov_t, armci_hdl_t, c_int
      type(armci_giov_t) :: pieces(*)
      integer(c_int), value :: len, proc
      type(armci_hdl_t) :: handle
    end function armci_nbgetv

    integer(c_int) function armci_nbaccv(optype, scale, pieces, len, proc, handle) bind(C, &
        name='ARMCI_NbAccV')
      import :: armci_giov_t, armci_hdl_t, c_int, c_ptr
      integer(c_int), value :: optype, len, proc
      type(c_ptr), value :: scale
      type(armci_giov_t) :: pieces(*)
      type(armci_hdl_t) :: handle
    end function armci_nbaccv

    integer(c_int) function armci_put_flag(src, dst, bytes, flag, value, proc) bind(C, &
        name='ARMCI_Put_flag')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst, flag
      integer(c_int), value :: bytes, value, proc
    end function armci_put_flag

    integer(c_int) function armci_puts_flag(src, src_strides, dst, dst_strides, count, &
        stride_levels, flag, value, proc) bind(C, name='ARMCI_PutS_flag')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst, flag
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
      integer(c_int), value :: stride_levels, value, proc
    end function armci_puts_flag

    integer(c_int) function armci_puts_flag_dir(src, src_strides, dst, dst_strides, count, &
        stride_levels, flag, value, proc) bind(C, name='ARMCI_PutS_flag_dir')
      import :: c_int, c_ptr
      type(c_ptr), value :: src, dst, flag
      integer(c_int) :: src_strides(*), dst_strides(*), count(*)
      integer(c_int), value :: stride_levels, value, proc
    end function armci_puts_flag_dir

    integer(c_int) function armci_putvalueint(src, dst, proc) bind(C, name='ARMCI_PutValueInt')
      import :: c_int, c_ptr
      integer(c_int), value :: src, proc
      type(c_ptr), value :: dst
    end function armci_putvalueint

    integer(c_int) function armci_putvaluelong(src, dst, proc) bind(C, name='ARMCI_PutValueLong')
      import :: c_int, c_long, c_ptr
      integer(c_long), value :: src
      type(c_ptr), value :: dst
      integer(c_int), value :: proc
    end function armci_putvaluelong

    integer(c_int) function armci_putvaluefloat(src, dst, proc) bind(C, name='ARMCI_PutValueFloat')
      import :: c_float, c_int, c_ptr
      real(c_float), value :: src
      type(c_ptr), value :: dst
      integer(c_int), value :: proc
    end function armci_putvaluefloat

    integer(c_int) function armci_putvaluedouble(src, dst, proc) bind(C, &
        name='ARMCI_PutValueDouble')
      import :: c_double, c_int, c_ptr
      real(c_double), value :: src
      type(c_ptr), value :: dst
      integer(c_int), value :: proc
    end function armci_putvaluedouble

    integer(c_int) function armci_nbputvalueint(src, dst, proc, handle) bind(C, &
        name='ARMCI_NbPutValueInt')
      import :: armci_hdl_t, c_int, c_ptr
      integer(c_int), value :: src, proc
      type(c_ptr), value :: dst
      type(armci_hdl_t) :: handle
    end function armci_nbputvalueint

    integer(c_int) function armci_nbputvaluelong(src, dst, proc, handle) bind(C, &
        name='ARMCI_NbPutValueLong')
      import :: armci_hdl_t, c_int, c_long, c_ptr
      integer(c_long), value :: src
      type(c_ptr), value :: dst
      integer(c_int), value :: proc
      type(armci_hdl_t) :: handle
    end function armci_nbputvaluelong

    integer(c_int) function armci_nbputvaluefloat(src, dst, proc, handle) bind(C, &
        name='ARMCI_NbPutValueFloat')
      import :: armci_hdl_t, c_float, c_int, c_ptr
      real(c_float), value :: src
      type(c_ptr), value :: dst
      integer(c_int), value :: proc
      type(armci_hdl_t) :: handle
    end function armci_nbputvaluefloat

    integer(c_int) function armci_nbputvaluedouble(src, dst, proc, handle) bind(C, &
        name='ARMCI_NbPutValueDouble')
      import :: armci_hdl_t, c_double, c_int, c_ptr
      real(c_double), value :: src
      type(c_ptr), value :: dst
      integer(c_int), value :: proc
      type(armci_hdl_t) :: handle
    end function armci_nbputvaluedouble

    integer(c_int) function armci_getvalueint(src, proc) bind(C, name='ARMCI_GetValueInt')
      import :: c_int, c_ptr
      type(c_ptr), value :: src
      integer(c_int), value :: proc
    end function armci_getvalueint

    integer(c_long) function armci_getvaluelong(src, proc) bind(C, name='ARMCI_GetValueLong')
      import :: c_int, c_long, c_ptr
      type(c_ptr), value :: src
      integer(c_int), value :: proc
    end function armci_getvaluelong

    real(c_float) function armci_getvaluefloat(src, proc) bind(C, name='ARMCI_GetValueFloat')
      import :: c_float, c_int, c_ptr
      type(c_ptr), value :: src
      integer(c_int), value :: proc
    end function armci_getvaluefloat

    real(c_double) function armci_getvaluedouble(src, proc) bind(C, name='ARMCI_GetValueDouble')
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: src
      integer(c_int), value :: proc
    end function armci_getvaluedouble

    subroutine armci_set_aggregate_handle(handle) bind(C, name='ARMCI_SET_AGGREGATE_HANDLE')
      import :: armci_hdl_t
      type(armci_hdl_t) :: handle
    end subroutine armci_set_aggregate_handle

    subroutine armci_unset_aggregate_handle(handle) bind(C, name='ARMCI_UNSET_AGGREGATE_HANDLE')
      import :: armci_hdl_t
      type(armci_hdl_t) :: handle
    end subroutine armci_unset_aggregate_handle

    integer(c_int) function armci_wait(handle) bind(C, name='ARMCI_Wait')
      import :: armci_hdl_t, c_int
      type(armci_hdl_t) :: handle
    end function armci_wait

    integer(c_int) function armci_test(handle) bind(C, name='ARMCI_Test')
      import :: armci_hdl_t, c_int
      type(armci_hdl_t) :: handle
    end function armci_test

    integer(c_int) function armci_waitall() bind(C, name='ARMCI_WaitAll')
      import :: c_int
    end function armci_waitall

    integer(c_int) function armci_waitproc(proc) bind(C, name='ARMCI_WaitProc')
      import :: c_int
      integer(c_int), value :: proc
    end function armci_waitproc

    subroutine armci_fence(proc) bind(C, name='ARMCI_Fence')
      import :: c_int
      integer(c_int), value :: proc
    end subroutine armci_fence

    subroutine armci_allfence() bind(C, name='ARMCI_AllFence')
    end subroutine armci_allfence

    subroutine armci_barrier() bind(C, name='ARMCI_Barrier')
    end subroutine armci_barrier

    integer(c_int) function armci_notify(proc) bind(C, name='armci_notify')
      import :: c_int
      integer(c_int), value :: proc
    end function armci_notify

    integer(c_int) function armci_notify_wait(proc, waits) bind(C, name='armci_notify_wait')
      import :: c_int
      integer(c_int), value :: proc
      integer(c_int) :: waits
    end function armci_notify_wait

    integer(c_int) function armci_rmw(op, ploc, prem, extra, proc) bind(C, name='ARMCI_Rmw')
      import :: c_int, c_ptr
      integer(c_int), value :: op, extra, proc
      type(c_ptr), value :: ploc, prem
    end function armci_rmw

    integer(c_int) function armci_create_mutexes(count) bind(C, name='ARMCI_Create_mutexes')
      import :: c_int
      integer(c_int), value :: count
    end function armci_create_mutexes

    integer(c_int) function armci_destroy_mutexes() bind(C, name='ARMCI_Destroy_mutexes')
      import :: c_int
    end function armci_destroy_mutexes

    subroutine armci_lock(mutex, proc) bind(C, name='ARMCI_Lock')
      import :: c_int
      integer(c_int), value :: mutex, proc
    end subroutine armci_lock

    subroutine armci_unlock(mutex, proc) bind(C, name='ARMCI_Unlock')
      import :: c_int
      integer(c_int), value :: mutex, proc
    end subroutine armci_unlock

    integer(c_int) function armci_callback_register(func) bind(C, name='ARMCI_Callback_register')
      import :: c_funptr, c_int
      type(c_funptr), value :: func
    end function armci_callback_register

    integer(c_int) function armci_callback_send(h, proc, header, header_size, data, data_size, &
        result, exp_res_size, res_size) bind(C, name='ARMCI_Callback_send')
      import :: c_int, c_ptr
      integer(c_int), value :: h, proc, header_size, data_size, exp_res_size
      type(c_ptr), value :: header, data, result
      integer(c_int) :: res_size
    end function armci_callback_send

    integer(c_int) function armci_callback_wait(rqid) bind(C, name='ARMCI_Callback_wait')
      import :: c_int
      integer(c_int), value :: rqid
    end function armci_callback_wait

    integer(c_int) function armci_domain_nprocs(domain, id) bind(C, name='armci_domain_nprocs')
      import :: c_int
      integer(c_int), value :: domain, id
    end function armci_domain_nprocs

    integer(c_int) function armci_domain_id(domain, proc) bind(C, name='armci_domain_id')
      import :: c_int
      integer(c_int), value :: domain, proc
    end function armci_domain_id

    integer(c_int) function armci_domain_glob_proc_id(domain, id, local_proc) bind(C, &
        name='armci_domain_glob_proc_id')
      import :: c_int
      integer(c_int), value :: domain, id, local_proc
    end function armci_domain_glob_proc_id

    integer(c_int) function armci_domain_my_id(domain) bind(C, name='armci_domain_my_id')
      import :: c_int
      integer(c_int), value :: domain
    end function armci_domain_my_id

    integer(c_int) function armci_domain_count(domain) bind(C, name='armci_domain_count')
      import :: c_int
      integer(c_int), value :: domain
    end function armci_domain_count

    integer(c_int) function armci_domain_same_id(domain, proc) bind(C, name='armci_domain_same_id')
      import :: c_int
      integer(c_int), value :: domain, proc
    end function armci_domain_same_id

    integer(c_int) function armci_same_node(proc) bind(C, name='ARMCI_Same_node')
      import :: c_int
      integer(c_int), value :: proc
    end function armci_same_node

    integer(c_int) function armci_uses_shm() bind(C, name='ARMCI_Uses_shm')
      import :: c_int
    end function armci_uses_shm

    integer(c_int) function armci_uses_shm_grp(group) bind(C, name='ARMCI_Uses_shm_grp')
      import :: c_int
      integer(c_int) :: group
    end function armci_uses_shm_grp

    subroutine armci_set_shm_limit(limit) bind(C, name='ARMCI_Set_shm_limit')
      import :: c_long
      integer(c_long), value :: limit
    end subroutine armci_set_shm_limit

    subroutine armci_group_create(n, pid_list, group_out) bind(C, name='ARMCI_Group_create')
      import :: c_int
      integer(c_int), value :: n
      integer(c_int) :: pid_list(*), group_out
    end subroutine armci_group_create

    subroutine armci_group_create_child(n, pid_list, group_out, group_parent) bind(C, &
        name='ARMCI_Group_create_child')
      import :: c_int
      integer(c_int), value :: n
      integer(c_int) :: pid_list(*), group_out, group_parent
    end subroutine armci_group_create_child

    subroutine armci_group_free(group) bind(C, name='ARMCI_Group_free')
      import :: c_int
      integer(c_int) :: group
    end subroutine armci_group_free

    integer(c_int) function armci_group_rank(group, rank) bind(C, name='ARMCI_Group_rank')
      import :: c_int
      integer(c_int) :: group, rank
    end function armci_group_rank

    subroutine armci_group_size(group, size) bind(C, name='ARMCI_Group_size')
      import :: c_int
      integer(c_int) :: group, size
    end subroutine armci_group_size

    subroutine armci_group_set_default(group) bind(C, name='ARMCI_Group_set_default')
      import :: c_int
      integer(c_int) :: group
    end subroutine armci_group_set_default

    subroutine armci_group_get_default(group_out) bind(C, name='ARMCI_Group_get_default')
      import :: c_int
      integer(c_int) :: group_out
    end subroutine armci_group_get_default

    subroutine armci_group_get_world(group_out) bind(C, name='ARMCI_Group_get_world')
      import :: c_int
      integer(c_int) :: group_out
    end subroutine armci_group_get_world

    subroutine armci_groupfence(group) bind(C, name='ARMCI_GroupFence')
      import :: c_int
      integer(c_int) :: group
    end subroutine armci_groupfence

    integer(c_int) function armci_absolute_id(group, group_rank) bind(C, name='ARMCI_Absolute_id')
      import :: c_int
      integer(c_int) :: group
      integer(c_int), value :: group_rank
    end function armci_absolute_id

    integer(c_int) function armci_malloc_group(ptr_arr, bytes, group) bind(C, &
        name='ARMCI_Malloc_group')
      import :: c_int, c_long, c_ptr
      type(c_ptr) :: ptr_arr(*)
      integer(c_long), value :: bytes
      integer(c_int) :: group
    end function armci_malloc_group

    integer(c_int) function armci_free_group(ptr, group) bind(C, name='ARMCI_Free_group')
      import :: c_int, c_ptr
      type(c_ptr), value :: ptr
      integer(c_int) :: group
    end function armci_free_group

    subroutine armci_msg_init(argc, argv) bind(C, name='armci_msg_init')
      import :: c_ptr
      type(c_ptr), value :: argc, argv
    end subroutine armci_msg_init

    subroutine armci_msg_finalize() bind(C, name='armci_msg_finalize')
    end subroutine armci_msg_finalize

    subroutine armci_msg_abort(code) bind(C, name='armci_msg_abort')
      import :: c_int
      integer(c_int), value :: code
    end subroutine armci_msg_abort

    integer(c_int) function armci_msg_me() bind(C, name='armci_msg_me')
      import :: c_int
    end function armci_msg_me

    integer(c_int) function armci_msg_nproc() bind(C, name='armci_msg_nproc')
      import :: c_int
    end function armci_msg_nproc

    real(c_double) function armci_timer() bind(C, name='armci_timer')
      import :: c_double
    end function armci_timer

    subroutine armci_msg_snd(tag, buffer, len, to) bind(C, name='armci_msg_snd')
      import :: c_int, c_ptr
      integer(c_int), value :: tag, len, to
      type(c_ptr), value :: buffer
    end subroutine armci_msg_snd

    subroutine armci_msg_rcv(tag, buffer, buflen, msglen, from) bind(C, name='armci_msg_rcv')
      import :: c_int, c_ptr
      integer(c_int), value :: tag, buflen, from
      type(c_ptr), value :: buffer
      integer(c_int) :: msglen
    end subroutine armci_msg_rcv

    integer(c_int) function armci_msg_rcvany(tag, buffer, buflen, msglen) bind(C, &
        name='armci_msg_rcvany')
      import :: c_int, c_ptr
      integer(c_int), value :: tag, buflen
      type(c_ptr), value :: buffer
      integer(c_int) :: msglen
    end function armci_msg_rcvany

    subroutine armci_msg_barrier() bind(C, name='armci_msg_barrier')
    end subroutine armci_msg_barrier

    subroutine armci_msg_bintree(scope, root, up, left, right) bind(C, name='armci_msg_bintree')
      import :: c_int
      integer(c_int), value :: scope
      integer(c_int) :: root, up, left, right
    end subroutine armci_msg_bintree

    subroutine armci_msg_brdcst(buffer, len, root) bind(C, name='armci_msg_brdcst')
      import :: c_int, c_ptr
      type(c_ptr), value :: buffer
      integer(c_int), value :: len, root
    end subroutine armci_msg_brdcst

    subroutine armci_msg_bcast(buffer, len, root) bind(C, name='armci_msg_bcast')
      import :: c_int, c_ptr
      type(c_ptr), value :: buffer
      integer(c_int), value :: len, root
    end subroutine armci_msg_bcast

    subroutine armci_msg_bcast_scope(scope, buffer, len, root) bind(C, name='armci_msg_bcast_scope')
      import :: c_int, c_ptr
      integer(c_int), value :: scope, len, root
      type(c_ptr), value :: buffer
    end subroutine armci_msg_bcast_scope

    subroutine armci_msg_clus_brdcst(buffer, len) bind(C, name='armci_msg_clus_brdcst')
      import :: c_int, c_ptr
      type(c_ptr), value :: buffer
      integer(c_int), value :: len
    end subroutine armci_msg_clus_brdcst

    subroutine armci_msg_igop(x, n, op) bind(C, name='armci_msg_igop')
      import :: c_char, c_int
      integer(c_int) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_igop

    subroutine armci_msg_lgop(x, n, op) bind(C, name='armci_msg_lgop')
      import :: c_char, c_int, c_long
      integer(c_long) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_lgop

    subroutine armci_msg_llgop(x, n, op) bind(C, name='armci_msg_llgop')
      import :: c_char, c_int, c_long_long
      integer(c_long_long) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_llgop

    subroutine armci_msg_fgop(x, n, op) bind(C, name='armci_msg_fgop')
      import :: c_char, c_float, c_int
      real(c_float) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_fgop

    subroutine armci_msg_dgop(x, n, op) bind(C, name='armci_msg_dgop')
      import :: c_char, c_double, c_int
      real(c_double) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_dgop

    subroutine armci_msg_gop_scope(scope, x, n, op, type) bind(C, name='armci_msg_gop_scope')
      import :: c_char, c_int, c_ptr
      integer(c_int), value :: scope, n, type
      type(c_ptr), value :: x
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_gop_scope

    subroutine armci_msg_clus_igop(x, n, op) bind(C, name='armci_msg_clus_igop')
      import :: c_char, c_int
      integer(c_int) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_clus_igop

    subroutine armci_msg_clus_lgop(x, n, op) bind(C, name='armci_msg_clus_lgop')
      import :: c_char, c_int, c_long
      integer(c_long) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_clus_lgop

    subroutine armci_msg_clus_llgop(x, n, op) bind(C, name='armci_msg_clus_llgop')
      import :: c_char, c_int, c_long_long
      integer(c_long_long) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_clus_llgop

    subroutine armci_msg_clus_fgop(x, n, op) bind(C, name='armci_msg_clus_fgop')
      import :: c_char, c_float, c_int
      real(c_float) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_clus_fgop

    subroutine armci_msg_clus_dgop(x, n, op) bind(C, name='armci_msg_clus_dgop')
      import :: c_char, c_double, c_int
      real(c_double) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_clus_dgop

    subroutine armci_msg_reduce(x, n, op, type) bind(C, name='armci_msg_reduce')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: x
      integer(c_int), value :: n, type
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_reduce

    subroutine armci_msg_reduce_scope(scope, x, n, op, type) bind(C, name='armci_msg_reduce_scope')
      import :: c_char, c_int, c_ptr
      integer(c_int), value :: scope, n, type
      type(c_ptr), value :: x
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_reduce_scope

    subroutine armci_msg_sel(x, n, op, type, contribute) bind(C, name='armci_msg_sel')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: x
      integer(c_int), value :: n, type, contribute
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_sel

    subroutine armci_msg_sel_scope(scope, x, n, op, type, contribute) bind(C, &
        name='armci_msg_sel_scope')
      import :: c_char, c_int, c_ptr
      integer(c_int), value :: scope, n, type, contribute
      type(c_ptr), value :: x
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_sel_scope

    subroutine armci_msg_group_barrier(group) bind(C, name='armci_msg_group_barrier')
      import :: c_int
      integer(c_int) :: group
    end subroutine armci_msg_group_barrier

    subroutine armci_msg_group_bcast_scope(scope, buffer, len, root, group) bind(C, &
        name='armci_msg_group_bcast_scope')
      import :: c_int, c_ptr
      integer(c_int), value :: scope, len, root
      type(c_ptr), value :: buffer
      integer(c_int) :: group
    end subroutine armci_msg_group_bcast_scope

    subroutine armci_msg_group_igop(x, n, op, group) bind(C, name='armci_msg_group_igop')
      import :: c_char, c_int
      integer(c_int) :: x(*), group
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
    end subroutine armci_msg_group_igop

    subroutine armci_msg_group_lgop(x, n, op, group) bind(C, name='armci_msg_group_lgop')
      import :: c_char, c_int, c_long
      integer(c_long) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
      integer(c_int) :: group
    end subroutine armci_msg_group_lgop

    subroutine armci_msg_group_llgop(x, n, op, group) bind(C, name='armci_msg_group_llgop')
      import :: c_char, c_int, c_long_long
      integer(c_long_long) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
      integer(c_int) :: group
    end subroutine armci_msg_group_llgop

    subroutine armci_msg_group_fgop(x, n, op, group) bind(C, name='armci_msg_group_fgop')
      import :: c_char, c_float, c_int
      real(c_float) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
      integer(c_int) :: group
    end subroutine armci_msg_group_fgop

    subroutine armci_msg_group_dgop(x, n, op, group) bind(C, name='armci_msg_group_dgop')
      import :: c_char, c_double, c_int
      real(c_double) :: x(*)
      integer(c_int), value :: n
      character(kind=c_char), intent(in) :: op(*)
      integer(c_int) :: group
    end subroutine armci_msg_group_dgop

    subroutine armci_msg_group_gop_scope(scope, x, n, op, type, group) bind(C, &
        name='armci_msg_group_gop_scope')
      import :: c_char, c_int, c_ptr
      integer(c_int), value :: scope, n, type
      type(c_ptr), value :: x
      character(kind=c_char), intent(in) :: op(*)
      integer(c_int) :: group
    end subroutine armci_msg_group_gop_scope
  end interface

contains

  ! The place that lies some bytes after an address.
  pure type(c_ptr) function armci_place(start, bytes)
    type(c_ptr), intent(in) :: start
    integer(c_intptr_t), intent(in) :: bytes
    armci_place = transfer(transfer(start, 0_c_intptr_t) + bytes, start)
  end function armci_place
end module armci_interface
