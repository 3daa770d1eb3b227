"""Which numbers turn a choice, where, and what staying costs: by hand, and against planning anew."""

from __future__ import annotations

import dataclasses
import itertools
import re

import pytest
from conftest_placement import (
    BATCH,
    actor,
    ask,
    bridged_pairs,
    critic,
    job,
    machine,
    questions,
    ref,
    rollout,
    train,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placement.checking import problems
from placement.cli.explain import page
from placement.cli.table import rendered
from placement.constants.table import Override, is_of_links, sources
from placement.explaining import sensitivity as module
from placement.explaining.memory_table import memory_table
from placement.explaining.quantities import PCIE, SOCKETS, STAGED, Quantity, quantities
from placement.explaining.sensitivity import CLOSE, LEAST_REGRET, MOVED, Change, sensitivity
from placement.explaining.taken import difference, taken, terms
from placement.planner import plan
from placement.program.lower import lower
from placement.program.menu import menu
from placement.workloads.workload import LayoutMenu, Master, Offload
from solvers import cpsat, exhaustive
from solvers.problem import Term
from solvers.result import Options
from topologies.measurements import Device, Measured, OfGpu, Spread

OPTIONS = Options()


def rests_on(question, solve=cpsat.solve, **options):
    found = plan(question).plan
    assert found is not None
    return sensitivity(found, question, solve, options.pop("options", OPTIONS), **options)


def quantity(question, name):
    return next(q for q in quantities(question) if q.name == name)


def tight(free_mib, *offload):
    """Return an actor and its engine on one A100, of which *free_mib* are left; to stay on the GPU takes no copies, and is faster."""
    work = job(actor(train=train(offload=offload or (Offload.NONE, Offload.BETWEEN))))
    alone = plan(ask(machine("NV12", 1), work, "guide,reserve=0MiB", within_percent=0.0)).plan
    assert alone.roles["actor"].train.offload == "none"
    gpu = alone.memory_mib[0]
    return ask(machine("NV12", 1), work, f"guide,reserve={gpu.capacity - gpu.planned - free_mib}MiB", within_percent=0.0)


# ── by hand ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_choice_turns_where_its_memory_ends():
    """
    The GPU holds ``overhead + …`` at every moment, and 100 MiB are free: an overhead of 1536 MiB may grow by 100, that is to 1.065 times
    what it is. From there on the state of training has no room beside the engine.
    """
    question = tight(100)
    assert plan(question).plan.memory_mib[0].free == 100
    overhead = question.constants.train_overhead_mib
    turn = next(t for t in rests_on(question).turns if t.quantity.name == "train_overhead_mib")
    assert not turn.is_below
    assert turn.holds_at <= 1 + 100 / overhead < turn.turned.factor <= turn.holds_at + CLOSE
    assert turn.turned.regret is None
    assert turn.turned.becomes == ("actor: offload between",)


def test_where_there_is_no_other_choice_there_is_no_plan():
    turn = next(t for t in rests_on(tight(100, Offload.NONE)).turns if t.quantity.name == "train_overhead_mib")
    assert (turn.turned.becomes, turn.turned.regret) == ((), None)


def test_the_faster_of_two_cards_is_taken_until_it_is_the_slower():
    """
    Both cards have the same memory. The actor, which gets one GPU, stays on GPU 1 while the step is shorter there: next to the turn both
    take as long, so that hardly anything is lost there, and more at the end.
    """
    question = ask(machine("SYS", 2, "0=h100-pcie,1=h100-80gb"), job(actor(max_gpus=1)), "free", within_percent=0.0)
    assert plan(question).plan.device_map == {"actor": (1,)}
    found = rests_on(question, moved=0.6)
    turn = next(t for t in found.turns if t.quantity.name == "FLOP/s of h100-80gb")
    assert turn.is_below
    assert turn.turned.becomes == ("actor moves to GPU 0",)
    assert 0 < turn.turned.regret < turn.at_end.regret
    # Time is monotone in FLOP/s: just before the turn the old card was at least as fast, or slower by less than counts.
    step_of = {}
    for factor, gpu in itertools.product((turn.holds_at, turn.turned.factor), (0, 1)):
        alone = ask(question.machine.topology, question.workload, "free", within_percent=0.0, visible=[gpu])
        step_of[factor, gpu] = plan(turn.quantity.move(alone, factor)).plan.proof.objective
    assert step_of[turn.holds_at, 1] / step_of[turn.holds_at, 0] - 1 < LEAST_REGRET
    assert step_of[turn.turned.factor, 1] / step_of[turn.turned.factor, 0] - 1 == pytest.approx(turn.turned.regret)


# ── what can be moved ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_constant_and_every_class_of_links_can_be_moved():
    question = ask(bridged_pairs(), job(actor()))
    names = [q.name for q in quantities(question)]
    assert names[:5] == ["NVLink NV12", PCIE, SOCKETS, "FLOP/s of a100-pcie-80gb", "memory bandwidth of a100-pcie-80gb"]
    assert names[5] == "memory of a100-pcie-80gb"
    # What links carry by their class is moved as a fact of this machine.
    assert names[6:] == [name for name in sources() if not is_of_links(name)]
    assert STAGED in [q.name for q in quantities(ask(machine("PIX", 2, "rtx4090"), job(actor())))]


@pytest.mark.parametrize("name", [name for name in sources() if not is_of_links(name)])
def test_a_moved_constant_is_that_constant_times_the_factor(name):
    question = ask(machine("NV12", 2), job(actor()))
    moved = quantity(question, name).move(question, 1.1).constants
    now = getattr(question.constants, name)
    assert getattr(moved, name) == pytest.approx(1.1 * now, abs=0.5 if isinstance(now, int) else 0)
    assert {n for n in sources() if getattr(moved, n) != getattr(question.constants, n)} == {name}


def test_a_moved_class_of_links_moves_its_links_and_edges_alone():
    question = ask(bridged_pairs(), job(actor()))
    now = question.machine.wiring
    for name, code in (("NVLink NV12", "NV12"), (SOCKETS, "SYS")):
        moved = quantity(question, name).move(question, 0.5).machine.wiring
        for pair, link in now.links.items():
            assert moved.links[pair].gb_per_s == link.gb_per_s * (0.5 if link.code == code else 1)
        assert {e.kind for k, e in moved.edges.items() if e.gb_per_s != now.edges[k].gb_per_s} <= {code, "sockets"}
    assert question.machine.wiring is now


def test_a_share_of_a_peak_ends_at_the_peak():
    question = ask(machine("NV12", 2), job(actor()))
    assert module._ends(quantity(question, "memory_efficiency"), 0.2) == (0.8, pytest.approx(1 / 0.9))
    assert module._ends(quantity(question, "kv_read_efficiency"), 0.2) == (0.8, 1.2)


def test_a_bound_in_nature_ends_a_range_and_ends_have_few_digits():
    question = ask(machine("NV12", 2), job(actor()))
    # Four bits are half a byte: 0.516 B cannot become 0.413.
    assert module._ends(quantity(question, "nf4_bytes_per_weight"), 0.2) == (pytest.approx(0.5 / 0.516), 1.2)
    memory = Quantity("x", False, (79.1796875,), "GiB", None, lambda question, factor: question)
    down, up = module._ends(memory, 0.2)
    assert (memory.at(1), memory.at(down), memory.at(up)) == ("79.18 GiB", "63.34 GiB", "95.02 GiB")


def test_a_turn_inside_the_band_is_said_beside_the_one_that_costs_more():
    """With a band of 10 % another card is taken long before staying costs more than that."""
    question = ask(machine("SYS", 2, "0=h100-pcie,1=h100-80gb"), job(actor(max_gpus=1)), "free", within_percent=10.0)
    base = plan(question).plan
    for turn in rests_on(question, moved=0.6).turns:
        assert (turn.costly is None) == (not turn.at_end.costs_more_than(0.1))
        assert abs(turn.turned.factor - 1) <= abs((turn.costly or turn.at_end).factor - 1)
        for change in (turn.turned, turn.costly):
            if change is not None and change.becomes:
                there = plan(turn.quantity.move(question, change.factor)).plan
                assert (there.device_map, there.roles) != (base.device_map, base.roles)


def test_what_is_said_to_give_a_fact_gives_it():
    question = ask(machine("NV12", 2, "a100-80gb"), job(actor()))
    moved = question.with_overrides([Override("nvlink_gen3_x12_gb_per_s", 100.0)])
    assert quantity(question, "NVLink NV12").given_by() == "constant nvlink_gen3_x12_gb_per_s (--constants FILE)"
    assert quantity(moved, "NVLink NV12").values == (100.0, 100.0)
    share = float(re.search(r"matmul_tflops: ([\d.]+) of", quantity(question, "FLOP/s of a100-80gb").given_by())[1])
    once = Spread(200.0, 200.0, 200.0, 3)
    gpus = tuple(OfGpu(g, once, Spread(900.0, 900.0, 900.0, 3)) for g in (0, 1))
    measured = ask(question.machine.topology.replace(measured=Measured(Device.CUDA, gpus=gpus)), job(actor()))
    assert quantity(measured, "FLOP/s of a100-80gb").values[0] == pytest.approx(200.0 / share, rel=0.001)
    assert quantity(measured, "memory bandwidth of a100-80gb").values[0] == pytest.approx(900.0 / 0.9)


def test_moved_memory_is_that_of_its_cards_and_what_must_stay_free_goes_along():
    question = ask(machine("NV12", 2, "0=a100-40gb,1=a100-80gb"), job(actor()))
    moved = quantity(question, "memory of a100-80gb").move(question, 0.5).machine
    assert moved.capacity_mib == (question.machine.capacity_mib[0], question.machine.capacity_mib[1] // 2)
    assert moved.reserved_mib[1] == -(-moved.capacity_mib[1] * 5 // 100)
    assert quantity(question, "memory of a100-80gb").at(1) == "79.25 GiB"


@pytest.mark.parametrize(
    ("value", "factor", "up", "said"),
    [
        pytest.param(275.0, 0.8871, False, "243.9", id="three digits are 0.4 % away, four are not"),
        pytest.param(312.0, 1.1634, True, "363", id="three digits are close enough"),
        pytest.param(0.4, 0.98765, False, "0.395", id="below one"),
        pytest.param(1935.0, 0.8127, False, "1570", id="above a thousand"),
    ],
)
def test_values_beside_a_factor_have_few_digits_and_are_said_exactly(value, factor, up, said):
    one = Quantity("x", False, (value,), "", None, lambda question, factor: question)
    *near, last = one.beside(factor, up=up)
    assert last == factor
    assert one.at(near[0]) == said
    assert all((each >= factor) if up else (each <= factor) for each in near)
    assert [float(one.at(each)) / value for each in near] == pytest.approx(near, rel=1e-11)


# ── against planning anew ───────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=25)
@given(questions(most=4), st.randoms(use_true_random=False))
def test_what_is_said_of_a_value_is_what_planning_says_there(question, dice):
    """The new choice is that of a plan; what the old one costs there is what the checker reads off the old map."""
    found = plan(question).plan
    assume(found is not None)
    search = module._Search(question, cpsat.solve, OPTIONS)
    assert search.why_not(found) == ""
    moved = dice.choice(quantities(question))
    factor = dice.choice([0.3, 0.7, 1.4, 3.0])
    if moved.most is not None:
        factor = min(factor, moved.most)
    said, there = search.change(moved, factor), moved.move(question, factor)
    anew = plan(there).plan
    if not isinstance(said, Change):
        assert (anew.device_map, anew.roles) == (found.device_map, found.roles)
        return
    assert said.becomes == () if anew is None else (anew.device_map, anew.roles) != (found.device_map, found.roles)
    if anew is None:
        return
    complaints = problems(found, there)
    too_full = [c for c in complaints if "must stay free are fewer" in c or "cannot run" in c]
    assert (said.regret is None) == bool(too_full)
    steps = [int(c.split("cost model says ")[1].split()[0]) for c in complaints if c.startswith("the map says a step")]
    if said.regret is not None:
        stays = steps[0] if steps else found.estimate.step_us
        assert said.regret == pytest.approx(stays / anew.estimate.step_us - 1)


def test_both_solvers_say_the_same():
    work = job(actor(train=train(master=(Master.FP32, Master.BF16), offload=(Offload.NONE, Offload.BETWEEN)), rollout=rollout(1, 2)), ref())
    question = ask(machine({(0, 1): "NV2"}, 2, "a100-40gb"), work, "free,reserve=12GiB")
    proven, tried = rests_on(question, moved=0.6), rests_on(question, exhaustive.solve, moved=0.6)
    assert [(t.quantity.name, t.holds_at, t.turned, t.at_end) for t in proven.turns] == [
        (t.quantity.name, t.holds_at, t.turned, t.at_end) for t in tried.turns
    ]
    for part in ("ties", "holding", "idle"):
        assert [q.name for q in getattr(proven, part)] == [q.name for q in getattr(tried, part)]


def question_with(base, quantity, value):
    """Return *base* where *quantity* is *value*, as its user would ask: a constant of his own, or another machine."""
    if not quantity.is_constant:
        return quantity.move(base, value / quantity.values[0])
    scale = 1e9 if quantity.unit == "GB/s" else 1
    return base.with_overrides([Override(quantity.name, round(value * scale) if quantity.is_whole else value * scale)])


def test_what_is_printed_is_what_planning_says_there():
    """The choice still holds at the value that is printed as holding, and no longer at the one that is printed as turned."""
    mixed = ask(machine("SYS", 2, "0=h100-pcie,1=h100-80gb"), job(actor(max_gpus=1)), "free", within_percent=0.0)
    printed = 0
    for base, moved in ((tight(100), 0.2), (mixed, 0.6)):
        now = plan(base).plan
        for turn in rests_on(base, moved=moved).turns:
            q = turn.quantity
            now_at, holds, turned = (float(q.amount(factor)) for factor in (1, turn.holds_at, turn.turned.factor))
            assert now_at == q.values[0]
            there = question_with(base, turn.quantity, holds)
            held = plan(there).plan
            assert (held.device_map, held.roles) == (now.device_map, now.roles)
            if turn.costly is not None:
                there = question_with(base, turn.quantity, float(q.amount(turn.costly.factor)))
                best, stays = plan(there).plan, terms(choice_of(base), there)
                assert best is None or stays is None or stays[Term.STEP] / best.estimate.step_us - 1 > base.within_percent / 100
            new = plan(question_with(base, turn.quantity, turned)).plan
            assert new is None or (new.device_map, new.roles) != (now.device_map, now.roles)
            printed += 1
    assert printed > 4


def test_every_quantity_is_in_one_list_and_the_closest_turn_comes_first():
    question = tight(100)
    found = rests_on(question)
    listed = [{t.quantity.name for t in found.turns}, *({q.name for q in part} for part in (found.ties, found.holding, found.idle))]
    assert sum(map(len, listed)) == len(set().union(*listed)) == len(quantities(question))
    assert [abs(t.turned.factor - 1) for t in found.turns] == sorted(abs(t.turned.factor - 1) for t in found.turns)
    assert all(abs(t.turned.factor - t.holds_at) <= CLOSE and abs(t.turned.factor - 1) <= MOVED + 1e-9 for t in found.turns)
    assert {"train_mfu_moe", "forward_mfu_moe"} <= {q.name for q in found.idle}


def test_where_the_cache_is_small_memory_is_among_what_the_step_hangs_on():
    """Of 40 GiB a fifth is the engine's: some fifteen of 256 sequences of 8448 tokens fit, and more memory would take more of them."""
    batch = dataclasses.replace(BATCH, response_mean_tokens=8192, response_max_tokens=16384)
    question = ask(machine("NV12", 1, "a100-40gb"), job(actor(rollout=rollout(share=0.2)), batch=batch))
    found = plan(question).plan
    assert re.fullmatch(r"generate: decode: only 1[0-9] of 256 sequences fit the KV cache", found.estimate.stages[0].because)
    rests = rests_on(question)
    ranked = [each.quantity.name for each in rests.leverage]
    assert "memory of a100-40gb" in ranked[:4]
    assert [abs(each.change) for each in rests.leverage] == sorted((abs(each.change) for each in rests.leverage), reverse=True)
    first = rests.leverage[0]
    moved = plan(first.quantity.move(question, first.factor)).plan
    assert moved.estimate.step_us / found.estimate.step_us - 1 == pytest.approx(first.change)
    page_of = rendered(*page(found, memory_table(found, question), rests, moved_percent=20.0, band_percent=2.0), stream=None)
    assert "generation waits for room in the KV cache: a larger gpu_memory_utilization" in page_of
    assert "the step moves most with" in page_of


# ── what is not looked at ───────────────────────────────────────────────────────────────────────────────────────────────


def test_without_time_nothing_is_looked_at_and_all_is_named():
    question = tight(100)
    found = rests_on(question, options=Options(time_limit_s=0.0))
    assert found.turns == found.ties == found.holding == found.idle == ()
    assert len(found.not_looked_at) == len(quantities(question))


def test_a_plan_that_is_not_the_best_rests_on_nothing():
    question = ask(machine("NV12", 4), job(actor(), critic(), ref()))
    best = plan(question).plan
    guess = best.replace(device_map={**best.device_map, "ref": (2, 3)})
    assert "planning anew takes another choice" in sensitivity(guess, question, cpsat.solve, OPTIONS).why_not


def test_a_machine_with_too_many_groups_rests_on_nothing(monkeypatch):
    question = ask(machine("NV12", 2), job(actor(), ref()))
    found = plan(question).plan
    monkeypatch.setattr("placement.program.sets.MAX_SETS", 1)
    assert "too many groups" in sensitivity(found, question, cpsat.solve, OPTIONS).why_not


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def choice_of(question):
    tables = menu(question)
    lowered = lower(question, tables)
    return taken(lowered, tables, cpsat.solve(lowered.problem, OPTIONS).answer)


def test_differences_are_said_role_by_role():
    four = machine("NV12", 4)
    apart = choice_of(ask(four, job(actor(max_gpus=2), ref(max_gpus=2)), "strict"))
    together = choice_of(ask(four, job(actor(gpu_menu=(4,), layout=LayoutMenu(tp=(2,)), rollout=rollout(2)), ref(gpu_menu=(4,))), "free"))
    assert difference(apart, apart) == ()
    assert difference(apart, together) == ("actor and ref move to GPUs 0-3", "actor: tp×pp×dp 2×1×2, engines 2×tp2")


@settings(max_examples=15)
@given(questions(most=3))
def test_what_a_choice_costs_where_it_was_made_is_what_its_plan_says(question):
    found = plan(question).plan
    assume(found is not None)
    said = terms(choice_of(question), question)
    assert said[Term.STEP] == found.estimate.step_us
    assert said[Term.GPUS] == len(found.used_gpus)
