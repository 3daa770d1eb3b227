"""Playbooks of Ansible and JSON that names hosts: each host has its own outputs, and failed ones are named."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from topologies.clusters.by_host import by_host
from topologies.clusters.collect import split
from topologies.clusters.host_files import read_hosts
from topologies.clusters.recorded import as_blocks
from topologies.errors import TopologyError
from topologies.read import read_text

FOLDER = Path(__file__).parent.parent / "data" / "sources"
TEXTS = {name: (FOLDER / name).read_text() for name in ("topo-m.txt", "q.txt", "query.csv", "list.txt", "lspci-vv.txt", "rocm-smi.txt")}
HOSTS = ("n1", "gpu02", "10.0.0.7")


def result(text: str) -> dict[str, object]:
    """Return what Ansible keeps of a command that prints *text*."""
    said = text.strip("\n")
    return {
        "changed": True, "cmd": ["nvidia-smi", "topo", "-m"], "rc": 0, "stderr": "", "stderr_lines": [], "stdout": said,
        "stdout_lines": said.split("\n"),
    }  # fmt: skip


def playbook(show: Callable[[str], str]) -> Callable[[Mapping[str, str]], str]:
    """Return what shows what each host says in *show*'s way, between what else a playbook prints."""

    def shown(said: Mapping[str, str]) -> str:
        facts = "PLAY [all] ****\n\nTASK [Gathering Facts] ****\n" + "".join(f"ok: [{host}]\n" for host in said)
        results = "\nTASK [debug] ****\n" + "".join(f"ok: [{host}] => {show(text)}\n" for host, text in said.items())
        return f"{facts}{results}\nPLAY RECAP ****\n" + "".join(f"{host}  : ok=2 changed=1 unreachable=0 failed=0\n" for host in said)

    return shown


def lines_of_yaml(text: str) -> str:
    return "\n  out.stdout_lines:\n" + "\n".join(f"  - {json.dumps(line)}" for line in text.splitlines())


WAYS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "list": playbook(lambda text: json.dumps({"out.stdout_lines": text.splitlines()}, indent=4)),
    "string": playbook(lambda text: json.dumps({"out.stdout": text}, indent=4)),
    "message": playbook(lambda text: json.dumps({"msg": text}, indent=4)),
    "whole result": playbook(lambda text: json.dumps(result(text))),
    "loop": playbook(lambda text: f"(item=nvidia-smi) => {json.dumps({'msg': text.splitlines()}, indent=4)}"),
    "YAML, block": playbook(lambda text: "\n  out.stdout: |-\n" + textwrap.indent(text, "    ", lambda _: True)),
    "YAML, list": playbook(lines_of_yaml),
    "verbose": lambda said: "".join(f"changed: [{host}] => {json.dumps(result(text))}\n" for host, text in said.items()),
    "another runs it": lambda said: "".join(f"ok: [{host} -> localhost] => {json.dumps(result(text))}\n" for host, text in said.items()),
    "command": lambda said: "".join(f"{host} | CHANGED => {json.dumps(result(text), indent=4)}\n" for host, text in said.items()),
    "lines": lambda said: "".join(json.dumps({"host": host, "stdout": text}) + "\n" for host, text in said.items()),
    "lines, host last": lambda said: "".join(json.dumps({"out": text, "hostname": host}) + "\n" for host, text in said.items()),
    "list of hosts": lambda said: json.dumps([{"node": host, "output": text.splitlines()} for host, text in said.items()], indent=1),
    "object": lambda said: json.dumps({host: text for host, text in said.items() if host[0].isalpha()}, indent=1),
    "JSON of a playbook": lambda said: json.dumps(
        {"plays": [{"tasks": [{"hosts": {host: result(text) for host, text in said.items()}, "task": {"name": "topo"}}]}], "stats": {}}
    ),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("way", WAYS)
def test_each_host_has_its_own_output(way: str, name: str) -> None:
    given = WAYS[way](dict.fromkeys(HOSTS, TEXTS[name]))
    expected = read_text(TEXTS[name])
    machines, warnings = read_hosts(["-"], stdin=io.BytesIO(given.encode()))
    assert warnings == ()
    assert {*machines} == {host for host in HOSTS if way != "object" or host[0].isalpha()}
    for host, machine in machines.items():
        assert machine.replace(warnings=()) == expected.replace(warnings=()), host
        assert split(machine).keys() == {None}
    assert by_host(given).keys() == machines.keys()


UNREACHABLE = {"changed": False, "msg": "Failed to connect to the host via ssh: Connection timed out", "unreachable": True}
NO_DRIVER = {**result("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."), "rc": 9, "failed": True}


@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize(
    ("state", "told", "words"), [("UNREACHABLE!", UNREACHABLE, "was not reached"), ("FAILED!", NO_DRIVER, "the driver does not run")]
)
@pytest.mark.parametrize("head", ["fatal: [n3]: {} => ", "n3 | {} => "])
def test_a_host_that_failed_is_named_with_the_reason(
    head: str, state: str, told: dict[str, object], words: str, indent: int | None
) -> None:
    failure = head.format(state) + json.dumps(told, indent=indent) + "\n"
    two = WAYS["verbose"](dict.fromkeys(("n1", "n2"), TEXTS["topo-m.txt"]))
    for given in (two + failure, failure + WAYS["list"]({"n1": TEXTS["q.txt"]})):
        with pytest.raises(TopologyError, match=rf"n3.*{words}"):
            read_hosts(["-"], stdin=io.BytesIO(given.encode()))
        machines, warnings = read_hosts(["-"], stdin=io.BytesIO(given.encode()), keep_going=True)
        assert [warning.split(" was")[0] for warning in warnings] == ["the host n3"]
        assert "n1" in machines


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"topo": TEXTS["topo-m.txt"], "query": TEXTS["query.csv"]}),
        json.dumps({"stdout": TEXTS["topo-m.txt"], "cmd": "nvidia-smi"}),
        json.dumps({"rank0": TEXTS["topo-m.txt"], "rank1": TEXTS["topo-m.txt"]}),
        TEXTS["topo-m.txt"],
        "{" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "ok: [a]\n" * 10,
    ],
    ids=["outputs by name", "a result", "ranks", "no data", "no JSON", "deep JSON", "nothing said"],
)
def test_other_texts_name_no_host(text: str) -> None:
    assert not as_blocks(text)
