"""
What frameworks can express of a placement, as facts: rule ``target``.

A target is a framework (or a launcher) that a map is written for. What it takes is stated here, and holds in the program: the plan for a
target is one that the target can run. How its files are written is `placement.targets`.

Sources: the documentation and code of the versions that docs/targets.md names; for verl, OpenRLHF, RLinf, AReaL, TRL and accelerate
their own parsers are run in the tests.

When to modify: a framework learns to express more, or a target is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from placement.workloads.workload import Algorithm, Engine, Master, Offload, Precision, RoleName, Schedule

Pools = frozenset[frozenset[RoleName]]
"""Which roles share their GPUs: a partition of the roles that are placed."""

ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName.ACTOR, RoleName.ROLLOUT, RoleName.CRITIC, RoleName.REF, RoleName.REWARD


class Generates(StrEnum):
    """Where a target can generate: on the actor's GPUs (a hybrid engine), or on GPUs of its own."""

    HYBRID = "on the actor's GPUs"
    APART = "on GPUs of its own"
    EITHER = "on the actor's GPUs or on GPUs of its own"


@dataclass(frozen=True, slots=True)
class TargetRules:
    """
    What one framework can express.

    Parameters
    ----------
    says
        Which roles share GPUs in it, as a sentence for people.
    pools
        Whether it can place roles so.
    roles
        The models that it can place; a reward *function* needs no GPU and is no matter.
    algorithms
        Those that it has.
    generates
        Where it can generate.
    presets
        The readings of rule ``isolation`` that go with it when it generates on the actor's GPUs, and when on GPUs of its own; None where
        the general default does.
    schedules
        What it can run in these two cases, the usual one first; empty: any.
    is_partial
        Roles may share some of their GPUs (rule ``sharing=partial``).
    is_ascending
        It sorts the GPUs of a role: ranks follow ids.
    is_consecutive
        The ids of a role have no gap.
    training, generation
        Engines that it has.
    tensor_parallel_fsdp
        Whether its FSDP cuts tensors, too.
    zero
        Stages of ZeRO that its FSDP has.
    ref_fsdp
        What it does with the weights of the reference model under FSDP; None where the job can say it.
    serves_reward
        It runs the reward model on an engine that generates, whatever the job says.
    one_megatron_layout
        Roles on Megatron that share a pool have the same tp, pp and ep.
    precisions
        In which its models compute.
    masters, megatron_masters
        Precisions of the weights that its optimizers update, under FSDP and under Megatron.
    megatron_streams
        Whether its Megatron can keep optimizer states in host memory also in the update.
    offloads
        Where it can keep the state of a trained role when it generates on the actor's GPUs, and when on GPUs of its own.
    shares_sequences
        Whether its FSDP lets GPUs share sequences (Ulysses, ring or context parallelism).
    like_actor
        Roles that have the actor's tensor, pipeline, sequence and expert sizes, for they live in its processes.
    whole_batches
        It refuses data-parallel sizes that do not divide the sequences of an optimizer update.
    quantized
        Whether its files can ask engines for 8-bit weights or an 8-bit KV cache.
    """

    name: str
    says: str
    pools: Callable[[Pools], bool] = lambda pools: True
    roles: frozenset[RoleName] = frozenset(RoleName)
    algorithms: frozenset[Algorithm] = frozenset(Algorithm)
    generates: Generates = Generates.EITHER
    presets: tuple[str | None, str | None] = (None, None)
    schedules: tuple[tuple[Schedule, ...], tuple[Schedule, ...]] = ((), ())
    is_partial: bool = False
    is_ascending: bool = False
    is_consecutive: bool = False
    training: tuple[Engine, ...] = (Engine.FSDP, Engine.MEGATRON)
    generation: tuple[Engine, ...] = (Engine.VLLM, Engine.SGLANG)
    tensor_parallel_fsdp: bool = False
    zero: tuple[int, ...] = (3,)
    ref_fsdp: Offload | None = None
    serves_reward: bool = False
    one_megatron_layout: bool = False
    precisions: tuple[Precision, ...] = tuple(Precision)
    masters: tuple[Master, ...] = tuple(Master)
    megatron_masters: tuple[Master, ...] = tuple(Master)
    megatron_streams: bool = True
    offloads: tuple[tuple[Offload, ...], tuple[Offload, ...]] = (tuple(Offload), tuple(Offload))
    shares_sequences: bool = True
    like_actor: frozenset[RoleName] = frozenset()
    whole_batches: bool = False
    quantized: bool = True

    def kept(self, engine: Engine) -> tuple[Master, ...]:
        """Return the precisions of the weights that its optimizers update under *engine*."""
        return self.megatron_masters if engine is Engine.MEGATRON else self.masters

    def waits(self, engine: Engine, *, is_hybrid: bool) -> tuple[Offload, ...]:
        """Return where it can keep the state of a role that *engine* trains; *is_hybrid* when it generates on the actor's GPUs."""
        offloads = self.offloads[0 if is_hybrid else 1]
        return offloads if engine is Engine.FSDP or self.megatron_streams else tuple(o for o in offloads if o is not Offload.ALWAYS)

    def patterns(self, placed: Sequence[RoleName]) -> Iterator[Pools]:
        """Yield the ways in which it can pool the roles *placed*."""
        return (pools for pools in partitions(tuple(placed)) if self.pools(pools))


def partitions(roles: Sequence[RoleName]) -> Iterator[Pools]:
    """Yield all partitions of *roles*: 52 of five."""
    if not roles:
        yield frozenset()
        return
    first, *rest = roles
    for others in partitions(rest):
        yield others | {frozenset({first})}
        for pool in others:
            yield (others - {pool}) | {pool | {first}}


# ── which roles share ───────────────────────────────────────────────────────────────────────────────────────────────────


def _together(*roles: RoleName) -> Callable[[Pools], bool]:
    """These roles share one pool; another role is with them or in any other pool."""
    return lambda pools: sum(1 for pool in pools if pool & set(roles)) <= 1


def _alone(*roles: RoleName) -> Callable[[Pools], bool]:
    """Each of these roles is alone on its GPUs."""
    return lambda pools: all(len(pool) == 1 for pool in pools if pool & set(roles))


def _all(*conditions: Callable[[Pools], bool]) -> Callable[[Pools], bool]:
    return lambda pools: all(condition(pools) for condition in conditions)


def _any(*conditions: Callable[[Pools], bool]) -> Callable[[Pools], bool]:
    return lambda pools: any(condition(pools) for condition in conditions)


def _one_pool(pools: Pools) -> bool:
    """All share; the engines then are the actor's own, which is a hybrid engine and no role."""
    return len(pools) == 1 and not _has(pools, ROLLOUT)


def _all_apart(pools: Pools) -> bool:
    return all(len(pool) == 1 for pool in pools)


def _only_pairs(*pairs: frozenset[RoleName]) -> Callable[[Pools], bool]:
    """Roles share a pool only as one of these pairs."""
    return lambda pools: all(len(pool) == 1 or pool in pairs for pool in pools)


def _with_the_actor_or_alone(pools: Pools) -> bool:
    return all(len(pool) == 1 or ACTOR in pool for pool in pools)


def _launcher(name: str, says: str, *, is_partial: bool = False, is_ascending: bool = False) -> TargetRules:
    """A launcher that starts whatever engine a role has, in any layout."""
    return TargetRules(
        name,
        says,
        is_partial=is_partial,
        is_ascending=is_ascending,
        training=tuple(Engine),
        generation=tuple(Engine),
        tensor_parallel_fsdp=True,
        zero=(0, 1, 2, 3),
    )


_NO_OVERLAP = (Schedule.NONE,)
_IN_STAGES = (Schedule.FULL,)
_BESIDE = (Schedule.ONE_STEP_OFF, Schedule.ASYNC)
_STREAMED = (Offload.NONE, Offload.ALWAYS)


def _but(*absent: Algorithm) -> frozenset[Algorithm]:
    return frozenset(Algorithm) - set(absent)


TARGET_RULES = (
    TargetRules(
        "verl-stock",
        "actor, critic and ref share one pool; the reward model is in it or in a pool of its own; a rollout of its own is alone",
        pools=_all(_together(ACTOR, CRITIC, REF), _with_the_actor_or_alone, _alone(ROLLOUT)),
        presets=("colocate", None),
        schedules=(_NO_OVERLAP, (Schedule.ASYNC,)),
        ref_fsdp=Offload.ALWAYS,
        serves_reward=True,
        one_megatron_layout=True,
        whole_batches=True,
    ),
    TargetRules(
        "verl",
        "any roles share a pool or have one of their own; generation is on the actor's GPUs",
        generates=Generates.HYBRID,
        schedules=(_IN_STAGES, ()),
        ref_fsdp=Offload.ALWAYS,
        serves_reward=True,
        one_megatron_layout=True,
        whole_batches=True,
    ),
    TargetRules(
        "roll",
        "any lists of GPUs, in any order",
        algorithms=_but(Algorithm.REMAX, Algorithm.RLOO),
        is_partial=True,
        masters=(Master.FP32,),
        shares_sequences=False,
        whole_batches=True,
        megatron_masters=(Master.FP32,),
        megatron_streams=False,
        quantized=False,
    ),
    TargetRules(
        "rlinf",
        "all roles have the same GPUs, or generation is on its own and each role has GPUs of its own, with consecutive ids",
        pools=lambda pools: _all_apart(pools) if _has(pools, ROLLOUT) else _one_pool(pools),
        algorithms=_but(Algorithm.REMAX, Algorithm.RLOO),
        presets=("colocate", None),
        schedules=(_NO_OVERLAP, _NO_OVERLAP),
        is_ascending=True,
        is_consecutive=True,
        shares_sequences=False,
        whole_batches=True,
        megatron_masters=(Master.FP32,),
        megatron_streams=False,
        quantized=False,
    ),
    TargetRules(
        "openrlhf",
        "all roles have the same GPUs, or engines are on their own, actor and ref share or not, critic and reward share or not",
        pools=_any(
            _one_pool,
            _all(_alone(ROLLOUT), _only_pairs(frozenset({ACTOR, REF}), frozenset({CRITIC, REWARD})), lambda pools: _has(pools, ROLLOUT)),
        ),
        algorithms=_but(Algorithm.REMAX),
        presets=("colocate", None),
        schedules=(_IN_STAGES, (Schedule.FULL, Schedule.ASYNC)),
        training=(Engine.FSDP,),
        generation=(Engine.VLLM,),
        zero=(1, 2, 3),
        masters=(Master.FP32,),
        offloads=((Offload.NONE, Offload.BETWEEN), (Offload.NONE,)),
        whole_batches=True,
        quantized=False,
    ),
    TargetRules(
        "trl",
        "actor, ref and reward model are in one process per GPU; vLLM is on their GPUs or on its own",
        pools=_all(_together(ACTOR, REF, REWARD), _alone(ROLLOUT)),
        roles=frozenset({ACTOR, REF, REWARD, ROLLOUT}),
        algorithms=frozenset({Algorithm.GRPO, Algorithm.DAPO, Algorithm.RLOO}),
        presets=("colocate", None),
        schedules=(_NO_OVERLAP, _NO_OVERLAP),
        training=(Engine.FSDP,),
        generation=(Engine.VLLM,),
        offloads=(_STREAMED, _STREAMED),
        shares_sequences=False,
        whole_batches=True,
        quantized=False,
    ),
    TargetRules(
        "prime-rl",
        "the trainer and the engines each have GPUs of their own, and there is no other model",
        pools=_all_apart,
        roles=frozenset({ACTOR, ROLLOUT}),
        generates=Generates.APART,
        schedules=((), _BESIDE),
        training=(Engine.FSDP,),
        generation=(Engine.VLLM,),
        offloads=(_STREAMED, _STREAMED),
        precisions=(Precision.BF16,),
        quantized=False,
    ),
    TargetRules(
        "areal",
        "critic and ref are on the actor's GPUs or on their own; engines are on their own",
        pools=_all(_with_the_actor_or_alone, _alone(ROLLOUT)),
        roles=frozenset({ACTOR, CRITIC, REF, ROLLOUT}),
        generates=Generates.APART,
        schedules=((), (Schedule.ASYNC, Schedule.ONE_STEP_OFF)),
        tensor_parallel_fsdp=True,
        megatron_masters=(Master.FP32,),
        megatron_streams=False,
        quantized=False,
    ),
    TargetRules(
        "nemo-rl",
        "the policy (actor and ref) has one pool; generation is on it or on its own, a reward model on its own",
        pools=_all(_together(ACTOR, REF), _alone(ROLLOUT, REWARD)),
        roles=frozenset({ACTOR, REF, REWARD, ROLLOUT}),
        algorithms=frozenset({Algorithm.GRPO, Algorithm.DAPO, Algorithm.RLOO}),
        presets=("colocate", None),
        schedules=(_NO_OVERLAP, _BESIDE),
        is_ascending=True,
        generation=(Engine.VLLM,),
        masters=(Master.FP32,),
        offloads=(tuple(Offload), _STREAMED),
        tensor_parallel_fsdp=True,
        like_actor=frozenset({REF}),
        whole_batches=True,
        megatron_masters=(Master.FP32,),
        quantized=False,
    ),
    TargetRules(
        "skyrl",
        "all roles have the same GPUs, or actor and ref share or not, and critic and engines are each on their own",
        pools=_any(
            _one_pool, _all(_alone(CRITIC, ROLLOUT), _only_pairs(frozenset({ACTOR, REF})), lambda pools: _has(pools, ROLLOUT))
        ),
        roles=frozenset({ACTOR, CRITIC, REF, ROLLOUT}),
        algorithms=_but(Algorithm.REMAX),
        presets=("colocate", None),
        schedules=(_NO_OVERLAP, (Schedule.NONE, Schedule.ONE_STEP_OFF, Schedule.ASYNC)),
        is_ascending=True,
        generation=(Engine.VLLM,),
        masters=(Master.FP32,),
        offloads=(tuple(Offload), _STREAMED),
        whole_batches=True,
        megatron_masters=(Master.FP32,),
        megatron_streams=False,
        precisions=(Precision.BF16,),
        quantized=False,
    ),
    TargetRules(
        "slime",
        "actor, critic and ref are on the same GPUs; engines are on them or on their own",
        pools=_all(_together(ACTOR, CRITIC, REF), _alone(ROLLOUT)),
        roles=frozenset({ACTOR, CRITIC, REF, ROLLOUT}),
        algorithms=_but(Algorithm.REMAX, Algorithm.RLOO),
        presets=("colocate", None),
        schedules=(_NO_OVERLAP, (Schedule.NONE, Schedule.ONE_STEP_OFF, Schedule.ASYNC)),
        is_ascending=True,
        training=(Engine.MEGATRON,),
        generation=(Engine.SGLANG,),
        masters=(Master.FP32,),
        like_actor=frozenset({REF, CRITIC}),
        whole_batches=True,
        megatron_masters=(Master.FP32,),
        quantized=False,
    ),
    _launcher("deepspeed", "any roles on any GPUs, and ranks follow ids", is_partial=True, is_ascending=True),
    _launcher("ray", "any roles on any GPUs, but a GPU is of one placement group"),
    _launcher("kubernetes", "any roles on any GPUs, but a GPU is of one pod"),
)  # fmt: skip
"""
What frameworks can express, and launchers that cannot express all. Others (torchrun, Slurm, …) start any roles on any GPUs in any order
and have no entry.
"""


def _has(pools: Pools, role: RoleName) -> bool:
    return any(role in pool for pool in pools)


def target_rules(name: str | None) -> TargetRules | None:
    """Return what the target *name* can express; None for no target, and for launchers, which can express all."""
    return next((rules for rules in TARGET_RULES if rules.name == name), None)
