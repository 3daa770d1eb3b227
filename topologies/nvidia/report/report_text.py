"""
Read ``nvidia-smi -q``: whole, with ``-d`` some sections of it, or what a grep left.

A line is told by its words, not by its indentation, which pasting loses: a title says to which section the lines below it
belong. Only the memory of MIG instances needs more, as it has the titles of the memory of the GPU.

When to modify: the tool prints another fact.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from topologies.bus_ids import WITH_DOMAIN
from topologies.errors import TopologyError
from topologies.merging.identity import UNPLACED
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.report.ends import (
    HEADLESS,
    begins_within,
    cut_processes,
    is_unnamed,
    is_whole_output,
    missing_at_end,
    refuse_one_line,
    unknown_gpu,
)
from topologies.nvidia.report.instances import INSTANCE_KEYS, InstanceMemory, deeper_memory, indentation
from topologies.nvidia.report.lost import find_lost
from topologies.nvidia.report.report import Block, Log, answer, count, size_mib, topology
from topologies.nvidia.report.width import unwrapped
from topologies.nvidia.report.words import (
    ANCHORS,
    CARD,
    HEADER,
    KEYS,
    LINE,
    PLAIN_KEYS,
    SECTION_KEYS,
    TITLES,
    WHOLE,
)
from topologies.pages.prefixes import stripped
from topologies.pages.reading import Reading
from topologies.pages.text import Page
from topologies.parts import MigInstance, Process

_TELLING = ("NVSMI LOG", "Attached GPUs", "Memory Usage", "GPU UUID", "Product Name", "GPU Link Info", "ClusterUUID", "Process ID")
"""Every output has one of these."""

_MOST_FACTS = 2**17
"""Most lines with a fact; 16 GPUs with a thousand processes each have half as many."""

_MOST_OUTPUTS = 256
"""Most outputs of a text."""

_LONGEST_PREFIX = 200
_MOST_PREFIXES = 64

_MARKS = re.compile(r"[^\w\n]{1,20}")
"""What may stand before a line without a blank between, as in a diff."""


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every output on *page*.

    Raises
    ------
    TopologyError
        If one has more than any machine prints.
    """
    if not any(words in page.text for words in _TELLING):
        return
    refuse_one_line(page)
    text, width = unwrapped(page.text)
    page = page if text is page.text else dataclasses.replace(page, text=text)
    lost, is_whole = find_lost(page.text), is_whole_output(page.text)
    for position, output in enumerate(_outputs(page, width)):
        where = page.where(output.line)
        if position == _MOST_OUTPUTS:
            message = f"`nvidia-smi -q`: more than {_MOST_OUTPUTS} outputs: give those of one machine"
            raise TopologyError(message, where=where)
        is_rest = output.is_one and not output.has_ids and begins_within(output.log, is_whole=is_whole)
        if is_rest and is_unnamed(output.log.blocks[0]):
            yield Reading(output.line, unknown_gpu())
        elif output.is_one:
            output.finish(width, page.text)
            output.log.warnings += [UNPLACED] * is_rest
            output.log.lost = lost
            if (told := output.prefix()) is not None and told not in page.warnings:
                output.log.warnings.insert(0, told)
            yield Reading(output.line, topology(output.log, format="q-text", where=where))
        elif output.log.attached is not None:
            message = "the output of `nvidia-smi -q` shows no GPU: it is cut, or the driver finds none; give the whole of it"
            raise TopologyError(message, where=where)


class _Output:
    """An output as far as it was read, and the section that the next line belongs to."""

    def __init__(self, line: int, instance: InstanceMemory) -> None:
        self.line = line
        self.log = Log()
        self.has_ids = False
        self.section: str | None = None
        self._prefixes: dict[str, int] = {}
        self.key: str | None = None
        self.rest = ""
        """The key of the last fact, and what stands below it."""
        self.cut: dict[str, None] = {}
        """Keys whose values reach the column where lines are cut."""
        self.instance = instance
        self._titles: set[str] = set()
        self._last: tuple[str, str] | None = None

    @property
    def is_one(self) -> bool:
        """Whether it says anything of a GPU."""
        return any(block != Block() for block in self.log.blocks)

    def shows(self, bus_id: str) -> bool:
        return any(block.bus_id and block.bus_id.lower() == bus_id.lower() for block in self.log.blocks)

    def begin(self, bus_id: str | None) -> None:
        """Begin the next GPU."""
        if len(self.log.blocks) >= MOST_DEVICES:
            raise TopologyError(f"`nvidia-smi -q`: more than {MOST_DEVICES} GPUs, which no machine has")
        if bus_id is not None and not self.has_ids and self.log.blocks:
            self._leave_headless()
        self.has_ids = self.has_ids or bus_id is not None
        self.log.blocks.append(Block(bus_id=bus_id))
        self.section, self.instance, self._titles, self._last = None, InstanceMemory(), set(), None

    def _leave_headless(self) -> None:
        """Leave out what stands above the first GPU that is named by its bus id: the rest of another, whose beginning is cut."""
        if any(block != Block() for block in self.log.blocks):
            self.log.is_headless = True
            self.log.warnings.append(HEADLESS)
        self.log.blocks.clear()

    def block(self, told: str | None = None) -> Block:
        """Return the GPU that the fact *told* belongs to; without bus ids a fact that comes again is that of the next GPU."""
        if not self.log.blocks or (not self.has_ids and told in self._titles):
            self.begin(None)
        if told is not None:
            self._titles.add(told)
        return self.log.blocks[-1]

    def take_prefix(self, before: str) -> None:
        """Take in what stands *before* a title in its line."""
        prefix = before.strip()[:_LONGEST_PREFIX]
        if prefix and (prefix in self._prefixes or len(self._prefixes) < _MOST_PREFIXES):
            self._prefixes[prefix] = self._prefixes.get(prefix, 0) + 1

    def prefix(self) -> str | None:
        """Return the warning that lines had a prefix, which is none of a single line; None if they had none."""
        return stripped(list(self._prefixes)) if sum(self._prefixes.values()) > 1 else None

    def title(self, title: str, column: int, *, is_deeper: bool) -> None:
        """Begin the section *title*; *column* is how far in it stands, *is_deeper*: further in than that of a GPU."""
        section, self._last, self.key = TITLES.get(title), None, None
        if section == "instance":
            self.block().mig_instances.append(MigInstance())
            self.instance.begin(column)
        elif section in ("fb", "bar1") and (self.instance.owns(section, column) or is_deeper):
            section = f"instance {section}"
        elif section == "processes":
            self.block()
            self.key = "Processes"
        elif section is not None:
            self.block(section)
        self.section = section

    def instance_key(self, key: str, column: int) -> None:
        """Take in a line of a MIG instance, which may lack its title; *column* is how far in it stands."""
        self.key, self.section = key, self.section if self.section == "instance" else None
        self.instance.show(key, column)

    def fact(self, key: str, gap: str, value: str) -> None:
        """Take in a line ``key : value``."""
        value, self.key = value.strip(), key
        if key in HEADER:
            if getattr(self.log, HEADER[key]) is None and not self.log.blocks:
                setattr(self.log, HEADER[key], value)
        elif key in PLAIN_KEYS:
            if self.has_ids or (key != "Minor Number" and len(gap) > 1 and CARD.match(value)):
                block = self.block(key)
                if not self.has_ids and is_unnamed(block):  # memory above is of its MIG instances: that of the GPU comes below
                    block.fb, block.bar1 = {}, {}
                    self._titles -= {"fb", "bar1"}
                if getattr(block, name := PLAIN_KEYS[key]) is None:
                    setattr(block, name, value)
        elif key == "Bus Id" and re.fullmatch(WITH_DOMAIN, value):
            block = self.block(key)
            block.bus_id = block.bus_id or value
        elif key in ("Processes", "Compute Processes"):
            block = self.block()
            block.processes = [] if value == "None" else block.processes
            self.key = "Processes" if value in ("", "None") else None
        elif key == "Process ID":
            block = self.block()
            block.processes = block.processes or []
            if (pid := count(value)) is not None:
                block.processes.append(Process(pid))
            else:
                block.unread_processes += 1
            self.section = "processes" if pid is not None else None
        else:
            self._section_fact(key, value)

    def _section_fact(self, key: str, value: str) -> None:
        section = self.section or ""
        part = SECTION_KEYS.get(section.removeprefix("instance "), {}).get(key)
        if part is None or not self.log.blocks:
            return
        block = self.log.blocks[-1]
        self._last = (section, part)
        match section:
            case "fb" | "bar1" | "gens" | "widths" | "fabric":
                getattr(block, section).setdefault(part, value)
            case "mig" if part == "pending":
                block.mig_pending = block.mig_pending or value
            case "mig":
                block.mig_mode = block.mig_mode or value
            case "instance" if part == "index" and (number := count(value)) is not None:
                block.mig_indices.append(number)
            case "instance" if part == "uuid" and block.mig_instances:
                old = block.mig_instances[-1]
                block.mig_instances[-1] = MigInstance(uuid=answer(value), memory_mib=old.memory_mib)
            case "instance fb" if part == "total" and block.mig_instances:
                old = block.mig_instances[-1]
                block.mig_instances[-1] = MigInstance(uuid=old.uuid, memory_mib=size_mib(value) or None)
            case "processes" if block.processes:
                process = block.processes[-1]
                name = answer(value) if part == "name" else process.name
                memory = size_mib(value) if part == "memory" else process.memory_mib
                block.processes[-1] = Process(process.pid, name, memory)
            case _:
                pass

    def finish(self, width: int | None, text: str) -> None:
        """Say what is not shown although it is of others, or begun: in a *text* whose lines are cut at *width*."""
        self.log.warnings += cut_processes(self.log.blocks, self.key, self.rest, text)
        self.log.warnings += missing_at_end(self.log.blocks, self._last)
        if self.cut:
            self.log.warnings.append(f"the lines are cut after {width} columns: what reaches there is unknown ({', '.join(self.cut)})")
        if not self.has_ids and not any(block.bus_id for block in self.log.blocks) and len(self.log.blocks) > 1:
            number = len(self.log.blocks)
            self.log.warnings.append(f"the bus ids are missing: {number} GPUs were taken as GPU 0, 1, 2 … in the order given")


def _outputs(page: Page, width: int | None) -> Iterator[_Output]:
    """
    Yield the outputs on *page*: one ends where another banner or header, or a GPU that it has shown, comes.

    Values that reach *width*, where lines are cut, are left out.
    """
    output, deeper = _Output(1, InstanceMemory()), deeper_memory(page.text)
    number = counted = end = 0
    for position, match in enumerate(LINE.finditer(page.text)):
        if position == _MOST_FACTS:
            raise TopologyError("`nvidia-smi -q`: more facts than any machine prints: give the output of one machine")
        number, counted = number + page.text.count("\n", counted, match.start()), match.start()
        bus_id, word, end = match["bus"], match["word"], match.end()
        key = word if match["value"] is not None and word in KEYS else None
        start = match.start()
        before = page.text[max(0, start - 2) : start]
        begin = page.text.rfind("\n", 0, start) + 1
        column = indentation(page.text[max(begin, start - _LONGEST_PREFIX) : start])
        if not match["banner"] and before[-1:] not in ("", *"\n \t|>/]:") and not _MARKS.fullmatch(page.text, begin, start):
            continue  # the end of another word
        if bus_id and page.text.endswith("device handle for ", 0, start):
            continue  # a message about a GPU that is lost
        is_new = match["banner"] or (bus_id and output.shows(bus_id)) or (key == "Attached GPUs" and output.log.blocks)
        if is_new:
            yield output
        if is_new or not (output.log.blocks or output.log != Log()):
            output = _Output(number + 1, InstanceMemory() if is_new else output.instance)
        is_part = word == "Memory Usage" and before[:1].isalnum()  # of a title that nobody knows
        if (bus_id or word in ANCHORS) and not is_part and begin < start <= begin + _LONGEST_PREFIX:
            output.take_prefix(page.text[begin:start])
        if bus_id:
            output.begin(bus_id)
        elif match["end"] is not None and word not in KEYS[:-2]:
            output.title("" if is_part else word, column, is_deeper=start in deeper)
        elif key and width and len(page.text[begin : match.end()].rstrip()) >= width - 1:
            output.cut.setdefault(key)
        elif key and page.is_cut and match.end() == len(page.text) and not WHOLE.fullmatch(match["value"]):
            output.log.warnings.append(f"the text ends in {match[0][:60]!r}, which may be cut: it was left out")
            output.key = "Process ID" if output.section == "processes" else key
        elif key in INSTANCE_KEYS:
            output.instance_key(key, column)
        elif key:
            output.fact(key, match["gap"], match["value"])
    output.rest = page.text[end : end + _LONGEST_PREFIX]
    yield output
