"""
A topology as a document: what ``placement topology SRC --json`` and ``--yaml`` write, and what can be read back.

Field names are those of the schema ``placement/topology/v1``; a field that has nothing to say is left out, except the minimum
that every document has.

When to modify: `Topology` or `Gpu` gets a field.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from topologies import codes
from topologies.document_text import parse
from topologies.errors import TopologyError
from topologies.model import Gpu, Pair, Topology
from topologies.reading import listing, unknown_codes

K = TypeVar("K")

SCHEMA = "placement/topology/v1"

MOST_GPUS = 4096
"""Most GPUs of a document, all hosts together; it also bounds every count."""

MOST_MEMORY_MIB = 2**40
"""Largest memory of a GPU that is believed; a number without bound would overflow in whatever is computed from it."""

_GPU_FIELDS = {
    "index": int, "host": str, "name": str, "uuid": str, "pci_bus_id": str, "memory_mib": int, "memory_used_mib": int,
    "cpu_affinity": str, "numa": str, "gpu_numa_id": str,
}  # fmt: skip
_MOST = {"index": MOST_GPUS - 1, "memory_mib": MOST_MEMORY_MIB, "memory_used_mib": MOST_MEMORY_MIB}
_MINIMUM = frozenset(_GPU_FIELDS) - {"memory_used_mib"}
_INDEX = re.compile(r"[0-9]{1,6}")
_PAIR = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
_NEAR_CPU = re.compile(r"gpus_near_cpu([0-9]{1,6})")
_LOOKS_LIKE = re.compile(rf"\s*(?:#[^\n]*\n\s*|---\s*\n)*(?:\{{\s*)?[\"']?schema[\"']?\s*:\s*[\"']?{SCHEMA}")
_FIELDS = frozenset(
    {
        "schema", "status", "format", "warnings", "gpus", "links", "links_complete", "nics", "gpu_nic", "islands", "rows_missing",
        "rows_partial_cells_seen", "conflict", "extra_column", "other_columns", "p2p", "p2p_kind", "columns", "error",
    }
)  # fmt: skip


def to_document(topology: Topology, *, islands: Sequence[Sequence[int]] | None = None) -> dict[str, Any]:
    """
    Return *topology* as a document.

    Parameters
    ----------
    topology
        What was read.
    islands
        The NVLink islands, which are derived and so not part of it; left out when None.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "status": "warn" if topology.warnings else "ok",
        "format": topology.format,
        "warnings": list(topology.warnings),
        "gpus": [_gpu_document(gpu) for gpu in topology.gpus],
        "links": _pairs_document(topology.links),
        "links_complete": topology.links_complete,
        "nics": dict(topology.nics),
        "gpu_nic": {str(index): dict(nics) for index, nics in topology.gpu_nic.items()},
    }
    if islands is not None:
        document["islands"] = [list(island) for island in islands]
    further: dict[str, Any] = {
        "columns": sorted(topology.columns),
        "rows_missing": list(topology.rows_missing),
        "rows_partial_cells_seen": dict(topology.rows_partial_cells_seen),
        "conflict": list(topology.conflict),
        "extra_column": topology.extra_columns[0]
        if len(topology.extra_columns) == 1
        else list(topology.extra_columns),
        "other_columns": topology.other_columns,
        "p2p": _pairs_document(topology.p2p),
        "p2p_kind": topology.p2p_kind,
        **{f"gpus_near_cpu{cpu}": list(gpus) for cpu, gpus in topology.gpus_near_cpu.items()},
    }
    return document | {
        name: value for name, value in further.items() if value or name.startswith("gpus_near_cpu")
    }


def error_document(message: str) -> dict[str, Any]:
    """Return the document of a source that could not be read."""
    return {"schema": SCHEMA, "status": "error", "error": message}


def _gpu_document(gpu: Gpu) -> dict[str, Any]:
    document = {
        name: getattr(gpu, name) for name in _GPU_FIELDS if name in _MINIMUM or getattr(gpu, name) is not None
    }
    return document if gpu.is_named else document | {"is_named": False}


def _pairs_document(pairs: Mapping[Pair, str]) -> dict[str, str]:
    return {f"{i}-{j}": code for (i, j), code in pairs.items()}


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
    return from_document(parse(text.removeprefix("\ufeff"), name=name), name=name)


def from_document(document: object, *, name: str = "<document>") -> Topology:
    """
    Return the topology that *document* describes: the inverse of `to_document`.

    Fields that only newer versions know are ignored with a warning.

    Raises
    ------
    TopologyError
        If a field is missing or has the wrong type, or the machine contradicts itself.
    """
    reader = _Reader(name)
    root = reader.mapping(document, "the document")
    if root.get("schema") != SCHEMA:
        raise reader.error(f"schema is {_shown(root.get('schema'))} instead of {SCHEMA}")
    if root.get("status") == "error":
        error = reader.required(root.get("error"), str, "error")
        raise reader.error(f"it records a source that could not be read: {' '.join(error.split())[:1000]}")
    entries = reader.sequence(root.get("gpus"), "gpus")
    if len(entries) > MOST_GPUS:
        raise reader.error(f"gpus has {len(entries):,} entries; at most {MOST_GPUS:,} are read")
    extra = root.get("extra_column", [])
    near = [key for key in root if _NEAR_CPU.fullmatch(key)]
    unknown = [key for key in root if key not in _FIELDS and key not in near]
    warnings = list(reader.texts(root.get("warnings", []), "warnings"))
    if unknown:
        warnings.append(
            f"the document has fields that this version does not know, which were ignored: {', '.join(unknown)[:200]}"
        )
    try:
        topology = Topology(
            gpus=tuple(reader.gpu(entry, position) for position, entry in enumerate(entries)),
            links=reader.pairs(root.get("links", {}), "links"),
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
                for label, count in reader.mapping(
                    root.get("rows_partial_cells_seen", {}), "rows_partial_cells_seen"
                ).items()
            },
            conflict=reader.texts(root.get("conflict", []), "conflict"),
            extra_columns=reader.texts([extra] if isinstance(extra, str) else extra, "extra_column"),
            other_columns=reader.number(root.get("other_columns", 0), "other_columns"),
            p2p=reader.pairs(root.get("p2p", {}), "p2p"),
            p2p_kind=reader.optional(root.get("p2p_kind"), str, "p2p_kind"),
            gpus_near_cpu={
                cpu: tuple(reader.number(gpu, key) for gpu in reader.sequence(root[key], key))
                for cpu, key in reader.unique([(int(key.removeprefix("gpus_near_cpu")), key) for key in near]).items()
            },
        )
    except TopologyError as error:
        raise error if error.where else reader.error(str(error)) from None
    links = (*topology.links.values(), *(code for nics in topology.gpu_nic.values() for code in nics.values()))
    further = [*unknown_codes(links, codes.is_known_link, warnings)]
    further += unknown_codes(topology.p2p.values(), codes.is_peer_state, (*warnings, *further))
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


def _shown(value: object) -> str:
    """Return *value* as a message shows it, whatever it is."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of many digits"
    return repr(str(value)[:60])


class _Reader:
    """Takes values out of a document and names the field where one has the wrong type."""

    def __init__(self, name: str) -> None:
        self._name = name

    def error(self, message: str) -> TopologyError:
        return TopologyError(f"topology document: {message}", where=self._name)

    def required(self, value: object, kind: type, path: str) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            expected = {int: "a whole number", str: "a text", dict: "a mapping", list: "a list", bool: "true or false"}[kind]
            raise self.error(f"{path} must be {expected}, not {_shown(value)}")
        if isinstance(value, str):
            self._check_text(value, path)
        return value

    def _check_text(self, text: str, path: str) -> None:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise self.error(f"{path} is no text that can be written: {text[:60]!r} has half a character") from None

    def number(self, value: object, path: str, most: int = MOST_GPUS) -> int:
        found: int = self.required(value, int, path)
        if not 0 <= found <= most:
            raise self.error(f"{path} must be a number from 0 to {most}, not {_shown(found)}")
        return found

    def optional(self, value: object, kind: type, path: str) -> Any:
        return None if value is None else self.required(value, kind, path)

    def mapping(self, value: object, path: str) -> dict[str, Any]:
        found: dict[Any, Any] = self.required(value, dict, path)
        for key in found:
            self._check_text(self.required(key, str, f"a key of {path}"), f"a key of {path}")
        return found

    def sequence(self, value: object, path: str) -> list[Any]:
        found: list[Any] = self.required(value, list, path)
        return found

    def texts(self, value: object, path: str) -> tuple[str, ...]:
        return tuple(self.required(entry, str, path) for entry in self.sequence(value, path))

    def codes(self, value: object, path: str) -> dict[str, str]:
        return {
            nic: self.required(code, str, f"{path}.{nic}") for nic, code in self.mapping(value, path).items()
        }

    def indexed(self, value: object, path: str) -> dict[int, Any]:
        entries = self.mapping(value, path)
        for key in entries:
            if _INDEX.fullmatch(key) is None:
                raise self.error(f"{path}: {key[:60]!r} is no GPU index")
        numbers = self.unique([(int(key), f"{path}.{key}") for key in entries])
        return dict(zip(numbers, entries.values(), strict=True))

    def unique(self, keys: Iterable[tuple[K, str]]) -> dict[K, str]:
        """Return what each key means and how it is written; two that mean the same are an error."""
        found: dict[K, str] = {}
        for meaning, written in keys:
            if found.setdefault(meaning, written) is not written:
                raise self.error(f"{found[meaning]} and {written} are the same")
        return found

    def pairs(self, value: object, path: str) -> dict[Pair, str]:
        written: list[tuple[Pair, str]] = []
        entries = self.mapping(value, path)
        for key in entries:
            match = _PAIR.fullmatch(key)
            if match is None:
                raise self.error(f"{path}: {key[:60]!r} is no pair of GPUs such as '0-1'")
            i, j = int(match[1]), int(match[2])
            if i >= j:
                raise self.error(f"{path}: {key!r} must name the smaller GPU first, as in '0-1'")
            written.append(((i, j), f"{path}.{key}"))
        where = self.unique(written)
        return {
            pair: self.required(code, str, where[pair]) for pair, code in zip(where, entries.values(), strict=True)
        }

    def gpu(self, entry: object, position: int) -> Gpu:
        path = f"gpus[{position}]"
        facts = self.mapping(entry, path)
        values = {
            name: self.optional(facts.get(name), kind, f"{path}.{name}") for name, kind in _GPU_FIELDS.items()
        }
        for name, most in _MOST.items():
            if values[name] is not None:
                self.number(values[name], f"{path}.{name}", most)
        if values["index"] is None:
            raise self.error(f"{path} has no index")
        return Gpu(**values, is_named=self.required(facts.get("is_named", True), bool, f"{path}.is_named"))
