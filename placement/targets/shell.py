"""
Lines of shell scripts that emitters write: quoted, commented, the same everywhere.

When to modify: launch scripts of all targets get another head.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Without it CUDA counts the fastest card first, and ids of the map name other GPUs on mixed machines."""


HERE = 'here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)'
"""Lets a script find the files beside it, wherever it is started from."""


def visible(gpus: Iterable[int]) -> dict[str, str]:
    """Return what makes a process see *gpus*, in this order."""
    return {**ORDER, "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}


def assignments(values: Mapping[str, str]) -> str:
    """Return ``NAME=value …`` to stand before a command."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def command(words: Iterable[str]) -> str:
    """Return a command; a word that is a shell variable (``"$MASTER_ADDR"``) stays one."""
    return " ".join(word if word.startswith('"$') and word.endswith('"') else shlex.quote(word) for word in words)


def script(comment: str, lines: Iterable[str]) -> str:
    """Return a bash script that stops at the first error."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return f"#!/usr/bin/env bash\n{head}set -euo pipefail\n" + "".join(f"{line}\n" for line in lines)


def beside(name: str) -> str:
    """Return the word of a command for the file *name* beside the script, which has the line `HERE`."""
    return f'"$here/{name}"'


def asked(name: str, what: str) -> str:
    """Return the word of a command that is the variable *name*; without it the script stops, and says *what* it is."""
    return f'"${{{name}:?set it to {what}}}"'


def side_by_side(comment: str, lines: Iterable[str]) -> str:
    """
    Return a bash script whose *lines* start processes (those that end with ``&``): it ends all when one fails.

    `wait -n` is no way to wait for all: what has ended before it is called counts or not, by the version of bash.
    """
    started: list[str] = []
    for line in lines:
        started += [line, "pids+=($!)"] if line.endswith(" &") else [line]
    return script(comment, ["pids=()", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *started, *_WAIT])


_WAIT = (
    'while [ "${#pids[@]}" -gt 0 ]; do',
    '  for k in "${!pids[@]}"; do',
    '    kill -0 "${pids[k]}" 2> /dev/null || { wait "${pids[k]}" || exit; unset "pids[k]"; }',
    "  done",
    "  sleep 0.2",
    "done",
)


def host_file(stem: str, host: str | None, suffix: str) -> str:
    """Return the name of a file for *host*: ``launch.sh``, or ``launch-node0.sh`` where the map names hosts."""
    return f"{stem}{suffix}" if host is None else f"{stem}-{host}{suffix}"
