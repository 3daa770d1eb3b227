"""
Outputs of ``nvidia-smi -q`` that begin or end within a GPU, what of it is not known, or that have no line ends at all.

When to modify: the tool prints its facts in another order, so that a cut one is told by another fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvidia.report.report import MEMORY_PARTS, Block, Log
from topologies.nvidia.report.words import ONE_LINE
from topologies.pages.text import Page

_PROCESS_BEGINS = re.compile(
    r"[^\n]{0,40}\b(?:GPU|Compute) instance ID\b"
    + "".join(rf"|{word[:length]}\Z" for word in ("GPU instance ID", "Compute instance ID", "Process ID") for length in range(1, len(word)))
)
"""How what is printed of another process begins, cut or not."""

_NOT_ALONE = re.compile(
    r"\b(?:Compute Mode|Performance State|Fan Speed|Minor Number|Host Max|Default Power Limit|Display Active)\b[^\n:]{0,60}:"
)
"""What stands beside the memory of a GPU only in a whole output."""

HEADLESS = "the output of `nvidia-smi -q` begins within a GPU, and which one is unknown: it was left out"

_PARTS = {"name": "its name", "uuid": "its UUID", "fb": "its memory (FB)", "bar1": "its BAR1 memory", "gens": "its PCIe link"}


def missing_at_end(blocks: Sequence[Block], last_fact: tuple[str, str] | None) -> Iterator[str]:
    """Yield what is not shown of the last of *blocks* although it is of the others, or begun: *last_fact* is where it ends."""
    last, others = blocks[-1], blocks[:-1]
    missing = [
        words
        for name, words in _PARTS.items()
        if not getattr(last, name) and others and all(getattr(block, name) for block in others)
    ]
    cut = next((name for name in ("fb", "bar1") if (m := getattr(last, name)) and "free" not in m), None)
    if last_fact and cut == last_fact[0] and last_fact[1] != MEMORY_PARTS[-1]:
        missing.append(f"the rest of {_PARTS[cut]}")
    if missing:
        last.is_cut = True
        yield f"the output of `nvidia-smi -q` is cut within GPU {last.bus_id or len(others)}: {', '.join(missing)} is unknown"


def cut_processes(blocks: Sequence[Block], key: str | None, rest: str, text: str) -> Iterator[str]:
    """
    Leave out the processes of the last of *blocks* if the output ends within them, and yield what is said of it.

    *key* is that of the last fact, *rest* what stands below it, *text* everything.
    """
    last = blocks[-1]
    if last.processes is None:
        is_cut = key in ("Processes", "Process ID") and not last.unread_processes
    else:
        is_whole = "Used GPU Memory" in text or "Compute Mode" in text  # nobody asks for these lines alone
        begins = _PROCESS_BEGINS.match(rest.strip()) is not None
        is_cut = bool(last.processes) and (begins or (is_whole and key in ("Process ID", "Name")))
    if is_cut:
        last.processes, last.is_cut = None, True
        yield f"the output of `nvidia-smi -q` ends within the processes of GPU {last.bus_id or len(blocks) - 1}: who holds it is unknown"


def is_whole_output(text: str) -> bool:
    """Whether *text* has what only an output of everything has, so that it has a header unless that is missing."""
    return _NOT_ALONE.search(text) is not None


def begins_within(log: Log, *, is_whole: bool) -> bool:
    """
    Whether *log*, without lines that name a GPU, begins within one, of a whole output if *is_whole*.

    Memory of its MIG instances that got the look of GPUs is left out.
    """
    if log.attached is not None or log.driver is not None:
        return False
    if is_whole and all(is_unnamed(block) for block in log.blocks[:-1]) and not is_unnamed(log.blocks[-1]):
        del log.blocks[:-1]
    if len(log.blocks) != 1:
        return False
    block = log.blocks[0]
    is_end = block.processes is not None and block == Block(processes=block.processes, fabric=block.fabric)
    is_of_instance = bool(block.mig_instances) and block == Block(mig_instances=block.mig_instances, mig_indices=block.mig_indices)
    return is_whole or is_end or is_of_instance


def is_unnamed(block: Block) -> bool:
    """Whether nothing tells which GPU *block* is of."""
    return not (block.bus_id or block.name or block.uuid)


def unknown_gpu() -> Topology:
    """Return what a GPU whose beginning is missing tells: that there is one."""
    return Topology((Gpu(0, is_named=False),), format="q-text", warnings=(HEADLESS,))


def refuse_one_line(page: Page) -> None:
    """
    Refuse an output without line breaks: values would run into what follows them.

    Raises
    ------
    TopologyError
        If there is one.
    """
    if match := ONE_LINE.search(page.text):
        message = "the output of `nvidia-smi -q` stands on one line, so that it is unknown where values end: paste it with its line breaks"
        raise TopologyError(message, where=page.where(page.text.count("\n", 0, match.start()) + 1))
