"""
Is this plan right for this question, in the domain's words?

Every rule, every figure and every term of the proof is recomputed from the plan and the question (machine, job, rules) alone: no
solver, no lowered problem, no candidate groups, no price table, so that a slip in one of those shows here.

What is shared with planning, and can therefore be wrong in both: what the machine states (its cards, capacities and domains of
every level), the readings of the presets (`placement.workloads.rules`), which work an algorithm does
(`placement.workloads.dataflow`), how fast a group of GPUs talks (`topologies.bandwidth`), and the cost model of one choice
(`placement.demand`). What is not judged: that no better plan exists, which only a solver can prove (here a bound must merely
agree with the values); whether ids are the smallest; free text (assumptions, notes); and the step of the trivial plan, which is
another plan.

When to modify: a rule changes; then one of these modules says the same as `placement.program.lower` or
`placement.program.candidates` in other words. `form` judges the map's build, `choices` what was taken from the menus, `groups`
and `domains` which GPUs, `costs` memory and times, `hosts` host memory, `proof` the terms, `record` what the map says of its
question.
"""

from __future__ import annotations

from placement.checking.choices import choice_problems
from placement.checking.costs import demands, memory_problems, time_problems
from placement.checking.domains import domain_problems
from placement.checking.form import form_problems
from placement.checking.groups import group_problems
from placement.checking.hosts import host_problems
from placement.checking.proof import proof_problems
from placement.checking.record import record_problems
from placement.checking.target import target_problems
from placement.plans import Plan
from placement.program.instance import Instance


def problems(plan: Plan, instance: Instance) -> list[str]:
    """
    Return what is wrong with *plan*, one sentence each; empty when it is right.

    A broken rule is named in brackets: ``(rule contiguity)``. What cannot be judged after a mistake is left out: of a map that
    names no GPUs for a role nothing else is said, and a choice that no menu has is given no costs.
    """
    found = list(form_problems(plan, instance))
    if found:
        return found
    found += record_problems(plan, instance)
    found += group_problems(plan, instance)
    found += domain_problems(plan, instance)
    found += target_problems(plan, instance)
    chosen = list(choice_problems(plan, instance))
    found += chosen
    costs, refused = demands(plan, instance) if not chosen else ({}, ())
    found += refused
    if chosen or refused:
        return found
    found += memory_problems(plan, instance, costs)
    found += host_problems(plan, instance, costs)
    found += time_problems(plan, instance, costs)
    found += proof_problems(plan, instance)
    return found
