"""
The proof: terms in order, each driven to its optimum and kept there.

Terms of the band whose weights fit into 64 bits are minimised together as one weighted sum, which is the same as one after the
other: each weight is larger than all that the later terms can add up to.

When to modify: the order of the terms, or how they are packed into solves.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from solvers import check
from solvers.cpsat import cost, rules
from solvers.cpsat.engine import Found, minimise
from solvers.cpsat.proto import Linear, Model
from solvers.cpsat.variables import Variables
from solvers.problem import TERMS_IN_BAND, Problem, Term
from solvers.result import Options, Result, SolverDisagrees, Status, TermProof

LARGEST_SUM = 2**53
"""Weighted sums stay exact in CP-SAT's own arithmetic and its reports."""


class _Search:
    """One problem on its way to a proof: the model, the best answer so far, the clock."""

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem = problem
        self.options = options
        self.deadline = time.monotonic() + options.time_limit_s
        self.model = Model()
        self.x = Variables(self.model, problem)
        for rule in rules.ALL:
            rule(self.x)
        self.expression: dict[Term, Linear] = {}
        self.solution: list[int] | None = None
        self.interrupted = False

    def term(self, term: Term) -> Linear:
        """Return the expression of *term*, built when it is first needed."""
        if term not in self.expression:
            self.expression[term] = cost.TERMS[term](self.x)
        return self.expression[term]

    def drive(self, objective: Linear, *, report: bool = False) -> Found:
        """Minimise *objective*; a better answer becomes the best so far."""
        found = minimise(
            self.model,
            objective,
            hint=self.solution,
            time_limit_s=max(self.deadline - time.monotonic(), 0.001),
            workers=self.options.workers,
            seed=self.options.seed,
            on_solution=self.options.on_incumbent if report else None,
        )
        self.interrupted = self.interrupted or found.was_interrupted
        if found.solution is not None:
            self.solution = found.solution
        return found

    def keep(self, expression: Linear, limit: int) -> None:
        """From now on *expression* is at most *limit*."""
        self.model.between(expression.low, expression, limit)


def solve(problem: Problem, options: Options | None = None) -> Result:
    """
    Solve *problem* with CP-SAT to a proof of every term.

    Raises
    ------
    SolverDisagrees
        If `solvers.check` finds the answer wrong, or another value for a term.
    """
    options = options or Options()
    if any(not item.groups or any(not slot for slot in item.slots) for item in problem.items):
        return Result(Status.INFEASIBLE)
    search = _Search(problem, options)
    if any(not groups for groups in search.x.group):
        return Result(Status.INFEASIBLE)
    proofs: list[TermProof] = []
    leading = [Term.STEP] if problem.primary is Term.STEP else [problem.primary, Term.STEP]
    for term in leading:
        expression = search.term(term)
        found = search.drive(expression, report=term is Term.STEP)
        if search.solution is None:
            status = Status.INFEASIBLE if found.is_infeasible else Status.UNKNOWN
            return Result(status, interrupted=search.interrupted)
        value = expression.value(search.solution)
        proofs.append(TermProof(term, value, found.bound))
        if not found.is_optimal:
            return _finish(search, proofs, proven=False)
        slack = value * problem.within_ppm // 1_000_000 if term is Term.STEP else 0
        search.keep(expression, value + slack)
    if options.first_term_only:
        return _finish(search, proofs, proven=True)
    proven = _band(search, proofs)
    return _finish(search, proofs, proven=proven)


def _band(search: _Search, proofs: list[TermProof]) -> bool:
    """Drive the terms of the band, and then the ids, to their optimum; return whether all are proven."""
    t_star = proofs[-1]
    queue: list[tuple[Term, Linear]] = []
    for term in TERMS_IN_BAND:
        if term is Term.IDS:
            queue += [(term, expression) for expression in cost.ids(search.x)]
        else:
            queue.append((term, search.term(term)))
    step = search.term(Term.STEP)
    limit = t_star.value + t_star.value * search.problem.within_ppm // 1_000_000
    narrow = Linear(step.terms, step.constant, t_star.value, limit)
    queue = [(term, narrow if term is Term.STEP else expression) for term, expression in queue]
    while queue:
        batch = _batch(queue)
        queue = queue[len(batch) :]
        found = search.drive(_weighted([expression for _, expression in batch]))
        if not found.is_optimal or found.solution is None:
            return False
        for term, expression in batch:
            value = expression.value(found.solution)
            search.keep(expression, value)
            if term is not Term.IDS:
                proofs.append(TermProof(term, value, value))
    return True


def _batch(queue: Sequence[tuple[Term, Linear]]) -> list[tuple[Term, Linear]]:
    """Return the longest beginning of *queue* whose weighted sum stays exact; at least one entry."""
    batch: list[tuple[Term, Linear]] = []
    largest = 1
    for term, expression in queue:
        largest *= expression.high - expression.low + 1
        if batch and largest > LARGEST_SUM:
            break
        batch.append((term, expression))
    return batch


def _weighted(expressions: Sequence[Linear]) -> Linear:
    """Return one expression whose minimum is the lexicographic minimum of *expressions*."""
    total, weight = Linear(), 1
    for expression in reversed(expressions):
        total += expression.scaled(weight)
        weight *= expression.high - expression.low + 1
    return total


def _finish(search: _Search, proofs: list[TermProof], *, proven: bool) -> Result:
    """Return the best answer with what is proven about it, after the checker agreed with it."""
    assert search.solution is not None
    answer = search.x.read(search.solution)
    broken = check.violations(search.problem, answer)
    if broken:
        raise SolverDisagrees(f"CP-SAT's answer breaks a rule: {broken[0]}")
    true = check.terms(search.problem, answer)
    done = {p.term: p for p in proofs[1:] if p.proven} if len(proofs) > 1 else {}
    for term, entry in done.items():
        if true[term] != entry.value and term is not Term.STEP:
            raise SolverDisagrees(f"CP-SAT says {term} = {entry.value}, the checker says {true[term]}")
    if not proven and not search.options.first_term_only:
        proofs = [*proofs, *_open(search, proofs, true)]
    return Result(
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        answer=answer,
        proofs=tuple(proofs),
        interrupted=search.interrupted,
    )


def _open(search: _Search, proofs: Sequence[TermProof], true: dict[Term, int]) -> list[TermProof]:
    """Return entries for the terms that were not reached, with the bounds that hold anyway."""
    leading = 1 if search.problem.primary is Term.STEP else 2
    missing = [Term.STEP] if len(proofs) < leading else []
    reached = {p.term for p in proofs[leading:]}
    missing += [t for t in TERMS_IN_BAND if t is not Term.IDS and t not in reached]
    low = {Term.STEP: proofs[leading - 1].bound if len(proofs) >= leading else 0}
    return [TermProof(t, true[t], min(low.get(t, 0), true[t])) for t in missing]
