"""Products of matrices, one after the other, until it is told to end.

    products.py DIRECTORY SIZE

Prints {"event":"ready",...}, then twenty times a second {"event":"pace","seconds":...,"count":...,"sum":...}, where the
sum is of one product and always the same; ends when DIRECTORY/end is there."""
import os
import sys
import time

import numpy

end, size = os.path.join(sys.argv[1], "end"), int(sys.argv[2])
a = numpy.arange(size * size, dtype=float).reshape(size, size) % 7
print('{"event":"ready","pid":%d}' % os.getpid(), flush=True)
began = told = time.monotonic()
count = 0
while True:
    product = a @ a
    count += 1
    now = time.monotonic()
    if now - told < 0.05:
        continue
    told = now
    line = '{"event":"pace","seconds":%.3f,"count":%d,"sum":%d}'
    print(line % (now - began, count, int(product.sum())), flush=True)
    if os.path.exists(end):
        break
