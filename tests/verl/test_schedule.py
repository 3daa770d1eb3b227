"""
When verl's trainer runs which piece of work: stock and placed, against the schedules that `placement plan` computes with.

verl's own `main_ppo`, trainer, worker groups and data path; workers, rollout and reward model sleep instead of computing
(`sleeping`). Two steps; the second is looked at.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from verl_jobs import RUNTIME, Files, cluster, main_ppo, overrides

from placement.catalog import load_workload
from placement.workloads.dataflow import dataflow
from placement.workloads.workload import Schedule

OVERLAP = 0.3
"""Share of the shorter of two pieces of work in which the other runs too, at least, if they run side by side: 0 if they take turns."""


@dataclass(frozen=True)
class Seen:
    """What one run left: begin and end of each piece of work, s; what each rank of a pool saw."""

    spans: Mapping[str, tuple[float, float]]
    visible: Mapping[tuple[str, int], str]

    def overlap(self, one: str, other: str) -> float:
        """Return the share of the shorter of two pieces of work in which both run."""
        (a, b), (c, d) = self.spans[one], self.spans[other]
        return max(0.0, min(b, d) - max(a, c)) / min(b - a, d - c)

    @property
    def step_s(self) -> float:
        """From the begin of generation to the end of the weight sync."""
        return self.spans["sync_weights"][1] - self.spans["generate"][0]


def seen(notes: Path) -> Seen:
    last: dict[tuple[str, int], tuple[float, float]] = {}
    visible = {}
    for line in notes.read_text(encoding="utf-8").splitlines():
        note = json.loads(line)
        last[note["work"], note["rank"]] = (note["begin"], note["end"])
        visible[note["pool"], note["rank"]] = note["visible"]
    spans = {
        work: (min(b for (w, _), (b, _e) in last.items() if w == work), max(e for (w, _), (_b, e) in last.items() if w == work))
        for work, _ in last
    }
    return Seen(spans, visible)


def stages(schedule: Schedule, found: Seen) -> list[list[str]]:
    """Return the stages of *schedule* as `placement plan` has them, without work that the run did not have."""
    workload = dataclasses.replace(load_workload("ppo-7b"), schedule=schedule)
    planned = [[str(work) for _, work in stage.work if work in found.spans] for stage in dataflow(workload)]
    return [stage for stage in planned if stage]


def assert_one_stage_after_the_other(found: Seen, schedule: Schedule) -> None:
    planned = stages(schedule, found)
    assert {work for stage in planned for work in stage} == set(found.spans)
    for before, after in zip(planned, planned[1:], strict=False):
        end, begin = max(found.spans[work][1] for work in before), min(found.spans[work][0] for work in after)
        assert end <= begin, f"{after} begins before {before} ends: {found.spans}"


def run(files: Files, nodes: Mapping[str, str], modules: str, said: Mapping[str, object]) -> Seen:
    notes = files.folder / f"notes-{said.get('trainer.v1.trainer_mode', 'sync')}.jsonl"
    job = {
        "trainer.n_gpus_per_node": 2,
        "trainer.test_freq": -1,
        "+actor_rollout_ref.rollout.agent.agent_loop_manager_class": "sleeping.SleepingLoops",
        **said,
    }
    with cluster(nodes, modules=modules, notes=notes) as address:
        done = main_ppo(address, overrides(files, job), files.folder)
    assert done.returncode == 0, done.stderr[-4000:]
    found = seen(notes)
    print(json.dumps({"step_s": round(found.step_s, 2), "spans": found.spans}))
    return found


@pytest.fixture(scope="module")
def stock(files: Files) -> Seen:
    """Stock verl's mode `sync` on a node that offers its GPUs in another order (method M1)."""
    return run(files, {"node0": "1,0"}, "sleeping", {})


@pytest.fixture(scope="module")
def placed(files: Files) -> Seen:
    """Our mode `placed`: actor, reference and critic on GPUs of their own, the reward model with the critic."""
    groups = {"actor": [2, 3], "critic": [0], "ref": [1], "reward": [0]}
    said = {
        "trainer.v1.trainer_mode": "placed",
        "+trainer.v1.placed.map": files.map("schedule", groups),
        "reward.reward_model.enable": True,
        "reward.reward_model.rollout.name": "vllm",
        "reward.reward_model.rollout.tensor_model_parallel_size": 1,
    }
    return run(files, {"node0": "0,1,2,3"}, f"sleeping,{RUNTIME}", said)


def test_stock_verl_runs_one_piece_of_work_after_the_other(stock: Seen) -> None:
    """The schedule ``none`` of a plan, in its order."""
    assert_one_stage_after_the_other(stock, Schedule.NONE)


def test_stock_verl_takes_gpus_in_the_order_that_the_node_offers(stock: Seen) -> None:
    """Method M1: rank i runs on the i-th of CUDA_VISIBLE_DEVICES of `ray start`."""
    ranks = {rank: gpu for (pool, rank), gpu in stock.visible.items() if pool == "actor_rollout_ref"}
    assert ranks == {0: "1", 1: "0"}


def test_placed_follows_the_stages_of_the_schedule_full(placed: Seen) -> None:
    assert_one_stage_after_the_other(placed, Schedule.FULL)


@pytest.mark.parametrize(
    ("one", "other"), [("old_log_probs", "ref_log_probs"), ("old_log_probs", "reward"), ("update_critic", "update_actor")]
)
def test_placed_lets_disjoint_pools_work_side_by_side(placed: Seen, one: str, other: str) -> None:
    assert placed.overlap(one, other) >= OVERLAP


def test_placed_lets_roles_of_one_pool_take_turns(placed: Seen) -> None:
    """Reward model and critic share a GPU: the values begin when the scores are there, in the order of the schedule."""
    assert placed.spans["reward"][1] <= placed.spans["values"][0]


def test_placed_ranks_are_on_the_gpus_of_the_map(placed: Seen) -> None:
    assert {key: gpu for key, gpu in placed.visible.items() if key[0]} == {
        ("actor_rollout", 0): "2",
        ("actor_rollout", 1): "3",
        ("critic", 0): "0",
        ("ref", 0): "1",
    }
