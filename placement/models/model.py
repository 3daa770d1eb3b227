"""
Language models as numbers; they come from the catalogue, a `config.json`, or the user's own numbers.

When to modify: a new family of `config.json`, or a new fact that the cost model needs.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from placement.errors import InputError
from placement.models.model_limits import MOST, OPTIONAL, allowed, is_count, shown

KV_BYTES = 2
"""The KV cache holds two bytes per number (bf16)."""

REQUIRED_NUMBERS = ("parameters", "hidden", "layers", "heads", "kv_heads", "vocab", "ffn")
"""What a model given as plain numbers must state; the rest follows."""

_VARIANTS = ("-instruct", "-base", "-chat")
"""Endings of a name that change the training of a model, not its shape."""


@dataclass(frozen=True, slots=True)
class Model:
    """
    A transformer.

    Parameters
    ----------
    name
        As the user knows it (``Qwen/Qwen2.5-7B``).
    hidden, layers, heads, kv_heads, head_dim, ffn, vocab
        Shape. *ffn* is the width of one (dense or expert) feed-forward block that a token passes in a layer,
        active experts summed.
    parameters
        All parameters, exact, embeddings included (tied ones once).
    active_parameters
        Parameters that one token uses.
    embedding_parameters
        Input embedding + output head (tied: once).
    kv_bytes_per_token
        KV cache of one token in bf16 over the whole model, bytes (MLA included).
    kv_shards
        Into how many parts tensor parallelism can cut the KV cache (KV heads; 1 with MLA).
    experts, experts_per_token
        0 for a dense model.
    tie_embeddings
        Whether input and output embeddings are one matrix.
    max_position
        Longest sequence, tokens; None when not stated.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    parameters: int
    active_parameters: int
    embedding_parameters: int
    kv_bytes_per_token: int
    kv_shards: int
    experts: int = 0
    experts_per_token: int = 0
    tie_embeddings: bool = False
    max_position: int | None = None

    def can_share_heads(self, tp: int) -> bool:
        """Whether *tp* GPUs can share the attention heads: KV heads are cut, or copied, evenly."""
        return self.heads % tp == 0 and (self.kv_heads % tp == 0 or tp % self.kv_heads == 0)

    @property
    def layer_parameters(self) -> float:
        """Parameters of one layer, on average."""
        return (self.parameters - self.embedding_parameters) / self.layers

    @property
    def expert_parameters(self) -> int:
        """
        Parameters of all routed experts: those that one token leaves aside are ``(experts - experts_per_token)/experts`` of them.

        0 in a dense model, and where every token passes every expert, as their share is then not known.
        """
        if self.experts <= self.experts_per_token:
            return 0
        unused = self.parameters - self.active_parameters
        routed = unused * self.experts // (self.experts - self.experts_per_token)
        return min(routed, self.parameters - self.embedding_parameters)

    def as_scalar_head(self) -> Self:
        """Return the model as critic or reward: one number per token in place of the language-model head."""
        head = 0 if self.tie_embeddings else self.vocab * self.hidden
        change = self.hidden - head
        return dataclasses.replace(
            self,
            parameters=self.parameters + change,
            active_parameters=self.active_parameters + change,
            embedding_parameters=self.embedding_parameters + change,
            tie_embeddings=False,
        )


def find_model(source: str | Mapping[str, object], *, folder: Path | None = None) -> Model:
    """
    Return the model that the user means.

    Parameters
    ----------
    source
        A catalogue name (any case; ``Qwen2.5-7B`` for ``Qwen/Qwen2.5-7B``; ``-Instruct``, ``-Base``,
        ``-Chat`` variants have the same shape), a `config.json` or the folder that holds one, or plain
        numbers (see `from_numbers`).
    folder
        Where relative paths start; the working directory by default.

    Raises
    ------
    InputError
        If there is no such model, or its description is wrong; the message suggests a name.
    """
    if isinstance(source, Mapping):
        return from_numbers(source)
    model = catalogued(source)
    if model is not None:
        return model
    path = _config_path(source, folder or Path())
    if path is not None:
        from placement.models.model_config import read_config

        return read_config(path, name=source)
    close = difflib.get_close_matches(source.lower(), _names(), n=1)
    hint = f"; did you mean {_names()[close[0]]!r}? Otherwise give" if close else ": give"
    numbers = ", ".join(f"{key}: …" for key in REQUIRED_NUMBERS)
    raise InputError(
        f"there is no model {source!r}{hint} a name of `placement catalog models`, "
        f"a Hugging Face config.json (file or folder), or numbers: {{{numbers}}}"
    )


def _config_path(source: str, folder: Path) -> Path | None:
    """Return the file or folder that *source* names; None when it is no path of a configuration."""
    try:
        path = folder / Path(source).expanduser()
        return path if source.endswith(".json") or path.is_dir() else None
    except (OSError, RuntimeError):  # too long for a name; the home of nobody
        return None


def from_numbers(numbers: Mapping[str, object]) -> Model:
    """
    Return a model from fields of `Model`, at least `REQUIRED_NUMBERS`.

    By default the model is dense (all parameters active), ``head_dim = hidden / heads``, embeddings are not
    tied, and the KV cache holds a key and a value of every KV head and layer.

    Raises
    ------
    InputError
        If a number is missing, unknown, no whole number within `placement.models.model_limits`, or does not go with
        the others.
    """
    types = {field.name: field.type for field in dataclasses.fields(Model)}
    for key, value in numbers.items():
        if key not in types:
            close = difflib.get_close_matches(key, types, n=1)
            raise InputError(
                f"a model has no {key!r}"
                + (f"; did you mean {close[0]!r}?" if close else f": it has {', '.join(types)}")
            )
        _check_number(key, types[key], value)
    missing = [key for key in REQUIRED_NUMBERS if key not in numbers]
    if missing:
        raise InputError(f"a model given as numbers also needs {', '.join(missing)}")
    given: dict[str, Any] = dict(numbers)
    tied = given.get("tie_embeddings", False)
    head_dim = given.get("head_dim") or head_width(given["hidden"], given["heads"])
    derived = {
        "name": "custom",
        "head_dim": head_dim,
        "active_parameters": given["parameters"],
        "embedding_parameters": given["vocab"] * given["hidden"] * (1 if tied else 2),
        "kv_bytes_per_token": 2 * given["layers"] * given["kv_heads"] * head_dim * KV_BYTES,
        "kv_shards": given["kv_heads"],
    }
    return checked(Model(**(derived | given)))


def head_width(hidden: int, heads: int) -> int:
    """
    Return the width of a head where none is stated.

    Raises
    ------
    InputError
        If the heads do not share the width of the model evenly.
    """
    if hidden % heads:
        raise InputError(f"{heads:,} attention heads cannot share a width of {hidden:,} evenly: state head_dim")
    return hidden // heads


def _check_number(key: str, kind: object, value: object) -> None:
    if kind == "str":
        right = isinstance(value, str) and value != ""
        wanted = "text"
    elif kind == "bool":
        right, wanted = isinstance(value, bool), "true or false"
    elif value is None and kind == "int | None":
        return
    else:
        least, most = 0 if key in OPTIONAL else 1, MOST[key]
        right, wanted = is_count(value, least, most), allowed(least, most)
    if not right:
        raise InputError(f"{key} of a model is {wanted}, not {shown(value)}")


def checked(model: Model) -> Model:
    """
    Return *model* if its numbers are within bounds and can belong together: then it can be priced.

    Raises
    ------
    InputError
        If not; the message names the number and what is allowed.
    """
    for key, most in MOST.items():
        value = getattr(model, key)
        least = 0 if key in OPTIONAL else 1
        if value is not None and not is_count(value, least, most):
            raise InputError(f"{key} of a model is {allowed(least, most)}; the other numbers make it {value:,}")
    if model.heads % model.kv_heads:
        raise InputError(f"{model.heads} attention heads cannot share {model.kv_heads} KV heads evenly")
    _check_experts(model)
    _check_parameters(model)
    return model


def _check_experts(model: Model) -> None:
    if model.experts_per_token > model.experts:
        raise InputError(
            f"a token cannot pass {model.experts_per_token:,} experts (experts_per_token) "
            f"where a layer has {model.experts:,} (experts)"
        )
    if model.experts and not model.experts_per_token:
        raise InputError(
            f"a model with experts also needs experts_per_token: {allowed(1, model.experts)}, its number of experts"
        )


def _check_parameters(model: Model) -> None:
    if model.active_parameters > model.parameters:
        raise InputError(
            f"{model.active_parameters:,} active parameters are more than all {model.parameters:,}"
        )
    if model.embedding_parameters >= model.parameters:
        raise InputError(
            f"{model.parameters:,} parameters cannot hold embeddings of {model.embedding_parameters:,} "
            f"(vocab × hidden{'' if model.tie_embeddings else ', twice: they are not tied'})"
        )
    head = model.vocab * model.hidden
    for key in ("embedding_parameters", "active_parameters"):
        # Critic and reward take the head away; a tied one stays, as the embedding of the input.
        if not model.tie_embeddings and getattr(model, key) <= head:
            raise InputError(
                f"{getattr(model, key):,} {key} are not more than the output head of {head:,} (vocab × hidden), "
                "which they include; if the head is the input embedding, say tie_embeddings: true"
            )


# ── the catalogue ───────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def catalogue() -> Mapping[str, Model]:
    """Return the shipped models by name, in the order of the file (``data/models.json``)."""
    text = (Path(__file__).parents[1] / "data" / "models.json").read_text(encoding="utf-8")
    return {record["model"]: _from_record(record) for record in json.loads(text)["models"]}


def _from_record(record: Mapping[str, Any]) -> Model:
    """
    Return a record of the catalogue as a model; the counts are exact, the tests derive them from the shape.
    """
    is_mla = "kv_lora_rank" in record
    routed = record.get("experts_per_token", 0)
    return Model(
        name=record["model"],
        hidden=record["hidden"],
        layers=record["layers"],
        heads=record["heads"],
        kv_heads=record["kv_heads"],
        head_dim=record["qk_nope_head_dim"] + record["qk_rope_head_dim"] if is_mla else record["head_dim"],
        ffn=record["moe_ffn"] * (routed + record["shared_experts"]) if routed else record["ffn"],
        vocab=record["vocab"],
        parameters=record["params_formula"],
        active_parameters=record["params_active"],
        embedding_parameters=record["vocab"] * record["hidden"] * (1 if record["tie_embeddings"] else 2),
        kv_bytes_per_token=record["kv_bytes_per_token_bf16"],
        kv_shards=1 if is_mla else record["kv_heads"],
        experts=record.get("experts", 0),
        experts_per_token=routed,
        tie_embeddings=record["tie_embeddings"],
        max_position=record["max_position"],
    )


@functools.cache
def _names() -> Mapping[str, str]:
    """Return what users may type, in lower case, with the catalogue name that it stands for."""
    names: dict[str, str] = {}
    for name in catalogue():
        full = name.lower()
        for typed in (full, full.partition("/")[2]):
            names[typed] = name
            names[typed.removesuffix(" (text)")] = name
    return names


def catalogued(source: str) -> Model | None:
    """Return the shipped model, or the variant of one, that *source* names; None when there is none."""
    typed = source.lower()
    if typed in _names():
        return catalogue()[_names()[typed]]
    for ending in _VARIANTS:
        base = _names().get(typed.removesuffix(ending))
        if base is not None:
            # Variants are known for other limits than their base model.
            return dataclasses.replace(catalogue()[base], name=source, max_position=None)
    return None
