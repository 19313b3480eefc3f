#!/usr/bin/env python3
"""check_python.py ARKE_TUNE LIBRARY FOLDER: what is used after it was closed raises, whatever was closed first,
and so do faults in the arguments of a context."""
import ctypes
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import arke  # noqa: E402

program, library, folder = sys.argv[1:]
cache = f"{folder}/check_python.arke"
subprocess.run([program, "--op", "silu_and_mul", "--shape", "4x8", "--dtype", "f32", "--device", "emulator", "--trials", "1",
                "--jobs", "1", "--cache", cache], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def tensor(rows, columns):
    data = (ctypes.c_float * (rows * columns))(*range(rows * columns))
    shape = (ctypes.c_int64 * 2)(rows, columns)
    alive.extend((data, shape))
    return arke.DLTensor(ctypes.addressof(data), arke.DL_CPU, 0, 2, arke.DL_FLOAT, 32, 1, shape, None, 0)


def must_raise(what, call, says="closed"):
    try:
        call()
    except arke.Error as e:
        assert says in e.text, e
    else:
        sys.exit(f"{what} raised nothing")


alive = []
tensors = [tensor(4, 16), tensor(4, 8)]
must_raise("an unknown device", lambda: arke.Context(library, cache, device="gpu"), "accepted are auto, cuda, emulator")
must_raise("a NUL in a path", lambda: arke.Context(library, cache + "\0.arke", device="emulator"), "NUL")
must_raise("a path that is no UTF-8", lambda: arke.Context(library, cache.encode() + b"\xff", device="emulator"), "\\xff")
context = arke.Context(library, Path(cache), device="emulator", allow_modelled=True)
plan, other = context.plan("silu_and_mul", tensors), context.plan("silu_and_mul", tensors)
plan.run(tensors)
other.close()
must_raise("a closed plan", lambda: other.run(tensors))
context.close()
must_raise("a plan of a closed context", lambda: plan.run(tensors))
must_raise("a closed context", lambda: context.plan("silu_and_mul", tensors))
plan.close()
context.close()
