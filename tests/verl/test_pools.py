"""Pools of device maps, made by verl's own classes on two nodes of four declared GPUs each, one of which offers them in another order."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import ray
from ray.util.placement_group import PlacementGroup, placement_group_table, remove_placement_group
from verl_jobs import RUNTIME, Files, cluster, composed, main_ppo, overrides

from placement.errors import InputError
from placement.maps.variables import NOSET

NODES = {"node0": "2,3,0,1", "node1": "0,1,2,3"}

SPLIT = {
    "actor": ["node0:2", "node0:3", "node1:0", "node1:1"],
    "ref": ["node0:2", "node0:3", "node1:0", "node1:1"],
    "critic": ["node1:2", "node1:3"],
}
"""The actor over both nodes, the critic on the second."""

UPSIDE_DOWN = {**SPLIT, "actor": [*SPLIT["actor"][2:], *SPLIT["actor"][:2]], "ref": [*SPLIT["ref"][2:], *SPLIT["ref"][:2]]}
"""The same with rank 0 on the second node, which verl would put first or second as its address is spelled."""

TWO_NODES = {"trainer.nnodes": 2, "trainer.n_gpus_per_node": 2}

ONE_NODE = {"trainer.n_gpus_per_node": 2}

REWARD = {
    "reward.reward_model.enable": True,
    "reward.reward_model.enable_resource_pool": True,
    "reward.reward_model.rollout.name": "vllm",
    "reward.reward_model.rollout.tensor_model_parallel_size": 1,
    "reward.reward_model.nnodes": 1,
    "reward.reward_model.n_gpus_per_node": 1,
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with cluster(NODES, modules=RUNTIME) as found:
        yield found


def probe(files: Files, address: str, groups: Mapping[str, object], said: Mapping[str, object]) -> Any:
    """Run the probe's `init` in this process, with verl's configuration tree; the pools are given back after it."""
    from verl.trainer.ppo.v1 import get_trainer_cls

    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    all_said = {"trainer.v1.trainer_mode": "placed_probe", "+trainer.v1.placed.map": files.map("probe", groups), **said}
    trainer = get_trainer_cls("placed_probe")(composed(files, all_said))
    before = ray.available_resources().get("GPU", 0)
    try:
        trainer.init()
    finally:
        give_back(before)
    return trainer


def give_back(gpus: float) -> None:
    """Remove all placement groups and wait until *gpus* are free, as they are when a job has ended."""
    for key, group in placement_group_table().items():
        if group["state"] != "REMOVED":
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(key))))
    end = time.monotonic() + 60
    while ray.available_resources().get("GPU", 0) < gpus:
        assert time.monotonic() < end, "GPUs are still held"
        time.sleep(0.1)


def test_the_command_prints_planned_against_actual_and_ends_with_0(address: str, files: Files) -> None:
    said = {"trainer.v1.trainer_mode": "placed_probe", "+trainer.v1.placed.map": files.map("split", SPLIT), **TWO_NODES}
    done = main_ppo(address, overrides(files, said), files.folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.findall(r"(\w+) +(\d+) +(node\S+) +(node\S+) +ok", done.stdout) == [
        ("actor_ref", "0", "node0:2", "node0:2"),
        ("actor_ref", "1", "node0:3", "node0:3"),
        ("actor_ref", "2", "node1:0", "node1:0"),
        ("actor_ref", "3", "node1:1", "node1:1"),
        ("critic", "0", "node1:2", "node1:2"),
        ("critic", "1", "node1:3", "node1:3"),
    ]
    assert "all 6 ranks are on the GPUs of the map" in done.stdout


def test_the_command_ends_with_1_and_says_how_to_start_the_nodes(address: str, files: Files) -> None:
    """node0 offers 2,3,0,1, and the map wants its first two ranks on 0 and 1."""
    groups = {"actor": ["node0:0", "node0:1"], "ref": ["node0:0", "node0:1"], "critic": ["node1:0"]}
    said = {"trainer.v1.trainer_mode": "placed", "+trainer.v1.placed.map": files.map("order", groups), **ONE_NODE}
    done = main_ppo(address, overrides(files, said), files.folder)
    assert done.returncode == 1
    assert "InputError" in done.stderr
    says = done.stderr[done.stderr.rindex("InputError") :]
    assert "2 of 3 ranks are not on their GPUs; actor_ref rank 0 is on node0:2, and the map wants node0:0" in says
    assert "actor_ref     1  node0:1  node0:3  DIFFERS" in says
    assert "node0: CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1 ray start … --num-gpus=2" in says


def test_ranks_follow_the_map_and_not_the_order_of_addresses(address: str, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    probe(files, address, UPSIDE_DOWN, TWO_NODES)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("ok")]
    assert [(row[1], row[3]) for row in rows if row[0] == "actor_ref"] == [
        ("0", "node1:0"),
        ("1", "node1:1"),
        ("2", "node0:2"),
        ("3", "node0:3"),
    ]


def test_a_pool_for_each_role_on_one_node(address: str, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """Critic, reference and reward each on GPUs of their own: what stock verl cannot express."""
    groups = {"actor": ["node1:2", "node1:3"], "critic": ["node1:0"], "ref": ["node1:1"], "reward": ["node0:2"]}
    trainer = probe(files, address, groups, {**ONE_NODE, **REWARD})
    assert "all 5 ranks are on the GPUs of the map" in capsys.readouterr().out
    roles = {str(role): pool for role, pool in trainer.resource_pool_manager.mapping.items()}
    assert roles == {"actor": "actor", "ref": "ref", "critic": "critic", "rm": "reward"}


def test_reference_and_reward_may_share_the_critics_pool(address: str, files: Files) -> None:
    groups = {"actor": ["node1:0", "node1:1"], "critic": ["node1:2"], "ref": ["node1:2"], "reward": ["node1:2"]}
    trainer = probe(files, address, groups, {**ONE_NODE, **REWARD})
    assert trainer.resource_pool_manager.resource_pool_spec == {"actor": [2], "critic_ref_reward": [1]}


@pytest.mark.parametrize(
    ("groups", "said", "says"),
    [
        (
            {"actor": ["node0:2", "node2:0"], "ref": ["node0:2", "node2:0"], "critic": ["node1:0"]},
            {"trainer.nnodes": 2, "trainer.n_gpus_per_node": 1},
            "no node of the Ray cluster with GPUs is called node2 (did you mean 'node1'?); there is node0, node1",
        ),
        (
            {"actor": [0, 1], "ref": [0, 1], "critic": [2]},
            ONE_NODE,
            "the map names no host, and 2 nodes of the Ray cluster have GPUs (node0, node1)",
        ),
        (
            {"actor": [f"node0:{k}" for k in range(5)], "ref": [f"node0:{k}" for k in range(5)], "critic": ["node1:0"]},
            {"trainer.n_gpus_per_node": 5, "data.train_batch_size": 10, "actor_rollout_ref.actor.ppo_mini_batch_size": 10},
            "node0 offers 4 GPUs to Ray, and the map uses 5 of it",
        ),
        (SPLIT, {"trainer.nnodes": 1, "trainer.n_gpus_per_node": 8}, "trainer.nnodes=2 trainer.n_gpus_per_node=2"),
        ({"actor": ["node0:2", "node0:2"]}, ONE_NODE, "actor: GPU node0:2 is there twice, as rank 0 and as rank 1"),
        (SPLIT, {**TWO_NODES, "+trainer.v1.placed.map": "/nowhere/map.yaml"}, "/nowhere/map.yaml: No such file or directory, on "),
        (SPLIT, {**TWO_NODES, "+trainer.v1.placed.map": "null"}, "which device map? Add +trainer.v1.placed.map="),
    ],
    ids=["no such node", "no host named", "too few GPUs", "other sizes", "an id twice", "no file", "no map"],
)
def test_what_does_not_agree_is_one_readable_error(
    address: str, files: Files, groups: Mapping[str, object], said: Mapping[str, object], says: str
) -> None:
    with pytest.raises(InputError) as caught:
        probe(files, address, groups, said)
    assert says in str(caught.value)


def test_a_ray_that_was_told_not_to_choose_gpus_is_refused(address: str, files: Files) -> None:
    groups = {"actor": ["node1:0"], "ref": ["node1:0"], "critic": ["node1:1"]}
    ray.shutdown()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": {NOSET: "1"}})
    try:
        with pytest.raises(InputError, match=f"{NOSET} is set, so that every worker sees all GPUs"):
            probe(files, address, groups, {"trainer.n_gpus_per_node": 1})
    finally:
        ray.shutdown()


def test_a_busy_node_is_refused(address: str, files: Files) -> None:
    """Pools take the first free GPUs: on a node where another job holds one they would be others."""

    @ray.remote(num_gpus=1, num_cpus=0)
    class Holder:
        def ready(self) -> bool:
            return True

    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    holder = Holder.remote()
    ray.get(holder.ready.remote())
    try:
        with pytest.raises(InputError, match=r"other jobs hold 1 of the 4 GPUs of node"):
            probe(files, address, SPLIT, TWO_NODES)
    finally:
        ray.kill(holder)
        give_back(sum(len(gpus.split(",")) for gpus in NODES.values()))
