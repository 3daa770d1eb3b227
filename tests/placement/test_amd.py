"""Machines of AMD cards are planned like others: engines run on them, XGMI is a link like NVLink."""

from __future__ import annotations

import pytest

import placement
from placement.checking import problems
from topologies.cards import assign_cards
from topologies.model import Gpu, Topology


def mesh(card: str, hive: int = 8) -> Topology:
    """Eight cards in groups of *hive* that XGMI joins, others over PCIe, half of them on each socket."""
    pairs = [(i, j) for i in range(8) for j in range(i + 1, 8)]
    return assign_cards(
        Topology(
            tuple(Gpu(k, numa=str(k // 4)) for k in range(8)),
            {(i, j): "XGMI" if i // hive == j // hive else "PCIE" for i, j in pairs},
        ),
        card,
    )


@pytest.mark.parametrize(("card", "hive"), [("mi300x", 8), ("mi325x", 8), ("mi250x", 4)])
def test_a_machine_of_amd_cards_has_a_plan_that_is_right(card: str, hive: int) -> None:
    instance = placement.make_instance(
        mesh(card, hive), placement.load_workload("ppo-7b"), placement.parse_rules("guide")
    )
    outcome = placement.plan(instance, solver=placement.SolverName.GREEDY)
    assert outcome.plan is not None
    assert problems(outcome.plan, instance) == []
    islands = [set(range(start, start + hive)) for start in range(0, 8, hive)]
    assert all(any(set(gpus) <= island for island in islands) for gpus in outcome.plan.device_map.values())
