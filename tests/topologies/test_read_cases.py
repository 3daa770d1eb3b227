"""All collected texts, against what a good tool reads in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topologies.documents.document import error_document, to_document
from topologies.errors import TopologyError
from topologies.read import read_bytes

FOLDER = Path(__file__).parent.parent / "data" / "topology"
ABOUT_THE_CASE = frozenset({"case", "origin", "expect", "also_accept", "why", "hardware", "oddities"})
PER_GPU = frozenset({"cpu_affinity", "numa", "gpu_numa_id"})
"""Maps from GPU to value in a case, which stand in the entries of `gpus` in a document."""

NEVER_MORE = (
    "links", "nics", "gpu_nic", "rows_missing", "rows_partial_cells_seen", "conflict", "extra_column", "other_columns", "p2p",
    "p2p_kind", "gpu_links_up", "memory_total_mib", "weight", "hops",
)  # fmt: skip
"""Fields of a document that a case without them has nothing to say about: a document that has one claims too much."""

READS_DIFFERENTLY = {
    # The text shows one Markdown table, without a command; that it is the same for reads and writes its author knew.
    "205": {"p2p_kind": "unknown"},
}
"""
What no reader can know from the text of a case.

(The kind of case 204, ``n``, is not in its text either, but in the name of its file, which a user sees and the reader takes.)
"""

SAYS = {
    "002": (), "035": ("GPU7 is cut after 4", "NIC0 to NIC8"), "036": ("NIC6 to NIC11",),
    "037": ("NIC8NIC9", "NODENODE", "NODEPXB", "NIC1 to NIC11"), "047": ("NIC11CPU Affinity", "NV1", "GPU5 to GPU7"),
    "062": ("GPU7 is cut", "NOD"), "078": ("GPU6 is cut", "GPU7"), "079": ("GPU3 is cut", "GPU4 to GPU7"),
    "080": ("GPU6 is cut", "GPU7"), "088": ("2 matrices", "differ"), "089": ("one line",), "091": ("one line",),
    "094": ("device CPU",), "097": ("GPU5 to GPU15", "0-23,4"), "099": ("every cell is N/A",), "100": ("PPU", "not nvidia-smi"),
    "101": ("NV12", "SYS", "differ"), "102": ("GPU2 to GPU6",), "104": ("escapes",), "106": ("GPU6 is cut after 1", "GPU7"),
    "114": ("NV77",), "118": ("GPU1", "twice"), "120": ("GPU1 is short",), "207": ("GPU2", "missing"),
    "213": ("GPU1", "slow", "6, 11, 12"), "217": ("2 of the 4", "inactive", "1, 3"), "224": ("no header", "guessed"),
    "225": ("[Unknown Error]", "GPU1"), "226": ("no header", "guessed", "[N/A]"), "232": ("not name GPU2",),
    "242": ("not well-formed",), "243": ("not well-formed",), "247": ("BAR1",), "256": ("not well-formed",), "257": ("is a fragment",),
    "258": ("graph", "not a topology"), "263": ("hops", "missing"), "271": ("Failed to run topology matrix",),
    "272": ("Failed to run topology matrix",), "273": ("wrong flags",), "275": ("driver does not run",),
    "278": ("lost", "0000:B1:00.0"), "901": ("wrapped",), "903": ("prefix",), "907": ("prefix",),
    "910": ("8 GPU rows", "2 other rows", "X positions"), "911": ("GPU3 to GPU7",),
}  # fmt: skip
"""What a warning or an error must convey of a case's `why`."""


def _cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        (source,) = (p for p in FOLDER.glob(path.stem + ".*") if p.suffix != ".json")
        found.append(pytest.param(case, source, id=path.stem))
    return found


CASES = _cases()


def _document(source: Path) -> dict[str, Any]:
    try:
        return to_document(read_bytes(source.read_bytes(), name=source.name))
    except TopologyError as error:
        return error_document(str(error))


def _found(name: str, document: dict[str, Any]) -> Any:
    """Return what *document* says under the *name* of a field of the cases."""
    if name in PER_GPU:
        return {str(gpu["index"]): gpu[name] for gpu in document["gpus"]}
    return len(document["gpus"]) if name == "gpus" else document.get(name, "no such field")


@pytest.mark.parametrize(("case", "source"), CASES)
def test_case(case: dict[str, Any], source: Path) -> None:
    """Status, message and every field are those of the case, and no field says more."""
    document = _document(source)
    said = " ".join((*document.get("warnings", ()), document.get("error", "")))
    assert document["status"] in (case["expect"], case.get("also_accept", case["expect"])), said
    assert bool(said.strip()) == (document["status"] != "ok")
    if document["status"] != "ok":
        for words in SAYS.get(case["case"], ()):
            assert words in said
    if document["status"] == "error":
        return
    expected = {name: value for name, value in case.items() if name not in ABOUT_THE_CASE}
    expected |= READS_DIFFERENTLY.get(case["case"], {})
    assert {name: _found(name, document) for name in expected} == expected
    for name in NEVER_MORE:
        is_counted = name in ("nics", "gpu_nic") and "nic_count" in expected
        assert name in expected or is_counted or not document.get(name), name
    for name in PER_GPU - expected.keys():
        assert case["format"].startswith("nccl") or all(gpu[name] is None for gpu in document["gpus"])


def test_every_text_has_a_case_and_every_case_a_text() -> None:
    """A pair of files that a pattern overlooks would be tried by no test."""
    stems = {path.stem for path in FOLDER.iterdir() if path.suffix in (".txt", ".csv", ".xml")}
    assert stems == {path.stem for path in FOLDER.glob("*.json")} == {case.id for case in CASES}
    assert len(CASES) == 97


def test_a_case_that_is_not_ok_is_explained() -> None:
    """Whoever adds such a case states what its message must convey; one that is always read without a word needs none."""
    cases = [parameters.values[0] for parameters in CASES]
    assert {c["case"] for c in cases if c["expect"] != "ok"} <= SAYS.keys() <= {c["case"] for c in cases}
    assert all(SAYS[c["case"]] for c in cases if c["expect"] != "ok" and "also_accept" not in c)
