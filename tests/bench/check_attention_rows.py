"""bench/attention_rows.py without PyTorch: rows become problems that bind, and index tensors hold what their operators ask for.

    check_attention_rows.py ARKE_TUNE"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import attention_rows  # noqa: E402

ENTRIES = json.loads((ROOT / "workloads/attention-published.json").read_text())["problems"]


def tensor(shape, dtype):
    return {"shape": shape, "dtype": dtype}


def row(operator, inputs, attributes, outputs=None, dtype="f16"):
    return {
        "operator": operator, "workload": "test", "dtype": dtype, "notes": [], "published_ms": {"a": 0.25, "b": 1.0},
        "inputs": {name: tensor(s, dtype) for name, s in inputs.items()}, "outputs": outputs or {}, "attributes": attributes,
    }  # fmt: skip


def check_mapping():
    pages = {"q": [3, 8, 64], "k_pages": [9, 16, 2, 64], "v_pages": [9, 16, 2, 32], "page_table": [3, 4]}
    made = attention_rows.problem(row("GQAPagedFwd", pages, {"q_lens": [1, 1, 1], "cache_lens": [5, 64, 0], "is_causal": True}))
    assert made["op"] == "paged_attention" and made["attrs"] == {"causal": True}, made
    assert made["sizes"] == {"H": 8, "G": 2, "D": 64, "E": 32, "P": 9, "Z": 16, "B": 3, "W": 4, "S": 1}, made
    assert made["note"]["published_us"] == {"a": 250.0, "b": 1000.0} and made["note"]["k_lens"] == "5,64,0", made
    made = attention_rows.problem(row("GQAPagedFwd", pages, {"q_lens": [2, 0, 1], "cache_lens": [5, 64, 9], "window_size_left": 7}))
    assert made["op"] == "paged_varlen_attention" and made["sizes"]["N"] == 3 and made["attrs"] == {"left": 7}, made
    assert attention_rows.contents(made)["cu_q"] == [0, 2, 2, 3]
    made = attention_rows.problem(row("GQAPagedFwd", {**pages, "sinks": [8]}, {"q_lens": [1] * 3, "cache_lens": [5] * 3}))
    assert made["op"] == "paged_sink_attention" and attention_rows.contents(made)["lens"] == [5] * 3, made
    tables = {**pages, "rope_cos": [70, 16], "rope_sin": [70, 16]}
    turned = {"q_lens": [2, 0, 1], "cache_lens": [5, 64, 9], "pos_encoding_mode": "rope", "rope_layout": "interleaved"}
    made = attention_rows.problem(row("GQAPagedFwd", tables, turned))
    assert made["op"] == "paged_varlen_rope_attention" and made["attrs"] == {"interleaved": True}, made
    assert made["sizes"]["R"] == 70 and made["sizes"]["F"] == 16 and attention_rows.contents(made)["cu_q"] == [0, 2, 2, 3], made
    cache = {"q": [3, 8, 64], "k_new": [3, 2, 64], "v_new": [3, 2, 64], "k_pages": [80, 2, 64], "v_pages": [80, 2, 64]}
    new = {"page_size": 16, "q_lens": [2, 1], "cache_lens": [5, 0], "fuse_rope": True, "max_position": 70, "rotary_dim": 32}
    made = attention_rows.problem(row("GQAPrefillPagedWithKVCacheFwd", {**cache, "block_table": [2, 4]}, new))
    assert made["op"] == "paged_varlen_append_rope_attention" and made["note"]["k_lens"] == "7,1", made
    assert made["sizes"]["P"] == 5 and made["sizes"]["F"] == 16 and attention_rows.contents(made)["cu_q"] == [0, 2, 3], made
    gather = {"dst": [7, 2, 8], "cache": [5, 4, 2, 8], "block_table": [2, 3], "cu_seq_lens": [3], "seq_starts": [2]}
    made = attention_rows.problem(row("PagedKVCacheGatherFwd", gather, {"seq_lens": [3, 4], "starts": [2, 0]}))
    assert made["sizes"]["D"] == 16 and attention_rows.contents(made)["cu"] == [0, 3, 7], made
    narrow = {"q": [7, 8, 64], "k": [9, 2, 64], "v": [9, 2, 32], "q_scale": [2, 2], "k_scale": [2, 2], "v_scale": [2, 2]}
    ragged = row("GQAVarlenFwd", narrow, {"q_lens": [3, 4], "kv_lens": [5, 4], "is_causal": True}, dtype="fp8e4m3/bf16")
    for x in ragged["inputs"].values():
        x["dtype"] = "fp8e4m3"
    made = attention_rows.problem(ragged)
    assert made["op"] == "varlen_fp8_attention" and made["dtypes"] == {"U": "e4m3", "T": "bf16"}, made
    assert made["sizes"] == {"N": 7, "H": 8, "M": 9, "G": 2, "D": 64, "E": 32, "B": 2} and made["note"]["k_lens"] == "5,4", made
    assert [len(attention_rows.contents(made)[name]) for name in ("sq", "sk", "sv")] == [2, 2, 2]
    for operator, inputs, attributes, why in (
        ("GQAPagedFwd", {**pages, "sinks": [8]}, {"q_lens": [1, 2, 0], "cache_lens": [5] * 3}, "sinks"),
        ("GQADenseFwd", {"q": [1, 4, 8, 64], "k": [1, 4, 2, 64], "v": [1, 4, 2, 64]}, {"pos_encoding_mode": "rope"}, "rotates"),
        ("NSAVarlenFwd", {}, {}, "NSAVarlenFwd"),
    ):
        try:
            attention_rows.problem(row(operator, inputs, attributes))
        except attention_rows.Unexpressed as e:
            assert why in str(e), e
        else:
            raise AssertionError(f"{operator} is taken")


def check_lengths():
    for lengths in ([], [5], [5, 5, 5, 0, 7, 7]):
        if lengths:
            assert attention_rows.unpacked(attention_rows.packed(lengths)) == lengths
    assert attention_rows.packed([512] * 8 + [1]) == "512*8,1"
    for count, places in ((1, 1), (7, 7), (100, 64), (4096, 4096), (30, 2048)):
        found = attention_rows.spread(count, places)
        assert len(set(found[:places])) == min(count, places) and set(found) <= set(range(places)), (count, places)


def check_contents(entry):
    s, held = entry["sizes"], attention_rows.contents(entry)
    name = entry["note"]["name"]
    ends = {"cu_q": s.get("N"), "cu_k": s.get("M"), "cu": s.get("N")}
    for cu, last in ends.items():
        if cu in held:
            assert len(held[cu]) == s["B"] + 1 and held[cu][0] == 0 and held[cu][-1] == last, (name, cu)
            assert sorted(held[cu]) == held[cu], (name, cu)
    keys = s["W"] * s["Z"] if "W" in s else s.get("R")
    if "lens" in held:
        assert len(held["lens"]) == s["B"] and all(0 <= n <= keys for n in held["lens"]), name
    if "table" in held:
        assert [len(r) for r in held["table"]] == [s["W"]] * s["B"] and all(0 <= p < s["P"] for r in held["table"] for p in r), name
    if "starts" in held:
        rows = [held["cu"][b + 1] - held["cu"][b] + held["starts"][b] for b in range(s["B"])]
        assert max(rows) <= keys, name
    if "slots" in held:
        written = [n for n in held["slots"] if n >= 0]
        assert len(set(written)) == len(written) and max(written) < s["P"] * s["Z"], name


def check_binds(arke_tune, entries):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        plain = [{k: e[k] for k in ("op", "sizes", "dtypes", "attrs") if k in e} for e in entries]
        json.dump({"problems": plain}, f)
        f.flush()
        listed = subprocess.run([arke_tune, "sweep", f.name, "--dry-run", "--trials", "1"], capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr


def main():
    check_mapping()
    check_lengths()
    small = [attention_rows.shrunk(e) for e in ENTRIES]
    for entry in ENTRIES + small:
        check_contents(entry)
    one_of_each = {e["op"]: e for e in ENTRIES}
    check_binds(sys.argv[1], list(one_of_each.values()))
    print(f"{len(ENTRIES)} rows of {len(one_of_each)} operators")


if __name__ == "__main__":
    main()
