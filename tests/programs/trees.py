"""Gradient boosting with LightGBM, which states the size of its OpenMP teams in every region, until it is told to end.

    trees.py DIRECTORY THREADS

Prints {"event":"ready",...}, then at most twenty times a second {"event":"pace","seconds":...,"count":...,"sum":...}: the trees so far, and
what the newest complete model predicts, always the same; ends when DIRECTORY/end is there."""
import os
import sys
import time

import lightgbm
import numpy

TREES = 20

end, threads = os.path.join(sys.argv[1], "end"), int(sys.argv[2])
random = numpy.random.default_rng(1)
rows = random.normal(size=(2000, 20))
target = rows @ random.normal(size=20) + random.normal(size=2000)


def settings(threads):
    return dict(objective="regression", num_threads=threads, deterministic=True, force_row_wise=True, verbose=-1, seed=1)


data = lightgbm.Dataset(rows, target, params=settings(threads)).construct()


def total(model):
    return int(numpy.round(model.predict(rows[:100], num_threads=1) * 1e6).sum())


first = lightgbm.Booster(settings(1), data)
for _ in range(TREES):
    first.update()
total_now = total(first)
print('{"event":"ready","pid":%d}' % os.getpid(), flush=True)
began = told = time.monotonic()
count = 0
while True:
    model = lightgbm.Booster(settings(threads), data)
    for _ in range(TREES):
        model.update()
        count += 1
        now = time.monotonic()
        if now - told < 0.05:
            continue
        told = now
        line = '{"event":"pace","seconds":%.3f,"count":%d,"sum":%d}'
        print(line % (now - began, count, total_now), flush=True)
        if os.path.exists(end):
            sys.exit()
    total_now = total(model)
