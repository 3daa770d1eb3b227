"""
Read a topology document back: the inverse of `topologies.documents.document.to_document`.

When to modify: `Topology` or `Gpu` gets a field.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from topologies import codes, measured
from topologies.documents.document import GPU_FIELDS, GPU_PARTS, SCHEMA, STATED
from topologies.documents.document_values import MOST_GPUS, Values
from topologies.errors import TopologyError
from topologies.measurements import Measured
from topologies.model import Gpu, Topology
from topologies.networks.doubts import doubts
from topologies.networks.network_read import from_section, placed
from topologies.pages.reading import listing, unknown_codes
from topologies.parts import Host, Nic, Process
from topologies.peer_kinds import all_kinds
from topologies.plain.parts import MOST, check_plain, from_plain, shown
from topologies.plain.text import parse

_MOST = {"index": MOST_GPUS - 1, "memory_mib": MOST, "memory_used_mib": MOST, "memory_reserved_mib": MOST}
_NEAR_CPU = re.compile(r"gpus_near_cpu([0-9]{1,6})")
_LOOKS_LIKE = re.compile(rf"\s*(?:#[^\n]*\n\s*|---\s*\n)*(?:\{{\s*)?[\"']?schema[\"']?\s*:\s*[\"']?{SCHEMA[:-1]}[0-9]")
_FIELDS = STATED | frozenset(
    {
        "schema", "status", "format", "warnings", "gpus", "gpu_count", "links", "links_complete", "nics", "gpu_nic", "islands",
        "rows_missing", "rows_partial_cells_seen", "conflict", "extra_column", "other_columns", "p2p", "p2p_kind", "columns",
        "p2p_kinds", "formats",
        "error", "pcie_links", "nic_details", "hosts", "network", "measured",
    }
)  # fmt: skip


def looks_like(text: str) -> bool:
    """Whether *text* begins like such a document, JSON or YAML."""
    return _LOOKS_LIKE.match(text.removeprefix("\ufeff")[:65536]) is not None


def from_text(text: str, *, name: str) -> Topology:
    """
    Return the topology in the JSON or YAML document *text*.

    Raises
    ------
    TopologyError
        If it cannot be parsed, or see `from_document`.
    """
    text = text.removeprefix("\ufeff")
    try:
        return from_document(parse(text, name=name), name=name)
    except TopologyError as error:
        raise (placed(text, error, name=name) if "network" in str(error) else error) from None


def from_document(document: object, *, name: str = "<document>") -> Topology:
    """
    Return the topology that *document* describes: the inverse of `to_document`.

    Fields that only newer versions know are ignored with a warning.

    Raises
    ------
    TopologyError
        If a field is missing or has the wrong type, or the machine contradicts itself.
    """
    try:
        return _topology(document, name)
    except TopologyError as error:
        raise error if error.where else TopologyError(f"topology document: {error}", where=name) from None


def _topology(document: object, name: str) -> Topology:
    reader = _Reader(name)
    root = reader.mapping(document, "the document")
    if root.get("schema") != SCHEMA:
        raise reader.error(f"schema is {shown(root.get('schema'))} instead of {SCHEMA}")
    if root.get("status") == "error":
        error = reader.required(root.get("error"), str, "error")
        raise reader.error(f"it records a source that could not be read: {' '.join(error.split())[:1000]}")
    entries = reader.sequence(root.get("gpus"), "gpus")
    if len(entries) > MOST_GPUS:
        raise reader.error(f"gpus has {len(entries):,} entries; at most {MOST_GPUS:,} are read")
    count = reader.number(root.get("gpu_count", 0), "gpu_count")
    extra = root.get("extra_column", [])
    near = [key for key in root if _NEAR_CPU.fullmatch(key)]
    unknown = [key for key in root if key not in _FIELDS and key not in near]
    warnings = list(reader.texts(root.get("warnings", []), "warnings"))
    gpus = reader.gpus(entries, count)
    topology = Topology(
        gpus=gpus,
        links=reader.pairs(root.get("links", {}), "links"),
        pcie_links=reader.pairs(root.get("pcie_links", {}), "pcie_links"),
        nics={
            nic: reader.optional(device, str, f"nics.{nic}")
            for nic, device in reader.mapping(root.get("nics", {}), "nics").items()
        },
        gpu_nic={
            index: reader.codes(nics, f"gpu_nic.{index}")
            for index, nics in reader.indexed(root.get("gpu_nic", {}), "gpu_nic").items()
        },
        format=reader.required(root.get("format", "yaml"), str, "format"),
        warnings=tuple(warnings),
        columns=frozenset(reader.texts(root.get("columns", []), "columns")),
        rows_missing=reader.texts(root.get("rows_missing", []), "rows_missing"),
        rows_partial_cells_seen={
            label: reader.number(count, f"rows_partial_cells_seen.{label}")
            for label, count in reader.mapping(root.get("rows_partial_cells_seen", {}), "rows_partial_cells_seen").items()
        },
        conflict=reader.texts(root.get("conflict", []), "conflict"),
        extra_columns=reader.texts([extra] if isinstance(extra, str) else extra, "extra_column"),
        other_columns=reader.number(root.get("other_columns", 0), "other_columns"),
        p2p=reader.pairs(root.get("p2p", {}), "p2p"),
        p2p_kind=reader.optional(root.get("p2p_kind"), str, "p2p_kind"),
        p2p_kinds={
            kind: reader.pairs(states, f"p2p_kinds.{kind}")
            for kind, states in reader.mapping(root.get("p2p_kinds", {}), "p2p_kinds").items()
        },
        formats=reader.texts(root.get("formats", []), "formats"),
        gpus_near_cpu={
            cpu: tuple(reader.number(gpu, key) for gpu in reader.sequence(root[key], key))
            for cpu, key in reader.unique([(int(key.removeprefix("gpus_near_cpu")), key) for key in near]).items()
        },
        nic_details={
            nic: from_plain(Nic, details, f"nic_details.{nic}")
            for nic, details in reader.mapping(root.get("nic_details", {}), "nic_details").items()
        },
        host_facts=reader.hosts(root.get("hosts", [])),
        network=None
        if root.get("network") is None
        else from_section(root["network"], list(dict.fromkeys(gpu.host for gpu in gpus))),
        measured=None if root.get("measured") is None else from_plain(Measured, root["measured"], "measured"),
        stated={key: check_plain(root[key], key) for key in root if key in STATED},
    )
    if unknown := [*unknown, *reader.unknown]:
        ignored = f"the document has fields that this version does not know, which were ignored: {', '.join(unknown)[:200]}"
        warnings += [] if ignored in warnings else [ignored]
        topology = topology.replace(warnings=tuple(warnings))
    links = (
        *topology.links.values(),
        *topology.pcie_links.values(),
        *(code for nics in topology.gpu_nic.values() for code in nics.values()),
    )
    further = [*unknown_codes(links, codes.is_known_link, warnings)]
    states = (state for of_kind in all_kinds(topology).values() for state in of_kind.values())
    further += unknown_codes(states, codes.is_peer_state, (*warnings, *further))
    further += [warning for warning in (*doubts(topology), *measured.doubts(topology)) if warning not in warnings]
    if "links" not in root or topology.format == "yaml":
        further += _unstated_links(topology)
    return topology.replace(warnings=(*warnings, *further)) if further else topology


def _unstated_links(topology: Topology) -> list[str]:
    """Return a warning, unless there is one, if the link between some GPUs of one host is not stated."""
    hosts = [gpu.host for gpu in topology.gpus]
    unstated = [size - 1 for size in map(Counter(hosts).__getitem__, hosts)]
    for i, j in topology.links:
        if hosts[i] == hosts[j]:
            unstated[i] -= 1
            unstated[j] -= 1
    some = [f"GPU{index}" for index, count in enumerate(unstated) if count]
    warning = f"links are unknown between some of {listing(some)}"
    return [warning] if some and warning not in topology.warnings else []


class _Reader(Values):
    """Takes GPUs and hosts out of a document."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.unknown: dict[str, None] = {}
        """Fields of GPUs that this version does not know."""

    def gpus(self, entries: list[Any], count: int) -> tuple[Gpu, ...]:
        """Return the GPUs of *entries*, those between them that nobody names, and further ones up to *count*."""
        found: list[Gpu] = []
        for position, entry in enumerate(entries):
            gpu = self.gpu(entry, position)
            if gpu.index < len(found):
                raise self.error(
                    f"gpus[{position}] is GPU {gpu.index} after GPU {len(found) - 1}: GPUs must ascend by index"
                )
            found += [Gpu(index, is_named=False) for index in range(len(found), gpu.index)]
            found.append(gpu)
        found += [Gpu(index, is_named=False) for index in range(len(found), count)]
        return tuple(found)

    def gpu(self, entry: object, position: int) -> Gpu:
        path = f"gpus[{position}]"
        facts = self.mapping(entry, path)
        values = {
            name: self.optional(facts.get(name), kind, f"{path}.{name}") for name, kind in GPU_FIELDS.items()
        }
        for name, most in _MOST.items():
            if values[name] is not None:
                self.number(values[name], f"{path}.{name}", most)
        known = {*GPU_FIELDS, *GPU_PARTS, "processes", "is_named"}
        self.unknown.update(dict.fromkeys(f"gpus.{key}" for key in facts if key not in known))
        if values["index"] is None:
            raise self.error(f"{path} has no index")
        for name, part in GPU_PARTS.items():
            if facts.get(name) is not None:
                values[name] = from_plain(part, facts[name], f"{path}.{name}")
        if facts.get("processes") is not None:
            values["processes"] = tuple(
                from_plain(Process, process, f"{path}.processes[{k}]")
                for k, process in enumerate(self.sequence(facts["processes"], f"{path}.processes"))
            )
        return Gpu(**values, is_named=self.required(facts.get("is_named", True), bool, f"{path}.is_named"))

    def hosts(self, value: object) -> dict[str | None, Host]:
        """Return what the list *value* says about each host."""
        found: dict[str | None, Host] = {}
        for position, entry in enumerate(self.sequence(value, "hosts")):
            path = f"hosts[{position}]"
            facts = dict(self.mapping(entry, path))
            name = self.optional(facts.pop("name", None), str, f"{path}.name")
            if name in found:
                raise self.error(f"{path}: the host {name!r} is there twice")
            found[name] = from_plain(Host, facts, path)
        return found
