"""The plan of docs/model.md, and the README's actor, recomputed by hand: the page, these calculations and the code agree."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from statistics import NormalDist

import pytest

from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.demand import Demand, demand
from placement.models.model import find_model
from placement.workloads.dataflow import Work, dataflow
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
    Workload,
)

C = constants()
MODEL = find_model("Qwen/Qwen2.5-1.5B")
ACTOR = Role(RoleName.ACTOR, MODEL, train=TrainMenu(), rollout=RolloutMenu())
REF = Role(RoleName.REF, MODEL)
JOB = Workload(
    Algorithm.GRPO,
    Batch(128, 8, 512, 512, 1024, 4, 8192),
    (ACTOR, REF, Role(RoleName.REWARD, None)),
)
TWO_A100 = Hardware(
    gpus=2,
    flops=312e12,
    memory_bytes_per_s=2039e9,
    total_mib=81152,
    compute_capability=(8, 0),
    ring_bytes_per_s=275e9,
    ring_nvlink=True,
    host_bytes_per_s=24e9,
)
TRAIN = TrainChoice(1, 1, 2, Precision.BF16, Master.FP32, Offload.NONE, 8192)
ENGINES = RolloutChoice(Engine.VLLM, 1, 2, Precision.BF16, 0.4, 256)
FROZEN = FrozenChoice(1, 1, 2, Precision.BF16, Offload.NONE)


def cost(role: Role, part: Part, choice: Choice) -> Demand:
    found = demand(role, part, choice, JOB, TWO_A100, C, dataflow(JOB))
    assert isinstance(found, Demand)
    return found


def by_hand() -> dict[str, float]:
    """Recompute the page's plan with nothing but its formulas and numbers: MiB and seconds by name."""
    mib = 2**20
    p, layers, h, v, embedding = 1_543_714_304, 28, 1536, 151_936, 233_373_696
    flops, memory, bus = 312e12, 2039e9, 275e9 * 0.88
    found = {}

    # Memory. Rank: 128 sequences an update; 16 micro-batches of 8192 tokens.
    tok, n = 8192, 2
    p_layer = (p - embedding) / layers
    gather = 4 * p_layer + 2 * v * h
    training = 1536 - 374 + 327
    found["train: idle"] = training + 12 * p / n / mib
    found["train: old_log_probs"] = training + (12 * p / n + gather + 92 * tok * h) / mib
    found["train: update_actor"] = (
        training + (16 * p / n + 2 * gather + 2 * tok * h * layers + 92 * tok * h) / mib
    )
    found["train: sync_weights"] = training + (12 * p / n + 4 * v * h) / mib
    claim, weights = 0.4 * 81152, 2 * p / mib
    found["engine: idle"] = 2280
    found["engine: generate"] = 2280 + claim
    found["engine: sync_weights"] = 2280 + weights + 2048
    # Embeddings are tied: either rank reads all of P in fp32 while the actor loads.
    found["host: load_actor"] = 2 * (math.ceil(2327 + 2048 + 4 * p / mib) + 2327 + 2327)
    found["ref: idle"] = 1040 - 374 + 327 + 2 * p / n / mib
    found["ref: ref_log_probs"] = 1040 - 374 + 327 + (2 * p / n + gather + 92 * tok * h) / mib

    # Generation. 512 sequences an engine; the cache holds more than 256 of 1024 tokens.
    kv_mib = claim - weights - 38 * 256 * v / mib - 134
    assert kv_mib * mib / 28_672 / 1024 > 256
    slots, sequences, mean, longest, prompt = 256, 512, 512, 1024, 512
    k = longest / mean - 1
    # Of two engines the fuller one has a little more than the mean; lengths deviate by √(k/(k + 2)) of it.
    fuller, spread = NormalDist().inv_cdf(1.625 / 2.25), math.sqrt(k / (k + 2))
    more = 1 + spread * fuller / math.sqrt(sequences)
    steps = (sequences - slots) * mean * more / slots + longest
    tokens = sequences * mean * more
    context = prompt + longest / (k + 2)
    prompts = 128 * (1 - (1 - 1 / 2) ** 8)
    attention = layers * 12 * 128
    found["generate"] = (
        steps * (2 * p / (memory * 0.9) + 2.5e-3 + 8e-6 * layers)
        + tokens * context * 28_672 / (memory * 0.75)
        + tokens * 52 * v / (memory * 0.9)
        + tokens * 2 * p / (flops * 0.78)
        + prompts * prompt * 2 * (p + 1.5 * attention * prompt) / (flops * 0.78)
    )

    # Forward passes and updates. A rank has 512 · 1024 tokens in 64 micro-batches.
    rank_tokens, micro_batches = 512 * 1024, 64
    forward = 2 * (p + 1.5 * attention * 1024) * rank_tokens

    def mfu(reference: float) -> float:
        return 1 / (1 / 0.78 + (1 / reference - 1 / 0.78) * flops / memory / 295)

    alpha = (5.6 + 1.96 * n) * 1e-6
    one_gather = alpha + 2 * math.sqrt(5.6e-6 * 2 * p / bus) + (n - 1) / n * 2 * p / bus + 2 * p / n / 1e12
    exposed = micro_batches * one_gather / layers
    assert micro_batches * one_gather < forward / (flops * mfu(0.45))
    found["forward"] = forward / (flops * mfu(0.45)) + exposed
    state = 4 * (4 + 2 * (8 + 4)) * p / n / (memory * 0.9)
    # An update has 128 sequences a rank, of which half of the tokens spread.
    waits = 1 + 0.5 * spread * fuller / math.sqrt(128)
    found["update_actor"] = 3 * forward * waits / (flops * mfu(0.40)) + exposed + state
    # 28 layers of twelve tensors (three are biases), and two beside: a gather of its own and 118 us to pack and load it for each.
    # 3.09 GB are two buckets.
    found["sync_weights"] = one_gather + 0.2 + 338 * (alpha + 118e-6) + 2 * 7.5e-3
    # Engines are handed prompts, the others answers that are padded to the longest.
    found["handed prompts"] = 1024 * 512 * 152e-9
    found["handed over"] = 1024 * 1536 * 152e-9
    return found


def test_the_worked_example_is_what_the_model_says() -> None:
    hand = by_hand()
    train = cost(ACTOR, Part.TRAIN, TRAIN)
    engine = cost(ACTOR, Part.ROLLOUT, ENGINES)
    ref = cost(REF, Part.FROZEN, FROZEN)
    for name, held in (("train", train), ("engine", engine), ("ref", ref)):
        assert held.resident_mib == math.ceil(hand[f"{name}: idle"])
        for work, mib in held.active_mib.items():
            assert mib == math.ceil(hand[f"{name}: {work}"])

    held_mib = train.host.loads_mib + engine.host.loads_mib + ref.host.starts_mib
    assert 2 * held_mib == hand["host: load_actor"]

    def us(name: str) -> object:
        handed = {"sync_weights": 0.0, "generate": hand["handed prompts"]}.get(name, hand["handed over"])
        return pytest.approx((hand[name] + handed) * 1e6 + C.stage_overhead_us, abs=1.5)

    assert engine.times_us == {Work.GENERATE: us("generate")}
    assert ref.times_us == {Work.REF_LOG_PROBS: us("forward")}
    assert train.times_us == {
        Work.OLD_LOG_PROBS: us("forward"),
        Work.UPDATE_ACTOR: us("update_actor"),
        Work.SYNC_WEIGHTS: us("sync_weights"),
    }


def test_the_page_shows_the_numbers_of_the_worked_example() -> None:
    hand = by_hand()
    page = (Path(__file__).parents[2] / "docs" / "model.md").read_text(encoding="utf-8")
    shown = [f"{math.ceil(value):,} MiB" for name, value in hand.items() if ": " in name]
    shown += [f"{hand[name]:.3f} s" for name in ("generate", "forward", "update_actor", "sync_weights")]
    peak = max(
        hand["train: update_actor"] + hand["engine: idle"] + hand["ref: idle"],
        hand["train: idle"] + hand["engine: generate"] + hand["ref: idle"],
    )
    step = sum(hand[name] for name in ("generate", "forward", "forward", "update_actor", "sync_weights"))
    step += 5 * 0.05 + 3 * hand["handed over"] + hand["handed prompts"]
    shown += [f"{peak / 1024:.1f} GiB", f"{step:.2f} s"]
    assert [number for number in shown if number not in page] == []


# ── the same page, another plan: the actor of the README's ──────────────────────────────────────────────────

SEVEN = find_model("Qwen/Qwen2.5-7B")
PPO_ACTOR = Role(RoleName.ACTOR, SEVEN, train=TrainMenu(), rollout=RolloutMenu())
PPO = Workload(
    Algorithm.PPO,
    Batch(1024, 1, 512, 600, 1024, 8, 8192),
    (PPO_ACTOR, Role(RoleName.CRITIC, SEVEN, train=TrainMenu()), Role(RoleName.REF, SEVEN), Role(RoleName.REWARD, MODEL)),
)
FOUR_A100 = dataclasses.replace(TWO_A100, gpus=4)


def by_the_page() -> dict[str, float]:
    """Recompute the actor on four A100 with the formulas of docs/model.md, symbol by symbol; MiB and seconds."""
    p, p_e, layers, h, f, v = 7_615_616_512, 1_089_994_752, 28, 3584, 18_944, 152_064
    gpus, engines, attention, kv = 4, 4, 28 * 28 * 128, 57_344
    flops, memory, bus, mib = 312e12, 2039e9, 0.88 * 275e9, 2**20
    prompt, mean, longest, updates = 512, 600, 1024, 8
    k = longest / mean - 1
    spread = math.sqrt(k / (k + 2))
    s, m, sequences = prompt + mean, prompt + longest, 1024 // gpus
    n = sequences // updates
    in_update, in_forward = math.ceil(n * s / 8192), math.ceil(sequences * s / 8192)

    overhead, gathered, layer = 1536 - 374 + 374, 4 * (p - p_e) / layers + 2 * v * h, 92 * 8192 * h
    idle = overhead + 12 * p / gpus / mib
    kv_mib = 0.4 * 81_152 - 2 * p / mib - max(2 * 8192 * (3 * f + 3 * h), 38 * 256 * v) / mib - 134
    assert kv_mib * mib / (kv * s) > 256  # every slot has room; an engine's sequences fill them once
    assert sequences == 256

    def gather(size: float) -> float:
        alpha, fill = (5.6 + 1.96 * gpus) * 1e-6, 2 * math.sqrt(5.6e-6 * size / bus)
        return alpha + fill + (gpus - 1) / gpus * size / bus + size / gpus / 1e12

    def compute(times: int, published: float) -> float:
        mfu = 1 / (1 / 0.78 + (1 / published - 1 / 0.78) * flops / (memory * 295))
        return times * (p + 1.5 * attention * s) * sequences * s / (flops * mfu)

    fullest = NormalDist().inv_cdf((4 - 0.375) / 4.25) * spread
    waits, phi = 1 + mean / s * fullest / math.sqrt(n), 1 + fullest / math.sqrt(sequences)
    first = gather(2 * p) / layers
    tokens = sequences * phi * mean
    return {
        "idle": idle,
        "old_log_probs MiB": idle + (gathered + layer) / mib,
        "update MiB": overhead + (16 * p / gpus + 2 * gathered + 2 * 8192 * h * layers + layer) / mib,
        "sync MiB": idle + 4 * v * h / mib,
        "old_log_probs": compute(2, 0.45) + in_forward * first + 152e-9 * 1024 * m,
        "update": compute(6, 0.40) * waits + updates * in_update * first + 28 * updates * p / gpus / (memory * 0.9) + 152e-9 * 1024 * m,
        "sync": gather(2 * p) + 0.2 + (12 * layers + 3) * (118e-6 + (5.6 + 1.96 * gpus) * 1e-6) + 8 * 7.5e-3,
        "generate": longest * (2 * p / (memory * 0.9) + 2.5e-3 + 8e-6 * layers)
        + tokens * (prompt + longest / (k + 2)) * kv / (memory * 0.75)
        + tokens * (52 * v / (memory * 0.9) + 2 * p / (flops * 0.78))
        + 512 * 1024 / engines * 2 * (p + 1.5 * attention * 512) / (flops * 0.78)
        + 152e-9 * 1024 * prompt,
    }


def test_the_page_recomputes_the_actor_of_the_readme() -> None:
    hand, flow = by_the_page(), dataflow(PPO)
    train = demand(PPO_ACTOR, Part.TRAIN, dataclasses.replace(TRAIN, dp=4), PPO, FOUR_A100, C, flow)
    engine = demand(PPO_ACTOR, Part.ROLLOUT, dataclasses.replace(ENGINES, replicas=4), PPO, FOUR_A100, C, flow)
    assert isinstance(train, Demand)
    assert isinstance(engine, Demand)
    assert train.resident_mib == math.ceil(hand["idle"])
    assert [math.ceil(hand[f"{name} MiB"]) for name in ("old_log_probs", "update", "sync")] == [
        train.active_mib[work] for work in (Work.OLD_LOG_PROBS, Work.UPDATE_ACTOR, Work.SYNC_WEIGHTS)
    ]
    for work, name in ((Work.OLD_LOG_PROBS, "old_log_probs"), (Work.UPDATE_ACTOR, "update"), (Work.SYNC_WEIGHTS, "sync")):
        assert train.times_us[work] == pytest.approx(hand[name] * 1e6 + C.stage_overhead_us, abs=3)
    assert engine.times_us[Work.GENERATE] == pytest.approx(hand["generate"] * 1e6 + C.stage_overhead_us, abs=3)


@pytest.mark.parametrize("name", ["model.md", "model-variants.md"])
def test_links_of_the_pages_lead_somewhere(name: str) -> None:
    docs = Path(__file__).parents[2] / "docs"
    for target in re.findall(r"\]\(([^)\s]+)\)", (docs / name).read_text(encoding="utf-8")):
        page, _, anchor = target.partition("#")
        path = docs / (page or name)
        assert path.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, target
