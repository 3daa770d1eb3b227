"""
A thin typed builder over CP-SAT's protobuf.

`ortools.sat.python.cp_model` would do, but importing it brings pandas: 0.4 s and 90 MB for a model that is solved in 0.05 s.

Literals are ints: a Boolean variable's index, or ``-index - 1`` for its negation. `TRUE` and `FALSE` never reach the model.

When to modify: a rule needs another kind of constraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ortools.sat.python import cp_model_helper as helper

TRUE, FALSE = "true", "false"

Lit = int
Fixed = int | str
"""A literal, or one of the constants `TRUE` and `FALSE`."""

FAR = 2**62


def negated(literal: Fixed) -> Fixed:
    """Return the negation of *literal*."""
    if isinstance(literal, int):
        return -literal - 1
    return FALSE if literal == TRUE else TRUE


@dataclass(frozen=True, slots=True)
class Linear:
    """``Σ coefficient · variable + constant``, with known bounds."""

    terms: Mapping[int, int] = field(default_factory=dict)
    constant: int = 0
    low: int = 0
    high: int = 0

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for variable, coefficient in other.terms.items():
            terms[variable] = terms.get(variable, 0) + coefficient
        return Linear(terms, self.constant + other.constant, self.low + other.low, self.high + other.high)

    def scaled(self, factor: int) -> Linear:
        """Return the expression times a factor that is not negative."""
        terms = {variable: factor * coefficient for variable, coefficient in self.terms.items()}
        return Linear(terms, factor * self.constant, factor * self.low, factor * self.high)

    def value(self, solution: Sequence[int]) -> int:
        """Return the value in *solution*, which has one entry per variable."""
        return self.constant + sum(coefficient * solution[variable] for variable, coefficient in self.terms.items())


class Model:
    """A model under construction."""

    def __init__(self) -> None:
        self.proto = helper.CpModelProto()
        self.size = 0

    def boolean(self) -> Lit:
        """Return a new Boolean."""
        return self.integer(0, 1)

    def integer(self, low: int, high: int) -> int:
        """Return a new integer variable."""
        self.proto.variables.add().domain.extend([low, high])
        self.size += 1
        return self.size - 1

    def clause(self, literals: Iterable[Fixed]) -> None:
        """At least one of *literals* holds."""
        kept = []
        for literal in literals:
            if literal == TRUE:
                return
            if isinstance(literal, int):
                kept.append(literal)
        self.proto.constraints.add().bool_or.literals.extend(kept)

    def exactly_one(self, literals: Sequence[Lit]) -> None:
        """Exactly one of *literals* holds."""
        self.proto.constraints.add().exactly_one.literals.extend(literals)

    def between(self, low: int, expression: Linear, high: int, only_if: Iterable[Fixed] = ()) -> None:
        """*expression* lies in [low, high] whenever all of *only_if* hold."""
        enforcement = []
        for literal in only_if:
            if literal == FALSE:
                return
            if isinstance(literal, int):
                enforcement.append(literal)
        if low <= expression.low and expression.high <= high:
            return
        constraint = self.proto.constraints.add()
        constraint.linear.vars.extend(list(expression.terms))
        constraint.linear.coeffs.extend(list(expression.terms.values()))
        constraint.linear.domain.extend(
            [max(low - expression.constant, -FAR), min(high - expression.constant, FAR)]
        )
        constraint.enforcement_literal.extend(enforcement)

    def at_least(self, big: Linear, small: Linear, only_if: Iterable[Fixed] = ()) -> None:
        """*big* ≥ *small* whenever all of *only_if* hold."""
        difference = big + Linear(
            {variable: -coefficient for variable, coefficient in small.terms.items()},
            -small.constant,
            -small.high,
            -small.low,
        )
        self.between(0, difference, FAR, only_if)

    def variable(self, low: int, high: int) -> Linear:
        """Return a new integer variable as an expression."""
        return Linear({self.integer(low, high): 1}, 0, low, high)


def choice(coefficients: Mapping[Lit, int]) -> Linear:
    """Return the coefficient of whichever of mutually exclusive, exhaustive Booleans holds."""
    values = coefficients.values()
    kept = {literal: value for literal, value in coefficients.items() if value}
    return Linear(kept, 0, min(values, default=0), max(values, default=0))


def count(literals: Iterable[Lit]) -> Linear:
    """Return how many of *literals* (not negated) hold."""
    terms = dict.fromkeys(literals, 1)
    return Linear(terms, 0, 0, len(terms))
