"""How a step is cut into micro-batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from placement.choices.batches import Cut, cut, longest_tokens, mean_tokens, uneven
from placement.models.model import find_model
from placement.workloads.workload import Batch, Engine, Role, RoleName, TrainMenu


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    longest = draw(st.integers(1, 5000))
    prompts = draw(st.integers(1, 500))
    return Batch(
        prompts=prompts,
        samples_per_prompt=draw(st.integers(1, 8)),
        prompt_tokens=draw(st.integers(1, 2000)),
        response_mean_tokens=draw(st.integers(1, longest)),
        response_max_tokens=longest,
        minibatches=draw(st.integers(1, prompts)),
        micro_batch_tokens=8192,
    )


def test_a_share_is_packed_into_as_few_micro_batches_as_its_tokens_need() -> None:
    # 64 sequences in 4 updates on 2 ranks: 8 each, of 100 + 200 tokens: 2400 tokens in micro-batches of 1000
    # are 3 of 800. The fullest has 1000, as 8 sequences of up to 500 are more.
    batch = Batch(64, 1, 100, 200, 400, 4, 1000)
    assert cut(batch, dp=2, micro_batch_tokens=1000, updates=4) == Cut(4, 3, 800.0, 1000)


def test_the_fullest_rank_counts() -> None:
    # 10 sequences on 4 ranks: one rank has 3.
    batch = Batch(10, 1, 50, 50, 50, 1, 10**6)
    assert cut(batch, dp=4, micro_batch_tokens=10**6, updates=1) == Cut(1, 1, 300.0, 300)


def test_a_micro_batch_holds_at_least_the_longest_sequence() -> None:
    batch = Batch(4, 1, 50, 50, 950, 1, 10)
    assert cut(batch, dp=1, micro_batch_tokens=10, updates=1).peak_tokens == 1000


@given(batches(), st.integers(1, 64), st.integers(1, 20_000), st.data())
def test_every_token_is_passed_and_no_micro_batch_is_over_its_limit(
    batch: Batch, dp: int, size: int, data: st.DataObject
) -> None:
    updates = data.draw(st.sampled_from([1, batch.minibatches]))
    share = cut(batch, dp=dp, micro_batch_tokens=size, updates=updates)
    assert share.updates * share.micro_batches * share.tokens * dp >= batch.tokens * (1 - 1e-9)
    assert 0 < share.tokens <= share.peak_tokens <= max(size, longest_tokens(batch))
    assert share.micro_batches <= share.tokens * share.micro_batches / mean_tokens(batch) + 1e-9


@given(batches(), st.integers(1, 64), st.integers(1, 20_000))
def test_more_ranks_never_have_more_to_do(batch: Batch, dp: int, size: int) -> None:
    def work(ranks: int) -> tuple[float, int]:
        share = cut(batch, dp=ranks, micro_batch_tokens=size, updates=batch.minibatches)
        return share.micro_batches * share.tokens, share.peak_tokens

    assert work(dp + 1)[0] <= work(dp)[0] + 1e-6
    assert work(dp + 1)[1] <= work(dp)[1]


def test_ranks_that_do_not_divide_a_step_or_a_minibatch_are_named() -> None:
    # 256 sequences, 64 in each of four minibatches: 3 ranks divide neither, 128 ranks the step alone.
    batch = Batch(256, 1, 100, 200, 400, 4, 1000)
    actor = Role(RoleName.ACTOR, find_model("Qwen/Qwen2.5-0.5B"), train=TrainMenu())
    ref = Role(RoleName.REF, actor.model)
    assert [uneven(actor, dp, batch) for dp in (1, 2, 64)] == [None] * 3
    assert uneven(actor, 3, batch) == "the 256 sequences of a step"
    assert uneven(actor, 128, batch) == "the 64 sequences of a minibatch"
    assert uneven(ref, 128, batch) is None
    assert uneven(ref, 3, batch) is not None
    assert uneven(ref.replace(engine=Engine.VLLM), 3, batch) is None
    # Three minibatches of 256 sequences are unequal in any case.
    assert uneven(actor, 128, Batch(256, 1, 100, 200, 400, 3, 1000)) is None


@given(batches(), st.integers(1, 600))
def test_ranks_share_evenly_exactly_where_nobody_has_more(batch: Batch, dp: int) -> None:
    role = Role(RoleName.ACTOR, find_model("Qwen/Qwen2.5-0.5B"), train=TrainMenu())
    shares = [len(range(batch.sequences)[rank::dp]) for rank in range(dp)]
    if len(set(shares)) > 1:
        assert uneven(role, dp, batch) is not None
    elif batch.sequences % batch.minibatches == 0:
        of_update = [len(range(batch.sequences // batch.minibatches)[rank::dp]) for rank in range(dp)]
        assert (uneven(role, dp, batch) is None) == (len(set(of_update)) == 1)
