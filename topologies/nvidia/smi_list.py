"""
Read ``nvidia-smi -L``: names, UUIDs and the instances of GPUs in MIG mode.

When to modify: the tool prints another fact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from topologies.cards import cards, product
from topologies.model import Gpu, Topology
from topologies.nvidia.smi_gpus import UUID, Section, find_outputs
from topologies.pages.reading import Reading, listing
from topologies.pages.text import Page
from topologies.parts import Mig, MigInstance

_INSTANCE = re.compile(
    rf"(?<!\w)MIG\s{{0,8}}(?P<profile>(?:[0-9]c\.)?[0-9]g\.[0-9]{{1,4}}gb(?:[+.-][a-z][a-z.]{{0,9}}){{0,4}})\s{{0,20}}"
    rf"(?:Device\s{{0,8}}(?P<device>[0-9]{{1,4}})\s?:?\s{{0,4}})?"
    rf"(?:\(\s*UUID\s*:\s*(?P<uuid>MIG-(?:GPU-)?{UUID}(?:/[0-9]{{1,4}}){{0,2}})\s*\)?)?",
    re.IGNORECASE,
)
_BEGUN = re.compile(r"(?<!\w)MIG\s{1,8}[0-9]\S{0,20}(?:\s|$)")
_BEGINNING = re.compile(
    r"\s{0,40}(?:G|GP|GPU|GPU\s{1,4}[0-9]{1,4}:?|GPU\s{1,4}[0-9]{1,4}:.{1,12}|M|MI|MIG\b.{0,60}|L|Li|Lin|Link\b.{0,60}"
    r"|N|NV|NVM|NVML.{0,90})\s{0,40}"
)
"""What the end of a text may leave of a line."""

_LINK = re.compile(r"(?<!\w)(?<!C2C )Link [0-9]{1,3}\s?[:,]|NVML: |NVLink.{0,60}(?:not supported|inactive)", re.IGNORECASE)


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every output on *page*.

    Raises
    ------
    TopologyError
        If an index is that of no GPU.
    """
    outputs, notes = find_outputs(page)
    for output in outputs:
        is_list = any(s.uuid for s in output) or all(s.says_uuid or s.says_serial or _is_card(s.name) for s in output)
        if is_list and not any(_LINK.search(b.text) for s in output for b in s.below):
            yield Reading(output[0].number, _topology(output, page, notes))


def gpus_of(output: Sequence[Section], what: str, warnings: list[str]) -> list[Gpu]:
    """
    Return the GPUs of *output*, those included that it does not name though it names later ones.

    Parameters
    ----------
    what
        What messages call the output.
    warnings
        Gets a sentence for whatever is missing.
    """
    uuids = Counter(section.uuid for section in output)
    found = {s.index: Gpu(s.index, name=s.name, uuid=s.uuid if uuids[s.uuid] == 1 else None) for s in output}
    absent = [f"GPU{index}" for index in range(max(found)) if index not in found]
    if absent:
        warnings.append(f"{what} does not name {listing(absent)}, but GPUs with higher numbers")
    if alike := [f"GPU{s.index}" for s in output if s.uuid and uuids[s.uuid] > 1]:
        warnings.append(f"{listing(alike)} have the same UUID, so that is left unknown")
    is_without = not any(section.says_uuid for section in output)    # some tools print none
    for section in output:
        if section.is_cut:
            warnings.append(f"the text ends within the line of GPU{section.index}")
        elif section.uuid is None and section.name is not None and not is_without:
            warnings.append(f"{what} shows no whole UUID of GPU{section.index}, so that is left unknown")
    return [found.get(index, Gpu(index, is_named=False)) for index in range(max(found) + 1)]


def _is_card(name: str | None) -> bool:
    """Whether *name* is that of a card: a line without UUID may be prose."""
    slugs = product(name).split() if name else []
    return any(card.slug in slugs for card in cards())


def _topology(output: Sequence[Section], page: Page, notes: Sequence[str]) -> Topology:
    warnings = [*notes]
    gpus = gpus_of(output, "the list of GPUs", warnings)
    stated = {}
    for section in output:
        instances = _instances(section, page, warnings)
        if instances:
            gpus[section.index] = gpus[section.index].replace(mig=Mig(enabled=True, instances=tuple(instances)))
        stated[str(section.index)] = {"name": section.name, "mig": [i.profile for i in instances]}
    return Topology(
        tuple(gpus), format="list", warnings=tuple(dict.fromkeys(warnings)), stated={"gpu_list": stated}
    )


def _instances(section: Section, page: Page, warnings: list[str]) -> list[MigInstance]:
    """Return the instances below the line of a GPU; their numbers ascend, so that one that begins again is another GPU's."""
    gpu = f"GPU{section.index}"
    found: list[MigInstance] = []
    last = -1
    for below in section.below:
        matches = list(_INSTANCE.finditer(below.text)) if "MIG" in below.text else []
        if len(matches) < len(_BEGUN.findall(below.text)):
            warnings.append(f"an instance of {gpu} cannot be read, so it is left out")
        if page.is_cut and below.is_last and not matches and _BEGINNING.fullmatch(below.text):
            warnings.append("the text ends within a line of the list of GPUs")
        for match in matches:
            number = int(match["device"]) if match["device"] else last + 1
            if number <= last:
                warnings.append(f"below {gpu} stand instances of another GPU, whose own line is missing: they are left out")
                return found
            last = number
            if match["uuid"] is None:
                warnings.append(f"the UUID of an instance of {gpu} is not there or cut, so that is left unknown")
            found.append(MigInstance(match["profile"], match["uuid"]))
    return found
