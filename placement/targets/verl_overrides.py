"""
A map as Hydra overrides of verl: one ``key=value`` a line, with the keys of its version.

When to modify: the device map or the workload says more of how a role runs, or verl renames a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from placement.errors import InputError
from placement.plans import RolePlan
from placement.targets.start import Start
from placement.targets.verl_keys import FSDP_CONFIG, MEGATRON_CONFIG, keys
from placement.workloads.workload import Algorithm, Engine, Offload, RoleName, Schedule

A = "actor_rollout_ref"

ADVANTAGE = {
    Algorithm.PPO: "gae",
    Algorithm.GRPO: "grpo",
    Algorithm.RLOO: "rloo",
    Algorithm.REMAX: "remax",
    Algorithm.REINFORCE_PP: "reinforce_plus_plus",
    Algorithm.DAPO: "grpo",
}
"""``algorithm.adv_estimator`` of each algorithm."""

MIXED = ("0.9.1",)
"""Versions whose FSDP was seen to read ``mixed_precision``, which no configuration file names (workers/config/engine.py)."""

REWARD_SPARE_MIB = 4096
"""What an engine that serves a reward model is given beside its weights: its cache, and room for a profile run."""

Override = tuple[tuple[str, ...], Any]
"""Names of a key, the newest first, and its value."""


def config_name(start: Start) -> str:
    """
    Return verl's configuration: that of its FSDP or of its Megatron engine.

    Raises
    ------
    InputError
        If trained roles run on both.
    """
    engines = {start.roles[role].engine for role in ("actor", "critic", "ref") if role in start.roles}
    if len(engines) > 1:
        raise InputError(
            f"verl has one engine for actor, critic and ref, and the map has {' and '.join(sorted(engines))}: give them one `engine`"
        )
    return MEGATRON_CONFIG if engines == {Engine.MEGATRON.value} else FSDP_CONFIG


def overrides(start: Start, version: str) -> tuple[str, ...]:
    """
    Return the lines, in a fixed order.

    Raises
    ------
    InputError
        If this version of verl has no key for something that the map says.
    """
    config = config_name(start)
    known = keys(version, config)
    lines = []
    for names, value in _overrides(start, config):
        name = next((name for name in names if name.removeprefix("+") in known or _is_free(name, known, version)), None)
        if name is None:
            key = names[0].removeprefix("+")
            raise InputError(f"verl {version} ({config}) has no key {key}: the map cannot be expressed in this version")
        lines.append(f"{name}={hydra_value(value)}")
    return tuple(lines)


def _is_free(name: str, known: frozenset[str], version: str) -> bool:
    """Whether a key with a plus sign stands in a mapping that verl hands on as it is (``engine_kwargs``), or reads if it is there."""
    above, _, _ = name.removeprefix("+").rpartition(".")
    engine, _, mapping = above.rpartition(".")
    is_read = version in MIXED and mapping == "mixed_precision" and any(key.startswith(f"{engine}.") for key in known)
    return name.startswith("+") and (above in known or is_read)


def hydra_value(value: Any) -> str:
    """
    Return *value* in Hydra's grammar: quoted where it is more than a plain word.

    Raises
    ------
    InputError
        If it holds what Hydra reads otherwise also inside quotes.
    """
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    text = str(value)
    if re.search(r"[\\\x00-\x1f\x7f]|\$\{", text):
        raise InputError(f"{text!r} holds a character that Hydra reads otherwise: a backslash, a line break, or ${{")
    if re.fullmatch(r"[A-Za-z_./][A-Za-z0-9_./-]*", text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"


def _overrides(start: Start, config: str) -> Iterator[Override]:
    yield from _job(start)
    yield from _trainer(start)
    yield from _actor(start, config)
    yield from _rollout(start)
    yield from _ref(start, config)
    yield from _critic(start, config)
    yield from _reward(start)


def _one(key: str, value: Any) -> Override:
    return (key,), value


def _job(start: Start) -> Iterator[Override]:
    batch, algorithm = start.workload.batch, start.workload.algorithm
    yield _one("algorithm.adv_estimator", ADVANTAGE[algorithm])
    yield _one("data.train_batch_size", batch.prompts)
    yield _one("data.max_prompt_length", batch.prompt_tokens)
    yield _one("data.max_response_length", batch.response_max_tokens)
    yield _one(f"{A}.rollout.n", batch.samples_per_prompt)
    yield _one(f"{A}.actor.ppo_mini_batch_size", batch.prompts // batch.minibatches)
    has_ref = start.workload.role(RoleName.REF) is not None
    in_reward = has_ref and algorithm is Algorithm.PPO
    yield _one("algorithm.use_kl_in_reward", in_reward)
    yield _one(f"{A}.actor.use_kl_loss", has_ref and not in_reward)
    yield _one("critic.enable", start.workload.role(RoleName.CRITIC) is not None)


def _trainer(start: Start) -> Iterator[Override]:
    hosts, each = shape(start, start.pool_of("actor").seats)
    yield _one("trainer.nnodes", hosts)
    yield _one("trainer.n_gpus_per_node", each)
    if start.schedule is Schedule.ASYNC:
        yield _one("trainer.v1.trainer_mode", "separate_async")
        yield _one("trainer.v1.separate_async.parameter_sync_step", start.workload.batch.minibatches)
        yield _one(f"{A}.hybrid_engine", False)


def shape(start: Start, seats: tuple[Any, ...]) -> tuple[int, int]:
    """
    Return hosts and GPUs on each of a pool.

    Raises
    ------
    InputError
        If hosts have unequal numbers: verl's pools have the same on each (`verl/single_controller/ray/base.py`).
    """
    counts = {host: sum(seat.host == host for seat in seats) for host in dict.fromkeys(seat.host for seat in seats)}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{host}: {count}" for host, count in counts.items())
        raise InputError(f"verl's pools have as many GPUs on each of their hosts, and this one has {shown}: verl would wait for ever")
    return len(counts), next(iter(counts.values()))


def _state(prefixes: tuple[str, ...], role: RolePlan) -> Iterator[Override]:
    """Yield how FSDP keeps a trained role."""
    assert role.train is not None
    offload = role.train.offload

    def key(name: str) -> tuple[str, ...]:
        return tuple(f"{prefix}.{name}" for prefix in prefixes)

    yield key("model_dtype"), role.train.master
    yield key("dtype"), "bfloat16" if role.precision == "bf16" else "float16"
    yield key("param_offload"), offload == Offload.BETWEEN
    yield key("optimizer_offload"), offload == Offload.BETWEEN
    yield key("offload_policy"), offload == Offload.ALWAYS
    yield from _computes(prefixes, role)


def _computes(prefixes: tuple[str, ...], role: RolePlan) -> Iterator[Override]:
    """Yield in which precision FSDP computes, where that is not verl's own choice (``dtype`` does not say it)."""
    if role.precision != "bf16":
        yield tuple(f"+{prefix}.mixed_precision.param_dtype" for prefix in prefixes), role.precision


def _strategy(role: RolePlan) -> str:
    """Return verl's name of the engine: only its FSDP2 can stream state from host memory."""
    if role.engine == Engine.MEGATRON:
        return "megatron"
    streams = role.train is not None and role.train.offload == Offload.ALWAYS
    return "fsdp2" if streams else "fsdp"


def _megatron(prefix: str, role: RolePlan) -> Iterator[Override]:
    yield _one(f"{prefix}.tensor_model_parallel_size", role.layout.tp)
    yield _one(f"{prefix}.pipeline_model_parallel_size", role.layout.pp)
    yield _one(f"{prefix}.expert_model_parallel_size", role.layout.ep_size)
    if role.precision != "bf16":
        yield _one(f"{prefix}.dtype", "float16")
    waits = (role.train.offload if role.train is not None else role.offload) != Offload.NONE
    yield _one(f"{prefix}.param_offload", waits)
    if role.train is not None:
        yield _one(f"{prefix}.optimizer_offload", waits)


def _tokens_per_gpu(start: Start, role: RolePlan) -> int:
    """Return what a GPU passes through at a time: verl multiplies it by the sequence parallel size."""
    batch = start.workload.batch
    tokens = max(
        role.train.micro_batch_tokens if role.train is not None else batch.micro_batch_tokens,
        batch.prompt_tokens + batch.response_max_tokens,
    )
    return math.ceil(tokens / role.layout.sp_size)


def _actor(start: Start, config: str) -> Iterator[Override]:
    role, asked = start.roles["actor"], start.workload.role(RoleName.ACTOR)
    assert asked is not None
    assert asked.train is not None
    yield _one(f"{A}.model.path", role.model)
    yield _one(f"{A}.model.enable_gradient_checkpointing", True)
    yield _one(f"{A}.model.use_fused_kernels", asked.train.fused_ce)
    yield _one(f"{A}.actor.strategy", _strategy(role))
    yield _one(f"{A}.actor.use_dynamic_bsz", True)
    yield _one(f"{A}.actor.ppo_max_token_len_per_gpu", _tokens_per_gpu(start, role))
    if asked.train.lora:
        yield _one(f"{A}.model.lora_rank", asked.train.lora)
        yield _one(f"{A}.rollout.load_format", "safetensors")
        yield _one(f"{A}.rollout.layered_summon", True)
    if config == MEGATRON_CONFIG:
        yield from _megatron(f"{A}.actor.megatron", role)
        yield _one(f"{A}.actor.megatron.use_distributed_optimizer", asked.train.distributed_optimizer)
    else:
        yield _one(f"{A}.model.use_remove_padding", True)
        yield _one(f"{A}.actor.ulysses_sequence_parallel_size", role.layout.sp_size)
        yield from _state((f"{A}.actor.fsdp_config",), role)


def _rollout(start: Start) -> Iterator[Override]:
    owner = start.roles.get("rollout", start.roles["actor"])
    rollout = owner.rollout
    assert rollout is not None
    asked = start.workload.role(RoleName.ROLLOUT) or start.workload.role(RoleName.ACTOR)
    assert asked is not None
    assert asked.rollout is not None
    yield _one(f"{A}.rollout.name", rollout.engine)
    yield _one(f"{A}.rollout.tensor_model_parallel_size", rollout.tp)
    yield _one(f"{A}.rollout.gpu_memory_utilization", rollout.gpu_memory_utilization)
    yield _one(f"{A}.rollout.max_num_seqs", rollout.max_num_seqs)
    yield _one(f"{A}.rollout.dtype", "bfloat16" if owner.precision == "bf16" else "float16")
    yield _one(f"{A}.rollout.free_cache_engine", asked.rollout.sleep and "rollout" not in start.roles)
    if rollout.quantization is not None:
        yield _one(f"{A}.rollout.quantization", rollout.quantization)
    if rollout.kv_cache is not None:
        yield _one(f"+{A}.rollout.engine_kwargs.{rollout.engine}.kv_cache_dtype", rollout.kv_cache)
    if "rollout" in start.roles:
        hosts, each = shape(start, start.pool_of("rollout").seats)
        yield _one(f"{A}.rollout.nnodes", hosts)
        yield _one(f"{A}.rollout.n_gpus_per_node", each)
        yield _one(f"{A}.rollout.checkpoint_engine.backend", "nccl")


def _ref(start: Start, config: str) -> Iterator[Override]:
    role = start.roles.get("ref")
    if role is None:
        return
    yield _one(f"{A}.ref.log_prob_max_token_len_per_gpu", _tokens_per_gpu(start, role))
    if config == MEGATRON_CONFIG:
        yield from _megatron(f"{A}.ref.megatron", role)
    else:
        yield _one(f"{A}.ref.ulysses_sequence_parallel_size", role.layout.sp_size)
        yield _one(f"{A}.ref.fsdp_config.param_offload", role.offload != Offload.NONE)
        yield from _computes((f"{A}.ref.fsdp_config",), role)


def _critic(start: Start, config: str) -> Iterator[Override]:
    role, asked = start.roles.get("critic"), start.workload.role(RoleName.CRITIC)
    if role is None or asked is None or asked.train is None:
        return
    yield _one("critic.model.path", role.model)
    yield _one("critic.model.enable_gradient_checkpointing", True)
    yield _one("critic.strategy", _strategy(role))
    yield _one("critic.use_dynamic_bsz", True)
    yield _one("critic.ppo_max_token_len_per_gpu", _tokens_per_gpu(start, role))
    if asked.train.lora:
        yield _one("critic.model.lora_rank", asked.train.lora)
    if config == MEGATRON_CONFIG:
        yield from _megatron("critic.megatron", role)
        yield _one("critic.megatron.use_distributed_optimizer", asked.train.distributed_optimizer)
    else:
        yield _one("critic.model.use_remove_padding", True)
        yield _one("critic.ulysses_sequence_parallel_size", role.layout.sp_size)
        yield from _state(("critic.fsdp", "critic.model.fsdp_config"), role)


def _reward(start: Start) -> Iterator[Override]:
    role, asked = start.roles.get("reward"), start.workload.role(RoleName.REWARD)
    if role is None or asked is None or asked.model is None:
        yield _one("reward.reward_model.enable", False)
        return
    pool = start.pool_of("reward")
    apart = pool.roles == ("reward",)      # else it scores between phases, and sleeps otherwise
    hosts, each = shape(start, pool.seats)
    yield _one("reward.reward_model.enable", True)
    yield _one("reward.reward_model.enable_resource_pool", apart)
    if apart:
        yield _one("reward.reward_model.nnodes", hosts)
        yield _one("reward.reward_model.n_gpus_per_node", each)
    yield _one("reward.reward_model.model_path", role.model)
    yield _one("reward.reward_model.rollout.name", role.engine if role.engine in (Engine.VLLM, Engine.SGLANG) else Engine.VLLM.value)
    yield _one("reward.reward_model.rollout.tensor_model_parallel_size", role.layout.tp)
    yield _one("reward.reward_model.rollout.dtype", "bfloat16" if role.precision == "bf16" else "float16")
    weights_mib = 2 * asked.model.parameters / role.layout.tp / 2**20
    share = (weights_mib + REWARD_SPARE_MIB) / start.least_capacity_mib(pool.seats)
    yield _one("reward.reward_model.rollout.gpu_memory_utilization", min(math.ceil(share * 100) / 100, 0.95))
