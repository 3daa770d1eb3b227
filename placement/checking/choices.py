"""
Was everything that the plan chose on the workload's menus, and can the cards run it (rule ``supported``), and trainers (``even_batch``)?

When to modify: a menu is added to `placement.workloads.workload`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement.choices.capabilities import OF_AMD, Feature, least_capability, multiplies_fp8, runs
from placement.plans import Plan, RolePlan
from placement.program.instance import Instance
from placement.workloads.workload import (
    Batch,
    Engine,
    KvCache,
    LayoutMenu,
    Master,
    Precision,
    Quantization,
    Role,
    RoleName,
)

Dished = tuple[str, object, Sequence[object]]
"""What was chosen: its name, the value, and the menu that must have it."""


def choice_problems(plan: Plan, instance: Instance) -> Iterator[str]:
    """Say which choices of *plan* are on no menu of the workload, or do not run on their cards."""
    for role in instance.workload.placed:
        chosen, gpus = plan.roles[role.name], plan.device_map[role.name]
        off_menu = [
            f"{role.name} has {what} {value}, its menu has {', '.join(map(str, menu))}"
            for what, value, menu in _dished(chosen, role)
            if value not in menu
        ]
        yield from off_menu
        yield from _cuts(chosen, role)
        if not off_menu:
            yield from _unsupported(chosen, role, gpus, instance)
        if instance.rules.even_batch and role.engine in (Engine.FSDP, Engine.MEGATRON):
            yield from _uneven(chosen, role, instance.workload.batch)


def preference(plan: Plan, instance: Instance) -> int:
    """Return how far down the menus the choices of *plan* stand, all together; they are on the menus."""
    return sum(
        list(menu).index(value)
        for role in instance.workload.placed
        for what, value, menu in _dished(plan.roles[role.name], role)
        if what != "precision"      # no choice: the first type that the cards run
    )


def tp_sizes(chosen: RolePlan) -> set[int]:
    """Return the sizes above one of the blocks that a role uses: of TP, and of ranks that share sequences as well."""
    layout = chosen.layout
    return ({layout.tp, layout.tp * layout.sp_size} | ({chosen.rollout.tp} if chosen.rollout else set())) - {1}


def _dished(chosen: RolePlan, role: Role) -> Iterator[Dished]:
    assert role.model is not None
    yield "the model", chosen.model, (role.model.name,)
    yield "the engine", chosen.engine, (role.engine.value,)
    yield "precision", chosen.precision, [p.value for p in role.precision]
    if role.name is not RoleName.ROLLOUT:
        yield from _layout(chosen, role.layout)
    if chosen.train is not None and role.train is not None:
        yield "master", chosen.train.master, [m.value for m in role.train.master]
        yield "offload", chosen.train.offload, [o.value for o in role.train.offload]
        yield "micro_batch_tokens", chosen.train.micro_batch_tokens, role.train.micro_batch_tokens
        yield "zero", chosen.train.zero_stage, role.train.zero if role.engine is Engine.FSDP else (3,)
    if chosen.rollout is not None and role.rollout is not None:
        yield "the rollout engine", chosen.rollout.engine, (role.rollout.engine.value,)
        yield "rollout tp", chosen.rollout.tp, role.rollout.tp
        share = chosen.rollout.gpu_memory_utilization
        yield "gpu_memory_utilization", share, role.rollout.gpu_memory_utilization
        yield "max_num_seqs", chosen.rollout.max_num_seqs, (role.rollout.max_num_seqs,)
        yield "quantization", chosen.rollout.quantization or "none", [q.value for q in role.rollout.quantization]
        yield "kv_cache", chosen.rollout.kv_cache or "auto", [k.value for k in role.rollout.kv_cache]
    if chosen.offload is not None:
        yield "offload", chosen.offload, [o.value for o in role.offload]


def _layout(chosen: RolePlan, menu: LayoutMenu) -> Iterator[Dished]:
    yield "tp", chosen.layout.tp, menu.tp
    yield "pp", chosen.layout.pp, menu.pp
    if menu.dp is not None:
        yield "dp", chosen.layout.dp, menu.dp
    yield "sp", chosen.layout.sp_size, menu.sp
    yield "ep", chosen.layout.ep_size, menu.ep


def _cuts(chosen: RolePlan, role: Role) -> Iterator[str]:
    """Say whether the model can be cut as the layout says."""
    assert role.model is not None
    for tp in sorted(tp_sizes(chosen)):
        if not role.model.can_share_heads(tp):
            yield f"the attention heads of {role.name} ({role.model.heads}, {role.model.kv_heads} KV) cannot be cut by tp {tp}"
    experts, ep, dp = role.model.experts, chosen.layout.ep_size, chosen.layout.dp
    if ep > 1 and (not experts or experts % ep or dp % ep):
        yield f"the {experts} experts of {role.name} cannot be shared by ep {ep} of {dp} data-parallel ranks"
    if chosen.layout.pp > role.model.layers:
        yield f"{role.name} has {role.model.layers} layers, fewer than its {chosen.layout.pp} pipeline stages"


def _unsupported(chosen: RolePlan, role: Role, gpus: Sequence[int], instance: Instance) -> Iterator[str]:
    """Rule ``supported``; and the 16-bit type is the first of the user's that all the cards run."""
    oldest = min(gpus, key=lambda g: (instance.machine.cards[g].compute_capability, g))
    have = instance.machine.cards[oldest].compute_capability
    if instance.rules.supported:
        for what in {(type(need), need): need for need in _needs(chosen)}.values():  # `fp8` is a word of weights and of the cache
            if not runs(have, what):
                least = ".".join(map(str, least_capability(what)))
                card = "is a card of AMD" if have == OF_AMD else f"has {'.'.join(map(str, have))}"
                used = f"a KV cache of {what}" if isinstance(what, KvCache) else what
                yield f"{role.name} uses {used}, which needs compute capability {least}; GPU {oldest} {card} (rule supported)"
        if role.train is not None and role.train.fp8 and not multiplies_fp8(have):
            yield f"{role.name} trains in fp8, for which GPU {oldest} has no matrix products (rule supported)"
    first = next((p for p in role.precision if runs(have, p)), None)
    if first is not None and role.precision.index(first) < role.precision.index(Precision(chosen.precision)):
        yield f"{role.name} has precision {chosen.precision}, although its cards run {first}, which stands before it"


def _uneven(chosen: RolePlan, role: Role, batch: Batch) -> Iterator[str]:
    """Rule ``even_batch``: an update of what is trained, or else a step, has sequences for all ranks alike."""
    parts = [batch.sequences]
    if role.train is not None and batch.sequences % batch.minibatches == 0:
        parts.append(batch.sequences // batch.minibatches)
    wrong = [sequences for sequences in parts if sequences % chosen.layout.dp]
    if wrong:
        yield f"the {chosen.layout.dp} data-parallel ranks of {role.name} cannot share {wrong[0]} sequences evenly (rule even_batch)"


def _needs(chosen: RolePlan) -> Iterator[Feature]:
    """Yield the engines, 16-bit types and numbers of 8 bits that a role uses; a master in bf16 is one of them."""
    yield Engine(chosen.engine)
    if chosen.rollout is not None:
        yield Engine(chosen.rollout.engine)
        yield Quantization(chosen.rollout.quantization or "none")
        yield KvCache(chosen.rollout.kv_cache or "auto")
    yield Precision(chosen.precision)
    if chosen.train is not None and chosen.train.master == Master.BF16:
        yield Precision.BF16
