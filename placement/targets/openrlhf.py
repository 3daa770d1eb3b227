"""
Target ``openrlhf``: OpenRLHF takes counts; GPUs follow from the order in which it creates groups.

Facts (openrlhf 0.11.2 and 0.9.0, ``openrlhf/cli/train_ppo_ray.py``, ``openrlhf/trainer/ray/launcher.py``): groups are created in the
order shared actor and ref, engines, actor, ref, shared critic and reward, critic, reward, each as bundles of one GPU; rank k is on bundle
k. A raylet hands out the GPUs of its CUDA_VISIBLE_DEVICES in order. All models have one ZeRO stage, one tensor and one ring size. Flags
have dots since 0.10.2, and each version rejects the other's.

When to modify: OpenRLHF renames a flag, or creates groups in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placement.errors import InputError
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
    is_offloaded,
    longest_tokens,
    micro_tokens,
    several_hosts,
    update_sequences,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.workloads.workload import Algorithm, RoleName, Schedule

NEW, OLD = "0.11", "0.9"

ESTIMATORS = {
    Algorithm.PPO: "gae",
    Algorithm.GRPO: "group_norm",
    Algorithm.DAPO: "group_norm",
    Algorithm.RLOO: "rloo",
    Algorithm.REINFORCE_PP: "reinforce",
}
GROUPED = (Algorithm.GRPO, Algorithm.DAPO, Algorithm.RLOO)
"""Algorithms that it starts only with several answers per prompt."""

OLD_FLAGS: Mapping[str, str] = {
    "train.colocate_all": "colocate_all_models",
    "train.colocate_actor_ref": "colocate_actor_ref",
    "train.colocate_critic_reward": "colocate_critic_reward",
    "train.async_enable": "async_train",
    "algo.kl.init_coef": "init_kl_coef",
    "algo.advantage.estimator": "advantage_estimator",
    "ds.zero_stage": "zero_stage",
    "ds.ring_attn_size": "ring_attn_size",
    "ds.packing_samples": "packing_samples",
    "ds.enable_sleep": "deepspeed_enable_sleep",
    "actor.gradient_checkpointing_enable": "gradient_checkpointing",
    "train.dynamic_batch_enable": "use_dynamic_batch",
    "train.max_tokens_per_gpu": "train_max_tokens_per_gpu",
    "rollout.max_tokens_per_gpu": "rollout_max_tokens_per_gpu",
    "rollout.batch_size": "rollout_batch_size",
    "rollout.n_samples_per_prompt": "n_samples_per_prompt",
    "rollout.max_new_tokens": "generate_max_len",
    "train.batch_size": "train_batch_size",
    "data.max_len": "max_len",
    "data.prompt_max_len": "prompt_max_len",
    "actor.model_name_or_path": "pretrain",
    "critic.model_name_or_path": "critic_pretrain",
    "reward.model_name_or_path": "reward_pretrain",
    "reward.offload": "ref_reward_offload",
    "ref.offload": "ref_reward_offload",
}
"""Flags of versions before 0.10.2, where they differ by more than a dot for an underscore."""

CREATED = (RoleName.ACTOR, RoleName.ROLLOUT, RoleName.REF, RoleName.CRITIC, RoleName.REWARD)
ENGINES_FIRST = (RoleName.ROLLOUT, RoleName.ACTOR, RoleName.REF, RoleName.CRITIC, RoleName.REWARD)


def _order(*, is_shared: bool) -> tuple[RoleName, ...]:
    """Return the order in which groups are created: that of actor and ref comes before the engines only where they share one."""
    return CREATED if is_shared else ENGINES_FIRST


def _shares(start: Start, a: str, b: str) -> bool:
    return a in start.seats and b in start.seats and start.seats[a] == start.seats[b]


def _is_one_pool(start: Start) -> bool:
    return start.workload.is_hybrid


def _emit(start: Start, version: str) -> Emitted:
    if version != NEW and start.roles["actor"].precision != "bf16":
        raise InputError(
            f"target openrlhf: version {version} has no flag for {start.roles['actor'].precision}, and would compute in 32 bits: leave out "
            "--target-version"
        )
    options = [(f"--{_named(key, version)}", *values) for key, *values in _flags(start, version)]
    order = _order(is_shared=_is_one_pool(start) or _shares(start, "actor", "ref"))
    launch = long_command(["python", "-m", "openrlhf.cli.train_ppo_ray"], list(dict.fromkeys(options)))
    files = {
        **ray_start(start, in_order(start, pools_by(start, order))),
        "launch.sh": script(
            f"bash launch.sh --{'data.prompt_dataset' if version == NEW else 'prompt_data'} …: after ray-start.sh, with what the map "
            "does not know.",
            [launch],
        ),
    }
    return Emitted(files, tuple(_notes(start)))


def _named(key: str, version: str) -> str:
    return key if version == NEW else OLD_FLAGS.get(key, key.replace(".", "_"))


def _flags(start: Start, version: str) -> Iterator[tuple[str, ...]]:
    batch, roles = start.workload.batch, start.roles
    _, rollout = generating(start)
    for name in (RoleName.ACTOR, RoleName.REF, RoleName.CRITIC, RoleName.REWARD):
        if name in roles:
            yield f"{name}.num_nodes", "1"
            yield f"{name}.num_gpus_per_node", str(len(start.seats[name]))
    yield "vllm.num_engines", str(rollout.replicas)
    yield "vllm.tensor_parallel_size", str(rollout.tp)
    yield "vllm.gpu_memory_utilization", str(rollout.gpu_memory_utilization)
    if _is_one_pool(start):
        yield ("train.colocate_all",)
        yield ("vllm.enable_sleep",)
    elif _shares(start, "actor", "ref"):
        yield ("train.colocate_actor_ref",)
    if not _is_one_pool(start) and _shares(start, "critic", "reward"):
        yield ("train.colocate_critic_reward",)
    if start.schedule is Schedule.ASYNC:
        yield ("train.async_enable",)
    yield "algo.advantage.estimator", ESTIMATORS[start.workload.algorithm]
    if "ref" not in roles:
        yield "algo.kl.init_coef", "0"
    yield "ds.zero_stage", str(roles["actor"].train.zero_stage if roles["actor"].train else 3)
    if version == NEW:
        yield "ds.param_dtype", roles["actor"].precision
    elif roles["actor"].precision == "bf16":
        yield ("bf16",)
    if roles["actor"].layout.sp_size > 1:
        yield "ds.ring_attn_size", str(roles["actor"].layout.sp_size)
    yield ("ds.packing_samples",)
    yield ("actor.gradient_checkpointing_enable",)
    tokens = str(max(micro_tokens(start), longest_tokens(start)))
    yield ("train.dynamic_batch_enable",)
    yield "train.max_tokens_per_gpu", tokens
    yield "rollout.max_tokens_per_gpu", tokens
    if any(is_offloaded(plan) for plan in roles.values() if plan.train is not None):
        yield ("ds.enable_sleep",)
    for name in (RoleName.REF, RoleName.REWARD):
        if name in roles and is_offloaded(roles[name]):
            yield (f"{name}.offload",)
    yield "rollout.batch_size", str(batch.prompts)
    yield "rollout.n_samples_per_prompt", str(batch.samples_per_prompt)
    yield "train.batch_size", str(update_sequences(start))
    yield "data.max_len", str(longest_tokens(start))
    if version != NEW:      # it cuts prompts that are longer than its default
        yield "data.prompt_max_len", str(batch.prompt_tokens)
    yield "rollout.max_new_tokens", str(batch.response_max_tokens)
    for name in (RoleName.ACTOR, RoleName.CRITIC, RoleName.REWARD):
        if name in roles:
            yield f"{name}.model_name_or_path", roles[name].model


def _notes(start: Start) -> Iterator[str]:
    waits = {name: is_offloaded(start.roles[name]) for name in (RoleName.REF, RoleName.REWARD) if name in start.roles}
    if len(set(waits.values())) > 1:
        yield "versions before 0.10.2 have one switch for ref and reward: there both wait in host memory"
    yield "nothing else may have taken GPUs of the Ray cluster before: groups get them in the order in which they are created"
    if "reward" not in start.roles:
        yield "there is no reward model: launch.sh needs --reward.remote_url or --train.agent_func_path (--remote_rm_url before 0.10.2)"
    sizes = {plan.train.micro_batch_tokens for plan in start.roles.values() if plan.train is not None}
    if len(sizes) > 1:
        yield f"micro-batches have one size there: {micro_tokens(start)} tokens, the smaller one of the map"
    waiting = {role: is_offloaded(plan) for role, plan in start.roles.items() if plan.train is not None}
    if len(set(waiting.values())) > 1:
        yield "ds.enable_sleep moves the state of actor and critic alike to host memory between their phases"
    alone = [role for pool in start.pools for role in pool.roles if len(pool.seats) == 1 and RoleName.ROLLOUT not in pool.roles]
    if alone and len(start.pools) > 1:
        yield (
            f"{' and '.join(alone)} on one GPU each: such a role gets no group, and takes a GPU when it starts; with several of them see "
            "with `placement verify` which"
        )
    yield "max_num_seqs has no flag: vLLM's own default holds"


def _refuses(start: Start) -> Iterator[str]:
    yield from several_hosts(start, "Ray chooses the order of nodes there: ranks could be on the other host")
    groups = {role: plan for role, plan in start.roles.items() if role != RoleName.ROLLOUT}
    yield from differing("the ring size", {role: plan.layout.sp_size for role, plan in groups.items()})
    trained = {role: plan.train.zero_stage for role, plan in groups.items() if plan.train is not None}
    yield from differing("the ZeRO stage", trained)
    yield from differing("the precision", {role: plan.precision for role, plan in groups.items()})
    if "ref" in start.roles and start.roles["ref"].model != start.roles["actor"].model:
        yield f"ref has the model {start.roles['ref'].model}, and it loads the actor's"
    if start.workload.algorithm in GROUPED and start.workload.batch.samples_per_prompt < 2:
        yield f"{start.workload.algorithm} with one answer per prompt, which it refuses"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs: counts, in the order in which groups are created, of the GPUs that Ray sees."""
    options = {key.replace(".", "_"): value for key, value in options_of(files["launch.sh"]).items()}
    gpus = visible_of(files["ray-start.sh"])
    size = {role: int(options[f"{role}_num_gpus_per_node"]) for role in RoleName if f"{role}_num_gpus_per_node" in options}
    if "train_colocate_all" in options or "colocate_all_models" in options:
        return dealt(gpus, [(list(size), len(gpus))])
    size[RoleName.ROLLOUT] = int(options["vllm_num_engines"]) * int(options["vllm_tensor_parallel_size"])
    shared = {"train_colocate_actor_ref", "colocate_actor_ref"} & options.keys()
    together = {"train_colocate_critic_reward", "colocate_critic_reward"} & options.keys()
    groups: list[tuple[list[str], int]] = []
    for role in _order(is_shared=bool(shared)):
        beside = {RoleName.REF: RoleName.ACTOR if shared else None, RoleName.REWARD: RoleName.CRITIC if together else None}.get(role)
        if role in size and beside is not None:
            next(roles for roles, _ in groups if beside in roles).append(role)
        elif role in size:
            groups.append(([role], size[role]))
    return dealt(gpus, groups)


TARGET = Target(
    name="openrlhf",
    title="OpenRLHF",
    versions=(NEW, OLD),
    pins="ids, by CUDA_VISIBLE_DEVICES of `ray start`",
    keeps="yes, on one host",
    writes={"ray-start.sh": "`ray start` with GPUs in the order in which groups are created", "launch.sh": "the command with its flags"},
    parser="argument parser and checks of openrlhf 0.11.2 and 0.9.0; its groups (0.11.2) on a Ray node",
    cannot=(
        "several hosts: Ray orders them, and ranks could be on the other host",
        "another ZeRO stage, ring or tensor size per model: it has one for all",
        "actor and critic on the same GPUs beside engines of their own: only its asynchronous mode has that, and it is not written",
        "optimizers that update bf16 weights: DeepSpeed keeps fp32 ones",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
