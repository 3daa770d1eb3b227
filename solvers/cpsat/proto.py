"""
A thin typed builder over CP-SAT's protobuf.

`ortools.sat.python.cp_model` would do, but importing it brings pandas: 0.4 s and 90 MB for a model that is solved
in 0.05 s.

Literals are ints: a Boolean variable's index, or ``-index - 1`` for its negation. `TRUE` and `FALSE` stand for what
is known while the model is built; they never reach it.

When to modify: a rule needs another kind of constraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ortools.sat.python import cp_model_helper as helper

Lit = int


class Known(Enum):
    """A literal whose value is known."""

    TRUE = True
    FALSE = False


TRUE, FALSE = Known.TRUE, Known.FALSE

Fixed = Lit | Known
"""A literal, or one of the constants `TRUE` and `FALSE`."""

FAR = 2**62
"""Beyond every value of an expression; CP-SAT wants domains inside 64 bits."""


def negated(literal: Fixed) -> Fixed:
    """Return the negation of *literal*."""
    match literal:
        case Known.TRUE:
            return FALSE
        case Known.FALSE:
            return TRUE
        case _:
            return -literal - 1


@dataclass(frozen=True, slots=True)
class Linear:
    """``Σ coefficient · variable + constant``, known to lie in [low, high]."""

    terms: Mapping[int, int] = field(default_factory=dict)
    constant: int = 0
    low: int = 0
    high: int = 0

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for variable, coefficient in other.terms.items():
            terms[variable] = terms.get(variable, 0) + coefficient
        return Linear(terms, self.constant + other.constant, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Linear) -> Linear:
        minus = {variable: -coefficient for variable, coefficient in other.terms.items()}
        return self + Linear(minus, -other.constant, -other.high, -other.low)

    def scaled(self, factor: int) -> Linear:
        """Return the expression times a factor that is not negative."""
        terms = {variable: factor * coefficient for variable, coefficient in self.terms.items()}
        return Linear(terms, factor * self.constant, factor * self.low, factor * self.high)

    def value(self, solution: Sequence[int]) -> int:
        """Return the value in *solution*, which has one entry per variable."""
        return self.constant + sum(a * solution[variable] for variable, a in self.terms.items())


def constant(value: int) -> Linear:
    """Return *value* as an expression."""
    return Linear({}, value, value, value)


def total(expressions: Iterable[Linear]) -> Linear:
    """Return the sum of *expressions*."""
    return sum(expressions, constant(0))


def choice(values: Mapping[Lit, int]) -> Linear:
    """Return the value of whichever of the Booleans holds; exactly one of them does."""
    low = min(values.values(), default=0)
    terms = {literal: value - low for literal, value in values.items() if value != low}
    return Linear(terms, low, low, max(values.values(), default=0))


def count(literals: Iterable[Lit]) -> Linear:
    """Return how many of *literals* (none of them negated) hold."""
    terms = dict.fromkeys(literals, 1)
    return Linear(terms, 0, 0, len(terms))


class Model:
    """A model under construction."""

    def __init__(self) -> None:
        self.proto = helper.CpModelProto()
        self._farthest: list[int] = []

    @property
    def size(self) -> int:
        """How many variables there are."""
        return len(self._farthest)

    def magnitude(self, expression: Linear) -> int:
        """Return what CP-SAT fears *expression* could reach: all its variables at their farthest at once."""
        return sum(abs(a) * self._farthest[variable] for variable, a in expression.terms.items())

    def boolean(self) -> Lit:
        """Return a new Boolean."""
        return self._variable(0, 1)

    def integer(self, low: int, high: int) -> Linear:
        """Return a new integer variable as an expression."""
        return Linear({self._variable(low, high): 1}, 0, low, high)

    def _variable(self, low: int, high: int) -> int:
        self.proto.variables.add().domain.extend([low, high])
        self._farthest.append(max(abs(low), abs(high)))
        return self.size - 1

    def clause(self, literals: Iterable[Fixed]) -> None:
        """At least one of *literals* holds."""
        kept: list[Lit] = []
        for literal in literals:
            if literal is TRUE:
                return
            if literal is not FALSE:
                assert isinstance(literal, int)
                kept.append(literal)
        self.proto.constraints.add().bool_or.literals.extend(kept)

    def exactly_one(self, literals: Iterable[Fixed]) -> None:
        """Exactly one of *literals* holds; none of them is `TRUE`."""
        kept = [literal for literal in literals if literal is not FALSE]
        self.proto.constraints.add().exactly_one.literals.extend(kept)

    def between(self, low: int, expression: Linear, high: int, only_if: Iterable[Fixed] = ()) -> None:
        """*expression* lies in [low, high] whenever all of *only_if* hold."""
        enforcement = [literal for literal in only_if if literal is not TRUE]
        if FALSE in enforcement or (low <= expression.low and expression.high <= high):
            return
        constraint = self.proto.constraints.add()
        constraint.linear.vars.extend(list(expression.terms))
        constraint.linear.coeffs.extend(list(expression.terms.values()))
        domain = [max(low - expression.constant, -FAR), min(high - expression.constant, FAR)]
        constraint.linear.domain.extend(domain)
        constraint.enforcement_literal.extend(enforcement)

    def at_least(self, big: Linear, small: Linear, only_if: Iterable[Fixed] = ()) -> None:
        """*big* ≥ *small* whenever all of *only_if* hold."""
        self.between(0, big - small, FAR, only_if)
