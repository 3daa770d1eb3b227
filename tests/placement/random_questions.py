"""
Random questions as users ask them, for the tests in which solvers judge each other: a machine that comes out of
the real reader, a job with short menus of small models, and rules as they are typed.

Most of them have a plan: a disagreement about what is best shows only where there is something to choose.

When to modify: the reader, the workload or the rules can say something new that changes what may be planned.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from placement.models.model import find_model
from placement.program.instance import Instance, Objective, make_instance
from placement.workloads.rules import Relation, parse_rules
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    LayoutMenu,
    Master,
    Offload,
    Role,
    RoleName,
    RolloutMenu,
    Schedule,
    TrainMenu,
    Workload,
)
from topologies.cards import find_card
from topologies.model import Topology
from topologies.parts import Host
from topologies.read import read_text

UNKNOWN = "N/A"
AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
NVLINKS = ("NV1", "NV2", "NV4", "NV6", "NV12")
CODES = (*NVLINKS, "PIX", "PXB", "PHB", "NODE", "SYS", UNKNOWN)

CARDS = (
    ("a100-80gb",),
    ("a100-40gb", "a100-80gb"),
    ("a100-pcie-80gb", "a100-pcie-40gb"),
    ("h100-80gb", "a100-80gb"),
    ("a100-80gb", "l40s", "v100-32gb"),
)
"""Cards that stand in one machine; users do mix 40 and 80 GB."""

MANY = 15
"""From so many GPUs × roles on, menus are as short as can be: trying everything takes the product of all of them."""

MODELS = ("Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-3B")

CRITIC, REF, REWARD, ROLLOUT = RoleName.CRITIC, RoleName.REF, RoleName.REWARD, RoleName.ROLLOUT
JOBS: Mapping[int, tuple[tuple[RoleName, ...], ...]] = {
    1: ((),),
    2: ((REF,), (REWARD,), (CRITIC,), (ROLLOUT,)),
    3: ((REF, REWARD), (CRITIC, REF), (CRITIC, REWARD), (ROLLOUT, REF), (ROLLOUT, REWARD)),
    4: ((CRITIC, REF, REWARD), (CRITIC, REF, REWARD), (ROLLOUT, REF, REWARD), (ROLLOUT, CRITIC, REF)),
}
"""Per number of roles on GPUs: those beside the actor. Where no reward model stands, a function rewards."""

PRESETS = ("guide", "minimal", "strict", "four", "colocate", "free")
SWITCHES = (
    "contiguity=off",
    "same_card=off",
    "sharing=partial",
    "min_gpus=off",
    "min_gpus=3",
    "reserve=25%",
    "reserve=60%",
    "reserve=off",
    "reward_reserve=off",
    "reward_reserve=45%",
    "affinity=off",
    "root_complex=off",
    "supported=off",
    "even_batch=on",
    "busy=off",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """
    A question before anything of ours has interpreted it.

    Parameters
    ----------
    matrix
        What ``nvidia-smi topo -m`` and ``--query-gpu`` print of the machine, pasted into one text.
    rules
        The rule text.
    visible
        GPUs that are not hidden; None when all are seen.
    host_memory_mib
        Memory of the host; None where nothing is said of it.
    """

    matrix: str
    workload: Workload
    rules: str
    visible: tuple[int, ...] | None = None
    objective: Objective = Objective.STEP
    within_percent: float = 2.0
    host_memory_mib: int | None = None

    @property
    def topology(self) -> Topology:
        """The machine, read."""
        found = read_text(self.matrix)
        return found if self.host_memory_mib is None else found.replace(host_facts={None: Host(self.host_memory_mib)})

    @property
    def instance(self) -> Instance:
        """The question as planning takes it."""
        return make_instance(
            self.topology,
            self.workload,
            parse_rules(self.rules),
            visible=self.visible,
            objective=self.objective,
            within_percent=self.within_percent,
        )


# ── machines ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def codes(draw: st.DrawFn, gpus: int) -> dict[tuple[int, int], str]:
    """
    Draw the link of every pair: all alike, a tree of PCIe switches, or no order at all; with or without NVLinks.

    A place in the tree is (socket, root complex, switch, port); two GPUs are as close as their places agree.
    """
    pairs = list(itertools.combinations(range(gpus), 2))
    match draw(st.sampled_from(["tree", "any", "alike"])):
        case "tree":
            places = draw(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=gpus, max_size=gpus))
            found = {(i, j): _closeness(places[i], places[j]) for i, j in pairs}
        case "any":
            listed = draw(st.lists(st.sampled_from(CODES), min_size=len(pairs), max_size=len(pairs)))
            found = dict(zip(pairs, listed, strict=True))
        case _:
            found = dict.fromkeys(pairs, draw(st.sampled_from(["NV12", "PIX", "SYS"])))
    nvlink = draw(st.sampled_from(NVLINKS))
    match draw(st.sampled_from(["none", "bridges", "clique", "some", "odd"])):
        case "bridges":
            order = draw(st.permutations(range(gpus)))
            found |= {tuple(sorted(order[k : k + 2])): nvlink for k in range(0, gpus - 1, 2)}
        case "clique":
            members = draw(st.sets(st.integers(0, gpus - 1), min_size=2))
            found |= {pair: nvlink for pair in pairs if set(pair) <= members}
        case "some":
            found |= {pair: draw(st.sampled_from(NVLINKS)) for pair in draw(st.lists(st.sampled_from(pairs), max_size=6))}
        case "odd":
            found[draw(st.sampled_from(pairs))] = draw(st.sampled_from(CODES))
    if set(found.values()) == {UNKNOWN}:
        found[0, 1] = "SYS"     # the reader refuses a matrix that says nothing at all
    return found


def _closeness(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    agreeing = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=True)))
    return ("SYS", "NODE", "PHB", "PXB", "PIX")[agreeing]


@st.composite
def machines(draw: st.DrawFn, gpus: int) -> str:
    """Draw what a driver prints of *gpus* GPUs: the matrix, with NICs or without, and the cards with their memory."""
    links = draw(codes(gpus))
    nics = draw(st.sampled_from([0, 0, 1, 2]))
    near = draw(st.lists(st.sampled_from(["PIX", "PXB", "NODE", "SYS"]), min_size=gpus * nics, max_size=gpus * nics))
    numa = draw(st.lists(st.sampled_from([UNKNOWN, "0", "1"]), min_size=gpus, max_size=gpus)) if draw(st.booleans()) else None
    cards = draw(st.lists(st.sampled_from(draw(st.sampled_from(CARDS))), min_size=gpus, max_size=gpus))
    held = [0] * gpus
    if draw(st.booleans()):
        held = draw(st.lists(st.sampled_from([0, 0, 0, 0, 700, 6000]), min_size=gpus, max_size=gpus))
    if min(held) > 2048:
        held[0] = 0     # rule `busy` would leave no GPU
    return printed(links, cards, held, near=[near[i * nics : (i + 1) * nics] for i in range(gpus)], numa=numa)


def printed(
    links: Mapping[tuple[int, int], str],
    cards: Sequence[str],
    held_mib: Sequence[int],
    *,
    near: Sequence[Sequence[str]] | None = None,
    numa: Sequence[str] | None = None,
) -> str:
    """
    Return what a driver prints of a machine.

    Parameters
    ----------
    near
        For each GPU, the codes of its links to the NICs.
    numa
        The NUMA node of each GPU.
    """
    gpus = len(cards)
    near = near or [()] * gpus
    nics = len(near[0])
    lines = ["\t".join(["", *(f"GPU{i}" for i in range(gpus)), *(f"NIC{k}" for k in range(nics)), *AFFINITY])]
    for i in range(gpus):
        own = [" X " if i == j else links[min(i, j), max(i, j)] for j in range(gpus)]
        lines.append("\t".join([f"GPU{i}", *own, *near[i], "0-63", numa[i] if numa else UNKNOWN, "N/A"]))
    for k in range(nics):
        between = [" X " if k == other else "SYS" for other in range(nics)]
        lines.append("\t".join([f"NIC{k}", *(codes[k] for codes in near), *between]))
    lines += ["", "index, name, memory.total [MiB], memory.used [MiB]"]
    for i, (card, mib) in enumerate(zip(map(find_card, cards), held_mib, strict=True)):
        lines.append(f"{i}, {card.nvml_names[0]}, {card.total_mib} MiB, {mib} MiB")
    return "\n".join(lines) + "\n"


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def workloads(
    draw: st.DrawFn, roles: int, *, beside: tuple[RoleName, ...] | None = None, short: bool = False
) -> Workload:
    """Draw a job with *roles* roles on GPUs, whose menus are short; *short* leaves a choice to one role only."""
    beside = draw(st.sampled_from(JOBS[roles])) if beside is None else beside
    model = draw(st.sampled_from(MODELS))
    own = [_actor(draw, model, hybrid=ROLLOUT not in beside), *(draw(_role(name, model)) for name in beside)]
    if short:
        chooser = draw(st.integers(0, roles - 1))
        own = [role if i == chooser else _without_choice(role) for i, role in enumerate(own)]
    if REWARD not in beside:
        own.append(Role(REWARD, None))
    schedules = [Schedule.FULL, Schedule.NONE, *([Schedule.ONE_STEP_OFF, Schedule.ASYNC] if ROLLOUT in beside else [])]
    batch = Batch(
        prompts=draw(st.sampled_from([64, 96, 256])),
        samples_per_prompt=draw(st.sampled_from([1, 4] if CRITIC in beside else [2, 4])),   # GRPO compares samples
        prompt_tokens=256,
        response_mean_tokens=256,
        response_max_tokens=512,
        minibatches=draw(st.sampled_from([1, 4])),
        micro_batch_tokens=4096,
    )
    algorithm = Algorithm.PPO if CRITIC in beside else Algorithm.GRPO
    return Workload(algorithm, batch, tuple(own), schedule=draw(st.sampled_from(schedules)))


def _without_choice(role: Role) -> Role:
    """Return *role* with one entry of each menu, on groups of up to three GPUs."""
    train, rollout = role.train, role.rollout
    return role.replace(
        layout=LayoutMenu(tp=(min(role.layout.tp),), pp=role.layout.pp[:1]),
        offload=role.offload[:1],
        train=train and replace(train, master=train.master[:1], offload=train.offload[:1]),
        rollout=rollout and replace(rollout, tp=(min(rollout.tp),), gpu_memory_utilization=rollout.gpu_memory_utilization[-1:]),
        max_gpus=role.max_gpus or 3,
    )


def _actor(draw: st.DrawFn, model: str, *, hybrid: bool) -> Role:
    role = draw(_trained(RoleName.ACTOR, model))
    return role.replace(rollout=draw(_rollout_menu())) if hybrid else role


def _role(name: RoleName, actor: str) -> st.SearchStrategy[Role]:
    match name:
        case RoleName.CRITIC:
            return st.sampled_from([actor, *MODELS]).flatmap(lambda model: _trained(name, model))
        case RoleName.ROLLOUT:
            return _rollout(actor)
        case _:
            return st.sampled_from([actor, *MODELS]).flatmap(lambda model: _frozen(name, model))


@st.composite
def _trained(draw: st.DrawFn, name: RoleName, model: str) -> Role:
    engine = draw(st.sampled_from([Engine.FSDP, Engine.FSDP, Engine.MEGATRON]))
    train = TrainMenu(
        master=draw(st.sampled_from([(Master.FP32,), (Master.FP32, Master.BF16), (Master.BF16,)])),
        offload=draw(st.sampled_from([(Offload.NONE,), (Offload.NONE, Offload.BETWEEN), (Offload.NONE, Offload.ALWAYS)])),
        micro_batch_tokens=(4096,),
    )
    layout = LayoutMenu(tp=draw(_tps()), pp=draw(st.sampled_from([(1,), (1, 2)])) if engine is Engine.MEGATRON else (1,))
    return Role(name, find_model(model), engine=engine, layout=layout, train=train, **draw(_gpus()))


@st.composite
def _frozen(draw: st.DrawFn, name: RoleName, model: str) -> Role:
    offload = draw(st.sampled_from([(Offload.NONE,), (Offload.NONE, Offload.BETWEEN)]))
    return Role(name, find_model(model), layout=LayoutMenu(tp=draw(_tps())), offload=offload, **draw(_gpus()))


@st.composite
def _rollout(draw: st.DrawFn, model: str) -> Role:
    menu = draw(_rollout_menu())
    return Role(ROLLOUT, find_model(model), engine=menu.engine, layout=LayoutMenu(tp=menu.tp), rollout=menu, **draw(_gpus()))


@st.composite
def _rollout_menu(draw: st.DrawFn) -> RolloutMenu:
    share = draw(st.sampled_from([(0.3,), (0.4, 0.2), (0.2,)]))
    return RolloutMenu(draw(st.sampled_from([Engine.VLLM, Engine.VLLM, Engine.SGLANG])), draw(_tps()), share)


def _tps() -> st.SearchStrategy[tuple[int, ...]]:
    return st.sampled_from([(1,), (1, 2), (2, 1)])


def _gpus() -> st.SearchStrategy[dict[str, object]]:
    """Draw how many GPUs a role gets; most often nothing is said."""
    said: list[dict[str, object]] = [{"max_gpus": 2}, {"gpu_menu": (1, 2)}, {"min_gpus": 1, "max_gpus": 3}]
    return st.sampled_from([{}, {}, {}, {}, *said])


# ── questions ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def asked(
    draw: st.DrawFn, *, gpus: int, roles: int, short: bool = False, beside: tuple[RoleName, ...] | None = None
) -> Asked:
    """
    Draw a question about *roles* roles on a machine of *gpus* GPUs.

    *short* leaves a choice to one role only, *beside* names the roles beside the actor.
    """
    matrix = draw(machines(gpus))
    idle = [gpu.index for gpu in read_text(matrix).gpus if (gpu.memory_used_mib or 0) <= 2048]
    visible = None
    if draw(st.sampled_from([False, False, False, False, True])):
        visible = tuple(sorted({draw(st.sampled_from(idle)), *draw(st.sets(st.integers(0, gpus - 1), min_size=2))}))
    usable = [gpu for gpu in idle if visible is None or gpu in visible]
    workload = draw(workloads(roles, beside=beside, short=short or gpus * roles >= MANY))
    presets = PRESETS
    if draw(st.integers(0, 9)):
        presets = tuple(preset for preset in PRESETS if _apart(workload, preset) <= len(usable)) or PRESETS
    allowed = [switch for switch in SWITCHES if len(usable) > 4 or switch != "min_gpus=3"]
    switches = draw(st.lists(st.sampled_from(allowed), max_size=3, unique_by=lambda text: text.split("=")[0]))
    return Asked(
        matrix=matrix,
        workload=workload,
        rules=",".join([draw(st.sampled_from(presets)), *switches]),
        visible=visible,
        objective=draw(st.sampled_from([Objective.STEP, *Objective])),
        within_percent=draw(st.sampled_from([0.0, 2.0, 20.0])),
    )


def _apart(workload: Workload, preset: str) -> int:
    """Return the GPUs that *preset* needs at the least: the most roles of which no two may share one."""
    rules = parse_rules(preset)
    names = [role.name for role in workload.placed]
    return max(
        size
        for size in range(1, len(names) + 1)
        for some in itertools.combinations(names, size)
        if all(rules.relation(a, b) is Relation.APART for a, b in itertools.combinations(some, 2))
    )
