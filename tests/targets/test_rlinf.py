"""RLinf's own parser of placements and its own placement of processes, on its own description of nodes; no Ray cluster is started."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_starts import starts

from placement.targets.rlinf import CONFIG, TARGET
from placement.targets.target import emit

omegaconf = pytest.importorskip("omegaconf")
placement_classes = pytest.importorskip("rlinf.utils.placement")


def cluster(gpus: int):
    """Return a cluster of one node: of RLinf's class, without what its constructor asks Ray for."""
    from rlinf.scheduler.cluster import Cluster
    from rlinf.scheduler.cluster.node import NodeGroupInfo, NodeInfo
    from rlinf.scheduler.hardware import Accelerator, HardwareInfo, HardwareResource

    kind = Accelerator.HW_TYPE
    card = HardwareResource(type=kind, infos=[HardwareInfo(type=kind, model="NV_GPU:A100") for _ in range(gpus)])
    node = NodeInfo(["cluster"], 0, "id", "127.0.0.1", 64, "python", {}, {}, hardware_resources=[card])
    found = object.__new__(Cluster)
    found._nodes, found._num_nodes = [node], 1
    found._node_groups = [NodeGroupInfo(NodeGroupInfo.DEFAULT_GROUP_LABEL, [node], hardware_type=kind)]
    return found


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_its_placement_is_that_of_the_map(data):
    """Every component gets the GPUs of its role; each engine has consecutive GPUs, as in the map."""
    assert TARGET.rules is not None
    start = data.draw(starts(TARGET.rules))
    config = omegaconf.OmegaConf.create(emit(TARGET, start).files[CONFIG])
    nodes = cluster(8)
    placed = placement_classes.ModelParallelComponentPlacement(config, nodes)
    assert placed.is_collocated == start.workload.is_hybrid
    role = {"inference": "ref"}
    for component in placed._components:
        name = role.get(component, component)
        if name not in start.seats:
            continue
        assert placed.get_hardware_ranks(component) == [seat.gpu for seat in start.seats[name]]
    generating = "actor" if start.workload.is_hybrid else "rollout"
    rollout = start.roles["actor" if start.workload.is_hybrid else "rollout"].rollout
    engines = placed.get_strategy("rollout").get_placement(nodes)
    blocks = sorted([int(gpu) for gpu in process.visible_accelerators] for process in engines)
    seats = [seat.gpu for seat in start.seats[generating]]
    assert blocks == [seats[k : k + rollout.tp] for k in range(0, len(seats), rollout.tp)]


def test_it_refuses_what_our_rules_refuse():
    """Roles that share with some and not with all; ids with a gap."""
    text = "cluster: {num_nodes: 1, component_placement: {actor: %s, rollout: %s, reward: 0-1}}\nactor: {model: {}}\nrollout: {}"
    for actor, rollout in (("0-3", "2-5"), ('"0-1,3-4"', "5-6")):
        with pytest.raises((AssertionError, ValueError)):
            placement_classes.ModelParallelComponentPlacement(omegaconf.OmegaConf.create(text % (actor, rollout)), cluster(8))


def test_strided_engines():
    """What our refusal says would happen: the actor cuts tensors over 4 GPUs, engines over 2, and each has every second one."""
    text = "cluster: {num_nodes: 1, component_placement: {'actor,rollout,reward': 0-3}}\nactor: {model: {tensor_model_parallel_size: 4}}"
    config = omegaconf.OmegaConf.create(text + "\nrollout: {tensor_parallel_size: 2}")
    nodes = cluster(8)
    engines = placement_classes.ModelParallelComponentPlacement(config, nodes).get_strategy("rollout").get_placement(nodes)
    assert sorted(process.visible_accelerators for process in engines) == [["0", "2"], ["1", "3"]]
