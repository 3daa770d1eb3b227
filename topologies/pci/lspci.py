"""
Read ``lspci``: the list of functions with whatever ``-v``, ``-vv``, ``-nn`` add (`topologies.pci.lspci_blocks`), and the tree of ``-t``
and ``-tv`` (`topologies.pci.lspci_tree`), alone or together.

It states no NVLink, so that no link code follows from it: where GPUs and NICs hang is in `Gpu.pcie` and `Nic.pcie`.

When to modify: what is said about a machine as a whole; how lines are prefixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from topologies.bus_ids import order
from topologies.cards import find_card
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.pages.prefixes import stripped
from topologies.pages.reading import Reading, listing
from topologies.pages.text import Page, prefix_shape
from topologies.parts import Bridge, Host, Nic, Pcie
from topologies.paths import nic_code
from topologies.pci.lspci_blocks import TELLING, cut_line, joined, read_blocks
from topologies.pci.lspci_tree import FIRST_ROW, read_tree
from topologies.ports import MOST_GPUS, MOST_NICS, Function, Tree, narrow

_MAKERS = ("NVIDIA", "nVidia", "AMD/ATI", "10de:", "1002:", "ATI Technologies")
"""Every GPU that is read has one of these in its line."""

_MOST_LINES = 2**18
_LONGEST_PREFIX = 200
_MOST_PREFIXES = 64


def read(page: Page) -> Iterable[Reading]:
    """Yield a reading for every host whose functions are on *page*."""
    text = page.text
    if not any(maker in text for maker in _MAKERS):
        return
    first = min((match.start() for p in (TELLING, FIRST_ROW) if (match := p.search(text))), default=None)
    if first is None:
        return
    start = text.rfind("\n", 0, first) + 1
    number = text.count("\n", 0, start) + 1
    rest = re.sub(r"\n{3,}", "\n\n", text[start:])
    if rest.count("\n") > _MOST_LINES:
        raise TopologyError(
            f"more than {_MOST_LINES:,} lines from an output of lspci on: cut the text down to it", where=page.where(number)
        )
    for lines, warnings in _streams(rest.split("\n")):
        if (topology := _topology(lines, is_cut=page.is_cut)) is not None:
            told = [warning for warning in warnings if warning not in page.warnings]
            yield Reading(number, topology.replace(warnings=(*told, *topology.warnings)))


def _streams(lines: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """
    Yield *lines* without what a log or a mail put before them, and a warning that says so.

    Where several hosts talk at once, each under a prefix of its own, the lines of each are yielded by themselves.
    """
    shown: dict[str, set[str]] = {}  # prefix to what stands behind it; only the first few prefixes
    shapes: dict[str, None] = {}
    for line in lines:
        for pattern in (TELLING, FIRST_ROW):
            if ("-[" in line or ": " in line) and (match := pattern.search(line)):
                prefix = line[: match.start()]
                if prefix.strip() and len(prefix) <= _LONGEST_PREFIX and len(shapes) <= _MOST_PREFIXES:
                    shapes[_shape(prefix)] = None
                    if prefix in shown or len(shown) <= _MOST_PREFIXES:
                        shown.setdefault(prefix, set()).add(match[0])
                break
    if not shown:
        yield lines, []
        return
    warnings = [stripped([prefix.strip() for prefix in shown])]
    shared = set.intersection(*shown.values()) if 1 < len(shown) <= _MOST_PREFIXES else set()
    if shared:  # all show the same functions: several hosts
        for prefix in shown:
            yield [line[len(prefix) :] for line in lines if line.startswith(prefix)], warnings
        return
    if len(shapes) > _MOST_PREFIXES:
        yield lines, []
        return
    pattern = re.compile("|".join(sorted(shapes, key=len, reverse=True)))
    bare = [line[match.end() :] if (match := pattern.match(line)) else line for line in lines]
    number = sum(len(line) < len(before) for line, before in zip(bare, lines, strict=True))
    yield bare, warnings if number > 1 else []  # before a single line it is prose


def _shape(prefix: str) -> str:
    """Return a pattern of *prefix*, whatever its numbers are; lines without anything may have lost the blank at its end."""
    bare = prefix.rstrip(" ")
    return prefix_shape(bare) + (" ?" if len(bare) < len(prefix) else "")


def _topology(lines: Sequence[str], *, is_cut: bool) -> Topology | None:
    """Return the machine in *lines*; None if they name no GPU."""
    listed: dict[str, Function] = {}
    drawn: dict[str, Function] = {}
    warnings: list[str] = []
    roots = read_blocks(lines, listed, warnings)
    warnings += read_tree(lines, drawn)
    functions = dict(drawn)
    for bus_id, function in listed.items():
        functions[bus_id] = joined(function, drawn[bus_id]) if bus_id in drawn else function
    if not any(function.is_gpu for function in functions.values()):
        return None
    if is_cut and (told := cut_line(lines)):
        warnings.append(f"the text ends within {told[-60:]!r}, so that what stands there is unknown: give the whole output of lspci")
    tree = Tree(functions, frozenset(roots))
    gpus = sorted((f for f in functions.values() if f.is_gpu), key=lambda f: order(f.bus_id))
    gpus = _of_one_maker(gpus, warnings)
    nics = sorted((f for f in functions.values() if f.is_nic), key=lambda f: order(f.bus_id))
    if len(gpus) > MOST_GPUS or len(nics) > MOST_NICS:
        raise TopologyError(
            f"lspci lists {len(gpus)} GPUs and {len(nics)} NICs: cut the text down to those of one machine"
        )
    loose = [f"GPU{index}" for index, f in enumerate(gpus) if tree.place(f)[1] is None]
    if loose and len(loose) < len(gpus) and not warnings:
        warnings.append(f"where {listing(loose)} hang{'s' * (len(loose) == 1)} is unknown: lspci does not show the bridges above")
    warnings += _unknown(gpus, tree, is_cut=is_cut)
    warnings += narrow_links(tree, dict(enumerate(gpus)))
    details = {_bus_id(f) or f"NIC below {f.bus_id}": Nic(_bus_id(f), numa=f.numa, pcie=_pcie(tree, f)) for f in nics}
    found = tuple(
        Gpu(index, name=_name(f), pci_bus_id=_bus_id(f), numa=f.numa, pcie=_pcie(tree, f)) for index, f in enumerate(gpus)
    )
    codes = {
        gpu.index: {nic: code for nic, detail in details.items() if (code := nic_code(gpu, detail)) is not None}
        for gpu in found
    }
    bridges = bridges_above(tree, [*(gpu.pcie.path for gpu in found if gpu.pcie), *(n.pcie.path for n in details.values() if n.pcie)])
    return Topology(
        found,
        nics=dict.fromkeys(details),
        nic_details=details,
        gpu_nic={index: nics_of for index, nics_of in codes.items() if nics_of},
        format="lspci",
        warnings=tuple(warnings),
        host_facts={None: Host(bridges=bridges)} if bridges else {},
    )


def _bus_id(function: Function) -> str | None:
    """Return the bus id of what *function* describes; None if only the bridge above it has one that can be read."""
    return None if function.is_below else function.bus_id


def _pcie(tree: Tree, function: Function) -> Pcie:
    """Return the port of what *function* describes."""
    if not function.is_below:
        return tree.pcie(function)
    path, root = tree.place(function)
    return Pcie(path=(*path, function.bus_id), root=root) if root is not None else Pcie()


def _of_one_maker(gpus: list[Function], warnings: list[str]) -> list[Function]:
    """Return *gpus* without the graphics of an AMD processor or desktop card beside NVIDIA's."""
    ours = [f for f in gpus if f.vendor == "nvidia"]
    others = [f.bus_id for f in gpus if f.vendor != "nvidia"]
    if not ours or not others:
        return gpus
    warnings.append(f"the GPU at {listing(others)} is AMD's beside those of NVIDIA: it was left out")
    return ours


def _name(function: Function) -> str | None:
    """Return the product name if the catalogue knows it: other names of lspci are those of chips."""
    if function.name is None:
        return None
    try:
        find_card(function.name)
    except TopologyError:
        return None
    return function.name


def _unknown(gpus: Sequence[Function], tree: Tree, *, is_cut: bool) -> Iterator[str]:
    """Yield what could have been read of *gpus* and was not."""
    names = {id(f): f"GPU {index} ({f.bus_id})" for index, f in enumerate(gpus)}
    denied = [f"GPU{index}" for index, f in enumerate(gpus) if f.is_denied]
    if denied:
        yield (
            f"lspci may not read the PCIe capabilities of {listing(denied)}, so that speed, width and ACS are unknown: "
            "run it as root (`sudo lspci -vv`)"
        )
    for function in gpus:
        if function.is_lost:
            yield f"{names[id(function)]} does not answer on the bus (it reads ff): it is lost until a reset"
        if function.driver == "vfio-pci":
            yield f"{names[id(function)]} is held by vfio-pci, that is by a virtual machine"
    if not any(denied or f.is_lost or f.can != (None, None) or tree.pcie(f) != Pcie() for f in gpus):
        yield "this output of lspci only lists devices: slots, switches and links are unknown (`sudo lspci -vv` tells them)"
    described = [f for f in gpus if f.can != (None, None)]
    for function in gpus if described else ():
        if function.can == (None, None) and not function.is_denied and not function.is_lost:
            why = "the text ends within its block" if is_cut and function is gpus[-1] else "its block has no LnkCap"
            yield f"the PCIe link of {names[id(function)]} is unknown: {why}"


def narrow_links(tree: Tree, gpus: Mapping[int, Function]) -> list[str]:
    """Return a warning for each of *gpus*, by index, that got fewer lanes than it and its slot have."""
    found = []
    for index, function in gpus.items():
        if (lanes := narrow(function, tree.slot(function))) is not None:
            now, can = lanes
            found.append(
                f"GPU {index} ({function.bus_id}) runs on {now} of the {can} PCIe lanes that it and its slot have: "
                "reseat the card or its riser"
            )
    return found


def bridges_above(tree: Tree, paths: Iterable[Sequence[str]]) -> dict[str, Bridge]:
    """Return what is known of the bridges on *paths*, in PCI order."""
    wanted = sorted({bus_id for path in paths for bus_id in path}, key=order)
    return {bus_id: tree.bridge(tree.functions[bus_id]) for bus_id in wanted}
