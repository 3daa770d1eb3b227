"""
Start verl from a device map: the trainer modes ``placed`` and ``placed_probe``.

verl loads this module by ``VERL_USE_EXTERNAL_MODULES=placement.targets.verl_runtime``, in the launching shell and, where Ray runs
already, in ``ray_kwargs.ray_init.runtime_env.env_vars``. ``+trainer.v1.placed.map=FILE`` names the map: a key of the configuration
and no variable, because verl hands the configuration to its task runner in every case (variables only if it starts Ray itself) and
keeps it with the run. See docs/verl.md.

When to modify: verl's trainer changes (tried with `TRIED`), or a map can say more of a job.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ray
import transfer_queue
import verl
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.ppo.utils import Role, need_critic, need_reference_policy, need_teacher_policy
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.workers.utils.padding import response_from_nested

from placement.errors import InputError
from placement.maps.seats import read_seats
from placement.targets.verl_agreement import Needs, disagreements, pool_of
from placement.targets.verl_cluster import PlacedPools, check_ray
from placement.targets.verl_lanes import Lanes
from placement.targets.verl_pools import ACTOR, CRITIC, MAP_KEY, REF, REWARD, TRIED, VerlPool, verl_pools
from placement.targets.verl_ranks import table
from placement.targets.verl_workers import LOG_PROBS, GeneratingActor, ReferenceApart, told_roles
from placement.text import strict_yaml

NO_LOOPS = f"{__name__}.NoAgentLoops"

LOG_DELAY_S = 2.0
"""What Ray is given to bring the last lines of the task runner to the terminal before the job ends."""

logger = logging.getLogger(__name__)


def read_map(config: DictConfig) -> tuple[VerlPool, ...]:
    """
    Return the pools of the map that *config* names.

    Raises
    ------
    InputError
        If it names none, the file cannot be read here, or verl cannot build its pools.
    """
    name = OmegaConf.select(config, MAP_KEY)
    if not name:
        raise InputError(f"which device map? Add +{MAP_KEY}=/absolute/path/map.yaml")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        host = ray.util.get_node_ip_address()
        raise InputError(
            f"{name}: {reason}, on {host}, where verl's task runner runs: give an absolute path that exists on every node"
        ) from None
    return verl_pools(read_seats(strict_yaml.load(text, name=str(name))))


class OnMap(PPOTrainerSync):  # type: ignore[misc]
    """What both modes share: verl's synchronous trainer with the pools of a map."""

    insists = True

    def __init__(self, config: DictConfig) -> None:
        check_ray()
        if verl.__version__ not in TRIED:
            logger.warning("verl %s: the modes of %s are tried with %s only", verl.__version__, __name__, ", ".join(TRIED))
        self.pools = read_map(config)
        wrong = disagreements(self.pools, _needs(config), partial(OmegaConf.select, config))
        if wrong:
            raise InputError("the job is not the one of the map: " + "; ".join(wrong))
        super().__init__(config)

    def _build_replay_buffer(self) -> Any:
        # verl takes every mode but `sync` for one that trains on older samples.
        self.trainer_mode = "sync"
        return super()._build_replay_buffer()

    def _init_resource_pool_mgr(self) -> None:
        """Put verl's roles into the pools of the map."""
        super()._init_resource_pool_mgr()
        actor, ref = self._pool(ACTOR), self._pool(REF)
        assert actor is not None
        generates = next(role for role in (Role.ActorRolloutRef, Role.ActorRollout) if role in self.mapping)
        if ref is not None and ref is not actor:
            del self.mapping[generates], self.role_worker_mapping[generates]
            generates = Role.Actor
            self.role_worker_mapping[generates] = ray.remote(GeneratingActor)
            self.role_worker_mapping[Role.RefPolicy] = ray.remote(ReferenceApart)
            self.mapping[Role.RefPolicy] = ref.name
        self.mapping[generates] = actor.name
        for role, said in ((Role.Critic, CRITIC), (Role.RewardModel, REWARD)):
            pool = self._pool(said)
            if pool is not None:
                self.mapping[role] = pool.name
            elif role in self.mapping:
                self.mapping[role] = actor.name
        reward = self._pool(REWARD)
        if reward is not None:
            self.config.reward.reward_model.nnodes = len(reward.parts)
            self.config.reward.reward_model.n_gpus_per_node = reward.per_host
        self.resource_pool_manager = PlacedPools(self.pools, self.mapping, insists=self.insists)

    def _setup(self) -> None:
        """Start the workers as verl does, and tell them their roles."""
        with told_roles(self.pools):
            super()._setup()

    def _pool(self, role: str) -> VerlPool | None:
        return pool_of(self.pools, role)


@register_trainer("placed")
class PlacedTrainer(OnMap):
    """
    verl's synchronous trainer, on the GPUs of the map; pools that are disjoint work side by side.

    verl's own step is followed call by call. What another pool does is started early and waited for where verl wants its result:
    reference and values beside the old log-probabilities, the critic's update beside the actor's, and a reward model that does not
    score during generation beside them. Roles of one pool take turns.
    """

    def __init__(self, config: DictConfig) -> None:
        self._lanes = Lanes()
        self._metrics: dict[str, dict[str, Any]] = {}
        super().__init__(config)

    # ── what verl's step calls ──────────────────────────────────────────────────────────────────────────────

    def _compute_reward_colocate(self, batch: Any, metrics: dict[str, Any] | None = None) -> Any:
        if metrics is not None and self._is_apart(REWARD):      # validation gives no metrics, and reads the scores at once
            self._start("reward", REWARD, super()._compute_reward_colocate, batch)
            return batch
        return super()._compute_reward_colocate(batch, metrics=metrics)

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **more: Any) -> Any:
        # Padding copies a sample with all that is known of it, scores included.
        if len(batch) % self._get_required_batch_multiple(self.actor_rollout_wg.world_size):
            self._finish("reward", metrics)
        return super()._balance_batch(batch, metrics, **more)

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self.use_reference_policy and self._is_apart(REF):
            self._start("ref", REF, self._reference_apart, batch)
        if self.use_critic and self._is_apart(CRITIC):
            self._start("values", CRITIC, super()._compute_values, batch)
        return super()._compute_old_log_prob(batch, metrics)

    def _compute_ref_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        return batch if self._finish("ref", metrics) else super()._compute_ref_log_prob(batch, metrics)

    def _compute_values(self, batch: Any, metrics: dict[str, Any]) -> Any:
        return batch if self._finish("values", metrics) else super()._compute_values(batch, metrics)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self._finish("reward", metrics)
        return super()._compute_advantage(batch, metrics)

    def _update_critic(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self._is_apart(CRITIC) and self.config.trainer.critic_warmup <= self.global_steps:
            self._start("update_critic", CRITIC, super()._update_critic, batch)
            return batch
        return super()._update_critic(batch, metrics)

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._update_actor(batch, metrics)
        self._finish("update_critic", metrics)
        return batch

    # ── lanes ───────────────────────────────────────────────────────────────────────────────────────────────

    def _is_apart(self, role: str) -> bool:
        """Whether *role* is on other GPUs than the actor."""
        return self._pool(role) is not self._pool(ACTOR)

    def _start(self, name: str, role: str, work: Callable[[Any, dict[str, Any]], Any], batch: Any) -> None:
        """Start *work* in the lane of *role*, with a batch and metrics of its own: verl's methods write to both."""
        pool = self._pool(role)
        assert pool is not None
        own: dict[str, Any] = {}
        self._metrics[name] = own
        self._lanes.start(pool.name, name, partial(work, copy.deepcopy(batch), own))

    def _finish(self, name: str, metrics: dict[str, Any]) -> bool:
        """Wait for *name* and take its metrics over; False when it was not started."""
        if not self._lanes.is_running(name):
            return False
        took_s = self._lanes.finish(name)
        metrics.update(self._metrics.pop(name))
        metrics[f"timing_s/placed_{name}"] = took_s
        return True

    def _reference_apart(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Compute the reference's log-probabilities where `ReferenceApart` runs, and store them under verl's name for them."""
        batch.extra_info.update(
            calculate_entropy=False, compute_loss=False, temperature=self.config.actor_rollout_ref.rollout.temperature
        )
        self.ref_policy_wg.compute_ref_log_prob(batch)
        where = {"keys": batch.keys, "partition_id": batch.partition_id}
        data = transfer_queue.kv_batch_get(**where, select_fields=[LOG_PROBS, "response_mask"])
        data["ref_log_prob"] = response_from_nested(data.pop(LOG_PROBS), data["response_mask"])
        transfer_queue.kv_batch_put(**where, fields=data.select("ref_log_prob"))
        return batch


@register_trainer("placed_probe")
class PlacedProbe(OnMap):
    """Make the pools of the map on the cluster, say where each rank is, and stop: no model is loaded."""

    insists = False

    def init(self) -> None:
        """
        Make the pools and look.

        Raises
        ------
        InputError
            If the cluster is not the one of the map, or a rank is not where the map wants it.
        """
        self._init_resource_pool_mgr()
        self.resource_pool_manager.create_resource_pool()
        ranks = self.resource_pool_manager.look()
        print(f"device map against this cluster:\n{table(ranks)}", flush=True)  # noqa: T201
        reason = self.resource_pool_manager.refusal(ranks)
        if reason:
            raise InputError(reason)
        print(f"all {len(ranks)} ranks are on the GPUs of the map", flush=True)  # noqa: T201
        with open_dict(self.config):
            self.config.actor_rollout_ref.rollout.agent.agent_loop_manager_class = NO_LOOPS

    def get_llm_client(self) -> None:
        """Nothing generates."""

    def get_teacher_client(self) -> None:
        """Nothing is distilled."""

    def get_reward_handles(self) -> None:
        """Nothing is scored."""

    def fit(self, agent_loop_manager: object) -> None:
        """Let Ray bring the lines above to the terminal, then end."""
        time.sleep(LOG_DELAY_S)


class NoAgentLoops:
    """What the probe puts in place of verl's agent loops."""

    @classmethod
    def create(cls, **_: object) -> NoAgentLoops:
        """Return one that does nothing."""
        return cls()


def _needs(config: DictConfig) -> Needs:
    model = config.actor_rollout_ref.model
    rank = (model.get("lora") or {}).get("rank", 0) or model.get("lora_rank", 0)
    return Needs(
        critic=need_critic(config),
        ref=need_reference_policy(config),
        ref_in_actor=rank > 0 or model.get("lora_adapter_path") is not None,
        teacher=need_teacher_policy(config),
    )
