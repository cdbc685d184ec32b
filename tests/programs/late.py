"""A rank that loads its MPI when a gate opens.

    mpirun -n N python3 late.py DIRECTORY

Prints {"event":"started"}, waits for DIRECTORY/load, loads MPI, waits for DIRECTORY/go, calls MPI_Barrier seven times,
prints {"event":"done"}, and ends when DIRECTORY/end exists."""
import os
import sys
import time


def wait_for(gate):
    while not os.path.exists(os.path.join(sys.argv[1], gate)):
        time.sleep(0.001)


def say(event):
    os.write(1, b'{"event":"%s"}\n' % event)


say(b"started")
wait_for("load")
from mpi4py import MPI  # noqa: E402

wait_for("go")
for _ in range(7):
    MPI.COMM_WORLD.Barrier()
say(b"done")
wait_for("end")
