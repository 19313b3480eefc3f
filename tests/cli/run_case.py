#!/usr/bin/env python3
"""Runs one case of arke-tune's command line and compares what it printed.

A case is a folder: `cmd` is run by sh in an empty directory; `stdout`, `stderr` and `exit` say what must come of
it (missing: nothing printed, 0). In the expected texts
  - a line "~ REGEX" matches one line that the regular expression matches as a whole,
  - a line "..." matches any number of lines, none included,
  - every other line matches itself.
The command finds arke-tune and this Python in PATH and the repository in $ROOT; HOME and the current directory are
the empty directory, TMPDIR is another, which is removed with what a killed process left there. Exit status 77 of a
command whose last line on stderr starts with "skip:" skips the case.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile

SKIPPED = 77


def matches(expected, found):
    """Lines against lines; "..." tries every length."""
    for i, line in enumerate(expected):
        if line == "...":
            rest = expected[i + 1:]
            return any(matches(rest, found[k:]) for k in range(i, len(found) + 1))
        if i >= len(found):
            return False
        if line.startswith("~ "):
            if not re.fullmatch(line[2:], found[i]):
                return False
        elif line != found[i]:
            return False
    return len(found) == len(expected)


def read(folder, name, fallback):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return fallback
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def heed_signals():  # whatever runs the tests in the background may ignore them
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as temporary:
        environment = {
            "PATH": ":".join([os.path.dirname(program), os.path.dirname(sys.executable),
                              os.environ.get("PATH", "/usr/bin:/bin")]),
            "HOME": scratch, "TMPDIR": temporary, "ROOT": root, "LC_ALL": "C", "TERM": "dumb",
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                environment[name] = os.environ[name]
        run = subprocess.run(["sh", os.path.join(folder, "cmd")], cwd=scratch, env=environment,
                             stdin=subprocess.DEVNULL, capture_output=True, check=False, preexec_fn=heed_signals)
    found = {"stdout": run.stdout.decode("utf-8", "replace"), "stderr": run.stderr.decode("utf-8", "replace")}
    last = found["stderr"].splitlines()[-1:] or [""]
    if run.returncode == SKIPPED and last[0].startswith("skip:"):
        print(last[0])
        return SKIPPED
    faults = []
    for name, text in found.items():
        if not matches(read(folder, name, "").splitlines(), text.splitlines()):
            faults.append(name)
    expected_exit = int(read(folder, "exit", "0"))
    if run.returncode != expected_exit:
        faults.append(f"exit status {run.returncode}, expected {expected_exit}")
    if not faults:
        return 0
    print(f"{folder}: differs in {', '.join(faults)}")
    for name, text in found.items():
        print(f"--- {name} expected\n{read(folder, name, '')}--- {name} found\n{text}")
    return 1


sys.exit(main())
