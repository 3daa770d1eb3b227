"""
Read ``dcgmi nvlink -s``: which NVLinks of each GPU and NVSwitch are up.

When to modify: the tool prints another fact, or another letter for a state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.pages.prefixes import without_prefixes
from topologies.pages.reading import Reading, listing
from topologies.pages.text import Line, Page

_DEVICE = re.compile(r"(?<!\w)(?P<kind>gpu|physical|switch|nvswitch)\s?Id\s{0,4}(?P<index>[0-9]{1,9})\s{0,4}:", re.IGNORECASE)
_STATES = re.compile(r"\s{0,40}(?:[UDX_]\s{0,8}){1,256}(?!\w)")
_ROW = re.compile(r"\s{0,200}(?:[UDX_]\s{0,8}){1,256}")
_STATE = re.compile(r"[UDX_]")
_NEXT = re.compile(r"\s*g(?:p(?:u(?:I(?:d\s{0,4}[0-9]{0,9})?)?)?)?\s*", re.IGNORECASE)
"""The beginning of the line of a GPU."""

_WORDS = {"D": "down", "X": "disabled"}


@dataclass(slots=True)
class _Output:
    """States of the links of each GPU and NVSwitch, as letters; *is_next_cut*: the text ends where another GPU begins."""

    line: int
    gpus: dict[int, str] = field(default_factory=dict)
    switches: dict[int, str] = field(default_factory=dict)
    is_cut: bool = False
    is_next_cut: bool = False


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every output on *page*.

    Raises
    ------
    TopologyError
        If an id is that of no GPU.
    """
    if "Id" not in page.text or not _DEVICE.search(page.text):
        return
    groups, notes = without_prefixes(page.lines, _DEVICE.search, _is_first)
    last = max((line.number for line in page.lines if line.text.strip()), default=0)
    for lines in groups:
        for output in _outputs(lines, page, last):
            if any(output.gpus.values()):
                yield Reading(output.line, _topology(output, notes))


def _is_first(device: re.Match[str]) -> bool:
    return device["kind"].lower() == "gpu" and int(device["index"]) == 0


def _outputs(lines: Sequence[Line], page: Page, last: int) -> Iterator[_Output]:
    """Yield the outputs; a GPU that comes again begins another."""
    output: _Output | None = None
    target: tuple[dict[int, str], int] | None = None
    for line in lines:
        devices = list(_DEVICE.finditer(line.text))
        rest = line.text
        if not devices and line.text.strip():
            if target is not None and (states := _ROW.fullmatch(line.text)):
                target[0][target[1]] += "".join(_STATE.findall(states[0]))
                rest = ""
            else:
                target = None
        for position, device in enumerate(devices):
            index = int(device["index"])
            is_gpu = device["kind"].lower() == "gpu"
            if index >= MOST_DEVICES:
                raise TopologyError(f"dcgmi: {index} is no id of a GPU", where=page.where(line.number))
            if output is None or (is_gpu and index in output.gpus):
                if output is not None:
                    yield output
                output = _Output(line.number)
            target = (output.gpus if is_gpu else output.switches, index)
            end = devices[position + 1].start() if position + 1 < len(devices) else len(line.text)
            states = _STATES.match(line.text, device.end(), end)
            target[0][index] = "".join(_STATE.findall(states[0])) if states else ""
            rest = line.text[states.end() if states else device.end() :]
        if page.is_cut and line.number == last and output is not None:
            output.is_cut = target is not None and not rest.strip()
            output.is_next_cut = bool(rest.strip()) and _NEXT.fullmatch(rest) is not None
    if output is not None:
        yield output


def _topology(output: _Output, notes: Sequence[str]) -> Topology:
    warnings = [*notes]
    absent = [f"GPU{index}" for index in range(max(output.gpus)) if index not in output.gpus]
    if absent:
        warnings.append(f"the output of dcgmi does not name {listing(absent)}, but GPUs with higher numbers")
    warnings += _off(output.gpus, "GPU", "DX") + _off(output.switches, "NvSwitch ", "D") + _odd_switches(output.switches)
    usual = max(len(states) for states in output.gpus.values())
    short = [f"GPU{index}" for index, states in sorted(output.gpus.items()) if len(states) < usual]
    if short:
        warnings.append(f"the text shows fewer links of {listing(short)} than of the others: the rest is unknown")
    elif output.is_cut:
        warnings.append("the text ends within the links of the last device")
    if output.is_next_cut:
        warnings.append("the text ends where the next GPU begins: further GPUs are unknown")
    gpus = tuple(Gpu(index, is_named=index in output.gpus) for index in range(max(output.gpus) + 1))
    up = {str(index): states.count("U") for index, states in sorted(output.gpus.items())}
    return Topology(gpus, format="dcgmi-nvlink", warnings=tuple(warnings), stated={"gpu_links_up": up})


def _off(devices: Mapping[int, str], what: str, letters: str) -> list[str]:
    """Return a warning for every device with links whose state is among *letters*."""
    found = []
    for index, states in sorted(devices.items()):
        for letter, count in Counter(states).items():
            if letter in letters:
                which = _listed([k for k, state in enumerate(states) if state == letter])
                are = "is" if count == 1 else "are"
                found.append(f"{count} of the {len(states)} NVLinks of {what}{index} {are} {_WORDS[letter]}: {which}")
    return found


def _odd_switches(switches: Mapping[int, str]) -> list[str]:
    """
    Return a warning if an NVSwitch has a number of disabled links that no other of its kind has.

    Ports that nothing is wired to are disabled for good. Boards wire their switches alike, or alike in twos.
    """
    disabled = {index: states.count("X") for index, states in sorted(switches.items())}
    alike = Counter((len(switches[index]), count) for index, count in disabled.items())
    kinds = Counter(len(states) for states in switches.values())
    odd = [index for index in disabled if alike[len(switches[index]), disabled[index]] == 1 < kinds[len(switches[index])]]
    if not odd:
        return []
    counts = listing([f"{count} of NvSwitch {index}" for index, count in disabled.items()])
    return [f"NVSwitches differ in how many of their NVLinks are disabled ({counts}): more than the ports that are not wired may be off"]


def _listed(links: Sequence[int]) -> str:
    return listing([str(link) for link in links])
