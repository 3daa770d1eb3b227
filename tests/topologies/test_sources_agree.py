"""One machine, told by every source (``tests/data/sources``): all agree, alone and merged."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from topologies import sources
from topologies.domains import Level, domains
from topologies.model import Topology
from topologies.read import read_bytes

FOLDER = Path(__file__).parent.parent / "data" / "sources"
OTHERS = {"rocm-smi.txt"}
"""Examples of other machines."""

NVIDIA = sorted(path for path in FOLDER.iterdir() if path.suffix in {".txt", ".csv", ".xml"} and path.name not in OTHERS)
PARTIAL = {"topo-c.txt", "compute-apps.csv"}
"""Sources that name some of the GPUs only."""

WHOLE = [path for path in NVIDIA if path.name not in PARTIAL]
PAIRED = ((0, 1), (2, 3))


def read(*names: str) -> Topology:
    return sources.load("+".join(str(FOLDER / name) for name in names))


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_every_source_tells_four_gpus_without_a_warning(path: Path) -> None:
    topology = read(path.name)
    assert len(topology.gpus) == 4
    assert topology.warnings == ()


@pytest.mark.parametrize(("a", "b"), list(itertools.permutations(WHOLE, 2)), ids=lambda path: path.name)
def test_any_two_sources_agree(a: Path, b: Path) -> None:
    one, both = read(a.name), read(a.name, b.name)
    assert both.warnings == ()
    assert len(both.gpus) == 4
    if "lspci" not in a.name:    # which has names of its own
        assert [gpu.name for gpu in one.gpus] in ([None] * 4, [gpu.name for gpu in both.gpus])
    for fact in ("uuid", "memory_mib", "memory_used_mib", "numa", "cpu_affinity", "compute_capability"):
        for before, after in zip(one.gpus, both.gpus, strict=True):
            assert getattr(before, fact) in (None, getattr(after, fact))


def test_all_together_tell_everything() -> None:
    """Also as one text, in any order of the outputs."""
    joined = read(*(path.name for path in NVIDIA))
    assert joined.warnings == ()
    assert domains(joined, Level.ISLAND) == PAIRED
    for level in (Level.SWITCH, Level.ROOT_COMPLEX, Level.NUMA):
        assert domains(joined, level) == PAIRED
    assert joined.links == {(0, 1): "NV12", (0, 2): "SYS", (0, 3): "SYS", (1, 2): "SYS", (1, 3): "SYS", (2, 3): "NV12"}
    first = joined.gpus[0]
    assert (first.name, first.memory_mib, first.memory_used_mib, first.memory_reserved_mib) == (
        "NVIDIA A100 80GB PCIe", 81920, 7820, 540,
    )  # fmt: skip
    assert first.processes is not None
    assert [(process.pid, process.name, process.memory_mib) for process in first.processes] == [(4711, "python", 7806)]
    assert first.pcie is not None
    assert (first.pcie.gen, first.pcie.width) == (4, 16)


@pytest.mark.parametrize("order", [1, -1])
def test_one_text_with_all_outputs_is_the_same_as_the_files_joined(order: int) -> None:
    paths = [path for path in NVIDIA if path.suffix == ".txt"][::order]
    text = b"\n\n".join(path.read_bytes() for path in paths)
    found, joined = read_bytes(text, name="all.txt"), read(*(path.name for path in paths))
    assert found.warnings == ()
    assert found.replace(format="", stated={}) == joined.replace(format="", stated={})
