"""
A device map → the question that it answers: the inverse of `placement.maps.inputs`.

When to modify: an input that changes the answer is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from placement.constants import constants_file
from placement.constants.table import Override
from placement.errors import InputError
from placement.maps import devicemap
from placement.plans import Plan
from placement.program.instance import Instance, Objective, make_instance
from placement.text import strict_yaml
from placement.text.strict_yaml import Document
from placement.text.suggest import did_you_mean
from placement.text.text_files import read_text
from placement.workloads import workload_file
from placement.workloads.rules import Rules, parse_rules
from topologies.errors import TopologyError
from topologies.model import Topology

NEEDED = ("version", "topology", "workload", "objective", "within_percent")
"""
What every map records of its question; ``visible`` only where GPUs were hidden, ``not_needed`` where ``--smallest gpus`` left some out,
``constants`` where some were the user's.
"""

KNOWN = (*NEEDED, "visible", "not_needed", "constants")

AGAIN = "write the map anew with `placement plan -o FILE`"

MAX_BYTES = 1 << 22
"""No map is larger, and no file of constants: nothing bigger is read into memory."""

Read = TypeVar("Read")


def replay(text: str, *, name: str = "<map>") -> tuple[Plan, Instance]:
    """
    Return the plan in the device map *text*, and the question that it answers.

    Whether the plan is right for the question is not asked here: that is `placement.checking`.

    Parameters
    ----------
    name
        What the text is called in messages: its file, mostly.

    Raises
    ------
    InputError
        If the text is no device map, or its ``inputs`` are missing, unknown or wrong; the message has line and column.
    """
    plan = devicemap.load(text, name=name)
    document = strict_yaml.load(text, name=name)
    _check_inputs(document)
    instance = _at(
        document,
        ("inputs",),
        lambda: make_instance(
            _topology(document),
            workload_file.read(document.part("inputs", "workload")),
            _rules(document),
            visible=_ids(document, "visible"),
            objective=_objective(document),
            within_percent=_number(document, "within_percent"),
            overrides=constants_file.read(text, name=name),
            not_needed=_ids(document, "not_needed") or (),
        ),
    )
    return plan, instance


def constants_of(path: Path) -> tuple[Override, ...] | None:
    """
    Return the constants of a user's own in *path*, a file of them or a device map; None for a map that was planned without.

    A damaged map is refused as a whole: of one that was cut, the constants may be what is missing.

    Raises
    ------
    InputError
        If it cannot be read, or is neither; the message has line, column and excerpt.
    """
    name = str(path)
    text = read_text(path, what="constants file", most=MAX_BYTES)  # or a map
    found = constants_file.read(text, name=name)
    document = strict_yaml.load(text, name=name)
    if not constants_file.is_map(document):
        return found
    devicemap.load(text, name=name)
    _check_inputs(document)
    return found if "constants" in document.data["inputs"] else None


def _check_inputs(document: Document) -> None:
    inputs = document.data.get("inputs")
    if not isinstance(inputs, Mapping) or not inputs:
        raise document.error(f"the map does not record the question that it answers (inputs): {AGAIN}")
    for key in inputs:
        if key not in KNOWN:
            hint = did_you_mean(key, KNOWN)
            raise document.error(f"inputs has the key {key!r}, which this version does not know{hint}", ("inputs", key), key=True)
    missing = [key for key in NEEDED if key not in inputs]
    if missing:
        raise document.error(f"inputs lacks {', '.join(missing)}, so the map cannot be replayed: {AGAIN}", ("inputs",))


def _topology(document: Document) -> Topology:
    from topologies.documents.document_read import from_document

    place = ("inputs", "topology")
    try:
        return from_document(document.data["inputs"]["topology"], name=document.name)
    except TopologyError as error:
        words = str(error).removeprefix(f"{error.where}: ")
        raise document.error(f"inputs.topology: {words.removeprefix('topology document: ')}", place) from None


def _rules(document: Document) -> Rules:
    """Return the rules, which the map names as a preset and switches."""
    said = document.data.get("rules", {})
    if not isinstance(said, Mapping):
        raise document.error("rules is a mapping of the preset and the switches that differ from it", ("rules",))
    switches = {str(key): value if isinstance(value, str) else _plain(value) for key, value in said.items()}
    for key, value in switches.items():
        _at(document, ("rules", key), lambda key=key, value=value: parse_rules(f"{key}={value}"))  # type: ignore[misc]
    return parse_rules(*(f"{key}={value}" for key, value in switches.items()))


def _plain(value: Any) -> str:
    """Return what YAML read as no text the way a switch takes it."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _ids(document: Document, key: str) -> tuple[int, ...] | None:
    ids = document.data["inputs"].get(key)
    if ids is None:
        return None
    if not isinstance(ids, list) or not all(isinstance(g, int) and not isinstance(g, bool) for g in ids):
        raise document.error(f"{key} is a list of physical GPU ids, not {ids!r}", ("inputs", key))
    return tuple(ids)


def _objective(document: Document) -> Objective:
    word = document.data["inputs"]["objective"]
    if word not in tuple(Objective):
        known = did_you_mean(str(word), [objective.value for objective in Objective])
        raise document.error(f"objective cannot be {word!r}{known}: it is one of {', '.join(Objective)}", ("inputs", "objective"))
    return Objective(word)


def _number(document: Document, key: str) -> float:
    value = document.data["inputs"][key]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise document.error(f"{key} is a number, not {value!r}", ("inputs", key))
    return float(value)


def _at(document: Document, path: tuple[str, ...], read: Callable[[], Read]) -> Read:
    """Return what *read* returns; an error that names no place is given that of *path*."""
    try:
        return read()
    except InputError as error:
        if error.where is not None:
            raise
        raise document.error(str(error), path) from None
