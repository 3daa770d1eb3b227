"""
Whether a menu of the workload, not the machine, is what leaves a role without room.

When to modify: another menu limits over how many GPUs a role can be spread.
"""

from __future__ import annotations

from dataclasses import replace

from placement.program.instance import Instance
from placement.program.lower import lower
from placement.program.menu import menu
from placement.program.needs import need
from placement.workloads.workload import Role


def beyond_menu(question: Instance, role: Role) -> str:
    """
    Return which larger tp, left out by the menus of *role*, would give it room in *question*, in which it has none; empty if none does.

    It is tried, role by itself, from the smallest up: nothing is concluded from the numbers.
    """
    usable = len(question.machine.usable)
    for tp in range(max(_sizes(role)) + 1, usable + 1):
        if role.model is None or not role.model.can_share_heads(tp):
            continue
        wider = role.replace(layout=replace(role.layout, tp=(*role.layout.tp, tp)))
        if role.rollout is not None:
            wider = wider.replace(rollout=replace(role.rollout, tp=(*role.rollout.tp, tp)))
        roles = tuple(wider if each.name is role.name else each for each in question.workload.roles)
        other = question.replace(workload=question.workload.replace(roles=roles))
        tables = menu(other)
        found = next(each for each in tables.roles if each.name is role.name)
        if need(other, tables, found, lower(other, tables).problem).counts:
            return f"the menu of {role.name} stops at tp {max(_sizes(role))}: with tp {tp} it has room"
    return ""


def _sizes(role: Role) -> tuple[int, ...]:
    """Return the sizes of tensor parallelism that *role* may take: its engine's, where it generates."""
    return role.layout.tp if role.rollout is None else role.rollout.tp
