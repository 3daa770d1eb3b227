"""A device mesh made of a device map, in processes of torch that work together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import placement
from placement.errors import InputError
from placement.maps.devicemap import dump
from placement.maps.torch_mesh import mesh_ranks
from placement.plans import Layout, Plan

JOB = """
import json, os, sys
import torch.distributed as dist
from placement.maps.devicemap import load
from placement.maps.torch_mesh import device_mesh
size, store = int(sys.argv[1]), sys.argv[2]
rank = next((r for r in range(size - 1) if os.fork() == 0), size - 1)     # torch is imported once: that takes longer than all the rest
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
mesh = device_mesh(load(open(sys.argv[3]).read()), "actor", device="cpu")
tensor = __import__("torch").tensor([2.0**rank])
sums = {}
for name in mesh.mesh_dim_names:
    found = tensor.clone()
    dist.all_reduce(found, group=mesh.get_group(name))
    sums[name] = [r for r in range(size) if int(found.item()) >> r & 1]
with open(f"{store}.{rank}", "w") as file:
    json.dump({"names": mesh.mesh_dim_names, "at": mesh.get_coordinate(), "sums": sums}, file)
dist.barrier()
dist.destroy_process_group()
if rank < size - 1:
    os._exit(0)
while True:
    try:
        assert os.wait()[1] == 0
    except ChildProcessError:
        break
"""
"""Each rank says where it stands, and with whom each dimension joins it: powers of two add up to the ranks of a group."""


def with_layout(plan: Plan, tp: int, pp: int, dp: int) -> Plan:
    import dataclasses

    actor = dataclasses.replace(plan.roles["actor"], layout=Layout(tp, pp, dp))
    gpus = tuple(range(tp * pp * dp))
    return dataclasses.replace(plan, device_map={**plan.device_map, "actor": gpus}, roles={**plan.roles, "actor": actor})


@pytest.fixture(scope="module")
def plan() -> Plan:
    machine, job = placement.read_machine("a100-pcie-mixed-4"), placement.load_workload("grpo-1.5b")
    found = placement.plan(placement.make_instance(machine, job, placement.parse_rules("guide"))).plan
    assert found is not None
    return found


def test_each_dimension_joins_the_ranks_that_the_map_means(plan: Plan, tmp_path: Path, environment: dict[str, str]) -> None:
    """
    tp 2, pp 2, dp 2: rank = 4 · dp + 2 · pp + tp.

    Rank 5 is (1, 0, 1): tp joins it with 4, pp with 7, dp with 1.
    """
    (tmp_path / "map.yaml").write_text(dump(with_layout(plan, 2, 2, 2)), encoding="utf-8")
    command = [sys.executable, "-c", JOB, "8", str(tmp_path / "store"), str(tmp_path / "map.yaml")]
    env = {**environment, "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads((tmp_path / f"store.{rank}").read_text(encoding="utf-8")) for rank in range(8)]
    assert all(answer["names"] == ["dp", "pp", "tp"] for answer in found)
    assert [answer["at"] for answer in found] == [[r // 4, r // 2 % 2, r % 2] for r in range(8)]
    assert found[5]["sums"] == {"tp": [4, 5], "pp": [5, 7], "dp": [1, 5]}
    for rank, answer in enumerate(found):
        assert answer["sums"] == {"tp": sorted({rank, rank ^ 1}), "pp": sorted({rank, rank ^ 2}), "dp": sorted({rank, rank ^ 4})}


def test_the_ranks_of_a_larger_job(plan: Plan) -> None:
    assert mesh_ranks(with_layout(plan, 2, 1, 2), "actor", [10, 11, 4, 5]) == [[[10, 11]], [[4, 5]]]
    assert mesh_ranks(with_layout(plan, 1, 2, 2), "actor") == [[[0], [1]], [[2], [3]]]


def test_what_is_no_rank_or_role_is_refused(plan: Plan) -> None:
    four = with_layout(plan, 2, 1, 2)
    with pytest.raises(InputError, match="the map has no role 'boss'; it has actor"):
        mesh_ranks(four, "boss")
    for ranks in ([0, 1, 2], [0, 1, 2, 2]):
        with pytest.raises(InputError, match="actor has 4 GPUs and takes as many ranks, each once"):
            mesh_ranks(four, "actor", ranks)
