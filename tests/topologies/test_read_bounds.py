"""
Memory and time are bounded for any input: the collected texts, blown up to the largest text that is read.

Each family runs in a process of its own, whose peak beyond an empty text is what reading used.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MOST_MIB = 200
MOST_CPU_S = 15
"""
Most CPU time that reading one text takes: no test of speed (the benchmarks are), but one that does not end in sensible time is a defect.
"""

MOST_CPU_ALL_S = 120
"""CPU time after which the kernel ends the process: a loop without an end."""

MOST_WALL_S = 600
"""Only what waits without computing takes as long, however busy the machine is."""

PROGRAM = """
import pathlib, resource, sys, time
from topologies.errors import TopologyError
from topologies.read import read_bytes
from topologies.pages.text import MAX_BYTES

most_s, most_all_s, path = float(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
resource.setrlimit(resource.RLIMIT_CPU, (most_all_s, most_all_s))

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def read(data):
    try:
        read_bytes(data[:MAX_BYTES], name="x")
    except TopologyError as error:
        assert "\\n" not in str(error)

def tried(data, how):
    begin = time.process_time()
    read(data)
    spent = time.process_time() - begin
    assert spent < most_s, f"{how}: {spent:.1f} s of CPU"

for text in path.parent.glob("*.txt"):   # what reading imports is there before
    read(text.read_bytes())
data = path.read_bytes()
lines = data.split(b"\\n")
middle = len(lines) // 2
head, line, tail = b"\\n".join(lines[:middle]), lines[middle] or b"x", b"\\n".join(lines[middle:])
before = peak_mib()
tried(data * (MAX_BYTES // len(data)), "again and again")
tried((data + b"\\n") * (MAX_BYTES // (len(data) + 1)), "again and again, on lines of its own")
tried(data.replace(b"\\n", b" ") * (MAX_BYTES // len(data)), "on one line")
tried(head + (b"\\n" + line) * (MAX_BYTES // (len(line) + 1)) + tail, "one line repeated")
tried(head + b"\\n" + line * (MAX_BYTES // len(line)) + tail, "one line long")
print(peak_mib() - before)
"""

DATA = Path(__file__).parent.parent / "data"
FOLDER = DATA / "topology"
TEXTS = [path for path in sorted(FOLDER.iterdir()) if path.suffix in {".txt", ".xml", ".csv"}]
OTHERS = [DATA / "sources" / name for name in ("lspci-vv.txt", "lspci-tv.txt", "nvlink-r.txt", "q.xml", "nccl.xml", "compute-apps.csv")]
FAMILIES = ("002", "037", "077", "089", "101", "204", "214", "218", "222", "232", "242", "244", "251", "261", "271", "903")
"""A case of every format, and those whose damage costs most to undo."""


@pytest.mark.parametrize("path", [*(path for path in TEXTS if path.name.startswith(FAMILIES)), *OTHERS], ids=lambda path: path.stem)
def test_a_text_blown_up_is_read_or_refused_within_bounds(path: Path) -> None:
    bounds = [str(MOST_CPU_S), str(MOST_CPU_ALL_S)]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *bounds, str(path)], capture_output=True, text=True, timeout=MOST_WALL_S, check=False
    )
    assert run.returncode == 0, run.stderr or f"ended with {run.returncode}: more than {MOST_CPU_ALL_S} s of CPU"
    assert float(run.stdout) < MOST_MIB
