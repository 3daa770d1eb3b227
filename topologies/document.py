"""
A topology as a document: what ``placement topology SRC --json`` and ``--yaml`` write, and what can be read back.

Field names are those of the schema ``placement/topology/v1``; a field that has nothing to say is left out, except the minimum
that every document has.

When to modify: `Topology` or `Gpu` gets a field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from topologies.errors import TopologyError
from topologies.model import Gpu, Pair, Topology

SCHEMA = "placement/topology/v1"

_GPU_FIELDS = {
    "index": int, "host": str, "name": str, "uuid": str, "pci_bus_id": str, "memory_mib": int, "memory_used_mib": int,
    "cpu_affinity": str, "numa": str, "gpu_numa_id": str,
}  # fmt: skip
_MINIMUM = frozenset(_GPU_FIELDS) - {"memory_used_mib"}
_PAIR = re.compile(r"(\d{1,6})-(\d{1,6})")
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
    return {
        name: getattr(gpu, name) for name in _GPU_FIELDS if name in _MINIMUM or getattr(gpu, name) is not None
    }


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
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        document = _load_yaml(text, name)
    return from_document(document, name=name)


def _load_yaml(text: str, name: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """Plain scalars are texts, but for whole numbers, true, false and null; keys are unique and there are no aliases."""

        yaml_implicit_resolvers = {}  # noqa: RUF012 - as the base class declares it

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):  # they can grow a small text without bound
                raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=self.mark())
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                if str(key.value) in seen:
                    problem = f"the key {str(key.value)[:60]!r} is there twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

        def mark(self) -> Any:
            return self.peek_event().start_mark  # type: ignore[no-untyped-call]

    for kind, pattern, first in (
        ("int", r"-?(?:0|[1-9][0-9]{0,17})", "-0123456789"),
        ("bool", "true|false", "tf"),
        ("null", "null|~|", ("n", "~", "")),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})$"), list(first))
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a subclass of SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)[:200]
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise TopologyError(f"the topology document cannot be parsed: {problem}", where=where) from None


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
        raise reader.error(f"schema is {root.get('schema')!r} instead of {SCHEMA}")
    if root.get("status") == "error":
        raise reader.error(f"it records a source that could not be read: {root.get('error')}")
    gpus = tuple(
        reader.gpu(entry, position)
        for position, entry in enumerate(reader.sequence(root.get("gpus"), "gpus"))
    )
    extra = root.get("extra_column", [])
    near = {int(key[13:]): value for key, value in root.items() if re.fullmatch(r"gpus_near_cpu\d{1,6}", key)}
    known = {*_FIELDS, *(f"gpus_near_cpu{cpu}" for cpu in near)}
    unknown = [key for key in root if key not in known]
    warnings = list(reader.texts(root.get("warnings", []), "warnings"))
    if unknown:
        warnings.append(
            f"the document has fields that this version does not know, which were ignored: {', '.join(unknown)[:200]}"
        )
    try:
        return Topology(
            gpus=gpus,
            links=reader.pairs(root.get("links", {}), "links"),
            nics={
                nic: reader.optional(device, str, f"nics.{nic}")
                for nic, device in reader.mapping(root.get("nics", {}), "nics").items()
            },
            gpu_nic={
                reader.index(index, "gpu_nic"): reader.codes(nics, f"gpu_nic.{index}")
                for index, nics in reader.mapping(root.get("gpu_nic", {}), "gpu_nic").items()
            },
            format=reader.required(root.get("format", "yaml"), str, "format"),
            warnings=tuple(warnings),
            columns=frozenset(reader.texts(root.get("columns", []), "columns")),
            rows_missing=reader.texts(root.get("rows_missing", []), "rows_missing"),
            rows_partial_cells_seen={
                label: reader.required(count, int, f"rows_partial_cells_seen.{label}")
                for label, count in reader.mapping(
                    root.get("rows_partial_cells_seen", {}), "rows_partial_cells_seen"
                ).items()
            },
            conflict=reader.texts(root.get("conflict", []), "conflict"),
            extra_columns=reader.texts([extra] if isinstance(extra, str) else extra, "extra_column"),
            other_columns=reader.required(root.get("other_columns", 0), int, "other_columns"),
            p2p=reader.pairs(root.get("p2p", {}), "p2p"),
            p2p_kind=reader.optional(root.get("p2p_kind"), str, "p2p_kind"),
            gpus_near_cpu={
                cpu: tuple(
                    reader.required(gpu, int, f"gpus_near_cpu{cpu}")
                    for gpu in reader.sequence(gpus_near, f"gpus_near_cpu{cpu}")
                )
                for cpu, gpus_near in near.items()
            },
        )
    except TopologyError as error:
        raise error if error.where else reader.error(str(error)) from None


class _Reader:
    """Takes values out of a document and names the field where one has the wrong type."""

    def __init__(self, name: str) -> None:
        self._name = name

    def error(self, message: str) -> TopologyError:
        return TopologyError(f"topology document: {message}", where=self._name)

    def required(self, value: object, kind: type, path: str) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            expected = {int: "a whole number", str: "a text", dict: "a mapping", list: "a list"}[kind]
            raise self.error(f"{path} must be {expected}, not {str(value)[:60]!r}")
        return value

    def optional(self, value: object, kind: type, path: str) -> Any:
        return None if value is None else self.required(value, kind, path)

    def mapping(self, value: object, path: str) -> dict[str, Any]:
        found: dict[Any, Any] = self.required(value, dict, path)
        return {str(key): entry for key, entry in found.items()}

    def sequence(self, value: object, path: str) -> list[Any]:
        found: list[Any] = self.required(value, list, path)
        return found

    def texts(self, value: object, path: str) -> tuple[str, ...]:
        return tuple(self.required(entry, str, path) for entry in self.sequence(value, path))

    def codes(self, value: object, path: str) -> dict[str, str]:
        return {
            nic: self.required(code, str, f"{path}.{nic}") for nic, code in self.mapping(value, path).items()
        }

    def index(self, key: str, path: str) -> int:
        if re.fullmatch(r"\d{1,6}", key) is None:
            raise self.error(f"{path}: {key[:60]!r} is no GPU index")
        return int(key)

    def pairs(self, value: object, path: str) -> dict[Pair, str]:
        found: dict[Pair, str] = {}
        for key, code in self.mapping(value, path).items():
            match = _PAIR.fullmatch(key)
            if match is None:
                raise self.error(f"{path}: {key[:60]!r} is no pair of GPUs such as '0-1'")
            found[int(match[1]), int(match[2])] = self.required(code, str, f"{path}.{key}")
        return found

    def gpu(self, entry: object, position: int) -> Gpu:
        path = f"gpus[{position}]"
        facts = self.mapping(entry, path)
        values = {
            name: self.optional(facts.get(name), kind, f"{path}.{name}") for name, kind in _GPU_FIELDS.items()
        }
        if values["index"] is None:
            raise self.error(f"{path} has no index")
        return Gpu(**values)
