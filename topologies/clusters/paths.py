"""
Which host a file is about, by its path.

When to modify: files of hosts, or the outputs in them, are called in another way.
"""

from __future__ import annotations

import re
from pathlib import PurePath

ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w])")

_WORDS_FOR_OUTPUTS = re.compile(
    r"(?:nvidia[-_]?smi|rocm[-_]?smi|nccl|gpu|smi)?[-_]?(?:topo(?:logy)?|gpus?|query|lspci|nvlink|p2p|xml|q|l|list|m|mp|c|smi|matrix"
    r"|memory|pci|pcie|dcgm|dcgmi|nccl|rocm|info|status|out|output|stdout|log|graph|system)?(?:[-_](?:m|mp|q|x|l|s|c|p2p|tv|vv))*",
    re.IGNORECASE,
)

OUTPUT_FILE = re.compile(r"\.(?:txt|log|out|csv|xml|json|md)$", re.IGNORECASE)


def stem_of(name: str) -> str:
    """Return *name* of a file up to its first dot, but an address whole."""
    address = ADDRESS.match(name)
    return address[0] if address else name.partition(".")[0] or name


def host_of_path(path: PurePath) -> str:
    """Return the host that a file is about: its stem up to the first dot, or its folder where the stem only says what output it is."""
    stem = stem_of(path.name)
    return path.parent.name if _WORDS_FOR_OUTPUTS.fullmatch(stem) and path.parent.name else stem


def says_which_output(name: str) -> bool:
    """Whether *name* says what output it is, and not whose: ``topo``, ``gpu-list``, ``topo-m1``, ``list.txt``."""
    plain = stem_of(name).rstrip("0123456789-_.").lower()
    is_word = len(plain) > 1 and plain != "gpu" and _WORDS_FOR_OUTPUTS.fullmatch(plain) is not None
    return OUTPUT_FILE.search(name) is not None or is_word
