"""
Read the box that plain ``nvidia-smi`` prints: cards, bus ids, memory, MIG mode and who holds memory.

Names are cut to the width of their column (``NVIDIA A100-SXM...``). A cut name is stated only where memory leaves one card of the
catalogue that is called so.

When to modify: a driver draws the box in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topologies.bus_ids import BUS_ID
from topologies.cards import cards
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.table.box import are_different, unwrapped, without_border
from topologies.pages.prefixes import before_lines, stripped
from topologies.pages.reading import Reading, listing
from topologies.pages.text import Line, Page
from topologies.parts import Mig, Process

FORMAT = "smi-table"
PART = "smi-table-part"
"""The format of a box of which the begin is lost: what scrolled away may have been any number of GPUs."""

_HEAD = re.compile(
    r"\|\s{0,12}(?P<index>[0-9]{1,6})\s{1,8}(?P<name>(?!(?:[KMG]iB|MHz|W|%)\s)[^\s|][^|]{0,80}?)"
    r"(?:\s{1,60}(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM))?\s{0,20}"
    rf"\|\s{{0,30}}(?P<bus>{BUS_ID}|ERR!|N/A)(?:\s{{1,20}}(?:On|Off|N/A|ERR!))?\s{{0,20}}(?:\||$)"
)
_MEMORY = re.compile(r"(?<![0-9])(?P<used>[0-9]{1,9})\s?MiB\s{0,12}/\s{0,12}(?P<total>[0-9]{1,9})\s?MiB")
_MIG = re.compile(r"\|\s{0,40}(?P<mode>Enabled|Disabled)\*?\s{0,8}\|\s{0,20}$")
_DRIVER = re.compile(r"NVIDIA-SMI\s+[0-9.]{3,20}\s.{0,60}?Driver Version:\s*([0-9]{2,4}(?:\.[0-9]{1,4}){1,3})")
_CUDA = re.compile(r"CUDA Version:\s*([0-9]{1,3}\.[0-9]{1,3})")
_BEGUN = re.compile(r"\|\s{0,12}(?P<index>[0-9]{1,4})\s{1,8}(?![0-9\s]|N/A\s)[^|]")
"""The line of a GPU that may be cut."""

_INSTANCE = re.compile(r"\|\s{0,8}[0-9]{1,4}\s{1,8}[0-9]{1,4}\s{1,8}[0-9]{1,4}\s{1,8}[0-9]{1,4}\s{0,8}\|")
_INSTANCES = re.compile(r"\|\s{0,8}MIG devices:")
_BELOW_GPUS = -2
"""Stands for the index of a GPU in the list of instances."""

_PROCESS = re.compile(
    r"\|\s{0,12}(?P<gpu>[0-9]{1,4})\s{1,12}(?:(?:N/A|[0-9]{1,3})\s{1,8}(?:N/A|[0-9]{1,3})\s{1,12})?(?P<pid>[0-9]{1,10})\s{1,12}"
    r"(?:C\+G|M\+C|C|G|M)\s{1,8}(?P<name>[^|]{0,200}?)\s{1,200}(?P<memory>[0-9]{1,9}\s?MiB|N/A)\s{0,8}\|"
)
_PROCESSES = re.compile(r"\|\s{0,8}(?:Compute p|P)rocesses:")
_NONE_RUN = re.compile(r"No running (?:compute )?processes found")
_NO_NAMES = ("ERR!", "N/A", "Unknown")
_CUT_NAME = re.compile(r"(?P<begin>.*[^\s.])\s?(?:\.{2,3}|…)")
_RULE = re.compile(r"\+[-=+]{9,}\+?\s*$")
_MUCH_MIB = 1024
"""More memory than a driver holds by itself: somebody runs there, and the box, which a container may have printed, hides it."""

_MOST_PROCESSES = 4096
_LONGEST_PREFIX = 200
_MOST_PREFIXES = 64


@dataclass(slots=True)
class _Box:
    """
    What one box says.

    *heads* are the lines of the GPUs, *below* what stands below each, *processes* those of each, *tells_processes* whether there is
    a list of them, *is_whole* whether its end was seen, *end* the last line with its number, *is_closed* whether a rule stands
    below the last GPU, *shows_instances* whether there is a list of instances (MIG), and *headless* how many GPUs below the last
    head lost the line with their number and name.
    """

    line: int
    heads: dict[int, re.Match[str]] = field(default_factory=dict)
    below: dict[int, list[str]] = field(default_factory=dict)
    processes: dict[int, list[Process]] = field(default_factory=dict)
    driver: str | None = None
    cuda: str | None = None
    end: tuple[int, str] = (0, "")
    is_closed: bool = False
    shows_instances: bool = False
    headless: int = 0
    tells_processes: bool = False
    is_whole: bool = False


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every box on *page* that shows a GPU.

    Raises
    ------
    TopologyError
        If an index is that of no GPU, or the box stands on one line or lost its left border.
    """
    if "|" not in page.text or "MiB" not in page.text:
        return
    groups, notes = _without_prefixes(page.lines)
    if (number := without_border(page.lines)) is not None and not any(_HEAD.search(line.text) for line in page.lines):
        message = "the left border of the table of nvidia-smi is cut off, and with it the numbers of GPUs: copy whole lines"
        raise TopologyError(message, where=page.where(number))
    for lines in groups:
        boxes, said = _last_of_each(list(_boxes(lines, page)), page)
        for box in boxes:
            topology = _topology(box, page)
            yield Reading(box.line, topology.replace(warnings=(*notes, *said, *topology.warnings)))


def _without_prefixes(lines: Sequence[Line]) -> tuple[list[Sequence[Line]], list[str]]:
    """Return *lines* without what stands before the bars, one list for each host that talks, and what was taken off as a warning."""
    before: dict[str, bool] = {}
    for line in lines:
        if "|" in line.text and (head := _HEAD.search(line.text)) is not None and head.start() <= _LONGEST_PREFIX:
            prefix = line.text[: head.start()]
            before[prefix] = before.get(prefix, False) or int(head["index"]) == 0
    prefixes = [prefix for prefix in before if prefix.strip()]
    if not 0 < len(prefixes) <= _MOST_PREFIXES:
        return [lines], []
    are_hosts = len(before) > 1 and all(before.values()) and len(prefixes) == len(before)
    patterns = [before_lines(prefix.strip()) for prefix in prefixes]
    groups: dict[str, list[Line]] = {}
    talker = ""
    for line in lines:
        text = line.text
        if are_hosts:
            talker = next((prefix for prefix in prefixes if text.startswith(prefix)), talker)
            text = text.removeprefix(talker)
        elif match := next((match for pattern in patterns if (match := pattern.match(text))), None):
            text = text[match.end() :].lstrip(" ")
        groups.setdefault(talker, []).append(Line(line.number, text))
    return list(groups.values()), [stripped([prefix.strip() for prefix in prefixes])]


def _last_of_each(boxes: Sequence[_Box], page: Page) -> tuple[list[_Box], list[str]]:
    """Return the last of the *boxes* that show the same GPUs, as `nvidia-smi -l` prints them again and again, and a warning."""
    last: dict[tuple[tuple[int, str], ...], _Box] = {}
    for box in boxes:
        gpus = tuple((index, head["bus"].lower()) for index, head in box.heads.items())
        for index, head in last[gpus].heads.items() if gpus in last else ():
            if are_different(first := head["name"].strip(), second := box.heads[index]["name"].strip()):
                message = f"two tables of nvidia-smi contradict: GPU {index} is {first} in one and {second} here; give those of one machine"
                raise TopologyError(message, where=page.where(box.line))
        if box is not boxes[-1] or not any(len(gpus) < len(whole) and whole[: len(gpus)] == gpus for whole in last):
            last[gpus] = box    # the last one may have been interrupted
    if len(last) == len(boxes):
        return list(boxes), []
    return list(last.values()), ["the table of nvidia-smi is there several times: the last whole one counts"]


def _boxes(lines: Sequence[Line], page: Page) -> Iterator[_Box]:
    box: _Box | None = None
    driver: tuple[int, str, str | None] | None = None
    index = -1
    count = 0
    for line in unwrapped(lines):
        text = line.text
        if "NVIDIA-SMI" in text and (match := _DRIVER.search(text)):
            cuda = _CUDA.search(text)
            driver = (line.number, match[1], cuda[1] if cuda else None)
        head = _HEAD.search(text) if "|" in text else None
        if head is not None and _MEMORY.search(text) is not None:
            message = "the table of nvidia-smi stands on one line: paste it with its line breaks"
            raise TopologyError(message, where=page.where(line.number))
        if head is not None:
            index = int(head["index"])
            if index >= MOST_DEVICES:
                raise TopologyError(f"GPU {index} is no GPU of one host", where=page.where(line.number))
            if box is None or index in box.heads or box.tells_processes or (driver and driver[0] > box.line and box.heads):
                if box is not None:
                    yield box
                box = _Box(driver[0], driver=driver[1], cuda=driver[2]) if driver else _Box(line.number)
                driver, count = None, 0
            box.heads[index], box.below[index], box.is_closed, box.headless = head, [], False, 0
        elif box is not None and _PROCESSES.search(text):
            box.tells_processes, index = True, -1
        elif box is not None and box.tells_processes:
            process = _PROCESS.search(text) if count < _MOST_PROCESSES else None
            if process is not None:
                size = None if process["memory"] == "N/A" else int(process["memory"].removesuffix("MiB"))
                found = Process(int(process["pid"]), process["name"].strip() or None, size)
                box.processes.setdefault(int(process["gpu"]), []).append(found)
                count += 1
            box.is_whole |= _NONE_RUN.search(text) is not None or (count > 0 and _RULE.search(text) is not None)
        elif box is not None and _lost_head(text, box, index):
            box.headless, index = box.headless + 1, -1
        elif box is not None and index in box.below and len(box.below[index]) < 3 and text.strip():
            box.below[index].append(text)
            if _RULE.search(text):
                index = -1
        elif box is not None and _INSTANCES.search(text):
            index = _BELOW_GPUS
        elif box is not None and _INSTANCE.search(text):
            box.shows_instances = True
        if box is not None and text.strip():
            box.end = (line.number, text.strip())
            box.is_closed |= _RULE.search(text) is not None
    if box is not None:
        yield box


def _lost_head(text: str, box: _Box, index: int) -> bool:
    """Whether a line of *box* tells the memory of a GPU of which the line above, with its number, is missing; *index* is the GPU above."""
    if index == _BELOW_GPUS or box.shows_instances or _MEMORY.search(text) is None or _INSTANCE.search(text) is not None:
        return False
    return index not in box.below or any(map(_MEMORY.search, box.below[index]))


def _topology(box: _Box, page: Page) -> Topology:
    warnings: list[str] = []
    absent = [f"GPU{index}" for index in range(max(box.heads)) if index not in box.heads]
    if absent:
        warnings.append(f"the table of nvidia-smi does not list {listing(absent)}, but GPUs with higher numbers")
    count = max(box.heads) + 1 + box.headless
    if box.headless:
        lost = listing([f"GPU{index}" for index in range(count - box.headless, count)])
        warnings.append(f"the table of nvidia-smi lacks the lines with number and name of {lost}: what it says of them is left unknown")
    if is_cut := _is_cut(box, page):
        begun = _BEGUN.match(box.end[1])
        count += begun is not None and not box.tells_processes and int(begun["index"]) == count
        warnings.append("the text ends within the table of nvidia-smi: GPUs below may be missing")
    elif not box.is_closed:
        warnings.append("no rule closes the table of nvidia-smi: GPUs below may be missing")
    gpus = [
        _gpu(index, box, warnings) if index in box.heads else Gpu(index, is_named=False) for index in range(count)
    ]
    bad = [f"GPU{index}" for index, head in sorted(box.heads.items()) if head["name"].strip().startswith(_NO_NAMES)]
    if bad:
        warnings.append(f"the table of nvidia-smi reads no name for {listing(bad)} (ERR!, N/A or Unknown): they are left unknown")
    if cut := [f"GPU{gpu.index}" for gpu in gpus if gpu.is_named and gpu.name is None and f"GPU{gpu.index}" not in bad]:
        warnings.append(
            f"the table of nvidia-smi shows only the beginning of the names of {listing(cut)}: they are left unknown; "
            "`nvidia-smi -L` prints them"
        )
    if unknown := [f"GPU{gpu.index}" for gpu in gpus if gpu.is_named and gpu.memory_mib is None]:
        cut_off = ", where the text ends" if page.is_cut and unknown[-1] == f"GPU{len(gpus) - 1}" else ""
        warnings.append(f"the table of nvidia-smi tells no memory of {listing(unknown)}{cut_off}")
    if box.shows_instances:
        warnings.append("the table of nvidia-smi names no profiles of the instances (MIG) that it shows; `nvidia-smi -L` prints them")
    if box.tells_processes and not box.is_whole and not is_cut:
        warnings.append("the text ends within the processes of the table of nvidia-smi")
    if strange := sorted(box.processes.keys() - box.heads.keys()):
        warnings.append(f"processes run on {listing([f'GPU{g}' for g in strange])}, which the table of nvidia-smi does not list")
    stated = {name: value for name, value in (("driver", box.driver), ("cuda", box.cuda)) if value}
    return Topology(tuple(gpus), format=FORMAT if 0 in box.heads else PART, warnings=tuple(warnings), stated=stated)


def _is_cut(box: _Box, page: Page) -> bool:
    """Whether the text ends within a line of *box*: it begins with a bar or a corner, and does not end so, or begins a GPU only."""
    number, text = box.end
    last = max((line.number for line in page.lines if line.text.strip()), default=0)
    if number != last or not text.startswith(("|", "+")):
        return False
    has_begun = not box.tells_processes and _BEGUN.match(text) is not None and _HEAD.search(text) is None
    return len(text) == 1 or not text.endswith(("|", "+")) or has_begun


def _gpu(index: int, box: _Box, warnings: list[str]) -> Gpu:
    head, below = box.heads[index], box.below[index]
    facts: dict[str, Any] = {}
    memory = next((match for text in below if (match := _MEMORY.search(text))), None)
    if memory is not None and int(memory["total"]):
        facts = {"memory_used_mib": int(memory["used"]), "memory_mib": int(memory["total"])}
    mode = next((match["mode"] for text in below if (match := _MIG.search(text))), None)
    if mode is not None:
        facts["mig"] = Mig(enabled=mode == "Enabled")
    if head["bus"] in ("ERR!", "N/A"):
        warnings.append(f"the table of nvidia-smi reads {head['bus']} for the bus id of GPU{index}, so that is left unknown")
    else:
        facts["pci_bus_id"] = head["bus"]
    facts["processes"] = _processes(index, box, facts)
    return Gpu(index, name=_name(head["name"], facts.get("memory_mib")), **facts)


def _processes(index: int, box: _Box, facts: Mapping[str, Any]) -> tuple[Process, ...] | None:
    """Return who runs on a GPU; None where the box cannot tell."""
    found = tuple(box.processes.get(index, ()))
    is_told = box.tells_processes and box.is_whole and facts.get("memory_used_mib", 0) <= _MUCH_MIB
    return found if found or is_told else None


def _name(printed: str, memory_mib: int | None) -> str | None:
    """Return the name of a card as a driver prints it elsewhere; None if it is cut and could be several."""
    name = printed.strip()
    if name.startswith(_NO_NAMES):
        return None
    cut = _CUT_NAME.fullmatch(name)
    if cut is None:
        return name
    begin = cut["begin"].lower()
    found = [
        names[0] for card in cards()
        if memory_mib and card.holds(memory_mib) and (names := [n for n in card.nvml_names if n.lower().startswith(begin)])
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None
