"""
Memory of generation engines: `placement.memory.engine_memory` predicts weights and KV cache.

When to modify: engines print other figures at their start.
"""

from __future__ import annotations

import dataclasses

from placement.choices.choices import RolloutChoice
from placement.constants.table import constants
from placement.memory import engine_memory
from placement.models.model import Model
from placement.validation import naming, words
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Part, Row, Unpredictable
from placement.validation.setting import hardware
from placement.workloads.workload import Batch, Engine, KvCache, Precision
from topologies.cards import Card

GIB = 1024
DEFAULT_UTILIZATION = 0.9
"""What vLLM claims unless it is told otherwise."""

LONGEST = 16_000
"""Tokens of the longest sequence where neither a field nor the words name it."""

_SAID = ("source", "setup", "mode", "notes")
_COUNTED = ("weights", "kv")


def group(folder: Folder) -> Group:
    """Return the rows of ``memory.json``, list ``inference``."""
    records = folder.records(folder.parts("memory.json").get("inference"), "memory.json: inference")
    title = "weights or KV cache of a generation engine, GiB per GPU (the farther one)"
    return Group("rollout_memory", title, tuple(one.or_unfit("GiB", _row) for one in records))


def _row(record: Record) -> Row:
    tp, pp = _tp(record) or 1, _stages(record)
    name = f"{record.text('model')} tp {tp}" + (f" pp {pp}" if pp > 1 else "")
    measured = {key: value for key in _COUNTED if (value := record.measured(key)) is not None}
    if "kv" not in measured and (cache := _cache_gib(record, tp, pp)) is not None:
        measured["kv"] = cache
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
    model, tp, pp = naming.find(record.text("model")), _tp(record), _stages(record)
    card = naming.card(record.text("hardware") or record.text("gpu") or record.text("source"))
    said = record.words(*_SAID)
    assumed: list[str] = [] if tp else ["one GPU holds the engine"]
    tp = tp or 1
    share = record.number("gpu_memory_utilization", most=1.0) or words.claimed_share(said)
    if share is None:
        share = DEFAULT_UTILIZATION
        assumed.append(f"{share:g} of the memory is claimed")
    if not model.can_share_heads(tp):
        raise Unpredictable(f"tp {tp} cannot cut the attention heads of {model.name} ({model.heads}, with {model.kv_heads} KV heads)")
    if pp > 1:
        model = stage_of(model, pp)
        assumed.append(f"a stage of the pipeline has 1/{pp} of the layers, and embeddings")
    where = hardware(card, tp)
    sequences = record.count("max_num_seqs", most=1 << 20) or words.running_sequences(said) or default_sequences(card)
    choice = RolloutChoice(Engine.VLLM, tp, 1, Precision.BF16, share, sequences, kv_cache=_cache(record))
    each, granted = naming.linear_bytes(record.text("model"), record.words("precision", "quantization").strip())
    longest = record.count("max_model_len", most=1 << 24) or words.longest_sequence(said) or LONGEST
    batch = Batch(1, 1, 1, 1, longest, 1, longest)
    space = engine_memory.engine_space(model, choice, batch, where, constants(), linear_bytes=each)
    if space.kv_mib <= 0:
        raise Unpredictable(f"by our count the engine would not start: {space.kv_mib / GIB:.1f} GiB are left for the KV cache")
    predicted = {
        "weights": space.weights_mib / GIB,
        "kv": space.kv_mib / GIB,
        "activation + non_torch": space.activation_mib / GIB,
    }
    return predicted, (*assumed, *granted, *naming.granted(record.text("model")))


def stage_of(model: Model, pp: int) -> Model:
    """
    Return what the first of *pp* stages of a pipeline holds: its share of the layers, and the input embeddings.

    Raises
    ------
    Unpredictable
        If the model has fewer layers.
    """
    if pp == 1:
        return model
    if pp > model.layers:
        raise Unpredictable(f"{model.layers} layers cannot be cut into {pp} stages")
    embeddings = model.vocab * model.hidden
    inside = model.parameters - model.embedding_parameters
    return dataclasses.replace(
        model,
        layers=-(-model.layers // pp),
        parameters=inside // pp + embeddings,
        embedding_parameters=embeddings,
        kv_bytes_per_token=model.kv_bytes_per_token // pp,
    )


def _tp(record: Record) -> int | None:
    """Return how many GPUs share a layer, by its field or the words; None where neither says it."""
    found = record.count("tp", most=1024) or words.parallel_size(record.words(*_SAID), "tp")
    return found if found is None or found <= 1024 else None


def _stages(record: Record) -> int:
    return record.count("pp", most=1024) or words.parallel_size(record.words(*_SAID), "pp") or 1


def _cache(record: Record) -> KvCache:
    """Return the numbers of the cache: 8 bits where a field or the words say so."""
    stated = record.words("kv_cache_dtype")
    return KvCache.FP8 if "8" in stated or words.has_8_bit_cache(record.words(*_SAID)) else KvCache.AUTO


def _cache_gib(record: Record, tp: int, pp: int) -> float | None:
    """Return the GiB of a cache of which the row states the tokens alone: bytes per token are exact."""
    tokens = _stated_tokens(record)
    if tokens is None:
        return None
    try:
        model = stage_of(naming.find(record.text("model")), pp)
    except Unpredictable:
        return None
    return tokens * _bytes_per_token(record, model, tp) / 2**30


def _stated_tokens(record: Record) -> int | None:
    blocks = record.count("kv_blocks_of_16")
    return record.count("kv_tokens") if blocks is None else 16 * blocks


def _bytes_per_token(record: Record, model: Model, tp: int) -> float:
    choice = RolloutChoice(Engine.VLLM, tp, 1, Precision.BF16, DEFAULT_UTILIZATION, 1, kv_cache=_cache(record))
    return engine_memory.kv_bytes_per_token(model, choice)


def default_sequences(card: Card) -> int:
    """Return how many sequences vLLM runs at a time unless it is told: more on cards of 70 GiB and more, A100 excepted."""
    return 1024 if card.torch_mib >= 70 * GIB and card.compute_capability >= (9, 0) else 256


def _tokens(record: Record) -> tuple[Part, ...]:
    """Return the tokens that the measured KV cache holds: bytes per token are exact."""
    tokens, kv = _stated_tokens(record), record.measured("kv")
    if tokens is None or kv is None:
        return ()
    model = stage_of(naming.find(record.text("model")), _stages(record))
    each = _bytes_per_token(record, model, _tp(record) or 1)
    return (Part("tokens of the measured cache", float(tokens), kv * 2**30 / each),)
