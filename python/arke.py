"""The runtime of Arke from Python: ctypes over libarke.so (include/arke/arke.h), tensors by DLPack.

    with arke.Context("libarke.so", "tuned.arke") as context:
        plan = context.plan("softmax", [x, y])
        plan.run([x, y], stream=torch.cuda.current_stream().cuda_stream)

A tensor is anything with __dlpack__ (PyTorch, CuPy, JAX, NumPy) or a DLTensor of your own; inputs come first, then
outputs. Functions raise arke.Error with the library's sentence, and so does what is used after it was closed. A plan
holds no tensors; its workspace, if it needs one, is the caller's (Plan.workspace_bytes)."""
import ctypes as C
import os

DEVICES = {"auto": 0, "cuda": 1, "emulator": 2}
MATCHES = ("exact", "bucket", "default")
DL_CPU, DL_CUDA = 1, 2
DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT, DL_BOOL = 0, 1, 2, 4, 6

# 8-bit floats, by DLPack 1.1; array libraries that cannot export them yet are read by hand.
FLOAT8_CODES = {"float8_e4m3fn": 10, "float8_e5m2": 12}


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


class _Error(C.Structure):
    _fields_ = [
        ("code", C.c_int),
        ("stage", C.c_char * 32),
        ("op", C.c_char * 64),
        ("config", C.c_char * 256),
        ("text", C.c_char * 2048),
    ]


class _Options(C.Structure):
    _fields_ = [
        ("cache_path", C.c_char_p),
        ("shipped_path", C.c_char_p),
        ("device", C.c_int),
        ("device_index", C.c_int),
        ("strict", C.c_int),
        ("allow_modelled", C.c_int),
        ("fast_math", C.c_int),
        ("check_indices", C.c_int),
    ]


class _Attr(C.Structure):
    _fields_ = [("name", C.c_char_p), ("value", C.c_double)]


class _PlanInfo(C.Structure):
    _fields_ = [
        ("match", C.c_int),
        ("modelled", C.c_int),
        ("time_ns", C.c_double),
        ("key", C.c_char_p),
        ("config", C.c_char_p),
        ("cache_path", C.c_char_p),
        ("launches", C.c_int),
    ]


class Error(RuntimeError):
    """What arke_error holds: `status` is the name of the code."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


def dltensor(array):
    """A DLTensor of an array, and what must live as long as it does."""
    if isinstance(array, DLTensor):
        return array, None
    name = str(getattr(array, "dtype", "")).rpartition(".")[2]
    if name in FLOAT8_CODES:
        return _by_hand(array, FLOAT8_CODES[name])
    capsule = array.__dlpack__()
    pointer = C.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = C.c_void_p, (C.py_object, C.c_char_p)
    # The capsule holds a DLManagedTensor, whose first member is the DLTensor.
    return DLTensor.from_address(pointer(capsule, b"dltensor")), capsule


def _by_hand(tensor, code):
    """A PyTorch tensor of 8-bit floats."""
    shape = (C.c_int64 * tensor.dim())(*tensor.shape)
    strides = (C.c_int64 * tensor.dim())(*tensor.stride())
    cuda = tensor.device.type == "cuda"
    view = DLTensor(tensor.data_ptr(), DL_CUDA if cuda else DL_CPU, tensor.device.index or 0, tensor.dim(), code, 8, 1,
                    shape, strides, 0)
    return view, (tensor, shape, strides)


class Call:
    """The tensors of a call, as arke_run takes them; keep one to run a plan again without making it anew."""

    def __init__(self, arrays):
        pairs = [dltensor(a) for a in arrays]
        self.views = [view for view, _ in pairs]
        self.alive = [owner for _, owner in pairs]
        self.pointers = (C.POINTER(DLTensor) * len(pairs))(*map(C.pointer, self.views))

    def __len__(self):
        return len(self.views)


def _call(arrays):
    return arrays if isinstance(arrays, Call) else Call(arrays)


class Context:
    """An open cache and a device (arke_open)."""

    def __init__(self, library, cache, device="auto", device_index=0, strict=False, allow_modelled=False,
                 fast_math=False, check_indices=False):  # fmt: skip
        self.lib = C.CDLL(library)
        self.lib.arke_plan_describe.restype = _PlanInfo
        self.lib.arke_plan_describe.argtypes = [C.c_void_p]
        self.lib.arke_workspace_bytes.restype = C.c_size_t
        self.lib.arke_workspace_bytes.argtypes = [C.c_void_p]
        self.lib.arke_status_name.restype = C.c_char_p
        self.lib.arke_plan_destroy.argtypes = self.lib.arke_close.argtypes = [C.c_void_p]
        self.handle, self.plans = None, set()
        if device not in DEVICES:
            raise Error("ARKE_ERR_ARGUMENT", f"device is {device!r}; accepted are {', '.join(DEVICES)}")
        path = os.fsencode(cache)
        if b"\0" in path:  # where C would take the path to end
            raise Error("ARKE_ERR_ARGUMENT", f"cache is {cache!r}, which has a NUL byte; accepted is a file's path")
        handle = C.c_void_p()
        options = _Options(path, None, DEVICES[device], device_index, strict, allow_modelled, fast_math,
                           check_indices)  # fmt: skip
        self.call("arke_open", C.byref(options), C.byref(handle))
        self.handle = handle

    def call(self, name, *arguments):
        error = _Error()
        status = getattr(self.lib, name)(*arguments, C.byref(error))
        if status != 0:
            raise Error(self.lib.arke_status_name(status).decode(), error.text.decode(errors="backslashreplace"))

    def device(self):
        self.require_open()
        kind = self.lib.arke_context_device(self.handle)
        return next(name for name, number in DEVICES.items() if number == kind)

    def plan(self, op, arrays, attrs=None):
        """The kernels for these tensors (arke_plan_create); `attrs` is a dict of the operator's attributes."""
        self.require_open()
        call = _call(arrays)
        attrs = attrs or {}
        list_ = (_Attr * len(attrs))(*(_Attr(k.encode(), float(v)) for k, v in attrs.items()))
        handle = C.c_void_p()
        self.call("arke_plan_create", self.handle, op.encode(), call.pointers, len(call), list_, len(attrs), C.byref(handle))
        return Plan(self, handle)

    def require_open(self):
        if self.handle is None:
            raise Error("ARKE_ERR_ARGUMENT", "the context is closed")

    def close(self):
        """Ends its plans, too: none of them can be run afterwards."""
        if self.handle is None:
            return
        for plan in list(self.plans):
            plan.close()
        self.lib.arke_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Plan:
    def __init__(self, context, handle):
        self.context = context
        self.handle = handle
        context.plans.add(self)
        info = context.lib.arke_plan_describe(handle)
        self.match = MATCHES[info.match]
        self.modelled = bool(info.modelled)
        self.time_ns = info.time_ns
        self.key, self.config = info.key.decode(), info.config.decode()
        self.launches = info.launches
        self.workspace_bytes = context.lib.arke_workspace_bytes(handle)

    def run(self, arrays, stream=None, workspace=None):
        """Enqueues on `stream` (an integer, as torch's cuda_stream). `workspace`: a device address, 256-byte aligned."""
        if self.handle is None:
            raise Error("ARKE_ERR_ARGUMENT", "the plan is closed, or its context")
        call = _call(arrays)
        self.context.call("arke_run", self.handle, call.pointers, len(call), C.c_void_p(stream), C.c_void_p(workspace))

    def close(self):
        if self.handle is None:
            return
        self.context.plans.discard(self)
        self.context.lib.arke_plan_destroy(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
