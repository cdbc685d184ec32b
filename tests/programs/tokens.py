"""Computes tokens of a tiny language model with random weights, by llama.cpp, until it is ended.

    tokens.py DIRECTORY THREADS

Prints {"event":"ready",...}, then at most twenty times per second {"event":"pace","seconds":...,"count":...,"sum":...}:
the number of tokens, and a sum over those of the last complete text, which is constant. Ends when DIRECTORY/end exists."""
import ctypes
import importlib.util
import os
import sys
import time

import gguf
import numpy

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS, LENGTH = 256, 64, 192, 4, 4, 64

directory, threads = sys.argv[1], int(sys.argv[2])
end = os.path.join(directory, "end")


def write_model(path):
    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")
    writer.add_context_length(LENGTH)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)

    def add(name, *shape):
        tensor = random.normal(size=shape) if len(shape) > 1 else numpy.ones(shape)
        writer.add_tensor(name + ".weight", tensor.astype(numpy.float32))

    add("token_embd", VOCABULARY, WIDTH)
    add("output", VOCABULARY, WIDTH)
    add("output_norm", WIDTH)
    for layer in range(LAYERS):
        for name in "attn_q", "attn_k", "attn_v", "attn_output":
            add(f"blk.{layer}.{name}", WIDTH, WIDTH)
        for name in "ffn_gate", "ffn_up":
            add(f"blk.{layer}.{name}", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, HIDDEN)
        for name in "attn_norm", "ffn_norm":
            add(f"blk.{layer}.{name}", WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Parameters(ctypes.Structure):
    """Parameters as the library returns and takes them, in a buffer larger than the struct of any version."""

    _fields_ = [("bytes", ctypes.c_char * 1024)]


class Batch(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_int32), ("arrays", ctypes.c_void_p * 6)]


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def say_nothing(level, text, more):
    pass


def load(path):
    library = ctypes.CDLL(path)
    library.llama_log_set(say_nothing, None)
    functions = {
        "llama_model_default_params": (Parameters,),
        "llama_model_load_from_file": (ctypes.c_void_p, ctypes.c_char_p, Parameters),
        "llama_context_default_params": (Parameters,),
        "llama_init_from_model": (ctypes.c_void_p, ctypes.c_void_p, Parameters),
        "llama_set_n_threads": (None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32),
        "llama_batch_get_one": (Batch, ctypes.c_void_p, ctypes.c_int32),
        "llama_decode": (ctypes.c_int32, ctypes.c_void_p, Batch),
        "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_int32),
        "llama_get_memory": (ctypes.c_void_p, ctypes.c_void_p),
        "llama_memory_clear": (None, ctypes.c_void_p, ctypes.c_bool),
    }
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def next_token(token):
    batch = llama.llama_batch_get_one(ctypes.byref(ctypes.c_int32(token)), 1)
    if llama.llama_decode(context, batch) != 0:
        sys.exit("llama_decode failed")
    return int(numpy.ctypeslib.as_array(llama.llama_get_logits_ith(context, -1), (VOCABULARY,)).argmax())


def texts():
    """Yields after each token the sum over the tokens so far, and whether the text is complete."""
    while True:
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        token, total = 1, 0
        for place in range(1, LENGTH + 1):
            token = next_token(token)
            total += place * token
            yield total, place == LENGTH


def use(threads):
    llama.llama_set_n_threads(context, threads, threads)


llama = load(importlib.util.find_spec("xllamacpp.xllamacpp").origin)
path = os.path.join(directory, f"{os.getpid()}.gguf")
write_model(path)
model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
context = llama.llama_init_from_model(model, llama.llama_context_default_params())
use(1)
newest = next(total for total, complete in texts() if complete)
use(threads)
print('{"event":"ready","pid":%d}' % os.getpid(), flush=True)
began = reported = time.monotonic()
for count, (total, complete) in enumerate(texts(), 1):
    if complete:
        newest = total
    now = time.monotonic()
    if now - reported < 0.05:
        continue
    reported = now
    print('{"event":"pace","seconds":%.3f,"count":%d,"sum":%d}' % (now - began, count, newest), flush=True)
    if os.path.exists(end):
        break
