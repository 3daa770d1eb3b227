"""
Texts in which each line begins with the host that says it, as launchers write them: ``pdsh``, ``clush``, ``srun -l``, ``mpirun``,
logs of containers and pods.

When to modify: another launcher marks the lines of a host in its own way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from topologies.clusters.marks import NAME, is_device, is_host, is_level, may_be_host, shape
from topologies.clusters.outputs import TELLS, begins_output, kinds_of
from topologies.networks.hosts import MOST_NAMES, expand

_NO_FILE = r"(?<!\.(?:txt|log|out|csv))"
"""Names of files stand before a colon where `grep -H` prints what is in them."""

PREFIX = re.compile(
    rf"(?:pdsh@{NAME}|clush|dsh|srun: error): (?P<told>{NAME}(?:\[[0-9,-]{{1,1000}}\])?)(?: \([0-9]{{1,6}}\))?: "  # that a host failed
    rf"|(?P<pdsh>{NAME}){_NO_FILE}: (?=\S|[ \t]|$)|(?P<bare>{NAME}){_NO_FILE}:(?=\t|$)"
    r"|[ ]{1,8}(?P<srun>[0-9]{1,6}): "  # padded numbers of tasks
    rf"|(?P<compose>{NAME}) {{1,64}}\| ?(?!(?:CHANGED|SUCCESS|FAILED|UNREACHABLE)\b)"
    rf"|\[pod/(?P<pod>{NAME})(?:/{NAME})?\] ?"
    r"|\[[0-9]{1,6},(?P<rank>[0-9]{1,6})\]<std(?:out|err)>:"  # mpirun --tag-output
    r"|\([^()=]{1,80} pid=[0-9]{1,9}, ip=(?P<ip>[0-9a-f.:]{3,45})\) ?"  # a Ray driver
)

_OF_ONE_GPU = frozenset({"pci", "query"})
"""Kinds of outputs that scripts print GPU by GPU, each behind its label."""


def by_prefix(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """
    Return what each host says where the lines name it, and which are named as launchers do; nothing where most of what tells of GPUs
    stands in other lines.
    """
    said: dict[str, list[str]] = {}
    unsure: dict[str, list[str]] = {}    # behind words that are labels elsewhere
    labels: dict[str, list[str]] = {}    # behind words that mostly are
    certain: set[str] = set()
    told: list[tuple[str, str]] = []
    ranks: set[str] = set()
    others = named = 0
    for line in lines:
        match = PREFIX.match(line)
        host = match[match.lastgroup] if match is not None and match.lastgroup else None
        if match is not None and match["told"]:
            told.append((match["told"], line[match.end() :]))
        elif match is None or host is None:
            others += TELLS.search(line) is not None
        else:
            of_word = labels if not may_be_host(host) else said if is_host(host) else unsure
            of_word.setdefault(host, []).append(line[match.end() :])
            if match["pdsh"] or match["bare"] or match["srun"]:
                certain.add(host)
            named += TELLS.search(line, match.end()) is not None
            if match["rank"]:
                ranks.add(host)
    _strip_blanks([said[rank] for rank in ranks])
    hosts = _proven(unsure)
    said |= {host: unsure[host] for host in hosts}
    lost = sum(TELLS.search(line) is not None for host, found in unsure.items() if host not in hosts for line in found)
    certain -= unsure.keys() - hosts
    hosts = _called_alike(labels, said)
    if any(map(is_level, hosts)):
        return {}, set()
    said |= {host: labels[host] for host in hosts}
    lost += sum(TELLS.search(line) is not None for host, found in labels.items() if host not in hosts for line in found)
    certain -= labels.keys() - hosts
    if others + lost > named - lost:
        return {}, set()
    if not all(host.isdecimal() for host in said):  # else the lines of tasks have numbers, and a name would be one host more
        add_failures(said, certain, told)
    return {host: "\n".join(found) + "\n" for host, found in said.items()}, certain


def _strip_blanks(outputs: Sequence[list[str]]) -> None:
    """Take a blank from the beginning of all lines of *outputs* if all have one: else it is the first of those that draw a tree."""
    if all(line.startswith(" ") for output in outputs for line in output if line.strip()):
        for output in outputs:
            output[:] = [line[1:] for line in output]


def _proven(unsure: Mapping[str, list[str]]) -> set[str]:
    """Return those of *unsure* names that are hosts: a whole output stands behind them, or behind others that are counted like them."""
    whole = {shape(host) for host, found in unsure.items() if _is_whole(found)}
    return {host for host in unsure if shape(host) in whole}


def _called_alike(labels: Mapping[str, list[str]], said: Mapping[str, list[str]]) -> set[str]:
    """
    Return those of *labels* that are hosts all the same: a whole output stands behind each, and behind another host, or they are counted.

    Hosts may be called ``gpu`` and ``gpu2``, or ``GPU1`` and ``GPU2``.
    """
    counted = set(map(shape, said))
    whole = [
        host
        for host, found in labels.items()
        if _is_whole(found) and (not is_device(host) or shape(host) in counted or kinds_of("\n".join(found)) - _OF_ONE_GPU)
    ]
    if not whole:
        return set()
    if any(map(_is_whole, said.values())):
        return set(whole)
    shapes = Counter(map(shape, whole))
    return {host for host in whole if shapes[shape(host)] > 1}


def _is_whole(found: Sequence[str]) -> bool:
    """Whether the lines *found* behind a name have an output from its beginning."""
    return len(found) > 2 and begins_output("\n".join(found))


def add_failures(said: dict[str, list[str]], certain: set[str], told: list[tuple[str, str]]) -> None:
    """Add what a launcher *told* of hosts that failed, unless they tell of GPUs all the same."""
    left = MOST_NAMES
    for listed, reason in told:
        names = expand(listed) if "[" in listed else (listed,)
        left -= len(names)
        if left < 0:
            return
        for host in names:
            said.setdefault(host, []).append(reason)
            certain.add(host)
