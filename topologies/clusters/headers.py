"""
Lines that announce what a host says: those of launchers (``clush -b``, ``dshbak``, ``ansible``, ``pssh``, ``head``), prompts, and
commands that run another one elsewhere (``ssh node0 …``).

When to modify: another tool names the host before its output.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath

from topologies.clusters.commands import ELSEWHERE, EXEC, PROMPT, SSH, TRACE
from topologies.clusters.marks import NAME, is_counted_host, is_no_name, is_part, may_be_host
from topologies.clusters.paths import ADDRESS, OUTPUT_FILE, host_of_path, says_which_output
from topologies.networks.hosts import MOST_HOSTS, expand

_CONTAINER = re.compile(r"[0-9a-f]{12}")
"""What a container is called unless somebody names it."""

_HEADER = re.compile(
    rf"(?P<rule>-{{2,200}}|={{2,200}}|\*{{2,200}}) ?(?P<ruled>(?=[^ ]*[0-9.]){NAME})(?: ?(?P=rule))?"
    r"|==> (?P<path>[^<>]{1,400}) <=="  # head, tail
    rf"|(?P<ansible>{NAME}) \| (?:CHANGED|SUCCESS|FAILED!?|UNREACHABLE!?)(?: \| rc=-?[0-9]{{1,4}} >>| => \{{)?"
    rf"|\[[0-9]{{1,6}}\] [0-9:]{{5,12}} \[(?:SUCCESS|FAILURE)\] (?P<pssh>{NAME})(?: .*)?"
    rf"|(?:[^$#%>]{{0,200}}[$#%>] ?|{TRACE})?(?:sudo )?"
    rf"(?:{SSH} (?:\w[\w.-]{{0,40}}@)?(?P<remote>{NAME})|{EXEC} (?P<pod>{NAME})|{ELSEWHERE})"
    r"(?: -c \S{1,80})?(?: --)? "
    r"(?:\S{1,80} ){0,16}['\"]?(?:/\S{0,80})?(?:nvidia-smi|rocm-smi|amd-smi|dcgmi|lspci)\b.{0,400}"
    rf"|{PROMPT}"
)
_LONGEST_HEADER = 4096

_COMMANDS = ("remote", "pod", "typed", "task", "node", "prompt", "plain")
_NAMES = ("ruled", "ansible", "pssh", *_COMMANDS)

LAUNCHER = re.compile(rf"{NAME} \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE)|\[[0-9]{{1,6}}\] [0-9:]{{5,12}} \[(?:SUCCESS|FAILURE)\]")
"""Headers that only a launcher writes."""

RULE = re.compile(r"-{4,}|:{14}")
"""What stands above and below a name, as `clush -b` and `dshbak` write it, and above and below that of a file, as `more` does."""

_LISTED = re.compile(r"(?P<names>(?:pdsh@)?[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,4000})(?: \([0-9]{1,6}\))?")


def count_pods(lines: Sequence[str]) -> int:
    """Return in how many pods commands were run; one alone may be that of a host that is there by its own name."""
    found = (_HEADER.fullmatch(line.strip()) for line in lines if " exec " in line and len(line) < 1000)
    return len({name for match in found if match is not None and (name := match["pod"] or match["typed"])})


def styles_of_titles(lines: Sequence[str]) -> frozenset[str]:
    """
    Return the styles of headers in which nothing stands that is the name of a host: ``=== 2026-11-30 ===``, ``--- attempt1 ---``.

    One name in a style is enough: ``=== a9 ===`` makes ``=== a10 ===``, which may be a card elsewhere, a host.
    """
    found: dict[str, bool] = {}
    for number, line in enumerate(lines):
        if (header := _styled(lines, number, line.strip())) is not None:
            style, names = header
            are_hosts = found.get(style, False) or any(_is_name(style, name) for name in names)
            found[style] = are_hosts
    return frozenset(style for style, are_hosts in found.items() if not are_hosts)


def _styled(lines: Sequence[str], number: int, line: str) -> tuple[str, list[str]] | None:
    """Return the style of the header in *line* that people, too, may have written, and what it names."""
    if not 0 < len(line) <= _LONGEST_HEADER:
        return None
    if _is_ruled(lines, number):
        if lines[number - 1].strip().startswith(":"):
            return ":", [_named_by(line)]
        listed = _LISTED.fullmatch(line)
        return ("rules", re.sub(r"\[[^\[\]]*\]", "1", listed["names"]).split(",")) if listed is not None else None
    match = _HEADER.fullmatch(line) if line.startswith(("==", "--", "**")) else None
    if match is None or not (match["path"] or match["ruled"]):
        return None
    return ("==>", [_named_by(match["path"])]) if match["path"] else (match["rule"][0], [match["ruled"]])


def _named_by(path: str) -> str:
    """Return the host that *path* names, or the date or version that its file is called by: ``535.129.03.txt``."""
    whole = PurePath(path).name
    stem = whole.rpartition(".")[0] if OUTPUT_FILE.search(whole) else whole
    return stem if is_no_name(stem) else host_of_path(PurePath(path))


def _is_name(style: str, name: str) -> bool:
    """Whether *name*, in a header of *style*, is that of a host: what people write in one line needs to be none of other things."""
    if style in ("rules", "==>", ":"):
        return may_be_host(name) and not is_part(name)
    return is_counted_host(name) or ADDRESS.fullmatch(name) is not None


def is_of_launcher(lines: Sequence[str], number: int) -> bool:
    """Whether a launcher wrote the header in line *number*."""
    line = lines[number].strip()
    return line.startswith("==> ") or LAUNCHER.match(line) is not None or _is_ruled(lines, number)


def _is_ruled(lines: Sequence[str], number: int) -> bool:
    """Whether rules stand above and below line *number*."""
    return 0 < number < len(lines) - 1 and all(RULE.fullmatch(lines[k].strip()) is not None for k in (number - 1, number + 1))


def is_command(line: str) -> bool:
    """Whether *line* is a command behind a prompt, or one that runs another elsewhere."""
    match = _HEADER.fullmatch(line.strip())
    return match is not None and any(match[group] for group in _COMMANDS)


def is_launcher(hosts: tuple[str, ...]) -> bool:
    """Whether a block is that of the launcher itself, as ``dshbak`` shows what ``pdsh`` says."""
    return len(hosts) == 1 and hosts[0].startswith("pdsh@")


def named(
    lines: Sequence[str], number: int, known: Mapping[str, tuple[str, ...]], *, are_pods: bool, titles: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the hosts that line *number* announces; *known* are those of lines that were seen, *titles* styles that name no hosts."""
    line = lines[number].strip()
    if len(line) > _LONGEST_HEADER or not line:
        return ()
    if lines[number] in known:
        return known[lines[number]]
    styled = _styled(lines, number, line)
    if styled is not None and (styled[0] in titles or all(map(is_no_name, styled[1]))):
        return ()
    if _is_ruled(lines, number):
        if lines[number - 1].strip().startswith(":"):
            return (host_of_path(PurePath(line)),)
        listed = _LISTED.fullmatch(line)
        if listed is not None:
            return expand(listed["names"])[:MOST_HOSTS]
    match = _HEADER.fullmatch(line)
    if match is None or ((match["pod"] or match["typed"]) and not are_pods):
        return ()
    if match["path"]:
        return (host_of_path(PurePath(match["path"])),)
    host = next(match[group] for group in _NAMES if match[group])
    if (match["prompt"] or match["plain"]) and _CONTAINER.fullmatch(host):
        return ()
    # A launcher, a prompt or a command that runs elsewhere names nothing else, whatever the host is called.
    is_named = may_be_host(host) if match["pod"] or match["typed"] or match["plain"] else True
    return (host,) if is_named else ()


def is_title(lines: Sequence[str], number: int, host: str) -> bool:
    """Whether *host*, which line *number* announces, may be a title instead: ``==> topo.txt <==``, ``--- step 2 ---``, ``Details``."""
    match = _HEADER.fullmatch(lines[number].strip())
    may_be_any = _is_ruled(lines, number) or (match is not None and bool(match["ruled"] or match["path"]))
    is_counted = is_counted_host(host) and any(map(str.isdigit, host)) and any(letter.isalpha() or letter == ":" for letter in host)
    return may_be_any and (says_which_output(host) or not (is_counted or ADDRESS.fullmatch(host)))
