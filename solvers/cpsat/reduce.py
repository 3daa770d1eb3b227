"""
Work that need not be modelled: choices that cannot be part of the best answer are dropped before the model is built.

Nothing here may drop the answer that `solvers.problem` calls best, ids included.

When to modify: `solvers.problem` gets a rule or a term that makes one of the arguments below wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solvers.cpsat.pools import Pools, Us, least_of, most_of, shortest_step
from solvers.problem import Option, Problem, Sharing

ROUNDS = 3
"""What is dropped raises the bounds by which more is dropped; later rounds rarely find anything."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What is left: per item the groups, per item and slot the options (indices as in the problem)."""

    groups: tuple[tuple[int, ...], ...]
    options: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def is_empty(self) -> bool:
        """Whether some item has nothing left to take."""
        return not all(self.groups) or not all(all(slots) for slots in self.options)


def reduce(problem: Problem, step_limit: int | None = None) -> Choices:
    """
    Return the choices worth modelling.

    Parameters
    ----------
    step_limit
        Longest step that an answer may have, µs; None for any.
    """
    work = _Reduction(problem)
    work.drop_what_does_not_fit()
    if step_limit is not None:
        for _ in range(ROUNDS):
            if not work.drop_slow(step_limit):
                break
    work.drop_dominated()
    return work.choices()


class _Reduction:
    """The choices left, by item and profile; ``left[i][profile][s]`` are option indices."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.room = [_most_room(problem, i) for i in range(len(problem.items))]
        self.size: dict[int, int] = {}
        for group in problem.groups:
            self.size[group.profile] = min(len(group.devices), self.size.get(group.profile, len(group.devices)))
        self.roomiest: dict[int, int] = {}
        for room in self.room:
            for g, mib in room.items():
                profile = problem.groups[g].profile
                self.roomiest[profile] = max(self.roomiest.get(profile, 0), mib)
        self.left: list[dict[int, list[list[int]]]] = []
        for item in problem.items:
            of_profile: dict[int, list[list[int]]] = {
                problem.groups[g].profile: [[] for _ in item.slots] for g in item.groups
            }
            for s, slot in enumerate(item.slots):
                for o, option in enumerate(slot):
                    if option.profile in of_profile:
                        of_profile[option.profile][s].append(o)
            self.left.append({p: slots for p, slots in of_profile.items() if all(slots)})
        self.us = [[[_us(problem, option) for option in slot] for slot in item.slots] for item in problem.items]

    def choices(self) -> Choices:
        """Return what is left."""
        return Choices(
            groups=tuple(
                tuple(g for g in item.groups if self._fits(i, g)) for i, item in enumerate(self.problem.items)
            ),
            options=tuple(
                tuple(tuple(sorted(o for slots in left.values() for o in slots[s])) for s in range(len(item.slots)))
                for item, left in zip(self.problem.items, self.left, strict=True)
            ),
        )

    def _fits(self, i: int, g: int) -> bool:
        """Whether the options that need least fit into the group, each phase taken alone."""
        profile = self.problem.groups[g].profile
        return profile in self.left[i] and all(
            need <= self.room[i][g] for need in self._least_memory(i, profile)
        )

    def _least_memory(self, i: int, profile: int) -> list[int]:
        slots = self.problem.items[i].slots
        return [
            sum(min(slots[s][o].memory[p] for o in kept) for s, kept in enumerate(self.left[i][profile]))
            for p in range(self.problem.phases)
        ]

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────

    def drop_what_does_not_fit(self) -> None:
        """Options that fit into no group of their profile, even when the item is alone and its other slots need least."""
        for i, item in enumerate(self.problem.items):
            most: dict[int, int] = {}
            for g in item.groups:
                profile = self.problem.groups[g].profile
                most[profile] = max(most.get(profile, 0), self.room[i][g])
            for profile, kept in list(self.left[i].items()):
                least = self._least_memory(i, profile)
                slots = []
                for slot, options in zip(item.slots, kept, strict=True):
                    own = [min(slot[o].memory[p] for o in options) for p in range(self.problem.phases)]
                    slots.append([
                        o for o in options
                        if all(
                            total - mine + need <= most[profile]
                            for total, mine, need in zip(least, own, slot[o].memory, strict=True)
                        )
                    ])
                self._keep(i, profile, slots)

    def _keep(self, i: int, profile: int, slots: list[list[int]]) -> None:
        if all(slots):
            self.left[i][profile] = slots
        else:
            del self.left[i][profile]

    # ── dominance ───────────────────────────────────────────────────────────────────────────────────────────────

    def drop_dominated(self) -> None:
        """
        Options that another of the same profile matches or beats in everything.

        Taking the other instead makes no term worse. It is not enough: the ids come last, so the other must also come before
        it, or be strictly better in a term that always shows (soft rules, preference).
        """
        for i, item in enumerate(self.problem.items):
            for profile, kept in self.left[i].items():
                self.left[i][profile] = [
                    _undominated([(o, slot[o]) for o in options]) for slot, options in zip(item.slots, kept, strict=True)
                ]

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────

    def drop_slow(self, limit: int) -> bool:
        """Profiles and options with which the step would be longer than *limit*; return whether there were any."""
        fastest = [{p: self._fastest(i, p) for p in left} for i, left in enumerate(self.left)]
        dropped = self._drop_slow_profiles(limit, fastest)
        fastest = [{p: us[p] for p in left} for us, left in zip(fastest, self.left, strict=True)]
        if not all(fastest):
            return False
        least = [least_of(us.values()) for us in fastest]
        nothing = (0,) * len(self.problem.stages)
        for i, left in enumerate(self.left):
            rest = most_of([nothing, *(least[j] for j in range(len(least)) if j != i)])
            for profile in list(left):
                dropped |= self._drop_slow_options(i, profile, rest, limit)
        return dropped

    def _drop_slow_profiles(self, limit: int, fastest: Sequence[Mapping[int, Us]]) -> bool:
        if self.problem.sharing is not Sharing.POOL:
            return False
        pools = Pools(
            self.problem,
            fastest=fastest,
            least=[{p: self._least_memory(i, p) for p in left} for i, left in enumerate(self.left)],
            room=self.roomiest,
            size=self.size,
        )
        kept = pools.shorter_than(limit)
        if kept is None:
            return False
        dropped = False
        for left, profiles in zip(self.left, kept, strict=True):
            for profile in left.keys() - profiles:
                del left[profile]
                dropped = True
        return dropped

    def _drop_slow_options(self, i: int, profile: int, rest: Us, limit: int) -> bool:
        slots = self.left[i][profile]
        kept = []
        for s, options in enumerate(slots):
            elsewhere = [
                sum(min(self.us[i][t][o][stage] for o in slots[t]) for t in range(len(slots)) if t != s)
                for stage in range(len(self.problem.stages))
            ]
            kept.append([
                o for o in options
                if shortest_step(self.problem, most_of([[a + b for a, b in zip(self.us[i][s][o], elsewhere, strict=True)], rest])) <= limit
            ])
        changed = kept != slots
        self._keep(i, profile, kept)
        return changed

    def _fastest(self, i: int, profile: int) -> Us:
        slots = self.left[i][profile]
        return tuple(
            sum(min(self.us[i][s][o][stage] for o in options) for s, options in enumerate(slots))
            for stage in range(len(self.problem.stages))
        )


def _most_room(problem: Problem, i: int) -> dict[int, int]:
    """Return per group of item *i* the room on its tightest device at the best: alone, or beside a reserve that asks for less."""
    return {
        g: min(
            max([problem.devices[d].capacity, *(r.capacity[d] for r in problem.shared_reserves)])
            for d in problem.groups[g].devices
        )
        for g in problem.items[i].groups
    }


def _us(problem: Problem, option: Option) -> Us:
    us = [0] * len(problem.stages)
    for operation, spent in zip(problem.operations, option.times, strict=True):
        us[operation.stage] += spent
    return tuple(us)


def _undominated(options: Sequence[tuple[int, Option]]) -> list[int]:
    vectors = [(*o.times, *o.memory, *o.host, o.soft, o.preference) for _, o in options]
    kept = []
    for k, (o, option) in enumerate(options):
        if not any(
            rival.kind == option.kind
            and all(a <= b for a, b in zip(vectors[j], vectors[k], strict=True))
            and (other < o or (rival.soft, rival.preference) != (option.soft, option.preference))
            for j, (other, rival) in enumerate(options)
            if j != k
        ):
            kept.append(o)
    return kept
