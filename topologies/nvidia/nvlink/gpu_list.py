"""
Read ``nvidia-smi -L``: names, UUIDs and the instances of GPUs in MIG mode; and the names in reports of an environment.

When to modify: the tool prints another fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from topologies.cards import cards, product
from topologies.model import Gpu, Topology
from topologies.nvidia.nvlink.gpu_lines import Section, find_outputs, indices_of
from topologies.nvidia.uuids import UUID, telling
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

_CAPABILITY = re.compile(
    r"(?<!\w)GPUs?\s{1,4}(?P<indices>[0-9]{1,4}(?:\s?[,-]\s?[0-9]{1,4}){0,64})\s{1,4}Compute Capability\s?:\s{0,4}"
    r"(?P<capability>[0-9]{1,2}\.[0-9])\s*$"
)
"""What reports of an environment (SGLang) print below the names."""

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
        is_list = any(s.uuid for s in output) or all(_is_told(s) for s in output)
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
    is_without = not any(section.says_uuid for section in output)    # some tools print none
    said = [] if is_without else [s.index for s in output if s.name is not None and not s.is_cut]
    uuids = telling({s.index: s.uuid for s in output}, what, warnings, said=said)
    found = {s.index: Gpu(s.index, name=s.name, uuid=uuids.get(s.index)) for s in output}
    absent = [f"GPU{index}" for index in range(max(found)) if index not in found]
    if absent:
        warnings.append(f"{what} does not name {listing(absent)}, but GPUs with higher numbers")
    warnings += [f"the text ends within the line of GPU{section.index}" for section in output if section.is_cut]
    return [found.get(index, Gpu(index, is_named=False)) for index in range(max(found) + 1)]


def _is_told(section: Section) -> bool:
    """Whether *section* is no prose."""
    return section.says_uuid or section.says_serial or section.is_one_of_many or _is_card(section.name)


def _is_card(name: str | None) -> bool:
    """Whether *name* is that of a card: a line without UUID may be prose."""
    slugs = product(name).split() if name else []
    return any(card.slug in slugs for card in cards())


def _topology(output: Sequence[Section], page: Page, notes: Sequence[str]) -> Topology:
    warnings = [*notes]
    gpus = gpus_of(output, "the list of GPUs", warnings)
    stated = {}
    for section in output:
        for match in filter(None, (_CAPABILITY.search(below.text) for below in section.below)):
            for index in indices_of(match["indices"], page.where(section.number)):
                if index < len(gpus):
                    gpus[index] = gpus[index].replace(compute_capability=match["capability"])
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
