"""All collected texts of the formats that are read, against what a good tool reads in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topologies.document import error_document, to_document
from topologies.errors import TopologyError
from topologies.read import read_bytes

FOLDER = Path(__file__).parent.parent / "data" / "topology"
FORMATS = ("topo-m", "topo-mp", "topo-c", "error")
ABOUT_THE_CASE = ("case", "origin", "expect", "also_accept", "why", "hardware", "oddities")
PER_GPU = ("cpu_affinity", "numa", "gpu_numa_id")
FACTS = (
    "links", "nics", "gpu_nic", "rows_missing", "rows_partial_cells_seen", "conflict", "extra_column", "other_columns", "p2p",
    "p2p_kind",
)  # fmt: skip
"""Fields that a document may have besides: a case without one has nothing to say about it."""

SAYS = {
    "002": (), "035": ("GPU7 is cut after 4", "NIC0 to NIC8"), "036": ("NIC6 to NIC11",),
    "037": ("NIC8NIC9", "NODENODE", "NODEPXB", "NIC1 to NIC11"), "047": ("NIC11CPU Affinity", "NV1", "GPU5 to GPU7"),
    "062": ("GPU7 is cut", "NOD"), "078": ("GPU6 is cut", "GPU7"), "079": ("GPU3 is cut", "GPU4 to GPU7"),
    "080": ("GPU6 is cut", "GPU7"), "088": ("2 matrices", "differ"), "089": ("one line",), "091": ("one line",),
    "094": ("device CPU",), "097": ("GPU5 to GPU15", "0-23,4"), "099": ("every cell is N/A",), "100": ("PPU", "not nvidia-smi"),
    "101": ("NV12", "SYS", "differ"), "102": ("GPU2 to GPU6",), "104": ("escapes",), "106": ("GPU6 is cut after 1", "GPU7"),
    "114": ("NV77",), "118": ("GPU1", "twice"), "120": ("GPU1 is short",), "271": ("Failed to run topology matrix",),
    "272": ("Failed to run topology matrix",), "273": ("wrong flags",), "275": ("driver does not run",),
    "278": ("lost", "0000:B1:00.0"), "901": ("wrapped",), "903": ("prefix",), "907": ("prefix",),
    "910": ("8 GPU rows", "2 other rows", "X positions"), "911": ("GPU3 to GPU7",),
}  # fmt: skip
"""What a warning or an error must convey of a case's `why`."""


def _cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if case["format"] in FORMATS:
            source = next(p for p in FOLDER.glob(path.stem + ".*") if p.suffix != ".json")
            found.append(pytest.param(case, source, id=path.stem))
    return found


def _document(source: Path) -> dict[str, Any]:
    try:
        return to_document(read_bytes(source.read_bytes(), name=source.name))
    except TopologyError as error:
        return error_document(str(error))


@pytest.mark.parametrize(("case", "source"), _cases())
def test_case(case: dict[str, Any], source: Path) -> None:
    """Status, message and every field are those of the case, and no field says more."""
    document = _document(source)
    assert document["status"] in (case["expect"], case.get("also_accept", case["expect"]))
    said = " ".join((*document.get("warnings", ()), document.get("error", "")))
    assert bool(said.strip()) == (document["status"] != "ok")
    for words in SAYS.get(case["case"], ()):
        assert words in said
    if document["status"] == "error":
        return
    expected = {name: value for name, value in case.items() if name not in ABOUT_THE_CASE}
    found: dict[str, Any] = {name: document[name] for name in FACTS if document.get(name)}
    found |= {
        "format": document["format"],
        "gpus": len(document["gpus"]),
        "links_complete": document["links_complete"],
    }
    found |= {"links": document["links"]}
    for name in PER_GPU:
        if name in document.get("columns", ()):
            found[name] = {str(gpu["index"]): gpu[name] for gpu in document["gpus"]}
        else:
            assert all(gpu[name] is None for gpu in document["gpus"])
    assert found == expected


def test_a_case_that_is_not_ok_is_explained() -> None:
    """Whoever adds such a case states what its message must convey."""
    cases = [parameters.values[0] for parameters in _cases()]
    assert {c["case"] for c in cases if c["expect"] != "ok"} <= SAYS.keys()
