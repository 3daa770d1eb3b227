"""
What an answer costs: one function per term, each returning the expression to be minimised.

The expressions bound the true values from below; at a minimum they meet them.

When to modify: `solvers.problem` gets a term, or a term changes its meaning.
"""

from __future__ import annotations

import itertools

from solvers.cpsat.proto import FALSE, TRUE, Fixed, Linear, Lit, choice, constant, count, negated, total
from solvers.cpsat.rules import holdings
from solvers.cpsat.variables import Variables
from solvers.problem import SoftPair, Term, Transfer, Want


def step(x: Variables) -> Linear:
    """The stages outside lanes, and the longest lane (all lanes, when they cannot run at the same time)."""
    lengths = [stage(x, s) for s in range(len(x.problem.stages))]
    outside = total(us for us, s in zip(lengths, x.problem.stages, strict=True) if s.lane is None)
    lanes: dict[int, Linear] = {}
    for us, s in zip(lengths, x.problem.stages, strict=True):
        if s.lane is not None:
            lanes[s.lane] = lanes.get(s.lane, constant(0)) + us
    if not lanes:
        return outside
    everything = total(lanes.values())
    longest = x.model.integer(0, everything.high)
    for lane in lanes.values():
        x.model.at_least(longest, lane)
    for collision in _collisions(x):
        x.model.at_least(longest, everything, [collision])
    return outside + longest


def _collisions(x: Variables) -> list[Fixed]:
    """Return the literals any of which keeps lanes from running at the same time."""
    workers: dict[int, set[int]] = {}
    for operation in x.problem.operations:
        lane = x.problem.stages[operation.stage].lane
        if lane is not None:
            workers.setdefault(lane, set()).add(operation.item)
    rivals = [
        (a, b)
        for one, other in itertools.combinations(workers.values(), 2)
        for a, b in itertools.product(sorted(one), sorted(other))
    ]
    return [TRUE if a == b else x.overlap((a, b))[0] for a, b in rivals]


def stage(x: Variables, s: int) -> Linear:
    """The longest set of items that take turns because each two of them overlap, or the longest transfer."""
    members = sorted({o.item for o in x.problem.operations if o.stage == s})
    turns = [(total(x.time(i, s) for i in items), overlap) for items, overlap in x.sets_that_may_overlap(members)]
    transfers = [transfer for transfer in x.problem.transfers if transfer.stage == s]
    if len(turns) == 1 and not transfers:
        return turns[0][0]
    longest = x.model.integer(
        0, max([0, *(us.high for us, _ in turns), *(max(map(max, t.us)) for t in transfers)])
    )
    for us, overlap in turns:
        x.model.at_least(longest, us, overlap)
    for transfer in transfers:
        _wait_for(x, longest, transfer)
    return longest


def _wait_for(x: Variables, longest: Linear, transfer: Transfer) -> None:
    """*longest* is at least the time over the best pair of devices that source and target hold."""
    sources, targets = x.holds[transfer.source], x.holds[transfer.target]
    reached: Fixed = FALSE
    for us in sorted({transfer.us[a][b] for a in sources for b in targets}):
        x.model.at_least(longest, constant(us), [negated(reached)])
        reached = x.model.boolean()
        hits: list[Lit] = []
        for b, held in targets.items():
            near = [sources[a] for a in sources if transfer.us[a][b] <= us]
            if near:
                hits.append(x.model.boolean())
                x.model.clause([negated(hits[-1]), held])
                x.model.clause([negated(hits[-1]), *near])
        x.model.clause([negated(reached), *hits])


def soft(x: Variables) -> Linear:
    """Broken soft rules: of the options, and of the pairs."""
    broken: list[Lit] = []
    for wish in x.problem.soft_pairs:
        broken.append(x.model.boolean())
        _wish(x, wish, broken[-1])
    return total(x.soft(i) for i in range(len(x.problem.items))) + count(broken)


def _wish(x: Variables, wish: SoftPair, broken: Lit) -> None:
    excused: list[Fixed] = [broken, *x.overlap((wish.first, wish.second))]
    first, second = x.holds[wish.first], x.holds[wish.second]
    if wish.want is Want.AVOID:
        for d, e in itertools.product(first, second):
            if wish.labels[d] == wish.labels[e]:
                x.model.clause([*excused, negated(first[d]), negated(second[e])])
        return
    meetings: list[Lit] = []
    for label in sorted({wish.labels[d] for d in first} & {wish.labels[d] for d in second}):
        meetings.append(x.model.boolean())
        for holds in (first, second):
            there = [held for d, held in holds.items() if wish.labels[d] == label]
            x.model.clause([negated(meetings[-1]), *there])
    x.model.clause([*excused, *meetings])


def gpus(x: Variables) -> Linear:
    """Devices in use."""
    return count(x.used)


def memory(x: Variables) -> Linear:
    """The worst shortfall from comfort, MiB."""
    cases = [(holding.load + holding.gap, holding.only_if) for holding in holdings(x)]
    worst = x.model.integer(0, max([0, *(shortfall.high for shortfall, _ in cases)]))
    for shortfall, only_if in cases:
        x.model.at_least(worst, shortfall, only_if)
    return worst


def islands(x: Variables) -> Linear:
    """Islands of which some devices are used and some are not."""
    members: dict[int, list[int]] = {}
    for d, device in enumerate(x.problem.devices):
        members.setdefault(device.island, []).append(x.used[d])
    broken: list[Lit] = []
    for used in members.values():
        if len(used) > 1:
            broken.append(x.model.boolean())
            # Round the circle: unless broken, one device in use brings in the next.
            for this, following in zip(used, used[1:] + used[:1], strict=True):
                x.model.clause([broken[-1], negated(this), following])
    return count(broken)


def bandwidth(x: Variables) -> Linear:
    """The slowest group's ns per GB."""
    each = [x.by_group(i, lambda g: x.problem.groups[g].ns_per_gb) for i in range(len(x.problem.items))]
    slowest = x.model.integer(0, max([0, *(ns.high for ns in each)]))
    for ns in each:
        x.model.at_least(slowest, ns)
    return slowest


def preference(x: Variables) -> Linear:
    """How far down the menus the options stand."""
    return total(x.preference(i) for i in range(len(x.problem.items)))


def ids(x: Variables) -> list[Linear]:
    """The ranks of all items' groups among those left, then of their options; smallest lexicographically."""
    options = (literals for slots in x.option for literals in slots)
    return [choice({v: rank for rank, v in enumerate(literals.values())}) for literals in (*x.group, *options)]


TERMS = {
    Term.STEP: step,
    Term.SOFT: soft,
    Term.GPUS: gpus,
    Term.MEMORY: memory,
    Term.ISLANDS: islands,
    Term.BANDWIDTH: bandwidth,
    Term.PREFERENCE: preference,
}
