#!/usr/bin/env python3
"""Times Arke beside PyTorch, eager and compiled, in one process on one GPU.

    bench/peers.py --arke-tune build/arke-tune --library build/libarke.so --op relu,softmax \\
        --shape 4096x4096,8192x8192 --dtype bf16,f32 --tune 5s --output peers.json

Each operator at each shape and dtype: tunes what the cache lacks (--tune), checks Arke's result against PyTorch in double
precision, then times Arke and the peers interleaved (bench/device_times.py). Prints a table; --output writes JSON.
Ratios are the best peer's time over Arke's: above 1 Arke is faster. --check-only times nothing, and without a GPU runs
Arke on its emulator, on what was tuned with --device model."""
import argparse
import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

try:
    import torch  # noqa: E402
except ImportError:
    sys.exit(f"{sys.argv[0]}: needs PyTorch, which python3 does not find here")

import arke  # noqa: E402
import device_times  # noqa: E402
import peers_torch  # noqa: E402

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
POSITIONS = {"argmax", "argmin", "topk", "topk_selector"}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIGNATURE = re.compile(r"(\w+(?:, \w+)*): (\w+)\[([^]]*)\]")


class Problem:
    """One operator at one shape: what a row of the table is about."""

    def __init__(self, entry, sizes, types, attrs):
        self.name, self.notation = entry["op"], entry["notation"]
        self.sizes, self.types, self.attrs = sizes, types, attrs
        head = self.notation[: self.notation.index("{")]
        inputs, outputs = head.split("->", 1)
        self.inputs = self.tensors(inputs)
        self.outputs = self.tensors(outputs)
        in_place = re.match(r"\s*\((\w+)\)", outputs)
        self.in_place = in_place is not None
        if in_place:
            self.outputs = [t for t in self.inputs if t[0] == in_place.group(1)]
        self.output_dtypes = [t[1] for t in self.outputs]

    def tensors(self, text):
        found = []
        for names, dtype, dims in SIGNATURE.findall(text):
            shape = [n for dim in dims.split(",") if dim.strip() for n in self.dim(dim.strip())]
            found += [(name, DTYPES[self.types.get(dtype, dtype)], shape) for name in names.split(", ")]
        return found

    def dim(self, text):
        if text == "...":
            return self.sizes["..."]
        multiple, _, more = text.partition("+")
        factors = [int(f) if f.isdigit() else self.sizes[f] for f in multiple.split("*")]
        return [math.prod(factors) + int(more or 0)]

    def index_limit(self, name):
        """The size of the axis that an index tensor points into: the dimension it is a subscript of."""
        body = self.notation[self.notation.index("{") :]
        for tensor, _, shape in self.inputs + self.outputs:
            for subscripts in re.findall(rf"\b{tensor}\[((?:[^\[\]]|\[[^\]]*\])*)\]", body):
                parts = re.split(r",(?![^\[]*\])", subscripts)
                for position, part in enumerate(parts):
                    if re.search(rf"\b{name}\[", part):
                        return shape[position]
        return None

    def make_inputs(self, seed):
        generator = torch.Generator(device=DEVICE).manual_seed(seed)
        made = []
        whole_rows = {"first": 0, "end": self.sizes.get("N", 0)} if self.name == "topk_selector" else {}
        fill = {**whole_rows, **self.fill}
        for name, dtype, shape in self.inputs:
            if name == "idx" and self.name == "scatter":  # places of a row must differ, or which one wins is open
                places = torch.rand(self.inputs[0][2], device=DEVICE, generator=generator).argsort(-1)
                made.append(places[:, : shape[1]].to(dtype).contiguous())
            elif name in fill:
                made.append(torch.full(shape, fill[name], dtype=dtype, device=DEVICE))
            elif dtype == torch.bool:
                made.append(torch.rand(shape, device=DEVICE, generator=generator) < 0.5)
            elif dtype.is_floating_point:
                values = torch.randn(shape, device=DEVICE, generator=generator)
                made.append((values.abs() + 0.01 if self.name == "rsqrt" else values).to(dtype))
            else:
                limit = self.index_limit(name)
                low, high = (0, limit) if limit else (-100, 101)
                values = torch.randint(low, high, shape, device=DEVICE, generator=generator)
                made.append(values.clamp(min=0 if dtype == torch.uint8 else -100).to(dtype) if not limit else values.to(dtype))
        return made

    def make_outputs(self):
        return [torch.empty(shape, dtype=dtype, device=DEVICE) for _, dtype, shape in self.outputs]

    def min_bytes(self):
        tensors = self.inputs + self.outputs
        size = {t[0]: math.prod(t[2]) * torch.empty(0, dtype=t[1]).element_size() for t in tensors}
        if self.name == "embedding":  # only the rows that are looked up
            size["W"] = min(size["W"], size["Y"])
        return sum(size.values())

    def label(self):
        return f"{self.name} {'x'.join(str(n) for n in self.shape_numbers())} {'/'.join(self.types.values())}"

    def shape_numbers(self):
        return [n for v in self.sizes.values() for n in (v if isinstance(v, list) else [v])]

    published_us = None  # times that others have published for the row
    fill = {}  # inputs of one value each, where random ones would make no sense

    def workload_entry(self):
        sizes = {k: "x".join(map(str, v)) if isinstance(v, list) else v for k, v in self.sizes.items()}
        entry = {"op": self.name, "dtypes": self.types, "sizes": sizes}
        return {**entry, "attrs": self.attrs} if self.attrs else entry


def as_tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def widened(tensor):
    return tensor.double() if tensor.dtype.is_floating_point else tensor


def worst_error(got, expected):
    """Largest difference over the scale of the expected values; positions and integers must be equal."""
    got, expected = got.double(), expected.double()
    if torch.equal(got, expected):
        return 0.0
    same = (got == expected) | (got.isnan() & expected.isnan())
    scale = expected[expected.isfinite()].square().mean().sqrt().item() or 1.0
    return torch.where(same, 0.0, (got - expected).abs() / (expected.abs() + scale)).max().item()


def at_positions(x, positions):
    flat = positions if positions.dim() == x.dim() else positions.unsqueeze(-1)
    return torch.gather(x, -1, flat.long())


def nearest_of_ties(got, want):
    """Quantised values one apart where few are: f32 and f64 may fall on either side of a half."""
    apart = got.double() - want.double()
    if apart.abs().max() <= 1 and (apart != 0).double().mean() < 1e-3:
        return want
    return got


def tolerance(dtype, length):
    roundoff = torch.finfo(dtype).eps / 2 if dtype.is_floating_point else 0.0
    return 2.5 * roundoff + 2e-7 * math.sqrt(length) + 2e-6


class Comparison:
    def __init__(self, options):
        self.options = options
        self.flusher = None if options.check_only else device_times.Flusher()
        self.context = None

    def open(self):
        emulated = DEVICE == "cpu"
        self.context = arke.Context(self.options.library, self.options.cache, "emulator" if emulated else "cuda",
                                    allow_modelled=emulated)  # fmt: skip

    def arke_call(self, problem, inputs, outputs):
        call = arke.Call(inputs + outputs)
        plan = self.context.plan(problem.name, call, problem.attrs)
        space = torch.empty(plan.workspace_bytes + 256, dtype=torch.uint8, device=DEVICE)
        address = (space.data_ptr() + 255) // 256 * 256
        stream = torch.cuda.current_stream().cuda_stream if DEVICE == "cuda" else None
        run = lambda: plan.run(call, stream, address)  # noqa: E731
        run.keep = (plan, call, space)
        return run, plan

    def row(self, problem):
        inputs = problem.make_inputs(1)
        outputs = [] if problem.in_place else problem.make_outputs()
        function = peers_torch.OPERATORS[problem.name]
        result = {"op": problem.name, "sizes": problem.sizes, "dtypes": problem.types, "attrs": problem.attrs}
        contestants = {}
        run, plan = self.arke_call(problem, inputs, outputs)
        result["match"], result["config"], result["launches"] = plan.match, plan.config, plan.launches
        expected = as_tuple(function(problem, *(widened(x) for x in inputs)))
        run()
        if problem.in_place:
            outputs = [x for x, t in zip(inputs, problem.inputs) if t in problem.outputs]
        length = max(x.shape[-1] if x.dim() else 1 for x in inputs)
        own = lambda: as_tuple(function(problem, *inputs))  # noqa: E731
        result["error"] = self.check(problem, inputs, outputs, expected, own, length)
        if self.options.check_only:
            plan.close()
            return result
        contestants["arke"] = run
        eager = lambda: function(problem, *inputs)  # noqa: E731
        contestants["eager"] = eager
        if not self.options.no_compile:
            torch._dynamo.reset()
            compiled = torch.compile(lambda *x: function(problem, *x), dynamic=False)
            contestants["compile"] = lambda: compiled(*inputs)
        times = device_times.interleaved(contestants, self.flusher, self.options.rounds)
        result["times"] = {name: device_times.summary(t) for name, t in times.items()}
        self.compare(problem, result)
        plan.close()
        return result

    def check(self, problem, inputs, outputs, expected, own, length):
        """`own`: PyTorch's results in the inputs' own types; where they err more, as with angles in f32, Arke may err by four times as much."""
        worst = 0.0
        for i, ((name, dtype, _), got, want) in enumerate(zip(problem.outputs, outputs, expected)):
            if problem.name in POSITIONS and not dtype.is_floating_point:  # equal values may stand in either order
                got, want = (at_positions(inputs[0], p) for p in (got, want))
            allowed = tolerance(dtype, length)
            if not dtype.is_floating_point and inputs[0].dtype.is_floating_point:
                got = nearest_of_ties(got, want)
            error = worst_error(got, want.to(torch.float64))
            if not error <= allowed and dtype.is_floating_point and not problem.in_place:
                allowed = max(allowed, 4 * worst_error(own()[i], want.to(torch.float64)))
            if not error <= allowed and not self.options.no_check:
                raise RuntimeError(f"arke's {name} of {problem.label()} is off by {error:.3g}; {allowed:.3g} is allowed")
            worst = max(worst, error)
        return worst

    def compare(self, problem, result):
        medians = {name: t["median_us"] for name, t in result["times"].items()}
        ours = medians["arke"]
        best = min((m, name) for name, m in medians.items() if name != "arke")
        rate = problem.min_bytes() / (ours * 1e-6)
        if problem.published_us:
            result["published_us"] = problem.published_us
            result["published_ratio"] = min(problem.published_us.values()) / ours
        result.update(best_peer=best[1], ratio=best[0] / ours, bytes=problem.min_bytes(), copy_share=rate / self.copy_rate)

    def measure_copy(self):
        self.copy_rate = device_times.copy_bandwidth(self.flusher)


def tune(options, problems):
    """Tunes what the cache lacks, by the command a person would use."""
    path = Path(options.cache).with_suffix(".workload.json")
    path.write_text(json.dumps({"problems": [p.workload_entry() for p in problems]}))
    command = [options.arke_tune, "sweep", str(path), "-o", options.cache, "--budget", options.tune]
    if options.tune_jobs:
        command += ["--jobs", str(options.tune_jobs)]
    if DEVICE == "cpu":
        command += ["--device", "model", "--trials", "1"]
    return subprocess.run(command, stdout=sys.stderr).returncode


def warm_compile_cache(options, argv):
    """Compiles the peers in several processes, so that the measuring process finds its kernels on disk."""
    jobs = [
        subprocess.Popen([sys.executable, __file__, *argv, "--compile-share", f"{i}/{options.compile_jobs}"], stdout=sys.stderr)
        for i in range(options.compile_jobs)
    ]
    for job in jobs:
        job.wait()


def compile_share(options, problems):
    share, of = map(int, options.compile_share.split("/"))
    for problem in problems[share::of]:
        function = peers_torch.OPERATORS[problem.name]
        torch._dynamo.reset()
        inputs = problem.make_inputs(1)
        torch.compile(lambda *x: function(problem, *x), dynamic=False)(*inputs)  # noqa: B023
        del inputs
        torch.cuda.empty_cache()


def parse_shape(entry, text):
    axes = [a for a in re.split(r"[x,]", entry["shape"]) if a]
    numbers = [int(n) for n in text.split("x")]
    if "..." in axes:
        fixed = len(axes) - 1
        lead = numbers[: len(numbers) - fixed]
        return {"...": lead, **dict(zip([a for a in axes if a != "..."], numbers[len(lead) :]))}
    if len(numbers) != len(axes):
        sys.exit(f"bench/peers.py: {entry['op']} takes the sizes {entry['shape']}; {text} has {len(numbers)}")
    return dict(zip(axes, numbers))


def catalogue_of(options):
    listing = subprocess.run([options.arke_tune, "--list-ops", "--json"], check=True, capture_output=True, text=True)
    return {e["op"]: e for e in map(json.loads, listing.stdout.splitlines())}


def problems_of(options):
    catalogue = catalogue_of(options)
    if options.workload:
        rows = json.loads(Path(options.workload).read_text())["problems"]
        return [from_workload(catalogue, one) for row in rows for one in expand(row)]
    problems = []
    for name, shape, types in itertools.product(options.op.split(","), options.shape.split(","), options.dtype.split(",")):
        if name not in catalogue:
            sys.exit(f"bench/peers.py: no operator {name}; arke-tune --list-ops shows them")
        names = type_variables(catalogue[name])
        given = types.split("/")
        bound = dict(zip(names, given + given[-1:] * (len(names) - len(given))))
        attrs = dict((k, float(v)) for k, v in (a.split("=") for a in options.attr.split(",") if a))
        problems.append(Problem(catalogue[name], parse_shape(catalogue[name], shape), bound, attrs))
    return problems


def part_of(text, problems):
    part, of = map(int, text.split("/"))
    if not 1 <= part <= of:
        sys.exit(f"bench/peers.py: --part {text}; accepted: I/N with I from 1 to N")
    return problems[part - 1 :: of]


def type_variables(entry):
    head = entry["notation"][: entry["notation"].index("{")]
    return list(dict.fromkeys(t for _, t, _ in SIGNATURE.findall(head) if t not in DTYPES))


def expand(row):
    """The problems that a workload's row stands for: lists are alternatives, as for arke-tune sweep."""

    def choices(value):
        if isinstance(value, dict):
            return [dict(zip(value, c)) for c in itertools.product(*map(choices, value.values()))]
        return value if isinstance(value, list) else [value]

    varied = ("sizes", "dtypes", "attrs")
    for chosen in itertools.product(*(choices(row[k]) for k in varied if k in row)):
        yield {**row, **dict(zip((k for k in varied if k in row), chosen))}


def from_workload(catalogue, row):
    entry = catalogue[row["op"]]
    types = row["dtypes"] if isinstance(row["dtypes"], dict) else {v: row["dtypes"] for v in type_variables(entry)}
    sizes = {k: [int(n) for n in str(v).split("x")] if k == "..." else v for k, v in row["sizes"].items()}
    problem = Problem(entry, sizes, types, row.get("attrs", {}))
    note = row.get("note", {})  # what arke-tune does not read
    problem.published_us = note.get("published_us")
    problem.fill = note.get("fill", {})
    return problem


def print_row(label, r):
    if "error_text" in r:
        print(f"{label:44} {r['error_text']}", flush=True)
        return
    if "times" not in r:
        print(f"{label:44} off by {r['error']:.2g}  {r['config']}", flush=True)
        return
    t = {name: s["median_us"] for name, s in r["times"].items()}
    compiled = f"{t['compile']:10.2f}" if "compile" in t else " " * 10
    published = f" {r['published_ratio']:7.3f} of published" if "published_ratio" in r else ""
    print(f"{label:44} {t['arke']:10.2f} {t['eager']:10.2f} {compiled} {r['ratio']:7.3f} {100 * r['copy_share']:6.1f} %"
          f"{published}  {r['config']}", flush=True)  # fmt: skip


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def read_options(argv):
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("--arke-tune", required=True)
    o.add_argument("--library", required=True, help="libarke.so")
    o.add_argument("--cache", default="peers.arke")
    o.add_argument("--workload", help="a workload file, instead of --op, --shape and --dtype")
    o.add_argument("--op", default="", help="operators, with commas")
    o.add_argument("--shape", default="", help="shapes, with commas")
    o.add_argument("--dtype", default="bf16", help="dtypes, with commas; f32/i8 binds two type variables")
    o.add_argument("--attr", default="", help="attributes of all operators: k=8,eps=1e-5")
    o.add_argument("--tune", help="tune what the cache lacks, so long each: 5s")
    o.add_argument("--tune-jobs", type=int, default=0, help="processes that compile candidates")
    o.add_argument("--rounds", type=int, default=10)
    o.add_argument("--check-only", action="store_true", help="compare results, time nothing")
    o.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    o.add_argument("--no-check", action="store_true", help="report wrong results, but time them")
    o.add_argument("--compile-jobs", type=int, default=0, help="processes that compile the peers first")
    o.add_argument("--compile-share", help=argparse.SUPPRESS)
    o.add_argument("--part", default="1/1", help="2/3: the second third of the problems, for several GPUs at once")
    o.add_argument("--seconds", type=float, default=0, help="start no row after so long")
    o.add_argument("--output", help="JSON file")
    return o.parse_args(argv)


def environment():
    query = "name,driver_version,clocks.max.sm,clocks.sm,power.limit"
    smi = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True)
    return {"device": torch.cuda.get_device_name(), "nvidia_smi": smi.stdout.strip(), "torch": torch.__version__,
            "date": time.strftime("%Y-%m-%d")}  # fmt: skip


def main():
    began = time.monotonic()
    options = read_options(sys.argv[1:])
    problems = part_of(options.part, problems_of(options))
    if options.compile_share:
        return compile_share(options, problems)
    if options.tune:
        tune(options, problems)
    if options.compile_jobs and not options.no_compile:
        warm_compile_cache(options, sys.argv[1:])
    comparison = Comparison(options)
    comparison.open()
    if not options.check_only:
        comparison.measure_copy()
        print(f"copy: {comparison.copy_rate / 1e12:.3f} TB/s")
        print(f"{'operator':44} {'arke us':>10} {'eager us':>10} {'compile us':>10} {'ratio':>7} {'of copy':>8}")
    rows = []
    for problem in problems:
        if options.seconds and time.monotonic() - began > options.seconds:
            break
        try:
            row = comparison.row(problem)
        except (RuntimeError, KeyError) as e:  # a row that fails costs that row
            row = {"op": problem.name, "sizes": problem.sizes, "dtypes": problem.types, "error_text": str(e)[:300]}
        print_row(problem.label(), row)
        rows.append(row)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
    if options.check_only:
        return 0 if all("error" in r for r in rows) else 1
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    print(f"geometric mean {geomean(ratios):.3f} over {len(ratios)} of {len(problems)} rows, least {min(ratios, default=0):.3f}")
    published = [r["published_ratio"] for r in rows if "published_ratio" in r]
    if published:
        print(f"over the best published time: geometric mean {geomean(published):.3f}, least {min(published):.3f}")
    if options.output:
        report = {"method": "CUPTI device times, L2 flushed before each call, interleaved A B B A, median",
                  "environment": environment(), "copy_bytes_per_s": comparison.copy_rate, "rows": rows}  # fmt: skip
        Path(options.output).write_text(json.dumps(report, indent=1) + "\n")
    return 0 if ratios else 1


if __name__ == "__main__":
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
    sys.exit(main())
