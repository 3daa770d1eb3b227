"""The pools that verl builds from a map, without Ray: which, in which order, and what is refused."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.errors import InputError
from placement.maps.seats import Seat, read_seats
from placement.targets.verl_agreement import Needs, disagreements
from placement.targets.verl_lanes import Lanes
from placement.targets.verl_pools import (
    Node,
    VerlPool,
    creation_order,
    find_nodes,
    node_list,
    start_line,
    verl_pools,
)
from placement.targets.verl_ranks import Placed, table, why
from placement.text import strict_yaml


def of(groups: str) -> tuple[VerlPool, ...]:
    return verl_pools(read_seats(strict_yaml.load(f"device_map: {groups}")))


def nodes(*said: tuple[str, int], busy: float = 0, cpus: float = 100) -> list[Node]:
    return [Node(f"id-{name}", (name, f"{name}.lan"), gpus, gpus - busy, cpus) for name, gpus in said]


# ── pools ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_roles_of_one_group_are_one_pool() -> None:
    actor, critic = of("{actor: [4, 5, 6, 7], critic: [0, 1], ref: [4, 5, 6, 7], reward: [0, 1]}")
    assert (actor.name, actor.roles, actor.per_host) == ("actor_ref", ("actor", "ref"), 4)
    assert (critic.name, critic.seats) == ("critic_reward", (Seat(None, 0), Seat(None, 1)))


def test_pools_are_made_by_their_smallest_id_so_that_a_usual_node_serves() -> None:
    """Actor 4-7 and critic 0-3: the critic's pool is made first, and takes the first GPUs of a node that offers 0, 1, 2 …"""
    found = of("{actor: [4, 5, 6, 7], critic: [0, 1, 2, 3]}")
    assert [part.pool for part in creation_order(found)] == ["critic", "actor"]
    assert node_list(found, None) == (0, 1, 2, 3, 4, 5, 6, 7)


def test_the_list_of_a_node_follows_the_order_of_ranks() -> None:
    found = of("{actor: [2, 3, 6, 7], critic: [4, 0], reward: [5, 1]}")
    assert node_list(found, None) == (4, 0, 5, 1, 2, 3, 6, 7)
    assert start_line(found, None) == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,0,5,1,2,3,6,7 ray start … --num-gpus=8"


def test_a_pool_over_two_hosts_keeps_their_order() -> None:
    actor, critic = of("{actor: ['b:0', 'b:1', 'a:2', 'a:3'], critic: ['a:0', 'a:1']}")
    assert [part.host for part in actor.parts] == ["b", "a"]
    assert actor.per_host == 2
    assert node_list((actor, critic), "a") == (0, 1, 2, 3)
    assert node_list((actor, critic), "b") == (0, 1)


REFUSED = {
    "{critic: [0]}": "the map has no actor",
    "{actor: [0], rollout: [1]}": "the map gives the rollout GPUs of its own",
    "{actor: [0], critc: [1]}": "verl has no role 'critc' (did you mean 'critic'?)",
    "{actor: [0, 1], critic: [1, 2]}": "actor and critic share GPU 1",
    "{actor: [0, 1], ref: [1, 0]}": "actor and ref share all GPUs, in another order of ranks",
    "{actor: ['a:0', 'b:0', 'a:1', 'b:1']}": "actor: its ranks leave a and come back to it",
    "{actor: ['a:0', 'a:1', 'b:0']}": "actor: a 2, b 1 GPUs; verl's pools have equally many",
}


@pytest.mark.parametrize("groups", REFUSED)
def test_what_verl_cannot_build_is_refused(groups: str) -> None:
    with pytest.raises(InputError) as caught:
        of(groups)
    assert str(caught.value).startswith(REFUSED[groups])


@given(st.permutations(range(8)), st.lists(st.integers(1, 7), max_size=3, unique=True))
def test_a_node_that_offers_its_list_gives_every_rank_its_gpu(order: list[int], cuts: list[int]) -> None:
    """Ray's rule, played through: each placement group takes the first free entries of the node's list."""
    bounds = [0, *sorted(cuts), 8]
    cut = zip(("actor", "critic", "ref", "reward"), bounds, bounds[1:], strict=False)
    groups = {role: tuple(Seat(None, g) for g in order[a:b]) for role, a, b in cut}
    found = verl_pools(groups)
    free = list(node_list(found, None))
    for part in creation_order(found):
        taken, free = free[: len(part.gpus)], free[len(part.gpus) :]
        assert tuple(taken) == part.gpus
    assert not free


# ── the cluster ─────────────────────────────────────────────────────────────────────────────────────────────


def test_hosts_are_found_by_any_name_of_their_node() -> None:
    found = of("{actor: ['node1.lan:0'], critic: ['node0:3']}")
    matched = find_nodes(found, nodes(("node0", 4), ("node1", 2), ("head", 0)), cpus_per_gpu=3)
    assert {host: node.key for host, node in matched.items()} == {"node1.lan": "id-node1", "node0": "id-node0"}


def test_a_map_of_one_host_needs_no_name() -> None:
    matched = find_nodes(of("{actor: [0, 1]}"), nodes(("head", 0), ("box", 2)), cpus_per_gpu=3)
    assert matched[None].key == "id-box"


def clash(groups: str, cluster: Sequence[Node]) -> str:
    with pytest.raises(InputError) as caught:
        find_nodes(of(groups), cluster, cpus_per_gpu=3)
    return str(caught.value)


def test_a_cluster_that_is_not_the_one_of_the_map_is_refused_in_one_message() -> None:
    says = clash("{actor: ['nodeA:0', 'nodeA:1', 'node1:0', 'node1:3'], critic: ['node2:0']}", nodes(("node0", 4), ("node1", 1)))
    assert says == (
        "the Ray cluster is not the one of the map: no node of the Ray cluster with GPUs is called nodeA (did you mean 'node1'?); there is "
        "node0, node1: start its node with `--node-name=nodeA`; node1 offers 1 GPUs to Ray, and the map uses 2 of it: "
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,3 ray start … --num-gpus=2; no node of the Ray cluster with GPUs is called "
        "node2 (did you mean 'node1'?); there is node0, node1: start its node with `--node-name=node2`"
    )


def test_other_ways_in_which_a_cluster_does_not_fit() -> None:
    assert "and no node of the Ray cluster has GPUs" in clash("{actor: [0]}", nodes(("head", 0)))
    assert "2 nodes of the Ray cluster have GPUs (a, b): write its entries as host:gpu" in clash("{actor: [0]}", nodes(("a", 1), ("b", 1)))
    assert "2 nodes of the Ray cluster are called a" in clash("{actor: ['a:0']}", [*nodes(("a", 1)), *nodes(("a", 1))])
    assert "other jobs hold 1 of the 2 GPUs of a" in clash("{actor: [0]}", nodes(("a", 2), busy=1))
    assert "a has 5 CPUs free, and verl takes 3 for each of the 2 GPUs, 6" in clash("{actor: [0, 1]}", nodes(("a", 2), cpus=5))


# ── the configuration ───────────────────────────────────────────────────────────────────────────────────────

ALL = Needs(critic=True, ref=True, ref_in_actor=False, teacher=False)

RIGHT = {
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 4,
    "actor_rollout_ref.hybrid_engine": True,
    "actor_rollout_ref.rollout.name": "vllm",
    "reward.reward_model.enable": True,
    "reward.reward_model.enable_resource_pool": True,
    "reward.reward_model.nnodes": 1,
    "reward.reward_model.n_gpus_per_node": 2,
}

SPLIT = "{actor: [0, 1, 2, 3], ref: [0, 1, 2, 3], critic: [4, 5], reward: [6, 7]}"


def test_a_configuration_that_agrees() -> None:
    assert disagreements(of(SPLIT), ALL, RIGHT.get) == ()


@pytest.mark.parametrize(
    ("groups", "changes", "needs", "says"),
    [
        (SPLIT, {"trainer.n_gpus_per_node": 8}, {}, "trainer.n_gpus_per_node is 8, and the map has 4 GPUs for actor and ref: trainer."),
        (SPLIT, {"reward.reward_model.nnodes": 0}, {}, "reward.reward_model.nnodes is 0, and the map has 2 GPUs for reward"),
        (SPLIT, {"reward.reward_model.enable_resource_pool": False}, {}, "the map gives reward GPUs of its own"),
        (SPLIT, {"reward.reward_model.enable": False}, {}, "the map places reward, and the job has none: reward.reward_model.enable=True"),
        (SPLIT, {"actor_rollout_ref.hybrid_engine": False}, {}, "the actor of a map generates"),
        (
            SPLIT,
            {"actor_rollout_ref.rollout.tensor_model_parallel_size": 3},
            {},
            "engines of 3 GPUs (actor_rollout_ref.rollout.tensor_model_parallel_size=3) do not fill the 4 of actor and ref",
        ),
        (SPLIT, {}, {"critic": False}, "the map places critic, and the job has none"),
        (SPLIT, {}, {"ref": False}, "the map places ref, and the job has none"),
        (SPLIT, {}, {"teacher": True}, "distillation is on"),
        ("{actor: [0, 1, 2, 3], critic: [4, 5], reward: [6, 7]}", {}, {}, "the job has ref, and the map does not place it"),
        ("{actor: [0, 1, 2, 3], ref: [4, 5], critic: [4, 5], reward: [6, 7]}", {}, {"ref_in_actor": True}, "with LoRA the actor"),
        ("{actor: [0, 1, 2, 3], ref: [0, 1, 2, 3], critic: [4], reward: [0, 1, 2, 3]}", {}, {}, "the map gives reward the GPUs of"),
    ],
)
def test_contradictions_are_named_with_their_remedy(groups: str, changes: dict[str, object], needs: dict[str, bool], says: str) -> None:
    found = disagreements(of(groups), dataclasses.replace(ALL, **needs), {**RIGHT, **changes}.get)
    assert any(line.startswith(says) for line in found), found


# ── ranks ───────────────────────────────────────────────────────────────────────────────────────────────────


def rank(k: int, planned: int, visible: str | None, *, actual_node: str = "node0", noset: bool = False) -> Placed:
    return Placed("actor", k, Seat("node0", planned), "node0", actual_node, visible, noset)


def test_the_table_shows_planned_against_actual() -> None:
    ranks = [rank(0, 2, "2"), rank(1, 3, "0"), rank(2, 4, "4", actual_node="node10")]
    assert table(ranks) == (
        "pool   rank  planned  actual\n"
        "actor     0  node0:2  node0:2   ok\n"
        "actor     1  node0:3  node0:0   DIFFERS\n"
        "actor     2  node0:4  node10:4  DIFFERS"
    )
    assert why(ranks) == "2 of 3 ranks are not on their GPUs; actor rank 1 is on node0:0, and the map wants node0:3"


def test_why_names_the_cause() -> None:
    assert why([rank(0, 2, "2")]) is None
    noset = why([rank(0, 0, None, noset=True)])
    assert noset is not None
    assert noset.startswith("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES is set")
    uuid = why([rank(0, 0, "GPU-1f2e")])
    assert uuid is not None
    assert uuid.startswith("actor rank 0 sees 'GPU-1f2e', which is not the number of a GPU")


# ── lanes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_lanes_of_different_pools_work_side_by_side() -> None:
    """Each waits for the other: if they took turns, neither would end."""
    meeting = threading.Barrier(2, timeout=30)
    lanes = Lanes()
    lanes.start("critic", "values", meeting.wait)
    lanes.start("ref", "ref", meeting.wait)
    assert lanes.is_running("values")
    assert lanes.finish("values") >= 0
    lanes.finish("ref")
    assert not lanes.is_running("values")


def test_work_of_one_pool_takes_turns_in_order() -> None:
    done: list[str] = []
    go = threading.Event()
    lanes = Lanes()
    lanes.start("critic", "reward", lambda: (go.wait(30), done.append("reward")))
    lanes.start("critic", "values", lambda: done.append("values"))
    assert done == []
    go.set()
    lanes.finish("values")
    assert done == ["reward", "values"]
    lanes.finish("reward")


def test_what_fails_in_a_lane_fails_where_it_is_waited_for() -> None:
    def fails() -> None:
        raise ValueError("no memory")

    lanes = Lanes()
    lanes.start("critic", "values", fails)
    with pytest.raises(ValueError, match="no memory"):
        lanes.finish("values")
