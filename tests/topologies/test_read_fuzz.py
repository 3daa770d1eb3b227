"""Collected texts, damaged at random: they are read or refused, and what is read can be written and read again."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_properties import found, holds, holds_for_hosts, holds_for_networks, seeds

from topologies.documents.document import SCHEMA, to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.read import read_bytes

TEXTS = seeds()
PIECES = [
    "\t", "\n", "\r", " ", "|", "#", "X", "N/A", "...", "GPU0", "GPU7", "GPU1023", "NIC3", "mlx5_1", "NV4", "NV0", "NV99", "NV١٢", "SYS",
    "GPU٣", "0-31,", "CPU Affinity", "index, name\n0, NVIDIA L4\n", "affinity with CPU 3: 4, 5", "\x1b[4m", "\\t", "\\n", "\0", "\ufeff",
    "\u200b", "é", "²", "9" * 60, f"schema: {SCHEMA}\n", "{", "}", "[", "]", ":", ",", '"', "'", "!!int",
    "&a", "*a", "<<: ", "\xff", "\u2028",
]  # fmt: skip


def damaged(dice: random.Random, texts: Sequence[bytes] = TEXTS) -> bytes:
    """Return one of *texts* with up to eight damages: pieces lost, moved, doubled, taken from another text, or put in."""
    data = bytearray(dice.choice(texts))
    for _ in range(dice.randrange(8)):
        start = dice.randrange(len(data) + 1)
        end = min(len(data), start + dice.choice((0, 1, 1, 3, 20, 200)))
        match dice.randrange(6):
            case 0:
                del data[start:end]
            case 1:
                data[start:start] = data[start:end] * dice.choice((1, 2, 40))
            case 2:
                other = dice.choice(texts)
                begin = dice.randrange(len(other))
                data[start:end] = other[begin : begin + dice.choice((5, 80, 1000))]
            case 3:
                data[start:end] = dice.choice(PIECES).encode()
            case 4:
                data[start:end] = bytes(dice.randrange(256) for _ in range(end - start))
            case 5:
                lines = data.split(b"\n")
                dice.shuffle(lines)
                data = bytearray(b"\n".join(lines))
    return bytes(data)


@given(st.integers(0, 2**64))
def test_a_damaged_text_is_read_or_refused(seed: int) -> None:
    data = damaged(random.Random(seed))
    holds(data)
    holds_for_hosts(data)


SITES = (
    b"SwitchName=leaf0 Nodes=node[0-3]\nSwitchName=leaf1 Nodes=node[4-7]\nSwitchName=spine Switches=leaf[0-1]\n",
    b"BlockName=b0 Nodes=node[0-3]\nBlockName=b1 Nodes=node[4-7] \\\n# end\nBlockSizes=4\n",
    b"network: {rails: 8, gb_per_s: 50, domains: [{name: a, kind: leaf, hosts: ['node[0-7]']}, {name: b, kind: leaf, within: a}]}\n",
    b"- topology: a\n  tree:\n    switches:\n      - {switch: s0, children: s1}\n      - {switch: s1, nodes: 'node[0-3]'}\n",
)


@given(st.integers(0, 2**64))
def test_a_damaged_network_is_read_or_refused(seed: int) -> None:
    holds_for_networks(damaged(random.Random(seed), SITES))


def test_the_networks_are_read_before_they_are_damaged() -> None:
    assert all(map(holds_for_networks, SITES))


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_every_collected_text_holds(number: int) -> None:
    for check in (holds, holds_for_hosts, holds_for_networks):
        check(TEXTS[number])


@pytest.mark.parametrize("part", range(10))
def test_what_the_fuzzer_kept_holds(part: int) -> None:
    for data in found()[part::10]:
        for check in (holds, holds_for_hosts, holds_for_networks):
            check(data)


@given(st.integers(0, 2**64))
def test_a_damaged_document_is_read_or_refused(seed: int) -> None:
    """JSON that is cut, shifted and mixed is mostly YAML, so this tries both."""
    dice = random.Random(seed)
    try:
        written = json.dumps(to_document(read_bytes(dice.choice(TEXTS), name="x")), indent=dice.choice((None, 1)))
    except TopologyError:
        return
    text = written
    for _ in range(dice.randrange(4)):
        start = dice.randrange(len(f'{{"schema": "{SCHEMA}"') + 1, len(text))
        end = start + dice.choice((0, 1, 1, 3, 20))
        text = text[:start] + dice.choice((dice.choice(PIECES), text[start:end] * 2)) + text[end:]
    try:
        topology = read_bytes(text.encode(), name="x")
    except TopologyError as error:
        assert str(error).startswith("x")
        str(error).encode()
        return
    assert from_document(to_document(topology)) == topology
