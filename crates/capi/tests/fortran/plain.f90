! An ordinary Fortran program with OPEN, WRITE, READ and CLOSE that knows no shared files.
program plain
  implicit none
  character(len=200) :: name
  character(len=20) :: word
  integer :: i, number, size
  double precision :: values(1000), seen(1000)

  call get_command_argument(1, name)
  open(10, file=trim(name), status='replace', action='write')
  do i = 1, 1000
    write(10, '(a,i0)') 'line ', i
  end do
  close(10)
  open(10, file=trim(name), status='old', action='read')
  do i = 1, 1000
    read(10, *) word, number
    if (word /= 'line' .or. number /= i) stop 3
  end do
  close(10)

  values = [(dble(i), i = 1, 1000)]
  open(11, file=trim(name)//'.raw', access='stream', form='unformatted', status='replace')
  write(11) values
  close(11)
  open(11, file=trim(name)//'.raw', access='direct', form='unformatted', recl=8, status='old')
  do i = 1000, 1, -1
    read(11, rec=i) seen(i)
  end do
  inquire(unit=11, size=size)
  close(11, status='delete')
  if (any(seen /= values) .or. size /= 8000) stop 4
end program plain
