! Module variables, derived types, common blocks. Prints its view for every input line.
module config
  implicit none
  type solver_t
    integer :: chunk = 64
    real(8) :: tol = 0.5d0
  end type
  type(solver_t) :: Solver
  integer :: Limits(2:5) = (/1, 2, 3, 4/)
  integer :: grid(2, 3) = reshape((/11, 21, 12, 22, 13, 23/), (/2, 3/))
  integer, allocatable :: sizes(:)
contains
  subroutine work(count, weight)
    integer, intent(in) :: count
    real(8), intent(in) :: weight
    solver%chunk = solver%chunk + count - int(weight)
  end subroutine
end module

program main
  use config
  implicit none
  character(len=64) :: line
  integer :: state, steps
  real(8) :: tolerance
  common /params/ tolerance, steps
  tolerance = 0.25d0
  steps = 12
  allocate(sizes(2))
  sizes = 1
  call work(1, 1.0d0)
  print '(a)', 'ready'
  flush(6)
  do
    read(*, '(a)', iostat=state) line
    if (state /= 0) exit
    print '(a,i0,a,i0,a,i0,a,i0)', 'chunk=', solver%chunk, ' limits3=', limits(3), ' grid13=', grid(1, 3), ' steps=', steps
    flush(6)
  end do
end program
