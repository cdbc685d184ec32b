"""Multiplies matrices until it is ended.

    products.py DIRECTORY SIZE

Prints {"event":"ready",...}, then twenty times per second {"event":"pace","seconds":...,"count":...,"sum":...}. The
sum is that of one product and constant. Ends when DIRECTORY/end exists."""
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
