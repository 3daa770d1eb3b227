"""`nvidia-smi -q` in a window that is narrower than its lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smi_query_machines import Card, machines, print_text

from topologies.read import read_text

LONG_NAME = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"


def wrapped(text: str, width: int, *, is_stripped: bool) -> str:
    pieces = [line[k : k + width] for line in text.split("\n") for k in range(0, max(len(line), 1), width)]
    return "\n".join(piece.rstrip() if is_stripped else piece for piece in pieces) + "\n"


@given(machine=machines(), width=st.integers(56, 100), is_stripped=st.booleans())
@settings(max_examples=40, deadline=None)
def test_wrapped_values_are_read_whole(machine: tuple[Card, ...], width: int, is_stripped: bool) -> None:
    topology = read_text(wrapped(print_text(machine), width, is_stripped=is_stripped))
    assert [(gpu.name, gpu.uuid) for gpu in topology.gpus] == [(card.name, card.uuid) for card in machine]
    assert not topology.warnings


@given(machine=machines(), width=st.integers(54, 100))
@settings(max_examples=40, deadline=None)
def test_values_that_are_cut_are_unknown(machine: tuple[Card, ...], width: int) -> None:
    text = print_text(machine)
    cut = re.sub(rf"(?m)^(.{{{width}}}).*", r"\1", text) + "\n"
    topology = read_text(cut)
    for gpu, card in zip(topology.gpus, machine, strict=True):
        assert gpu.uuid == (card.uuid if card.uuid in cut else None)
        assert gpu.name in (None, card.name)
        assert gpu.pci_bus_id == card.bus_id
        assert gpu.memory_mib in (None, card.fb[0])
    if any(card.uuid not in cut for card in machine):
        told = [warning for warning in topology.warnings if "cut after" in warning or "not whole" in warning]
        assert len(told) == 1


@pytest.mark.parametrize("width", [88, 90, 97])
@given(machine=machines(most=4))
@settings(max_examples=5, deadline=None)
def test_names_longer_than_uuids_are_put_together(machine: tuple[Card, ...], width: int) -> None:
    if len(machine) < 2:
        return
    text = re.sub(r"(Product Name +: ).*", rf"\1{LONG_NAME}", print_text(machine))
    assert {gpu.name for gpu in read_text(wrapped(text, width, is_stripped=False)).gpus} == {LONG_NAME}


@pytest.mark.parametrize("told", ["GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "GPU-1a2b...", "[redacted]", "GPU-****"])
@given(machine=machines())
@settings(max_examples=5, deadline=None)
def test_a_uuid_that_was_made_unreadable_is_unknown(machine: tuple[Card, ...], told: str) -> None:
    text = re.sub(r"GPU-[0-9a-f-]{36}", told, print_text(machine))
    topology = read_text(text)
    assert [(gpu.name, gpu.uuid) for gpu in topology.gpus] == [(card.name, None) for card in machine]
    assert len([warning for warning in topology.warnings if "UUID" in warning]) == 1
