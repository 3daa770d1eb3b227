"""
How the nodes of a Ray cluster are started for a map: one script per host, GPUs in the order in which the framework takes them.

A raylet hands out its GPUs in the order of its CUDA_VISIBLE_DEVICES, so that the n-th bundle of one GPU gets the n-th of them.

When to modify: `ray start` changes, or a framework needs another variable on its nodes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from placement.maps.seats import Pool
from placement.targets.shell import ORDER, assignments, command, host_file, script, visible
from placement.targets.start import Gpus, Start
from placement.targets.target import Entry, Files

PORT = 6379
"""Ray's own default."""


def ray_start(start: Start, gpus: Mapping[str | None, Gpus], variables: Mapping[str | None, Mapping[str, str]] | None = None) -> Files:
    """
    Return a script for each host that starts its Ray node.

    Parameters
    ----------
    gpus
        What the node sees, in order; an empty tuple leaves all GPUs visible, in PCI order.
    variables
        Further variables, by host.
    """
    files: dict[str, str] = {}
    head = start.hosts[0]
    for host in start.hosts:
        name = host_file("ray-start", host, ".sh")
        values = {**(visible(gpus[host]) if gpus[host] else ORDER), **(variables or {}).get(host, {})}
        words = ["ray", "start", *(["--head", f"--port={PORT}"] if host == head else [f"--address={head}:{PORT}"])]
        if gpus[host]:
            words.append(f"--num-gpus={len(gpus[host])}")
        where = "this host" if host is None else f"{host}{' (first)' if host == head else ''}"
        lines = [f"{assignments(values)} {command(words)}"]
        if not gpus[host]:
            lines.insert(0, "unset CUDA_VISIBLE_DEVICES    # it needs to see all GPUs of the host")
        files[name] = script(f"bash {name}: starts the Ray node of {where}.", lines)
    return files


def in_order(start: Start, pools: Sequence[Pool]) -> Mapping[str | None, Gpus]:
    """Return the GPUs of each host in the order of *pools*."""
    return {host: start.visible(host, pools) for host in start.hosts}


def pools_by(start: Start, roles: Sequence[str]) -> tuple[Pool, ...]:
    """Return the pools in the order in which a framework creates groups for *roles*."""
    return tuple(dict.fromkeys(start.pool_of(role) for role in roles if role in start.seats))


def long_command(words: Sequence[str], options: Sequence[tuple[str, ...]]) -> str:
    """Return a command with an option and its values on each line; it passes on what its script is given."""
    lines = [command(words), *(command(option) for option in options), '"$@"']
    return " \\\n    ".join(lines)


def options_of(text: str) -> Mapping[str, str]:
    """Return the options of a `long_command`: ``--key value``, ``--key=value``, ``--key`` (empty), ``key=value``."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = shlex.split(line.removesuffix("\\"), comments=True)
        if len(words) in (1, 2) and re.match(r"(--)?[A-Za-z]", words[0]):
            key, is_joined, value = words[0].partition("=")
            found[key.removeprefix("--")] = value if is_joined else "".join(words[1:])
    return found


def visible_of(text: str) -> Gpus:
    """Return the GPUs that a script of `ray_start` makes visible."""
    match = re.search(r"CUDA_VISIBLE_DEVICES=([0-9,]+)", text)
    return tuple(map(int, match[1].split(","))) if match else ()


def dealt(gpus: Gpus, sizes: Sequence[tuple[Sequence[str], int]]) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs where groups of *sizes* take *gpus* one after the other."""
    found: dict[str, tuple[Entry, ...]] = {}
    first = 0
    for roles, size in sizes:
        for role in roles:
            found[role] = gpus[first : first + size]
        first += size
    return found
