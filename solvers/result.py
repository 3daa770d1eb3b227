"""
What a solver says. "No answer" is a status with `None` inside, never an exception.

When to modify: a new outcome, or a new number that every solver must report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from solvers.problem import Problem, Term


class Status(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"        # every term that was asked for is proven
    FEASIBLE = "feasible"      # an answer, with a bound that it does not meet in every term
    INFEASIBLE = "infeasible"  # proven: there is no answer
    UNKNOWN = "unknown"        # stopped before an answer was found


@dataclass(frozen=True, slots=True)
class Answer:
    """Group index per item; option index per item and slot (index into that slot's tuple)."""

    groups: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class TermProof:
    """
    What is known about one term of the order.

    ``value`` is the optimum found for it when its turn came (for `Term.STEP` as T*, before the band), ``bound`` is proven.
    """

    term: Term
    value: int
    bound: int

    @property
    def proven(self) -> bool:
        """Whether the bound meets the value."""
        return self.value == self.bound


@dataclass(frozen=True, slots=True)
class Options:
    """
    How to solve; printed with each result.

    Parameters
    ----------
    time_limit_s
        Wall-clock seconds for all terms together.
    workers
        CP-SAT workers.
    seed
        Random seed.
    first_term_only
        Prove the primary term and T*, and skip the terms in the band (used for prices).
    step_below
        With *first_term_only* and `Term.STEP` as primary: a step that is known already, µs. A solver may take an answer that is
        not shorter for none at all.
    on_incumbent
        Called with (value of T, bound of T) whenever a better answer is known.
    """

    time_limit_s: float = 60.0
    workers: int = 1
    seed: int = 0
    first_term_only: bool = False
    step_below: int | None = None
    on_incumbent: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """
    The outcome of a solve.

    Parameters
    ----------
    status
        `Status.OPTIMAL` only when every term asked for is proven.
    answer
        The answer, None when there is none.
    proofs
        One entry per term in the order in which they were driven to their optimum: primary (if not step), step (T*), then
        the terms of the band except ``ids`` (the last ``step`` entry is T inside the band). Empty without an answer.
    interrupted
        True when the user stopped the search; *answer* is then the best so far.
    """

    status: Status
    answer: Answer | None = None
    proofs: tuple[TermProof, ...] = ()
    interrupted: bool = False

    def __post_init__(self) -> None:
        if (self.answer is None) != (self.status in (Status.INFEASIBLE, Status.UNKNOWN)):
            raise ValueError(f"status {self.status} does not go with answer {self.answer}")

    @property
    def step_star(self) -> TermProof | None:
        """The proof of T*, the first ``step`` entry."""
        return next((p for p in self.proofs if p.term is Term.STEP), None)


class SolverDisagrees(RuntimeError):
    """A solver and the checker do not agree: a bug of ours, never the user's fault."""


Solve = Callable[[Problem, Options], Result]
