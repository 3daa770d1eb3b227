"""
CP-SAT and the oracle on random machines, jobs and rules, from the text of the machine to the plan.

Every pair of a number of GPUs and a number of roles is asked about on its own, and each test counts what it compared:
a generator that drifts into questions without plans, or without anything irregular in them, fails here.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from brute_force import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from random_questions import PRESETS, Asked, asked, printed

from placement.checking import problems
from placement.planner import plan
from placement.program.instance import Instance, Objective
from placement.program.lift import TERM_NAMES
from placement.program.lower import lower
from placement.program.menu import menu
from placement.workloads.workload import RoleName
from solvers import check, cpsat, exhaustive
from solvers.result import Options, Result, Status

EXAMPLES = 20
"""Per number of GPUs and roles."""

ORACLE_LIMIT_S = 120.0
"""The slowest question takes a few seconds. An oracle that has not finished proves nothing, so the test fails."""

CELLS = [(gpus, roles) for gpus in range(2, 7) for roles in range(2, 5)]
IDS = [f"{gpus} GPUs, {roles} roles" for gpus, roles in CELLS]

Compared = list[tuple[Asked, Status]]


@pytest.mark.parametrize(("gpus", "roles"), CELLS, ids=IDS)
def test_cpsat_and_the_oracle_agree_on_every_term(gpus: int, roles: int):
    """Same status, same answer, same value and bound of every term; nothing is broken, in anybody's words."""
    compared: Compared = []

    @settings(max_examples=max(EXAMPLES, settings().max_examples // len(CELLS)))
    @given(asked(gpus=gpus, roles=roles))
    def agree(question: Asked) -> None:
        compared.append((question, _status_of_both(question.instance)))

    agree()
    _assert_covered(compared, gpus, roles)


def _status_of_both(instance: Instance) -> Status:
    """Solve *instance* with both solvers, compare all that they say, and return their status."""
    tables = menu(instance)
    assert tables.is_complete
    lowered = lower(instance, tables)
    expected = exhaustive.solve(lowered.problem, Options(time_limit_s=ORACLE_LIMIT_S))
    assert expected.status in (Status.OPTIMAL, Status.INFEASIBLE), "the oracle ran out of its time"
    result = cpsat.solve(lowered.problem)
    assert result == expected
    if result.answer is None:
        assert result.proofs == ()
        return result.status
    assert check.violations(lowered.problem, result.answer) == []
    assert [proof.bound for proof in result.proofs] == [proof.value for proof in result.proofs]
    found = plan(instance).plan
    assert found is not None
    assert [(TERM_NAMES[p.term], p.value, p.bound) for p in result.proofs] == [
        (t.name, t.value, t.bound) for t in found.proof.objective_terms
    ]
    assert problems(found, instance) == []
    return result.status


def _assert_covered(compared: Compared, gpus: int, roles: int) -> None:
    """
    Say that what was compared had plans, whole machines of this size, and something irregular in it.

    Hypothesis varies what it has drawn, so that some twenty questions come in few kinds: how many of all have a plan is
    counted below.
    """
    feasible = [question for question, status in compared if status is Status.OPTIMAL]
    seen = Counter(trait for question in feasible for trait in _traits(question))
    assert len(compared) >= EXAMPLES
    assert len(feasible) >= EXAMPLES // 3
    assert seen[f"{roles} roles"] == len(feasible)
    assert seen[f"{gpus} usable"] >= 3
    assert seen["mixed cards"] >= 1
    if gpus > 2:        # two GPUs see the same link
        assert seen["irregular"] >= 3
    if roles == 4:
        assert seen["ref and reward"] >= 3


TINY = [(2, 1, 20), (2, 2, 40), (3, 1, 40), (3, 2, 60), (4, 1, 120), (4, 2, 60), (3, 3, 30)]
"""GPUs, roles, examples: what sets of four GPUs the rules allow is the richest question, and one role asks it cheaply."""


@pytest.mark.parametrize(("gpus", "roles", "examples"), TINY, ids=[f"{gpus} GPUs, {roles} roles" for gpus, roles, _ in TINY])
def test_no_table_lacks_a_better_plan(gpus: int, roles: int, examples: int):
    """What both solvers never see cannot divide them: so every plan is tried from the rules' own words."""
    compared: Compared = []

    @settings(max_examples=max(examples, settings().max_examples // len(TINY)))
    @given(asked(gpus=gpus, roles=roles, short=roles > 1))
    def agree(question: Asked) -> None:
        compared.append((question, _status_of_brute_force(question)))

    agree()
    assert len(compared) >= examples
    assert len([status for _, status in compared if status is Status.OPTIMAL]) >= examples // 3


def test_memory_that_is_free_only_beside_a_reward_model_is_used():
    """Where `reserve` asks for more than `reward_reserve`, sharing with the reward model makes room."""
    only_beside: list[bool] = []

    @settings(max_examples=40)
    @given(asked(gpus=2, roles=2, short=True, beside=(RoleName.REWARD,)), st.integers(60, 90), st.integers(1, 30))
    def agree(question: Asked, reserve: int, beside: int) -> None:
        plain = dataclasses.replace(question, rules=f"free,reserve={reserve}%,reward_reserve=off", visible=None)
        beside_it = dataclasses.replace(plain, rules=f"free,reserve={reserve}%,reward_reserve={beside}%")
        statuses = [_status_of_brute_force(plain), _status_of_brute_force(beside_it)]
        only_beside.append(statuses == [Status.INFEASIBLE, Status.OPTIMAL])

    agree()
    assert sum(only_beside) >= 6


def test_a_plan_fits_into_the_memory_of_the_host():
    """Of questions whose plan needs most of a host, or more than it has, solvers and brute force say the same."""
    tight: Counter[str] = Counter()

    @settings(max_examples=40)
    @given(asked(gpus=3, roles=2), st.sampled_from([0.5, 0.8, 0.95, 1.0, 1.3]))
    def agree(question: Asked, share: float) -> None:
        plain = plan(question.instance).plan
        if plain is None:
            return
        # What plans may use is 65 % of a host of this size.
        total = math.ceil(plain.host_memory_mib[0].planned * share / 0.65)
        known = dataclasses.replace(question, host_memory_mib=total)
        if _status_of_both(known.instance) is Status.INFEASIBLE:
            tight["none"] += 1
        elif share < 1:
            tight["another plan"] += 1
        else:
            assert plan(known.instance).plan.device_map == plain.device_map
        _status_of_brute_force(known)

    agree()
    assert tight["none"] >= 2
    assert tight["another plan"] >= 2


@settings(max_examples=40)
@given(
    asked(gpus=4, roles=2, short=True),
    st.lists(st.sampled_from(["a100-40gb", "a100-80gb"]), min_size=4, max_size=4),
    st.lists(st.sampled_from([0, 0, 1900]), min_size=4, max_size=4),
    st.integers(30, 80),
    st.sampled_from(["strict", "guide", "free"]),
)
def test_gpus_that_differ_in_memory_alone_are_not_taken_for_each_other(
    question: Asked, cards: list[str], held_mib: list[int], percent: int, preset: str
):
    """Where all links are alike, sets of equal GPUs are listed once: equal is more than equally linked."""
    links = dict.fromkeys(itertools.combinations(range(4), 2), "NV12")
    rules = f"{preset},same_card=off,reserve={percent}%"
    _status_of_brute_force(
        dataclasses.replace(question, matrix=printed(links, cards, held_mib), rules=rules, visible=None)
    )


def _status_of_brute_force(question: Asked) -> Status:
    """Compare the plan's terms with those of the best of all plans, and return its status."""
    result = _result(question.instance)
    stated = None if result.answer is None else [(TERM_NAMES[proof.term], proof.value) for proof in result.proofs]
    assert stated == optimum(question)
    return result.status


def _result(instance: Instance, *, first_term_only: bool = False) -> Result:
    tables = menu(instance)
    assert tables.is_complete
    return cpsat.solve(lower(instance, tables).problem, Options(first_term_only=first_term_only))


def test_the_questions_reach_every_kind_of_machine_and_rule():
    """Whatever two solvers could disagree on, some question with a plan asks about it."""
    has_plan: list[bool] = []
    seen: Counter[str] = Counter()

    @settings(max_examples=200)
    @given(st.sampled_from(CELLS).flatmap(lambda cell: asked(gpus=cell[0], roles=cell[1])))
    def count(question: Asked) -> None:
        has_plan.append(_result(question.instance, first_term_only=True).status is Status.OPTIMAL)
        if has_plan[-1]:
            seen.update(_traits(question))

    count()
    assert sum(has_plan) >= 0.6 * len(has_plan)
    wanted = {"mixed cards", "mixed memory", "memory held", "some left out", "NICs", "unknown links", "NVLink", "no NVLink"}
    wanted |= {"separate rollout", "ref and reward", "reward function", "partial", "contiguity off", "reserve above reward's"}
    wanted |= {*PRESETS, *(objective.value for objective in Objective), "irregular"}
    assert {trait: seen[trait] for trait in sorted(wanted) if seen[trait] < 5} == {}


def _traits(question: Asked) -> Iterator[str]:
    """Yield what makes *question* worth asking."""
    instance = question.instance
    machine, rules, links = instance.machine, instance.rules, instance.machine.topology.links
    size = len(machine.cards)
    cards = {(card.chip, card.total_mib) for card in machine.cards}
    names = {role.name for role in question.workload.placed}
    yield f"{len(machine.usable)} usable"
    yield f"{len(names)} roles"
    yield rules.preset
    yield question.objective.value
    yield "NVLink" if machine.is_nvlinked else "no NVLink"
    facts = {
        "irregular": len(set(_views(links, size))) > 1,
        "mixed cards": len(cards) > 1,
        "mixed memory": len({chip for chip, _ in cards}) < len(cards),
        "memory held": any(gpu.memory_used_mib for gpu in machine.topology.gpus),
        "some left out": bool(machine.unusable),
        "NICs": bool(machine.topology.gpu_nic),
        "unknown links": len(links) < size * (size - 1) // 2,
        "separate rollout": RoleName.ROLLOUT in names,
        "ref and reward": {RoleName.REF, RoleName.REWARD} <= names,
        "reward function": RoleName.REWARD not in names,
        "partial": rules.sharing == "partial",
        "contiguity off": not rules.contiguity,
        "reserve above reward's": rules.reserve.percent > (rules.reward_reserve_percent or 100.0),
    }
    yield from (fact for fact, holds in facts.items() if holds)


def _views(links: dict[tuple[int, int], str], size: int) -> Sequence[tuple[str, ...]]:
    """Return for each GPU the codes of its links, sorted: where these differ, no symmetry makes all GPUs alike."""
    seen: list[list[str]] = [[] for _ in range(size)]
    for (i, j), code in links.items():
        seen[i].append(code)
        seen[j].append(code)
    return [tuple(sorted(codes)) for codes in seen]
