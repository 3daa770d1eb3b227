"""Parts, menus and what hardware supports."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.choices.choices import (
    Choice,
    FrozenChoice,
    Part,
    RolloutChoice,
    TrainChoice,
    can_spread_experts,
    choices,
    parts,
    precision,
    unsupported,
)
from placement.choices.hardware import Hardware
from placement.models.model import from_numbers
from placement.workloads.workload import (
    Engine,
    KvCache,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Quantization,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
)

MODEL = from_numbers(
    {
        "parameters": 10**9,
        "hidden": 1024,
        "layers": 16,
        "heads": 16,
        "kv_heads": 4,
        "vocab": 32000,
        "ffn": 4096,
    }
)
NONE, BETWEEN, ALWAYS = Offload
FP32, MASTER_BF16 = Master
BF16, FP16 = Precision


def hardware(
    gpus: int, *, capability: tuple[int, int] = (8, 0), blocks: tuple[int, ...] = (2, 4, 8)
) -> Hardware:
    """A group that can be cut into *blocks*, as far as they divide it."""
    offered = tuple(tp for tp in blocks if gpus % tp == 0)
    return Hardware(
        gpus=gpus,
        flops=312e12,
        memory_bytes_per_s=2e12,
        total_mib=81_000,
        compute_capability=capability,
        ring_bytes_per_s=200e9 if gpus > 1 else 0.0,
        ring_nvlink=True,
        block_bytes_per_s=tuple((tp, 200e9) for tp in offered),
        block_nvlink=tuple((tp, True) for tp in offered),
    )


def actor(**changes: object) -> Role:
    return Role(RoleName.ACTOR, MODEL, train=TrainMenu(), rollout=RolloutMenu()).replace(**changes)


ROLES = {
    RoleName.ACTOR: actor(),
    RoleName.ROLLOUT: Role(RoleName.ROLLOUT, MODEL, engine=Engine.VLLM, rollout=RolloutMenu()),
    RoleName.CRITIC: Role(RoleName.CRITIC, MODEL, train=TrainMenu()),
    RoleName.REF: Role(RoleName.REF, MODEL),
    RoleName.REWARD: Role(RoleName.REWARD, MODEL),
}


# ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        pytest.param(actor(), (Part.TRAIN, Part.ROLLOUT), id="actor with the hybrid engine"),
        pytest.param(actor(rollout=None), (Part.TRAIN,), id="actor beside a rollout"),
        pytest.param(ROLES[RoleName.ROLLOUT], (Part.ROLLOUT,), id="rollout"),
        pytest.param(ROLES[RoleName.CRITIC], (Part.TRAIN,), id="critic"),
        pytest.param(ROLES[RoleName.REF], (Part.FROZEN,), id="ref"),
        pytest.param(ROLES[RoleName.REWARD], (Part.FROZEN,), id="reward"),
    ],
)
def test_a_role_has_a_part_for_each_independent_choice(role: Role, expected: tuple[Part, ...]) -> None:
    assert parts(role) == expected


# ── menus ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_train_choices_come_in_menu_order_with_the_sum_of_their_positions() -> None:
    role = actor(
        train=TrainMenu(master=(FP32, MASTER_BF16), offload=(NONE, ALWAYS), micro_batch_tokens=(8192,))
    )
    assert list(choices(role, Part.TRAIN, hardware(4))) == [
        (TrainChoice(1, 1, 4, BF16, FP32, NONE, 8192), 0),
        (TrainChoice(1, 1, 4, BF16, FP32, ALWAYS, 8192), 1),
        (TrainChoice(1, 1, 4, BF16, MASTER_BF16, NONE, 8192), 1),
        (TrainChoice(1, 1, 4, BF16, MASTER_BF16, ALWAYS, 8192), 2),
    ]


def test_rollout_choices_cut_the_group_into_engines() -> None:
    role = actor(rollout=RolloutMenu(Engine.SGLANG, (4, 2), (0.6, 0.7), 128))
    assert list(choices(role, Part.ROLLOUT, hardware(4))) == [
        (RolloutChoice(Engine.SGLANG, 4, 1, BF16, 0.6, 128), 0),
        (RolloutChoice(Engine.SGLANG, 4, 1, BF16, 0.7, 128), 1),
        (RolloutChoice(Engine.SGLANG, 2, 2, BF16, 0.6, 128), 1),
        (RolloutChoice(Engine.SGLANG, 2, 2, BF16, 0.7, 128), 2),
    ]


def test_frozen_choices_combine_layouts_and_offload() -> None:
    role = ROLES[RoleName.REF].replace(
        engine=Engine.MEGATRON, layout=LayoutMenu((1, 2), (1, 2)), offload=(BETWEEN, NONE)
    )
    listed = list(choices(role, Part.FROZEN, hardware(2)))
    assert listed[0] == (FrozenChoice(1, 1, 2, BF16, BETWEEN), 0)
    assert [(c.tp, c.pp, c.dp) for c, _ in listed if isinstance(c, FrozenChoice)] == [
        (1, 1, 2), (1, 1, 2), (1, 2, 1), (1, 2, 1), (2, 1, 1), (2, 1, 1),
    ]  # fmt: skip


def test_a_menu_of_dp_keeps_only_its_sizes_and_counts_their_position() -> None:
    role = ROLES[RoleName.REF].replace(engine=Engine.MEGATRON, layout=LayoutMenu((1, 2, 4), (1,), (1, 4)))
    assert [(c.dp, p) for c, p in choices(role, Part.FROZEN, hardware(4)) if isinstance(c, FrozenChoice)] == [
        (4, 1),
        (1, 2),
    ]


def test_a_pipeline_has_no_more_stages_than_the_model_has_layers() -> None:
    role = ROLES[RoleName.REF].replace(engine=Engine.MEGATRON, layout=LayoutMenu((1,), (16, 32)))
    assert [c.pp for c, _ in choices(role, Part.FROZEN, hardware(32)) if isinstance(c, FrozenChoice)] == [16]


@pytest.mark.parametrize(
    ("tp", "fits"),
    [
        pytest.param(2, True, id="cuts the KV heads"),
        pytest.param(8, True, id="copies the KV heads"),
        pytest.param(3, False, id="does not divide the heads"),
        pytest.param(32, False, id="more than the heads"),
    ],
)
def test_tp_shares_the_heads_evenly(tp: int, fits: bool) -> None:
    assert MODEL.can_share_heads(tp) is fits


def test_kv_heads_that_can_neither_be_cut_nor_copied_evenly_are_refused() -> None:
    assert not dataclasses.replace(MODEL, heads=12, kv_heads=6).can_share_heads(4)


def test_ranks_that_share_sequences_take_the_place_of_data_parallel_ones() -> None:
    # tp·sp must be a block that the group offers, and share the heads.
    role = ROLES[RoleName.REF].replace(layout=LayoutMenu(tp=(1, 2), sp=(1, 2, 4)))
    found = [((c.tp, c.dp, c.sp), p) for c, p in choices(role, Part.FROZEN, hardware(4)) if isinstance(c, FrozenChoice)]
    assert found == [((1, 4, 1), 0), ((1, 2, 2), 1), ((1, 1, 4), 2), ((2, 2, 1), 1), ((2, 1, 2), 2)]
    two = [c.sp for c, _ in choices(role, Part.FROZEN, hardware(4, blocks=(2,))) if isinstance(c, FrozenChoice)]
    assert two == [1, 2, 1]
    assert role.layout.blocks == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("experts", "dp", "ep", "fits"),
    [
        pytest.param(0, 4, 1, True, id="nothing is shared"),
        pytest.param(0, 4, 2, False, id="no experts"),
        pytest.param(8, 4, 4, True, id="two experts a rank"),
        pytest.param(8, 4, 8, False, id="more than data-parallel ranks"),
        pytest.param(6, 4, 4, False, id="experts that four ranks cannot share evenly"),
        pytest.param(6, 4, 3, False, id="ranks left over"),
    ],
)
def test_ep_divides_the_experts_and_the_data_parallel_ranks(experts: int, dp: int, ep: int, fits: bool) -> None:
    assert can_spread_experts(experts, dp, ep) is fits


def test_megatron_lists_sizes_of_ep_and_no_zero_stage() -> None:
    mixture = dataclasses.replace(MODEL, active_parameters=MODEL.parameters // 2, experts=8, experts_per_token=2)
    role = actor(model=mixture, engine=Engine.MEGATRON, layout=LayoutMenu(ep=(1, 2, 8)), train=TrainMenu((FP32,), (NONE,), zero=(1, 2)))
    found = [(c.ep, c.zero, p) for c, p in choices(role, Part.TRAIN, hardware(4)) if isinstance(c, TrainChoice)]
    assert found == [(1, 3, 0), (2, 3, 1)]


def test_zero_stages_are_a_menu_of_fsdp() -> None:
    role = actor(train=TrainMenu((FP32,), (NONE,), zero=(3, 2, 1)))
    found = [(c.zero, p) for c, p in choices(role, Part.TRAIN, hardware(2)) if isinstance(c, TrainChoice)]
    assert found == [(3, 0), (2, 1), (1, 2)]


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        pytest.param((9, 0), [("fp8", "fp8", 0), ("none", "fp8", 1)], id="H100"),
        pytest.param((8, 9), [("fp8", "fp8", 0), ("none", "fp8", 1)], id="L40S"),
        pytest.param((8, 0), [], id="A100 has no 8-bit floats to convert to"),
        pytest.param((0, 0), [], id="AMD: not every card has them"),
    ],
)
def test_eight_bits_need_a_card_that_has_them(capability: tuple[int, int], expected: list[tuple[str, str, int]]) -> None:
    menu = RolloutMenu(quantization=(Quantization.FP8, Quantization.NONE), kv_cache=(KvCache.FP8,))
    role, card = actor(rollout=menu), hardware(1, capability=capability)
    listed = [(c.quantization, c.kv_cache, p) for c, p in choices(role, Part.ROLLOUT, card) if isinstance(c, RolloutChoice)]
    assert listed == expected
    assert len(list(choices(role, Part.ROLLOUT, card, supported=False))) == 2
    said = unsupported(role, Part.ROLLOUT, card)
    assert (said is None) is bool(expected)
    assert said is None or said.startswith("actor asks for an fp8 KV cache (`actor.rollout.kv_cache`), which needs compute ")
    assert said is None or "write `kv_cache: auto`" in said


@pytest.mark.parametrize(("capability", "runs"), [((9, 0), True), ((8, 9), True), ((8, 0), False), ((0, 0), False)])
def test_training_in_eight_bits_needs_matrix_products_of_them(capability: tuple[int, int], runs: bool) -> None:
    role, card = actor(train=TrainMenu(fp8=True)), hardware(1, capability=capability)
    assert bool(list(choices(role, Part.TRAIN, card))) is runs
    assert list(choices(role, Part.TRAIN, card, supported=False))
    assert list(choices(role, Part.ROLLOUT, card))
    said = unsupported(role, Part.TRAIN, card)
    assert said is None if runs else said is not None and said.startswith("actor asks for training in fp8 (`actor.train.fp8`), which ")


@pytest.mark.parametrize(("capability", "runs"), [((8, 0), True), ((7, 5), True), ((7, 0), False), ((0, 0), False)])
def test_weights_alone_of_eight_bits_are_turned_to_sixteen_on_older_cards(capability: tuple[int, int], runs: bool) -> None:
    role = actor(rollout=RolloutMenu(quantization=(Quantization.FP8,)), precision=(Precision.FP16,))
    assert bool(list(choices(role, Part.ROLLOUT, hardware(1, capability=capability)))) is runs


SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=4, unique=True).map(tuple)


@given(
    role=st.sampled_from(list(ROLES.values())),
    gpus=st.integers(1, 16),
    tps=SIZES,
    pps=SIZES,
    offered=SIZES,
)
def test_every_choice_fills_the_group_with_blocks_that_it_offers(
    role: Role, gpus: int, tps: tuple[int, ...], pps: tuple[int, ...], offered: tuple[int, ...]
) -> None:
    role = role.replace(layout=LayoutMenu(tps, pps))
    if role.rollout is not None:
        role = role.replace(rollout=RolloutMenu(tp=tps))
    group = hardware(gpus, blocks=offered)
    for part in parts(role):
        listed = list(choices(role, part, group))
        assert [c for c, _ in listed] == list(dict.fromkeys(c for c, _ in listed))
        for choice, preference in listed:
            assert _gpus(choice) == gpus
            assert MODEL.heads % choice.tp == 0
            assert group.block(choice.tp) is not None
            assert preference >= 0
        assert bool(listed) is (unsupported(role, part, group) is None)
        # The rule can only be lifted: nothing that it allows goes away.
        assert set(listed) <= set(choices(role, part, group, supported=False))


def _gpus(choice: Choice) -> int:
    if isinstance(choice, RolloutChoice):
        return choice.tp * choice.replicas
    return choice.tp * choice.pp * choice.dp


# ── what cards run ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        pytest.param((9, 0), BF16, id="H100: bf16"),
        pytest.param((8, 0), BF16, id="A100: bf16"),
        pytest.param((7, 0), FP16, id="V100: fp16"),
        pytest.param((6, 0), FP16, id="P100: fp16"),
        pytest.param((5, 2), None, id="M40: neither"),
    ],
)
def test_precision_is_the_first_of_the_menu_that_the_card_runs(
    capability: tuple[int, int], expected: Precision | None
) -> None:
    assert precision(actor(), hardware(1, capability=capability)) is expected


def test_without_rule_supported_the_first_of_the_menu_is_taken() -> None:
    card = hardware(1, capability=(5, 2))
    assert precision(actor(), card, supported=False) is BF16
    assert list(choices(actor(), Part.ROLLOUT, card)) == []
    assert len(list(choices(actor(), Part.ROLLOUT, card, supported=False))) == 1


@pytest.mark.parametrize(
    ("engine", "capability", "runs"),
    [
        pytest.param(Engine.VLLM, (7, 0), True, id="vllm on V100"),
        pytest.param(Engine.VLLM, (6, 0), False, id="vllm not on P100"),
        pytest.param(Engine.SGLANG, (7, 5), True, id="sglang on T4"),
        pytest.param(Engine.SGLANG, (7, 0), False, id="sglang not on V100"),
    ],
)
def test_engines_need_their_compute_capability(
    engine: Engine, capability: tuple[int, int], runs: bool
) -> None:
    role = actor(rollout=RolloutMenu(engine))
    assert bool(list(choices(role, Part.ROLLOUT, hardware(1, capability=capability)))) is runs


@pytest.mark.parametrize(
    ("role", "part", "group", "expected"),
    [
        pytest.param(
            actor(),
            Part.ROLLOUT,
            hardware(1, capability=(6, 0)),
            "actor runs on vllm (`actor.rollout.engine`), which needs compute capability 7.0; the card has 6.0: take cards of 7.0 or more "
            "(rule supported)",
            id="engine",
        ),
        pytest.param(
            actor(precision=(BF16,)),
            Part.TRAIN,
            hardware(1, capability=(7, 0)),
            "actor asks for bf16 (`actor.precision`), which needs compute capability 8.0; the card has 7.0: write `precision: fp16`, or "
            "take cards of 8.0 or more (rule supported)",
            id="precision",
        ),
        pytest.param(
            actor(train=TrainMenu((MASTER_BF16,))),
            Part.TRAIN,
            hardware(1, capability=(7, 0)),
            "actor asks for a bf16 master (`actor.train.master`), which needs compute capability 8.0; the card has 7.0: write "
            "`master: fp32`, or take cards of 8.0 or more (rule supported)",
            id="master",
        ),
        pytest.param(
            ROLES[RoleName.ROLLOUT].replace(rollout=RolloutMenu(quantization=(Quantization.FP8,)), precision=(FP16,)),
            Part.ROLLOUT,
            hardware(1, capability=(7, 0)),
            "rollout asks for fp8 weights (`rollout.quantization`), which needs compute capability 7.5; the card has 7.0: write "
            "`quantization: none`, or take cards of 7.5 or more (rule supported)",
            id="weights of a rollout on GPUs of its own",
        ),
        pytest.param(
            actor(rollout=RolloutMenu(tp=(2, 4))),
            Part.ROLLOUT,
            hardware(3),
            "3 GPUs cannot be cut into TP blocks of 2 or 4 for actor (rollout)",
            id="blocks",
        ),
        pytest.param(
            actor(layout=LayoutMenu(tp=(2,))),
            Part.TRAIN,
            hardware(1),
            "1 GPU cannot be cut into TP blocks of 2 for actor (train)",
            id="blocks, one GPU",
        ),
        pytest.param(
            ROLES[RoleName.REF].replace(layout=LayoutMenu(tp=(1,), pp=(2,))),
            Part.FROZEN,
            hardware(3),
            "no layout in the menu of ref fills 3 GPUs",
            id="layout",
        ),
        pytest.param(actor(), Part.TRAIN, hardware(3), None, id="nothing against it"),
    ],
)
def test_the_reason_for_an_empty_menu_is_a_sentence(
    role: Role, part: Part, group: Hardware, expected: str | None
) -> None:
    assert unsupported(role, part, group) == expected
    assert (expected is None) is bool(list(choices(role, part, group)))


def test_capability_is_not_blamed_when_the_layout_fails_too() -> None:
    """With rule ``supported`` off the list is empty for the layout's sake alone."""
    role, group = actor(rollout=RolloutMenu(tp=(2,))), hardware(3, capability=(6, 0))
    assert list(itertools.islice(choices(role, Part.ROLLOUT, group, supported=False), 1)) == []
    assert "TP blocks" in (unsupported(role, Part.ROLLOUT, group) or "")
