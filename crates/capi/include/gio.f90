! Record files for Fortran 2008: compile this file with the program, and `use gio_interface`. The
! calls are those of gio.h. A buffer is an address: c_loc(array). A name ends with c_null_char.
module gio_interface
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_ptr
  implicit none

  integer(c_int), parameter :: gio_int = 1, gio_unsigned = 2, gio_int64 = 3
  integer(c_int), parameter :: gio_unsigned64 = 4, gio_float = 5, gio_double = 6

  interface
    integer(c_int) function gio_rank() bind(C, name='GIO_Rank')
      import :: c_int
    end function gio_rank

    integer(c_int) function gio_size() bind(C, name='GIO_Size')
      import :: c_int
    end function gio_size

    integer(c_int) function gio_barrier() bind(C, name='GIO_Barrier')
      import :: c_int
    end function gio_barrier

    type(c_ptr) function gio_error() bind(C, name='GIO_Error')
      import :: c_ptr
    end function gio_error

    integer(c_int) function gio_open(path_name, file_handle) bind(C, name='GIO_Open')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path_name(*)
      integer(c_int) :: file_handle
    end function gio_open

    integer(c_int) function gio_open_cached(path_name, file_handle, cache_bytes) &
        bind(C, name='GIO_Open_cached')
      import :: c_char, c_int, c_int64_t
      character(kind=c_char), intent(in) :: path_name(*)
      integer(c_int) :: file_handle
      integer(c_int64_t), value :: cache_bytes
    end function gio_open_cached

    integer(c_int) function gio_invalidate(file_handle) bind(C, name='GIO_Invalidate')
      import :: c_int
      integer(c_int), value :: file_handle
    end function gio_invalidate

    integer(c_int) function gio_close(file_handle) bind(C, name='GIO_Close')
      import :: c_int
      integer(c_int), value :: file_handle
    end function gio_close

    integer(c_int) function gio_sync(file_handle) bind(C, name='GIO_Sync')
      import :: c_int
      integer(c_int), value :: file_handle
    end function gio_sync

    integer(c_int) function gio_delete_file(path_name) bind(C, name='GIO_Delete_file')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path_name(*)
    end function gio_delete_file

    integer(c_int) function gio_create_record(file_handle, record_handle, length) bind(C, &
        name='GIO_Create_record')
      import :: c_int
      integer(c_int), value :: file_handle, length
      integer(c_int) :: record_handle
    end function gio_create_record

    integer(c_int) function gio_create_record64(file_handle, record_handle, length) bind(C, &
        name='GIO_Create_record64')
      import :: c_int, c_int64_t
      integer(c_int), value :: file_handle
      integer(c_int) :: record_handle
      integer(c_int64_t), value :: length
    end function gio_create_record64

    integer(c_int) function gio_create_record_irreg(file_handle, record_handle, segs, &
        num_segs) bind(C, name='GIO_Create_record_irreg')
      import :: c_int
      integer(c_int), value :: file_handle, num_segs
      integer(c_int) :: record_handle, segs(*)
    end function gio_create_record_irreg

    integer(c_int) function gio_create_record_irreg64(file_handle, record_handle, segs, &
        num_segs) bind(C, name='GIO_Create_record_irreg64')
      import :: c_int, c_int64_t
      integer(c_int), value :: file_handle, num_segs
      integer(c_int) :: record_handle
      integer(c_int64_t) :: segs(*)
    end function gio_create_record_irreg64

    integer(c_int) function gio_delete_record(file_handle, record_handle) bind(C, &
        name='GIO_Delete_record')
      import :: c_int
      integer(c_int), value :: file_handle, record_handle
    end function gio_delete_record

    integer(c_int) function gio_inq_file(file_handle, num_parts, num_records) bind(C, &
        name='GIO_Inq_file')
      import :: c_int
      integer(c_int), value :: file_handle
      integer(c_int) :: num_parts, num_records
    end function gio_inq_file

    integer(c_int) function gio_list_records(file_handle, record_handles, max_records) bind(C, &
        name='GIO_List_records')
      import :: c_int
      integer(c_int), value :: file_handle, max_records
      integer(c_int) :: record_handles(*)
    end function gio_list_records

    integer(c_int) function gio_inq_record(file_handle, record_handle, length, num_segs, &
        is_irregular) bind(C, name='GIO_Inq_record')
      import :: c_int
      integer(c_int), value :: file_handle, record_handle
      integer(c_int) :: length, num_segs, is_irregular
    end function gio_inq_record

    integer(c_int) function gio_inq_record64(file_handle, record_handle, length, num_segs, &
        is_irregular) bind(C, name='GIO_Inq_record64')
      import :: c_int, c_int64_t
      integer(c_int), value :: file_handle, record_handle
      integer(c_int64_t) :: length
      integer(c_int) :: num_segs, is_irregular
    end function gio_inq_record64

    integer(c_int) function gio_distribution(file_handle, record_handle, seg, lo, hi) bind(C, &
        name='GIO_Distribution')
      import :: c_int
      integer(c_int), value :: file_handle, record_handle, seg
      integer(c_int) :: lo, hi
    end function gio_distribution

    integer(c_int) function gio_distribution64(file_handle, record_handle, seg, lo, hi) bind(C, &
        name='GIO_Distribution64')
      import :: c_int, c_int64_t
      integer(c_int), value :: file_handle, record_handle, seg
      integer(c_int64_t) :: lo, hi
    end function gio_distribution64

    integer(c_int) function gio_locate(file_handle, record_handle, position) bind(C, &
        name='GIO_Locate')
      import :: c_int
      integer(c_int), value :: file_handle, record_handle, position
    end function gio_locate

    integer(c_int) function gio_locate64(file_handle, record_handle, position) bind(C, &
        name='GIO_Locate64')
      import :: c_int, c_int64_t
      integer(c_int), value :: file_handle, record_handle
      integer(c_int64_t), value :: position
    end function gio_locate64

    integer(c_int) function gio_read(file_handle, record_handle, lo, hi, buf, stride) bind(C, &
        name='GIO_Read')
      import :: c_int, c_ptr
      integer(c_int), value :: file_handle, record_handle, lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_read

    integer(c_int) function gio_read64(file_handle, record_handle, lo, hi, buf, stride) bind(C, &
        name='GIO_Read64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: file_handle, record_handle
      integer(c_int64_t), value :: lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_read64

    integer(c_int) function gio_write(file_handle, record_handle, lo, hi, buf, stride) bind(C, &
        name='GIO_Write')
      import :: c_int, c_ptr
      integer(c_int), value :: file_handle, record_handle, lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_write

    integer(c_int) function gio_write64(file_handle, record_handle, lo, hi, buf, &
        stride) bind(C, name='GIO_Write64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: file_handle, record_handle
      integer(c_int64_t), value :: lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_write64

    integer(c_int) function gio_acc(file_handle, record_handle, lo, hi, buf, stride, type, &
        factor) bind(C, name='GIO_Acc')
      import :: c_int, c_ptr
      integer(c_int), value :: file_handle, record_handle, lo, hi, stride, type
      type(c_ptr), value :: buf, factor
    end function gio_acc

    integer(c_int) function gio_acc64(file_handle, record_handle, lo, hi, buf, stride, type, &
        factor) bind(C, name='GIO_Acc64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: file_handle, record_handle, type
      integer(c_int64_t), value :: lo, hi, stride
      type(c_ptr), value :: buf, factor
    end function gio_acc64

    integer(c_int) function gio_read_asyn(file_handle, record_handle, lo, hi, buf, &
        stride) bind(C, name='GIO_Read_asyn')
      import :: c_int, c_ptr
      integer(c_int), value :: file_handle, record_handle, lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_read_asyn

    integer(c_int) function gio_read_asyn64(file_handle, record_handle, lo, hi, buf, &
        stride) bind(C, name='GIO_Read_asyn64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: file_handle, record_handle
      integer(c_int64_t), value :: lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_read_asyn64

    integer(c_int) function gio_write_asyn(file_handle, record_handle, lo, hi, buf, &
        stride) bind(C, name='GIO_Write_asyn')
      import :: c_int, c_ptr
      integer(c_int), value :: file_handle, record_handle, lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_write_asyn

    integer(c_int) function gio_write_asyn64(file_handle, record_handle, lo, hi, buf, &
        stride) bind(C, name='GIO_Write_asyn64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: file_handle, record_handle
      integer(c_int64_t), value :: lo, hi, stride
      type(c_ptr), value :: buf
    end function gio_write_asyn64

    integer(c_int) function gio_acc_asyn(file_handle, record_handle, lo, hi, buf, stride, type, &
        factor) bind(C, name='GIO_Acc_asyn')
      import :: c_int, c_ptr
      integer(c_int), value :: file_handle, record_handle, lo, hi, stride, type
      type(c_ptr), value :: buf, factor
    end function gio_acc_asyn

    integer(c_int) function gio_acc_asyn64(file_handle, record_handle, lo, hi, buf, stride, &
        type, factor) bind(C, name='GIO_Acc_asyn64')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: file_handle, record_handle, type
      integer(c_int64_t), value :: lo, hi, stride
      type(c_ptr), value :: buf, factor
    end function gio_acc_asyn64

    integer(c_int) function gio_wait(request) bind(C, name='GIO_Wait')
      import :: c_int
      integer(c_int), value :: request
    end function gio_wait

    integer(c_int) function gio_test(request) bind(C, name='GIO_Test')
      import :: c_int
      integer(c_int), value :: request
    end function gio_test

    integer(c_int) function gio_wait_all(file_handle) bind(C, name='GIO_Wait_all')
      import :: c_int
      integer(c_int), value :: file_handle
    end function gio_wait_all
  end interface
end module gio_interface
