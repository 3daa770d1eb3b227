"""
What an answer costs: one function per term, each returning the expression to be minimised.

The expressions bound the true values from below; at a minimum they meet them.

When to modify: `solvers.problem` gets a term, or a term changes its meaning.
"""

from __future__ import annotations

import itertools

from solvers.cpsat.proto import FALSE, TRUE, Fixed, Linear, count, negated
from solvers.cpsat.rules import holdings
from solvers.cpsat.variables import Variables
from solvers.problem import SoftPair, Term, Transfer, Want


def step(x: Variables) -> Linear:
    """The stages outside lanes, and the longest lane (or all lanes, when they cannot run at the same time)."""
    stages = [stage(x, s) for s in range(len(x.problem.stages))]
    total = sum((t for t, s in zip(stages, x.problem.stages, strict=True) if s.lane is None), Linear())
    lanes: dict[int, Linear] = {}
    for t, s in zip(stages, x.problem.stages, strict=True):
        if s.lane is not None:
            lanes[s.lane] = lanes.get(s.lane, Linear()) + t
    if not lanes:
        return total
    everything = sum(lanes.values(), Linear())
    longest = x.model.variable(0, everything.high)
    for lane in lanes.values():
        x.model.at_least(longest, lane)
    for collision in _collisions(x):
        x.model.at_least(longest, everything, [collision])
    return total + longest


def _collisions(x: Variables) -> list[Fixed]:
    """Return the literals any of which keeps lanes from running at the same time."""
    members: dict[int, set[int]] = {}
    for operation in x.problem.operations:
        lane = x.problem.stages[operation.stage].lane
        if lane is not None:
            members.setdefault(lane, set()).add(operation.item)
    return [
        TRUE if a == b else x.sharing(a, b)
        for first, second in itertools.combinations(members.values(), 2)
        for a in sorted(first)
        for b in sorted(second)
    ]


def stage(x: Variables, index: int) -> Linear:
    """The longest set of items that take turns because each two of them overlap, or the longest transfer."""
    members = sorted({o.item for o in x.problem.operations if o.stage == index})
    turns = [(sum((x.time(i, index) for i in items), Linear()), pairs) for items, pairs in x.pools(members)]
    transfers = [transfer for transfer in x.problem.transfers if transfer.stage == index]
    if len(turns) == 1 and not transfers:
        return turns[0][0]
    high = max([0, *(time.high for time, _ in turns), *(max(map(max, t.us)) for t in transfers)])
    longest = x.model.variable(0, high)
    for time, pairs in turns:
        x.model.at_least(longest, time, pairs)
    for transfer in transfers:
        _wait_for(x, longest, transfer)
    return longest


def _wait_for(x: Variables, longest: Linear, transfer: Transfer) -> None:
    """*longest* is at least the time over the best pair of devices that source and target hold."""
    sources, targets = x.holds[transfer.source], x.holds[transfer.target]
    levels = sorted({transfer.us[a][b] for a in sources for b in targets})
    reached: Fixed = FALSE
    for us in levels:
        x.model.at_least(longest, Linear({}, us, us, us), [negated(reached)])
        reached = x.model.boolean()
        hits = []
        for b, held in targets.items():
            near = [sources[a] for a in sources if transfer.us[a][b] <= us]
            if near:
                hit = x.model.boolean()
                x.model.clause([negated(hit), held])
                x.model.clause([negated(hit), *near])
                hits.append(hit)
        x.model.clause([negated(reached), *hits])


def soft(x: Variables) -> Linear:
    """Broken soft rules."""
    broken = [x.model.boolean() for _ in x.problem.soft_pairs]
    for wish, literal in zip(x.problem.soft_pairs, broken, strict=True):
        _wish(x, wish, literal)
    return sum((x.soft(i) for i in range(len(x.problem.items))), count(broken))


def _wish(x: Variables, wish: SoftPair, broken: int) -> None:
    excused: list[Fixed] = [broken, x.sharing(wish.first, wish.second)]
    first, second = x.holds[wish.first], x.holds[wish.second]
    if wish.want is Want.AVOID:
        for d, e in itertools.product(first, second):
            if wish.labels[d] == wish.labels[e]:
                x.model.clause([*excused, negated(first[d]), negated(second[e])])
        return
    meetings = []
    for label in sorted({wish.labels[d] for d in first} & {wish.labels[d] for d in second}):
        meeting = x.model.boolean()
        for holds in (first, second):
            x.model.clause([negated(meeting), *(held for d, held in holds.items() if wish.labels[d] == label)])
        meetings.append(meeting)
    x.model.clause([*excused, *meetings])


def gpus(x: Variables) -> Linear:
    """Devices in use."""
    return count(x.used)


def memory(x: Variables) -> Linear:
    """The worst shortfall from comfort, MiB."""
    cases = list(holdings(x))
    worst = x.model.variable(0, max([0, *((load + wish).high for load, _, wish, _ in cases)]))
    for load, _, wish, only_if in cases:
        x.model.at_least(worst, load + wish, only_if)
    return worst


def islands(x: Variables) -> Linear:
    """Islands of which some devices are used and some are not."""
    members: dict[int, list[int]] = {}
    for d, device in enumerate(x.problem.devices):
        members.setdefault(device.island, []).append(x.used[d])
    broken = []
    for used in members.values():
        if len(used) > 1:
            literal = x.model.boolean()
            # Round the circle: unless broken, one device in use brings in the next.
            for this, following in zip(used, used[1:] + used[:1], strict=True):
                x.model.clause([literal, negated(this), following])
            broken.append(literal)
    return count(broken)


def bandwidth(x: Variables) -> Linear:
    """The slowest group's ns per GB."""
    each = [x.by_group(i, lambda g: x.problem.groups[g].ns_per_gb) for i in range(len(x.problem.items))]
    slowest = x.model.variable(0, max([0, *(ns.high for ns in each)]))
    for ns in each:
        x.model.at_least(slowest, ns)
    return slowest


def preference(x: Variables) -> Linear:
    """How far down the menus the options stand."""
    return sum((x.preference(i) for i in range(len(x.problem.items))), Linear())


def ids(x: Variables) -> list[Linear]:
    """The group indices of all items, then their option indices; smallest lexicographically."""
    groups = [x.by_group(i, lambda g: g) for i in range(len(x.problem.items))]
    options = [
        Linear({v: o for o, v in literals.items() if o}, 0, 0, max(literals, default=0))
        for slots in x.option
        for literals in slots
    ]
    return [*groups, *options]


TERMS = {
    Term.STEP: step,
    Term.SOFT: soft,
    Term.GPUS: gpus,
    Term.MEMORY: memory,
    Term.ISLANDS: islands,
    Term.BANDWIDTH: bandwidth,
    Term.PREFERENCE: preference,
}
