"""
The network as Slurm knows it: ``topology.conf``, the output of ``scontrol show topology``, and ``topology.yaml``.

When to modify: Slurm gets another topology plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from topologies.errors import TopologyError
from topologies.networks.hosts import expand
from topologies.networks.network import Part

_BEGINS = re.compile(r"^[ \t]*(?:SwitchName|BlockName)=", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"([A-Za-z]{1,40})=(\S*)")


def looks_like(text: str) -> bool:
    """Whether *text* is of the form of ``topology.conf``."""
    return _BEGINS.search(text) is not None


def read_conf(text: str, *, name: str) -> Iterator[Part]:
    """
    Yield the switches and blocks of *text*.

    Raises
    ------
    TopologyError
        If a line cannot be read; the message has its number.
    """
    for number, line in _lines(text):
        where = f"{name}:{number}"
        words = {match[1].lower(): match[2] for match in _WORD.finditer(line)}
        if "switchname" in words:
            yield from _parts(words["switchname"], words.get("nodes"), words.get("switches"), None, where)
        elif "blockname" in words:
            yield from _parts(words["blockname"], words.get("nodes"), None, "block", where)
        elif line.strip() and not words:
            message = f"network: {line.strip()[:60]!r} is no line of topology.conf, such as SwitchName=s0 Nodes=node[0-3]"
            raise TopologyError(message, where=where)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines without comments, those that a backslash continues as one, with their numbers."""
    begun, first = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        plain = line.partition("#")[0].rstrip()
        first = first or number
        if plain.endswith("\\"):
            begun += plain[:-1] + " "
            continue
        yield first, begun + plain
        begun, first = "", 0
    if begun:
        yield first, begun


def _parts(names: str, nodes: str | None, switches: str | None, kind: str | None, where: str) -> Iterator[Part]:
    try:
        hosts = expand(nodes or "") if nodes not in ("(null)", "ALL") else ()
        inside = expand(switches or "") if switches != "(null)" else ()
        called = expand(names)
    except TopologyError as error:
        raise TopologyError(f"network: {error}", where=where) from None
    if len(called) != 1:
        raise TopologyError(f"network: a switch needs one name, not {names[:60]!r}", where=where)
    # `scontrol show topology` lists the hosts of the switches below once more: they are no hosts of this switch.
    yield Part(called[0], kind, () if inside else hosts, inside, where=where)


def read_yaml(document: list[Any], lines: Mapping[int, int], *, name: str) -> Iterator[Part]:
    """
    Yield the switches and blocks of the topology in *document* (``topology.yaml``) that is the default of its cluster.

    Raises
    ------
    TopologyError
        If it has another form.
    """

    def where(entry: object) -> str:
        return f"{name}:{lines[id(entry)]}" if id(entry) in lines else name

    topologies = [entry for entry in document if isinstance(entry, dict) and ("tree" in entry or "block" in entry)]
    if not topologies:
        raise TopologyError("network: no topology in it has a tree or blocks", where=name)
    chosen = next((entry for entry in topologies if entry.get("cluster_default") is True), topologies[0])
    for plugin, entries, kind in (("tree", "switches", None), ("block", "blocks", "block")):
        listed = chosen.get(plugin)
        for entry in (listed.get(entries) or ()) if isinstance(listed, dict) else ():
            key = "switch" if kind is None else "block"
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
                raise TopologyError(f"network: an entry of {entries} has no {key}", where=where(entry))
            nodes, children = entry.get("nodes"), entry.get("children")
            if not all(value is None or isinstance(value, str) for value in (nodes, children)):
                raise TopologyError(f"network: nodes and children of {entry[key]!r} must be texts such as node[0-3]", where=where(entry))
            yield from _parts(entry[key], nodes, children, kind, where(entry))
