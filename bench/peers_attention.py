#!/usr/bin/env python3
"""Times attention and cache operators at published workloads, in one process on one GPU.

    bench/peers_attention.py --arke-tune build/arke-tune --library build/libarke.so --cache attention.arke --tune 10s \\
        --workload workloads/attention-published.json --output attention.json

Each row (bench/attention_rows.py): tunes what the cache lacks (--tune), makes inputs in the published layout, with lengths,
offsets and pages as published, checks some requests and heads against PyTorch in double precision, and times Arke, beside
PyTorch's attention (cuDNN where it can) for operators that it has, as bench/peers.py does. Prints Arke's time, the best
published time over it, and cuDNN's over it: above 1 Arke is faster. --shrink checks small rows of the same kind without a
GPU, on Arke's emulator."""
import argparse
import json
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import attention_rows  # noqa: E402
import peers  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

DEVICE = peers.DEVICE
REQUESTS, HEADS, QUERIES = 3, 2, 256  # of a row that are checked, at most


class Row:
    """One published row: its problem, its tensors, and what they mean by request."""

    def __init__(self, catalogue, entry):
        self.entry, self.op, self.sizes, self.attrs = entry, entry["op"], entry["sizes"], entry.get("attrs", {})
        self.problem = peers.from_workload(catalogue, entry)
        self.note = entry["note"]
        self.published_us = self.note.get("published_us", {})

    def make(self, seed):
        generator = torch.Generator(device=DEVICE).manual_seed(seed)
        held = attention_rows.contents(self.entry)
        layouts = attention_rows.LAYOUTS.get(self.op, {})
        self.tensors = {}
        for name, dtype, shape in self.problem.inputs + [t for t in self.problem.outputs if not self.problem.in_place]:
            if name in held:
                values = torch.tensor(held[name], dtype=dtype, device=DEVICE)
                self.tensors[name] = values.reshape(shape)
                continue
            if name == "idx":
                self.tensors[name] = self.named_keys(shape, dtype)
                continue
            if name in ("cosines", "sines"):
                self.tensors[name] = rotations(name, *shape).to(dtype)
                continue
            order = layouts.get(name, range(len(shape)))
            published = [0] * len(shape)
            for ours, theirs in enumerate(order):
                published[theirs] = shape[ours]
            x = torch.randn(published, generator=generator, device=DEVICE, dtype=torch.float32) if math.prod(shape) < 1 << 30 \
                else torch.empty(published, device=DEVICE, dtype=torch.float16).normal_(generator=generator)  # fmt: skip
            self.tensors[name] = x.to(dtype).permute(*order) if len(shape) else x.to(dtype)
        return self.tensors

    def named_keys(self, shape, dtype):
        """Of the keys that a query may see different ones, in no order; the number of keys where there are too few."""
        _, s, n = shape
        there = (torch.arange(s, device=DEVICE) + self.attrs["first"] + 1).clamp(max=self.sizes["R"])[:, None]
        place = torch.arange(n, device=DEVICE)[None]
        step = torch.where(there % 7919 == 0, 7907, 7919)  # primes
        return torch.where(place < there, (place * step + 13) % there, self.sizes["R"]).to(dtype).expand(shape).contiguous()

    def arguments(self):
        own = self.problem.inputs if self.problem.in_place else self.problem.inputs + self.problem.outputs
        return [self.tensors[name] for name, _, _ in own]


def rotations(name, positions, frequencies):
    """Cosines or sines of angles as Llama has them."""
    slopes = 10000.0 ** (-torch.arange(frequencies, device=DEVICE, dtype=torch.float64) / frequencies)
    angles = torch.arange(positions, device=DEVICE, dtype=torch.float64)[:, None] * slopes
    return angles.cos() if name == "cosines" else angles.sin()


def rotated(row, x, first):
    """Rows [S, H, D] at places `first` and on (or at those), as the operator rotates and rounds them; as they are where it
    does not."""
    t = row.tensors
    if "cosines" not in t:
        return x
    at = first if torch.is_tensor(first) else torch.arange(x.shape[0], device=DEVICE) + first
    at = at.clamp(0, t["cosines"].shape[0] - 1)
    c, s = (t[name][at][:, None].float() for name in ("cosines", "sines"))
    f, y = c.shape[-1], x.float()
    pairs = (slice(0, 2 * f, 2), slice(1, 2 * f, 2)) if row.attrs.get("interleaved") else (slice(0, f), slice(f, 2 * f))
    a, b = (y[..., part].clone() for part in pairs)
    y[..., pairs[0]], y[..., pairs[1]] = a * c - b * s, b * c + a * s
    return y.to(x.dtype)


def scale_of(row):
    s = row.sizes
    return 1 / math.sqrt(s["C"] + s["E"] if "C" in s else s["D"])


def pages_of(row, name, request):
    """Rows of a pool that a request's table leads to, as [keys, …]."""
    t = row.tensors
    used = t["table"][request].long()[: -(-int(t["lens"][request]) // row.sizes["Z"])]
    rows = raw(t[name])[used].view(t[name].dtype).flatten(0, 1)[: int(t["lens"][request])]
    scale = {"Kp": "sk", "Vp": "sv"}.get(name)
    return rows.float() * t[scale] if scale in t else rows


def raw(x):
    """8-bit floats as bytes: PyTorch moves those anywhere."""
    return x.view(torch.uint8) if x.dtype.itemsize == 1 else x


class Request:
    """Queries [S, H, D], keys [R, G, D] and values [R, G, E] of one request, and where its outputs are: [S, H, E]."""

    def __init__(self, q, k, v, o):
        self.q, self.k, self.v, self.o = q, k, v, o


def scaled(row, x, name, b):
    """Rows [S, H, D] of 8-bit floats times their request's scales; others as they are."""
    t = row.tensors
    if name not in t or t[name].dim() < 2:
        return x
    scales = t[name][b].float()
    return x.float() * scales.repeat_interleave(x.shape[1] // scales.shape[0])[:, None]


def request_of(row, b):
    t, op = row.tensors, row.op
    if op.startswith("varlen"):
        q = slice(int(t["cu_q"][b]), int(t["cu_q"][b + 1]))
        k = slice(int(t["cu_k"][b]), int(t["cu_k"][b + 1]))
        first = (k.stop - k.start) - (q.stop - q.start)
        queries, keys, values = (scaled(row, t[n][at], f"s{n.lower()}", b) for n, at in (("Q", q), ("K", k), ("V", k)))
        return Request(rotated(row, queries, first), rotated(row, keys, 0), values, t["O"][q])
    if op == "multi_latent_attention":
        k = torch.cat((t["KV"][b], t["Kr"][b]), -1)[: int(t["lens"][b]), None]
        return Request(torch.cat((t["Q"][b], t["Qr"][b]), -1), k, k[..., : row.sizes["C"]], t["O"][b])
    if op.startswith("paged"):
        q = (slice(int(t["cu_q"][b]), int(t["cu_q"][b + 1])),) if "cu_q" in t else (b,)
        queries = rotated(row, t["Q"][q], int(t["lens"][b]) - t["Q"][q].shape[0])
        if "Kp" in t:  # rotated already
            return Request(queries, pages_of(row, "Kp", b), pages_of(row, "Vp", b), t["O"][q])
        return Request(queries, rotated(row, pages_of(row, "K", b), 0), pages_of(row, "V", b), t["O"][q])
    if op == "grouped_query_fp8_attention":
        return Request(*(scaled(row, t[n][b], f"s{n.lower()}", b) for n in ("Q", "K", "V")), t["O"][b])
    q, k, v, o = (t[n][b].transpose(0, 1) for n in ("Q", "K", "V", "O"))
    return Request(q, k, v, o)


def visible(row, s, r, device):
    """[s, r]: which keys each query sees, aligned at the bottom right."""
    at = torch.arange(s, device=device)[:, None] + r - s
    k = torch.arange(r, device=device)[None]
    seen = torch.ones(s, r, dtype=torch.bool, device=device)
    if row.attrs.get("causal"):
        seen &= k <= at
    if row.attrs.get("left", -1) >= 0:
        seen &= k >= at - row.attrs["left"]
    if row.attrs.get("right", -1) >= 0:
        seen &= k <= at + row.attrs["right"]
    return seen


def expected_head(row, request, h):
    """Outputs of one head in double precision, for some of its queries: their numbers, and [n, E]."""
    s, r = request.q.shape[0], request.k.shape[0]
    picked = torch.arange(s) if s <= QUERIES else torch.randperm(s)[:QUERIES].sort().values
    picked = picked.to(DEVICE)
    g = h // (request.q.shape[1] // request.k.shape[1])
    scores = scale_of(row) * (request.q[picked, h].double() @ request.k[:, g].double().t())
    if row.attrs.get("softcap"):
        scores = row.attrs["softcap"] * torch.tanh(scores / row.attrs["softcap"])
    scores.masked_fill_(~visible(row, s, r, DEVICE)[picked], -math.inf)
    if "z" in row.tensors:  # one score more, whose value is 0
        scores = torch.cat((scores, row.tensors["z"][h].double().expand(len(picked), 1)), -1)
    weights = scores.softmax(-1).nan_to_num_(0.0)[:, :r] if scores.shape[1] else scores
    return picked, weights @ request.v[:, g].double()


def some(count, most):
    """The first, the last, and those between."""
    return range(count) if count <= most else sorted({i * (count - 1) // (most - 1) for i in range(most)})


def check_forward(row):
    requests = row.sizes["B"]
    worst = 0.0
    for b in some(requests, REQUESTS):
        request = request_of(row, b)
        for h in some(row.sizes["H"], HEADS):
            picked, want = expected_head(row, request, h)
            if want.numel():
                worst = max(worst, peers.worst_error(request.o[picked, h], want))
    return worst, 4 * torch.finfo(row.tensors["O"].dtype).eps


def written_places(row):
    """Of the new rows, in their order: their numbers in a pool, and their places in a request."""
    t, z = row.tensors, row.sizes["Z"]
    slots, places = [], []
    for b in range(row.sizes["B"]):
        new, end = int(t["cu_q"][b + 1] - t["cu_q"][b]), int(t["lens"][b])
        at = torch.arange(end - new, end, device=DEVICE)
        slots.append(t["table"][b].long()[at // z] * z + at % z)
        places.append(at)
    return torch.cat(slots), torch.cat(places)


def check_append(row, before):
    """The new rows are where they belong and nothing else has changed; then the requests."""
    t = row.tensors
    slots, places = written_places(row)
    worst = 0.0
    for pool, new, scale in (("Kp", "K", "sk"), ("Vp", "V", "sv")):
        after = raw(t[pool].flatten(0, 1))
        want = rotated(row, t[new], places) if new == "K" else t[new]
        got = after[slots].view(t[pool].dtype)
        if scale in t:
            limit = torch.finfo(got.dtype).max
            want = (want.float() / t[scale]).clamp(-limit, limit).to(got.dtype)
        worst = max(worst, peers.worst_error(got.float(), want.double()))
        left = raw(before[pool].flatten(0, 1))
        left[slots] = after[slots]
        if not torch.equal(after, left):
            raise RuntimeError(f"arke has changed rows of {pool} that {row.note['name']} does not write")
    error, allowed = check_forward(row)
    return max(worst, error), allowed


def check_sparse(row):
    """Queries of the first request, each with the keys that it names."""
    t, s = row.tensors, row.sizes
    latent = row.op == "sparse_latent_attention"
    values = t["KV"][0]
    keys = torch.cat((values, t["Kr"][0]), -1) if latent else values
    queries = torch.cat((t["Q"][0], t["Qr"][0]), -1) if latent else t["Q"][0]
    worst = 0.0
    for q in some(s["S"], 8):
        named = t["idx"][0, q].long()
        named = named[(named < s["R"]) & ((named <= q + row.attrs["first"]) if row.attrs.get("causal") else True)]
        scores = scale_of(row) * (queries[q].double() @ keys[named].double().t())
        worst = max(worst, peers.worst_error(t["O"][0, q], scores.softmax(-1) @ values[named].double()))
    return worst, 4 * torch.finfo(t["O"].dtype).eps


def attend(row, q, k, v):
    """[H, S, D] and [G, R, …]: outputs and the logarithm of sums to base 2, in the type of the inputs."""
    shared = q.shape[0] // k.shape[0]
    scores = scale_of(row) * (q @ k.repeat_interleave(shared, 0).transpose(1, 2))
    scores = scores.masked_fill(~visible(row, q.shape[1], k.shape[1], DEVICE), -math.inf)
    return scores.softmax(-1) @ v.repeat_interleave(shared, 0), scores.logsumexp(-1) / math.log(2)


def prepare_backward(row):
    """O and lse are those of the forward pass, a request at a time."""
    t = row.tensors
    for b in range(row.sizes["B"]):
        for g in range(row.sizes["G"]):
            heads = slice(g * row.sizes["H"] // row.sizes["G"], (g + 1) * row.sizes["H"] // row.sizes["G"])
            o, lse = attend(row, *(x.float() for x in (t["Q"][b, heads], t["K"][b, g : g + 1], t["V"][b, g : g + 1])))
            t["O"][b, heads], t["lse"][b, heads] = o.to(t["O"].dtype), lse


def check_backward(row):
    t, s = row.tensors, row.sizes
    worst = 0.0
    for b in some(s["B"], 2):
        for g in some(s["G"], 2):
            heads = slice(g * s["H"] // s["G"], (g + 1) * s["H"] // s["G"])
            q, k, v = (x.double().requires_grad_() for x in (t["Q"][b, heads], t["K"][b, g : g + 1], t["V"][b, g : g + 1]))
            # The operator is given O as stored: how its rounding moves dO . O, weights times that is what lse's gradient adds.
            out, lse = attend(row, q, k, v)
            given, slope = t["O"][b, heads].double(), t["dO"][b, heads].double()
            moved = ((out.detach() - given) * slope).sum(-1) * math.log(2)
            torch.autograd.backward([out, lse], [slope, moved])
            for got, want in ((t["dQ"][b, heads], q.grad), (t["dK"][b, g : g + 1], k.grad), (t["dV"][b, g : g + 1], v.grad)):
                worst = max(worst, peers.worst_error(got, want))
    return worst, 8 * torch.finfo(t["Q"].dtype).eps


def expected_write(row):
    found = {}
    for pool, rows, scale in (("Kp", "K", "sk"), ("Vp", "V", "sv")):
        t = row.tensors
        after = t[pool].clone().flatten(0, 1)
        written = t["slots"] >= 0
        limit = torch.finfo(after.dtype).max
        values = (t[rows][written].float() / t[scale]).clamp(-limit, limit).to(after.dtype)
        after.view(torch.uint8 if after.dtype.itemsize == 1 else torch.int16)[t["slots"][written]] = values.view(
            torch.uint8 if after.dtype.itemsize == 1 else torch.int16
        )
        found[pool] = after.reshape(t[pool].shape)
    return found


def expected_gather(row):
    t, z = row.tensors, row.sizes["Z"]
    parts = []
    for b in range(row.sizes["B"]):
        at = torch.arange(int(t["cu"][b + 1] - t["cu"][b]), device=DEVICE) + int(t["starts"][b])
        parts.append(t["pool"][t["table"][b].long()[at // z], at % z].float() * t["scale"])
    return {"Y": torch.cat(parts).to(t["Y"].dtype)}


def check_moved(row, expected):
    for name, want in expected.items():
        if not torch.equal(row.tensors[name].float(), want.float()):
            raise RuntimeError(f"arke's {name} of {row.note['name']} is not what was to be moved")
    return 0.0, 0.0


def check_select(row):
    t = row.tensors
    rows = torch.tensor(list(some(row.sizes["M"], 16)), device=DEVICE)
    want = torch.topk(t["X"][rows], row.sizes["K"], -1).values
    got = t["X"][rows].gather(1, t["I"][rows].long())
    if not torch.equal(got, want) or not torch.equal(t["V"][rows], want):
        raise RuntimeError(f"arke's values of {row.note['name']} are not the largest")
    return 0.0, 0.0


def peer(row):
    """PyTorch's own call for the row, or None."""
    t, attrs = row.tensors, row.attrs
    if row.op not in ("grouped_query_attention", "attention_backward") or attrs.get("softcap") or attrs.get("left", -1) >= 0:
        return None
    square = row.sizes["S"] == row.sizes["R"]
    if attrs.get("causal") and not square and row.sizes["S"] != 1:
        return None
    causal = bool(attrs.get("causal")) and square  # one query sees all
    backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]

    def forward(q, k, v):
        with sdpa_kernel(backends, set_priority=True):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    if row.op == "grouped_query_attention":
        return lambda: forward(t["Q"], t["K"], t["V"])
    q, k, v = (t[n].detach().requires_grad_() for n in ("Q", "K", "V"))
    out = forward(q, k, v)
    return lambda: torch.autograd.grad(out, (q, k, v), t["dO"], retain_graph=True)


def run_row(comparison, row, seed):
    row.make(seed)
    if row.op == "attention_backward":
        prepare_backward(row)
    expected = expected_write(row) if row.op == "cache_write" else None
    before = {name: row.tensors[name].clone() for name in ("Kp", "Vp")} if "append" in row.op else None
    run, plan = comparison.arke_call(row.problem, row.arguments(), [])
    run()
    result = {"name": row.note["name"], "op": row.op, "sizes": row.sizes, "dtypes": row.problem.types, "attrs": row.attrs,
              "match": plan.match, "config": plan.config, "launches": plan.launches}  # fmt: skip
    if row.op == "cache_gather":
        expected = expected_gather(row)
    if expected is not None:
        error, allowed = check_moved(row, expected)
    elif row.op == "topk_selector":
        error, allowed = check_select(row)
    elif before is not None:
        error, allowed = check_append(row, before)
        before.clear()
    else:
        checks = {"attention_backward": check_backward, "sparse_shared_attention": check_sparse, "sparse_latent_attention": check_sparse}
        error, allowed = checks.get(row.op, check_forward)(row)
    result["error"] = error
    if not error <= allowed:
        raise RuntimeError(f"arke's result of {row.note['name']} is off by {error:.3g}; {allowed:.3g} is allowed")
    if not comparison.options.check_only:
        contestants = {"arke": run}
        if (other := peer(row)) is not None:
            contestants["cudnn"] = other
        times = peers.device_times.interleaved(contestants, comparison.flusher, comparison.options.rounds)
        result["times"] = {name: peers.device_times.summary(t) for name, t in times.items()}
        ours = result["times"]["arke"]["median_us"]
        result["published_us"] = row.published_us
        result["published_ratio"] = min(row.published_us.values()) / ours
        if "cudnn" in contestants:
            result["cudnn_ratio"] = result["times"]["cudnn"]["median_us"] / ours
    plan.close()
    return result


def print_row(r):
    if "error_text" in r:
        print(f"{r['name']:56} {r['error_text']}", flush=True)
    elif "times" not in r:
        print(f"{r['name']:56} off by {r['error']:.2g}  {r['config']}", flush=True)
    else:
        cudnn = f"{r['cudnn_ratio']:7.3f}" if "cudnn_ratio" in r else " " * 7
        print(f"{r['name']:56} {r['times']['arke']['median_us']:10.2f} {r['published_ratio']:7.3f} {cudnn}  {r['config']}",
              flush=True)  # fmt: skip


def summarise(rows, report):
    for key, what in (("published_ratio", "the best published time"), ("cudnn_ratio", "cuDNN in the same run")):
        found = [r[key] for r in rows if key in r]
        if found:
            print(f"over {what}: geometric mean {peers.geomean(found):.3f} over {len(found)} rows, least {min(found):.3f}")
            report[f"{key}_geomean"] = peers.geomean(found)
    for operator in dict.fromkeys(r["name"].split()[0] for r in rows):
        found = [r["published_ratio"] for r in rows if r["name"].split()[0] == operator and "published_ratio" in r]
        if found:
            print(f"  {operator}: {peers.geomean(found):.3f} over {len(found)}, least {min(found):.3f}")


def read_options(argv):
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("--arke-tune", required=True)
    o.add_argument("--library", required=True, help="libarke.so")
    o.add_argument("--cache", default="attention.arke")
    o.add_argument("--workload", default=str(Path(__file__).resolve().parent.parent / "workloads/attention-published.json"))
    o.add_argument("--only", default="", help="rows whose name has one of these words, with commas")
    o.add_argument("--tune", help="tune what the cache lacks, so long each: 10s")
    o.add_argument("--tune-jobs", type=int, default=0, help="processes that compile candidates")
    o.add_argument("--rounds", type=int, default=10)
    o.add_argument("--check-only", action="store_true", help="compare results, time nothing")
    o.add_argument("--shrink", action="store_true", help="small rows of the same kind, checked only")
    o.add_argument("--part", default="1/1", help="2/3: the second third of the rows, for several GPUs at once")
    o.add_argument("--seconds", type=float, default=0, help="of comparing, once all is tuned: start no row after so long")
    o.add_argument("--output", help="JSON file")
    return o.parse_args(argv)


def main():
    options = read_options(sys.argv[1:])
    options.check_only = options.check_only or options.shrink
    entries = json.loads(Path(options.workload).read_text())["problems"]
    words = [w for w in options.only.split(",") if w]
    entries = [e for e in entries if not words or any(w in e["note"]["name"] for w in words)]
    if options.shrink:
        entries = [attention_rows.shrunk(e) for e in entries]
    catalogue = peers.catalogue_of(options)
    rows = peers.part_of(options.part, [Row(catalogue, e) for e in entries])
    if options.tune:
        peers.tune(options, [r.problem for r in rows])
    comparison = peers.Comparison(options)
    comparison.open()
    if not options.check_only:
        print(f"{'row':56} {'arke us':>10} {'publ.':>7} {'cuDNN':>7}")
    results = []
    began = time.monotonic()
    for row in rows:
        if options.seconds and time.monotonic() - began > options.seconds:
            break
        try:
            result = run_row(comparison, row, 1)
        except (RuntimeError, KeyError) as e:  # a row that fails costs that row
            result = {"name": row.note["name"], "op": row.op, "sizes": row.sizes, "error_text": str(e)[:300]}
        print_row(result)
        results.append(result)
        row.tensors = {}
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
    report = {"method": "CUPTI device times, L2 flushed before each call, interleaved A B B A, median", "rows": results}
    summarise(results, report)
    if options.output:
        if not options.check_only:
            report["environment"] = peers.environment()
        Path(options.output).write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all("error_text" not in r for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
