"""
Names of hosts: their natural order, and the lists that Slurm writes (``node[0-3,7],login1``).

When to modify: another way to write several names in one word.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping

from topologies.errors import TopologyError

MOST_HOSTS = 4096
"""Most hosts of a machine."""

MOST_NAMES = 2**16
"""Most names that one list may stand for: a whole site's, of which a machine is a part."""

_LONGEST = 2**20
_MOST_DIGITS = 9
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)|(,)|\s+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that puts ``node2`` before ``node10``."""
    parts = re.split(r"([0-9]+)", name)
    # Digits are compared by length first and never become a number, which could be very long.
    key = [(0, len(bare), bare) if k % 2 else (1, 0, bare) for k, bare in enumerate(map(_bare, parts))]
    return (*key, (2, 0, name))


def _bare(part: str) -> str:
    return part.lstrip("0") if part[:1].isdigit() else part


def expand(text: str) -> tuple[str, ...]:
    """
    Return the names that the list *text* stands for, in its order: ``node[08-10,12],a`` is node08, node09, node10, node12, a.

    Raises
    ------
    TopologyError
        If brackets or ranges cannot be read, or it stands for more than `MOST_NAMES` names.
    """
    if len(text) > _LONGEST:
        raise TopologyError(f"a list of hosts has {len(text):,} characters; at most {_LONGEST:,} are read")
    found: list[str] = []
    for word in _words(text):
        choices = [[plain] if inner is None else _choices(inner, text) for inner, plain in word]
        if len(found) + math.prod(map(len, choices)) > MOST_NAMES:
            raise _too_many(text)
        found += map("".join, itertools.product(*choices))
    return tuple(found)


def _words(text: str) -> list[list[tuple[str | None, str]]]:
    """Return each word of a list as its pieces: the inside of brackets, or plain text."""
    words: list[list[tuple[str | None, str]]] = [[]]
    position = 0
    for match in _PIECE.finditer(text):
        if match.start() != position:
            break
        position = match.end()
        if match[3] or not match[0].strip():
            words.append([])
        else:
            words[-1].append((match[1], match[2] or ""))
    if position != len(text):
        raise TopologyError(f"the list of hosts {_shown(text)} has a bracket without its partner")
    return [word for word in words if word]


def _choices(inner: str, text: str) -> list[str]:
    """Return what the inside of brackets stands for; leading zeros are kept."""
    found: list[str] = []
    for part in inner.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or max(len(match[1]), len(match[2] or "")) > _MOST_DIGITS:
            raise TopologyError(f"the list of hosts {_shown(text)} has {part[:40]!r}, which is no range such as 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise TopologyError(f"the list of hosts {_shown(text)} has the range {part}, which runs backwards")
        if len(found) + last - first >= MOST_NAMES:
            raise _too_many(text)
        found += (str(number).zfill(len(match[1])) for number in range(first, last + 1))
    return found


def _too_many(text: str) -> TopologyError:
    return TopologyError(f"the list of hosts {_shown(text)} stands for more than {MOST_NAMES:,} names")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + " …")


def match_names(names: Iterable[str], known: Iterable[str]) -> Mapping[str, str]:
    """
    Return which of *names* are which of *known*: equal, or equal up to the first dot where only one host is called so.

    A scheduler says ``node0`` where the host calls itself ``node0.example.com``.
    """
    known = tuple(known)
    short: dict[str, list[str]] = {}
    for host in known:
        short.setdefault(host.partition(".")[0], []).append(host)
    found: dict[str, str] = {}
    exact = set(known)
    for name in names:
        alike = short.get(name.partition(".")[0], [])
        if name in exact:
            found[name] = name
        elif len(alike) == 1 and ("." not in name or "." not in alike[0]):
            found[name] = alike[0]
    return found
