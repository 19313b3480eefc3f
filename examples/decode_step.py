#!/usr/bin/env python3
"""One layer's attention in a step of decoding, from a paged cache, through python/arke.py.

    decode_step.py LIBARKE.SO CACHE

The cache is that of `arke-tune sweep workloads/serve-smoke.json -o CACHE`. With PyTorch its tensors are used, on the GPU
if there is one; without, plain memory on the emulator.
"""
import ctypes as C
import math
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import arke  # noqa: E402

REQUESTS, HEADS, GROUPS, WIDTH = 2, 8, 2, 64  # query heads, heads of keys and values, elements of a head
PAGES, PAGE, MOST = 12, 16, 4  # pages of the pool, tokens of a page, pages of a request
LENGTHS = [5, 37]  # tokens that are in the cache before this step
TABLE = [[7, -1, -1, -1], [3, 0, 11, -1]]  # the pages of each request; -1: none yet

CODES = {"f16": (arke.DL_FLOAT, 16, "e"), "f32": (arke.DL_FLOAT, 32, "f"),
         "i32": (arke.DL_INT, 32, "i"), "i64": (arke.DL_INT, 64, "q")}  # fmt: skip


class PlainTensor:
    """Memory of our own on a 256-byte boundary, and its DLTensor."""

    def __init__(self, kind, shape, values):
        code, bits, letter = CODES[kind]
        self.format = f"<{len(values)}{letter}"
        self.raw = C.create_string_buffer(len(values) * bits // 8 + 256)
        self.first = -C.addressof(self.raw) % 256
        struct.pack_into(self.format, self.raw, self.first, *values)
        self.shape = (C.c_int64 * len(shape))(*shape)
        self.view = arke.DLTensor(C.addressof(self.raw) + self.first, arke.DL_CPU, 0, len(shape), code, bits, 1,
                                  self.shape, None, 0)  # fmt: skip

    def read(self):
        return struct.unpack_from(self.format, self.raw, self.first)


class TorchTensor:
    def __init__(self, torch, kind, shape, values):
        dtype = {"f16": torch.float16, "f32": torch.float32, "i32": torch.int32, "i64": torch.int64}[kind]
        self.view = torch.tensor(values, dtype=dtype).reshape(shape)
        if torch.cuda.is_available():
            self.view = self.view.cuda()

    def read(self):
        return self.view.flatten().tolist()


def normal(count):
    return [random.gauss(0, 1) for _ in range(count)]


def step(context, make, stream):
    """The new token's keys and values go to the cache, and its query looks at all of its request."""
    rows = REQUESTS * GROUPS * WIDTH
    pool = (PAGES, PAGE, GROUPS, WIDTH)
    keys, values = (make("f16", pool, normal(math.prod(pool))) for _ in range(2))
    new_keys, new_values = (make("f16", (REQUESTS, GROUPS, WIDTH), normal(rows)) for _ in range(2))
    query = make("f16", (REQUESTS, 1, HEADS, WIDTH), normal(REQUESTS * HEADS * WIDTH))
    # Token number n of a request lies in place n % PAGE of its page n / PAGE.
    slots = [table[n // PAGE] * PAGE + n % PAGE for table, n in zip(TABLE, LENGTHS)]
    slots = make("i64", (REQUESTS,), slots)
    one = make("f32", (), [1.0])
    table = make("i32", (REQUESTS, MOST), [page for pages in TABLE for page in pages])
    lengths = make("i32", (REQUESTS,), [n + 1 for n in LENGTHS])
    output = make("f16", (REQUESTS, 1, HEADS, WIDTH), [math.nan] * (REQUESTS * HEADS * WIDTH))
    lse = make("f32", (REQUESTS, 1, HEADS), [math.nan] * (REQUESTS * HEADS))

    # K, V, slots, pools of keys and of values (written in place, so passed once), scales
    write = [new_keys, new_values, slots, keys, values, one, one]
    attend = [query, keys, values, table, lengths, output, lse]
    for op, tensors in (("cache_write", write), ("paged_attention", attend)):
        views = [t.view for t in tensors]
        with context.plan(op, views) as plan:
            print(f"{op}: {plan.match} match, {plan.launches} kernels, {plan.workspace_bytes} bytes of workspace")
            workspace = make("f32", (plan.workspace_bytes // 4 + 64,), [0.0] * (plan.workspace_bytes // 4 + 64))
            address = workspace.view.data if isinstance(workspace, PlainTensor) else workspace.view.data_ptr()
            plan.run(views, stream, (address + 255) // 256 * 256)
    return query.read(), keys.read(), values.read(), output.read()


def expected(query, keys, values, request, head):
    """Softmax over the request's tokens, in Python."""
    first = (request * HEADS + head) * WIDTH
    group = head // (HEADS // GROUPS)
    places = [TABLE[request][n // PAGE] * PAGE + n % PAGE for n in range(LENGTHS[request] + 1)]
    rows = [(place * GROUPS + group) * WIDTH for place in places]
    scores = [sum(query[first + d] * keys[row + d] for d in range(WIDTH)) / math.sqrt(WIDTH) for row in rows]
    weights = [math.exp(s - max(scores)) for s in scores]
    return [sum(w * values[row + d] for w, row in zip(weights, rows)) / sum(weights) for d in range(WIDTH)]


def check(query, keys, values, output):
    worst = 0.0
    for request in range(REQUESTS):
        for head in range(HEADS):
            first = (request * HEADS + head) * WIDTH
            right = expected(query, keys, values, request, head)
            worst = max(worst, max(abs(output[first + d] - right[d]) for d in range(WIDTH)))
    print(f"largest error {worst:.2g}")
    if not worst < 4e-3:
        sys.exit("a wrong result")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    random.seed(1)
    device, stream, make = "emulator", None, PlainTensor
    try:
        import torch
    except ImportError:
        pass
    else:
        if torch.cuda.is_available():
            device, stream = "cuda", torch.cuda.current_stream().cuda_stream

        def make(kind, shape, values):
            return TorchTensor(torch, kind, shape, values)

    print(f"device: {device}")
    try:
        with arke.Context(sys.argv[1], sys.argv[2], device, allow_modelled=True) as context:
            check(*step(context, make, stream))
    except (arke.Error, OSError) as error:  # OSError: there is no such library
        sys.exit(f"decode_step.py: {error}")


if __name__ == "__main__":
    main()
