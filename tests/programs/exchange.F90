! A Fortran program that exchanges data with its neighbours, to be run with pmpi_truth preloaded. With -DF08 it uses
! the module mpi_f08, else the module mpi.
program exchange
#ifdef F08
  use mpi_f08
  implicit none
  type(MPI_Comm) :: world, halves
  type(MPI_Request) :: requests(2), made
  type(MPI_Status) :: from
#else
  use mpi
  implicit none
  integer :: world, halves
  integer :: requests(2), made
  integer :: from(MPI_STATUS_SIZE)
#endif
  integer :: rank, size, left, right, error, step, here, there, source
  double precision :: out(64), in(64), total
  integer :: numbers(64), gathered(64)

  call MPI_Init(error)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, error)
  call MPI_Comm_size(world, size, error)
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  out = rank
  numbers = rank

  call MPI_Comm_split(world, 0, -rank, halves, error)
  call MPI_Comm_rank(halves, here, error)
  call MPI_Comm_size(halves, there, error)
  call MPI_Send_init(out, 20, MPI_DOUBLE_PRECISION, right, 4, world, made, error)
  do step = 1, 10
    call MPI_Irecv(in, 64, MPI_DOUBLE_PRECISION, left, 1, world, requests(1), error)
    call MPI_Isend(out, 3 * step, MPI_DOUBLE_PRECISION, right, 1, world, requests(2), error)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
    if (nint(in(1)) /= left) stop 3
    ! In a communicator with reversed ranks.
    call MPI_Isend(numbers, step, MPI_INTEGER, mod(here + 1, there), 2, halves, requests(1), error)
    call MPI_Recv(gathered, 64, MPI_INTEGER, MPI_ANY_SOURCE, 2, halves, from, error)
#ifdef F08
    source = from%MPI_SOURCE
#else
    source = from(MPI_SOURCE)
#endif
    if (source /= mod(here + there - 1, there)) stop 4
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, error)
    call MPI_Send(numbers, 7, MPI_INTEGER, MPI_PROC_NULL, 3, world, error)
    call MPI_Start(made, error)
    call MPI_Recv(in, 20, MPI_DOUBLE_PRECISION, left, 4, world, MPI_STATUS_IGNORE, error)
    call MPI_Wait(made, MPI_STATUS_IGNORE, error)
    total = rank
    call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, world, error)
    if (nint(total) /= size * (size - 1) / 2) stop 5
    call MPI_Bcast(out, 5, MPI_DOUBLE_PRECISION, 0, world, error)
    out = rank
    call MPI_Alltoall(numbers, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, halves, error)
    call MPI_Barrier(world, error)
  end do
  call MPI_Request_free(made, error)
  call MPI_Finalize(error)
end program
