"""How a solve ends: proofs, limits, Ctrl-C, callbacks, and what must never pass in silence."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from cases import CASES, hard, problem
from hypothesis import assume, given, settings
from strategies import is_small, problems

from solvers import check, cpsat, exhaustive, greedy
from solvers.bounds import entries, lower_bounds
from solvers.cpsat import cost, rules
from solvers.cpsat.proto import constant
from solvers.cpsat.reduce import Choices
from solvers.problem import TERMS_IN_BAND, Item, Problem, Term
from solvers.result import Options, Result, SolverDisagrees, Status

steps = importlib.import_module("solvers.cpsat.solve")     # the package has a function of this name
SOLVERS = [pytest.param(solver.solve, id=solver.__name__) for solver in (cpsat, exhaustive, greedy)]


# ── proofs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_proofs_are_listed_in_the_order_of_the_terms():
    """The primary, T*, then the terms of the band; the last step is the one inside the band."""
    result = cpsat.solve(CASES["tight memory first"])
    assert [p.term for p in result.proofs] == [Term.MEMORY, Term.STEP, *(t for t in TERMS_IN_BAND if t is not Term.IDS)]
    assert all(p.proven for p in result.proofs)


def test_first_term_only_stops_after_t_star():
    """Prices need no more."""
    assert [p.term for p in cpsat.solve(problem(), Options(first_term_only=True)).proofs] == [Term.STEP]
    assert [p.term for p in greedy.solve(problem(), Options(first_term_only=True)).proofs] == [Term.STEP]


@pytest.mark.parametrize("workers", [2, 4])
@given(problems())
@settings(max_examples=15)
def test_the_answer_does_not_depend_on_the_number_of_workers(workers: int, question: Problem):
    """The ids make the best answer unique."""
    assume(is_small(question))
    assert cpsat.solve(question, Options(workers=workers)) == cpsat.solve(question, Options(workers=1))


@pytest.mark.parametrize("largest", [1, 2**12])
def test_terms_that_do_not_fit_into_one_sum_are_solved_one_by_one(monkeypatch, largest):
    """Splitting changes no answer."""
    expected = {case: cpsat.solve(question) for case, question in CASES.items()}
    monkeypatch.setattr(steps, "LARGEST_SUM", largest)
    assert expected == {case: cpsat.solve(question) for case, question in CASES.items()}


@pytest.mark.parametrize("solve", SOLVERS[:2])
@pytest.mark.parametrize(
    "question",
    [
        pytest.param(CASES["infeasible"], id="no two pools fit"),
        pytest.param(CASES["nothing fits"], id="no memory"),
        pytest.param(problem(1).replace(items=(Item((), problem(1).items[0].slots),)), id="no group"),
        pytest.param(problem().replace(items=(Item((0,), ((),)),) * 2), id="no option"),
        pytest.param(problem(apart=((0, 1),), together=((0, 1),)), id="apart and together"),
    ],
)
def test_no_answer_is_an_answer(solve, question):
    """Infeasible is a status."""
    assert solve(question) == Result(Status.INFEASIBLE)


def test_greedy_cannot_prove_that_there_is_no_answer():
    """It only says that it found none."""
    assert greedy.solve(CASES["infeasible"]) == Result(Status.UNKNOWN)


@pytest.mark.parametrize("solve", SOLVERS)
def test_nothing_to_place(solve):
    """No items: an empty answer that costs nothing."""
    nothing = problem(0)
    result = solve(nothing)
    assert result.answer is not None
    assert set(check.terms(nothing, result.answer).values()) == {0}


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("solve", [pytest.param(cpsat.solve, id="cpsat"), pytest.param(exhaustive.solve, id="exhaustive")])
@pytest.mark.parametrize("only", [False, True])
def test_time_limit_keeps_the_best_answer_with_honest_bounds(solve, only):
    """One entry per term, none proven that is not, no bound above its value."""
    question = hard()
    result = solve(question, Options(time_limit_s=0.3, first_term_only=only))
    assert result.status is Status.FEASIBLE
    assert check.violations(question, result.answer) == []
    assert [p.term for p in result.proofs] == entries(question, first_term_only=only)
    assert all(lower_bounds(question)[p.term] <= p.bound <= p.value for p in result.proofs)
    assert not result.interrupted


@pytest.mark.parametrize("solve", [pytest.param(cpsat.solve, id="cpsat"), pytest.param(exhaustive.solve, id="exhaustive")])
def test_time_limit_without_an_answer_is_unknown(monkeypatch, solve):
    """Nothing was found, nothing was proven."""
    monkeypatch.setattr(greedy, "first_answer", lambda problem: None)
    if solve is cpsat.solve:
        monkeypatch.setattr(steps, "minimise", lambda *_, **__: steps.Found(None, 0, False, False, False))
    question = hard().replace(apart=((0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)))
    assert solve(question, Options(time_limit_s=0.01)).status in (Status.UNKNOWN, Status.FEASIBLE)


@pytest.mark.parametrize("stop_after", [1, 2, 3])
@pytest.mark.parametrize("case", ["memory", "tight memory first", "ids"])
def test_a_search_cut_short_is_feasible_with_bounds_that_hold(monkeypatch, case, stop_after):
    """From some call on CP-SAT proves nothing more; what it says by then holds for the optimum."""
    optimum = cpsat.solve(CASES[case])
    calls, minimise = [], steps.minimise

    def cut(*args, **kwargs):
        calls.append(1)
        found = minimise(*args, **kwargs)
        if len(calls) < stop_after:
            return found
        return steps.Found(found.solution, args[1].low, False, False, False)

    monkeypatch.setattr(steps, "minimise", cut)
    result = cpsat.solve(CASES[case])
    assert result.status is (Status.FEASIBLE if len(calls) >= stop_after else Status.OPTIMAL)
    assert len(result.proofs) == len(optimum.proofs)
    assert all(cut.bound <= best.value for cut, best in zip(result.proofs, optimum.proofs, strict=True))


# ── callbacks, threads, Ctrl-C ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("solve", [pytest.param(cpsat.solve, id="cpsat"), pytest.param(exhaustive.solve, id="exhaustive")])
def test_incumbents_are_reported(solve):
    """Greedy's answer first, then better ones; a bound is never above its value."""
    seen: list[tuple[int, int]] = []
    question = hard(4, sets=10)
    result = solve(question, Options(on_incumbent=lambda value, bound: seen.append((value, bound)), first_term_only=True))
    assert len(seen) > 1
    assert all(bound <= value for value, bound in seen)
    assert seen[0][0] > seen[-1][0] == result.proofs[0].value


def test_greedy_reports_its_answer():
    """One answer, one call."""
    seen: list[tuple[int, int]] = []
    greedy.solve(problem(), Options(on_incumbent=lambda value, bound: seen.append((value, bound))))
    assert seen == [(10, 10)]


def test_solving_in_a_thread():
    """Notebooks and servers call from threads, where no signal ever arrives."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(cpsat.solve(CASES["lanes"])))
    thread.start()
    thread.join()
    assert results == [cpsat.solve(CASES["lanes"])]


@pytest.mark.parametrize(
    ("solver", "known"),
    [
        pytest.param("cpsat", 2, id="cpsat, once CP-SAT itself has found an answer"),
        pytest.param("exhaustive", 1, id="exhaustive"),
    ],
)
def test_ctrl_c_returns_the_best_answer(solver, known):
    """Within a second of SIGINT, with the incumbent; the interpreter's own handler still works afterwards."""
    code = f"""
        import sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from cases import hard
        from solvers import {solver}
        from solvers.result import Options
        report = lambda value, bound: print("better", flush=True)
        result = {solver}.solve(hard(), Options(time_limit_s=60, on_incumbent=report))
        try:
            print(result.status, result.interrupted, result.answer is not None, flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            print("again", flush=True)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child:
        for _ in range(known):
            assert child.stdout.readline() == "better\n"
        child.send_signal(signal.SIGINT)
        said = next(line for line in child.stdout if line != "better\n")
        assert said == "feasible True True\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "again\n"
    assert child.returncode == 0


@pytest.mark.parametrize("is_started", [True, False])
def test_ctrl_c_while_the_thread_starts(monkeypatch, is_started):
    """The thread is never left alone with the model: it is stopped, or it was never there."""

    class Pressed(threading.Thread):
        def start(self) -> None:
            if is_started:
                super().start()
            raise KeyboardInterrupt

    before = threading.active_count()
    monkeypatch.setattr(threading, "Thread", Pressed)
    result = cpsat.solve(hard())
    assert (result.status, result.interrupted) == (Status.FEASIBLE, True)
    assert threading.active_count() == before


def test_ctrl_c_while_the_oracle_runs(monkeypatch):
    """The best answer so far stays."""
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exhaustive, "_Case", press)
    assert exhaustive.solve(problem()).interrupted
    monkeypatch.setattr(greedy, "first_answer", press)
    assert exhaustive.solve(problem()) == Result(Status.UNKNOWN, interrupted=True)


@pytest.mark.parametrize("when", ["greedy", "build"])
def test_ctrl_c_outside_of_the_search(monkeypatch, when):
    """Before there is an answer: unknown; while the model is built: greedy's answer."""
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if when == "greedy":
        monkeypatch.setattr(greedy, "first_answer", interrupt)
    else:
        monkeypatch.setattr(steps, "reduce", interrupt)
    result = cpsat.solve(problem())
    assert result.interrupted
    assert result.status is (Status.UNKNOWN if when == "greedy" else Status.FEASIBLE)


# ── what must be loud ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_answer_is_loud(monkeypatch):
    """The model lacks a rule: the checker refuses the answer."""
    monkeypatch.setattr(rules, "ALL", tuple(rule for rule in rules.ALL if rule is not rules.add_apart))
    with pytest.raises(SolverDisagrees, match="must be apart"):
        cpsat.solve(CASES["apart"])


def test_a_wrong_term_is_loud(monkeypatch):
    """The model counts something else than the checker."""
    monkeypatch.setitem(cost.TERMS, Term.GPUS, lambda x: constant(0))
    with pytest.raises(SolverDisagrees, match="says gpus = 0, the checker says 2"):
        cpsat.solve(problem())


def test_a_wrong_infeasible_is_loud(monkeypatch):
    """The model forbids too much: greedy's answer shows it."""
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, lambda x: x.model.clause([])))
    with pytest.raises(SolverDisagrees, match="finds no answer where there is one"):
        cpsat.solve(CASES["take turns"])
    monkeypatch.setattr(steps, "reduce", lambda *_: Choices(((),), (((),),)))
    with pytest.raises(SolverDisagrees, match="finds no answer where there is one"):
        cpsat.solve(CASES["take turns"])


def test_a_wrong_oracle_is_loud(monkeypatch):
    """The oracle's answer is checked, too."""
    monkeypatch.setattr(check, "violations", lambda *_: ["it is wrong"])
    with pytest.raises(SolverDisagrees, match="it is wrong"):
        exhaustive.solve(CASES["take turns"])
