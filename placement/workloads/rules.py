"""
The rules that a user may switch: what each says, its default, and how switches are written.

A rule text is a preset and/or switches, comma separated: ``guide,contiguity=off,reserve=8%``. Several texts
are read one after the other (target, workload file, command line), and the later word wins.

When to modify: a rule is added, or takes a new kind of value.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from placement.errors import InputError
from placement.text.suggest import did_you_mean
from placement.workloads import rule_values
from placement.workloads.rule_texts import RULES as RULES
from placement.workloads.rule_texts import Rule
from placement.workloads.rule_values import Reserve
from placement.workloads.target_rules import TargetRules, target_rules
from placement.workloads.workload import RoleName


class Relation(StrEnum):
    """How two roles stand to each other."""

    APART = "apart"
    TOGETHER = "together"
    MAY = "may share"


_A, _T, _M = Relation.APART, Relation.TOGETHER, Relation.MAY
_PAIRS = tuple(
    frozenset(pair)
    for pair in itertools.combinations((RoleName.ACTOR, RoleName.CRITIC, RoleName.REF, RoleName.REWARD), 2)
)
# In the order of _PAIRS: actor–critic, actor–ref, actor–reward, critic–ref, critic–reward, ref–reward;
# then rollout–any.
_TABLE: Mapping[str, tuple[Relation, ...]] = {
    "guide": (_A, _M, _A, _A, _M, _M, _A),
    "minimal": (_A, _A, _A, _A, _A, _M, _A),
    "strict": (_A, _A, _A, _A, _A, _A, _A),
    "four": (_A, _A, _A, _M, _M, _M, _A),
    "colocate": (_T, _T, _T, _T, _T, _T, _T),
    "free": (_M, _M, _M, _M, _M, _M, _M),
}

PRESETS = tuple(_TABLE)
"""Names of the readings of rule ``isolation``."""


CRITIC_MIN_GPUS = 2
DEFAULT_RESERVE = Reserve(percent=5.0, mib=1024)


@dataclass(frozen=True, slots=True)
class Rules:
    """
    The rules of one question.

    Parameters
    ----------
    preset
        The reading of rule ``isolation``: one of `PRESETS`.
    contiguity
        TP blocks are joined by NVLink, groups touch no more domains than their size forces.
    sharing
        ``pool``: two roles share all GPUs or none; ``partial``: also some.
    reserve
        Memory that no plan may use.
    reward_reserve_percent
        Free share asked for, instead of *reserve*, on a GPU that the reward model shares; None for no such
        wish.
    same_card
        The GPUs of a role are the same chip with (almost) the same memory.
    critic_min_gpus
        GPUs that a critic gets at least, as the user wrote it; None: it wants `CRITIC_MIN_GPUS`.
    busy_mib
        A GPU of which other processes hold more is not used; None: all are.
    supported
        Engine and precision need a chip that can run them.
    even_batch
        Data-parallel ranks get as many sequences as each other, of a step and of a minibatch.
    affinity, root_complex
        Wishes: actor and ref in one domain; critic and reward not under one root complex.
    target
        The framework that must be able to run the plan (`placement.workloads.target_rules`); None for no such wish.
    excused
        Pairs of roles that may share whatever the preset says (used to find out which pairs are in the way).
    """

    preset: str = "guide"
    contiguity: bool = True
    sharing: str = "pool"
    reserve: Reserve = DEFAULT_RESERVE
    reward_reserve_percent: float | None = 20.0
    same_card: bool = True
    critic_min_gpus: int | None = None
    busy_mib: int | None = 2048
    supported: bool = True
    even_batch: bool = False
    affinity: bool = True
    root_complex: bool = True
    target: str | None = None
    excused: frozenset[frozenset[RoleName]] = frozenset()

    def relation(self, a: RoleName, b: RoleName) -> Relation:
        """Return how roles *a* and *b*, which differ, stand to each other."""
        pair = frozenset((a, b))
        if pair in self.excused:
            return Relation.MAY
        row = _TABLE[self.preset]
        return row[_PAIRS.index(pair)] if pair in _PAIRS else row[-1]

    @property
    def expressible(self) -> TargetRules | None:
        """What the target can express; None for no target, and for one that can express all."""
        return target_rules(self.target)

    @property
    def min_gpus(self) -> Mapping[RoleName, int]:
        """The GPUs that roles want by rule ``min_gpus``."""
        least = CRITIC_MIN_GPUS if self.critic_min_gpus is None else self.critic_min_gpus
        return {RoleName.CRITIC: least} if least > 1 else {}

    @property
    def min_gpus_is_written(self) -> bool:
        """Whether the user wrote a number for rule ``min_gpus``: then it is no wish, but hard."""
        return self.critic_min_gpus is not None

    def excusing(self, a: RoleName, b: RoleName) -> Self:
        """Return the same rules, but that roles *a* and *b* may share."""
        return dataclasses.replace(self, excused=self.excused | {frozenset((a, b))})

    def with_preset(self, preset: str) -> Self:
        """Return the same rules under another reading of ``isolation``."""
        return dataclasses.replace(self, preset=preset)

    @property
    def of_choice(self) -> tuple[str, ...]:
        """The rules that are on and that `lifted` lifts, but for wishes, which cost no time outside the band."""
        on = {
            "isolation": self.preset != "free",
            "contiguity": self.contiguity,
            "same_card": self.same_card,
            "min_gpus": bool(self.min_gpus),
            "reward_reserve": self.reward_reserve_percent is not None,
        }
        return tuple(name for name, is_on in on.items() if is_on)

    def lifted(self) -> Self:
        """
        Return what is left when every rule of choice is lifted: any roles may share any group.

        Memory that must stay free for the machine's sake, busy and hidden GPUs, what a card or the target cannot run and what trainers
        refuse are no choices.
        """
        return dataclasses.replace(
            self,
            preset="free",
            contiguity=False,
            same_card=False,
            critic_min_gpus=1,
            reward_reserve_percent=None,
            affinity=False,
            root_complex=False,
        )

    def describe(self) -> dict[str, str]:
        """Return the preset, and the switches that are not at their default, as a rule text takes them."""
        said = {"preset": self.preset}
        default = Rules()
        for name, field in _FIELDS.items():
            value = getattr(self, field)
            if value != getattr(default, field):
                said[name] = _switch_text(field, value)
        return said

    def __str__(self) -> str:
        """Return the rule text: ``parse_rules(str(rules)) == rules``."""
        preset, *switches = self.describe().items()
        return ",".join([preset[1], *(f"{name}={value}" for name, value in switches)])


_FIELDS = {
    "contiguity": "contiguity",
    "sharing": "sharing",
    "reserve": "reserve",
    "reward_reserve": "reward_reserve_percent",
    "same_card": "same_card",
    "min_gpus": "critic_min_gpus",
    "busy": "busy_mib",
    "supported": "supported",
    "even_batch": "even_batch",
    "affinity": "affinity",
    "root_complex": "root_complex",
    "target": "target",
}
"""Switch → field of `Rules`."""


def parse_rules(*specs: str) -> Rules:
    """
    Read rule texts, the later word winning over the earlier.

    Raises
    ------
    InputError
        If a preset or rule does not exist, or a rule cannot take the value; the message says what it takes.
    """
    rules = Rules()
    for spec in specs:
        for word in spec.split(","):
            rules = _apply(rules, word.strip())
    return rules


def _apply(rules: Rules, word: str) -> Rules:
    name, equals, value = (part.strip() for part in word.partition("="))
    if not word:
        return rules
    if not equals:
        return _apply_bare(rules, name)
    if name in ("isolation", "preset"):
        preset = {"off": "free", "false": "free"}.get(value, value)
        if preset not in PRESETS:
            hint = did_you_mean(preset, PRESETS)
            raise InputError(f"there is no preset {value!r}{hint}: rule {name} takes {', '.join(PRESETS)}")
        return rules.with_preset(preset)
    if name == "visible":
        raise InputError(
            "rule visible is set by the option --visible or by CUDA_VISIBLE_DEVICES, not by a switch"
        )
    if name not in _FIELDS:
        hint = did_you_mean(name, [*_FIELDS, "isolation"])
        known = ", ".join(rule.name for rule in RULES)
        raise InputError(f"there is no rule {name!r}{hint}: the rules are {known}")
    field = _FIELDS[name]
    try:
        return dataclasses.replace(rules, **{field: _READERS[field](value)})
    except ValueError:
        raise InputError(f"rule {name} cannot be {value!r}: it takes {_rule(name).takes}") from None


def _apply_bare(rules: Rules, name: str) -> Rules:
    if name in PRESETS:
        return rules.with_preset(name)
    if name in _FIELDS:
        raise InputError(f"rule {name} needs a value: {name}=… takes {_rule(name).takes}")
    hint = did_you_mean(name, [*PRESETS, *_FIELDS])
    raise InputError(
        f"there is no preset or rule {name!r}{hint}: presets are {', '.join(PRESETS)}; "
        f"switches are {', '.join(_FIELDS)}"
    )


def _rule(name: str) -> Rule:
    return next(rule for rule in RULES if rule.name == name)


_READERS: Mapping[str, Callable[[str], Any]] = {
    "contiguity": rule_values.switch,
    "sharing": rule_values.sharing,
    "reserve": rule_values.reserve,
    "reward_reserve_percent": rule_values.percent,
    "same_card": rule_values.switch,
    "critic_min_gpus": rule_values.count,
    "busy_mib": rule_values.amount_mib,
    "supported": rule_values.switch,
    "even_batch": rule_values.switch,
    "affinity": rule_values.switch,
    "root_complex": rule_values.switch,
    "target": rule_values.target,
}
"""Field of `Rules` → reader of its switch."""


def _switch_text(field: str, value: object) -> str:
    """Return a value of *field* as its switch takes it."""
    match value:
        case None:
            return "off"
        case bool():
            return "on" if value else "off"
        case float():
            return rule_values.percent_text(value)
        case int() if field == "busy_mib":
            return rule_values.amount_text(value)
        case 1 if field == "critic_min_gpus":
            return "off"
    return str(value)
