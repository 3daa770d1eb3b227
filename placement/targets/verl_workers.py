"""
Workers for a reference model on GPUs of its own, which verl's synchronous trainer does not know.

verl builds a reference of its own only beside an actor that does not generate (``separate_async``). Ours generates.

When to modify: verl names the roles or the outputs of its workers in another way.
"""

from __future__ import annotations

from typing import Any

from verl.single_controller.base.decorator import make_nd_compute_dataproto_dispatch_fn, register
from verl.workers.engine_workers import ActorRolloutRefWorker

LOG_PROBS = "placed_ref_log_probs"
"""Field of the reference's answer. verl calls actor and reference alike ``log_probs``: side by side, one would overwrite the other."""


class GeneratingActor(ActorRolloutRefWorker):  # type: ignore[misc]
    """The actor of a job whose reference stands apart: it trains and generates."""

    def __init__(self, config: Any, role: str, **more: Any) -> None:
        assert role == "actor", role
        super().__init__(config, role="actor_rollout", **more)


class ReferenceApart(ActorRolloutRefWorker):  # type: ignore[misc]
    """The reference on GPUs of its own."""

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="ref"))  # type: ignore[untyped-decorator]
    def compute_ref_log_prob(self, data: Any) -> Any:
        """Return verl's answer with its log-probabilities under a name of their own."""
        answer = super().compute_ref_log_prob(data)
        if answer is not None and "log_probs" in answer:
            answer[LOG_PROBS] = answer.pop("log_probs")
        return answer
