"""`nvidia-smi -q`: machines made up, printed, damaged, read."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_properties import MOST_CPU_S
from smi_query_machines import PREFIXES, Card, framed, machines, prefix_warnings, prefixed, print_text

from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.merging.identity import BY_MINOR, UNPLACED
from topologies.model import Gpu
from topologies.parts import Fabric
from topologies.read import read_text

DAMAGES = {
    "none": lambda text: text,
    "no indentation": lambda text: re.sub(r"(?m)^[ \t]+", "", text),
    "tabs": lambda text: text.replace("    ", "\t"),
    "spaces squeezed": lambda text: re.sub(r" +", " ", text),
    "no space before the colon": lambda text: re.sub(r" +:", ":", text),
    "CR LF": lambda text: text.replace("\n", "\r\n"),
    "no-break spaces": lambda text: text.replace("  ", "\u00a0 "),
    "trailing spaces": lambda text: text.replace("\n", "   \n"),
    "colours": lambda text: text.replace(": ", ": \x1b[1m").replace("\n", "\x1b[0m\n"),
    "no blank lines": lambda text: re.sub(r"\n\n+", "\n", text).lstrip(),
    "in prose": framed,
    "log of 5000 lines around": lambda text: "step: 1 loss : 2\n" * 2500 + text + "\nstep: 1 loss : 2" * 2500 + "\n",
    "comment signs without a space": lambda text: prefixed(text, "//"),
    **{f"prefix {p!r}": (lambda text, p=p: prefixed(text, p)) for p in PREFIXES},
}


@given(machine=machines(), damage=st.sampled_from(sorted(DAMAGES)))
@settings(max_examples=120, deadline=None)
def test_what_is_printed_is_read_whatever_was_done_to_the_white_space(machine: tuple[Card, ...], damage: str) -> None:
    topology = read_text(DAMAGES[damage](print_text(machine)))
    assert topology.gpus == tuple(card.gpu(index) for index, card in enumerate(machine))
    assert topology.format == "q-text"
    assert topology.warnings == prefix_warnings(damage)
    assert topology.stated["driver"] == "550.90.07"
    assert topology.stated["cuda"] == "12.4"
    assert "unit_as_printed" not in topology.stated
    assert topology.stated["attached_gpus"] == len(machine)
    bar1 = {str(index): card.bar1 for index, card in enumerate(machine)}
    stated = topology.stated["bar1_mib"]
    assert {k: v["total"] for k, v in (stated.items() if len(machine) > 1 else {"0": stated}.items())} == bar1
    assert from_document(to_document(topology)) == topology


@given(machine=machines(most=3), data=st.data())
@settings(max_examples=120, deadline=None)
def test_a_text_that_is_cut_states_nothing_wrong(machine: tuple[Card, ...], data: st.DataObject) -> None:
    """Every fact is that of the machine or unknown, wherever the text ends; a value that the cut runs through is not taken."""
    text = print_text(machine)
    end = data.draw(st.integers(text.index("GPU "), len(text)))
    try:
        topology = read_text(text[:end])
    except TopologyError as error:
        assert "cut" in str(error) or "recognised" in str(error)
        return
    assert len(topology.gpus) == len(machine)
    for gpu, card in zip(topology.gpus, machine, strict=True):
        truth = card.gpu(gpu.index)
        for fact in ("name", "uuid", "pci_bus_id", "memory_mib", "memory_used_mib", "memory_reserved_mib"):
            assert getattr(gpu, fact) in (None, getattr(truth, fact))
        if gpu.pcie is not None and truth.pcie is not None:
            assert gpu.pcie.gen in (None, card.gens[0], min(card.gens[0], card.gens[2]), truth.pcie.gen)
            assert gpu.pcie.width in (None, truth.pcie.width)
        for process, (pid, name, mib) in zip(gpu.processes or (), card.processes, strict=False):
            assert (process.pid, process.name or name, process.memory_mib or mib) == (pid, name, mib)


@given(machine=machines(most=3))
@settings(max_examples=25, deadline=None)
def test_a_cut_within_the_memory_of_a_gpu_warns(machine: tuple[Card, ...]) -> None:
    text = print_text(machine)
    last = text.rindex("\n    FB Memory Usage") + 1
    total = read_text(text[: text.index("Reserved", last)])
    assert total.gpus[len(machine) - 1].memory_mib == machine[-1].fb[0]
    assert "is cut within" in " ".join(total.warnings)


@given(machine=machines(), further=st.integers(0, 8))
@settings(max_examples=25, deadline=None)
def test_attached_gpus_that_are_not_shown_are_there(machine: tuple[Card, ...], further: int) -> None:
    numbers = itertools.count()
    text = print_text(machine, attached=len(machine) + further)
    text = re.sub(r"(Minor Number +: )3", lambda match: match[1] + str(next(numbers)), text)
    machine_in_order = [card.bus_id for card in machine] == sorted(card.bus_id for card in machine)
    topology = read_text(text)
    assert topology.gpus[len(machine) :] == tuple(Gpu(len(machine) + k, is_named=False) for k in range(further))
    if not further:
        assert topology.warnings == ()
    elif machine_in_order:
        are = "is" if len(machine) == 1 else "are"
        assert topology.warnings[0].startswith(f"{len(machine)} of {len(machine) + further} GPUs {are} shown")
    else:
        assert topology.warnings == (UNPLACED,)


@given(machine=machines())
@settings(max_examples=25, deadline=None)
def test_sections_of_their_own_are_merged(machine: tuple[Card, ...]) -> None:
    """`-d MEMORY` and `-d PIDS` one after the other say what they say together."""
    text = print_text(machine)
    memory = re.sub(r"(?ms)^    (?!FB|BAR1|    ).*?\n(?=    \S|GPU|\n)", "", text)
    pids = re.sub(r"(?ms)^    (?!Processes|    ).*?\n(?=    \S|GPU|\n)", "", text)
    for part, other in ((memory, pids), (pids, memory)):
        topology = read_text(f"$ nvidia-smi -q -d MEMORY\n{part}\n$ nvidia-smi -q -d PIDS\n{other}\n")
        assert [gpu.memory_mib for gpu in topology.gpus] == [card.fb[0] for card in machine]
        expected = [card.gpu(index).processes for index, card in enumerate(machine)]
        assert [gpu.processes for gpu in topology.gpus] == expected
        assert topology.warnings == ()


@pytest.mark.parametrize("words", ["FB Memory Usage", "FB Memory Usage|Product Name", "GPU UUID|Product Name|FB Memory Usage"])
@given(machine=machines())
@settings(max_examples=12, deadline=None)
def test_a_grep_without_bus_ids_leaves_one_gpu_for_each_time(words: str, machine: tuple[Card, ...]) -> None:
    plain = tuple(card for card in machine if not card.instances) or machine[:0]
    if not plain:
        return
    lines = print_text(plain).splitlines()
    kept = [
        line for k, line in enumerate(lines)
        if re.search(words, line) or any(re.search("FB Memory Usage", before) for before in lines[max(0, k - 4) : k])
    ]  # fmt: skip
    topology = read_text("\n".join(kept) + "\n")
    assert [gpu.memory_mib for gpu in topology.gpus] == [card.fb[0] for card in plain]
    if "Product Name" in words:
        assert [gpu.name for gpu in topology.gpus] == [card.name for card in plain]
    assert ("bus ids are missing" in " ".join(topology.warnings)) == (len(plain) > 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("    BAR1 Memory Usage\n        Total : 256 MiB\n", "BAR1 memory alone", id="BAR1 only"),
        pytest.param("GPU 00000000:18:00.0\n    FB Memory Usage\n        Total : N/A\n", "memory (FB) is 'N/A'", id="no total"),
        pytest.param(
            "GPU 00000000:18:00.0\n    FB Memory Usage\n        Total : 80 MiB\n        Used : Unknown Errors\n        Free : 1 MiB\n",
            None, id="used unknown",
        ),
        pytest.param(
            "GPU 00000000:18:00.0\n    FB Memory Usage\n        Total : 80 MiB\n        Used : lots\n        Free : 1 MiB\n",
            "used memory is 'lots'", id="used odd",
        ),
        pytest.param(
            "Attached GPUs : 1\nGPU 00000000:18:00.0\n    Minor Number : 0\nGPU 00000000:19:00.0\n    Minor Number : 1\n",
            "2 GPUs are shown, but only 1", id="more than attached",
        ),
    ],
)  # fmt: skip
def test_what_is_odd_is_said(text: str, words: str | None) -> None:
    topology = read_text(text)
    assert bool(topology.warnings) == (words is not None)
    assert (words or "") in " ".join(topology.warnings)


def test_words_of_old_drivers() -> None:
    """Of 2012 to 2014: one kind of memory, in MB, bus ids of four digits, and another title of processes."""
    topology = read_text(
        "==============NVSMI LOG==============\n\nDriver Version                  : 304.54\n\nAttached GPUs                   : 1\n"
        "GPU 0000:02:00.0\n    Product Name                : Tesla K20m\n    Memory Usage\n        Total                   : 4799 MB\n"
        "        Used                    : 12 MB\n        Free                    : 4787 MB\n    Compute Mode                : Default\n"
        "    Compute Processes\n        Process ID              : 1234\n            Name                : ./a.out\n"
        "            Used GPU Memory     : 100 MB\n"
    )
    gpu = topology.gpus[0]
    assert (gpu.name, gpu.pci_bus_id, gpu.memory_mib, gpu.memory_used_mib) == ("Tesla K20m", "0000:02:00.0", 4799, 12)
    assert gpu.processes is not None
    assert [(p.pid, p.name, p.memory_mib) for p in gpu.processes] == [(1234, "./a.out", 100)]
    assert topology.stated["unit_as_printed"] == "MB"
    assert topology.warnings == ()


def test_the_example_of_a_fabric_tells_where_its_gpu_stands() -> None:
    topology = read_text((Path(__file__).parent.parent / "data" / "sources" / "more" / "q-fabric.txt").read_text(encoding="utf-8"))
    assert topology.gpus[0].fabric == Fabric("853d98f9-f9c4-4a0e-8a13-33d598ee082f", 32766, "completed")
    assert (topology.gpus[0].name, topology.gpus[0].memory_mib, len(topology.gpus)) == ("NVIDIA GB200", 189471, 4)
    assert topology.warnings == (f"1 of 4 GPUs is shown: {BY_MINOR} (GPU0)",)


def test_memory_of_a_kind_that_nobody_knows_is_not_taken() -> None:
    text = "GPU 00000000:18:00.0\n    Product Name : NVIDIA X\n    Some Other Memory Usage\n        Total : 5 MiB\n        Free : 5 MiB\n"
    topology = read_text(text)
    assert topology.gpus[0].memory_mib is None
    assert "fb_mib" not in topology.stated


def test_the_name_of_a_server_is_no_gpu() -> None:
    """`ipmitool fru` and `dmidecode` print a product name, too, in the same form."""
    with pytest.raises(TopologyError, match="no output that describes GPUs"):
        read_text("FRU Device Description : Builtin FRU Device (ID 0)\n Product Name          : PowerEdge R750\n")


@pytest.mark.parametrize("attached", [0, 8])
def test_no_gpu_at_all_is_refused(attached: int) -> None:
    with pytest.raises(TopologyError, match="shows no GPU"):
        read_text(f"==============NVSMI LOG==============\nDriver Version : 550.1\n\nAttached GPUs : {attached}\n")


def test_a_matrix_beside_it_is_put_together_with_it() -> None:
    matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
    lines = "GPU 00000000:{}:00.0\n    FB Memory Usage\n        Total : 49140 MiB\n        Free : 1 MiB\n"
    topology = read_text(f"$ nvidia-smi topo -m\n{matrix}\n$ nvidia-smi -q\n{lines.format('41')}{lines.format('61')}")
    assert dict(topology.links) == {(0, 1): "NV4"}
    assert [gpu.memory_mib for gpu in topology.gpus] == [49140, 49140]
    assert topology.format == "topo-m"


HOSTILE = {
    "titles": "FB Memory Usage\n" * 500_000,
    "headers": "".join(f"GPU 0000:{k // 256 % 256:02X}:{k % 256:02X}.0\n" for k in range(490_000)) + "Attached GPUs : 1\n",
    "outputs": "=NVSMI LOG=\nGPU 0000:01:00.0\n" * 250_000,
    "processes": "GPU 0000:01:00.0\n" + "Process ID : 1\n" * 550_000,
    "words": "FB Memory Usage\n" + "Aaaa aaa aaa aaa aaa aaa aaa " * 280_000,
    "spaces": "FB Memory Usage" + " " * 8_000_000 + "x",
    "keys": "Product Name : x\n" + "Total " * 1_300_000,
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_text_that_means_harm_is_refused_at_once(name: str) -> None:
    begin = time.process_time()
    with pytest.raises(TopologyError):
        read_text(HOSTILE[name][:8_388_000])
    assert time.process_time() - begin < MOST_CPU_S


@given(machine=machines(most=2), squeeze=st.booleans())
@settings(max_examples=12, deadline=None)
def test_an_output_on_one_line_is_refused_with_the_reason(machine: tuple[Card, ...], squeeze: bool) -> None:
    line = print_text(machine).replace("\n", " ")
    with pytest.raises(TopologyError, match="paste it with its line breaks"):
        read_text((re.sub(" +", " ", line) if squeeze else line) + "\n")


@pytest.mark.parametrize("name", ["q.txt", "q.xml"])
@pytest.mark.parametrize(("which", "gpus", "are"), [((2,), "GPU 2", "it is"), ((1, 3), "GPU 1, GPU 3", "they are")])
def test_a_mig_mode_that_is_to_be_switched_is_told(name: str, which: tuple[int, ...], gpus: str, are: str) -> None:
    text = (Path(__file__).parent.parent / "data" / "sources" / name).read_text("utf-8")
    pending = re.compile(r"((?<=<pending_mig>)|Pending +: )Disabled")
    places = [match.span() for match in pending.finditer(text)]
    assert len(places) == 4
    for k in reversed(which):
        start, end = places[k]
        text = text[:start] + text[start:end].replace("Disabled", "Enabled") + text[end:]
    found = read_text(text)
    assert found.warnings == (f"MIG mode of {gpus} is to be switched on when {are} reset: then CUDA sees other devices",)
    assert all(gpu.mig is not None and not gpu.mig.enabled for gpu in found.gpus)
