"""
What is shipped, by name: workloads (``data/workloads/*.yaml``) and models; and where a workload comes from.

Adding a workload is adding one file; its first comment line is its summary.

When to modify: another kind of thing is shipped, or a workload can come from somewhere else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from placement.text.suggest import nearest
from placement.text.text_files import STDIN, name_of, read_source

if TYPE_CHECKING:
    from placement.models.model import Model
    from placement.workloads.workload import Workload

MAX_BYTES = 1 << 22
"""No workload is larger: nothing bigger is read into memory."""

_WORKLOADS = Path(__file__).parent / "data" / "workloads"


@functools.cache
def workload_names() -> tuple[str, ...]:
    """Return the names of the shipped workloads: by algorithm, then from small to large."""
    return tuple(sorted((file.stem for file in _WORKLOADS.glob("*.yaml")), key=_natural))


def workload_text(name: str) -> str:
    """Return the text of a shipped workload."""
    return (_WORKLOADS / f"{name}.yaml").read_text(encoding="utf-8")


def workload_summary(name: str) -> str:
    """Return what a shipped workload is, in one line: its first comment."""
    return workload_text(name).partition("\n")[0].removeprefix("#").strip()


def load_workload(source: str) -> Workload:
    """
    Return the workload that the user means.

    Parameters
    ----------
    source
        A file, ``-`` for standard input, or the name of a shipped workload (``ppo-7b``). A shipped name wins
        over a file of the same name without an ending: write ``./ppo-7b`` for the file.

    Raises
    ------
    InputError
        If there is no such workload, or it is wrong.
    """
    from placement.workloads import workload_file

    if source in workload_names():
        return workload_file.load(workload_text(source), name=f"{source}.yaml")
    close = nearest(source, workload_names())
    meant = f"; did you mean {close!r}?" if close else ""
    shipped = f", and none such is shipped{meant} (shipped: {', '.join(workload_names())})"
    text = read_source(source, what="workload file", most=MAX_BYTES, hint=shipped)
    folder = None if source == STDIN else Path(source).expanduser().parent
    return workload_file.load(text, name=name_of(source), folder=folder)


def models() -> tuple[Model, ...]:
    """Return the shipped models."""
    from placement.models.model import catalogue

    return tuple(catalogue().values())


def _natural(name: str) -> tuple[str | float, ...]:
    """Return a key that sorts ``ppo-7b`` before ``ppo-13b``."""
    return tuple(_pieces(name))


def _pieces(name: str) -> Iterator[str | float]:
    algorithm, _, size = name.rpartition("-")
    yield algorithm
    number = size.removesuffix("b")
    yield float(number) if number.replace(".", "", 1).isdigit() else float("inf")
    yield size
