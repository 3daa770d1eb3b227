"""What a link is worth: measured classes, shares where there is none, agreement with measured machines."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

import placement
from topologies.cards import Card, cards, find_card
from topologies.links import LinkKind, link, nvlink, parse_code, pcie_port

P2P = Path(placement.__path__[0]) / "data" / "validation" / "p2p"

A100, V100, H100 = (find_card(slug) for slug in ("a100-80gb", "v100-32gb", "h100-80gb"))
CARD_OF_GEN = {3: V100, 4: A100, 5: H100}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("NV1", (LinkKind.NVLINK, 1)),
        ("NV18", (LinkKind.NVLINK, 18)),
        ("PIX", (LinkKind.PIX, 0)),
        ("SYS", (LinkKind.SYS, 0)),
        pytest.param("SOC", (LinkKind.SYS, 0), id="the old word for SYS"),
        pytest.param("NV77", (LinkKind.UNKNOWN, 0), id="more NVLinks than NVML can count"),
        pytest.param("NV0", (LinkKind.UNKNOWN, 0), id="no NVLink at all"),
        pytest.param("XGMI", (LinkKind.XGMI, 1), id="AMD's direct link"),
        pytest.param("PCIE", (LinkKind.PCIE, 0), id="AMD's word for PCIe of any level"),
        pytest.param("MXLK", (LinkKind.UNKNOWN, 0), id="another vendor's code"),
        pytest.param(None, (LinkKind.UNKNOWN, 0), id="not stated"),
    ],
)
def test_codes_are_understood_or_unknown(code, expected):
    assert parse_code(code) == expected


def nvlink_class(code: str, card: Card) -> float:
    found = link(code, card, card)
    assert not found.derived
    return found.gb_per_s


def test_every_measured_nvlink_class_beats_every_pcie_class_of_its_card():
    for card in cards():
        if card.nvlink_links:
            assert nvlink(card.nvlink_links, card, card).gb_per_s > pcie_port(card).gb_per_s


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.slug)
def test_no_link_promises_more_than_its_peak(card):
    for count in range(1, card.nvlink_links + 1):
        assert 0 < nvlink(count, card, card).gb_per_s <= count * card.nvlink_gb_per_s_per_link
    peak = {3: 15.75, 4: 31.5, 5: 63, 6: 126}[card.pcie_gen]
    p2p, across = link("PIX", card, card), link("SYS", card, card)
    assert 0 < across.gb_per_s <= p2p.gb_per_s < peak


def test_more_nvlinks_are_never_slower():
    for card in cards():
        rates = [nvlink(count, card, card).gb_per_s for count in range(1, card.nvlink_links + 1)]
        assert rates == sorted(rates)


def test_a_class_that_nobody_measured_says_that_it_is_derived():
    found = link("NV4", A100, A100)
    assert (found.gb_per_s, found.derived) == (90.0, True)
    assert found.source == "derived: 90% of 4 × 25 GB/s (NVLink 3)"
    gen6 = link("PIX", find_card("b300"), find_card("b300"))
    assert (gen6.gb_per_s, gen6.derived, gen6.source) == (100.8, True, "derived: 80% of PCIe Gen6 x16")


def test_unknown_cards_are_assumed_to_be_ordinary_and_say_so():
    assert link("NV12", None, None).source == "derived: 90% of 12 × 25 GB/s (card unknown)"
    assert link("PIX", None, None).source.endswith("(card unknown)")
    assert link("PIX", None, None).gb_per_s == pcie_port(A100).gb_per_s


def test_an_nvlink_code_on_a_card_without_nvlink_is_taken_at_its_word():
    l40s = find_card("l40s")
    assert (
        link("NV4", l40s, l40s).source == "derived: 90% of 4 × 25 GB/s (l40s has no NVLink in the catalogue)"
    )


def test_the_older_end_decides():
    assert link("PIX", V100, H100) == link("PIX", H100, V100) == link("PIX", V100, V100)
    assert link("NV2", V100, H100) == link("NV2", V100, V100)


def test_an_unknown_link_is_staged_through_the_host_and_says_so():
    for code, why in ((None, "link unknown"), ("ICN7", "link code 'ICN7' not understood")):
        found = link(code, A100, A100)
        assert found.kind is LinkKind.UNKNOWN
        assert found.gb_per_s < link("SYS", A100, A100).gb_per_s
        assert found.source.startswith(f"{why}: taken as staged through the host; PCIe Gen4 x16")


def test_consumer_cards_are_staged_through_the_host_at_every_distance():
    rtx4090 = find_card("rtx4090")
    near, far = link("PIX", rtx4090, rtx4090), link("SYS", rtx4090, rtx4090)
    assert near.gb_per_s == far.gb_per_s == link(None, A100, A100).gb_per_s
    assert near.source.startswith("no P2P on this card, staged through the host; ")
    assert link("PIX", rtx4090, A100).gb_per_s == near.gb_per_s


def test_consumer_cards_with_a_bridge_use_it():
    rtx3090 = find_card("rtx3090")
    assert link("NV4", rtx3090, rtx3090).kind is LinkKind.NVLINK


def test_power9_crosses_sockets_faster_than_pcie():
    assert link("SYS", V100, V100, is_power9=True).gb_per_s == 29.0
    assert link("NODE", V100, V100, is_power9=True) == link("NODE", V100, V100)


# Per matrix: which of its rates to take, and the PCIe generation (a card can sit in an older slot).
ONE_WAY, TWO_WAY = "unidirectional_p2p_enabled", "bidirectional_p2p_enabled"
MATRICES = {
    "002": (ONE_WAY, 5, {"PIX", "NODE", "SYS"}),
    "003": (TWO_WAY, 5, {"PIX", "NODE"}),
    "005": (ONE_WAY, 4, {"PXB", "SYS"}),
    "008": (TWO_WAY, 3, {"NV2"}),
    # Pairs without NVLink have no P2P there, and staged copies do not double in two directions.
    "009": (TWO_WAY, 3, {"NV1", "NV2"}),
    "010": (TWO_WAY, 4, {"NODE", "SYS"}),
    "011": (ONE_WAY, 4, {"NODE", "SYS"}),
    "012": (ONE_WAY, 5, {"NV18"}),
    "015": (ONE_WAY, 3, {"NV3", "SYS"}),
    "018": (ONE_WAY, 4, {"PHB"}),
    "019": (ONE_WAY, 3, {"NODE", "SYS"}),
    "025": (ONE_WAY, 5, {"NODE"}),
    "027": (ONE_WAY, 3, {"NODE"}),
}
STAGED = {"011": find_card("rtx4090"), "025": find_card("rtx5090")}


def test_every_measured_matrix_is_compared_or_known_to_read_low():
    """006 reads 205–260 GB/s for reasons of clocks, as its own note says; the class is 275."""
    assert {file.stem for file in P2P.glob("*.json")} == set(MATRICES) | {"006"}


@pytest.mark.parametrize("name", MATRICES)
def test_class_constants_are_within_a_tenth_of_the_measured_medians(name):
    table, gen, expected_codes = MATRICES[name]
    measured = json.loads((P2P / f"{name}.json").read_text(encoding="utf-8"))
    rates: dict[str, list[float]] = {}
    for i, row in enumerate(measured["links"]):
        for j, code in enumerate(row):
            if i != j and code in expected_codes:
                rates.setdefault(code, []).append(measured[table][i][j] / (2 if table == TWO_WAY else 1))
    assert set(rates) == expected_codes
    for code, values in rates.items():
        if name == "027":  # RTX 3090 in Gen3 slots: the staged class of that generation
            predicted = link(None, V100, V100)
        else:
            card = STAGED.get(name, CARD_OF_GEN[gen])
            predicted = link(code, card, card, is_power9=name == "015")
        assert predicted.gb_per_s == pytest.approx(statistics.median(values), rel=0.1), code
