"""
What nvidia-smi says instead of an answer, and what to do about it.

When to modify: another message of the driver or its tools is worth an explanation.
"""

from __future__ import annotations

import re

from topologies.errors import TopologyError
from topologies.text import Page

_MESSAGES = (
    (
        r"Failed to run topology matrix",
        "nvidia-smi could not build the matrix; run `nvidia-smi topo -m` on the host itself, outside containers and virtual machines",
    ),
    (
        r"-i command line argument must be used in conjunction with",
        "wrong flags: `nvidia-smi topo -m` shows all GPUs and takes no -i",
    ),
    (
        r"NVIDIA-SMI has failed because it couldn.?t communicate",
        "the driver does not run on that host; load it (`modprobe nvidia`) or install it, then run `nvidia-smi topo -m` again",
    ),
    (
        r"Unable to de(?:termine|tect) the device handle for (?:GPU|gpu)\s?[\w:.]+.*",
        "a GPU is lost (it does not answer): reset or reboot the host, then run `nvidia-smi topo -m` again",
    ),
    (
        r"GPU is lost.*",
        "a GPU is lost (it does not answer): reset or reboot the host, then run `nvidia-smi topo -m` again",
    ),
    (
        r"No devices were found",
        "the driver finds no GPU: check `lspci`, and which devices the container was given",
    ),
    (
        r"Failed to initialize NVML: Driver/library version mismatch",
        "driver and library have different versions: reload the driver or reboot, then run `nvidia-smi topo -m` again",
    ),
    (
        r"Failed to initialize NVML.*",
        "the driver does not answer: check that it is loaded and that you may use it",
    ),
    (
        r"nvidia-smi: (?:command )?not found|command not found: nvidia-smi",
        "nvidia-smi is not installed on that host",
    ),
    (r"Insufficient Permissions", "nvidia-smi was refused: run it with the rights to see all GPUs"),
    (
        r"ERROR: .*|Invalid combination of input arguments.*",
        "nvidia-smi was called wrongly: run `nvidia-smi topo -m`",
    ),
)
_LONGEST = 200
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), remedy) for pattern, remedy in _MESSAGES)


def find_message(page: Page) -> TopologyError | None:
    """Return the first message of nvidia-smi on *page* as an error, with its words and what to do; None if there is none."""
    for line in page.lines:
        for pattern, remedy in _COMPILED:
            if match := pattern.search(line.text):
                said = line.text[match.start() if len(line.text) > _LONGEST else 0 :][:_LONGEST].strip()
                return TopologyError(f"nvidia-smi says {said!r}: {remedy}", where=page.where(line.number))
    return None
