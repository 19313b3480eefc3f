#!/usr/bin/env python3
"""Times products that PyTorch has no one call of every kind for, beside what it has, on one GPU.

    bench/peers_products.py --library build/libarke.so --cache tuned.arke [--only groups|loss|gradients] [--output products.json]

groups: grouped_linear in bf16, with groups of like sizes and of sizes by skewed dice, beside a loop of torch.mm over the
groups, torch._grouped_mm, and one torch.mm of as many operations. loss: fused_linear_cross_entropy,
beside torch.compile of the plain form; gradients: the same with those of both operands. The cache has been tuned for these shapes before. Times are those of bench/device_times.py: of the
device alone, so that the loop's launches do not count."""
import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

try:
    import torch  # noqa: E402
except ImportError:
    sys.exit(f"{sys.argv[0]}: needs PyTorch, which python3 does not find here")

import arke  # noqa: E402
import device_times  # noqa: E402

GROUPS = [(32768, 1536, 2048, 128), (32768, 2048, 768, 128), (16384, 5760, 2880, 128)]  # R, N, K, E
LOSS = (8192, 4096, 128256)  # N, H, V


def runner(context, op, arrays):
    """A callable that runs the plan of these tensors, and the plan."""
    call = arke.Call(arrays)
    plan = context.plan(op, call)
    workspace = torch.empty(max(plan.workspace_bytes, 256), dtype=torch.uint8, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    return lambda: plan.run(call, stream, workspace.data_ptr()), plan


def medians(contestants, flusher, rounds, warmups=3):
    times = device_times.interleaved(contestants, flusher, rounds, warmups)
    return {name: round(statistics.median(t), 1) for name, t in times.items()}


def group_sizes(rows, groups):
    """Like ones, and those of rows that choose by dice: some groups get many times the mean, some nothing."""
    chances = torch.rand(groups).log().neg() ** 1.5
    skewed = torch.multinomial(chances / chances.sum(), rows, True).bincount(minlength=groups)
    return {"balanced": torch.full((groups,), rows // groups), "skewed": skewed}


def measure_groups(context, flusher, shape):
    rows, columns, terms, groups = shape
    x = torch.randn(rows, terms, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(groups, columns, terms, device="cuda", dtype=torch.bfloat16) * terms**-0.5
    y = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
    for kind, sizes in group_sizes(rows, groups).items():
        ends = sizes.cumsum(0).to("cuda", torch.int32)
        bounds = [0] + sizes.cumsum(0).tolist()
        own, plan = runner(context, "grouped_linear", [x, w, ends, y])

        def loop():
            for e, (begin, end) in enumerate(zip(bounds, bounds[1:])):
                if begin < end:
                    torch.mm(x[begin:end], w[e].T, out=y[begin:end])

        loop()
        expected = y.clone()
        y.zero_()
        own()
        torch.cuda.synchronize()
        error = (y.float() - expected.float()).abs().max().item()
        contestants = {
            "arke": own,
            "loop": loop,
            "dense": lambda: torch.mm(x, w[0].T, out=y),
            "_grouped_mm": lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=ends),
        }
        yield {"op": "grouped_linear", "shape": "x".join(map(str, shape)), "sizes": kind, "most": int(sizes.max()),
               "least": int(sizes.min()), "error": error, "us": medians(contestants, flusher, 5), "config": plan.config}  # fmt: skip


def plain_loss(x, w, t):
    return torch.nn.functional.cross_entropy((x @ w.T).float(), t, ignore_index=-100)


def loss_tensors():
    rows, terms, columns = LOSS
    x = torch.randn(rows, terms, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(columns, terms, device="cuda", dtype=torch.bfloat16) * terms**-0.5
    t = torch.randint(0, columns, (rows,), device="cuda")
    t[::7] = -100
    return x, w, t, torch.empty((), device="cuda", dtype=torch.float32)


def measure_loss(context, flusher):
    x, w, t, loss = loss_tensors()
    own, plan = runner(context, "fused_linear_cross_entropy", [x, w, t, loss])
    compiled = torch.compile(plain_loss)
    with torch.no_grad():
        own()
        error = abs(loss.item() - compiled(x, w, t).item())
        contestants = {"arke": own, "compiled": lambda: compiled(x, w, t), "eager": lambda: plain_loss(x, w, t),
                       "product": lambda: x @ w.T}  # fmt: skip
        us = medians(contestants, flusher, 3, 1)
    yield {"op": "fused_linear_cross_entropy", "shape": "x".join(map(str, LOSS)), "error": error,
           "workspace_of_logits": plan.workspace_bytes / (x.shape[0] * w.shape[0] * 2), "us": us, "config": plan.config}  # fmt: skip


def measure_gradients(context, flusher):
    x, w, t, loss = loss_tensors()
    dx, dw = torch.empty_like(x), torch.empty_like(w)
    own, plan = runner(context, "fused_linear_cross_entropy_gradients", [x, w, t, loss, dx, dw])
    leaves = [x.detach().requires_grad_(), w.detach().requires_grad_()]
    compiled = torch.compile(plain_loss)

    def differentiate(f):
        return torch.autograd.grad(f(*leaves, t), leaves)

    own()
    errors = [((a - b).float().norm() / b.float().norm()).item()
              for a, b in zip((dx, dw), differentiate(compiled))]  # fmt: skip
    contestants = {"arke": own, "compiled": lambda: differentiate(compiled), "eager": lambda: differentiate(plain_loss)}
    us = medians(contestants, flusher, 3, 1)
    yield {"op": "fused_linear_cross_entropy_gradients", "shape": "x".join(map(str, LOSS)), "errors": errors,
            "workspace_of_logits": plan.workspace_bytes / (x.shape[0] * w.shape[0] * 2), "us": us,
            "config": plan.config}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--only", choices=["groups", "loss", "gradients"])
    parser.add_argument("--output")
    options = parser.parse_args()
    torch.manual_seed(1)
    flusher = device_times.Flusher()
    results = []
    with arke.Context(options.library, options.cache) as context:
        wanted = [options.only] if options.only else ["groups", "loss", "gradients"]
        measures = [measure_groups(context, flusher, shape) for shape in GROUPS if "groups" in wanted]
        measures += [measure_loss(context, flusher)] if "loss" in wanted else []
        measures += [measure_gradients(context, flusher)] if "gradients" in wanted else []
        for measure in measures:
            for row in measure:
                results.append(row)
                print(row["op"], row["shape"], row.get("sizes", ""), row["us"], flush=True)
    if options.output:
        Path(options.output).write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": results}, indent=1))


if __name__ == "__main__":
    main()
