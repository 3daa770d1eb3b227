"""
What an output about GPUs looks like, whoever printed it: words that tell of one, where each kind begins, how often one is there.

When to modify: a format gets a reader. It needs words here, or hosts that print it are taken for one machine.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable

TELLS = re.compile(
    r"\b[A-Z]?PU ?\[?[0-9]|<nvidia_smi_log|<system\b|\b(?:index|name|uuid), ?\w|NVIDIA Corporation|placement/topology/v1"
    r"|NVIDIA-SMI [0-9]|MiB ?/ |gpuId [0-9]|[0-9], ?(?:NVIDIA|Tesla|GeForce|Quadro|AMD|GPU-)|process_name"
    r"|\[AMD/ATI\]|\bInstinct\b|\b(?:ACCESS|WEIGHT|HOPS|TYPE) TABLE\b"
)
"""What an output about GPUs has."""

BEGINNINGS = re.compile(
    r"(?P<matrix>GPU0\b[ \t|]*X\b)|(?P<table>NVIDIA-SMI [0-9])|(?P<nvlink>^[ \t]*GPU 0: [^\n]*\n[ \t]*(?:Link [0-9]|all links|NVML))"
    r"|(?P<list>^[ \t]*GPU 0: )|(?P<xml><nvidia_smi_log)|(?P<nccl><system\b)"
    r"|(?P<query>^[ \t]*GPU 0000)|(?P<dcgm>gpuId 0\b)|(?P<between>Link Type between (?:two )?GPUs)|(?P<amd>\b(?:ACCESS|LINK TYPE) TABLE\b)"
    r"|(?P<rocm>GPU\[0\])|(?P<rows>^[ \t]*0, ?\w)"
    r"|(?P<columns>\b(?:index|name|uuid|pid|gpu_\w{1,20}), ?\w)"
    r"|(?P<pci>NVIDIA Corporation|\[AMD/ATI\])",
    re.MULTILINE,
)
"""Where an output begins, and its kind."""

_LINKS = frozenset({"matrix", "between", "amd"})
"""Kinds that say the same of different makes: a cluster may have hosts with GPUs of both."""

_REPEATED = frozenset({"matrix", "dcgm", "between", "amd", "rocm", "columns"})
"""Kinds that tell no UUID, by which outputs of two hosts would contradict; the first line stands in one output once."""

_ONCE = re.compile(r"GPU\[0\][ \t]*: ?(?:\(Topology\) Numa Node|VRAM Total|Card [Ss]eries|PCI Bus)|(?!GPU\[)")
"""What is said of a GPU once in an output of `rocm-smi`, or none of its facts."""

_NAMES_GPU = re.compile(r"\b(?:gpu_)?(?:uuid|serial)\b")
"""A column that differs on another machine, so that its rows contradict."""

_PCIE_MATRIX = re.compile(r"topo\s+(?:-mp|--matrix-pci)\b")
"""Prints the same as `topo -m` where there is no NVLink."""

_FUNCTION = re.compile(
    r"^[ \t]*((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) [^\n]{1,100}: (?:NVIDIA Corporation|[^\n]{1,60}\[AMD/ATI\])[^\n]*"
    r"(?!\n[ \t]+\w)$",
    re.MULTILINE,
)
"""A line of a plain list of ``lspci`` about what may be a GPU."""

_DETAILED = re.compile(
    r"^[ \t]*((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) [^\n]{1,100}: (?:NVIDIA Corporation|[^\n]{1,60}\[AMD/ATI\])[^\n]*"
    r"(?=\n[ \t]+\w)(?:\n[ \t]+(?!Control:|Flags:)\w[^\n]*){0,9}(?:\n[ \t]+(?P<level>Control|Flags):)?",
    re.MULTILINE,
)
"""The beginning of what ``lspci -vv`` (Control), ``lspci -v`` (Flags) or a grep of one of them tells of what may be a GPU."""

_TREE = re.compile(r"^[ \t]*-(?:\+-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-[^\n]*", re.MULTILINE)


def tells_of_gpus(text: str) -> bool:
    """Whether *text* has a word that outputs about GPUs have."""
    return TELLS.search(text) is not None


def begins_output(text: str) -> bool:
    """Whether *text* has an output from its beginning."""
    return BEGINNINGS.search(text) is not None


def kinds_of(text: str) -> frozenset[str]:
    """Return the kinds of outputs that begin in *text*; tables of links are one kind whatever the make."""
    kinds = {str(match.lastgroup) for match in BEGINNINGS.finditer(text)}
    return frozenset(kinds - _LINKS | ({"links"} if kinds & _LINKS else set()))


def are_alike(texts: Collection[str]) -> bool:
    """Whether all of *texts* with an output have one of a kind that all have, and there are two at least."""
    kinds = [of_text for of_text in map(kinds_of, texts) if of_text]
    return len(kinds) > 1 and bool(frozenset.intersection(*kinds))


def repeated(texts: Iterable[str]) -> list[str]:
    """Return a warning if one of *texts* has the same output several times: it may be that of several hosts that nobody names."""
    times = max((most_repeated(text) for text in texts if _PCIE_MATRIX.search(text) is None), default=0)
    if times < 2:
        return []
    said = "and is taken as that of one machine: if it is that of several hosts, write the name before each (node0: )"
    return [f"the same output stands there {times} times, {said}"]


def most_repeated(text: str) -> int:
    """
    Return how often the same output stands in *text*: a matrix, a table of AMD, a query that tells no UUID, a list of links, a tree.

    Lists of ``lspci``, plain or with details, are in order of bus ids: one more begins where a bus id is no higher than that before.
    """
    found: Counter[str] = Counter()
    for match in BEGINNINGS.finditer(text):
        if match.lastgroup not in _REPEATED:
            continue
        line = text[text.rfind("\n", 0, match.start()) + 1 : text.find("\n", match.end())]
        if match.lastgroup == "columns" and (_NAMES_GPU.search(line) or "--" in line):
            continue    # rows of another machine would contradict, or it is a command
        if _ONCE.match(said := line[match.start() - text.rfind("\n", 0, match.start()) - 1 :].strip()):
            found[said] += 1
    found.update(match[0].strip() for match in _TREE.finditer(text))
    lists = [[match[1] for match in _FUNCTION.finditer(text)]]
    detailed = [(match["level"], match[1]) for match in _DETAILED.finditer(text)]
    lists += [[bus for level, bus in detailed if level == shown] for shown in ("Control", "Flags", None)]
    return max((0, *found.values(), *map(_lists, lists)))


def _lists(buses: Iterable[str]) -> int:
    """Return in how many lists in order *buses* stand."""
    padded = [bus.rjust(20, "0") for bus in buses]
    return sum(after <= before for before, after in itertools.pairwise(padded)) + 1 if padded else 0
