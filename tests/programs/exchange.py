"""An mpi4py program that exchanges arrays and objects, to be run with pmpi_truth preloaded, on at least three ranks.

    mpirun -n N python3 exchange.py STEPS"""
import sys

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
left, right = (rank - 1) % size, (rank + 1) % size


def check(holds, what):
    if not holds:
        print("rank %d: wrong data after %s" % (rank, what), file=sys.stderr, flush=True)
        world.Abort(3)


backwards = world.Split(0, -rank)
column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()
for step in range(int(sys.argv[1])):
    # Arrays.
    there, here = numpy.full(100 + step, rank, dtype="d"), numpy.empty(100 + step, dtype="d")
    MPI.Request.Waitall([world.Irecv(here, source=left, tag=1), world.Isend(there, dest=right, tag=1)])
    check((here == left).all(), "Irecv")
    matrix, other = numpy.full((4, 4), rank, dtype="d"), numpy.empty((4, 4), dtype="d")
    world.Sendrecv([matrix, 1, column], left, 2, [other, 1, column], right, 2)
    check(other[3, 0] == right, "Sendrecv of a column")
    total = numpy.array([rank], dtype="i")
    world.Allreduce(MPI.IN_PLACE, total, op=MPI.SUM)
    check(total[0] == size * (size - 1) // 2, "Allreduce")
    # Objects, whose length is known when they arrive.
    sent = world.isend({"rank": rank, "steps": list(range(step))}, dest=right, tag=3)
    got = world.recv(source=MPI.ANY_SOURCE, tag=3)
    sent.wait()
    check(got["rank"] == left, "recv")
    mine = backwards.rank
    got = backwards.sendrecv("x" * step, (mine + 1) % size, 4, None, (mine - 1) % size, 4)
    check(got == "x" * step, "sendrecv")
    check(world.bcast((step, "all") if rank == 0 else None) == (step, "all"), "bcast")
    check(world.allgather(rank) == list(range(size)), "allgather")
