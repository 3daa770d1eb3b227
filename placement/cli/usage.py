"""
A way on for each command line that the parser refuses: what it says names the culprit, never what to type instead.

When to modify: a command takes other arguments, or the parser words a refusal in another way.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from placement.cli import kinds

_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<words>.*)\)", re.DOTALL)
_MISSING = re.compile(r"Missing argument")
_NO_OPTION = re.compile(r"No such option:? '?(?P<option>-{1,2}[^\s'.]+)")

_LONGEST = 120
"""Of the words of a user that are said again in a command line, characters."""

_EXAMPLES = {
    "topology": "name the machine: placement topology live, or placement topology topo.txt",
    "explain": "name a device map: placement plan -o map.yaml writes one, placement explain map.yaml explains it",
}
"""Command → what to type where its argument is missing."""


def remedy(error: Exception, said: str) -> str | None:
    """
    Return what to type instead of the command line that *error* refuses; None where the refusal says it.

    Parameters
    ----------
    error
        A usage error of the parser: in its ``ctx`` are the command and what was read so far.
    said
        What the parser says of it.
    """
    context = getattr(error, "ctx", None)
    command = getattr(getattr(context, "command", None), "name", None)
    if context is None or command is None:
        return None
    if extra := _EXTRA.search(said):
        words = extra["words"].split()
        if (cluster := _short_form(words, context.params)) is not None:
            option = "" if command == "topology" else "--topology "
            return f"put the cluster in quotes: placement {command} {option}{shlex.quote(cluster)}"
        advise = _EXTRAS.get(command)
        return advise(words, context.params) if advise is not None else "leave it out, or put words that belong together in quotes"
    if _MISSING.search(said):
        return _EXAMPLES.get(command)
    if found := _NO_OPTION.search(said):
        return _of_others(found["option"], command, context)
    return None


def _short_form(words: Sequence[str], params: Mapping[str, Any]) -> str | None:
    """Return the cluster in a few words that *words* end, if they do: without quotes the shell takes it apart."""
    from topologies.clusters import short_form

    before = params.get("source") or params.get("topology") or ""
    text = " ".join([before if isinstance(before, str) else before[-1], *words])
    return text if len(words) > 1 and short_form.looks_like(text) else None


def _joined(words: Sequence[str], params: Mapping[str, Any]) -> str:
    source = params.get("source")
    sources = [source, *words] if isinstance(source, str) else list(words)
    return (
        f"join outputs of one machine: placement topology {_quoted(sources, '+', 'topo.txt+gpus.csv')}; "
        f"or collect several hosts: placement collect {_quoted(sources, ' ', 'node0.txt node1.txt')} -o cluster.yaml"
    )


def _as_options(words: Sequence[str], params: Mapping[str, Any]) -> str:
    """Return the options that take *words*: a job is told from a machine by its name or what stands in it."""
    by_option: dict[str, list[str]] = {}
    for word in words:
        by_option.setdefault(kinds.option_of(word) or "--topology", []).append(word)
    typed = " ".join(
        f"{option} {_quoted(some, '+', 'topo.txt' if option == '--topology' else 'job.yaml')}" for option, some in by_option.items()
    )
    joined = "; + joins outputs of one machine" if any(len(some) > 1 for some in by_option.values()) else ""
    return f"placement plan {typed}{joined}"


def _of_measure(words: Sequence[str], params: Mapping[str, Any]) -> str:
    return f"placement measure --topology {_quoted(words, '+', 'topo.txt')}; it measures this host"


def _one_each(words: Sequence[str], params: Mapping[str, Any]) -> str:
    return "run it once for each"


_EXTRAS: Mapping[str, Callable[[Sequence[str], Mapping[str, Any]], str]] = {
    "topology": _joined,
    "plan": _as_options,
    "measure": _of_measure,
    "explain": _one_each,
    "catalog": _one_each,
    "schema": _one_each,
    "validate": _one_each,
}
"""Command → what to do with words that it does not take."""


def _quoted(words: Sequence[str], joint: str, example: str) -> str:
    """Return *words* as they are typed; *example* where they are long or cut by the blanks in them."""
    text = joint.join(map(shlex.quote, words)) if joint == " " else shlex.quote(joint.join(words))
    return text if words and len(text) <= _LONGEST else example


def _of_others(option: str, command: str, context: Any) -> str | None:
    """Return which other commands have *option*."""
    commands = getattr(getattr(getattr(context, "parent", None), "command", None), "commands", {})
    others = [name for name, other in commands.items() if option in _options(other)]
    words = [f"{option} is an option of placement {' and '.join([', '.join(others[:-1]), others[-1]] if others[1:] else others)}"]
    if command == "topology" and option in ("-o", "--output"):
        words.append("write what it prints with --yaml > FILE, or a picture with --svg FILE")
    return "; ".join(words) if others else None


def _options(command: Any) -> Iterator[str]:
    for parameter in getattr(command, "params", ()):
        yield from parameter.opts
