"""`nvidia-smi -q -x`: machines made up, printed, damaged, read; and XML that means harm."""

from __future__ import annotations

import html
import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_properties import MOST_CPU_S
from smi_query_machines import (
    PREFIXES,
    Card,
    framed,
    machines,
    prefix_warnings,
    prefixed,
    print_text,
    print_xml,
)

from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.merging.identity import UNPLACED
from topologies.model import Gpu
from topologies.pages import xml_text
from topologies.read import read_text

DAMAGES: dict[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "no indentation": lambda text: re.sub(r"(?m)^[ \t]+", "", text),
    "one line": lambda text: text.replace("\n", " "),
    "CR LF": lambda text: text.replace("\n", "\r\n"),
    "no-break spaces": lambda text: text.replace("\t", "\u00a0 "),
    "no declaration": lambda text: text[text.index("<nvidia_smi_log") :],
    "another encoding declared": lambda text: text.replace('version="1.0"', 'version="1.0" encoding="utf-16"'),
    "colours": lambda text: text.replace("<gpu", "\x1b[1m<gpu").replace("\n", "\x1b[0m\n"),
    "in prose": framed,
    "log of 5000 lines around": lambda text: "step: <1> & 2\n" * 2500 + text + "step: <1> & 2\n" * 2500,
    "wrapped between attributes": lambda text: text.replace("<gpu id", "<gpu\n  id"),
    **{f"prefix {p!r}": (lambda text, p=p: prefixed(text, p)) for p in PREFIXES},
    "prefix and wrapped": lambda text: prefixed(text.replace("<gpu id", "<gpu\nid"), "node1: "),
}


@given(machine=machines(), damage=st.sampled_from(sorted(DAMAGES)))
@settings(max_examples=120, deadline=None)
def test_what_is_printed_is_read_whatever_stands_around_it(machine: tuple[Card, ...], damage: str) -> None:
    topology = read_text(DAMAGES[damage](print_xml(machine)))
    assert topology.gpus == tuple(card.gpu(index) for index, card in enumerate(machine))
    assert (topology.format, topology.warnings) == ("q-xml", prefix_warnings(damage))
    assert from_document(to_document(topology)) == topology


@given(machine=machines())
@settings(max_examples=40, deadline=None)
def test_text_and_xml_of_one_machine_say_the_same(machine: tuple[Card, ...]) -> None:
    text, xml = read_text(print_text(machine)), read_text(print_xml(machine))
    assert text.gpus == xml.gpus
    assert text.stated == xml.stated
    both = read_text(print_text(machine) + "\n$ nvidia-smi -q -x\n" + print_xml(machine))
    assert both.gpus == text.gpus


@given(machine=machines(most=3), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_document_that_is_cut_is_refused_and_says_where(machine: tuple[Card, ...], data: st.DataObject) -> None:
    text = print_xml(machine)
    end = data.draw(st.integers(text.index("</timestamp>"), text.rindex("</nvidia_smi_log>") + len("</nvidia_smi_log")))
    with pytest.raises(TopologyError) as caught:
        read_text(text[:end])
    seen = text[:end].count('<gpu id="') - (1 if re.search(r"<gpu id=\"[^\"]*$", text[:end]) else 0)
    assert f"ends in line {text[:end].rstrip().count(chr(10)) + 1}" in str(caught.value)
    assert (f"{seen} GPU" if seen else "no GPU was seen") in str(caught.value)
    assert "nvidia-smi -q -x -f" in str(caught.value)


@given(machine=machines(most=2), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_document_that_lost_a_bracket_is_refused_and_says_where(machine: tuple[Card, ...], data: st.DataObject) -> None:
    text = print_xml(machine)
    start = text.index("<driver_version>")
    brackets = [m.start() for m in re.finditer("[<>]", text) if start <= m.start() < text.rindex("</nvidia")]
    lost = data.draw(st.sampled_from(brackets))
    with pytest.raises(TopologyError, match=r"not well-formed"):
        read_text(text[:lost] + text[lost + 1 :])


@given(machine=machines(), further=st.integers(0, 8))
@settings(max_examples=25, deadline=None)
def test_attached_gpus_that_are_not_shown_are_there(machine: tuple[Card, ...], further: int) -> None:
    topology = read_text(print_xml(machine, attached=len(machine) + further))
    assert topology.gpus[len(machine) :] == tuple(Gpu(len(machine) + k, is_named=False) for k in range(further))
    assert topology.warnings == ((UNPLACED,) if further else ())


@given(machine=machines(most=3), data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_process_whose_number_cannot_be_read_is_not_nobody(machine: tuple[Card, ...], data: st.DataObject) -> None:
    """In text and XML: who holds that GPU is unknown, and the facts of the others are as they were."""
    holders = [(index, process) for index, card in enumerate(machine) for process in range(len(card.processes))]
    if not holders:
        return
    position = data.draw(st.integers(0, len(holders) - 1))
    index, odd = holders[position][0], data.draw(st.sampled_from(("x", "12x", "-3", "N/A", "")))
    expected = [card.gpu(k) for k, card in enumerate(machine)]
    expected[index] = expected[index].replace(processes=None)
    for text, pattern in ((print_xml(machine), r"(<pid>)\d+"), (print_text(machine), r"(Process ID +: )\d+")):
        spot = list(re.finditer(pattern, text))[position]
        topology = read_text(text[: spot.start()] + spot[1] + odd + text[spot.end() :])
        assert topology.gpus == tuple(expected)
        assert len(topology.warnings) == 1
        assert f"GPU {index} ({machine[index].bus_id}): the number (pid) of 1 of its processes cannot be read" in topology.warnings[0]


@given(machine=machines(most=2))
@settings(max_examples=10, deadline=None)
def test_escaped_quotes_are_undone(machine: tuple[Card, ...]) -> None:
    topology = read_text(print_xml(machine).replace('"', '\\"'))
    assert topology.gpus == tuple(card.gpu(index) for index, card in enumerate(machine))
    assert "quotes" in " ".join(topology.warnings)


@given(machine=machines(most=2))
@settings(max_examples=10, deadline=None)
def test_hosts_that_write_at_once_are_told_apart(machine: tuple[Card, ...]) -> None:
    """`srun -l` mixes the lines of its tasks; two tasks on one host say the same, two hosts are not one machine."""
    lines = print_xml(machine).splitlines()
    mixed = "\n".join(f"{task}: {line}" for line in lines for task in range(2)) + "\n"
    assert read_text(mixed).gpus == tuple(card.gpu(index) for index, card in enumerate(machine))
    other = [re.sub("GPU-.", lambda match: f"GPU-{(int(match[0][-1], 16) + 1) % 16:x}", line) for line in lines]
    mixed = "\n".join(f"{task}: {line}" for pair in zip(lines, other, strict=True) for task, line in enumerate(pair)) + "\n"
    with pytest.raises(TopologyError, match="UUID"):
        read_text(mixed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>", "shows no GPU", id="no GPU"),
        pytest.param('  <gpu id="00000000:03:00.0">\n    <uuid>GPU-1</uuid>\n  </gpu>\n', "fragment", id="fragment"),
        pytest.param(
            "<nvidia_smi_log>" + '<gpu id="00000000:03:00.0"><uuid>GPU-1</uuid></gpu>' * 2 + "</nvidia_smi_log>", "shown twice", id="twice",
        ),
        pytest.param("<nvidia_smi_log>" + "<gpu></gpu>" * 1025 + "</nvidia_smi_log>", "no machine has", id="too many GPUs"),
        pytest.param("<nvidia_smi_log><gpu/></nvidia_smi_log>\n" * 65, "more than 64 documents", id="too many documents"),
    ],
)  # fmt: skip
def test_what_is_no_machine_is_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        read_text(text)


def test_a_mention_is_no_output() -> None:
    topology = read_text("The root is <nvidia_smi_log>, I think.\n\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n")
    assert dict(topology.links) == {(0, 1): "NV4"}
    assert topology.warnings == ()


def test_parts_left_out_are_said() -> None:
    text = "<nvidia_smi_log><attached_gpus>2</attached_gpus>\n<gpu id='00000000:03:00.0'>\n...\n<uuid>GPU-1</uuid></gpu></nvidia_smi_log>"
    assert "left out" in " ".join(read_text(text).warnings)


_LAUGHS = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
_GPU = '<gpu id="00000000:03:00.0"><product_name>{}</product_name></gpu>'


def _log(inner: str, before: str = "") -> str:
    return f"{before}<nvidia_smi_log><driver_version>1</driver_version>{inner}</nvidia_smi_log>"


HOSTILE = {
    "billion laughs": _log(_GPU.format("&j;"), _LAUGHS + "]>"),
    "billion laughs in the root": _log(_LAUGHS + "]>" + _GPU.format("&j;")),
    "external entity": _log(_GPU.format("&x;"), '<!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
    "default attributes": _log("<gpu/>" * 9, '<!DOCTYPE nvidia_smi_log [<!ATTLIST gpu id CDATA "1">]>'),
    "unknown entity": _log(_GPU.format("&x;")),
    "nesting": _log("<a>" * 2_700_000),
    "nesting that ends": _log("<a>" * 1_000_000 + "</a>" * 1_000_000),
    "attributes without end": _log("<gpu " + " ".join(f'a{k}="1"' for k in range(700_000)) + "/>"),
    "one attribute without end": _log(f'<gpu id="{"1" * 8_000_000}"/>'),
    "one text without end": _log(f"<gpu>{'1' * 8_000_000}</gpu>"),
    "elements without end": _log("<a/>" * 2_000_000),
    "a root without end": "<nvidia_smi_log " + "a " * 4_000_000,
    "a comment without end": _log("<!--" + "-" * 8_000_000),
    "brackets": _log("<" * 8_000_000),
    "roots": "<nvidia_smi_log>" * 500_000,
    "prefixes": "".join(f"{k}: <nvidia_smi_log><gpu>\n" for k in range(60)) + "59: x\n" * 1_000_000,
    "ends": "<nvidia_smi_log><gpu>" + "</nvidia_smi_log" * 500_000,
    "no UTF-8": _log("<gpu>\udcff\ufffd</gpu>" + "<a>\ufffd</a>" * 10 + "<"),
    "names of attributes": _log("".join(f'<gpu a{k}="1"/>' for k in range(300_000))),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_xml_that_means_harm_is_refused_at_once(name: str) -> None:
    text = HOSTILE[name][:8_388_000]
    begin = time.process_time()
    with pytest.raises(TopologyError):
        read_text(text)
    assert time.process_time() - begin < MOST_CPU_S


_CHILD = """
import sys
from topologies.errors import TopologyError
from topologies.read import read_bytes
try:
    read_bytes(sys.stdin.buffer.read(), name="-")
except TopologyError:
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.parametrize("name", ["elements without end", "names of attributes", "nesting", "prefixes", "attributes without end"])
def test_xml_that_means_harm_takes_no_memory(name: str) -> None:
    """The greediest of them, each in a process of its own; interpreter and text are counted."""
    data = HOSTILE[name][:8_388_000].encode("utf-8", errors="replace")
    child = subprocess.run([sys.executable, "-c", _CHILD], input=data, capture_output=True, check=True)
    assert 0 < int(child.stdout) * 1024 < 200 * 2**20


def test_a_large_output_is_quick() -> None:
    """16 GPUs with all their clocks."""
    clocks = "<supported_clocks>" + "<supported_graphics_clock>1410 MHz</supported_graphics_clock>\n" * 1500 + "</supported_clocks>"
    gpus = "".join(f'<gpu id="00000000:{k:02X}:00.0">{clocks}<uuid>GPU-{k}</uuid></gpu>\n' for k in range(16))
    begin = time.process_time()
    topology = read_text(_log(gpus))
    assert time.process_time() - begin < MOST_CPU_S
    assert len(topology.gpus) == 16


def test_the_bounds_are_exact() -> None:
    inner = "<a>" * (xml_text.DEEPEST - 2) + "</a>" * (xml_text.DEEPEST - 2)
    assert len(read_text(_log("<gpu>" + inner + "</gpu>")).gpus) == 1
    with pytest.raises(TopologyError, match="deep"):
        read_text(_log("<gpu><a>" + inner + "</a></gpu>"))


@given(machine=machines(most=2))
@settings(max_examples=10, deadline=None)
def test_brackets_written_as_html_are_undone_and_said(machine: tuple[Card, ...]) -> None:
    """A page that shows XML, or a chat that escapes it."""
    for quote in (True, False):
        topology = read_text(html.escape(print_xml(machine), quote=quote))
        assert topology.gpus == tuple(card.gpu(index) for index, card in enumerate(machine))
        assert "HTML" in " ".join(topology.warnings)
    text = html.escape(print_xml(machine))
    with pytest.raises(TopologyError, match="it is cut"):
        read_text(text[: text.index("&lt;product_name")])


@given(machine=machines(), kept=st.integers(0, 15))
@settings(max_examples=15, deadline=None)
def test_a_bus_id_that_is_not_whole_is_unknown(machine: tuple[Card, ...], kept: int) -> None:
    text = print_xml(machine)
    for card in machine:
        text = text.replace(card.bus_id, card.bus_id[:kept])
    topology = read_text(text)
    assert [gpu.pci_bus_id for gpu in topology.gpus] == [None] * len(machine)
    assert sum("is not whole" in warning for warning in topology.warnings) == (len(machine) if kept else 0)
