"""Small questions for the tests of planning (imported by name: pytest puts this folder on the path, see pyproject)."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from placement.models.model import Model
from placement.program.instance import Instance, Objective, make_instance
from placement.workloads.rules import Rules, parse_rules
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
from topologies.cards import assign_cards
from topologies.model import Gpu, Topology

TINY = Model(
    name="tiny-1b",
    hidden=2048,
    layers=16,
    heads=32,
    kv_heads=8,
    head_dim=64,
    ffn=8192,
    vocab=128256,
    parameters=1_235_814_400,
    active_parameters=1_235_814_400,
    embedding_parameters=262_668_288,
    kv_bytes_per_token=32768,
    kv_shards=8,
    tie_embeddings=True,
)
"""A model of 1.2 billion parameters."""

BATCH = Batch(
    prompts=256,
    samples_per_prompt=1,
    prompt_tokens=256,
    response_mean_tokens=256,
    response_max_tokens=512,
    minibatches=4,
    micro_batch_tokens=4096,
)


def machine(links: Mapping[tuple[int, int], str] | str, gpus: int, cards: str = "a100-80gb") -> Topology:
    """Return *gpus* GPUs; *links* names the codes that differ from the last word, or one code for all pairs."""
    every = {(i, j): "SYS" for j in range(gpus) for i in range(j)}
    codes = dict.fromkeys(every, links) if isinstance(links, str) else every | dict(links)
    return assign_cards(Topology(tuple(Gpu(i) for i in range(gpus)), codes), cards)


def two_switches() -> Topology:
    """
    Return eight A100 under two PCIe switches, no NVLink.

        0 1 2 3 ─ PIX     4 5 6 7 ─ PIX      SYS between
    """
    return machine(
        {(i, j): "PIX" for j in range(8) for i in range(j) if i // 4 == j // 4}, 8, "a100-pcie-80gb"
    )


def bridged_pairs() -> Topology:
    """
    Return four A100 in two bridged pairs.

        0 ═ 2     1 ═ 3      (NV12; everything else SYS)
    """
    return machine({(0, 2): "NV12", (1, 3): "NV12"}, 4, "a100-pcie-80gb")


def train(**changes: object) -> TrainMenu:
    """Return a training menu of one entry each."""
    fields: dict[str, object] = {
        "master": (Master.FP32,),
        "offload": (Offload.NONE,),
        "micro_batch_tokens": (4096,),
    }
    return TrainMenu(**(fields | changes))  # type: ignore[arg-type]


def rollout(*tp: int, share: float = 0.4) -> RolloutMenu:
    """Return a generation menu."""
    return RolloutMenu(tp=tp or (1,), gpu_memory_utilization=(share,))


def actor(**changes: object) -> Role:
    """Return an actor with the hybrid engine."""
    return Role(RoleName.ACTOR, TINY, train=train(), rollout=rollout()).replace(**changes)


def critic(**changes: object) -> Role:
    """Return a critic."""
    return Role(RoleName.CRITIC, TINY, train=train()).replace(**changes)


def ref(**changes: object) -> Role:
    """Return a reference model."""
    return Role(RoleName.REF, TINY).replace(**changes)


def reward(**changes: object) -> Role:
    """Return a reward model."""
    return Role(RoleName.REWARD, TINY).replace(**changes)


def job(*roles: Role, schedule: Schedule = Schedule.FULL, batch: Batch = BATCH) -> Workload:
    """Return a workload of *roles*."""
    algorithm = Algorithm.PPO if any(r.name is RoleName.CRITIC for r in roles) else Algorithm.GRPO
    return Workload(algorithm, batch, roles, schedule=schedule)


def ask(topology: Topology, workload: Workload, rules: str = "guide", **options: object) -> Instance:
    """Return the question."""
    parsed: Rules = parse_rules(rules)
    return make_instance(topology, workload, parsed, **options)  # type: ignore[arg-type]


# ── random questions ────────────────────────────────────────────────────────────────────────────────────────────────────

CODES = ["NV1", "NV2", "NV4", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS"]
CARDS = ["a100-40gb", "a100-80gb", "v100-32gb", "l40s", "rtx4090"]


@st.composite
def topologies(draw: st.DrawFn, most: int = 6) -> Topology:
    """Draw 2 to *most* GPUs with irregular links, mixed cards and some memory in use."""
    gpus = draw(st.integers(2, most))
    links = {(i, j): draw(st.sampled_from(CODES)) for j in range(gpus) for i in range(j)}
    cards = draw(
        st.lists(
            st.sampled_from(draw(st.sampled_from([CARDS[:1], CARDS[:2], CARDS]))),
            min_size=gpus,
            max_size=gpus,
        )
    )
    topology = machine(links, gpus, ",".join(f"{i}={card}" for i, card in enumerate(cards)))
    held = draw(st.lists(st.sampled_from([0, 0, 0, 1500, 6000]), min_size=gpus, max_size=gpus))
    if min(held) > 2048:
        held[0] = 0
    return topology.replace(
        gpus=tuple(g.replace(memory_used_mib=mib) for g, mib in zip(topology.gpus, held, strict=True))
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw 2 to 4 roles with short menus."""
    offload = draw(st.sampled_from([(Offload.NONE,), (Offload.NONE, Offload.BETWEEN)]))
    separate = draw(st.booleans())
    roles = [actor(train=train(offload=offload), rollout=None if separate else rollout(1, 2))]
    if separate:
        roles.append(
            Role(
                RoleName.ROLLOUT,
                TINY,
                engine=Engine.VLLM,
                layout=LayoutMenu(tp=(1, 2)),
                rollout=rollout(1, 2),
            )
        )
    if draw(st.booleans()):
        roles.append(critic(layout=LayoutMenu(tp=draw(st.sampled_from([(1,), (1, 2)])))))
    roles.append(draw(st.sampled_from([ref(), reward()])))
    schedule = draw(st.sampled_from([Schedule.FULL, Schedule.NONE, *([Schedule.ONE_STEP_OFF, Schedule.ASYNC] if separate else [])]))
    return job(*roles, schedule=schedule)


@st.composite
def questions(draw: st.DrawFn, most: int = 6) -> Instance:
    """Draw a question with any preset and switches."""
    preset = draw(st.sampled_from(["guide", "minimal", "strict", "four", "colocate", "free"]))
    switches = draw(
        st.lists(
            st.sampled_from(
                [
                    "contiguity=off",
                    "same_card=off",
                    "min_gpus=off",
                    "sharing=partial",
                    "affinity=off",
                    "supported=off",
                ]
            ),
            max_size=3,
            unique=True,
        )
    )
    return ask(
        draw(topologies(most)),
        draw(workloads()),
        ",".join([preset, *switches]),
        objective=draw(st.sampled_from([Objective.STEP, *Objective])),
        within_percent=draw(st.sampled_from([0.0, 2.0, 20.0])),
    )
