"""
Bounds that hold without any search, and the proofs of answers that stand on nothing else.

When to modify: `solvers.problem` gets a term.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from solvers import check
from solvers.problem import TERMS_IN_BAND, Option, Problem, Term
from solvers.result import Answer, TermProof


def lower_bounds(problem: Problem) -> dict[Term, int]:
    """Return for every term but ``ids`` a value that no answer beats: each item taken alone, each at its best."""
    return {
        Term.STEP: _step(problem),
        Term.SOFT: _least(problem, lambda option: option.soft),
        Term.GPUS: max((min((len(problem.groups[g].devices) for g in i.groups), default=0) for i in problem.items), default=0),
        Term.MEMORY: 0,
        Term.ISLANDS: 0,
        Term.BANDWIDTH: max((min((problem.groups[g].ns_per_gb for g in i.groups), default=0) for i in problem.items), default=0),
        Term.PREFERENCE: _least(problem, lambda option: option.preference),
    }


def unproven(
    problem: Problem,
    answer: Answer,
    proofs: Sequence[TermProof] = (),
    *,
    known: Mapping[Term, int] | None = None,
    first_term_only: bool = False,
) -> tuple[TermProof, ...]:
    """
    Return *proofs*, followed by an entry for every term that was not reached.

    Parameters
    ----------
    known
        Proven bounds of the first term that was not reached, and of no other.
    """
    order = entries(problem, first_term_only=first_term_only)
    bounds = lower_bounds(problem)
    star = next((p.bound for p in proofs if p.term is Term.STEP), bounds[Term.STEP])
    if order[len(proofs) : len(proofs) + 1] == [Term.STEP]:
        star = max(star, (known or {}).get(Term.STEP, 0))      # what bounds T* bounds every step
    bounds[Term.STEP] = max(star, bounds[Term.STEP])
    values = check.terms(problem, answer)
    missing = []
    for k, term in enumerate(order[len(proofs) :]):
        bound = max(bounds[term], (known or {}).get(term, 0) if k == 0 else 0)
        missing.append(TermProof(term, values[term], min(bound, values[term])))
    return (*proofs, *missing)


def entries(problem: Problem, *, first_term_only: bool) -> list[Term]:
    """Return the terms in the order in which `Result.proofs` lists them."""
    leading = [Term.STEP] if problem.primary is Term.STEP else [problem.primary, Term.STEP]
    return leading if first_term_only else [*leading, *(t for t in TERMS_IN_BAND if t is not Term.IDS)]


def _least(problem: Problem, value: Callable[[Option], int]) -> int:
    return sum(min(map(value, slot), default=0) for item in problem.items for slot in item.slots)


def _step(problem: Problem) -> int:
    """Every stage lasts at least as long as its slowest item at its fastest; a step has all its stages outside lanes."""
    least = [0] * len(problem.stages)
    for s in range(len(problem.stages)):
        for i, item in enumerate(problem.items):
            mine = [k for k, o in enumerate(problem.operations) if o.item == i and o.stage == s]
            us = sum(min((sum(option.times[k] for k in mine) for option in slot), default=0) for slot in item.slots)
            least[s] = max(least[s], us)
    lanes: dict[int, int] = {}
    for s, stage in enumerate(problem.stages):
        if stage.lane is not None:
            lanes[stage.lane] = lanes.get(stage.lane, 0) + least[s]
    outside = sum(us for us, stage in zip(least, problem.stages, strict=True) if stage.lane is None)
    return outside + max(lanes.values(), default=0)
