"""
What a card cannot run of what a workload asks for (rule ``supported``): the key that asks, who, what it needs, and what to write instead.

When to modify: a workload can ask for another feature of cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from placement.choices.capabilities import OF_AMD, Feature, least_capability, multiplies_fp8, runs
from placement.choices.parts import Part, engine_of, rollout_menu, train_menu
from placement.workloads.workload import KvCache, Master, Precision, Role, RoleName

FP8_PRODUCTS = (8, 9)
"""What training in 8 bits needs (`placement.choices.capabilities.multiplies_fp8`)."""


def card_lacks(role: Role, part: Part, have: tuple[int, int], card: str) -> Iterator[str]:
    """
    Yield, sentence by sentence, what *part* of *role* asks for that *card* does not run.

    Parameters
    ----------
    have
        The compute capability of the card.
    card
        What it is called: ``the card``, or which GPU it is.
    """
    engine = engine_of(role, part)
    if not runs(have, engine):
        yield _lacks(role, f"runs on {engine}", _key(role, part, "engine"), (engine,), card, have, "")
    if not any(runs(have, precision) for precision in role.precision):
        listed = " or ".join(role.precision)
        other = ", ".join(p for p in Precision if runs(have, p))
        yield _lacks(role, f"asks for {listed}", _key(role, Part.FROZEN, "precision"), role.precision, card, have, other)
    match part:
        case Part.TRAIN:
            menu = train_menu(role)
            if not any(master is Master.FP32 or runs(have, Precision.BF16) for master in menu.master):
                key = _key(role, part, "master")
                yield _lacks(role, "asks for a bf16 master", key, (Precision.BF16,), card, have, Master.FP32)
            if menu.fp8 and not multiplies_fp8(have):
                yield _says(role, "asks for training in fp8", _key(role, part, "fp8"), FP8_PRODUCTS, card, have, "false")
        case Part.ROLLOUT:
            rollout = rollout_menu(role)
            if not any(runs(have, quantization) for quantization in rollout.quantization):
                key = _key(role, part, "quantization")
                yield _lacks(role, "asks for fp8 weights", key, rollout.quantization, card, have, "none")
            if not any(runs(have, kv_cache) for kv_cache in rollout.kv_cache):
                yield _lacks(role, "asks for an fp8 KV cache", _key(role, part, "kv_cache"), rollout.kv_cache, card, have, KvCache.AUTO)
        case Part.FROZEN:
            pass


def _key(role: Role, part: Part, name: str) -> str:
    """Return where the workload says it: a rollout on GPUs of its own has its keys at the top of the role."""
    match part:
        case Part.TRAIN if name != "engine":
            return f"{role.name}.train.{name}"
        case Part.ROLLOUT if role.name is RoleName.ACTOR:
            return f"{role.name}.rollout.{name}"
    return f"{role.name}.{name}"


def _lacks(
    role: Role, asks: str, key: str, features: Iterable[Feature], card: str, have: tuple[int, int], instead: str
) -> str:
    return _says(role, asks, key, min(map(least_capability, features)), card, have, instead)


def _says(role: Role, asks: str, key: str, least: tuple[int, int], card: str, have: tuple[int, int], instead: str) -> str:
    needs = ".".join(map(str, least))
    has = "is one of AMD, of which 8-bit numbers are not counted on" if have == OF_AMD else f"has {'.'.join(map(str, have))}"
    name = key.rpartition(".")[2]
    write = f"write `{name}: {instead}`, or " if instead else ""
    return (
        f"{role.name} {asks} (`{key}`), which needs compute capability {needs}; {card} {has}: {write}take cards of {needs} or more "
        "(rule supported)"
    )
