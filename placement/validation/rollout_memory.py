"""
Memory of generation engines: `placement.memory.engine_memory` predicts weights and KV cache.

When to modify: engines print other figures at their start.
"""

from __future__ import annotations

from placement.choices.choices import RolloutChoice
from placement.constants.table import constants
from placement.memory import engine_memory
from placement.models.model import Model
from placement.validation import naming
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Part, Row, Unpredictable
from placement.validation.setting import hardware
from placement.workloads.workload import Batch, Engine, Precision
from topologies.cards import Card

GIB = 1024
DEFAULT_UTILIZATION = 0.9
"""What vLLM claims unless it is told otherwise."""

LONGEST = 16_000
_COUNTED = ("weights", "kv")


def group(folder: Folder) -> Group:
    """Return the rows of ``memory.json``, list ``inference``."""
    records = folder.records(folder.parts("memory.json").get("inference"), "memory.json: inference")
    title = "weights or KV cache of a generation engine, GiB per GPU (the farther one)"
    return Group("rollout_memory", title, tuple(one.or_unfit("GiB", _row) for one in records))


def _row(record: Record) -> Row:
    name = f"{record.text('model')} tp {record.count('tp', most=1024) or 1}"
    measured = {key: value for key in _COUNTED if (value := record.measured(key)) is not None}
    activation, other = record.number("activation"), record.number("non_torch")
    if activation is not None and other is not None:
        measured["activation + non_torch"] = activation + other
    counted = [key for key in _COUNTED if key in measured]
    if not counted:
        raise record.fail("kv", "a measured value above zero, or weights is")
    source = record.text("source")
    try:
        predicted, assumed = _predicted(record)
        tokens = _tokens(record)
    except Unpredictable as why:
        key = counted[-1]
        return Row(f"{name}, {key}", "GiB", measured[key], why=str(why), source=source)
    key = max(counted, key=lambda one: abs(predicted[one] / measured[one] - 1))
    parts = tuple(Part(one, measured.get(one), predicted[one]) for one in measured if one != key)
    return Row(f"{name}, {key}", "GiB", measured[key], predicted[key], assumed=assumed, parts=(*parts, *tokens), source=source)


def _predicted(record: Record) -> tuple[dict[str, float], tuple[str, ...]]:
    model, tp = naming.find(record.text("model")), record.count("tp", most=1024) or 1
    card = naming.card(record.text("hardware") or record.text("gpu") or record.text("source"))
    share = record.number("gpu_memory_utilization", most=1.0) or DEFAULT_UTILIZATION
    where = hardware(card, tp)
    choice = RolloutChoice(Engine.VLLM, tp, 1, Precision.BF16, share, default_sequences(card))
    each, granted = naming.linear_bytes(record.text("model"), record.words("precision", "quantization").strip())
    batch = Batch(1, 1, 1, 1, LONGEST, 1, LONGEST)
    space = engine_memory.engine_space(model, choice, batch, where, constants(), linear_bytes=each)
    if space.kv_mib <= 0:
        raise Unpredictable(f"by our count the engine would not start: {space.kv_mib / GIB:.1f} GiB are left for the KV cache")
    predicted = {
        "weights": space.weights_mib / GIB,
        "kv": space.kv_mib / GIB,
        "activation + non_torch": space.activation_mib / GIB,
    }
    return predicted, (f"{share:g} of the memory is claimed", *granted, *naming.granted(record.text("model")))


def default_sequences(card: Card) -> int:
    """Return how many sequences vLLM runs at a time unless it is told: more on cards of 70 GiB and more, A100 excepted."""
    return 1024 if card.torch_mib >= 70 * GIB and card.compute_capability >= (9, 0) else 256


def _tokens(record: Record) -> tuple[Part, ...]:
    """Return the tokens that the measured KV cache holds: bytes per token are exact."""
    tokens, kv, blocks = record.count("kv_tokens"), record.measured("kv"), record.count("kv_blocks_of_16")
    if blocks is not None:
        tokens = 16 * blocks
    if tokens is None or kv is None:
        return ()
    model: Model = naming.find(record.text("model"))
    each = model.kv_bytes_per_token / min(record.count("tp", most=1024) or 1, model.kv_shards)
    return (Part("tokens of the measured cache", float(tokens), kv * 2**30 / each),)
