"""On how little a job fits: by hand, and against trying everything with the other solver."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from conftest_placement import actor, ask, critic, job, machine, questions, ref, rollout, two_switches
from hypothesis import given, settings

from placement.machines.machine import NOT_NEEDED
from placement.planner import plan
from placement.program.instance import Objective, make_instance
from placement.program.lower import lower
from placement.program.menu import menu
from placement.smallest import fewest as module
from placement.smallest.cards import cannot_run, smallest_card, with_card
from placement.smallest.fewest import fewest_gpus
from placement.smallest.trial import Size, Smallest
from placement.workloads.workload import Engine, Precision, Role, RoleName
from solvers import cpsat, exhaustive
from solvers.result import Options, Status
from topologies.cards import card_of, cards, find_card

OPTIONS = Options()
SHARE = 0.09


def fewest(question, solve=cpsat.solve, **options):
    return fewest_gpus(question, solve, Options(**options))


def smallest_on(topology, work, rules="guide", solve=cpsat.solve, **options):
    return smallest_card(topology, lambda other: ask(other, work, rules), solve, Options(**options))


def shortest(question):
    """Return the shortest step by trying everything; None when there is no plan."""
    result = exhaustive.solve(lower(question, menu(question)).problem, Options(first_term_only=True))
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return result.step_star.value if result.step_star else None


# ── GPUs, by hand ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_roles_that_share_no_gpu_need_one_each():
    """Preset strict keeps three roles apart, each of which fits on one GPU: three are the fewest."""
    found = fewest(ask(machine("NV12", 4), job(actor(), critic(), ref()), "strict"))
    assert [(row.gpus, row.fits, row.on) for row in found.tried] == [
        (1, False, (0,)), (2, False, (0, 1)), (3, True, (0, 1, 2)), (4, True, (0, 1, 2, 3)),
    ]  # fmt: skip
    assert (found.answer, found.below, found.is_proven, found.notes) == (2, 1, True, ())
    why = "; ".join(found.tried[1].why_not)
    assert "isolation, preset strict" in why
    assert why.endswith("; 2 GPUs can be used")
    assert "hidden" not in why


def test_gpus_that_are_not_needed_are_not_said_to_be_hidden():
    question = ask(machine("NV12", 4), job(actor(), ref()))
    assert fewest(question).tried[0].question.machine.unusable == dict.fromkeys((1, 2, 3), NOT_NEEDED)
    hidden = make_instance(question.machine.topology, question.workload, question.rules, visible=[0, 1, 2])
    assert fewest(hidden).tried[0].question.machine.unusable == {
        1: NOT_NEEDED, 2: NOT_NEEDED, 3: "hidden by --visible or CUDA_VISIBLE_DEVICES",
    }  # fmt: skip


def test_one_gpu_can_be_enough():
    found = fewest(ask(machine("NV12", 2), job(actor(), ref())))
    assert (found.answer, found.below, found.tried[0].on) == (0, None, (0,))


def test_more_gpus_are_not_always_enough():
    """
    The critic takes one GPU at most, the actor four: five do. From six usable GPUs on rule min_gpus, which wants two for the critic, is no
    wish any more.
    """
    found = fewest(ask(machine("NV12", 8), job(actor(gpu_menu=(4,)), critic(max_gpus=1))))
    assert [row.gpus for row in found.tried if row.fits] == [5]
    assert found.tried[found.answer].gpus == 5
    assert found.notes == ("more GPUs are not always enough: 6-8 do not do, although 5 do",)
    assert found.tried[3].why_not
    assert found.below == 3


def test_none_do_where_the_workload_asks_for_more_than_there_are():
    found = fewest(ask(machine("NV12", 2), job(actor(min_gpus=3))))
    assert (found.answer, found.below, found.is_proven) == (None, 1, True)
    assert found.tried[0].why_not == ("the workload gives actor at least 3 GPUs",)
    assert "actor gets at least 3 GPUs (the workload says so)" in found.tried[1].why_not


def test_cards_that_cannot_run_the_job_are_never_enough():
    found = fewest(ask(machine("NV2", 2, "v100-32gb"), job(actor(precision=(Precision.BF16,)))))
    assert (found.answer, found.below, found.is_proven) == (None, 1, True)
    assert any("(rule supported)" in why for why in found.tried[1].why_not)


def test_a_menu_that_leaves_no_room_is_named():
    """An engine that may take 3.5 GiB of a card of 40, with 2.3 GiB of weights: its menu has tp 1 alone, and tp 2 halves them."""
    engine = Role(RoleName.ROLLOUT, actor().model, Engine.VLLM, rollout=rollout(1, share=SHARE))
    named = "the menu of rollout stops at tp 1: with tp 2 it has room"

    def asked(*tp):
        work = job(actor(rollout=None), engine.replace(rollout=rollout(*tp, share=SHARE)))
        return fewest(ask(machine("NV12", 3, "a100-40gb"), work, "guide"))

    narrow, wide = asked(1), asked(1, 2)
    assert [row.fits for row in narrow.tried] == [False, False, False]
    assert [row.fits for row in wide.tried] == [False, False, True]
    assert [named in row.why_not for row in narrow.tried] == [False, True, True]
    assert not any("stops at tp" in why for row in wide.tried for why in row.why_not)


def test_hidden_gpus_are_not_counted():
    question = ask(machine("NV12", 4), job(actor(), ref()), "strict", visible=[1, 3])
    found = fewest(question)
    assert [(row.gpus, row.on, row.fits) for row in found.tried] == [(1, (1,), False), (2, (1, 3), True)]
    assert not any("hidden" in why for row in found.tried for why in row.why_not)
    assert plan(found.tried[1].question).plan.device_map == {"actor": (1,), "ref": (3,)}


def test_the_plan_of_the_fewest_hides_the_others():
    found = fewest(ask(machine("NV12", 4), job(actor(), ref()), "strict"))
    fitting = plan(found.tried[found.answer].question).plan
    assert fitting.environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert fitting.inputs["not_needed"] == [2, 3]
    assert "GPU 2-3 are left out: not needed (--smallest gpus)" in fitting.estimate.assumptions


def test_of_unequal_gpus_the_best_set_is_taken():
    """A V100 runs the job in fp16, an A100 faster: one GPU is enough, and it is the A100."""
    found = fewest(ask(machine("SYS", 2, "0=v100-32gb,1=a100-80gb"), job(actor()), "free"))
    assert (found.answer, found.tried[0].on, found.tried[0].sets) == (0, (1,), 2)


# ── GPUs, against trying everything ─────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=30)
@given(questions(most=3))
def test_all_sets_of_gpus_say_the_same(question):
    found = fewest(question)
    usable = question.machine.usable
    assert [row.gpus for row in found.tried] == list(range(1, len(usable) + 1))
    for row in found.tried:
        each = [
            shortest(make_instance(
                question.machine.topology, question.workload, question.rules, visible=on,
                objective=question.objective, within_percent=question.within_percent,
            ))
            for on in itertools.combinations(usable, row.gpus)
        ]  # fmt: skip
        assert row.fits == any(step is not None for step in each)
        assert bool(row.why_not) != row.fits
        if row.fits and question.objective == "step":
            assert row.step_us == min(step for step in each if step is not None)


@settings(max_examples=15)
@given(questions(most=3))
def test_too_many_sets_are_answered_by_the_objective(question):
    """Under the rules of the whole machine no fewer do than with the sets that were tried one by one, and a plan proves the number."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_SETS", 0)
        whole = fewest(question)
    best = plan(question.replace(objective=Objective.GPUS)).plan
    if best is None:
        assert whole.answer is None
        assert whole.is_proven
        return
    row = whole.tried[whole.answer]
    assert (row.gpus, whole.is_proven) == (len(best.used_gpus), True)
    assert len(plan(row.question).plan.used_gpus) == row.gpus
    each = fewest(question)
    assert each.tried[each.answer].gpus <= row.gpus


def test_larger_sizes_are_left_out_where_there_are_many_sets(monkeypatch):
    """Those with few sets are tried all the same: that of all GPUs is one."""
    monkeypatch.setattr(module, "MOST_ABOVE", 3)
    found = fewest(ask(two_switches(), job(actor(), ref()), "strict"))
    sets = {row.gpus: row.sets for row in found.tried}
    listed = module._sets(ask(two_switches(), job(actor(), ref()), "strict"))
    counts = {size: sum(len(on) == size for on in listed) for size in range(1, 9)}
    assert sets == {size: counts[size] for size in (1, 2, 7, 8)}
    left_out = sum(counts[k] for k in range(3, 7))
    said = f"3-6 GPUs were not tried: they are {left_out} sets that differ, and above the smallest 3 at the most are tried"
    assert found.notes == (said,)


# ── cards ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.slug)
def test_every_card_can_be_put_in_place(card):
    held = machine("NV12", 2)
    held = held.replace(gpus=tuple(g.replace(memory_used_mib=9000, compute_capability="8.0") for g in held.gpus))
    other = with_card(held, card)
    assert [card_of(gpu) for gpu in other.gpus] == [card, card]
    assert (other.links, [gpu.memory_used_mib for gpu in other.gpus]) == (held.links, [None, None])
    assert f"every GPU is taken as {card.slug}" in other.warnings[-1]


def test_the_smallest_card_is_the_first_that_trying_everything_finds():
    work = job(actor(), ref())
    topology = machine("NV12", 1)
    found = smallest_on(topology, work)
    order = sorted(cards(), key=lambda card: (card.total_mib, card.memory_gb_per_s, card.slug))
    steps = [shortest(ask(with_card(topology, card), work)) for card in order]
    first = next(k for k, step in enumerate(steps) if step is not None)
    assert [(row.card, row.step_us) for row in found.tried] == [
        (card.slug, step) for card, step in zip(order[: first + 1], steps, strict=False)
    ]
    assert (found.answer, found.is_proven) == (first, True)
    below = found.tried[found.below]
    assert any("GiB" in why for why in below.why_not)
    assert f"the {len(order) - first - 1} larger cards of the catalogue were not looked at" in found.notes


def test_the_smallest_card_holds_what_the_plan_needs():
    """One GPU: the first card whose memory, as torch sees it, less the reserve of 5 % or 1 GiB, holds what the plan needs of it."""
    work, one = job(ref()), machine("NV12", 1)
    found = smallest_on(one, work)
    needs = {
        plan(ask(with_card(one, find_card(slug)), work)).plan.memory_mib[0].planned for slug in ("a100-80gb", "l40s")
    }
    assert len(needs) == 1      # without an engine, which claims a share of it, nothing depends on the card
    (need,) = needs
    for row in found.tried:
        torch_mib = find_card(row.card).torch_mib
        assert row.fits == (torch_mib - max(-(-torch_mib * 5 // 100), 1024) >= need)


def test_cards_that_cannot_run_the_job_are_named_with_the_reason():
    work = job(actor(precision=(Precision.BF16,)))
    found = smallest_on(machine("NV12", 1), work)
    named = {row.card: row.why_not for row in found.tried if any("(rule supported)" in why for why in row.why_not)}
    (why,) = named["v100-16gb"]
    assert why.startswith("actor asks for bf16 (`actor.precision`), which needs compute capability 8.0; the card has 7.0: write `")
    assert all(not row.fits for row in found.tried if row.card in named)
    free = smallest_on(machine("NV12", 1), work, "guide,supported=off")
    assert not any("(rule supported)" in why for row in free.tried for why in row.why_not)
    generates = "actor runs on vllm (`actor.rollout.engine`), which needs compute capability 7.0; the card has 6.0: take cards of 7.0 or"
    assert cannot_run(find_card("p100-16gb"), job(actor())).startswith(generates)
    assert cannot_run(find_card("p100-16gb"), job(ref())) is None


def test_both_solvers_find_the_same_card():
    work, topology = job(actor(), critic()), machine("SYS", 2, "l40s")
    proven, tried = smallest_on(topology, work), smallest_on(topology, work, solve=exhaustive.solve)
    assert [(r.card, r.fits, r.step_us) for r in proven.tried] == [(r.card, r.fits, r.step_us) for r in tried.tried]


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_time_nothing_is_claimed():
    question = ask(machine("NV12", 3), job(actor(), ref()))
    found = fewest(question, time_limit_s=0.0)
    assert [row.fits for row in found.tried] == [None, None, None]
    assert (found.answer, found.below, found.is_proven) == (None, None, False)


def test_a_smaller_size_that_was_not_judged_leaves_the_answer_unproven():
    question = ask(machine("NV12", 2), job(actor()))
    tried = fewest(question).tried
    unknown = [replace(tried[0], fits=None, step_us=None), tried[1]]
    assert not Smallest(tuple(unknown), 1, None, ()).is_proven


def test_the_sizes_are_those_of_the_option():
    from placement.cli.parameters import SMALLEST

    assert list(Size) == list(SMALLEST)
