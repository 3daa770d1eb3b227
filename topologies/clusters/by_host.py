"""
Texts in which several hosts talk: each line says who (``pdsh``, ``clush``, ``srun -l``, logs of containers), or a line before each
block does (``clush -b``, ``dshbak -c``, ``ansible``, ``head node*.txt``, prompts).

When to modify: another tool that runs a command on many hosts marks their output in its own way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from topologies.clusters.commands import PROMPT
from topologies.clusters.headers import (
    LAUNCHER,
    RULE,
    count_pods,
    is_command,
    is_launcher,
    is_of_launcher,
    is_title,
    named,
    styles_of_titles,
)
from topologies.clusters.marks import NAME, by_heading, by_mark, by_pod, may_be_host, shape
from topologies.clusters.outputs import TELLS, kinds_of
from topologies.clusters.paths import ADDRESS, says_which_output
from topologies.clusters.prefixed import PREFIX, add_failures, by_prefix
from topologies.clusters.recorded import as_blocks
from topologies.errors import TopologyError
from topologies.networks.hosts import MOST_HOSTS, MOST_NAMES, natural

_FAILED = re.compile(
    r"nvidia-smi|rocm-smi|NVML|\bdriver\b|not found|No devices|denied|refused|timed out|rc=[1-9-]|\bexit|\bclosed\b|\bkilled\b|\bfail"
    r"|\berror\b|unreachable|unable|no route|could not|cannot|resolve",
    re.IGNORECASE,
)
"""What a host says that has none."""

_STATED = re.compile(
    r"^[ \t]*(?:export |declare -x )?(?:(?:host|host ?name|node ?name|SLURMD_NODENAME)"
    rf"[ \t]{{0,8}}[:=][ \t]{{0,8}}\"?(?P<stated>{NAME})\"?"
    rf"|{PROMPT})[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_NOBODY = frozenset({"localhost", "none", "unknown", "null"})

_MOST_LINES = 2**18
"""Longest text that is looked at; matrices of `MOST_HOSTS` hosts have less."""

_MOST_JOINED = 2**26
"""Most characters of hosts with several blocks, together: a block may stand for many hosts, and would be copied for each."""


def by_host(text: str, *, is_collecting: bool = False) -> Mapping[str, str]:
    """
    Return what each host says in *text*, hosts in natural order; empty unless two hosts at least tell of GPUs.

    Hosts that say something else are there, too: what they say cannot be read, and whoever reads it names them.

    Parameters
    ----------
    is_collecting
        The text is one of hosts for certain: a lone host counts, too, where every line or the line before its block names it.

    Raises
    ------
    TopologyError
        If there are more hosts than any machine has, or tasks of one host.
    """
    if text.count("\n") > _MOST_LINES:
        return {}
    text = as_blocks(text) or text
    if not TELLS.search(text):
        return {}
    lines = text.replace("\r\n", "\n").split("\n")
    for read in (by_prefix, _by_header, by_mark, by_pod, by_heading):
        said, certain = read(lines)
        telling = {host for host, found in said.items() if TELLS.search(found)}
        if len(telling) > MOST_HOSTS:
            raise TopologyError(f"{len(telling):,} hosts talk in this text; at most {MOST_HOSTS:,} are read")
        if len(telling) > 1 or (is_collecting and telling and telling <= certain):
            are_plain = any(_is_plain(host) for host in telling)
            hosts = [
                host
                for host, found in said.items()
                if host in telling
                or _FAILED.search(found)
                or (host in certain and found.strip() and (are_plain or not _is_plain(host)))
            ]
            return _named_tasks({host: said[host] for host in sorted(hosts, key=natural)}, is_collecting=is_collecting)
    return {}


def stated_host(text: str) -> str | None:
    """Return the host that an output says it comes from: ``hostname: node3``, ``SLURMD_NODENAME=node3``, or a prompt."""
    for match in _STATED.finditer(text):
        name = str(match["stated"] or match["prompt"] or match["plain"])
        if may_be_host(name) and name not in _NOBODY:
            return name
    return None


def _is_plain(host: str) -> bool:
    """Whether *host* is a word such as a label: without a number, dot or dash."""
    return host.isalpha()


def _named_tasks(said: dict[str, str], *, is_collecting: bool) -> dict[str, str]:
    """Return *said* with the names of hosts in place of the numbers of tasks, where each task tells its own; else as it is."""
    if not all(host.isdecimal() for host in said):
        return said
    names = {task: stated_host(text) or _first_word(text) for task, text in said.items()}
    if None in names.values():
        # A lone number is nobody's name: what is read is called after its file.
        return {} if is_collecting and len(said) == 1 else said
    of_name: dict[str, str] = {}
    for task, name in names.items():
        if (other := of_name.setdefault(str(name), task)) != task:
            raise TopologyError(f"tasks {other} and {task} ran on the same host, {name}: run one a host (srun --ntasks-per-node=1)")
    return {name: said[task] for name, task in sorted(of_name.items(), key=lambda entry: natural(entry[0]))}


def _first_word(text: str) -> str | None:
    """Return the name of a host that stands alone in the first line, as ``hostname`` prints it."""
    first = text.lstrip().partition("\n")[0].strip()
    return first if re.fullmatch(rf"(?=[^.]*[0-9-]){NAME}", first) and not first.isdecimal() and may_be_host(first) else None


def _by_header(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """
    Return what each host says where a line before each block names it, and which are named as launchers do; nothing where a block before
    them tells of GPUs.
    """
    certain: set[str] = set()
    titles: set[str] = set()
    said: dict[tuple[str, ...], list[str]] = {}
    hosts: tuple[str, ...] = ()
    known: dict[str, tuple[str, ...]] = {}
    told: list[tuple[str, str]] = []
    left = MOST_NAMES
    are_pods, no_hosts = count_pods(lines) > 1, styles_of_titles(lines)
    is_sure = False    # a launcher says whose block it is, whatever is run in it
    for number, line in enumerate(lines):
        found = named(lines, number, known, are_pods=are_pods, titles=no_hosts)
        if found:
            says_launcher = is_of_launcher(lines, number)
            if is_sure and not says_launcher and is_command(line):
                said[hosts].append("")
                continue
            is_sure = says_launcher
            hosts = known.setdefault(line, found)
            left -= len(hosts) if hosts is found else 0
            if left < 0:
                return {}, set()
            if hosts is found:
                titles.update(host for host in hosts if is_title(lines, number, host))
            if hosts is found and LAUNCHER.match(line.strip()):
                certain.update(hosts)
            elif hosts is found and RULE.fullmatch(lines[number - 1].strip()):
                certain.update(host for host in hosts if not _is_plain(host))
        if not found and (failure := _failure(line, hosts)) is not None:
            told.append(failure)
            continue
        # How a command ended stands in some headers, and is all that a host says that has failed.
        said.setdefault(hosts, []).append(line if not found or "rc=" in line or "UNREACHABLE" in line else "")
    if TELLS.search("\n".join(said.pop((), []))):
        return {}, set()
    texts: dict[str, list[str]] = {}
    for names, block_lines in said.items():
        if is_launcher(names):
            continue
        block = "\n".join(block_lines) + "\n"
        for host in names:
            texts.setdefault(host, []).append(block)
    if sum(len(block) for blocks in texts.values() if len(blocks) > 1 for block in blocks) > _MOST_JOINED:
        raise TopologyError("the outputs of many hosts stand here several times: give one of each")
    _join_names(texts, certain)
    if titles & texts.keys() and _are_of_one(texts):
        return {}, set()
    if texts:
        add_failures(texts, certain, told)
    return {host: "".join(blocks) for host, blocks in texts.items()}, certain


def _join_names(texts: dict[str, list[str]], certain: set[str]) -> None:
    """Join what stands in *texts* under several names of a host: with its domain, in capitals, or by its address unless that is certain."""
    for host in [host for host in texts if not host.replace(".", "").isdecimal()]:
        if (short := host.partition(".")[0]) != host and short in texts:
            texts[short] += texts.pop(host)
        elif (small := host.lower()) != host and small in texts:
            texts[small] += texts.pop(host)
    if len(texts) == 2:
        address, name = sorted(texts, key=lambda host: ADDRESS.fullmatch(host) is None)
        kinds = [kinds_of("".join(blocks)) for blocks in texts.values()]
        is_other = not ADDRESS.fullmatch(address) or ADDRESS.fullmatch(name) or not all(kinds) or kinds[0] & kinds[1]
        if not is_other and not certain & {address, name}:
            texts[name] += texts.pop(address)


def _are_of_one(texts: Mapping[str, list[str]]) -> bool:
    """Whether *texts*, some of which stand under what may be titles, are outputs of one machine: no two are of a kind."""
    telling = {host: text for host, blocks in texts.items() if TELLS.search(text := "".join(blocks))}
    kinds = {host: kinds_of(text) for host, text in telling.items()}
    counted = [host for host in telling if any(map(str.isdigit, host))]
    if any(shape(a) == shape(b) and kinds[a] & kinds[b] for a, b in itertools.pairwise(sorted(counted, key=shape))):
        return False    # whatever word is counted
    words = [*filter(says_which_output, telling)]
    if words and all(host in words or len(host) == 1 for host in telling):
        return True
    return len(kinds) > 1 and all(kinds.values()) and not any(a & b for a, b in itertools.combinations(kinds.values(), 2))


def _failure(line: str, hosts: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the host that failed and the reason, if *line* of the block of *hosts* says so: a launcher's, or one before all blocks."""
    match = PREFIX.match(line)
    if match is None or (host := match["told"] or match["pdsh"]) is None:
        return None
    reason = line[match.end() :]
    is_said = match["told"] or ((not hosts or is_launcher(hosts)) and may_be_host(host) and _FAILED.search(reason))
    return (host, reason + "\n") if is_said else None
