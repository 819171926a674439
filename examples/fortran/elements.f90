! The corners of all elements of a grid, in a cached file.
!
! A grid of nx x ny x nz nodes has one brick between each eight nodes. The bricks above each other
! form a column; columns belong to processes in turn. Each process writes the node numbers of its
! columns, and reads and checks those of the next process. The file does not depend on the number of
! processes:
!
!   elements [file [nx ny nz]]
program elements
  implicit none
  include 'fnx.h'
  integer, parameter :: corners = 8, bytes = 4, create = 512, write_only = 1, read_only = 0
  integer, parameter :: rights = 6*64 + 4*8 + 4
  integer, external :: doopen, dolseek
  integer :: me, n, fd, column, columns, above, length, place
  integer :: nodes(3), wrong(1), work(3)
  integer, allocatable :: list(:, :), right(:, :)
  character(len=1000) :: name
  double precision :: start, seconds

  me = mynode()
  n = numnodes()
  call donio(me, n)

  ! Process 0 reads the arguments; the sum over all processes distributes them.
  nodes = 0
  if (me == 0) call read_arguments(nodes)
  call gisum(nodes, 3, work)
  call get_command_argument(1, name)
  if (name == ' ') name = 'elements.bin'

  above = nodes(3) - 1
  columns = (nodes(1) - 1)*(nodes(2) - 1)
  length = above*corners*bytes
  allocate (list(corners, above), right(corners, above))

  start = dclock()
  fd = doopen(trim(name)//char(0), write_only + create, rights)
  if (fd < 0) call fail('the file cannot be opened')
  call dolsize(fd, columns*length)
  do column = me, columns - 1, n
    call corners_of(column, list)
    place = dolseek(fd, column*length, SEEK_SET)
    if (place /= column*length) call fail('dolseek returned another position')
    call dowrite(fd, list, length)
  end do
  call doclose(fd)

  ! A name need not end with a NUL.
  fd = doopen(name, read_only, 0)
  if (fd < 0) call fail('the file cannot be opened again')
  wrong = 0
  if (dolseek(fd, 0, SEEK_END) /= columns*length) wrong = 1
  do column = mod(me + 1, n), columns - 1, n
    place = dolseek(fd, column*length, SEEK_SET)
    call doread(fd, list, length)
    call corners_of(column, right)
    wrong = wrong + count(list /= right)
  end do
  call dogsync()
  seconds = dclock() - start
  call doclose(fd)

  call gisum(wrong, 1, work)
  call gdsum(seconds, 1, start)
  if (me == 0 .and. wrong(1) == 0) then
    write (*, '(i0, a, i0, a)') columns*above, ' elements written and read by ', n, ' processes'
    if (seconds < 0) call fail('time goes backwards')
  end if
  if (wrong(1) /= 0) call fail('the file holds other values than were written')

contains

  ! Returns the node numbers of all bricks of a column.
  subroutine corners_of(column, list)
    integer, intent(in) :: column
    integer, intent(out) :: list(:, :)
    integer, parameter :: to_x(corners) = [0, 1, 1, 0, 0, 1, 1, 0]
    integer, parameter :: to_y(corners) = [0, 0, 1, 1, 0, 0, 1, 1]
    integer, parameter :: to_z(corners) = [0, 0, 0, 0, 1, 1, 1, 1]
    integer :: x, y, z, corner

    x = mod(column, nodes(1) - 1)
    y = column/(nodes(1) - 1)
    do z = 0, nodes(3) - 2
      do corner = 1, corners
        list(corner, z + 1) = 1 + z + to_z(corner) &
          + nodes(3)*(x + to_x(corner) + nodes(1)*(y + to_y(corner)))
      end do
    end do
  end subroutine corners_of

  subroutine read_arguments(nodes)
    integer, intent(out) :: nodes(3)
    character(len=20) :: text
    integer :: i, problem

    nodes = [41, 41, 31]
    do i = 1, 3
      call get_command_argument(i + 1, text)
      if (text /= ' ') then
        read (text, *, iostat=problem) nodes(i)
        if (problem /= 0 .or. nodes(i) < 2) call fail('a grid needs two nodes or more each way')
      end if
    end do
  end subroutine read_arguments

  subroutine fail(why)
    character(len=*), intent(in) :: why

    write (0, '(4a)') 'elements: ', trim(name), ': ', why
    stop 1
  end subroutine fail
end program elements
