"""
Texts in which several hosts talk, told less surely than launchers do: ``[node0] ``, ``node0> ``, times and a name before each line, or
a heading such as ``### node0`` before each block.

People and logs write these for other things than hosts, too. So a name counts only beside others, and where each has an output from
its beginning, all of one kind.

When to modify: logs or people mark the output of a host in another way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from topologies.clusters.outputs import BEGINNINGS, are_alike

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"

NO_HOSTS = re.compile(
    r"(?:GPU|NIC|CPU|NPU|PPU|MLU|DCU|Link|Legend|stdout|stderr|srun|slurmstepd|salloc|sbatch|ssh|pdsh|dshbak|clush|bash|sh|zsh|sudo"
    r"|info|note|hint|debug|trace|warning|warn|error|critical|fatal|subject|from|to|date|cc|re|time|timestamp"
    r"|before|after|case|example|machine|matrix|output|run|step|test|try|version|hosts?|host_?names?|slurmd_nodename)[0-9]*|mlx\w*",
    re.IGNORECASE,
)
"""Words before a colon that are labels, tools or levels of a log. With a number some of them are names of hosts, too."""

_DEVICE = re.compile(r"[A-Z]{1,3}PU[0-9]+|NIC[0-9]+|mlx\w*|[Ll]ink[0-9]*")
"""Labels of devices as tools print them, which nobody calls a host."""

_USUAL = re.compile(r"(?:gpu|cpu|npu|dgx|hgx|rtx|nv|gb|mi|[Hh]osts?|[Mm]achine)[-_.]?[0-9]{1,5}[a-z]?")
"""How many a host is called, though parts of a host and cards are called alike."""

_NAMED_ALIKE = re.compile(r"[0-9]+")

_NO_HOSTS_HERE = re.compile(
    r"(?:local[-_]?)?(?:rank|default|proc|process|thread|part|section|chapter|figure|table|attempt|question|answer|driver|cuda|v|line"
    r"|cmd|command|file|listing|reply|comment|issue|iteration|epoch|[ABHLTVP](?=[0-9]{1,3}[a-z]?$)|NV|RTX|MI|GB|DGX|HGX|user|notice)"
    r"[-_. ]?[0-9.]*[a-z]?",
    re.IGNORECASE,
)
"""Further words: what processes, parts of a text and cards are called."""

_TIME = (
    r"\[?(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"|[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z| ?[+-][0-9:]{4,6})?"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?)\]?"
)
_MARK = re.compile(
    rf"(?P<tabbed>{NAME})\t(?! X|X)|(?:[\w./-]{{0,200}}/)?(?P<file>{NAME}?)\.(?:txt|log|out|csv):(?:[0-9]{{1,6}}:)?"  # of grep -H
    rf"|(?:{_TIME} )?(?:\[(?P<square>{NAME})\]:?|<(?P<angle>{NAME})>:?|(?P<marked>{NAME})(?:[>;]| -)(?= |\t|$)"
    r"|\((?:[^()=]{1,80} )?pid=[0-9]{1,9}, ip=(?P<ip>[0-9a-f.:]{3,45})\)) ?"
    rf"|{_TIME} (?P<timed>{NAME})(?:(?: [\w./-]{{1,64}}(?:\[[0-9]{{1,9}}\])?)?:|(?=[ \t]|$)) ?"  # syslog, journalctl
)

_HEADING = re.compile(
    r"(?:#{1,80} ?|>{1,3} ?(?:ssh )?|[0-9]{1,3}[.)] |[*+-] |\+-{1,80} )?(?:(?:on|from|(?:outputs?|results?) (?:from|of|on|for)) )?"
    r"(?:(?:host|hostname|node|server|machine|file)(?: ?[:=] ?| ))?"
    rf"(?P<quote>[`*\"]{{0,3}})(?P<name>(?=[^ ]*[0-9]){NAME}?)(?:\.(?:txt|log|out))?(?:(?P=quote) ?:?|:(?P=quote))"
    r"(?: ?#{1,80}| ?<{1,3}| -{1,80}\+)?"
    rf"|\[(?P<square>(?=[^ ]*[0-9]){NAME})\]:?"
    rf"|(?:<details[^<>]{{0,80}}>)?<summary>(?:<\w{{1,10}}>)?(?P<summary>(?=[^ ]*[0-9]){NAME}):?(?:</\w{{1,10}}>)?</summary>",
    re.IGNORECASE,
)
"""A line that may name a host above what it says."""

_INNER_BEGINNINGS = re.compile(
    r"(?P<matrix>GPU0\b[ \t|]*X\b)|(?P<table>\|? ?NVIDIA-SMI [0-9])|(?P<xml><nvidia_smi_log)|(?P<nccl><system\b)|(?P<rocm>GPU\[0\])"
    r"|(?P<query>\bGPU [0-9A-F]{8}:)|(?P<pci>\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9])"
    r"|(?P<affinity>The GPUs that have an)|(?P<amd>\b(?:ACCESS|WEIGHT|HOPS|LINK TYPE) TABLE\b)"
    r"|(?P<tree>(?<![\w+\\-])-(?:\+-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-)"
)
"""Where an output begins behind whatever stands before it."""

_LONGEST_PREFIX = 100
_MOST_PREFIXES = 64
_MOST_LINES = 2**18


def prefixes_of_outputs(text: str) -> list[str]:
    """
    Return the prefixes in *text* before which whole outputs of one kind stand: several, or none.

    One that only stands before a single line, such as a number of a line, is none, and times are no difference.
    """
    found: dict[str, dict[str, str]] = {}
    if text.count("\n") > _MOST_LINES:
        return []
    lines = text.split("\n")
    for line in lines:
        match = _INNER_BEGINNINGS.search(line, 0, 2 * _LONGEST_PREFIX)
        if match is not None and match.lastgroup is not None and 0 < match.start() <= _LONGEST_PREFIX:
            prefix = line[: match.start()].rstrip("| \t")
            bare = re.sub(_TIME, "", prefix).strip()
            if bare:
                found.setdefault(match.lastgroup, {}).setdefault(bare, prefix)
    for prefixes in found.values():
        if 1 < len(prefixes) <= _MOST_PREFIXES:
            shown = [prefix for prefix in prefixes.values() if sum(line.startswith(prefix) for line in lines) > 1]
            if len(shown) > 1:
                return shown
    return []


def by_mark(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """
    Return what each host says where a mark before the lines names it, and which are certain: none; nothing unless each of several says
    an output of one kind.
    """
    said: dict[str, list[str]] = {}
    for line in lines:
        match = _MARK.match(line)
        host = match[match.lastgroup] if match is not None and match.lastgroup else None
        if match is not None and host is not None and is_counted_host(host):
            said.setdefault(host, []).append(line[match.end() :])
        elif BEGINNINGS.search(line):
            return {}, set()
    return _if_alike(said), set()


def by_heading(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """Return what each host says where a heading names it, as `by_mark` does."""
    said: dict[str, list[str]] = {}
    host: str | None = None
    for line in lines:
        stripped = line.strip()
        match = _HEADING.fullmatch(stripped) if 0 < len(stripped) < 400 else None
        name = match["name"] or match["square"] or match["summary"] if match is not None else None
        if name is not None and is_counted_host(name):
            host = name
            said.setdefault(host, [])
        elif host is not None:
            said[host].append(line)
        elif BEGINNINGS.search(line):
            return {}, set()
    return _if_alike(said), set()


def may_be_host(name: str) -> bool:
    """Whether *name* may be that of a host where something else says that it is one: ``gpu01``, ``step1``, but not ``GPU0``, ``error``."""
    return NO_HOSTS.fullmatch(name) is None or (any(map(str.isdigit, name)) and _DEVICE.fullmatch(name) is None)


def is_host(name: str) -> bool:
    """Whether *name* is that of a host where little says so: no label, no level of a log."""
    return NO_HOSTS.fullmatch(name) is None or _USUAL.fullmatch(name) is not None


def shape(name: str) -> str:
    """Return what is alike in the names of hosts that are counted: ``gpu01`` and ``gpu12``."""
    return _NAMED_ALIKE.sub("#", name)


def is_counted_host(name: str) -> bool:
    """Whether *name* is that of a host among others that are named in the same way."""
    return _USUAL.fullmatch(name) is not None or (
        NO_HOSTS.fullmatch(name.rstrip("0123456789-_.")) is None
        and NO_HOSTS.fullmatch(name) is None
        and _NO_HOSTS_HERE.fullmatch(name) is None
        and (any(letter.isalpha() for letter in name) or name.count(".") == 3 or ":" in name)
    )


def _if_alike(said: Mapping[str, list[str]]) -> dict[str, str]:
    """Return what hosts have *said*, unless fewer than two tell of GPUs, or one has no output of a kind that all have."""
    texts = {host: "\n".join(found) + "\n" for host, found in said.items()}
    return texts if are_alike(texts.values()) else {}
