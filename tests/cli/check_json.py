#!/usr/bin/env python3
"""check_json.py KIND: reads JSON objects, one a line, and checks that each has exactly the documented fields.
Prints how many there were, as "3 result"; exit 1 with the place of the first fault."""
import json
import sys

TEXT, WHOLE, NUMBER, COUNTS = "text", "whole number", "number", "counts by name"
MAYBE = "number or null"
NAMES, TYPES = "texts, perhaps none", "lists of names, by type variable"
TIME = {"median": NUMBER, "p10": MAYBE, "p90": MAYBE, "samples": WHOLE}
TRIALS = {"total": WHOLE, "pruned": COUNTS, "failed": COUNTS, "verified": WHOLE, "measured": WHOLE}

KINDS = {
    "result": {"key": TEXT, "target": TEXT, "device": TEXT, "origin": TEXT, "template": TEXT, "config": TEXT, "time_ns": TIME,
               "tflops": NUMBER, "speed_of_light_ns": NUMBER, "trials": TRIALS, "sha256": TEXT, "cache": TEXT},
    "stored": {"state": TEXT, "key": TEXT, "target": TEXT, "device": TEXT, "origin": TEXT, "template": TEXT, "config": TEXT,
               "time_ns": TIME, "tflops": NUMBER, "speed_of_light_ns": NUMBER, "sha256": TEXT, "cache": TEXT},
    "failed": {"state": TEXT, "problem": TEXT, "error": TEXT},
    "operator": {"op": TEXT, "shape": TEXT, "dtypes": TYPES, "attrs": NAMES, "help": TEXT, "notation": TEXT},
    "space": {"template": TEXT, "points": WHOLE, "feasible": WHOLE,
              "parameters": [{"name": TEXT, "values": [WHOLE], "meaning": TEXT}]},
    "ranking": {"problem": TEXT, "target": TEXT, "model": TEXT, "trials": TRIALS, "feasible": WHOLE,
                "leading": [{"template": TEXT, "config": TEXT, "model_ns": NUMBER}]},
    "entry": {"key": TEXT, "op": TEXT, "bindings": TEXT, "target": TEXT, "bucket": TEXT, "device": TEXT,
              "origin": TEXT, "config": TEXT, "time_ns": TIME, "sha256": TEXT},
    "stats": {"cache": TEXT, "environments": WHOLE, "problems": WHOLE, "trials": WHOLE, "kernels": WHOLE,
              "winners": WHOLE, "damaged": WHOLE},
}


def check(value, form, place):
    def fail(what):
        sys.exit(f"{place}: {what}, found {json.dumps(value)[:200]}")

    if form is TEXT:
        isinstance(value, str) and value != "" or place.endswith(".bucket") or fail("expected a text")
    elif form is WHOLE:
        isinstance(value, int) and not isinstance(value, bool) and value >= 0 or fail("expected a whole number")
    elif form is NUMBER:
        isinstance(value, (int, float)) and value > 0 or fail("expected a number above 0")
    elif form is MAYBE:
        value is None or check(value, NUMBER, place)
    elif form is NAMES:
        isinstance(value, list) and all(isinstance(v, str) and v for v in value) or fail("expected a list of texts")
    elif form is TYPES:
        isinstance(value, dict) or fail("expected an object")
        for name, names in value.items():
            check(names, NAMES, f"{place}.{name}")
    elif form is COUNTS:
        isinstance(value, dict) or fail("expected an object")
        for name, count in value.items():
            check(count, WHOLE, f"{place}.{name}")
    elif isinstance(form, list):
        isinstance(value, list) and value or fail("expected a list that is not empty")
        for i, item in enumerate(value):
            check(item, form[0], f"{place}[{i}]")
    else:
        isinstance(value, dict) and set(value) == set(form) or fail(f"expected exactly the fields {sorted(form)}")
        for name, inner in form.items():
            check(value[name], inner, f"{place}.{name}")


def main():
    kind = sys.argv[1]
    lines = sys.stdin.read().splitlines()
    for number, line in enumerate(lines, 1):
        check(json.loads(line), KINDS[kind], f"line {number}")
    print(f"{len(lines)} {kind}")


main()
