"""
The steps that a log holds: JSON lines, or what a framework printed.

JSON lines are those of verl's file logger or any logger that writes one mapping of metrics per line; consoles are verl's
``step:3 - timing_s/gen:41.2 - …`` and NeMo-RL's list of timings (``• generation: 41.20s (45.0%)``). Nothing is dropped in silence: what
is no time of a step, is there twice, or belongs to an earlier run, is a doubt that the user reads.

When to modify: a framework writes its times in another form. What the timers mean is `placement.calibrating.timing_keys`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from placement.calibrating.timing_keys import STAGES, is_timer, name_of
from placement.errors import InputError

MAX_LINE = 1 << 20
MAX_SECONDS = 1e9
"""Thirty years: no time of a step, whatever the timer is called."""

MAX_HEAD = 100
"""Lines in which the form of a text must show."""

MAX_DEPTH = 8
"""No logger nests its metrics deeper."""

MOST_DOUBTS = 5
"""So many are told of one kind; the others are counted."""

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
_TOKEN = re.compile(
    r"(?<![\w/])step:(\d{1,18})(?![\w:.])|={5,} Step (\d{1,18})/\d+ ={5,}"
    rf"|(timing_s/[\w/.-]{{1,200}}|timing/train/[\w/.-]{{1,200}})[ ]{{0,4}}:[ ]{{0,4}}(?:np\.\w+\()?({_NUMBER})"
    rf"|•\s+([A-Za-z][\w/ ]{{0,99}}):\s+({_NUMBER})s(?=\s|$)"
)
"""The number of a step, as verl and NeMo-RL print it; a timer of either; a timer as NeMo-RL lists it."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

Record = dict[str, float]
"""Timer → seconds, of one step."""


@dataclass(frozen=True, slots=True)
class Log:
    """The steps of the last run of a log, and what its reader must be told."""

    steps: list[Record]
    doubts: tuple[str, ...]


def read_log(text: str, name: str) -> Log | None:
    """
    Return the steps of a log; None if *text* is none.

    Raises
    ------
    InputError
        If JSON lines are broken, or timers of two frameworks are in it.
    """
    lines = [line for line in itertools.islice(text.split("\n"), MAX_HEAD) if line.strip()]
    value = _json_line(lines[0]) if lines and lines[0].lstrip().startswith("{") else None
    runs = _Runs(name)
    if value is not None and (len(lines) > 1 or not value.keys() & {"run", "timings", "log"}):
        _read_json_lines(text, name, runs)
    elif not _read_console(text, runs):
        return None
    return runs.last()


class _Runs:
    """The runs of a log, step by step; a number of a step that is lower than the one before begins a run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._runs: list[dict[int, Record]] = [{}]
        self._begun = [1]
        self._step: int | None = None
        self._highest = -1
        self._is_numbered = False
        self._frameworks: dict[str, int] = {}
        self._doubts: dict[str, list[tuple[int, str]]] = {}
        self._at = 1

    def at(self, number: int, line: int) -> None:
        """Go to the step *number*, which *line* names."""
        if number != self._step:
            self._at = line
        self._step, self._is_numbered = number, True

    def next(self) -> None:
        """Go to another step, that has no number."""
        self._step, self._is_numbered = self._highest + 1, False

    def add(self, key: str, seconds: float, line: int, framework: str | None = None) -> None:
        """Take a timer of the step."""
        if not 0 <= seconds < MAX_SECONDS:  # NaN is not, either
            self.doubt("no time of a step, so not used", f"{key} is {seconds:g}", line)
            return
        if framework is not None and name_of(key) in STAGES:
            self._frameworks.setdefault(framework, line)
        if self._step is None or (not self._is_numbered and key in self._runs[-1].get(self._step, {})):
            self.next()
        assert self._step is not None
        run = self._runs[-1]
        if self._step < self._highest:
            if run.get(self._step, {}).get(key) == seconds:
                return  # another logger, which is late
            run = {}
            self._runs.append(run)
            self._begun.append(self._at if self._is_numbered else line)
        self._highest = self._step
        record = run.setdefault(self._step, {})
        if record.get(key, seconds) != seconds:
            self.doubt("the later is taken", f"step {self._step} has {key} twice, {record[key]:g} s and {seconds:g} s", line)
        record[key] = seconds

    def doubt(self, kind: str, what: str, line: int) -> None:
        """Take down *what* is doubtful in *line*."""
        self._doubts.setdefault(kind, []).append((line, what))

    def last(self) -> Log:
        """
        Return the steps of the last run that has times of stages.

        Raises
        ------
        InputError
            If the log has those of two frameworks.
        """
        if len(self._frameworks) > 1:
            (one, first), (other, second) = self._frameworks.items()
            raise InputError(
                f"stages are timed by {one} (line {first}) and by {other} (line {second}): give the log of one run", where=self.name
            )
        timed = [k for k, run in enumerate(self._runs) if any(name_of(key) in STAGES for record in run.values() for key in record)]
        taken = timed[-1] if timed else len(self._runs) - 1
        doubts = []
        if len(timed) > 1:
            starts = ", ".join(str(self._begun[k]) for k in timed[1:][:MOST_DOUBTS])
            more = f" and {len(timed) - 1 - MOST_DOUBTS} more" if len(timed) - 1 > MOST_DOUBTS else ""
            doubts.append(f"{self.name}: steps start over at line {starts}{more}: of {len(timed)} runs the last is taken")
        ends = [*self._begun[1:], math.inf][taken]
        for kind, everywhere in self._doubts.items():
            listed = [(line, what) for line, what in everywhere if len(timed) < 2 or self._begun[taken] <= line < ends]
            doubts += [f"{self.name}:{line}: {what}: {kind}" for line, what in listed[:MOST_DOUBTS]]
            if len(listed) > MOST_DOUBTS:
                doubts.append(f"{self.name}: {len(listed) - MOST_DOUBTS} more like this: {kind}")
        return Log(list(self._runs[taken].values()), tuple(doubts))


# ── JSON lines ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _json_line(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read_json_lines(text: str, name: str, runs: _Runs) -> None:
    # Not `splitlines`: JSON may hold characters that it takes for ends of lines.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for number, line in lines:
        value = _json_line(line)
        if value is None:
            if number == lines[-1][0] and line.lstrip().startswith("{"):
                runs.doubt("cut off, so not used", "the last line", number)
                return
            raise InputError("this line is no JSON mapping, as those before it are", where=f"{name}:{number}")
        runs.next()
        timers = dict(_flat(value, "", 0))
        step = timers.pop("step", None)
        if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 1 << 60:
            runs.at(step, number)
        for key, seconds in timers.items():
            if not is_timer(key) or seconds is None:
                continue
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                runs.doubt("no time of a step, so not used", f"{key} is no number", number)
            else:
                runs.add(key, _float(seconds), number, _framework(key))


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _framework(key: str) -> str | None:
    return "verl" if "timing_s/" in key else "NeMo-RL" if "timing/train/" in key else None


def _flat(value: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings, keys joined by slashes; loggers put all metrics under one key (``data``)."""
    for key, inner in value.items():
        path = key if key == "data" or not before else f"{before}/{key}"
        if isinstance(inner, dict):
            if depth < MAX_DEPTH:
                yield from _flat(inner, "" if key == "data" else path, depth + 1)
        else:
            yield path, inner


# ── consoles ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_console(text: str, runs: _Runs) -> bool:
    """
    Read the steps that were printed, and return whether *text* is a log at all.

    A step begins with its number (which several loggers may print), or else with a timer that the one before has already.
    """
    is_log = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not ("timing" in line or "tep" in line or "•" in line) or line.lstrip().startswith("#"):
            continue
        if len(line) > MAX_LINE:
            runs.doubt("not read", f"a line of {len(line) >> 20} MiB", number)
            continue
        for found in _TOKEN.finditer(_COLOUR.sub("", line)):
            step, of_nemo, key, seconds, bullet, bullet_seconds = found.groups()
            if step is not None or of_nemo is not None:
                is_log = is_log or step is not None
                runs.at(int(step or of_nemo), number)
            elif bullet is not None:
                is_log = True
                runs.add(bullet.strip().lower().replace(" ", "_"), float(bullet_seconds), number, "NeMo-RL")
            else:
                runs.add(key, float(seconds), number, _framework(key))
    return is_log
