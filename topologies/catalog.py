"""
The machines that are shipped: one text file each in ``data/machines``, as a user would paste it.

A file starts with comment lines (what the machine is, a drawing, where the matrix comes from), then has the
matrix of ``nvidia-smi topo -m`` and the lines of ``nvidia-smi --query-gpu=index,name,memory.total
--format=csv``.

When to modify: never for a new machine, which is one more file.
"""

from __future__ import annotations

import difflib
from importlib import resources

from topologies.errors import TopologyError

_SUFFIX = ".txt"


def machine_names() -> tuple[str, ...]:
    """Return the names of the shipped machines, sorted."""
    folder = resources.files("topologies").joinpath("data", "machines")
    return tuple(sorted(f.name.removesuffix(_SUFFIX) for f in folder.iterdir() if f.name.endswith(_SUFFIX)))


def machine_text(name: str) -> str:
    """
    Return the text of the shipped machine *name*.

    Raises
    ------
    TopologyError
        If no machine is called so.
    """
    names = machine_names()
    if name not in names:
        begun = [known for known in names if name and known.startswith(name.lower())]
        close = begun[:3] or difflib.get_close_matches(name[:80], names, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise TopologyError(
            f"there is no shipped machine {name!r} (`placement catalog machines` lists them){hint}"
        )
    return (
        resources.files("topologies").joinpath("data", "machines", name + _SUFFIX).read_text(encoding="utf-8")
    )


def machine_summary(name: str) -> str:
    """Return what the machine *name* is, in one line: the first comment of its file."""
    return machine_text(name).partition("\n")[0].removeprefix("#").strip()
