#!/usr/bin/env python3
"""Published attention workloads as problems of Arke's operators, and what their index tensors hold. Needs no PyTorch.

    bench/attention_rows.py tileops_attention.json -o workloads/attention-published.json

SOURCE holds rows of the TileOPs benchmark pages (autumn 2026, one H200): operator, shapes, attributes, and times of several
systems by CUPTI. A row of an operator that Arke has becomes a problem of a workload file; its note has the row's name, the
published times and the lengths from which index tensors are made. bench/peers_attention.py reads it. Rows that one of
Arke's operators does not express are counted by their reason."""
import argparse
import collections
import json
import re
import sys
from pathlib import Path

# By operator: our axes of a tensor, from those published. Heads come behind positions there. Others are as they are.
HEADS_FIRST = (0, 2, 1, 3)
LAYOUTS = {
    "grouped_query_attention": dict.fromkeys(("Q", "K", "V", "O"), HEADS_FIRST),
    "attention_backward": dict.fromkeys(("Q", "K", "V", "O", "dO", "dQ", "dK", "dV"), HEADS_FIRST),
}
DTYPES = {"fp8e4m3": "e4m3", "fp8e5m2": "e5m2"}


class Unexpressed(Exception):
    """Why no operator of ours is the row's."""


def packed(lengths):
    """[512, 512, 1] as "512*2,1"."""
    runs = []
    for n in lengths:
        if runs and runs[-1][0] == n:
            runs[-1][1] += 1
        else:
            runs.append([n, 1])
    return ",".join(f"{n}*{times}" if times > 1 else str(n) for n, times in runs)


def unpacked(text):
    lengths = []
    for run in text.split(","):
        n, _, times = run.partition("*")
        lengths += [int(n)] * int(times or 1)
    return lengths


def shape(row, name):
    return (row["inputs"].get(name) or row["outputs"][name])["shape"]


def dtypes(row, *names):
    found = []
    for name in names:
        dtype = (row["inputs"].get(name) or row["outputs"][name])["dtype"]
        found.append(DTYPES.get(dtype, dtype))
    return found


def options(row, *allowed):
    """Attributes of ours; one that changes the result and is not ours ends the row."""
    a, found = row["attributes"], {}
    if (a.get("pos_encoding_mode") or a.get("fuse_rope")) and "interleaved" not in allowed:
        raise Unexpressed("rotates queries and keys as it goes")
    if a.get("rope_layout", "neox") != "neox":
        found["interleaved"] = True
    if a.get("is_causal"):
        found["causal"] = True
    for ours, theirs in (("left", "window_size_left"), ("right", "window_size_right")):
        if a.get(theirs, -1) >= 0:
            found[ours] = a[theirs]
    if a.get("softcap"):
        found["softcap"] = float(a["softcap"])
    for name in found:
        if name not in allowed:
            raise Unexpressed(f"has the attribute {name}")
    return found


FORWARD = ("causal", "left", "right", "softcap")
ROTATED = (*FORWARD, "interleaved")


def one_type(row, *names):
    found = set(dtypes(row, *names))
    if len(found) > 1 or not found <= {"f16", "bf16"}:
        raise Unexpressed("has 8-bit keys and values")
    return found.pop()


def variant(row, op, sizes):
    """The operator of the same form that has sinks or rotates, where the row does, and its sizes."""
    rotates, sinks = "rope_cos" in row["inputs"], "sinks" in row["inputs"]
    if rotates and sinks:
        raise Unexpressed("rotates and has sinks")
    if rotates:
        r, f = shape(row, "rope_cos")
        return op.replace("_attention", "_rope_attention"), {**sizes, "R": r, "F": f}
    if not sinks:
        return op, sizes
    if op not in ("varlen_attention", "paged_attention"):
        raise Unexpressed(f"has sinks besides what {op} has")
    return op.replace("_attention", "_sink_attention"), sizes


def is_narrow(row):
    """Queries, keys and values of 8 bits, with a scale for each request and head of keys."""
    return "q_scale" in row["inputs"] and set(dtypes(row, "q", "k", "v")) <= {"e4m3", "e5m2"}


def narrow_types(row):
    """U of queries, keys and values, T of the output."""
    return {"U": dtypes(row, "q")[0], "T": DTYPES.get(row["dtype"].split("/")[1], row["dtype"].split("/")[1])}


def dense(row):
    (b, s, h, d), (_, r, g, _) = shape(row, "q"), shape(row, "k")
    if any("S_q=1" in note for note in row["notes"]):
        s = 1  # what was timed
    sizes = {"B": b, "H": h, "G": g, "S": s, "R": r, "D": d}
    if is_narrow(row):
        return "grouped_query_fp8_attention", {**sizes, "E": shape(row, "v")[3]}, narrow_types(row), options(row, *FORWARD), {}
    return "grouped_query_attention", sizes, one_type(row, "q", "k", "v"), options(row, *FORWARD), {}


def backward(row):
    (b, s, h, d), (_, r, g, _) = shape(row, "q"), shape(row, "k")
    sizes = {"B": b, "H": h, "G": g, "S": s, "R": r, "D": d, "E": shape(row, "v")[3]}
    attrs = {**options(row, "causal", "left", "right"), "base2": True}
    return "attention_backward", sizes, one_type(row, "q", "k", "v"), attrs, {}


def varlen(row):
    (n, h, d), (m, g, _) = shape(row, "q"), shape(row, "k")
    q, k = row["attributes"]["q_lens"], row["attributes"]["kv_lens"]
    sizes = {"N": n, "H": h, "M": m, "G": g, "D": d, "E": shape(row, "v")[2], "B": len(q)}
    note = {"q_lens": packed(q), "k_lens": packed(k)}
    if is_narrow(row):
        return "varlen_fp8_attention", sizes, narrow_types(row), options(row, *FORWARD), note
    return *variant(row, "varlen_attention", sizes), one_type(row, "q", "k", "v"), options(row, *ROTATED), note


def paged(row):
    (n, h, d), (p, z, g, _), (b, w) = shape(row, "q"), shape(row, "k_pages"), shape(row, "page_table")
    q, k = row["attributes"]["q_lens"], row["attributes"]["cache_lens"]
    pages = {"H": h, "G": g, "D": d, "E": shape(row, "v_pages")[3], "P": p, "Z": z, "B": b, "W": w}
    found = one_type(row, "q", "k_pages", "v_pages"), options(row, *ROTATED)
    if len(set(q)) == 1:  # as many queries of each request
        return *variant(row, "paged_attention", {**pages, "S": q[0]}), *found, {"k_lens": packed(k)}
    note = {"q_lens": packed(q), "k_lens": packed(k)}
    return *variant(row, "paged_varlen_attention", {**pages, "N": n}), *found, note


def paged_append(row):
    """Of packed queries, whose keys and values are written first; cache_lens are without them, ours with them."""
    (n, h, d), (tokens, g, _), (b, w) = shape(row, "q"), shape(row, "k_pages"), shape(row, "block_table")
    a = row["attributes"]
    z, q = a["page_size"], a["q_lens"]
    sizes = {"N": n, "H": h, "G": g, "D": d, "E": shape(row, "v_pages")[2], "P": tokens // z, "Z": z, "B": b, "W": w}
    note = {"q_lens": packed(q), "k_lens": packed(before + new for before, new in zip(a["cache_lens"], q))}
    t, u = dtypes(row, "k_new", "k_pages")
    if t != u:
        return "paged_varlen_append_fp8_attention", sizes, {"T": t, "U": u}, options(row, *FORWARD), note
    found = one_type(row, "q", "k_new", "v_new", "k_pages", "v_pages"), options(row, *ROTATED)
    if not a["fuse_rope"]:
        return "paged_varlen_append_attention", sizes, *found, note
    tables = {"R": a["max_position"], "F": a.get("rotary_dim", d) // 2}
    return "paged_varlen_append_rope_attention", {**sizes, **tables}, *found, note


def paged_decode(row):
    (b, s, h, d), (tokens, g, _), (_, w) = shape(row, "q"), shape(row, "k"), shape(row, "block_table")
    z = row["attributes"]["page_size"]
    sizes = {"B": b, "S": s, "H": h, "G": g, "D": d, "E": shape(row, "v")[2], "P": tokens // z, "Z": z, "W": w}
    note = {"k_lens": packed(row["attributes"]["kv_lens"])}
    return "paged_attention", sizes, one_type(row, "q", "k", "v"), options(row, *FORWARD), note


def latent(row):
    (b, h, c), (_, r, _, _) = shape(row, "q"), shape(row, "k")
    sizes = {"B": b, "S": 1, "H": h, "R": r, "C": c, "E": shape(row, "q_pe")[2]}
    return "multi_latent_attention", sizes, one_type(row, "q", "k"), options(row), {"k_lens": packed([r] * b)}


def sparse(row):
    (b, s, h, _), (_, r, _, _), (_, _, _, n) = shape(row, "q"), shape(row, "kv"), shape(row, "indices")
    a = row["attributes"]
    sizes = {"B": b, "S": s, "H": h, "R": r, "N": n}
    attrs = {**options(row, "causal"), "first": a["q_start_index_s"]}
    kind = one_type(row, "q", "kv")
    if a["dim_tail"] == 0:  # values are the keys
        return "sparse_shared_attention", {**sizes, "D": a["D"]}, kind, attrs, {}
    return "sparse_latent_attention", {**sizes, "C": a["D"], "E": a["dim_tail"]}, kind, attrs, {}


def cache_write(row):
    (n, g, d), (p, z, _, _) = shape(row, "k"), shape(row, "k_pages")
    t, u = dtypes(row, "k", "k_pages")
    sizes = {"N": n, "G": g, "D": d, "P": p, "Z": z}
    return "cache_write", sizes, {"T": t, "U": u}, {}, {"scaled": "k_scale" in row["inputs"]}


def cache_gather(row):
    n, *row_shape = shape(row, "dst")
    (p, z, *_), (b, w) = shape(row, "cache"), shape(row, "block_table")
    elements = 1
    for size in row_shape:
        elements *= size
    t, u = dtypes(row, "dst", "cache")
    a = row["attributes"]
    note = {"q_lens": packed(a["seq_lens"]), "starts": packed(a.get("starts", [0] * b)), "scaled": "scale" in row["inputs"]}
    return "cache_gather", {"N": n, "D": elements, "P": p, "Z": z, "B": b, "W": w}, {"T": t, "U": u}, {}, note


def select(row):
    _, m, n, _ = shape(row, "index_score")
    return "topk_selector", {"M": m, "N": n, "K": row["attributes"]["topk"]}, "f32", {}, {"k_lens": packed([n] * m)}


OPERATORS = {
    "GQADenseFwd": dense, "GQABwd": backward, "GQAVarlenFwd": varlen, "GQAPagedFwd": paged,
    "GQAPrefillPagedWithKVCacheFwd": paged_append,
    "MHADecodePagedWithKVCacheFwd": paged_decode, "MLADecodeWithKVCacheFwd": latent, "DSADecodeWithKVCacheFwd": sparse, "PagedKVCacheWriteFwd": cache_write,
    "PagedKVCacheGatherFwd": cache_gather, "TopKSelectFwd": select,
}  # fmt: skip


def problem(row):
    """A published row as a workload file's problem; Unexpressed says why it is none."""
    if row["operator"] not in OPERATORS:
        raise Unexpressed("is of an operator that Arke lacks: " + row["operator"])
    op, sizes, types, attrs, lengths = OPERATORS[row["operator"]](row)
    name = f"{row['operator']} {row['workload']} {row['dtype']}"
    published = {system: round(ms * 1000, 3) for system, ms in row["published_ms"].items()}
    entry = {"op": op, "sizes": sizes, "dtypes": types}
    return {**entry, **({"attrs": attrs} if attrs else {}), "note": {"name": name, "published_us": published, **lengths}}


# --- what index tensors hold ----------------------------------------------------------------------------------------------


def offsets(lengths):
    total, found = 0, [0]
    for n in lengths:
        total += n
        found.append(total)
    return found


def spread(count, places):
    """`count` numbers below `places` in no order, none of them twice before all have come."""
    step = places * 5 // 8 + 1
    while any(step % f == 0 and places % f == 0 for f in range(2, min(step, places) + 1)):
        step += 1
    return [(i * step + 1) % places for i in range(count)]


def contents(entry):
    """By name, the values of index tensors as nested lists; scales are numbers."""
    op, s, note = entry["op"], entry["sizes"], entry["note"]
    found = {}
    if op in ("grouped_query_fp8_attention", "varlen_fp8_attention"):
        pairs = range(s["B"] * s["G"])
        for name, least in (("sq", 3), ("sk", 4), ("sv", 2)):
            scales = [(least + i % 5) / 8 for i in pairs]
            found[name] = [scales[b * s["G"] : (b + 1) * s["G"]] for b in range(s["B"])]
    if op.startswith("varlen"):
        found |= {"cu_q": offsets(unpacked(note["q_lens"])), "cu_k": offsets(unpacked(note["k_lens"]))}
    elif op.startswith("paged") or op == "multi_latent_attention":
        found = {"lens": unpacked(note["k_lens"])}
        if op.startswith("paged_varlen"):
            found["cu_q"] = offsets(unpacked(note["q_lens"]))
        if "fp8" in op:
            found["sk"], found["sv"] = 0.5, 0.25
    elif op == "cache_gather":
        found = {"cu": offsets(unpacked(note["q_lens"])), "starts": unpacked(note["starts"])}
        found["scale"] = 0.5 if note["scaled"] else 1.0
    elif op == "cache_write":
        slots = spread(s["N"], s["P"] * s["Z"])
        found = {"slots": [-1 if i % 61 == 60 else slot for i, slot in enumerate(slots)]}
        found["sk"], found["sv"] = (0.5, 2.0) if note["scaled"] else (1.0, 1.0)
    elif op == "topk_selector":
        found = {"first": [0] * s["M"], "end": unpacked(note["k_lens"])}
    if "W" in s:
        pages = spread(s["B"] * s["W"], s["P"])
        found["table"] = [pages[b * s["W"] : (b + 1) * s["W"]] for b in range(s["B"])]
    return found


# --- small ones of the same kind, for machines without a GPU -----------------------------------------------------------------


def shrunk(entry):
    """The same row with few heads and short sequences: every path of the mapping, at a size for the emulator."""
    s, note = dict(entry["sizes"]), dict(entry["note"])
    few = 3
    for name in ("q_lens", "k_lens", "starts"):
        if name in note:
            most = {"q_lens": 7, "k_lens": 45, "starts": 9}[name]
            lengths = [n if n <= most else most - i % 4 for i, n in enumerate(unpacked(note[name])[:few])]
            note[name] = packed(lengths)
    if "H" in s:
        shared = min(s["H"] // s.get("G", s["H"]), 4)
        heads = min(s.get("G", 1), 2)
        s.update({"H": shared * heads, **({"G": heads} if "G" in s else {})})
    s.update({k: min(s[k], few) for k in ("B",) if k in s})
    s.update({k: min(s[k], most) for k, most in (("S", 5), ("R", 45), ("G", 2), ("K", 6)) if k in s})
    if entry["op"].startswith("sparse"):
        s["N"] = 40
        entry = {**entry, "attrs": {**entry["attrs"], "first": min(entry["attrs"]["first"], 37)}}
    if entry["op"] == "multi_latent_attention":
        note["k_lens"] = packed([s["R"]] * s["B"])
    if entry["op"] == "topk_selector":
        s.update(M=3, N=45)
        note["k_lens"] = packed([45] * 3)
    if "W" in s:
        s["W"] = -(-54 // s["Z"])
        s["P"] = s["B"] * s["W"] + 1
    if entry["op"] == "cache_write":
        s.update(N=min(s["N"], 70), P=min(s["P"], 9))
    elif "N" in s and "q_lens" in note:
        s["N"] = sum(unpacked(note["q_lens"]))
    if "M" in s and entry["op"].startswith("varlen"):
        s["M"] = sum(unpacked(note["k_lens"]))
    note.pop("published_us", None)
    return {**entry, "sizes": s, "note": note}


def main():
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("source")
    o.add_argument("-o", "--output", required=True)
    given = o.parse_args()
    problems, left = [], collections.Counter()
    for row in json.loads(Path(given.source).read_text()):
        try:
            problems.append(problem(row))
        except Unexpressed as why:
            left[str(why)] += 1
    lines = ",\n  ".join(json.dumps(p) for p in problems)
    about = ("Attention with published H200 device times (TileOPs benchmark pages, autumn 2026; CUPTI, L2 flushed, median) of several"
             " systems; for bench/peers_attention.py. Made by bench/attention_rows.py.")  # fmt: skip
    Path(given.output).write_text(f'{{"description": "{about}",\n "problems": [\n  {lines}\n ]}}\n')
    print(f"{len(problems)} rows")
    for why, n in left.most_common():
        print(f"{n} left: {re.sub(r'^', 'a row ', why)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
