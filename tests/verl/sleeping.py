"""
verl's workers, rollout and reward model replaced by ones that sleep and note when: the trainer, its pools and its data path are verl's own.

verl loads this by ``VERL_USE_EXTERNAL_MODULES=sleeping,placement.targets.verl_runtime``, before its trainer takes the workers' names.
``SLEEPING_NOTES`` names the file of the notes: a line of JSON for each piece of work of each rank.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transfer_queue
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils
from verl.workers import engine_workers

SLEEP_S = {
    "generate": 1.0,
    "reward": 1.0,
    "old_log_probs": 2.0,
    "ref_log_probs": 2.0,
    "values": 1.0,
    "update_critic": 2.0,
    "update_actor": 2.0,
    "sync_weights": 0.5,
}
"""How long each piece of work takes, s; by the names that `placement.workloads.dataflow` has for them."""


@contextmanager
def noted(work: str, rank: int = 0, pool: str = "") -> Iterator[None]:
    """Sleep as *work* does, and note it."""
    begin = time.time()
    yield
    time.sleep(SLEEP_S[work])
    line = {"work": work, "rank": rank, "pool": pool, "begin": begin, "end": time.time()}
    line["visible"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    with Path(os.environ["SLEEPING_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _like_sequences(data: Any, *names: str) -> Any:
    """Return zeros in the form of a model's outputs, a number for each token of each sequence."""
    ids = data["input_ids"]
    zeros = torch.nested.nested_tensor_from_jagged(torch.zeros(ids.values().shape[0]), offsets=ids.offsets())
    return tensordict_utils.get_tensordict(
        tensor_dict={name: zeros.clone() for name in names}, non_tensor_dict={"metrics": {"loss": 0.0}}
    )


def _trained() -> Any:
    return tensordict_utils.get_tensordict(tensor_dict={}, non_tensor_dict={"metrics": {"loss": 0.0, "mfu": 0.0, "grad_norm": 0.0}})


def _mesh(name: str) -> Any:
    return make_nd_compute_dataproto_dispatch_fn(mesh_name=name)


class SleepingActor(Worker):
    """In place of verl's worker for actor, rollout and reference."""

    def __init__(self, config: Any, role: str, distillation_config: Any = None, **_: Any) -> None:
        super().__init__()
        self.role = role

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        for mesh in ("actor", "ref"):
            if mesh in self.role:
                self._register_dispatch_collect_info(mesh, dp_rank=self.rank, is_collect=True)

    @register(dispatch_mode=_mesh("actor"))
    def compute_log_prob(self, data: Any) -> Any:
        with noted("old_log_probs", self.rank, self.role):
            return _like_sequences(data, "log_probs", "entropy")

    @register(dispatch_mode=_mesh("ref"))
    def compute_ref_log_prob(self, data: Any) -> Any:
        with noted("ref_log_probs", self.rank, self.role):
            return _like_sequences(data, "log_probs")

    @register(dispatch_mode=_mesh("actor"))
    def update_actor(self, data: Any) -> Any:
        with noted("update_actor", self.rank, self.role):
            return _trained()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> None:
        with noted("sync_weights", self.rank, self.role):
            pass


class SleepingCritic(Worker):
    """In place of verl's worker for the critic."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._register_dispatch_collect_info("train", dp_rank=self.rank, is_collect=True)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def reset(self) -> None:
        pass

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_loss_fn(self, loss_fn: Any) -> None:
        pass

    @register(dispatch_mode=_mesh("train"), blocking=False)
    def infer_batch(self, data: Any) -> Any:
        with noted("values", self.rank, "critic"):
            return _like_sequences(data, "values")

    @register(dispatch_mode=_mesh("train"), blocking=False)
    def train_mini_batch(self, data: Any) -> Any:
        with noted("update_critic", self.rank, "critic"):
            return _trained()


engine_workers.ActorRolloutRefWorker = SleepingActor
engine_workers.TrainingWorker = SleepingCritic

from verl.trainer.ppo.v1 import trainer_base  # noqa: E402  (after the workers were replaced)


class NoServers:
    """In place of the servers that generate."""

    @classmethod
    def create(cls, **_: Any) -> NoServers:
        return cls()

    def get_replicas(self) -> list[Any]:
        return []

    def get_client(self) -> None:
        return None


class SleepingRewards:
    """In place of the reward model: it scores during generation, or after it, as the configuration says."""

    def __init__(self, config: Any, rm_resource_pool: Any = None) -> None:
        model = config.reward.reward_model
        self.reward_loop_worker_handles = None if model.enable and not model.enable_resource_pool else []

    def compute_rm_score(self, data: DataProto) -> DataProto:
        with noted("reward"):
            scores = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
            return DataProto(
                batch=TensorDict({"rm_scores": scores}, batch_size=len(data)), meta_info={"reward_extra_keys": []}
            )


trainer_base.LLMServerManager = NoServers
trainer_base.RewardLoopManager = SleepingRewards


class SleepingLoops:
    """In place of the agent loops: answers of a few tokens for each prompt."""

    @classmethod
    def create(cls, **_: Any) -> SleepingLoops:
        return cls()

    def generate_sequences(self, prompts: Any) -> None:
        with noted("generate"):
            uids = list(prompts["uid"])
            steps = int(prompts["global_steps"])
            rows, tags = [], []
            for k, uid in enumerate(uids):
                asked, answered = 3 + k % 2, 4 + k % 3
                mask = torch.ones(answered, dtype=torch.int64)
                ids = torch.full((asked + answered,), 5, dtype=torch.int64)
                rows.append(
                    {
                        "uid": uid,
                        "prompts": ids[:asked],
                        "responses": ids[asked:],
                        "response_mask": mask,
                        "loss_mask": mask,
                        "input_ids": ids,
                        "position_ids": torch.arange(asked + answered),
                        "rm_scores": torch.zeros(answered),
                        "rollout_log_probs": torch.zeros(answered),
                        "num_turns": 2,
                        "raw_prompt": [{"role": "user", "content": "w1"}],
                    }
                )
                lengths = {"prompt_len": asked, "response_len": answered, "seq_len": asked + answered}
                versions = {"global_steps": steps, "min_global_steps": steps - 1, "max_global_steps": steps - 1}
                tags.append({"status": "success", **lengths, **versions})
        transfer_queue.kv_batch_put(
            keys=[f"{uid}_0_0" for uid in uids],
            partition_id="train",
            fields=tensordict_utils.list_of_dict_to_tensordict(rows),
            tags=tags,
        )
        transfer_queue.kv_batch_put(keys=uids, partition_id="train", tags=[{"status": "finished"}] * len(uids))
