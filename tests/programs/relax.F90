! A Fortran program in which every step ends with a reduction in its subroutine `relax`. Argument: the number of steps,
! each with 5 ms of sleep. With -DF08 it uses the module mpi_f08, else the module mpi.
program relaxation
  implicit none
  character(len=16) :: argument
  integer :: steps, step
  double precision :: change

  call get_command_argument(1, argument)
  read (argument, *) steps
  call begin()
  do step = 1, steps
    call relax(change)
  end do
  call end()
contains
  subroutine begin()
#ifdef F08
    use mpi_f08
#else
    use mpi
#endif
    integer :: error
    call MPI_Init(error)
  end subroutine

  subroutine relax(change)
#ifdef F08
    use mpi_f08
#else
    use mpi
#endif
    interface
      function usleep(us) bind(c) result(error)
        use iso_c_binding, only: c_int
        integer(c_int), value :: us
        integer(c_int) :: error
      end function
    end interface
    double precision, intent(out) :: change
    integer :: error
    error = usleep(5000)
    change = 1
    call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end subroutine

  subroutine end()
#ifdef F08
    use mpi_f08
#else
    use mpi
#endif
    integer :: error
    call MPI_Finalize(error)
  end subroutine
end program
