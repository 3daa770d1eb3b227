"""
The job: roles, their models, and the menus from which the solver chooses.

These are plain values; `placement.workloads.workload_file` reads them from YAML.

When to modify: the user can say something new about a job.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from placement.models.model import Model


class Algorithm(StrEnum):
    """Which roles exist, which stages run, in which order (see `placement.workloads.dataflow`)."""

    PPO = "ppo"
    GRPO = "grpo"
    RLOO = "rloo"
    REMAX = "remax"
    REINFORCE_PP = "reinforce++"
    DAPO = "dapo"


class Schedule(StrEnum):
    """Which stages of disjoint pools may run at the same time."""

    FULL = "full"
    NONE = "none"
    ONE_STEP_OFF = "one_step_off"
    ASYNC = "async"

    @property
    def overlaps_generation(self) -> bool:
        """Whether generation runs beside training, which takes GPUs of its own."""
        return self in (Schedule.ONE_STEP_OFF, Schedule.ASYNC)


class RoleName(StrEnum):
    """The roles, in the order in which maps list them."""

    ACTOR = "actor"
    ROLLOUT = "rollout"
    CRITIC = "critic"
    REF = "ref"
    REWARD = "reward"


class Engine(StrEnum):
    """What runs a role."""

    FSDP = "fsdp"
    MEGATRON = "megatron"
    VLLM = "vllm"
    SGLANG = "sglang"


class Precision(StrEnum):
    """16-bit type of weights and activations."""

    BF16 = "bf16"
    FP16 = "fp16"


class Master(StrEnum):
    """Precision of the weights that the optimizer updates."""

    FP32 = "fp32"
    BF16 = "bf16"


class Offload(StrEnum):
    """
    Where state waits.

    ``none``: on the GPU; ``between``: in host memory between the role's own phases (the peak of the update is not lowered);
    ``always``: optimizer and weights are streamed from host memory also in the update (FSDP2 with CPU offload).
    """

    NONE = "none"
    BETWEEN = "between"
    ALWAYS = "always"


class Recompute(StrEnum):
    """
    What the backward pass computes again instead of keeping it (gradient checkpointing).

    ``full``: all of a layer but its input. ``selective``: under FSDP every other matrix product is kept (TorchTitan), under Megatron all
    but the core of attention. ``none``: everything is kept, but for the core of attention, of which FlashAttention keeps nothing.
    """

    FULL = "full"
    SELECTIVE = "selective"
    NONE = "none"


class Quantization(StrEnum):
    """Weights of a generation engine's linear layers: 16 bits, or 8 (embeddings, norms and what is trained keep theirs)."""

    NONE = "none"
    FP8 = "fp8"


class KvCache(StrEnum):
    """Numbers of the KV cache: as the model's 16 bits, or 8 bits."""

    AUTO = "auto"
    FP8 = "fp8"


@dataclass(frozen=True, slots=True)
class Batch:
    """
    One step of the algorithm.

    Parameters
    ----------
    prompts, samples_per_prompt
        Sequences per step = prompts × samples_per_prompt.
    prompt_tokens
        Tokens of a prompt.
    response_mean_tokens, response_max_tokens
        Length of responses: mean, and the longest that is allowed.
    minibatches
        Optimizer updates per step.
    micro_batch_tokens
        Tokens that one data-parallel rank passes through the model at a time.
    """

    prompts: int
    samples_per_prompt: int
    prompt_tokens: int
    response_mean_tokens: int
    response_max_tokens: int
    minibatches: int
    micro_batch_tokens: int

    @property
    def sequences(self) -> int:
        """Sequences per step."""
        return self.prompts * self.samples_per_prompt

    @property
    def tokens(self) -> int:
        """Prompt and (mean) response tokens per step."""
        return self.sequences * (self.prompt_tokens + self.response_mean_tokens)


@dataclass(frozen=True, slots=True)
class LayoutMenu:
    """
    Sizes of tensor, pipeline and data parallelism to choose from; None for *dp* means any that fills the group.

    Parameters
    ----------
    sp
        Sequence parallelism (Ulysses, FSDP): GPUs that share the tokens of each sequence.
    ep
        Expert parallelism (Megatron): data-parallel ranks that share the experts of each layer.
    """

    tp: tuple[int, ...] = (1,)
    pp: tuple[int, ...] = (1,)
    dp: tuple[int, ...] | None = None
    sp: tuple[int, ...] = (1,)
    ep: tuple[int, ...] = (1,)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Sizes of the blocks of consecutive ranks that exchange activations in every layer: tp, and tp·sp."""
        return tuple(dict.fromkeys((*self.tp, *(tp * sp for tp in self.tp for sp in self.sp))))


@dataclass(frozen=True, slots=True)
class TrainMenu:
    """
    How a trained role may keep its state. Menus are in order of preference.

    *zero* is what FSDP spreads over its ranks: 1 optimizer, 2 also gradients, 3 also weights. Megatron has *distributed_optimizer* in its
    place. *lora_merge* is whether the weight sync sends all weights, the adapters merged into them, in place of the adapters alone; None
    for what frameworks do (`placement.memory.sending`). *recompute* is None where the engine does what it does by itself
    (`Role.recompute`). *fp8*: matrix products of forward and backward passes run in 8 bits, state stays as it is. What follows these is
    what published measurements state; a workload file cannot say it: *compiled*, the loss is one kernel; *in_backward*, the optimizer
    runs within the backward pass on state that is paged to the host; *frozen_bytes* of a linear weight that LoRA leaves as it is, None for
    those of the master.
    """

    master: tuple[Master, ...] = (Master.FP32, Master.BF16)
    offload: tuple[Offload, ...] = (Offload.NONE, Offload.BETWEEN, Offload.ALWAYS)
    micro_batch_tokens: tuple[int, ...] = (8192,)
    fused_ce: bool = True
    lora: int = 0
    lora_merge: bool | None = None
    zero: tuple[int, ...] = (3,)
    distributed_optimizer: bool = True
    recompute: Recompute | None = None
    fp8: bool = False
    compiled: bool = False
    in_backward: bool = False
    frozen_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutMenu:
    """How generation may run; *sleep* is whether the hybrid engine gives up its memory between phases. Menus are in order of preference."""

    engine: Engine = Engine.VLLM
    tp: tuple[int, ...] = (1,)
    gpu_memory_utilization: tuple[float, ...] = (0.6,)
    max_num_seqs: int = 256
    quantization: tuple[Quantization, ...] = (Quantization.NONE,)
    kv_cache: tuple[KvCache, ...] = (KvCache.AUTO,)
    sleep: bool = True


@dataclass(frozen=True, slots=True)
class Role:
    """
    One role of the job.

    Parameters
    ----------
    model
        None for a reward *function*, which needs no GPU.
    engine
        What trains it, or runs its forward passes; for `RoleName.ROLLOUT` what generates.
    min_gpus, max_gpus, gpu_menu
        Sizes that the user asked for; None where nothing was said.
    train
        For actor and critic.
    rollout
        For an actor with the hybrid engine, and for a rollout role.
    offload
        For frozen roles (ref, reward): whether weights wait in host memory between uses.
    precision
        Types to choose from, in order of preference.
    """

    name: RoleName
    model: Model | None
    engine: Engine = Engine.FSDP
    min_gpus: int | None = None
    max_gpus: int | None = None
    gpu_menu: tuple[int, ...] | None = None
    layout: LayoutMenu = LayoutMenu()
    train: TrainMenu | None = None
    rollout: RolloutMenu | None = None
    offload: tuple[Offload, ...] = (Offload.NONE,)
    precision: tuple[Precision, ...] = (Precision.BF16, Precision.FP16)

    @property
    def recompute(self) -> Recompute:
        """What training computes again: what the user says, else all of a layer under FSDP, and Megatron's selective form."""
        said = None if self.train is None else self.train.recompute
        return said or (Recompute.SELECTIVE if self.engine is Engine.MEGATRON else Recompute.FULL)

    @property
    def is_function(self) -> bool:
        """Whether it is a function on the CPU, which takes no GPU."""
        return self.model is None

    def replace(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Workload:
    """
    A job.

    Parameters
    ----------
    rules
        The rules text of the file (``guide``, ``guide,contiguity=off``), unparsed; None when the file names none.
    """

    algorithm: Algorithm
    batch: Batch
    roles: tuple[Role, ...]
    schedule: Schedule = Schedule.FULL
    rules: str | None = None
    name: str | None = None

    def role(self, name: RoleName) -> Role | None:
        """Return the role *name*, or None when the job has none."""
        return next((r for r in self.roles if r.name is name), None)

    @property
    def placed(self) -> tuple[Role, ...]:
        """The roles that need GPUs, in the order of `RoleName`."""
        order = list(RoleName)
        return tuple(sorted((r for r in self.roles if not r.is_function), key=lambda r: order.index(r.name)))

    @property
    def is_hybrid(self) -> bool:
        """Whether the actor generates on its own GPUs."""
        return self.role(RoleName.ROLLOUT) is None

    def replace(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
