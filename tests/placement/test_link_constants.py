"""A user's own numbers of links: each reaches the links that it is about, and plans count with it."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import BATCH, actor, ask, job, machine

from placement.checking import problems
from placement.constants.table import Override, constants, is_of_links, link_rates, sources
from placement.maps.devicemap import dump
from placement.maps.replay import replay
from placement.planner import plan
from placement.workloads.workload import Role, RoleName
from topologies.cards import find_card
from topologies.links import link

A100, V100, P100, B300, MI300X, MI250X, H100, H100_PCIE, RTX3090, RTX4090, RTX5090 = (
    find_card(slug)
    for slug in (
        "a100-80gb", "v100-32gb", "p100", "b300", "mi300x", "mi250x", "h100-80gb", "h100-pcie", "rtx3090", "rtx4090", "rtx5090",
    )
)  # fmt: skip

WHERE = {
    "nvlink_gen1_x2_gb_per_s": ("NV2", P100), "nvlink_gen2_x1_gb_per_s": ("NV1", V100), "nvlink_gen2_x2_gb_per_s": ("NV2", V100),
    "nvlink_gen2_x3_gb_per_s": ("NV3", V100), "nvlink_gen3_x12_gb_per_s": ("NV12", A100), "nvlink_gen4_x12_gb_per_s": ("NV12", H100_PCIE),
    "nvlink_gen4_x18_gb_per_s": ("NV18", H100), "nvlink_share": ("NV4", A100), "nvlink_unknown_card_gb_per_s_per_link": ("NV4", None),
    "xgmi_mi300x_gb_per_s": ("XGMI", MI300X), "xgmi_share": ("XGMI", MI250X),
    "pcie_gen3_p2p_gb_per_s": ("PIX", V100), "pcie_gen3_across_sockets_gb_per_s": ("SYS", V100), "pcie_gen3_staged_gb_per_s": (None, V100),
    "pcie_gen4_p2p_gb_per_s": ("NODE", A100), "pcie_gen4_across_sockets_gb_per_s": ("SYS", A100),
    "pcie_gen4_staged_gb_per_s": ("PIX", RTX4090),
    "pcie_gen5_p2p_gb_per_s": ("PXB", H100), "pcie_gen5_across_sockets_gb_per_s": ("SYS", H100),
    "pcie_gen5_staged_gb_per_s": ("PIX", RTX5090),
    "pcie_p2p_share": ("PIX", B300), "pcie_across_sockets_share": ("SYS", B300), "pcie_staged_share": (None, B300),
}  # fmt: skip
"""A link of which each number of links is the one that counts."""


@pytest.mark.parametrize("name", [name for name in sources() if is_of_links(name)])
def test_a_users_number_of_links_reaches_its_links_and_they_say_so(name: str) -> None:
    rates = link_rates([Override(name, getattr(constants(), name) / 2, "our own copies")])
    if name == "power9_across_sockets_gb_per_s":
        usual, own = (link("SYS", V100, V100, is_power9=True, rates=of) for of in (link_rates([]), rates))
    else:
        code, card = WHERE[name]
        usual, own = (link(code, card, card, rates=of) for of in (link_rates([]), rates))
    assert own.gb_per_s == pytest.approx(usual.gb_per_s / 2, rel=0.01)
    assert usual.derived or "given: our own copies" in own.source


def test_a_users_number_of_links_is_planned_with_and_checked() -> None:
    # At a fiftieth of what NVLinks carry, two GPUs are no faster than one.
    work = job(actor(), Role(RoleName.REWARD, None), batch=dataclasses.replace(BATCH, prompts=128, samples_per_prompt=2))
    own = (Override("nvlink_gen3_x12_gb_per_s", 5.5),)
    usual, slow = (ask(machine("NV12", 2), work, overrides=overrides) for overrides in ((), own))
    plans = [plan(question).plan for question in (usual, slow)]
    assert plans[0] is not None
    assert plans[1] is not None
    assert plans[0].estimate.step_us < plans[1].estimate.step_us
    assert problems(plans[1], slow) == []
    assert problems(plans[0], slow) != []
    assert usual.with_overrides(own).machine.wiring.links == slow.machine.wiring.links
    again, instance = replay(dump(plans[1]), name="map")
    assert (again, instance.machine.rates) == (plans[1], slow.machine.rates)
