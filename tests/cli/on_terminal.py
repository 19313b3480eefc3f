#!/usr/bin/env python3
"""on_terminal.py COMMAND...: runs it with standard error on a terminal of 80 columns and says what it drew there."""
import os
import pty
import subprocess
import sys
import struct
import fcntl
import termios

master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=slave)
os.close(slave)
drawn = b""
while True:
    try:
        piece = os.read(master, 4096)
    except OSError:  # the terminal is gone with its last writer
        break
    if not piece:
        break
    drawn += piece
status = process.wait()
updates = drawn.split(b"\r")
print("status", status)
print("redrawn", "yes" if len(updates) > 3 else "no")
print("lines", drawn.count(b"\n"))
print("colour", "yes" if b"\033[" in drawn else "no")
print("too wide", "yes" if any(len(u) > 79 and b"\033" not in u for u in updates) else "no")
