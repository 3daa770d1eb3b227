"""What a source may be: a file, standard input, a shipped machine, this host, a join, one of several matrices."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from topologies.catalog import machine_names
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvml import live as nvml
from topologies.pci.sysfs import add_host_facts
from topologies.sources import load

MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
NAMES = "index, name\n0, NVIDIA L4\n1, NVIDIA L4\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("topo.txt").write_text(MATRIX)
    Path("gpus.csv").write_text(NAMES)
    Path("both.txt").write_text(MATRIX + "\n" + MATRIX.replace("NV4", "SYS"))


@pytest.mark.parametrize(
    ("source", "link", "name"),
    [
        pytest.param("topo.txt", "NV4", None, id="file"),
        pytest.param("./topo.txt", "NV4", None, id="path"),
        pytest.param("topo.txt+gpus.csv", "NV4", "NVIDIA L4", id="join"),
        pytest.param("gpus.csv+topo.txt", "NV4", "NVIDIA L4", id="join, other order"),
        pytest.param("both.txt#1", "NV4", None, id="first matrix"),
        pytest.param("both.txt#2", "SYS", None, id="second matrix"),
        pytest.param("both.txt#2+gpus.csv", "SYS", "NVIDIA L4", id="second matrix, joined"),
        pytest.param("-", "SYS", None, id="standard input"),
        pytest.param("-+gpus.csv", "SYS", "NVIDIA L4", id="standard input, joined"),
        pytest.param("a100-pcie-mixed-4", "NV12", "NVIDIA A100-PCIE-40GB", id="shipped"),
    ],
)
def test_loaded(source: str, link: str, name: str | None) -> None:
    topology = load(source, stdin=io.BytesIO(MATRIX.replace("NV4", "SYS").encode()))
    assert topology.links[0, 1] == link
    assert topology.gpus[0].name == name


@pytest.mark.parametrize("name", ["a+b.txt", "c#2"])
def test_a_file_whose_name_looks_like_a_join_or_a_pick_wins(name: str) -> None:
    Path(name).write_text(MATRIX)
    assert len(load(name).gpus) == 2


@pytest.mark.parametrize("name", machine_names())
def test_every_shipped_machine_is_read_without_a_warning(name: str) -> None:
    topology = load(name)
    assert topology.links_complete
    assert topology.warnings == ()
    assert all(gpu.name and gpu.memory_mib for gpu in topology.gpus)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param("", "no topology is named", id="nothing"),
        pytest.param("dgx-a100-80g", "did you mean dgx-a100-80gb", id="misspelt"),
        pytest.param("nonsense", "placement catalog machines", id="unknown"),
        pytest.param("missing.txt", "missing.txt: there is no such file", id="no file"),
        pytest.param("no/such/file", "no/such/file: there is no such file", id="no path"),
        pytest.param("a\0b", "no shipped machine", id="NUL"),
        pytest.param(".", "this is a folder", id="folder"),
        pytest.param("topo.txt+", "nothing on one side", id="join of nothing"),
        pytest.param("-+-", "only once", id="standard input twice"),
        pytest.param("-", "standard input is closed", id="closed"),
        pytest.param("both.txt", "pick one with both.txt#1 or both.txt#2", id="two matrices"),
        pytest.param("both.txt#3", "matrix #3 was asked for, but the text has only 2", id="no third matrix"),
        pytest.param("topo.txt+a100-1", "topo.txt has 2 GPUs and a100-1 has 1", id="different machines"),
    ],
)
def test_refused(source: str, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load(source)
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(TopologyError, match=r"topo\.txt: cannot be read: Permission denied"):
        load("topo.txt")


def test_live_is_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Topology((Gpu(0),), format="nvml")
    monkeypatch.setattr(nvml, "read_live", lambda: host)
    found = load("live")
    assert found.gpus == host.gpus
    assert found == add_host_facts(host)
    assert found.host_facts[None].cpus == os.cpu_count()


def test_a_number_behind_a_short_form_is_refused() -> None:
    with pytest.raises(TopologyError, match="is no text"):
        load("dgx-h100 x 2#2")


def test_a_link_that_leads_nowhere_is_called_so(tmp_path: Path) -> None:
    link = tmp_path / "loop"
    link.symlink_to(link)
    with pytest.raises(TopologyError, match="leads nowhere"):
        load(str(link))


def test_a_document_of_another_version_is_refused_by_its_version(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("schema: placement/topology/v2\ngpus: []\n", encoding="utf-8")
    with pytest.raises(TopologyError, match="schema is 'placement/topology/v2' instead of placement/topology/v1"):
        load(str(file))
