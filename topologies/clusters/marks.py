"""
Texts in which several hosts talk, told less surely than launchers do: ``[node0] ``, ``node0> ``, times and a name before each line, or
a heading such as ``### node0`` before each block.

People and logs write these for other things than hosts, too. So a name counts only beside others, and where each has an output from
its beginning, all of one kind.

When to modify: logs or people mark the output of a host in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from topologies.clusters.outputs import BEGINNINGS, are_alike

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"

NO_HOSTS = re.compile(
    r"(?:GPU|NIC|CPU|NPU|PPU|MLU|DCU|Link|Legend|stdout|stderr|srun|slurmstepd|salloc|sbatch|ssh|pdsh|dshbak|clush|bash|sh|zsh|sudo"
    r"|info|note|hint|debug|trace|warning|warn|error|critical|fatal|subject|from|to|date|cc|re|time|timestamp"
    r"|before|after|case|example|machine|matrix|output|run|step|test|try|version|hosts?|host_?names?|slurmd_nodename)[0-9]*|mlx\w*",
    re.IGNORECASE,
)
"""Words before a colon that are labels, tools or levels of a log. With a number some of them are names of hosts, too."""

_DEVICE = re.compile(r"[A-Z]{1,3}PU(?:0|[1-9][0-9]*)|NIC[0-9]+|mlx\w*|[Ll]ink[0-9]*")
"""Labels of devices as tools print them, without leading zeros, which few call a host."""

_USUAL = re.compile(r"(?:gpu|cpu|npu|dgx|hgx|rtx|nv|gb|mi|[Hh]osts?|[Mm]achine)[-_.]?[0-9]{1,5}[a-z]?|[GC]PU-?0[0-9]{1,4}")
"""How many a host is called, though parts of a host and cards are called alike."""

_LEVELS = re.compile(r"info|note|hint|debug|trace|warning|warn|error|critical|fatal|stdout|stderr", re.IGNORECASE)
"""What stands before lines of a log, whoever wrote it."""

_NO_NAME = re.compile(
    r"(?![0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.]))"    # but an address, or what begins with one
    r"(?:[0-9]{4}[-._][0-9]{1,2}[-._][0-9]{1,2}(?:[-_T.][0-9.:_-]{0,20}Z?)?|[0-9]{1,2}[-._][0-9]{1,2}[-._][0-9]{4}"
    r"|[vr]?[0-9]{1,4}\.[0-9]{1,5}(?:\.[0-9]{1,5})?(?:[-+_.][\w.+-]{0,80})?)"
)
"""Dates, and versions of drivers and kernels, which nobody calls a host."""

_NAMED_ALIKE = re.compile(r"[0-9]+")

_PARTS = re.compile(
    r"(?:part|section|chapter|figure|table|attempt|boot|reboot|container|iter|iteration|epoch|round|trial|question|answer|line|cmd|command"
    r"|file|listing|reply|comment|issue|notice|kernel|snapshot|variant|option|setup|phase)[-_. ]?[0-9.]*[a-z]?",
    re.IGNORECASE,
)
"""What parts of a text, and tries of something, are called."""

_NO_HOSTS_HERE = re.compile(
    r"(?:(?:local[-_]?)?(?:rank|default|proc|process|thread|driver|cuda|v|NV|RTX|MI|GB|user)[-_. ]?[0-9.]*[a-z]?"
    r"|A(?:2|10|16|30|40|100|800)|H(?:20|100|200|800)|L(?:4|20|40s?)|P(?:4|40|100)|T4|V100|B(?:100|200|300)g?)",
    re.IGNORECASE,
)
"""Further words: what processes and cards are called."""

_TIME = (
    r"\[?(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"|[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z| ?[+-][0-9:]{4,6})?"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?)\]?"
)
_MARK = re.compile(
    rf"(?P<tabbed>{NAME})\t(?! X|X)|(?:[\w./-]{{0,200}}/)?(?P<file>{NAME}?)\.(?:txt|log|out|csv):(?:[0-9]{{1,6}}:)?"  # of grep -H
    rf"|(?:{_TIME} )?(?:\[(?P<square>{NAME})\](?: (?:out|err):|:)?|<(?P<angle>{NAME})>:?|(?P<marked>{NAME})(?:[>;]| -| [-=]>)(?= |\t|$)"
    r"|\((?:[^()=]{1,80} )?pid=[0-9]{1,9}, ip=(?P<ip>[0-9a-f.:]{3,45})\)) ?"
    rf"|{_TIME} (?P<timed>{NAME})(?:(?: [\w./-]{{1,64}}(?:\[[0-9]{{1,9}}\])?)?:|(?=[ \t]|$)) ?"  # syslog, journalctl
)

_KUBE = r"[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?"
_POD = re.compile(rf"(?P<pod>(?=[a-z.]*[0-9-]){_KUBE}) (?P<container>{_KUBE})(?: |$)")
_POD_EVENT = re.compile(rf"[+-] {_KUBE} (?:\u203a|>) {_KUBE}")
"""What `stern` says where it begins or ends to follow a pod."""

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
    marks = [(str(match[match.lastgroup]), match.end()) if (match := _MARK.match(line)) and match.lastgroup else None for line in lines]
    hosts = _counted(mark[0] for mark in marks if mark is not None)
    said: dict[str, list[str]] = {}
    for line, mark in zip(lines, marks, strict=True):
        if mark is not None and mark[0] in hosts:
            said.setdefault(mark[0], []).append(line[mark[1] :])
        elif BEGINNINGS.search(line):
            return {}, set()
    return _if_alike(said), set()


def by_pod(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """
    Return what each pod says where every line begins with its name and that of its container, as ``stern`` prints them; else as `by_mark`.
    """
    said: dict[str, list[str]] = {}
    containers: dict[str, str] = {}
    for line in lines:
        match = _POD.match(line)
        if match is None and (not line.strip() or _POD_EVENT.fullmatch(line)):
            continue
        if match is None or containers.setdefault(match["pod"], match["container"]) != match["container"]:
            return {}, set()
        said.setdefault(match["pod"], []).append(line[match.end() :])
    return _if_alike(said), set()


def by_heading(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """Return what each host says where a heading names it, as `by_mark` does."""
    names: list[str | None] = []
    for line in lines:
        match = _HEADING.fullmatch(stripped) if 0 < len(stripped := line.strip()) < 400 else None
        names.append(match["name"] or match["square"] or match["summary"] if match is not None else None)
    hosts = _counted(name for name in names if name is not None)
    said: dict[str, list[str]] = {}
    host: str | None = None
    for line, name in zip(lines, names, strict=True):
        if name is not None and name in hosts:
            host = name
            said.setdefault(host, [])
        elif host is not None:
            said[host].append(line)
        elif BEGINNINGS.search(line):
            return {}, set()
    return _if_alike(said), set()


def _counted(names: Iterable[str]) -> set[str]:
    """Return those of *names* that are hosts, or counted like those that are: ``GPU10``, a label elsewhere, beside ``GPU09``."""
    given = set(names)
    shapes = {shape(name) for name in given if is_counted_host(name)}
    return {name for name in given if shape(name) in shapes and not is_no_name(name)}


def is_no_name(name: str) -> bool:
    """Whether *name* is a date or a version, which no host is called."""
    return _NO_NAME.fullmatch(name) is not None


def is_level(name: str) -> bool:
    """Whether *name* is a level of a log."""
    return _LEVELS.fullmatch(name) is not None


def is_device(name: str) -> bool:
    """Whether *name* is the label of a device as tools print it."""
    return _DEVICE.fullmatch(name) is not None


def is_part(name: str) -> bool:
    """Whether *name* is what parts of a text or tries of something are called, a date or a version: no host, whoever names it."""
    return _PARTS.fullmatch(name) is not None or is_no_name(name)


def may_be_host(name: str) -> bool:
    """Whether *name* may be that of a host where something else says that it is one: ``gpu01``, ``step1``, but not ``GPU0``, ``error``."""
    is_word = NO_HOSTS.fullmatch(name) is None or (any(map(str.isdigit, name)) and not is_device(name))
    return is_word and not is_no_name(name)


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
        and not is_part(name)
        and (any(letter.isalpha() for letter in name) or name.count(".") == 3 or ":" in name)
    )


def _if_alike(said: Mapping[str, list[str]]) -> dict[str, str]:
    """Return what hosts have *said*, unless fewer than two tell of GPUs, or one has no output of a kind that all have."""
    texts = {host: "\n".join(found) + "\n" for host, found in said.items()}
    return texts if are_alike(texts.values()) else {}
