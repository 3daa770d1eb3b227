"""The box that plain ``nvidia-smi`` prints, of old and new drivers: other machines, damaged, and read back."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_read_damage import FEWER, cut, read_any
from test_smi_list import DAMAGES as OF_LISTS

from topologies.cards import card_of, cards
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.parts import Mig, Process
from topologies.read import read_text

NAMES = ("Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090", "NVIDIA L4")
DAMAGES = {name: damage for name, damage in OF_LISTS.items() if "wrapped" not in name and name != "one line"}


@dataclass(frozen=True)
class Layout:
    """How a driver draws: widths of the three cells, of the name, and whether it has instances (MIG)."""

    widths: tuple[int, int, int]
    name: int
    mig: bool


OLD = Layout((31, 22, 22), 18, mig=False)
MIDDLE = Layout((31, 22, 22), 18, mig=True)
NEW = Layout((41, 24, 22), 30, mig=True)


COMMANDS = ("python", "...envs/a/bin/python", "/usr/lib/xorg/Xorg")


@st.composite
def machines(draw: st.DrawFn) -> tuple[Gpu, ...]:
    sliced = draw(st.booleans())
    first = draw(st.integers(0, 15))
    return tuple(
        Gpu(
            index,
            name=(name := draw(st.sampled_from(NAMES))),
            pci_bus_id=f"00000000:{first + 16 * index:02X}:00.0",
            memory_mib=next(card.total_mib for card in cards() if name in card.nvml_names),
            memory_used_mib=draw(st.integers(0, 900)),
            mig=Mig(enabled=sliced and draw(st.booleans())),
            processes=tuple(
                Process(draw(st.integers(1, 4_000_000)), draw(st.sampled_from(("python", "...a/bin/python", "/usr/lib/xorg/Xorg"))), size)
                for size in draw(st.lists(st.integers(1, 90_000), max_size=3))
            ),
        )
        for index in range(draw(st.integers(1, 9)))
    )


def printed(machine: tuple[Gpu, ...], layout: Layout) -> str:
    a, b, c = layout.widths
    rule = f"+{'-' * a}+{'-' * b}+{'-' * c}+"
    wide = a + b + c + 2
    lines = [
        f"+{'-' * wide}+", f"| {'NVIDIA-SMI 550.90.07    Driver Version: 550.90.07    CUDA Version: 12.4':<{wide - 2}} |",
        f"|{rule[1:-1]}|", f"| {'GPU  Name':<{a - 2}} | {'Bus-Id        Disp.A':<{b - 2}} | {'Volatile Uncorr. ECC':<{c - 2}} |",
        f"| {'Fan  Temp  Perf':<{a - 2}} | {'Memory-Usage':>{b - 2}} | {'GPU-Util  Compute M.':<{c - 2}} |",
        f"|{rule[1:-1].replace('-', '=')}|",
    ]  # fmt: skip
    for gpu in machine:
        name = gpu.name or ""
        name = name if len(name) <= layout.name else name[: layout.name - 3] + "..."
        memory = f"{gpu.memory_used_mib}MiB / {gpu.memory_mib}MiB "
        lines += [
            f"|{gpu.index:>4}  {name:<{layout.name}}{'Off  ':>{a - 6 - layout.name}}|{gpu.pci_bus_id:>{b - 5}} Off |{'N/A ':>{c}}|",
            f"|{' N/A   30C    P0    62W / 300W ':<{a}}|{memory:>{b}}|{'0%      Default ':>{c}}|",
        ]
        if layout.mig:
            mode = "Enabled" if gpu.mig and gpu.mig.enabled else "Disabled"
            lines.append(f"|{'':{a}}|{'':{b}}|{mode:>{c - 1}} |")
        lines.append(rule)
    ids = "  N/A  N/A" if layout.mig else ""
    lines += [" " * (wide + 2), f"+{'-' * wide}+", f"| {'Processes:':<{wide - 2}} |", f"|{'=' * wide}|"]
    rows = [
        f"|{gpu.index:>5} {ids}{process.pid:>10}      C   {process.name or '':<{wide - 44}}{f'{process.memory_mib}MiB':>12} |"
        for gpu in machine
        for process in gpu.processes or ()
    ]
    return "\n".join([*lines, *(rows or [f"|  {'No running processes found':<{wide - 2}}|"]), f"+{'-' * wide}+"]) + "\n"


def expected(machine: tuple[Gpu, ...], layout: Layout) -> tuple[Gpu, ...]:
    """Return what the box tells: no mode where it has no such line, and cut names only where memory decides."""

    def name(gpu: Gpu) -> str | None:
        assert gpu.name
        assert gpu.memory_mib
        begin = gpu.name[: layout.name - 3]
        fits = [card for card in cards() if card.holds(gpu.memory_mib) and any(n.startswith(begin) for n in card.nvml_names)]
        return gpu.name if len(gpu.name) <= layout.name or len(fits) == 1 else None

    return tuple(gpu.replace(name=name(gpu), mig=gpu.mig if layout.mig else None) for gpu in machine)


def plain(gpus: tuple[Gpu, ...]) -> list[Gpu]:
    """Return *gpus* with the slug of their card for its names."""
    return [gpu.replace(name=card.slug if (card := card_of(gpu)) else gpu.name) for gpu in gpus]


layouts = st.sampled_from((OLD, MIDDLE, NEW))


@given(machine=machines(), layout=layouts)
def test_every_layout_is_read(machine: tuple[Gpu, ...], layout: Layout) -> None:
    topology = read_text(printed(machine, layout))
    assert topology.format == "smi-table"
    assert topology.stated["driver"] == "550.90.07"
    assert plain(topology.gpus) == plain(expected(machine, layout))
    assert bool(topology.warnings) == any(gpu.name is None for gpu in topology.gpus)


@FEWER
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@given(machine=machines(), layout=layouts)
def test_a_damage_that_loses_nothing_reads_the_same(
    damage: Callable[[str], str | bytes], machine: tuple[Gpu, ...], layout: Layout
) -> None:
    assert plain(read_any(damage(printed(machine, layout))).gpus) == plain(expected(machine, layout))


@given(machine=machines())
def test_a_box_that_a_terminal_wrapped_is_put_together(machine: tuple[Gpu, ...]) -> None:
    text = "".join(f"{line[:80]}\n{line[80:]}\n" if len(line) > 80 else f"{line}\n" for line in printed(machine, NEW).splitlines())
    assert plain(read_text(text).gpus) == plain(expected(machine, NEW))


def assert_true(read: Topology, machine: tuple[Gpu, ...]) -> None:
    """Nothing that was read is wrong; it may be less."""
    for found, truth in zip(plain(read.gpus), plain(machine), strict=False):
        for fact in ("name", "pci_bus_id", "memory_mib", "memory_used_mib", "mig"):
            assert getattr(found, fact) in (None, getattr(truth, fact)), fact
        for process in found.processes or ():
            assert process in (truth.processes or ())


@given(machine=machines(), layout=layouts, seed=st.integers(0, 2**32))
def test_a_cut_box_is_true(machine: tuple[Gpu, ...], layout: Layout, seed: int) -> None:
    """Also who holds memory: nobody is said to run on a GPU before the end of the list."""
    try:
        topology = read_text(cut(printed(machine, layout), random.Random(seed)))
    except TopologyError:
        return
    assert len(topology.gpus) <= len(machine)
    assert_true(topology, machine)
    for found, truth in zip(topology.gpus, machine, strict=False):
        assert found.processes != () or truth.processes == ()


@given(machine=machines(), layout=layouts, data=st.data())
def test_a_box_without_its_left_border_is_refused(machine: tuple[Gpu, ...], layout: Layout, data: st.DataObject) -> None:
    """The numbers of GPUs are lost, and what is left must not pass for a table without header."""
    columns = data.draw(st.integers(1, layout.widths[0] - 6))
    with pytest.raises(TopologyError, match="left border of the table of nvidia-smi is cut off"):
        read_text("".join(f"{line[columns:]}\n" for line in printed(machine, layout).splitlines()))


@given(machine=machines(), layout=layouts, titles=st.permutations(("name", "pci.bus_id", "memory.total [MiB]", "memory.used [MiB]")),
       count=st.integers(2, 4), blank=st.sampled_from(("", "\n", "$ nvidia-smi\n")))  # fmt: skip
def test_lines_of_the_box_are_no_rows_of_the_query_above(
    machine: tuple[Gpu, ...], layout: Layout, titles: list[str], count: int, blank: str
) -> None:
    rows = [
        {"name": g.name, "pci.bus_id": g.pci_bus_id,
         "memory.total [MiB]": f"{g.memory_mib} MiB", "memory.used [MiB]": f"{g.memory_used_mib} MiB"}
        for g in machine
    ]  # fmt: skip
    chosen = [*titles[:count], *({"name", "pci.bus_id"} - set(titles[:count]))]
    query = "".join(", ".join(str(row[title]) for title in chosen) + "\n" for row in ({t: t for t in chosen}, *rows))
    read = read_text(query + blank + printed(machine, layout))
    assert [gpu.name for gpu in read.gpus] == [gpu.name for gpu in machine]
    assert [gpu.memory_used_mib for gpu in read.gpus] == [gpu.memory_used_mib for gpu in machine]


ROW = (
    "|   {}  {:<26}  Off  | 00000000:0{}:00.0 Off |                    0 |\n"
    "| N/A   30C    P0    62W / 400W | {:>8} / {:>8} |      0%      Default |\n"
)


@pytest.mark.parametrize(
    ("text", "gpus", "words"),
    [
        pytest.param(ROW.format(0, "NVIDIA A100-SXM...", 7, "4MiB", "81920MiB"), ("NVIDIA A100-SXM4-80GB",), "", id="memory decides"),
        pytest.param(ROW.format(0, "NVIDIA A100-SXM...", 7, "4MiB", "40960MiB"), ("NVIDIA A100-SXM4-40GB",), "", id="the other card"),
        pytest.param(ROW.format(0, "NVIDIA GeForce ...", 7, "4MiB", "24564MiB"), (None,), "only the beginning of the names", id="open"),
        pytest.param(ROW.format(1, "NVIDIA L4", 7, "4MiB", "23034MiB"), (None, "NVIDIA L4"), "does not list GPU0", id="GPU absent"),
        pytest.param(ROW.format(0, "NVIDIA GB10", 7, "Not", "Supported"), ("NVIDIA GB10",), "no memory of GPU0", id="no memory"),
        pytest.param(ROW.format(0, "NVIDIA L4", 7, "4MiB", "23034MiB").replace("00000000:07:00.0", "ERR!"), ("NVIDIA L4",),
                     "reads ERR! for the bus id of GPU0", id="ERR!"),
    ],
)  # fmt: skip
def test_what_is_odd(text: str, gpus: tuple[str | None, ...], words: str) -> None:
    topology = read_text((text if "MiB" in text else text + "| 1MiB |\n") + f"+{'-' * 80}+\n")
    assert tuple(gpu.name for gpu in topology.gpus) == gpus
    assert words in " ".join(topology.warnings)
    assert bool(words) == bool(topology.warnings)


def test_a_container_hides_processes() -> None:
    """Memory is in use and none is listed: who runs there is unknown, not nobody."""
    text = printed((Gpu(0, name="NVIDIA L4", pci_bus_id="00000000:07:00.0", memory_mib=23034, memory_used_mib=20000),), NEW)
    assert "No running processes" in text
    assert read_text(text).gpus[0].processes is None


def test_an_index_of_no_gpu_is_refused() -> None:
    with pytest.raises(TopologyError, match="GPU 99999 is no GPU of one host"):
        read_text(ROW.format(99999, "NVIDIA L4", 7, "4MiB", "23034MiB"))


def test_a_long_log_is_searched_for_it() -> None:
    box = printed((Gpu(0, name="NVIDIA L4", pci_bus_id="00000000:07:00.0", memory_mib=23034, memory_used_mib=2),), NEW)
    topology = read_text("noise of a job\n" * 5000 + box + "noise of a job\n" * 5000)
    assert (topology.gpus[0].name, topology.gpus[0].memory_mib) == ("NVIDIA L4", 23034)


def test_the_end_of_a_box_stands_beside_a_matrix_of_more_gpus() -> None:
    """The head scrolled away; a whole box of fewer GPUs is another machine."""
    matrix = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tSYS\tSYS\nGPU1\tSYS\t X \tSYS\nGPU2\tSYS\tSYS\t X \n"
    topology = read_text(ROW.format(1, "NVIDIA L4", 7, "4MiB", "23034MiB") + "\n" + matrix)
    assert [gpu.name for gpu in topology.gpus] == [None, "NVIDIA L4", None]
    assert topology.links_complete
    with pytest.raises(TopologyError, match="has 1 GPUs"):
        read_text(ROW.format(0, "NVIDIA L4", 7, "4MiB", "23034MiB") + "\n" + matrix)


TABLE = (Path(__file__).parents[1] / "data" / "sources" / "table.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("end", "count"),
    [("|   0000", 2), ("|   1  NV", 2), ("00:3E:00.0 Off |                    0 |\n| N/A", 2), ("+--------------------", 1),
     ("|   00000000:B1:00.0 Off |                    0 |\n", 3)],
)  # fmt: skip
def test_a_box_that_ends_within_a_line_or_without_a_rule_says_so(end: str, count: int) -> None:
    start = TABLE.index("|   2  ") if count == 3 else TABLE.index("|   1  ") if count == 2 else TABLE.index("Disabled")
    topology = read_text(TABLE[: TABLE.index(end, start) + len(end)])
    assert len(topology.gpus) == count
    assert any("GPUs below may be missing" in warning for warning in topology.warnings)


@given(machine=machines(), layout=layouts, data=st.data())
def test_a_gpu_that_lost_the_line_with_its_number_is_told(machine: tuple[Gpu, ...], layout: Layout, data: st.DataObject) -> None:
    """Whichever it is, and also where the rule above went with it."""
    lost = data.draw(st.integers(0, len(machine) - 1))
    lines = printed(machine, layout).splitlines()
    at = next(k for k, line in enumerate(lines) if f"|{lost:>4}  " in line)
    text = "\n".join(lines[: at - (lost > 0 and data.draw(st.booleans()))] + lines[at + 1 :]) + "\n"
    if len(machine) == 1:
        with pytest.raises(TopologyError):
            read_text(text)
        return
    read = read_text(text)
    assert len(read.gpus) == len(machine)
    assert_true(read, machine)
    assert read.gpus[lost] == Gpu(lost, is_named=False)
    assert any(f"GPU{lost}" in warning for warning in read.warnings)


@given(machine=machines().filter(lambda machine: len(machine) > 1), layout=layouts, data=st.data())
def test_a_box_that_ends_within_the_first_line_of_a_gpu_says_so(machine: tuple[Gpu, ...], layout: Layout, data: st.DataObject) -> None:
    text = printed(machine, layout)
    last = data.draw(st.integers(1, len(machine) - 1))
    begin = text.index(f"\n|{last:>4}  ") + 1
    end = data.draw(st.integers(begin + 1, text.index("\n", begin)))
    read = read_text(text[:end])
    assert_true(read, machine)
    assert len(read.gpus) in (last, last + 1)
    assert any("GPUs below may be missing" in warning for warning in read.warnings)


@pytest.mark.parametrize("prefix", ["gpu-1  | ", "host1: ", "> ", "2024-05-01T10:00:0{}Z stdout F "])
def test_prefixes_are_named(prefix: str) -> None:
    lines = TABLE.splitlines()[1:]
    topology = read_text("".join(f"{prefix.format(number % 10)}{line}\n" for number, line in enumerate(lines)))
    bare = read_text("\n".join(lines) + "\n")
    assert topology.gpus == bare.gpus
    assert bare.warnings == ()
    assert [w for w in topology.warnings if "had a prefix" in w] == list(topology.warnings) != []


def test_cuda_is_stated() -> None:
    assert read_text(TABLE).stated["cuda"] == "12.4"


@pytest.mark.parametrize("cut", [False, True])
def test_of_boxes_printed_again_the_last_counts(cut: bool) -> None:
    interrupted = TABLE[: TABLE.index("|   2  ")] if cut else ""
    topology = read_text(TABLE + TABLE.replace("7820MiB", "9000MiB") + interrupted)
    assert len(topology.gpus) == 4
    assert topology.gpus[0].memory_used_mib == 9000
    assert any("the last whole one counts" in warning for warning in topology.warnings)


def test_a_name_that_is_an_error_is_named_so() -> None:
    topology = read_text(TABLE.replace("|   1  NVIDIA A100 80GB PCIe", "|   1  ERR!                 "))
    assert topology.gpus[1].name is None
    (warning,) = topology.warnings
    assert "no name for GPU1" in warning


def test_instances_that_the_box_shows_are_not_silently_dropped() -> None:
    rule = f"+{'-' * 89}+\n"
    box = (
        f"\n{rule}| MIG devices:{' ' * 77}|\n{rule}"
        "|  0    1   0   0  |              37MiB / 40192MiB    | 42      0 |  3   0    2    0    0 |\n" + rule
    )
    at = TABLE.index("\n+", TABLE.rindex("Disabled")) + 1
    at = TABLE.index("\n", at) + 1
    topology = read_text(TABLE[:at] + box + TABLE[at:])
    assert len(topology.gpus) == 4
    assert any("instances (MIG)" in warning for warning in topology.warnings)
