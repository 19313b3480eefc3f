#!/usr/bin/env python3
"""Runs a matrix product from a tuned cache, through python/arke.py.

    run_matmul.py LIBARKE.SO CACHE

With PyTorch its tensors are used, on the GPU if there is one and on PyTorch's current stream; without, plain
memory on the emulator.
"""
import ctypes as C
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import arke  # noqa: E402

SIZE = 256


def describe(plan):
    origin = "modelled" if plan.modelled else "measured"
    print(f"{plan.match} match, {origin} {plan.time_ns / 1000:.1f} us at the tuned sizes")
    print(f"  key     {plan.key}\n  config  {plan.config}")


def from_bf16(bits):
    return C.c_float.from_buffer(C.c_uint32(bits << 16)).value


def to_bf16(value):
    """Rounds to the nearest, in the middle to the even one; bf16 is the upper half of an f32."""
    bits = C.c_uint32.from_buffer(C.c_float(value)).value
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def aligned(count):
    """Memory for `count` 16-bit elements, on a 256-byte boundary."""
    raw = C.create_string_buffer(count * 2 + 256)
    return (C.c_uint16 * count).from_buffer(raw, -C.addressof(raw) % 256)


def with_plain_memory(library, cache):
    print("device: emulator on the CPU, since there is no PyTorch to take GPU memory from")
    data = [aligned(SIZE * SIZE) for _ in range(3)]
    for i in range(2):
        for k in range(SIZE * SIZE):
            data[i][k] = to_bf16(k * (7 + i) // 3 % 5 - 2)
    shape = (C.c_int64 * 2)(SIZE, SIZE)
    bf16 = (arke.DL_BFLOAT, 16, 1)
    tensors = [arke.DLTensor(C.addressof(d), arke.DL_CPU, 0, 2, *bf16, shape, None, 0) for d in data]
    with arke.Context(library, cache, "emulator", allow_modelled=True) as context:
        with context.plan("matmul", tensors) as plan:
            describe(plan)
            workspace = aligned(plan.workspace_bytes // 2 + 1)
            plan.run(tensors, workspace=C.addressof(workspace))
    a, b, y = ([from_bf16(x) for x in d] for d in data)
    for row, column in ((0, 0), (100, 7), (255, 254)):
        expected = sum(a[row * SIZE + k] * b[k * SIZE + column] for k in range(SIZE))
        expected = from_bf16(to_bf16(expected))
        found = y[row * SIZE + column]
        print(f"  Y[{row},{column}] = {found:g}, expected {expected:g} in bf16")
        if abs(found - expected) > abs(expected) / 256:
            sys.exit("a wrong result")


def with_torch(library, cache, torch):
    cuda = torch.cuda.is_available()
    print("device: GPU, since PyTorch has one" if cuda else "device: emulator on the CPU, since PyTorch has no GPU")
    tensors = [torch.randint(-2, 3, (SIZE, SIZE)).to(torch.bfloat16) for _ in range(3)]
    if cuda:
        tensors = [t.cuda() for t in tensors]
    with arke.Context(library, cache, "cuda" if cuda else "emulator", allow_modelled=True) as context:
        plan = context.plan("matmul", tensors)
        describe(plan)
        workspace = torch.empty(plan.workspace_bytes + 256, dtype=torch.uint8, device=tensors[0].device)
        address = (workspace.data_ptr() + 255) // 256 * 256
        stream = torch.cuda.current_stream().cuda_stream if cuda else None
        plan.run(tensors, stream, address)
        plan.close()
    expected = (tensors[0].double() @ tensors[1].double()).cpu()
    error = (tensors[2].double().cpu() - expected).abs().max().item()
    print(f"  largest error {error:g} of {expected.abs().max().item():g}")
    if error > expected.abs().max().item() / 256:
        sys.exit("a wrong result")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        import torch
    except ImportError:
        torch = None
    try:
        if torch is None:
            with_plain_memory(*sys.argv[1:])
        else:
            with_torch(*sys.argv[1:], torch)
    except (arke.Error, OSError) as error:  # OSError: there is no such library
        sys.exit(f"run_matmul.py: {error}")


if __name__ == "__main__":
    main()
