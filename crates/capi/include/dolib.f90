! Arrays over the memory of all processes for Fortran 2008: compile donio.f90 and this file with the
! program, and `use dolib_interface`. The calls are those of dolib.h. Indices start at 0. A buffer
! is an address: c_loc(array).
module dolib_interface
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_ptr
  use donio_interface, only: do_barrier
  implicit none

  integer(c_int), parameter :: do_int32 = 1, do_uint32 = 2, do_int64 = 3, do_uint64 = 4
  integer(c_int), parameter :: do_float = 5, do_double = 6

  interface
    integer(c_int) function do_array_create(elements, elementbytes) bind(C, name='do_array_create')
      import :: c_int, c_int64_t
      integer(c_int64_t), value :: elements, elementbytes
    end function do_array_create

    integer(c_int) function do_array_destroy(array) bind(C, name='do_array_destroy')
      import :: c_int
      integer(c_int), value :: array
    end function do_array_destroy

    integer(c_int64_t) function do_array_length(array) bind(C, name='do_array_length')
      import :: c_int, c_int64_t
      integer(c_int), value :: array
    end function do_array_length

    integer(c_int) function do_array_owner(array, index) bind(C, name='do_array_owner')
      import :: c_int, c_int64_t
      integer(c_int), value :: array
      integer(c_int64_t), value :: index
    end function do_array_owner

    integer(c_int) function do_get(array, first, count, values) bind(C, name='do_get')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: array
      integer(c_int64_t), value :: first, count
      type(c_ptr), value :: values
    end function do_get

    integer(c_int) function do_put(array, first, count, values) bind(C, name='do_put')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: array
      integer(c_int64_t), value :: first, count
      type(c_ptr), value :: values
    end function do_put

    integer(c_int) function do_gather(array, count, indices, values) bind(C, name='do_gather')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: array
      integer(c_int64_t), value :: count
      integer(c_int64_t) :: indices(*)
      type(c_ptr), value :: values
    end function do_gather

    integer(c_int) function do_scatter(array, count, indices, values) bind(C, name='do_scatter')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: array
      integer(c_int64_t), value :: count
      integer(c_int64_t) :: indices(*)
      type(c_ptr), value :: values
    end function do_scatter

    integer(c_int) function do_accumulate(array, type, count, indices, values) bind(C, &
        name='do_accumulate')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: array, type
      integer(c_int64_t), value :: count
      integer(c_int64_t) :: indices(*)
      type(c_ptr), value :: values
    end function do_accumulate
  end interface
end module dolib_interface
