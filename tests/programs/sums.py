"""An mpi4py program that alternates between a little work and a reduction over all ranks, until DIRECTORY/end exists.

    mpirun -n N python3 sums.py DIRECTORY

Rank 0 prints {"event": "pace", "seconds": ..., "count": ..., "sum": ...} about four times per second; all end in the
same iteration. The sum does not depend on the number of ranks."""
import json
import os
import sys
import time

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
end = os.path.join(sys.argv[1], "end")
rows = numpy.arange(world.rank, 6000, world.size, dtype="q")
mine, everybody = numpy.zeros(2, dtype="q"), numpy.zeros(2, dtype="q")
began = told = time.monotonic()
count = 0
while everybody[0] == 0:
    count += 1
    now = time.monotonic()
    tells = world.rank == 0 and now - told >= 0.25
    mine[:] = tells and os.path.exists(end), (rows * rows).sum()
    world.Allreduce(mine, everybody)
    if tells:
        told = now
        said = {"event": "pace", "seconds": now - began, "count": count, "sum": int(everybody[1])}
        print(json.dumps(said), flush=True)
