"""
The matrix of links that people know, its codes in words, and the pairs that have no peer-to-peer access.

When to modify: how links look on a terminal, or a new code or peer-to-peer state.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from placement.cli.table import GAP, counted
from placement.drawing.roles import spans
from placement.drawing.shapes import printable
from topologies.links import LinkKind, parse_code
from topologies.model import Pair, Topology
from topologies.peer_kinds import all_kinds

_MOST_PAIRS = 24
"""Pairs without peer-to-peer access that are listed one by one."""

_KINDS = {
    LinkKind.XGMI: "direct, AMD's",
    LinkKind.PIX: "under one PCIe switch",
    LinkKind.PXB: "over several PCIe switches",
    LinkKind.PHB: "over the PCIe root of a CPU",
    LinkKind.NODE: "between PCIe roots of one NUMA node",
    LinkKind.SYS: "between CPU sockets",
    LinkKind.PCIE: "over PCIe, how far is not stated",
}

_STATES = {
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "not supported",
    "DR": "disabled by the driver's registry",
    "U": "unknown",
}

_CAPABILITIES = {
    "r": "reading",
    "w": "writing",
    "rw": "reading and writing",
    "n": "over NVLink",
    "a": "atomics",
    "p": "over PCIe",
}


def label_of(topology: Topology) -> str:
    """Return what the source calls its devices: ``GPU``, mostly."""
    word = topology.stated.get("devices")
    return printable(word) if isinstance(word, str) and 0 < len(word) <= 8 else "GPU"


def matrix(topology: Topology, islands: Sequence[Sequence[int]], width: int) -> Text:
    """
    Return the matrix; links inside an island stand in brackets, and in colour where there is any.

    A matrix that is too wide drops the word GPU above its columns; one that is still too wide is cut into blocks of columns.
    """
    label = label_of(topology)
    island = {g: k for k, members in enumerate(islands) for g in members}
    n = len(topology.gpus)
    has_brackets = any(len(members) > 1 for members in islands)
    codes = [[printable(topology.link(i, j) or "?") if i != j else "X" for j in range(n)] for i in range(n)]
    margin = int(has_brackets)
    longest = max(len(code) for row in codes for code in row) + 2 * margin
    first = len(f"{label}{n - 1}") + GAP - margin
    for word, gap in ((label, GAP - margin), ("", 1)):
        cell = max(longest, len(f"{word}{n - 1}") + margin) + gap
        if first + n * cell - gap <= width:
            break
    in_a_block = max((width - first + gap) // cell, 1)
    in_a_block = -(-n // -(-n // in_a_block))  # blocks of one size read better than a narrow last one
    text = Text(no_wrap=True, overflow="ignore", end="")
    for start in range(0, n, in_a_block):
        columns = range(start, min(start + in_a_block, n))
        text.append("\n" if start else "")
        titles = "".join((" " * margin + f"{word}{j}").ljust(cell) for j in columns)
        text.append(" " * first + titles.rstrip() + "\n", style="bold")
        for i in range(n):
            text.append(f"{label}{i}".ljust(first))
            for j in columns:
                together = has_brackets and i != j and island[i] == island[j]
                shown = f"[{codes[i][j]}]" if together else " " * margin + codes[i][j]
                text.append(shown.ljust(cell), style="bold green" if together else "")
            text.append("\n")
    return text


def legend(
    topology: Topology, islands: Sequence[Sequence[int]], *, others: Iterable[str] = (), unknown: str = "not stated"
) -> str:
    """
    Return what the codes of the matrix mean, those that occur.

    Parameters
    ----------
    others
        Further codes that stand near the matrix.
    unknown
        What its question marks stand for.
    """
    n = len(topology.gpus)
    found = {topology.link(i, j) for i, j in itertools.combinations(range(n), 2)}
    words = ["[ ]: inside an island"] if any(len(members) > 1 for members in islands) else []
    if any(parse_code(code)[0] is LinkKind.NVLINK for code in found):
        words.append("NV#: # NVLinks")
    words += meanings((*(code for code in found if code is not None), *others))
    if None in found:
        words.append(f"?: {unknown}")
    return " · ".join(words)


def meanings(codes: Iterable[str]) -> Iterator[str]:
    """Yield what *codes* mean, closest first; NVLinks, which say how many they are, are left out."""
    known = sorted(set(codes))
    for kind, meaning in _KINDS.items():
        if alike := [code for code in known if parse_code(code)[0] is kind]:
            yield f"{' or '.join(alike)}: {meaning}"


def peer_access(topology: Topology, *, without: Container[Pair] = (), over_host: Container[Pair] = ()) -> Iterator[str]:
    """
    Yield which pairs, but for those *without*, have no peer-to-peer access, and why; one sentence when all that are stated have it.

    That copies go through host memory is said of the pairs *over_host*.
    """
    alike: list[tuple[list[str], Mapping[Pair, str]]] = []
    for kind, stated in all_kinds(topology).items():
        what = _CAPABILITIES.get(kind)
        whats = next((whats for whats, others in alike if what and whats and others == stated), None)
        if whats is None:
            alike.append(([what] if what else [], stated))
        elif what:
            whats.append(what)
    for whats, stated in alike:
        yield from _of_kinds(whats, stated, without, over_host)


def _of_kinds(
    whats: Sequence[str], stated: Mapping[Pair, str], without: Container[Pair], over_host: Container[Pair]
) -> Iterator[str]:
    title = "peer-to-peer access" + (f" ({', '.join(whats)})" if whats else "")
    states: dict[str, list[Pair]] = {}
    for pair, state in sorted(stated.items()):
        states.setdefault(state, []).append(pair)
    working = states.pop("OK", [])
    if working and not states:
        yield f"{title}: works between {pair_words(working)}"
    for state, every in states.items():
        pairs = [pair for pair in every if pair not in without]
        if not pairs:
            continue
        why = f", {_STATES[state]}" if state in _STATES else ""
        is_off = "is unknown" if state == "U" else "is off"
        so = ": copies go through host memory" if all(pair in over_host for pair in pairs) else ""
        yield f"{title} {is_off} between {pair_words(pairs)} ({printable(state)}{'' if state == 'U' else why}){so}"


def pair_words(pairs: Sequence[Pair]) -> str:
    """Return *pairs* in words: one by one, or how many there are of which GPUs."""
    gpus = sorted({g for pair in pairs for g in pair})
    if len(pairs) > 1 and len(pairs) == len(gpus) * (len(gpus) - 1) // 2:
        return f"all pairs of the GPUs {spans(gpus)}"
    if len(pairs) > _MOST_PAIRS:
        return f"{counted(len(pairs), 'pair')} of the GPUs {spans(gpus)}, which --json lists"
    listed = ", ".join(f"{i} and {j}" for i, j in pairs)
    return f"the GPUs {listed}"
