"""The card catalogue: found by what drivers and users call a card, assigned where no source names one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.cards import TORCH_OVERHEAD_MIB, assign_cards, card_of, cards, find_card
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology


def machine(*gpus: Gpu) -> Topology:
    return Topology(gpus)


def test_slugs_and_names_are_unique():
    slugs = [card.slug for card in cards()]
    assert len(slugs) == len(set(slugs))
    names = [name for card in cards() for name in card.nvml_names]
    assert len(names) == len(set(names))


def test_the_cards_that_users_type_are_there():
    wanted = (
        "a100-40gb a100-80gb a100-pcie-40gb a100-pcie-80gb h100-80gb h100-nvl h200 b200 l40s rtx4090 "
        "rtx3090 a6000 v100-16gb v100-32gb p100-16gb a800-80gb"
    )
    assert set(wanted.split()) <= {card.slug for card in cards()}


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.slug)
def test_a_card_is_found_by_everything_it_is_called(card):
    for name in (card.slug, *card.nvml_names):
        assert find_card(name) == card
        assert find_card(name.upper()) == card
        assert card_of(Gpu(0, name=name)) == card
    for name in card.aliases:
        assert find_card(name, memory_mib=card.total_mib) == card


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.slug)
def test_facts_are_plausible(card):
    assert 0 < card.torch_mib < card.total_mib
    assert card.memory_gb_per_s > 100
    assert card.dense_16bit_tflops > 10
    assert (card.nvlink_links == 0) == (card.nvlink_gb_per_s_per_link == 0) == (card.nvlink_gen == 0)
    assert card.pcie_lanes == 16
    assert card.source
    assert card.torch_source


def test_torch_memory_comes_from_logs_where_there_are_some():
    assert find_card("a100-80gb").torch_mib == 81152  # 79.25 GiB
    assert find_card("h100-80gb").torch_mib == 81080  # 79.18 GiB
    assert find_card("l40s").torch_mib == 45486  # 44.42 GiB
    assert find_card("h200").torch_mib == find_card("h200").total_mib - TORCH_OVERHEAD_MIB


def test_capabilities_are_known_except_for_amd():
    assert find_card("a100-80gb").compute_capability == (8, 0)
    assert find_card("rtx4090").compute_capability == (8, 9)
    assert find_card("b200").compute_capability == (10, 0)
    assert find_card("mi300x").compute_capability == (0, 0)


def test_only_consumer_cards_lack_p2p():
    assert {card.slug for card in cards() if not card.p2p_over_pcie} == {
        "rtx2080ti",
        "rtx3090",
        "rtx4090",
        "rtx5090",
    }


@pytest.mark.parametrize(
    ("memory_mib", "slug"),
    [
        pytest.param(40960, "a100-40gb", id="40 GB"),
        pytest.param(40536, "a100-40gb", id="40 GB, old driver"),
        pytest.param(81251, "a100-80gb", id="80 GB, old driver"),
    ],
)
def test_memory_decides_between_cards_of_one_name(memory_mib, slug):
    assert find_card("A100", memory_mib=memory_mib).slug == slug
    assert card_of(Gpu(0, name="a100", memory_mib=memory_mib)) == find_card(slug)


@pytest.mark.parametrize(
    ("text", "memory_mib", "message"),
    [
        pytest.param(
            "a100", None, "'a100' is the name of several cards: write a100-40gb or a100-80gb", id="open"
        ),
        pytest.param(
            "a100", 24576, "'a100' is the name of several cards: write a100-40gb or a100-80gb", id="neither"
        ),
        pytest.param(
            "h20O",
            None,
            "there is no card 'h20O' in the catalogue (`placement catalog gpus` lists them); "
            "did you mean h20 or h200 or gh200?",
            id="typing error",
        ),
        pytest.param(
            "zzz",
            None,
            "there is no card 'zzz' in the catalogue (`placement catalog gpus` lists them)",
            id="nothing like it",
        ),
    ],
)
def test_an_unclear_card_is_refused_with_the_remedy(text, memory_mib, message):
    with pytest.raises(TopologyError) as caught:
        find_card(text, memory_mib=memory_mib)
    assert str(caught.value) == message


@given(st.text(max_size=30))
def test_any_text_is_a_card_or_a_topology_error(text):
    try:
        found = find_card(text)
    except TopologyError:
        return
    assert found in cards()


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(Gpu(0), id="nothing known"),
        pytest.param(Gpu(0, memory_mib=81920), id="memory alone names no card"),
        pytest.param(Gpu(0, name="NVIDIA Z9000", memory_mib=81920), id="a name that the catalogue lacks"),
        pytest.param(Gpu(0, name="a100"), id="a name of two cards without memory"),
    ],
)
def test_what_names_no_card_has_none(gpu):
    assert card_of(gpu) is None


def test_a_named_card_stays_itself_whatever_its_memory():
    """A driver may reserve memory; the chip is what the name says, and the memory is a fact of its own."""
    assert card_of(Gpu(0, name="Tesla V100-SXM2-32GB", memory_mib=30000)) == find_card("v100-32gb")


def test_one_card_is_given_to_all():
    assigned = assign_cards(machine(Gpu(0), Gpu(1)), " a100-40gb ")
    assert [(gpu.name, gpu.memory_mib) for gpu in assigned.gpus] == [("NVIDIA A100-SXM4-40GB", 40960)] * 2
    assert assigned.warnings == ()


def test_cards_are_given_by_index_and_the_others_stay_unknown():
    assigned = assign_cards(machine(*(Gpu(i) for i in range(5))), "0-1=a100-40gb, 3 = a100-80gb")
    assert [gpu.memory_mib for gpu in assigned.gpus] == [40960, 40960, None, 81920, None]


def test_facts_of_a_source_are_kept():
    stated = Gpu(0, name="NVIDIA A100-SXM4-80GB", memory_mib=81251)
    assert assign_cards(machine(stated), "a100-80gb").gpus == (stated,)
    assert assign_cards(machine(Gpu(0, memory_mib=40536)), "a100").gpus[0].memory_mib == 40536


def test_an_unknown_product_can_be_planned_as_a_known_one():
    assigned = assign_cards(machine(Gpu(0, name="NVIDIA Z9000", memory_mib=70000)), "h100-80gb")
    assert card_of(assigned.gpus[0]) == find_card("h100-80gb")
    assert assigned.gpus[0].memory_mib == 70000
    assert assigned.warnings == (
        "GPU 0 is 'NVIDIA Z9000', which is not in the catalogue; it is taken as h100-80gb",
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("0-2=a100-40gb", "--gpu '0-2=a100-40gb' names GPU 2; this machine has GPUs 0 to 1"),
        ("0=a100-40gb,0=a100-80gb", "--gpu '0=a100-40gb,0=a100-80gb' names GPU 0 twice"),
        ("1-0=a100-40gb", "--gpu '1-0=a100-40gb': the range 1-0 runs backwards"),
        ("0=", "--gpu '0=': '0=' is not of the form 0-3=a100-40gb"),
        ("=a100-40gb", "--gpu '=a100-40gb': '=a100-40gb' is not of the form 0-3=a100-40gb"),
        ("0=a100-40gb,", "--gpu '0=a100-40gb,': '' is not of the form 0-3=a100-40gb"),
        ("0=a=b", "--gpu '0=a=b': '0=a=b' is not of the form 0-3=a100-40gb"),
        ("", "there is no card '' in the catalogue (`placement catalog gpus` lists them)"),
    ],
)
def test_a_malformed_assignment_is_refused(spec, message):
    with pytest.raises(TopologyError) as caught:
        assign_cards(machine(Gpu(0), Gpu(1)), spec)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        pytest.param(
            Gpu(0, name="NVIDIA L40S"),
            "--gpu says that GPU 0 is a100-40gb, but a source names it 'NVIDIA L40S': "
            "drop --gpu or correct it (that card is l40s)",
            id="another name",
        ),
        pytest.param(
            Gpu(0, memory_mib=81920),
            "--gpu says that GPU 0 is a100-40gb (40960 MiB), but a source gives it 81920 MiB: "
            "drop --gpu or correct it",
            id="another memory",
        ),
    ],
)
def test_an_assignment_that_contradicts_a_source_is_refused(gpu, message):
    with pytest.raises(TopologyError) as caught:
        assign_cards(machine(gpu), "a100-40gb")
    assert str(caught.value) == message


def test_the_name_that_rocm_smi_prints_is_a_card() -> None:
    card = card_of(Gpu(0, name="AMD Instinct MI300X OAM"))
    assert card is not None
    assert card.slug == "mi300x"
