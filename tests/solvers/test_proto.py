"""The thin builder says to CP-SAT what `cp_model` would say."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.cpsat import engine
from solvers.cpsat.engine import minimise
from solvers.cpsat.proto import FALSE, TRUE, Linear, Model, choice, constant, count, negated, total

VARIABLES = 4

literals = st.sampled_from([*range(VARIABLES), *(-v - 1 for v in range(VARIABLES))])
some = st.lists(literals, min_size=1, max_size=3)
coefficients = st.dictionaries(st.integers(0, VARIABLES - 1), st.integers(-3, 3), min_size=1)
sentences = st.lists(
    st.one_of(
        st.tuples(st.just("clause"), some),
        st.tuples(st.just("exactly one"), st.lists(literals, min_size=1, max_size=3, unique_by=lambda v: max(v, -v - 1))),
        st.tuples(st.just("linear"), coefficients, st.integers(-3, 2), st.integers(0, 4), st.lists(literals, max_size=2)),
    ),
    max_size=5,
)


def thin(said, objective):
    """Build with our builder; return the optimum, None if there is no solution."""
    model = Model()
    for _ in range(VARIABLES):
        model.boolean()
    for kind, *rest in said:
        if kind == "clause":
            model.clause(rest[0])
        elif kind == "exactly one":
            model.exactly_one(rest[0])
        else:
            terms, low, width, only_if = rest
            model.between(low, Linear(terms, 0, -99, 99), low + width, only_if)
    found = minimise(model, Linear(objective, 5, -99, 99), hint={0: 1}, time_limit_s=10)
    assert found.is_optimal != found.is_infeasible
    if found.solution is None:
        return None
    assert found.bound == 5 + sum(a * found.solution[v] for v, a in objective.items())
    return found.bound


def thick(said, objective):
    """Build the same with `cp_model`."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    variables = [model.new_bool_var(f"{v}") for v in range(VARIABLES)]

    def literal(v):
        return variables[v] if v >= 0 else variables[-v - 1].negated()

    for kind, *rest in said:
        if kind == "clause":
            model.add_bool_or([literal(v) for v in rest[0]])
        elif kind == "exactly one":
            model.add_exactly_one([literal(v) for v in rest[0]])
        else:
            terms, low, width, only_if = rest
            value = sum(a * variables[v] for v, a in terms.items())
            model.add_linear_constraint(value, low, low + width).only_enforce_if([literal(v) for v in only_if])
    model.minimize(sum(a * variables[v] for v, a in objective.items()) + 5)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return None if solver.solve(model) == cp_model.INFEASIBLE else round(solver.objective_value)


@given(sentences, coefficients)
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore")       # pandas and numpy, which cp_model imports, warn on some versions
def test_same_optimum_as_cp_model(said, objective):
    """The same sentences, the same optimum."""
    assert thin(said, objective) == thick(said, objective)


def test_known_literals_never_reach_the_model():
    """A clause that holds is not built, nor a constraint that is never enforced or always kept; a false literal goes."""
    model = Model()
    a = model.boolean()
    model.clause([a, TRUE])
    model.between(0, Linear({a: 1}, 0, 0, 1), 0, [FALSE])
    model.between(0, Linear({a: 1}, 0, 0, 1), 1)
    assert len(model.proto.constraints) == 0
    model.clause([a, FALSE])
    assert list(model.proto.constraints[0].bool_or.literals) == [a]
    assert [negated(TRUE), negated(FALSE), negated(a), negated(negated(a))] == [FALSE, TRUE, -a - 1, a]


def test_bounds_of_expressions():
    """Sums, differences, multiples and choices know between which values they lie."""
    one, two = choice({0: 3, 1: 8}), count([2, 3])
    assert (one.low, one.high, two.low, two.high) == (3, 8, 0, 2)
    assert ((one - two).low, (one - two).high) == (1, 8)
    assert total([one, two, constant(4)]).scaled(2).high == 28
    assert (one + two).value([0, 1, 1, 0]) == 9


def test_an_invalid_model_is_loud():
    """A model that CP-SAT refuses is our bug, not an answer."""
    model = Model()
    model.proto.variables.add().domain.extend([3, 1])
    with pytest.raises(RuntimeError, match="invalid"):
        minimise(model, Linear(), hint={}, time_limit_s=1)


def test_an_error_in_the_thread_reaches_the_caller(monkeypatch):
    """What goes wrong while CP-SAT runs is raised where it can be caught."""

    class Broken:
        def set_parameters(self, parameters):
            pass

        def solve(self, proto):
            raise ZeroDivisionError

    monkeypatch.setattr(engine.helper, "SolveWrapper", Broken)
    with pytest.raises(ZeroDivisionError):
        minimise(Model(), Linear(), hint={}, time_limit_s=1)


def test_solving_does_not_import_pandas():
    """Pandas would triple the start-up time."""
    code = "import sys; from solvers import cpsat; sys.exit('pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
