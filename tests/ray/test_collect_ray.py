"""`placement collect --ray` on a real Ray cluster. Needs the extra `ray`; runs only when this folder is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from topologies.documents.document import to_document
from topologies.sources import load


def collect(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "placement", "collect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False, env=dict(os.environ))


def test_each_node_is_asked_once_and_keeps_its_id(cluster: Any, tmp_path: Path) -> None:
    """Hosts stand in natural order, with the machine that each node reads; the head has no GPUs and is left out."""
    process = collect("--ray", cluster.address, "-o", "cluster.yaml", folder=tmp_path)
    assert process.returncode == 0, process.stderr
    machine = load(str(tmp_path / "cluster.yaml"))
    assert machine.hosts == ("node2", "node10")
    for host, shipped in (("node2", load("a100-pcie-mixed-4")), ("node10", load("dgx-h100"))):
        first = next(gpu.index for gpu in machine.gpus if gpu.host == host)
        size = len(shipped.gpus)
        assert [gpu.name for gpu in machine.gpus if gpu.host == host] == [gpu.name for gpu in shipped.gpus]
        assert {(i - first, j - first): c for (i, j), c in machine.links.items() if first <= i < first + size} == shipped.links
    assert {host: facts.ray_node_id for host, facts in machine.host_facts.items()} == cluster.ids
    assert len([warning for warning in machine.warnings if "head was left out" in warning and "driver" in warning]) == 1
    assert "2 hosts, 12 GPUs" in process.stderr


def test_a_node_that_reads_nothing_is_named(cluster: Any, tmp_path: Path) -> None:
    """Only the head reads what the command says: the others are told at their start."""
    process = collect("--ray", cluster.address, "--probe", str(tmp_path / "missing.txt"), "--json", folder=tmp_path)
    document = json.loads(process.stdout)
    assert any("head was left out" in warning and "missing.txt" in warning for warning in document["warnings"])
    assert {gpu["host"] for gpu in document["gpus"]} == {"node2", "node10"}


def test_what_is_written_reads_back(cluster: Any, tmp_path: Path) -> None:
    as_json = collect("--ray", cluster.address, "-o", "a.json", "--json", folder=tmp_path)
    as_yaml = collect("--ray", cluster.address, "-o", "a.yaml", folder=tmp_path)
    assert (as_json.returncode, as_yaml.returncode) == (0, 0)
    assert to_document(load(str(tmp_path / "a.json"))) == to_document(load(str(tmp_path / "a.yaml")))


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    process = collect("--ray", "127.0.0.1:1", folder=tmp_path)
    assert process.returncode == 2
    assert process.stderr.startswith("error: --ray: no Ray cluster answers at 127.0.0.1:1")
    assert len(process.stderr.splitlines()) == 1
