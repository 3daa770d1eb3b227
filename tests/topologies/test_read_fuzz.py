"""Collected texts, damaged at random: they are read or refused, and what is read can be written and read again."""

from __future__ import annotations

import json
import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from topologies.document import SCHEMA, from_document, to_document
from topologies.errors import TopologyError
from topologies.read import read_bytes

FOLDER = Path(__file__).parent.parent / "data" / "topology"
TEXTS = [path.read_bytes() for path in sorted(FOLDER.glob("*.txt"))]
PIECES = [
    "\t", "\n", "\r", " ", "|", "#", "X", "N/A", "...", "GPU0", "GPU7", "GPU1023", "NIC3", "mlx5_1", "NV4", "NV0", "NV99", "NV١٢", "SYS",
    "GPU٣", "0-31,", "CPU Affinity", "index, name\n0, NVIDIA L4\n", "affinity with CPU 3: 4, 5", "\x1b[4m", "\\t", "\\n", "\0", "\ufeff",
    "\u200b", "é", "²", "9" * 60, f"schema: {SCHEMA}\n", "{", "}", "[", "]", ":", ",", '"', "'", "!!int",
    "&a", "*a", "<<: ", "\xff", "\u2028",
]  # fmt: skip


def damaged(dice: random.Random) -> bytes:
    """Return a collected text with up to eight damages: pieces lost, moved, doubled, taken from another text, or put in."""
    data = bytearray(dice.choice(TEXTS))
    for _ in range(dice.randrange(8)):
        start = dice.randrange(len(data) + 1)
        end = min(len(data), start + dice.choice((0, 1, 1, 3, 20, 200)))
        match dice.randrange(6):
            case 0:
                del data[start:end]
            case 1:
                data[start:start] = data[start:end] * dice.choice((1, 2, 40))
            case 2:
                other = dice.choice(TEXTS)
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
    try:
        topology = read_bytes(data, name="x")
    except TopologyError as error:
        assert str(error).startswith("x")
        assert "\n" not in str(error)
        str(error).encode()
        return
    written = json.dumps(to_document(topology), ensure_ascii=False)
    assert read_bytes(written.encode(), name="y") == topology


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
