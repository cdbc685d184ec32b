"""Computes a chain of matrix products by ONNX Runtime until it is ended.

    infer.py DIRECTORY THREADS

Prints {"event":"ready",...}, then twenty times per second {"event":"pace","seconds":...,"count":...,"sum":...}. The
sum is constant: that of one result, times 1000. Ends when DIRECTORY/end exists."""
import os
import sys
import time

import numpy
import onnxruntime

ROWS, WIDTH, LAYERS = 16, 256, 20

end, threads = os.path.join(sys.argv[1], "end"), int(sys.argv[2])


def varint(number):
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


# Fields of the file format, Protocol Buffers: onnx.proto has their numbers.
def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def matrix(name):
    shape = b"".join(data(1, number(1, size)) for size in (ROWS, WIDTH))
    return data(1, name) + data(2, data(1, number(1, 1) + data(2, shape)))


def model():
    random = numpy.random.default_rng(1)
    graph = data(2, "chain") + data(11, matrix("x0")) + data(12, matrix(f"x{LAYERS}"))
    for layer in range(LAYERS):
        names = data(1, f"x{layer}") + data(1, f"w{layer}") + data(2, f"x{layer + 1}")
        graph += data(1, names + data(4, "MatMul"))
        weights = random.standard_normal((WIDTH, WIDTH)).astype(numpy.float32) / WIDTH**0.5
        shape = number(1, WIDTH) + number(1, WIDTH) + number(2, 1)
        graph += data(5, shape + data(8, f"w{layer}") + data(9, weights.tobytes()))
    return number(1, 8) + data(8, number(2, 13)) + data(7, graph)


options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])
given = {"x0": numpy.ones((ROWS, WIDTH), numpy.float32)}
print('{"event":"ready","pid":%d}' % os.getpid(), flush=True)
began = printed = time.monotonic()
count = 0
while True:
    (result,) = session.run(None, given)
    count += 1
    now = time.monotonic()
    if now - printed < 0.05:
        continue
    printed = now
    line = '{"event":"pace","seconds":%.3f,"count":%d,"sum":%d}'
    print(line % (now - began, count, abs(int(1000 * result.sum()))), flush=True)
    if os.path.exists(end):
        break
