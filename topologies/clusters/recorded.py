"""
What launchers record of many hosts: a playbook of Ansible (``ok: [node0] => {"stdout": …}``), JSON that names hosts, lines of it.

Each becomes blocks behind headers that `topologies.clusters.by_host` knows.

When to modify: data names hosts under another key, or Ansible shows results in another way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from topologies.clusters.marks import NAME, is_counted_host, may_be_host
from topologies.pages.quoted import out_of_strings

_RESULT = re.compile(
    rf"(?:ok|changed|failed|fatal|skipping|unreachable): \[(?P<host>{NAME})(?: -> [^\]]{{1,253}})?\]:?"
    r"(?: (?P<state>UNREACHABLE!|FAILED!))?(?: =>(?P<rest>.*))?"
    rf"|(?P<alone>{NAME}) \| (?P<said>CHANGED|SUCCESS|FAILED!?|UNREACHABLE!?)(?: \| rc=-?[0-9]{{1,4}})? => (?P<data>\{{.*)"
)
_BETWEEN = re.compile(
    r"(?:TASK|PLAY|PLAY RECAP|RUNNING HANDLER|HANDLER)(?: \[.*\])? \*{3,}.*|\.\.\.ignoring"
    r"|[^ ]{1,253} +: ok=[0-9]+ .*|\[(?:WARNING|DEPRECATION)[^\]]*\]:.*"
)
_ITEM, _ITEM_END = "(item=", ") =>"
"""What stands round the turn of a loop before its result."""


_HOST_KEYS = ("host", "hostname", "host_name", "node", "nodename", "node_name", "inventory_hostname", "instance", "minion", "server")
_NO_OUTPUTS = frozenset(
    {"cmd", "command", "invocation", "ansible_facts", "start", "end", "delta", "warnings", "deprecations", "item", "ansible_loop_var"}
)
_LINES = "_lines"

_MOST_VALUES = 2**17
"""Most values of JSON that is looked at: those of a thousand hosts have a tenth."""

_DEEPEST = 12
"""How deep values are looked for; a playbook as JSON has hosts in the sixth level."""


def as_blocks(text: str) -> str | None:
    """Return what each host says in *text* behind a header that names it; None if no playbook or data names hosts."""
    begin = text.lstrip()[:1]
    if begin and begin in "{[" and (found := [*_of_data(text)]):
        return "".join(_block(host, outcome, said) for host, outcome, said in found)
    if "=>" not in text and "***" not in text:
        return None
    results = [*_of_playbook(text)]
    if not any(host for host, _, _ in results):
        return None
    return "".join(_block(host, outcome, said) if host else said for host, outcome, said in results)


def _block(host: str, outcome: str, said: str) -> str:
    if not said.strip() and not outcome:
        return ""
    header = "UNREACHABLE! => {" if outcome == "UNREACHABLE" else f"FAILED | rc={outcome} >>" if outcome else "CHANGED"
    return f"{host} | {header}\n{said}\n"


def _of_playbook(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield host, how it failed, and what it says for every result in *text*; without a host, what stands between results."""
    host, state, body = "", "", list[str]()
    for line in text.split("\n"):
        match = _RESULT.fullmatch(line.rstrip()) if "[" in line[:64] or "=>" in line else None
        is_end = host and line.rstrip() == "}" and body[0].startswith("{")
        if is_end:
            body.append(line)
        elif match is None and not _BETWEEN.fullmatch(line.rstrip()):
            body.append(line)
            continue
        if body:
            yield _result(host, state, "\n".join(body)) if host else ("", "", "\n".join((*body, "")))
        host, state, body = "", "", []
        if match is not None and may_be_host(name := match["host"] or match["alone"]):
            rest = (match["rest"] or match["data"] or "").strip()
            rest = rest.partition(_ITEM_END)[2].strip() if rest.startswith(_ITEM) else rest
            host, state, body = name, match["state"] or match["said"] or "", [rest]
            if line.startswith(("fatal", "failed", "unreachable")) and not state:
                state = "FAILED"
    if body:
        yield _result(host, state, "\n".join(body)) if host else ("", "", "\n".join(body))


def _result(host: str, state: str, body: str) -> tuple[str, str, str]:
    """Return a result of a playbook whose *body* is JSON, YAML, or nothing."""
    try:
        data = json.loads(body[: body.rfind("}") + 1]) if body.startswith("{") and _is_small(body) else None
    except (ValueError, RecursionError):
        data = None
    outcome = state.rstrip("!") if state.startswith(("FAILED", "UNREACHABLE")) else ""
    if isinstance(data, dict):
        return host, _outcome(data) or outcome.replace("FAILED", "1"), _said(data)
    return host, outcome.replace("FAILED", "1"), out_of_strings(body.removeprefix("{\n"))[0]


def _outcome(data: Mapping[str, object]) -> str:
    """Return how the command of a result ended: nothing if well."""
    if data.get("unreachable") is True:
        return "UNREACHABLE"
    code = data.get("rc")
    if isinstance(code, int) and not isinstance(code, bool) and 0 < abs(code) < 10_000:
        return str(code)
    return "1" if data.get("failed") is True else ""


def _of_data(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield host, how it failed and what it says out of JSON, or of lines of it."""
    if not _is_small(text):
        return
    try:
        yield from _hosts(json.loads(text), depth=0)
        return
    except (ValueError, RecursionError):
        pass
    for line in text.split("\n"):
        if line.lstrip().startswith("{"):
            try:
                yield from _hosts(json.loads(line), depth=0)
            except (ValueError, RecursionError):
                continue


def _is_small(text: str) -> bool:
    return text.count(",") + text.count("[") + text.count("{") <= _MOST_VALUES


def _hosts(data: object, depth: int) -> Iterator[tuple[str, str, str]]:
    if depth == _DEEPEST:
        return
    if isinstance(data, list):
        for value in data:
            yield from _hosts(value, depth=depth + 1)
    if not isinstance(data, dict):
        return
    name = next((value for key in _HOST_KEYS if isinstance(value := data.get(key), str) and _may_be_name(value)), None)
    if name is not None and (said := _said({key: value for key, value in data.items() if key not in _HOST_KEYS})).strip():
        yield name, _outcome(data), said
        return
    named = {
        key: value
        for key, value in data.items()
        if _may_be_name(key) and is_counted_host(key) and any(map(str.isdigit, key)) and _said(value).strip()
    }
    if len(named) > 1 and len(named) == sum(bool(_said(value).strip()) for value in data.values()):
        for key, value in named.items():
            yield key, _outcome(value) if isinstance(value, dict) else "", _said(value)
        return
    for key, value in data.items():
        if key == "hosts" and isinstance(value, dict):  # of a task, as Ansible shows it
            for host, result in value.items():
                if _may_be_name(host) and isinstance(result, dict):
                    yield host, _outcome(result), _said(result)
        else:
            yield from _hosts(value, depth=depth + 1)


def _may_be_name(name: str) -> bool:
    return re.fullmatch(NAME, name) is not None and may_be_host(name)


def _said(data: object, depth: int = 0) -> str:
    """Return the outputs in *data*: strings, and lists of lines."""
    if isinstance(data, str):
        return data + "\n"
    if depth == _DEEPEST:
        return ""
    if isinstance(data, list):
        if all(isinstance(line, str) for line in data):
            return "\n".join(map(str, data)) + "\n" if data else ""
        return "".join(_said(value, depth + 1) for value in data)
    if isinstance(data, dict):
        return "".join(
            _said(value, depth + 1)
            for key, value in data.items()
            if key not in _NO_OUTPUTS and not (key.endswith(_LINES) and isinstance(data.get(key.removesuffix(_LINES)), str))
        )
    return ""
