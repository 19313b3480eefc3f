"""Device times of calls by CUPTI, through torch.profiler (docs/performance.md, "Against PyTorch").

The time of a call is the union of the intervals of what it runs on the GPU: gaps between its kernels, host time and
launch latency do not count. Before every call the L2 cache is flushed by zeroing a buffer of twice its size."""
import statistics

import torch
from torch.profiler import ProfilerActivity, profile

MARKER = "erfinv"  # a kernel that no operator here launches, by the name it has in the records


class Flusher:
    """Puts other data into the L2 cache, then marks the start of a call on the device's time line."""

    def __init__(self):
        self.buffer = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.int8, device="cuda")
        self.marker = torch.zeros(1, device="cuda")

    def flush(self):
        self.buffer.zero_()
        self.marker.erfinv_()
        torch.cuda.synchronize()


def union_us(intervals):
    """Length of the union of (begin, end) pairs."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def split_calls(records, n):
    """The records of each of n calls: those after its marker, up to the flush before the next one."""
    starts = [i for i, r in enumerate(records) if MARKER in r[2]]
    if len(starts) != n + 1:
        raise RuntimeError(f"{len(starts)} markers in the records of {n} calls")
    calls = []
    for first, last in zip(starts, starts[1:]):
        calls.append(records[first + 1 : last - 1])  # the record before a marker is its flush
    return calls


def device_records(prof):
    cuda = torch.autograd.DeviceType.CUDA
    events = (e for e in prof.events() if e.device_type == cuda)
    return sorted((e.time_range.start, e.time_range.end, e.name) for e in events)


def interleaved(contestants, flusher, rounds, warmups=3):
    """Times {name: callable} in one process: each round runs all of them in order, then in reverse order. Returns
    {name: list of device times in microseconds}, two for each round."""
    names = list(contestants)
    order = [name for _ in range(rounds) for name in names + names[::-1]]
    for name in names:
        for _ in range(warmups):
            contestants[name]()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for name in order:
            flusher.flush()
            contestants[name]()
        flusher.flush()
    times = {name: [] for name in names}
    for name, records in zip(order, split_calls(device_records(prof), len(order))):
        if not records:
            raise RuntimeError(f"{name} ran nothing on the device")
        times[name].append(union_us((begin, end) for begin, end, _ in records))
    return times


def summary(times_us):
    ordered = sorted(times_us)
    n = len(ordered)
    return {
        "median_us": statistics.median(ordered),
        "p10_us": ordered[n // 10],
        "p90_us": ordered[n - 1 - n // 10],
        "samples": n,
    }


def copy_bandwidth(flusher, mib=1024, rounds=10):
    """Bytes read and written a second by a device-to-device copy, timed the same way."""
    source = torch.empty(mib << 20, dtype=torch.int8, device="cuda").random_()
    target = torch.empty_like(source)
    times = interleaved({"copy": lambda: target.copy_(source)}, flusher, rounds)
    return 2 * source.numel() / (summary(times["copy"])["median_us"] * 1e-6)
