"""
Workers of the trainer mode ``placed``: a reference on GPUs of its own, which verl's synchronous trainer does not know, and ranks that
know their roles.

verl builds a reference of its own only beside an actor that does not generate (``separate_async``). Ours generates.

When to modify: verl names the roles or the outputs of its workers in another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from verl.single_controller.base.decorator import make_nd_compute_dataproto_dispatch_fn, register
from verl.single_controller.ray import RayWorkerGroup
from verl.trainer.ppo.v1 import trainer_base
from verl.workers.engine_workers import ActorRolloutRefWorker

from placement.maps.variables import ROLES
from placement.targets.verl_pools import VerlPool

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


@contextmanager
def told_roles(pools: Sequence[VerlPool]) -> Iterator[None]:
    """
    Within it, ranks that verl's trainer starts find their roles in PLACEMENT_ROLES, beside the RANK that verl gives them.

    So `placement verify` can hold a running job against its map. verl's trainer has no argument for it, and names the class of its
    worker groups in its module: there another stands meanwhile.
    """
    roles = {pool.name: ",".join(pool.roles) for pool in pools}

    class Told(RayWorkerGroup):  # type: ignore[misc]
        def __init__(self, resource_pool: Any = None, *positional: Any, **more: Any) -> None:
            said = roles.get(getattr(resource_pool, "name_prefix", ""))
            if said is not None:
                more["worker_env"] = {**(more.get("worker_env") or {}), ROLES: said}
            super().__init__(resource_pool, *positional, **more)

    before = trainer_base.RayWorkerGroup
    trainer_base.RayWorkerGroup = Told
    try:
        yield
    finally:
        trainer_base.RayWorkerGroup = before
