"""
What an engine is sent after an update: all weights, or the adapters of LoRA alone.

verl keeps the base of a hybrid engine where it is and sends the adapters (``lora.merge: false``, its default; the base went once, in the
first sync). To engines on GPUs of their own it sends one set of weights, in which adapters must be merged (``lora.merge: true``), and TRL
merges everywhere; AReaL and SkyRL send adapters there too: ``lora_merge`` says which.

When to modify: a framework sends something else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from placement.constants.table import Constants
from placement.memory.states import adapter_parameters
from placement.models.model import Model
from placement.models.model_tensors import tensors
from placement.workloads.workload import Role

MIB = 2**20

TENSORS_OF_A_LAYER = 2 * 7
"""Two factors for each matrix that has an adapter: query, key, value, output, and three of the feed-forward block."""


@dataclass(frozen=True, slots=True)
class Sent:
    """
    What passes in a weight sync.

    Parameters
    ----------
    size
        Bytes, in 16 bits.
    tensors
        How many tensors it is.
    adapters
        Whether these are the adapters of LoRA: then the engine keeps its base.
    """

    size: float
    tensors: int
    adapters: bool = False


def all_weights(model: Model) -> Sent:
    """Return what a sync of all weights of *model* sends."""
    return Sent(2 * model.parameters, tensors(model))


def sent(actor: Role, model: Model, *, hybrid: bool) -> Sent:
    """
    Return what *actor* sends in every weight sync.

    Parameters
    ----------
    hybrid
        Whether the engine stands on the actor's GPUs.
    """
    if not sends_adapters(actor, hybrid=hybrid):
        return all_weights(model)
    assert actor.train is not None
    return Sent(2 * adapter_parameters(model, actor.train.lora), TENSORS_OF_A_LAYER * model.layers, adapters=True)


def buckets(what: Sent, c: Constants) -> int:
    """Return how many buckets *what* fills; a tensor that is larger than one goes in several."""
    return math.ceil(what.size / (c.sync_bucket_mib * MIB)) if c.sync_bucket_mib else 0


def sends_adapters(actor: Role | None, *, hybrid: bool) -> bool:
    """Whether *actor* trains adapters and sends them alone."""
    if actor is None or actor.train is None or actor.train.lora == 0:
        return False
    merges = actor.train.lora_merge
    return hybrid if merges is None else not merges
