#!/usr/bin/env python3
"""Runs a matrix product from a tuned cache, through ctypes alone.

    run_matmul.py LIBARKE.SO CACHE

With PyTorch its tensors are used, on the GPU if there is one and on PyTorch's current stream; without, plain
memory on the emulator.
"""
import ctypes as C
import sys

SIZE = 256
MATCHES = ("exact", "bucket", "default")
DEVICE_CUDA, DEVICE_EMULATOR = 1, 2
DL_CPU, DL_BFLOAT = 1, 4


class DLTensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device_type", C.c_int),
        ("device_id", C.c_int),
        ("ndim", C.c_int),
        ("code", C.c_uint8),
        ("bits", C.c_uint8),
        ("lanes", C.c_uint16),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class ArkeError(C.Structure):
    _fields_ = [
        ("code", C.c_int),
        ("stage", C.c_char * 32),
        ("op", C.c_char * 64),
        ("config", C.c_char * 256),
        ("text", C.c_char * 2048),
    ]


class ArkeOptions(C.Structure):
    _fields_ = [
        ("cache_path", C.c_char_p),
        ("shipped_path", C.c_char_p),
        ("device", C.c_int),
        ("device_index", C.c_int),
        ("strict", C.c_int),
        ("allow_modelled", C.c_int),
    ]


class ArkePlanInfo(C.Structure):
    _fields_ = [
        ("match", C.c_int),
        ("modelled", C.c_int),
        ("time_ns", C.c_double),
        ("key", C.c_char_p),
        ("config", C.c_char_p),
        ("cache_path", C.c_char_p),
        ("launches", C.c_int),
    ]


class Arke:
    """The functions of arke.h, with statuses turned into exceptions."""

    def __init__(self, library, cache, device):
        self.lib = C.CDLL(library)
        self.lib.arke_plan_describe.restype = ArkePlanInfo
        self.lib.arke_workspace_bytes.restype = C.c_size_t
        self.lib.arke_status_name.restype = C.c_char_p
        self.context = C.c_void_p()
        options = ArkeOptions(cache.encode(), None, device, 0, 0, 1)
        self.call("arke_open", C.byref(options), C.byref(self.context))

    def call(self, name, *arguments):
        error = ArkeError()
        status = getattr(self.lib, name)(*arguments, C.byref(error))
        if status != 0:
            raise RuntimeError(f"{self.lib.arke_status_name(status).decode()}: {error.text.decode()}")

    def plan(self, op, tensors):
        plan = C.c_void_p()
        pointers = (C.POINTER(DLTensor) * len(tensors))(*map(C.pointer, tensors))
        self.call("arke_plan_create", self.context, op.encode(), pointers, len(tensors), None, 0, C.byref(plan))
        return plan

    def run(self, plan, tensors, stream=None, workspace=None):
        pointers = (C.POINTER(DLTensor) * len(tensors))(*map(C.pointer, tensors))
        self.call("arke_run", plan, pointers, len(tensors), C.c_void_p(stream), C.c_void_p(workspace))

    def close(self, *plans):
        for plan in plans:
            self.lib.arke_plan_destroy(plan)
        self.lib.arke_close(self.context)


def describe(arke, plan):
    info = arke.lib.arke_plan_describe(plan)
    origin = "modelled" if info.modelled else "measured"
    print(f"{MATCHES[info.match]} match, {origin} {info.time_ns / 1000:.1f} us at the tuned sizes")
    print(f"  key     {info.key.decode()}\n  config  {info.config.decode()}")


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
    arke = Arke(library, cache, DEVICE_EMULATOR)
    data = [aligned(SIZE * SIZE) for _ in range(3)]
    for i in range(2):
        for k in range(SIZE * SIZE):
            data[i][k] = to_bf16(k * (7 + i) // 3 % 5 - 2)
    shape = (C.c_int64 * 2)(SIZE, SIZE)
    tensors = [DLTensor(C.addressof(d), DL_CPU, 0, 2, DL_BFLOAT, 16, 1, shape, None, 0) for d in data]
    plan = arke.plan("matmul", tensors)
    describe(arke, plan)
    workspace = aligned(arke.lib.arke_workspace_bytes(plan) // 2 + 1)
    arke.run(plan, tensors, workspace=C.addressof(workspace))
    arke.close(plan)
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
    arke = Arke(library, cache, DEVICE_CUDA if cuda else DEVICE_EMULATOR)
    tensors = [torch.randint(-2, 3, (SIZE, SIZE)).to(torch.bfloat16) for _ in range(3)]
    if cuda:
        tensors = [t.cuda() for t in tensors]
    # A capsule holds a DLManagedTensor, whose first member is the DLTensor; it stays valid while the capsule lives.
    capsules = [torch.utils.dlpack.to_dlpack(t) for t in tensors]
    pointer = C.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = C.c_void_p, (C.py_object, C.c_char_p)
    views = [DLTensor.from_address(pointer(capsule, b"dltensor")) for capsule in capsules]
    plan = arke.plan("matmul", views)
    describe(arke, plan)
    workspace = torch.empty(arke.lib.arke_workspace_bytes(plan) + 256, dtype=torch.uint8, device=tensors[0].device)
    address = (workspace.data_ptr() + 255) // 256 * 256
    stream = torch.cuda.current_stream().cuda_stream if cuda else None
    arke.run(plan, views, stream, address)
    expected = (tensors[0].double() @ tensors[1].double()).cpu()
    error = (tensors[2].double().cpu() - expected).abs().max().item()
    print(f"  largest error {error:g} of {expected.abs().max().item():g}")
    arke.close(plan)
    if error > expected.abs().max().item() / 256:
        sys.exit("a wrong result")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        import torch
        import torch.utils.dlpack
    except ImportError:
        with_plain_memory(*sys.argv[1:])
    else:
        with_torch(*sys.argv[1:], torch)


if __name__ == "__main__":
    main()
