"""
Measured times of a run: a YAML file, or a log; many steps become one, by the median.

::

    run: {map: map.yaml}                   # what ran where; or {device_map: {actor: [0, 1], …}}; left out: our own plan
    timings: {timing_s/gen: 41.2, …}       # or a list of such mappings, one per step; or `log: train.log`

A flat mapping of timers, beside ``run`` or alone, will do, too; logs are read by `placement.calibrating.timing_logs`.

When to modify: something more is said of the run that was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement.calibrating import timing_logs
from placement.calibrating.timing_keys import STAGES, name_of
from placement.calibrating.timing_logs import MAX_SECONDS, Log, Record
from placement.errors import InputError
from placement.text.strict_yaml import Document, load
from placement.text.suggest import did_you_mean
from placement.text.text_files import read_text

MAX_BYTES = 1 << 26
FEW_STEPS = 3
"""From so many steps on the first, which warms caches and compiles, is left out."""

KEYS = ("run", "timings", "log")
RUN_KEYS = ("device_map", "map")


@dataclass(frozen=True, slots=True)
class Run:
    """
    What the measured run ran on: one of the two.

    Parameters
    ----------
    device_map
        Role → GPUs.
    map
        A device map's file.
    where
        ``file:line:column`` of it.
    """

    device_map: Mapping[str, tuple[int, ...]] | None
    map: Path | None
    where: str


@dataclass(frozen=True, slots=True)
class Timings:
    """
    What was measured.

    Parameters
    ----------
    seconds
        Timer as it was written → its median over the steps that have it, s.
    steps
        How many steps were counted.
    dropped
        Whether a first step was left out.
    run
        None when the file does not say what ran where.
    counts
        Timer → how many steps its median is of, where that is not *steps*.
    doubts
        What of the log was not used, or is not what its reader may think.
    """

    seconds: Mapping[str, float]
    steps: int
    dropped: bool
    run: Run | None
    counts: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    def steps_of(self, timer: str) -> int:
        """Return how many steps the median of *timer* is of."""
        return self.counts.get(timer, self.steps)


def read_file(path: Path) -> Timings:
    """
    Read the measured times in *path*.

    Raises
    ------
    InputError
        If it cannot be read or holds no times; the message says where and what to do.
    """
    return read(read_text(path, what="timings file", most=MAX_BYTES), name=str(path), folder=path.parent)


def read(text: str, *, name: str = "<timings>", folder: Path | None = None) -> Timings:
    """
    Read measured times.

    Parameters
    ----------
    name
        What the text is called in messages: its file, mostly.
    folder
        Where relative paths start; the working directory by default.

    Raises
    ------
    InputError
        If the text holds no times; the message says where and what to do.
    """
    found = timing_logs.read_log(text, name)
    if found is not None:
        return _merged(found, None, name)
    return _Reader(load(text, name=name), folder or Path()).timings()


def _merged(log: Log, run: Run | None, name: str) -> Timings:
    # Steps that were only validated, or saved, are none of training.
    steps = [record for record in log.steps if any(name_of(key) in STAGES for key in record)] or [r for r in log.steps if r]
    if not steps:
        raise InputError(
            "no times of stages are in it: they look like `timing_s/gen` (verl), `timing/train/generation` (NeMo-RL) or `generate`",
            where=name,
        )
    dropped = len(steps) >= FEW_STEPS
    counted = steps[1:] if dropped else steps
    # What the first step alone has is better than nothing.
    keys = dict.fromkeys(key for record in steps for key in record)
    values = {key: [record[key] for record in counted if key in record] or [steps[0][key]] for key in keys}
    # What takes no time did not run in that step; of what never ran that is all there is to say.
    ran = {key: [seconds for seconds in found if seconds > 0] or found for key, found in values.items()}
    idle = (
        f"{key} is 0 in {len(values[key]) - len(found)} of {len(values[key])} steps: the median is of the others"
        for key, found in ran.items()
        if len(found) < len(values[key]) and name_of(key) in STAGES
    )
    return Timings(
        {key: statistics.median(found) for key, found in ran.items()},
        len(counted),
        dropped,
        run,
        {key: len(found) for key, found in ran.items()},
        (*log.doubts, *idle),
    )


class _Reader:
    """Reads the YAML form; every refusal points at its line."""

    def __init__(self, document: Document, folder: Path) -> None:
        self.document = document
        self.folder = folder

    def timings(self) -> Timings:
        data = self.document.data
        if not isinstance(data, Mapping):
            raise self.document.error(
                "timings are a mapping such as `timing_s/gen: 41.2` (s), or a log of verl or NeMo-RL; this is neither"
            )
        run = self._run(data["run"]) if "run" in data else None
        named = [key for key in ("timings", "log") if key in data]
        if not named:
            return self._as_written(self._steps({k: v for k, v in data.items() if k != "run"}, ()), run)
        if len(named) == 2:
            raise self.document.error("times are given twice: keep `timings` or `log`", ("log",), key=True)
        for key in data:
            if key not in KEYS:
                raise self.document.error(
                    f"unknown key {key!r}{did_you_mean(key, KEYS)}: beside `{named[0]}` stands `run` alone", (key,), key=True
                )
        if named == ["log"]:
            return self._logged(data["log"], run)
        value = data["timings"]
        if not isinstance(value, list):
            return self._as_written(self._steps(value, ("timings",)), run)
        records = [record for k, step in enumerate(value) for record in self._steps(step, ("timings", k))]
        return self._as_written(records, run)

    def _as_written(self, steps: list[Record], run: Run | None) -> Timings:
        return _merged(Log(steps, ()), run, self.document.name)

    def _logged(self, value: Any, run: Run | None) -> Timings:
        path = self._path(value, ("log",))
        log = timing_logs.read_log(read_text(path, what="log", most=MAX_BYTES), str(path))
        if log is None:
            raise self.document.error("this file is no log of verl or NeMo-RL (console or JSON lines)", ("log",))
        return _merged(log, run, str(path))

    def _path(self, value: Any, place: tuple[str | int, ...]) -> Path:
        if not isinstance(value, str) or not value:
            raise self.document.error(f"{place[-1]} takes the name of a file", place)
        return self.folder / Path(value)

    def _steps(self, value: Any, place: tuple[str | int, ...]) -> list[Record]:
        """Return one step, or as many as the longest list of seconds has; what is no list is the same in all."""
        if not isinstance(value, Mapping):
            raise self.document.error("the times of a step are a mapping such as `timing_s/gen: 41.2` (s)", place)
        count = max([1, *(len(seconds) for seconds in value.values() if isinstance(seconds, list))])
        steps: list[Record] = [{} for _ in range(count)]
        for key, seconds in value.items():
            here = (*place, key)
            each = [(seconds, here)] if not isinstance(seconds, list) else [(s, (*here, k)) for k, s in enumerate(seconds)]
            for k, (one, at) in enumerate(each):
                if isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one < MAX_SECONDS:
                    raise self.document.error(f"{key} takes seconds, 0 or more, or a list of them (one per step)", at)
                for step in steps if not isinstance(seconds, list) else steps[k : k + 1]:
                    step[key] = float(one)
        return steps

    def _run(self, value: Any) -> Run:
        place = ("run",)
        if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in RUN_KEYS:
            wrong = next((k for k in value if k not in RUN_KEYS), None) if isinstance(value, Mapping) else None
            hint = f", not {wrong!r}{did_you_mean(wrong, RUN_KEYS)}" if wrong is not None else ""
            raise self.document.error(
                f"run says what ran where: `{{device_map: {{actor: [0, 1], …}}}}` or `{{map: FILE}}`{hint}",
                place if wrong is None else (*place, wrong),
                key=wrong is not None,
            )
        where = "{}:{}:{}".format(self.document.name, *self.document.position(place, key=True))
        if "map" in value:
            return Run(None, self._path(value["map"], (*place, "map")), where)
        return Run(self._groups(value["device_map"]), None, where)

    def _groups(self, value: Any) -> dict[str, tuple[int, ...]]:
        place = ("run", "device_map")
        if not isinstance(value, Mapping) or not value:
            raise self.document.error("device_map is a mapping from role to GPUs: {actor: [0, 1], …}", place)
        groups = {}
        for role, gpus in value.items():
            here = (*place, role)
            if not isinstance(gpus, list) or not gpus:
                raise self.document.error(f"{role} takes a list of GPUs, such as [0, 1]", here)
            for k, gpu in enumerate(gpus):
                if isinstance(gpu, bool) or not isinstance(gpu, int) or gpu < 0 or gpu in gpus[:k]:
                    raise self.document.error(f"{role} takes each GPU once, by its number: {gpu!r} is none or there twice", (*here, k))
            groups[role] = tuple(gpus)
        return groups
