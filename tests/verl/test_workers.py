"""The workers of a reference apart, made of verl's own."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import torch
from verl_jobs import Files, composed

RANK = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}


class Answer:
    """A model that answers at once."""

    def infer_batch(self, data: Any) -> Any:
        from verl.utils import tensordict_utils

        each = torch.nested.as_nested_tensor([torch.zeros(3), torch.ones(4)], layout=torch.jagged)
        return tensordict_utils.get_tensordict(tensor_dict={"log_probs": each}, non_tensor_dict={"metrics": {}})


def test_the_actor_generates_and_the_reference_answers_under_its_own_name(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensordict import TensorDict

    from placement.targets.verl_workers import LOG_PROBS, GeneratingActor, ReferenceApart

    for name, value in RANK.items():
        monkeypatch.setenv(name, value)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    config = composed(files, {})
    actor = GeneratingActor(config=config.actor_rollout_ref, distillation_config=config.get("distillation"), role="actor")
    assert (actor._is_actor, actor._is_rollout, actor._is_ref) == (True, True, False)
    reference = ReferenceApart(config=config.actor_rollout_ref, role="ref")
    assert (reference._is_actor, reference._is_rollout, reference._is_ref) == (False, False, True)
    reference.ref = Answer()
    answer = reference.compute_ref_log_prob(TensorDict({}, batch_size=2))
    assert LOG_PROBS in answer
    assert "log_probs" not in answer


def test_validation_is_scored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """verl's validation reads the scores right after it has asked for them; only in a step (which has metrics) do they come later."""
    from verl.trainer.ppo.v1 import PPOTrainerSync

    from placement.maps.seats import Seat
    from placement.targets.verl_lanes import Lanes
    from placement.targets.verl_pools import verl_pools
    from placement.targets.verl_runtime import PlacedTrainer

    scored: list[str] = []

    def score(_: object, batch: str, metrics: dict[str, Any] | None = None) -> str:
        scored.append(batch)
        return batch

    monkeypatch.setattr(PPOTrainerSync, "_compute_reward_colocate", score)
    trainer = PlacedTrainer.__new__(PlacedTrainer)
    actor, apart = (Seat(None, 0), Seat(None, 1)), (Seat(None, 2),)
    trainer.pools = verl_pools({"actor": actor, "critic": apart, "ref": actor, "reward": apart})
    trainer._lanes, trainer._metrics = Lanes(), {}
    for batch in ("first", "second"):
        assert trainer._compute_reward_colocate(batch) == batch
    assert scored == ["first", "second"]
    metrics: dict[str, Any] = {}
    trainer._compute_reward_colocate("a step's", metrics=metrics)
    assert trainer._finish("reward", metrics)
    assert scored[-1] == "a step's"
    assert "timing_s/placed_reward" in metrics
