"""
The network as topograph knows it: a tree of switches, its list of instances, or the labels that it gives to Kubernetes nodes.

When to modify: topograph states a network in another form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topologies.errors import TopologyError
from topologies.networks.hosts import expand, natural
from topologies.networks.network import MOST_DEPTH, Part

_LABEL = "network.topology.nvidia.com/"
_LEVELS = ("leaf", "spine", "core")
_ACCELERATORS = (
    _LABEL + "accelerator", "nvidia.com/gpu.clique", "accelerator.topograph.run/domain", "accelerated.topology.nvidia.com/level-0",
    "nvlink",
)  # fmt: skip
"""Labels and attributes that name an NVLink domain, the surest first."""


def looks_like(document: object) -> bool:
    """Whether *document* is one of the forms."""
    if not isinstance(document, dict):
        return False
    if document.get("kind") in ("List", "NodeList", "Node"):
        return True
    return any(isinstance(document.get(key), dict | list) for key in ("switches", "blocks", "capacity_blocks", "instances", "items"))


def read(document: dict[str, Any], lines: Mapping[int, int], *, name: str) -> Iterator[Part]:
    """
    Yield the switches, blocks and NVLink domains of *document*.

    Parameters
    ----------
    lines
        The line of each mapping and list in it, by identity.

    Raises
    ------
    TopologyError
        If a part of it has another form; the message has its line.
    """
    reader = _Reader(lines, name)
    if "items" in document or document.get("kind") == "Node":
        reader.nodes(document.get("items", [document]))
    else:
        reader.switches(document.get("switches"))
        reader.blocks(document.get("blocks"))
        reader.capacity_blocks(document.get("capacity_blocks"))
        reader.attributes(document.get("nodes"))
        reader.instances(document.get("instances"))
    yield from reader.parts()


class _Reader:
    """Gathers parts, which several entries may state piece by piece."""

    def __init__(self, lines: Mapping[int, int], name: str) -> None:
        self._lines = lines
        self._name = name
        self._found: dict[tuple[bool, str], dict[str, Any]] = {}

    def parts(self) -> Iterator[Part]:
        """Yield what was gathered, in natural order: hosts name their switches in no order at all."""
        switches = {name for is_nvlink, name in self._found if not is_nvlink}
        for is_nvlink, name in sorted(self._found, key=lambda key: (key[0], natural(key[1]))):
            entry = self._found[is_nvlink, name]
            called = f"{name} (nvlink)" if is_nvlink and name in switches else name
            hosts = () if entry["inside"] else tuple(entry["hosts"])
            yield Part(called, entry["kind"], hosts, tuple(entry["inside"]), entry["within"], where=entry["where"])

    def switches(self, tree: object) -> None:
        """Take switches that stand in each other, or name each other."""
        stack: list[tuple[object, str | None, int]] = [(tree, None, 0)]
        while stack:
            level, within, depth = stack.pop()
            if depth > MOST_DEPTH:
                raise self._error("switches are nested too deeply", level)
            for name, entry in reversed(self._entries(level, "switches")):
                if entry is None:  # a name that is described elsewhere
                    if within is not None:
                        self._found[False, within]["inside"].setdefault(name)
                    continue
                self._add(name, None, entry, hosts=self._hosts(entry.get("nodes", entry.get("hosts"))), within=within)
                if entry.get("switches"):
                    stack.append((entry["switches"], name, depth + 1))

    def blocks(self, blocks: object) -> None:
        """Take hosts that hang from a switch, with what labels say of their NVLink domain."""
        for entry in self._list(blocks, "blocks"):
            facts = self._mapping(entry, "an entry of blocks")
            hosts = self._hosts(facts.get("nodes"))
            if isinstance(facts.get("switch"), str):
                self._add(facts["switch"], None, facts, hosts=hosts)
            self._accelerator(facts, hosts)

    def capacity_blocks(self, blocks: object) -> None:
        """Take blocks of hosts."""
        for name, entry in self._entries(blocks, "capacity_blocks"):
            if entry is not None:
                hosts = self._hosts(entry.get("nodes"))
                self._add(name, "block", entry, hosts=hosts)
                self._accelerator(entry, hosts)

    def attributes(self, nodes: object) -> None:
        """Take what hosts say of their NVLink domain."""
        for name, entry in self._entries(nodes, "nodes") if isinstance(nodes, dict | list) else ():
            if entry is not None:
                self._accelerator(entry, (name,))

    def instances(self, instances: object) -> None:
        """Take hosts that name the switches above them, the closest first."""
        for entry in self._list(instances, "instances"):
            facts = self._mapping(entry, "an entry of instances")
            host = self._text(facts.get("id"), "id", facts)
            layers = [self._text(layer, "network_layers", facts) for layer in self._list(facts.get("network_layers"), "network_layers")]
            self._path(host, [(layer, None) for layer in layers], facts)
            self._accelerator(facts, (host,))

    def nodes(self, nodes: object) -> None:
        """Take nodes of Kubernetes with their labels."""
        for entry in self._list(nodes, "items"):
            metadata = self._mapping(self._mapping(entry, "a node").get("metadata"), "metadata of a node")
            host = self._text(metadata.get("name"), "the name of a node", metadata)
            labels = self._mapping(metadata.get("labels") or {}, "labels of a node")
            layers = [(str(labels[_LABEL + kind]), kind) for kind in _LEVELS if labels.get(_LABEL + kind)]
            self._path(host, list(layers), metadata)
            self._accelerator(metadata, (host,))

    def _path(self, host: str, layers: list[tuple[str, Any]], entry: dict[str, Any]) -> None:
        """Take the switches above *host*."""
        for k, (layer, kind) in enumerate(layers):
            above = layers[k + 1][0] if k + 1 < len(layers) else None
            self._add(layer, kind, entry, hosts=(host,) if k == 0 else (), within=above)

    def _accelerator(self, entry: dict[str, Any], hosts: tuple[str, ...]) -> None:
        for place in ("labels", "annotations", "attributes"):
            facts = entry.get(place)
            for label in _ACCELERATORS if isinstance(facts, dict) else ():
                if isinstance(facts, dict) and isinstance(facts.get(label), str) and facts[label]:
                    self._add(facts[label], "nvlink", entry, hosts=hosts)
                    return

    def _add(
        self, name: str, kind: str | None, entry: object, *, hosts: tuple[str, ...] = (), within: str | None = None
    ) -> None:
        new: dict[str, Any] = {"kind": kind, "hosts": {}, "inside": {}, "within": within, "where": self._where(entry)}
        found = self._found.setdefault((kind == "nvlink", name), new)
        found["hosts"].update(dict.fromkeys(hosts))
        if within is not None and found["within"] not in (None, within):
            raise self._error(f"{name!r} is within {within!r} and within {found['within']!r} ({found['where']})", entry)
        found["within"] = found["within"] or within
        found["kind"] = found["kind"] or kind

    def _entries(self, value: object, what: str) -> list[tuple[str, dict[str, Any] | None]]:
        """Return the named entries of a mapping or list; None for one that is only named."""
        if isinstance(value, dict):
            return [(key, self._mapping(entry or {}, f"{key!r} of {what}")) for key, entry in value.items()]
        found: list[tuple[str, dict[str, Any] | None]] = []
        for entry in self._list(value, what):
            if isinstance(entry, str):
                found += ((name, None) for name in self._expand(entry, value))
            else:
                facts = self._mapping(entry, f"an entry of {what}")
                name = next((facts[key] for key in ("name", "id", "switch") if facts.get(key)), None)
                found.append((self._text(name, f"the name of an entry of {what}", facts), facts))
        return found

    def _hosts(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            return self._expand(value, value)
        if isinstance(value, dict):
            return tuple(value)
        found: list[str] = []
        for entry in self._list(value, "nodes"):
            if isinstance(entry, dict):
                found.append(self._text(entry.get("name", entry.get("id")), "the name of a node", entry))
            else:
                found += self._expand(self._text(str(entry) if isinstance(entry, int) else entry, "nodes", value), value)
        return tuple(found)

    def _expand(self, text: str, entry: object) -> tuple[str, ...]:
        try:
            return expand(text)
        except TopologyError as error:
            raise self._error(str(error), entry) from None

    def _where(self, entry: object) -> str:
        return f"{self._name}:{self._lines[id(entry)]}" if id(entry) in self._lines else self._name

    def _error(self, message: str, entry: object) -> TopologyError:
        return TopologyError(f"network: {message}", where=self._where(entry))

    def _mapping(self, value: object, what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(f"{what} must be a mapping", value)
        return value

    def _list(self, value: object, what: str) -> list[Any]:
        if value is not None and not isinstance(value, list):
            raise self._error(f"{what} must be a list", value)
        return value or []

    def _text(self, value: object, what: str, entry: object) -> str:
        if not isinstance(value, str) or not value:
            raise self._error(f"{what} must be a text", entry)
        return value
