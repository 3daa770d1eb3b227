"""``nvidia-smi -L``: other machines, printed as the tool prints them, damaged, and read back."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_read_damage import FEWER, LOSSLESS, cut, read_any

from topologies.documents.document import to_document
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvidia.nvlink import gpu_list
from topologies.pages.text import clean
from topologies.parts import Mig
from topologies.read import read_text

NAMES = (
    "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", "NVIDIA GeForce RTX 4090", "NVIDIA GB200",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition", "Quadro RTX 8000",
)  # fmt: skip
WHOLE = "GPU-e0d922e0-caa0-4de4-6db5-fa032f3b5aa6"
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "1g.10gb+me", "1c.3g.40gb", "1g.24gb-me", "1g.5gb.me", "2g.48gb+gfx")


@dataclass(frozen=True, order=True)
class Listed:
    """A GPU of a list: its name, its UUID, and profile and UUID of its instances."""

    name: str
    uuid: str
    instances: tuple[tuple[str, str], ...]


@st.composite
def lists(draw: st.DrawFn) -> tuple[Listed, ...]:
    dice = random.Random(draw(st.integers(0, 2**32)))

    def uuid() -> str:
        digits = f"{dice.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    sliced = draw(st.booleans())
    return tuple(
        Listed(
            draw(st.sampled_from(NAMES)),
            f"GPU-{uuid()}",
            tuple((draw(st.sampled_from(PROFILES)), f"MIG-{uuid()}") for _ in range(draw(st.integers(0, 3)) * sliced)),
        )
        for _ in range(draw(st.integers(1, 12)))
    )


def printed(gpus: tuple[Listed, ...]) -> str:
    lines = []
    for index, gpu in enumerate(gpus):
        lines.append(f"GPU {index}: {gpu.name} (UUID: {gpu.uuid})\n")
        lines += [f"  MIG {p:<11} Device {k:>2}: (UUID: {u})\n" for k, (p, u) in enumerate(gpu.instances)]
    return "".join(lines)


def seen(topology: Topology) -> tuple[Listed, ...]:
    """Return what was read, as the generator would have it."""
    return tuple(
        Listed(
            gpu.name or "", gpu.uuid or "",
            tuple((i.profile or "", i.uuid or "") for i in (gpu.mig.instances if gpu.mig else ())),
        )
        for gpu in topology.gpus
    )  # fmt: skip


DAMAGES = {name: damage for name, damage in LOSSLESS.items() if name not in ("Markdown table", "quoted Markdown table", "underlined",
           "escape byte lost", "header lost", "header glued", "labels glued")}  # fmt: skip
"""Those that are not about matrices."""


@given(gpus=lists())
def test_a_list_is_read_without_a_warning(gpus: tuple[Listed, ...]) -> None:
    """And no line about instances proves nothing about the mode: it stays unknown."""
    topology = read_text(printed(gpus))
    assert topology.format == "list"
    assert topology.warnings == ()
    assert seen(topology) == gpus
    for gpu, listed in zip(topology.gpus, gpus, strict=True):
        assert gpu.mig is None if not listed.instances else gpu.mig == Mig(True, gpu.mig.instances if gpu.mig else ())
    assert to_document(topology)["gpu_list"] == {
        str(index): {"name": gpu.name, "mig": [profile for profile, _ in gpu.instances]} for index, gpu in enumerate(gpus)
    }


@FEWER
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@given(gpus=lists())
def test_a_damage_that_loses_nothing_reads_the_same(
    damage: Callable[[str], str | bytes], gpus: tuple[Listed, ...]
) -> None:
    assert seen(read_any(damage(printed(gpus)))) == gpus


def assert_true(read: tuple[Listed, ...], gpus: tuple[Listed, ...]) -> None:
    """Nothing that was read is wrong; it may be less."""
    assert len(read) <= len(gpus)
    for found, truth in zip(read, gpus, strict=False):
        assert found.name in (truth.name, "")
        assert found.uuid in (truth.uuid, "")
        for k, (profile, uuid) in enumerate(found.instances):
            assert truth.instances[k][0].startswith(profile)
            assert uuid in (truth.instances[k][1], "")
            assert uuid or profile


@given(gpus=lists(), seed=st.integers(0, 2**32))
def test_a_cut_list_is_true_and_says_so_unless_it_ends_with_a_line(gpus: tuple[Listed, ...], seed: int) -> None:
    text = cut(printed(gpus), random.Random(seed))
    try:
        topology = read_text(text)
    except TopologyError:
        return
    read = seen(topology)
    assert_true(read, gpus)
    ends_whole = text.endswith(("\n", ")", "\n ", "\n  "))
    assert ends_whole or topology.warnings
    lines = text.split("\n")[:-1]
    whole = sum(line.startswith("GPU") for line in lines)
    assert read[:whole][:-1] == gpus[: max(0, min(whole, len(read)) - 1)]


@given(gpus=lists().filter(lambda gpus: len(gpus) > 2), data=st.data())
def test_a_gpu_that_is_lost_in_between_is_said_and_its_instances_are_no_other_ones(
    gpus: tuple[Listed, ...], data: st.DataObject
) -> None:
    """Also where only its own line is lost and the GPU above has as many instances or more."""
    lost = data.draw(st.integers(1, len(gpus) - 2))
    lines = printed(gpus).splitlines(keepends=True)
    at = next(k for k, line in enumerate(lines) if line.startswith(f"GPU {lost}:"))
    keeps_instances = bool(gpus[lost - 1].instances) and data.draw(st.booleans())
    del lines[at : at + 1 + (0 if keeps_instances else len(gpus[lost].instances))]
    topology = read_text("".join(lines))
    expected = [*gpus]
    expected[lost] = Listed("", "", ())
    assert seen(topology) == tuple(expected)
    assert topology.gpus[lost] == Gpu(lost, is_named=False)
    assert f"does not name GPU{lost}," in " ".join(topology.warnings)
    if keeps_instances and gpus[lost].instances:
        assert f"below GPU{lost - 1} stand instances of another GPU" in " ".join(topology.warnings)


@pytest.mark.parametrize(
    ("text", "gpus", "words"),
    [
        pytest.param(
            "GPU 0: NVIDIA L4 (UUID: GPU-aaaa)\nGPU 1: NVIDIA L4 (UUID: GPU-aaaa)\n",
            (Gpu(0, name="NVIDIA L4"), Gpu(1, name="NVIDIA L4")), "no whole UUID of GPU0, GPU1", id="redacted",
        ),
        pytest.param(
            f"GPU 0: NVIDIA L4 (UUID: {WHOLE})\nGPU 1: NVIDIA L4 (UUID: {WHOLE})\n",
            (Gpu(0, name="NVIDIA L4"), Gpu(1, name="NVIDIA L4")), "have the same UUID", id="one for all",
        ),
        pytest.param(
            f"GPU 0: NVIDIA L4 (UUID: {WHOLE})\nGPU 1: NVIDIA L4\n",
            (Gpu(0, name="NVIDIA L4", uuid=WHOLE), Gpu(1, name="NVIDIA L4")), "no whole UUID of GPU1", id="one without",
        ),
        pytest.param(f"GPU0:NVIDIA L4(UUID:{WHOLE})\n", (Gpu(0, name="NVIDIA L4", uuid=WHOLE),), "", id="blanks lost"),
        pytest.param(f"GPU 0: NVIDIA L4 (UUID: N/A)\nGPU 1: N/A (UUID: {WHOLE})\n",
                     (Gpu(0, name="NVIDIA L4"), Gpu(1, uuid=WHOLE)), "no whole UUID of GPU0", id="N/A"),
    ],
)  # fmt: skip
def test_what_is_odd(text: str, gpus: tuple[Gpu, ...], words: str) -> None:
    topology = read_text(text)
    assert topology.gpus == gpus
    assert words in " ".join(topology.warnings)


def interleaved(texts: dict[str, str], dice: random.Random) -> str:
    """Return the lines of several hosts as a launcher mixes them, each with the name of its host before it."""
    left = {host: text.splitlines() for host, text in texts.items()}
    lines = []
    while any(left.values()):
        host = dice.choice([host for host, rest in left.items() if rest])
        lines.append(f"{host}: {left[host].pop(0)}\n")
    return "".join(lines)


@given(gpus=lists(), other=lists(), seed=st.integers(0, 2**32))
def test_two_hosts_that_talk_at_once_are_two_machines(
    gpus: tuple[Listed, ...], other: tuple[Listed, ...], seed: int
) -> None:
    """Each line belongs to its host, and the two are refused as one machine."""
    if {gpu.uuid for gpu in gpus} & {gpu.uuid for gpu in other}:
        return
    text = interleaved({"node1": printed(gpus), "node2": printed(other)}, random.Random(seed))
    assert sorted(seen(reading.topology) for reading in gpu_list.read(clean(text, name="text"))) == sorted((gpus, other))
    with pytest.raises(TopologyError, match="the list of line"):
        read_text(text)


def test_an_index_of_no_gpu_is_refused() -> None:
    with pytest.raises(TopologyError, match="GPU 99999 is no GPU of one host"):
        read_text("GPU 99999: NVIDIA L4 (UUID: GPU-0)\n")


def test_a_list_without_uuids_is_read() -> None:
    topology = read_text("GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA A100-SXM4-80GB\n")
    assert topology.gpus == (Gpu(0, name="NVIDIA A100-SXM4-80GB"), Gpu(1, name="NVIDIA A100-SXM4-80GB"))
    assert topology.format == "list"
    assert topology.warnings == ()


def test_prose_about_gpus_is_no_list() -> None:
    with pytest.raises(TopologyError, match="recognised"):
        read_text("GPU 0: NVIDIA says that this one is broken\n")


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_uuid_that_is_cut_is_unknown(end: str) -> None:
    topology = read_text(f"GPU 0: NVIDIA L4 (UUID: GPU-e0d922e0-caa0-4de4{end}")
    assert topology.gpus == (Gpu(0, name="NVIDIA L4"),)
    assert topology.warnings


@pytest.mark.parametrize("uuid", ["", " (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000000)"])
def test_a_serial_number_is_no_part_of_the_name(uuid: str) -> None:
    assert read_text(f"GPU 0: Tesla K80 (S/N: 0324715044187){uuid}\n").gpus[0].name == "Tesla K80"


# ── reports of an environment, which name all GPUs of a kind at once ────────────────────────────────────────────────────

KINDS = {"NVIDIA H20": "9.0", "NVIDIA A100-SXM4-80GB": "8.0", "NVIDIA RTX 9999 Ti": "13.0", "AMD Instinct MI300X": "9.4"}


def matrix_of(count: int) -> str:
    rows = [[f"GPU{i}", *(" X " if i == k else "NV18" for k in range(count))] for i in range(count)]
    return "".join("\t".join(row) + "\n" for row in [["", *(f"GPU{k}" for k in range(count))], *rows])


def ranges(indices: list[int]) -> str:
    """Print runs of three and more with a dash."""
    numbered = itertools.groupby(enumerate(indices), key=lambda entry: entry[1] - entry[0])
    runs = [[index for _, index in run] for _, run in numbered]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


@given(
    kinds=st.lists(st.sampled_from([*KINDS]), min_size=2, max_size=16), prefix=st.sampled_from(("", "3: ", "node1: ", "> ")),
    style=st.sampled_from((lambda indices: ",".join(map(str, indices)), lambda indices: ", ".join(map(str, indices)), ranges)),
    is_beside_a_matrix=st.booleans(),
)  # fmt: skip
def test_names_of_many_gpus_at_once(
    kinds: list[str], prefix: str, style: Callable[[list[int]], str], is_beside_a_matrix: bool
) -> None:
    groups = {kind: [k for k, name in enumerate(kinds) if name == kind] for kind in kinds}
    # A line about one GPU is a list's, which names cards that somebody knows.
    kinds = ["NVIDIA H20" if len(groups[kind]) == 1 else kind for kind in kinds]
    groups = {kind: [k for k, name in enumerate(kinds) if name == kind] for kind in kinds}
    lines = ["Python: 3.12.12 | packaged by Anaconda, Inc. | (main, Oct 21 2025, 20:16:04)", "CUDA available: True"]
    lines += [f"GPU {style(indices)}: {kind}" for kind, indices in groups.items()]
    lines += [f"GPU {style(indices)} Compute Capability: {KINDS[kind]}" for kind, indices in groups.items()]
    lines += ["CUDA_HOME: /usr/local/cuda", "PyTorch: 2.8.0+cu128"]
    if is_beside_a_matrix:
        lines += ["NVIDIA Topology: ", *matrix_of(len(kinds)).splitlines(), "", "Hypervisor vendor:: KVM"]
    topology = read_text("".join(f"{prefix}{line}\n" for line in lines))
    assert topology.gpus == tuple(Gpu(k, name=kind, compute_capability=KINDS[kind]) for k, kind in enumerate(kinds))
    assert [warning for warning in topology.warnings if not prefix] == []
    assert ("topo-m" in topology.formats) == is_beside_a_matrix


def test_names_of_those_that_a_process_sees_are_nobody_s_when_there_are_more() -> None:
    topology = read_text(f"GPU 0,1: NVIDIA H20\n\nNVIDIA Topology:\n{matrix_of(4)}")
    assert topology.gpus == tuple(map(Gpu, range(4)))
    assert len(topology.links) == 6
    assert "names 2 GPUs without UUIDs, the topo-m of line 4 has 4" in " ".join(topology.warnings)


@pytest.mark.parametrize("text", ["GPU 0,1,2: say that they are broken\n", "GPU 1-2 are NVIDIA H20\n", "see GPU 3, 4: later\n"])
def test_prose_about_many_gpus_is_no_list(text: str) -> None:
    with pytest.raises(TopologyError, match="recognised"):
        read_text(text)


@pytest.mark.parametrize("indices", ["0-99999", "0,5000", "0-9,64-999999999"])
def test_many_indices_that_no_host_has_are_refused(indices: str) -> None:
    with pytest.raises(TopologyError, match="is no GPU of one host"):
        read_text(f"GPU {indices}: NVIDIA H20\n")
