"""Gradient boosting with a library that states its OpenMP team size in every region, until it is ended.

    trees.py DIRECTORY lightgbm|xgboost THREADS [ROWS]

With 0 threads the library leaves their number to OpenMP.

Prints {"event":"ready",...}, then at most twenty times per second {"event":"pace","seconds":...,"count":...,"sum":...}:
the number of trees, and the prediction of the last complete model, which is constant. Ends when DIRECTORY/end exists."""
import os
import sys
import time

import numpy

TREES = 20

end, library, threads = os.path.join(sys.argv[1], "end"), sys.argv[2], int(sys.argv[3])
random = numpy.random.default_rng(1)
number = int(sys.argv[4]) if len(sys.argv) > 4 else 2000
rows = random.normal(size=(number, 20))
target = rows @ random.normal(size=20) + random.normal(size=number)


class LightGbm:
    def __init__(self):
        import lightgbm

        self.lightgbm = lightgbm
        self.data = lightgbm.Dataset(rows, target, params=self.settings(threads)).construct()

    def settings(self, threads):
        return dict(objective="regression", num_threads=threads, deterministic=True, force_row_wise=True, verbose=-1, seed=1)

    def model(self, threads):
        return self.lightgbm.Booster(self.settings(threads), self.data)

    def grow(self, model, tree):
        model.update()

    def predict(self, model):
        return model.predict(rows[:100], num_threads=1)


class XgBoost:
    def __init__(self):
        import xgboost

        self.xgboost = xgboost
        self.data = xgboost.DMatrix(rows, target, nthread=threads)
        self.probe = xgboost.DMatrix(rows[:100], nthread=1)

    def model(self, threads):
        return self.xgboost.Booster(dict(tree_method="hist", nthread=threads, verbosity=0, seed=1), [self.data])

    def grow(self, model, tree):
        model.update(self.data, tree)

    def predict(self, model):
        model.set_param("nthread", 1)
        return model.predict(self.probe).astype(float)


trees = LightGbm() if library == "lightgbm" else XgBoost()


def total(model):
    return int(numpy.round(trees.predict(model) * 1e6).sum())


first = trees.model(1)
for tree in range(TREES):
    trees.grow(first, tree)
total_now = total(first)
print('{"event":"ready","pid":%d}' % os.getpid(), flush=True)
began = reported = time.monotonic()
count = 0
while True:
    model = trees.model(threads)
    for tree in range(TREES):
        trees.grow(model, tree)
        count += 1
        now = time.monotonic()
        if now - reported < 0.05:
            continue
        reported = now
        line = '{"event":"pace","seconds":%.3f,"count":%d,"sum":%d}'
        print(line % (now - began, count, total_now), flush=True)
        if os.path.exists(end):
            sys.exit()
    total_now = total(model)
