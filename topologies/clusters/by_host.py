"""
Texts in which several hosts talk: each line says who (``pdsh``, ``clush``, ``srun -l``, logs of containers), or a line before each
block does (``clush -b``, ``dshbak -c``, ``ansible``, ``head node*.txt``, prompts).

When to modify: another tool that runs a command on many hosts marks their output in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from topologies.clusters.marks import NAME, NO_HOSTS, by_heading, by_mark
from topologies.errors import TopologyError
from topologies.networks.hosts import MOST_HOSTS, MOST_NAMES, expand, natural

_PREFIX = re.compile(
    rf"(?:pdsh@{NAME}|clush|dsh|srun: error): (?P<told>{NAME}(?:\[[0-9,-]{{1,1000}}\])?)(?: \([0-9]{{1,6}}\))?: "  # that a host failed
    rf"|(?P<pdsh>{NAME}): (?=\S|[ \t]|$)|(?P<bare>{NAME}):(?=\t|$)"
    r"|[ ]{1,8}(?P<srun>[0-9]{1,6}): "  # padded numbers of tasks
    rf"|(?P<compose>{NAME}) {{1,64}}\| ?(?!(?:CHANGED|SUCCESS|FAILED|UNREACHABLE)\b)"
    rf"|\[pod/(?P<pod>{NAME})(?:/{NAME})?\] ?"
    r"|\[[0-9]{1,6},(?P<rank>[0-9]{1,6})\]<std(?:out|err)>: ?"  # mpirun --tag-output
    r"|\([^()=]{1,80} pid=[0-9]{1,9}, ip=(?P<ip>[0-9a-f.:]{3,45})\) ?"  # a Ray driver
)

_HEADER = re.compile(
    rf"(?P<rule>-{{2,200}}|={{2,200}}|\*{{2,200}}) ?(?P<ruled>(?=[^ ]*[0-9.]){NAME})(?: ?(?P=rule))?"
    r"|==> (?P<path>[^<>]{1,400}) <=="  # head, tail
    rf"|(?P<ansible>{NAME}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE!?)(?: \| rc=-?[0-9]{{1,4}} >>| => \{{)?"
    rf"|\[[0-9]{{1,6}}\] [0-9:]{{5,12}} \[(?:SUCCESS|FAILURE)\] (?P<pssh>{NAME})(?: .*)?"
    rf"|\[?\w[\w.-]{{0,40}}@(?P<prompt>{NAME})(?::[^$#]{{0,200}}| [^$#\]]{{0,200}}\])?[$#]( .*)?"
)
_LAUNCHER = re.compile(rf"{NAME} \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE)|\[[0-9]{{1,6}}\] [0-9:]{{5,12}} \[(?:SUCCESS|FAILURE)\]")
"""Headers that only a launcher writes."""

_LINE = re.compile(r"-{4,}")
_LISTED = re.compile(r"(?P<names>[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,4000})(?: \([0-9]{1,6}\))?")

_TELLS = re.compile(
    r"\b[A-Z]?PU ?\[?[0-9]|<nvidia_smi_log|<system\b|\b(?:index|name|uuid), ?\w|NVIDIA Corporation|placement/topology/v1"
    r"|NVIDIA-SMI [0-9]|MiB ?/ |gpuId [0-9]|[0-9], ?(?:NVIDIA|Tesla|GeForce|Quadro|AMD|GPU-)|process_name"
)
"""What an output about GPUs has."""

_FAILED = re.compile(
    r"nvidia-smi|rocm-smi|NVML|\bdriver\b|not found|No devices|denied|refused|timed out|rc=[1-9-]|\bexit|\bclosed\b|\bkilled\b|\bfail"
    r"|\berror\b|unreachable|unable|no route|could not|cannot|resolve",
    re.IGNORECASE,
)
"""What a host says that has none."""

_STATED = re.compile(
    r"^[ \t]*(?:export |declare -x )?(?:(?:host|host ?name|node ?name|SLURMD_NODENAME)"
    rf"[ \t]{{0,8}}[:=][ \t]{{0,8}}\"?({NAME})\"?"
    rf"|\[?\w[\w.-]{{0,40}}@({NAME})(?::[^$#\n]{{0,200}}| [^$#\]\n]{{0,200}}\])?[$#](?: .*)?)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_NOBODY = frozenset({"localhost", "none", "unknown", "null"})

_MOST_LINES = 2**18
"""Longest text that is looked at; matrices of `MOST_HOSTS` hosts have less."""

_MOST_JOINED = 2**26
"""Most characters of hosts with several blocks, together: a block may stand for many hosts, and would be copied for each."""

_WORDS_FOR_OUTPUTS = re.compile(
    r"(?:nvidia[-_]?smi|rocm[-_]?smi|nccl|gpu|smi)?[-_]?(?:topo(?:logy)?|gpus?|query|lspci|nvlink|p2p|xml|q|l|list|m|mp|c|smi|matrix"
    r"|memory|pci|pcie|dcgm|dcgmi|nccl|rocm|info|status|out|output|stdout|log|graph|system)?(?:[-_](?:m|mp|q|x|l|s|c|p2p|tv|vv))*",
    re.IGNORECASE,
)


def host_of_path(path: PurePath) -> str:
    """Return the host that a file is about: its stem up to the first dot, or its folder where the stem only says what output it is."""
    stem = path.name.partition(".")[0] or path.name
    return path.parent.name if _WORDS_FOR_OUTPUTS.fullmatch(stem) and path.parent.name else stem


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
    if not _TELLS.search(text) or text.count("\n") > _MOST_LINES:
        return {}
    lines = text.replace("\r\n", "\n").split("\n")
    for read in (_by_prefix, _by_header, by_mark, by_heading):
        said, certain = read(lines)
        telling = {host for host, found in said.items() if _TELLS.search(found)}
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


def tells_of_gpus(text: str) -> bool:
    """Whether *text* has a word that outputs about GPUs have."""
    return _TELLS.search(text) is not None


def stated_host(text: str) -> str | None:
    """Return the host that an output says it comes from: ``hostname: node3``, ``SLURMD_NODENAME=node3``, or a prompt."""
    for match in _STATED.finditer(text):
        name = str(match[1] or match[2])
        if not NO_HOSTS.fullmatch(name) and name not in _NOBODY:
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
    return first if re.fullmatch(rf"(?=[^.]*[0-9-]){NAME}", first) and not first.isdecimal() and not NO_HOSTS.fullmatch(first) else None


def _by_prefix(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """
    Return what each host says where the lines name it, and which are named as launchers do; nothing where most of what tells of GPUs
    stands in other lines.
    """
    said: dict[str, list[str]] = {}
    certain: set[str] = set()
    told: list[tuple[str, str]] = []
    others = named = 0
    for line in lines:
        match = _PREFIX.match(line)
        host = match[match.lastgroup] if match is not None and match.lastgroup else None
        if match is not None and match["told"]:
            told.append((match["told"], line[match.end() :]))
        elif match is None or host is None or NO_HOSTS.fullmatch(host):
            others += _TELLS.search(line) is not None
        else:
            said.setdefault(host, []).append(line[match.end() :])
            if match["pdsh"] or match["bare"] or match["srun"]:
                certain.add(host)
            named += _TELLS.search(line, match.end()) is not None
    if others > named:
        return {}, set()
    if not all(host.isdecimal() for host in said):  # else the lines of tasks have numbers, and a name would be one host more
        _add_failures(said, certain, told)
    return {host: "\n".join(found) + "\n" for host, found in said.items()}, certain


def _add_failures(said: dict[str, list[str]], certain: set[str], told: list[tuple[str, str]]) -> None:
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


def _by_header(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """
    Return what each host says where a line before each block names it, and which are named as launchers do; nothing where a block before
    them tells of GPUs.
    """
    certain: set[str] = set()
    said: dict[tuple[str, ...], list[str]] = {}
    hosts: tuple[str, ...] = ()
    known: dict[str, tuple[str, ...]] = {}
    left = MOST_NAMES
    for number, line in enumerate(lines):
        named = _named(lines, number, known)
        if named:
            hosts = known.setdefault(line, named)
            left -= len(hosts) if hosts is named else 0
            if left < 0:
                return {}, set()
            if hosts is named and _LAUNCHER.match(line.strip()):
                certain.update(hosts)
            elif hosts is named and _LINE.fullmatch(lines[number - 1].strip()):
                certain.update(host for host in hosts if not _is_plain(host))
        # How a command ended stands in some headers, and is all that a host says that has failed.
        said.setdefault(hosts, []).append(line if not named or "rc=" in line or "UNREACHABLE" in line else "")
    if _TELLS.search("\n".join(said.pop((), []))):
        return {}, set()
    texts: dict[str, list[str]] = {}
    for names, found in said.items():
        block = "\n".join(found) + "\n"
        for host in names:
            texts.setdefault(host, []).append(block)
    if sum(len(block) for blocks in texts.values() if len(blocks) > 1 for block in blocks) > _MOST_JOINED:
        raise TopologyError("the outputs of many hosts stand here several times: give one of each")
    return {host: "".join(blocks) for host, blocks in texts.items()}, certain


def _named(lines: list[str], number: int, known: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the hosts that line *number* announces; *known* are those of lines that were seen."""
    line = lines[number].strip()
    if len(line) > 4096 or not line:
        return ()
    if lines[number] in known:
        return known[lines[number]]
    if 0 < number < len(lines) - 1 and _LINE.fullmatch(lines[number - 1].strip()) and _LINE.fullmatch(lines[number + 1].strip()):
        listed = _LISTED.fullmatch(line)
        if listed is not None:
            return expand(listed["names"])[:MOST_HOSTS]
    match = _HEADER.fullmatch(line)
    if match is None:
        return ()
    if match["path"]:
        return (host_of_path(PurePath(match["path"])),)
    host = match["ruled"] or match["ansible"] or match["pssh"] or match["prompt"]
    return () if NO_HOSTS.fullmatch(host) else (host,)
