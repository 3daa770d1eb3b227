"""
Target ``skyrl``: SkyRL takes counts, and sorts the GPUs of a group.

Facts (skyrl 0.3.0, ``skyrl/train/utils/utils.py``, ``skyrl/train/trainer.py``, ``skyrl/train/entrypoints/main_base.py``): engines are
created first, then the policy (with ref, where they share), ref, critic; bundles of one GPU are sorted by Ray's node id and GPU id. A
raylet hands out the GPUs of its CUDA_VISIBLE_DEVICES in order. One strategy (fsdp or megatron) and one micro-batch serve all models.

When to modify: SkyRL renames a key, or creates groups in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placement.plans import RolePlan
from placement.targets.ray_nodes import (
    dealt,
    in_order,
    long_command,
    options_of,
    pools_by,
    ray_start,
    visible_of,
)
from placement.targets.shell import script
from placement.targets.sizes import (
    differing,
    generating,
    host_memory_notes,
    is_offloaded,
    longest_tokens,
    micro_tokens,
    several_hosts,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.workloads.workload import Algorithm, Engine, RoleName

CREATED = (RoleName.ROLLOUT, RoleName.ACTOR, RoleName.REF, RoleName.CRITIC)

ESTIMATORS = {
    Algorithm.PPO: "gae",
    Algorithm.GRPO: "grpo",
    Algorithm.DAPO: "grpo",
    Algorithm.RLOO: "rloo",
    Algorithm.REINFORCE_PP: "reinforce++",
}

NAMES = {RoleName.ACTOR: "policy", RoleName.CRITIC: "critic", RoleName.REF: "ref"}


def _emit(start: Start, version: str) -> Emitted:
    launch = long_command(
        ["python", "-m", "skyrl.train.entrypoints.main_base"], [(f"{key}={value}",) for key, value in _overrides(start)]
    )
    files = {
        **ray_start(start, in_order(start, pools_by(start, CREATED))),
        "launch.sh": script("bash launch.sh data.train_data=… : after ray-start.sh, with what the map does not know.", [launch]),
    }
    return Emitted(files, tuple(_notes(start)))


def _overrides(start: Start) -> Iterator[tuple[str, object]]:
    batch, roles = start.workload.batch, start.roles
    _, rollout = generating(start)
    actor = roles[RoleName.ACTOR]
    has_ref = RoleName.REF in roles
    yield "trainer.strategy", actor.engine
    yield "trainer.placement.colocate_all", _word(start.workload.is_hybrid)
    yield "trainer.placement.colocate_policy_ref", _word(not has_ref or start.seats["ref"] == start.seats["actor"])
    for role, name in NAMES.items():
        if role in roles:
            yield f"trainer.placement.{name}_num_nodes", 1
            yield f"trainer.placement.{name}_num_gpus_per_node", len(start.seats[role])
    yield "trainer.algorithm.advantage_estimator", ESTIMATORS[start.workload.algorithm]
    yield "trainer.algorithm.use_kl_loss", _word(has_ref)
    for role, name in NAMES.items():
        if role in roles:
            yield from _model(roles[role], role, name)
    yield "trainer.train_batch_size", batch.prompts
    yield "trainer.policy_mini_batch_size", batch.prompts // batch.minibatches
    yield "trainer.critic_mini_batch_size", batch.prompts // batch.minibatches
    yield "trainer.max_tokens_per_microbatch", max(micro_tokens(start), longest_tokens(start))
    yield "trainer.gradient_checkpointing", "true"
    yield "trainer.max_prompt_length", batch.prompt_tokens
    yield "generator.max_input_length", batch.prompt_tokens
    yield "generator.n_samples_per_prompt", batch.samples_per_prompt
    yield "generator.sampling_params.max_generate_length", batch.response_max_tokens
    engine = "generator.inference_engine"
    yield f"{engine}.backend", rollout.engine
    yield f"{engine}.num_engines", rollout.replicas
    yield f"{engine}.tensor_parallel_size", rollout.tp
    yield f"{engine}.gpu_memory_utilization", rollout.gpu_memory_utilization
    yield f"{engine}.max_num_seqs", rollout.max_num_seqs


def _model(plan: RolePlan, role: RoleName, name: str) -> Iterator[tuple[str, object]]:
    yield f"trainer.{name}.model.path", plan.model
    if plan.engine == Engine.MEGATRON:
        yield f"trainer.{name}.megatron_config.tensor_model_parallel_size", plan.layout.tp
        yield f"trainer.{name}.megatron_config.pipeline_model_parallel_size", plan.layout.pp
        yield f"trainer.{name}.megatron_config.expert_model_parallel_size", plan.layout.ep_size
        return
    yield f"trainer.{name}.sequence_parallel_size", plan.layout.sp_size
    yield f"trainer.{name}.fsdp_config.cpu_offload", _word(is_offloaded(plan, always=plan.train is not None))
    if plan.train is not None:
        yield f"trainer.{name}.optimizer_config.offload_after_step", _word(is_offloaded(plan))


def _word(value: bool) -> str:
    return "true" if value else "false"


def _notes(start: Start) -> Iterator[str]:
    yield "data, environment and learning rates stay yours: launch.sh passes on what it is given"
    yield "it sorts the GPUs of a group: ranks follow ids, as in the map; nothing else may have taken GPUs of the Ray cluster before"
    sizes = {plan.train.micro_batch_tokens for plan in start.roles.values() if plan.train is not None}
    if len(sizes) > 1:
        yield f"micro-batches have one size there: {micro_tokens(start)} tokens, the smaller one of the map"
    if start.schedule.overlaps_generation:
        yield "generation beside training is another entry point of SkyRL (examples/train/async, fully_async): run it with these overrides"
    yield from host_memory_notes(start)


def _refuses(start: Start) -> Iterator[str]:
    yield from several_hosts(start, "it sorts nodes by Ray's ids, which are new at every start")
    models = {role: plan for role, plan in start.roles.items() if role != RoleName.ROLLOUT}
    yield from differing("the engine", {role: plan.engine for role, plan in models.items()})
    for role, plan in models.items():
        if plan.engine == Engine.MEGATRON and role == RoleName.CRITIC:
            yield "critic runs on megatron, and its critic has fsdp alone"
        if plan.precision != "bf16":
            yield f"{role} runs in {plan.precision}, and its models in bf16"
    batch = start.workload.batch
    if batch.prompts % batch.minibatches:
        yield f"{batch.minibatches} minibatches of {batch.prompts} prompts, and it cuts whole prompts"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs: counts, in the order in which groups are created, of the GPUs that Ray sees."""
    options = options_of(files["launch.sh"])
    gpus = visible_of(files["ray-start.sh"])
    place, engine = "trainer.placement", "generator.inference_engine"
    size = {
        role: int(options[f"{place}.{name}_num_gpus_per_node"])
        for role, name in NAMES.items()
        if f"{place}.{name}_num_gpus_per_node" in options
    }
    if options[f"{place}.colocate_all"] == "true":
        return dealt(gpus, [(list(size), len(gpus))])
    size[RoleName.ROLLOUT] = int(options[f"{engine}.num_engines"]) * int(options[f"{engine}.tensor_parallel_size"])
    groups: list[tuple[list[str], int]] = []
    for role in CREATED:
        if role is RoleName.REF and role in size and options[f"{place}.colocate_policy_ref"] == "true":
            groups[-1][0].append(role)
        elif role in size:
            groups.append(([role], size[role]))
    return dealt(gpus, groups)


TARGET = Target(
    name="skyrl",
    title="SkyRL",
    versions=("0.3",),
    pins="the set of each group, by CUDA_VISIBLE_DEVICES of `ray start`",
    keeps="no: it sorts; ranks follow ids",
    writes={
        "ray-start.sh": "`ray start` with GPUs in the order in which groups are created",
        "launch.sh": "the command with its overrides",
    },
    parser="SkyRLTrainConfig.from_cli_overrides and validate_cfg of skyrl 0.3.0",
    cannot=(
        "an order of GPUs that does not ascend: it sorts them, and ranks would be others",
        "several hosts: it sorts nodes by Ray's ids, which are new at every start",
        "a reward model on GPUs: its rewards are environments",
        "critic or engines that share with some roles and not with all: it raises an error or gives them GPUs of their own",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
