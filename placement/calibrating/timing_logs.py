"""
The steps that a log holds: JSON lines, or what a framework printed.

JSON lines are those of verl's file logger or any logger that writes one mapping of metrics per line; consoles are verl's
``step:3 - timing_s/gen:41.2 - …`` and NeMo-RL's list of timings (``• generation: 41.20s (45.0%)``).

When to modify: a framework writes its times in another form. What the timers mean is `placement.calibrating.timing_keys`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from placement.calibrating.timing_keys import is_timer
from placement.errors import InputError

MAX_LINE = 1 << 20
MAX_SECONDS = 1e9
"""Thirty years: no time of a step, whatever the timer is called."""

MAX_HEAD = 100
"""Lines in which the form of a text must show."""

MAX_DEPTH = 8
"""No logger nests its metrics deeper."""

_NUMBER = r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_TOKEN = re.compile(
    r"(?<![\w/])step:(\d+)(?![\w:.])"
    rf"|(timing_s/[\w/.-]{{1,200}}|timing/train/[\w/.-]{{1,200}})[ ]{{0,4}}:[ ]{{0,4}}(?:np\.\w+\()?({_NUMBER})"
    rf"|•\s+([A-Za-z][\w/ ]{{0,99}}):\s+({_NUMBER})s(?=\s|$)"
)
"""The number of a step; a timer of verl or NeMo-RL; a timer as NeMo-RL lists it."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

Record = dict[str, float]
"""Timer → seconds, of one step."""


def records(text: str, name: str) -> list[Record] | None:
    """Return the steps of a log; None if *text* is none."""
    lines = [line for line in itertools.islice(text.splitlines(), MAX_HEAD) if line.strip()]
    value = _json_line(lines[0]) if lines and lines[0].lstrip().startswith("{") else None
    if value is not None and (len(lines) > 1 or not value.keys() & {"run", "timings", "log"}):
        return list(_json_lines(text, name))
    return list(_console(text)) or None


def _json_line(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _json_lines(text: str, name: str) -> Iterator[Record]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        value = _json_line(line)
        if value is None:
            raise InputError("this line is no JSON mapping, as those before it are", where=f"{name}:{number}")
        # A bare `step` is the step's number.
        timers = ((key, seconds) for key, seconds in _flat(value, "", 0) if key != "step" and is_timer(key))
        yield {
            key: float(seconds)
            for key, seconds in timers
            if isinstance(seconds, int | float) and not isinstance(seconds, bool) and abs(seconds) < MAX_SECONDS
        }


def _flat(value: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings, keys joined by slashes; loggers put all metrics under one key (``data``)."""
    for key, inner in value.items():
        path = key if key == "data" or not before else f"{before}/{key}"
        if isinstance(inner, dict):
            if depth < MAX_DEPTH:
                yield from _flat(inner, "" if key == "data" else path, depth + 1)
        else:
            yield path, inner


def _console(text: str) -> Iterator[Record]:
    """
    Yield the steps that were printed; nothing if *text* is no log.

    A step begins with its number (which several loggers may print), with NeMo-RL's time of the whole, or else with a timer that the
    one before has already.
    """
    steps: dict[str | int, Record] = {}
    current: str | int = 0
    is_log = False
    for line in text.splitlines():
        if len(line) > MAX_LINE or line.lstrip().startswith("#") or not ("timing" in line or "step:" in line or "•" in line):
            continue
        for found in _TOKEN.finditer(_COLOUR.sub("", line)):
            number, key, seconds, bullet, bullet_seconds = found.groups()
            if number is not None:
                is_log, current = True, number
                continue
            if bullet is not None:
                is_log = True
                key, seconds = bullet.strip().lower().replace(" ", "_"), bullet_seconds
            starts = key == "total_step_time" if bullet is not None else isinstance(current, int) and key in steps.get(current, {})
            if starts:
                current = len(steps)
            if float(seconds) < MAX_SECONDS:
                steps.setdefault(current, {})[key] = float(seconds)
    if is_log:
        yield from steps.values()
