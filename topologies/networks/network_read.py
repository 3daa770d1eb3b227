"""
Read what joins hosts: a ``network:`` section as people type it, or a file of Slurm, topograph or Kubernetes, told by content.

When to modify: a new source of networks, or a new key of the section.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topologies.errors import TopologyError
from topologies.networks import slurm, topograph
from topologies.networks.hosts import expand
from topologies.networks.network import Part, build, check_numbers, kind_of
from topologies.parts import Network
from topologies.plain.parts import from_plain, shown
from topologies.plain.text import parse

_KEYS = ("rails", "gb_per_s", "domains")
_DOMAIN_KEYS = ("name", "kind", "hosts", "within", "gb_per_s")


@dataclass(frozen=True, slots=True)
class _Typed:
    """A domain as people type it."""

    name: str
    kind: str | None = None
    hosts: tuple[str, ...] = ()
    within: str | None = None
    gb_per_s: float | None = None


def read_network(text: str, hosts: Sequence[str], *, name: str) -> tuple[Network, tuple[str, ...]]:
    """
    Return the network of *hosts* that *text* describes, and warnings.

    Parameters
    ----------
    text
        ``topology.conf``, ``topology.yaml`` or ``scontrol show topology`` of Slurm; a tree of topograph; nodes of Kubernetes with
        its labels; or ``rails``, ``gb_per_s`` and ``domains`` (at the top or under ``network``) as `from_section` reads them.

    Raises
    ------
    TopologyError
        If it is none of those, or describes no tree, or names hosts that are not there.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if slurm.looks_like(text):
        return _site(slurm.read_conf(text, name=name), hosts)
    lines: dict[int, int] = {}
    try:
        document = parse(text, name=name, lines=lines)
    except TopologyError as error:
        raise TopologyError(str(error).replace("topology document", "network", 1)) from None
    if isinstance(document, list):
        return _site(slurm.read_yaml(document, lines, name=name), hosts)
    if topograph.looks_like(document):
        assert isinstance(document, dict)
        return _site(topograph.read(document, lines, name=name), hosts)
    section = document.get("network", document) if isinstance(document, dict) else document
    if not isinstance(section, dict) or not any(key in section for key in _KEYS):
        raise TopologyError(
            "this describes no network: give topology.conf or topology.yaml of Slurm, a tree of topograph, or the keys rails, "
            "gb_per_s and domains",
            where=name,
        )
    return from_section(section, hosts, lines=lines, name=name), ()


def from_section(
    section: object, hosts: Sequence[str | None], *, lines: Mapping[int, int] | None = None, name: str | None = None
) -> Network:
    """
    Return the network that a ``network:`` section describes.

    ``hosts`` of a domain may be a text or list of names and ranges (``node[0-3,7]``), and may be left out where domains inside it
    have them; ``kind`` may be left out where the place in the tree tells it; domains may stand in any order. ``gb_per_s`` is what a
    NIC carries in one direction: 400 Gbit/s are 50 GB/s.

    Raises
    ------
    TopologyError
        If a key is unknown or of the wrong type, a host is unknown, or the domains are no tree.
    """
    known = [host for host in hosts if host is not None]
    lines = lines or {}

    def where_of(entry: object) -> str | None:
        return f"{name}:{lines[id(entry)]}" if id(entry) in lines else name

    if not isinstance(section, dict):
        raise TopologyError(f"network must be a mapping, not {shown(section)}", where=name)
    _refuse_unknown(section, _KEYS, "network", where_of(section))
    entries = section.get("domains", [])
    if not isinstance(entries, list):
        raise TopologyError(f"network.domains must be a list, not {shown(entries)}", where=where_of(section))
    try:
        numbers = from_plain(Network, {key: section[key] for key in ("rails", "gb_per_s") if key in section}, "network")
        check_numbers(numbers)
    except TopologyError as error:
        raise TopologyError(str(error), where=where_of(section)) from None
    domains, warnings = build(_domains(entries, known, lines, name), known)
    assert not warnings, "a section is about the machine alone"
    return Network(numbers.rails, numbers.gb_per_s, domains)


def placed(text: str, error: TopologyError, *, name: str) -> TopologyError:
    """Return *error*, which a document *text* with a ``network:`` section caused, with the line if the section is to blame."""
    lines: dict[int, int] = {}
    try:
        document = parse(text, name=name, lines=lines)
    except TopologyError:
        return error
    gpus = document.get("gpus") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not document.get("network") or not isinstance(gpus, list):
        return error
    hosts = (gpu.get("host") if isinstance(gpu, dict) else None for gpu in gpus)
    try:
        from_section(document["network"], [*dict.fromkeys(h for h in hosts if isinstance(h, str))], lines=lines, name=name)
    except TopologyError as found:
        return found
    return error


def _site(parts: Iterator[Part], hosts: Sequence[str]) -> tuple[Network, tuple[str, ...]]:
    domains, warnings = build(parts, hosts, is_whole_site=True)
    return Network(domains=domains), warnings


def _domains(entries: list[Any], known: Sequence[str], lines: Mapping[int, int], name: str | None) -> Iterator[Part]:
    exact = set(known)
    for k, entry in enumerate(entries):
        path = f"network.domains[{k}]"
        where = f"{name}:{lines[id(entry)]}" if id(entry) in lines else name
        if not isinstance(entry, dict):
            raise TopologyError(f"{path} must be a mapping, not {shown(entry)}", where=where)
        _refuse_unknown(entry, _DOMAIN_KEYS, path, where)
        listed = entry.get("hosts", [])
        try:
            checked = from_plain(_Typed, {**entry, "hosts": [listed] if isinstance(listed, str) else listed}, path)
            kind = kind_of(checked.kind)
            if checked.gb_per_s == 0:
                raise TopologyError("gb_per_s is 0, so that nothing goes up: leave it out if it is unknown")
            names = [host for word in checked.hosts for host in ([word] if word in exact else expand(word))]
        except TopologyError as error:
            raise TopologyError(str(error) if error.where else f"{path}: {error}", where=where) from None
        yield Part(checked.name, kind, tuple(names), (), checked.within, checked.gb_per_s, where or path)


def _refuse_unknown(entry: Mapping[str, Any], keys: Sequence[str], path: str, where: str | None) -> None:
    for key in entry:
        if key not in keys:
            raise TopologyError(f"{path} has {shown(key)}, which is none of {', '.join(keys)}", where=where)
