#!/usr/bin/env python3
"""check_snippets.py DOCUMENT SOURCE...: every fenced block of the document stands, line by line, in a source."""
import sys

document, *sources = sys.argv[1:]
texts = [open(path, encoding="utf-8").read() for path in sources]
lines = open(document, encoding="utf-8").read().split("\n")
fences = [i for i, line in enumerate(lines) if line.startswith("```")]
if not fences or len(fences) % 2 != 0:
    sys.exit(f"{document}: no fenced blocks, or one that does not end")
for begin, end in zip(fences[::2], fences[1::2]):
    block = "\n".join(lines[begin + 1 : end])
    if not any(block + "\n" in text for text in texts):
        sys.exit(f"{document}:{begin + 1}: this block is in none of {', '.join(sources)}")
