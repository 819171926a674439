! The calls of NX on units of gopen: modes, started requests, sizes and errors.
program nx_modes
  implicit none
  include 'fnx.h'
  integer, parameter :: log_unit = 20, records = 21
  integer :: me, n, id, ierr, i
  integer :: mine(100), all(100)

  me = mynode()
  n = numnodes()
  call gopen(log_unit, '/pfs/fortran/log', M_LOG)
  if (iomode(log_unit) /= M_LOG) stop 1
  mine = me
  call cwrite(log_unit, mine, 400)
  call gsync()
  if (lsize(log_unit, 0, SIZE_END) /= 400*n) stop 2
  call gclose(log_unit)

  ! A name may have trailing blanks, or end with a NUL.
  call gopen(records, '/pfs/fortran/records'//char(0)//'  ', M_RECORD)
  id = iwrite(records, mine, 400)
  call iowait(id)
  mine = me + 1000
  id = iwrite(records, mine, 400)
  do while (iodone(id) == 0)
  end do
  call gsync()
  call setiomode(records, M_UNIX)
  if (lseek(records, 0, SEEK_SET) /= 0) stop 3
  do i = 0, 2*n - 1
    id = iread(records, all, 400)
    call iowait(id)
    if (any(all /= mod(i, n) + 1000*(i/n))) stop 4
  end do
  if (iseof(records) /= 1) stop 5
  if (lseek(records, -1, SEEK_SET) /= -1) stop 6
  ! The unit gets another file; all processes read the same bytes.
  call gsync()
  call gopen(records, '/pfs/fortran/log', M_GLOBAL)
  call cread(records, all, 400)
  if (any(all /= all(1))) stop 7
  call gclose(records)
  ierr = n
  if (me == 0) print '(i0, a)', ierr, ' processes share units'
  call gsync()
  ! Every process fails here, and says why.
  call cread(99, all, 4)
end program nx_modes
