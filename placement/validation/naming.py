"""
Which model and card a published table means: tables write names in ways of their own.

When to modify: a table names models or cards in yet another way. A model that is missing is a row of the catalogue.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from placement.errors import InputError
from placement.models.model import Model, catalogue, from_numbers
from placement.validation.relatives import ENDINGS, aliases, opt, shipped_bytes
from placement.validation.rows import Unpredictable
from topologies.cards import Card, cards

_SAME_SIZE = (0.6, 1.5)
"""Parameters over those that a name says: names round, and some leave embeddings out; another model is farther off."""

_SIZE = re.compile(r"(?<![a-z0-9.])\d{1,4}(?:\.\d{1,2})?[bt](?![a-z0-9])", re.IGNORECASE)
_OTHER_SHAPES = {"vl", "vision", "omni", "audio", "next", "moe", "mamba", "hybrid", "diffusion", "draft", "eagle", "medusa"}
"""Words that give a model another shape than that of the one beside which they stand."""
_MOST_WORDS = 40

_GPT_OSS = {"hidden": 2880, "heads": 64, "kv_heads": 8, "head_dim": 64, "vocab": 201_088, "ffn": 4 * 2880, "experts_per_token": 4}
_FURTHER: Mapping[str, tuple[Mapping[str, int], float]] = {
    "gptoss20b": ({"layers": 24, "experts": 32, "parameters": 20_914_757_184, "active_parameters": 3_610_000_000}, 0.579),
    "gptoss120b": ({"layers": 36, "experts": 128, "parameters": 116_829_156_672, "active_parameters": 5_130_000_000}, 0.544),
}
"""
Models that engines are measured with and the catalogue has not, with the bytes of a linear weight: experts of gpt-oss are shipped in
MXFP4 (4.25 bits), all else in 16 bits (its model card).
"""


_ANNOUNCED_BILLIONS = {"nemotronultrav3": 500, "nemotronsuperv3": 120, "nemotronnanov3": 32}
"""Parameters of models whose names do not say them, as announced (Nemotron 3: NVIDIA, December 2025)."""


def billions(name: str) -> float | None:
    """Return the parameters in billions that the name of a model says (``397B``), or that were announced for it; None without either."""
    size = re.search(r"(?<![\d.a-z])(\d{1,4}(?:\.\d)?)b\b", name.lower())
    return float(size[1]) if size else _ANNOUNCED_BILLIONS.get(_plain(name))


def linear_bytes(name: str, stated: str = "") -> tuple[float, tuple[str, ...]]:
    """
    Return the bytes of a linear weight of the model called *name*, and what was taken for granted for them.

    They are 16 bits unless *stated*, which is the format that a row names, the name or the model says otherwise.
    """
    known = _known(name)
    plain = known[1] if known else _plain(name)
    further = _FURTHER.get(plain)
    if further and "fp8" not in stated.lower():
        return further[1], ()
    each, said = shipped_bytes(f"{stated} {name}", plain)
    return each, (said,) if said else ()


def granted(name: str) -> tuple[str, ...]:
    """Return what is taken for granted where the model called *name* is one of the catalogue under another name."""
    known = _known(name)
    said = []
    if re.search(r"[-_ ](vl|omni)[-_ ]", name.lower()):
        said.append("the language part alone, without the encoder of pictures")
    if known is not None:
        own = known[0].name
        if not {_plain(own), _plain(_undated(own))} & {_plain(written) for written in _writings(name)}:
            said.append(f"the shape of {own}")
    return tuple(said)


def granted_in(text: str, model: Model) -> tuple[str, ...]:
    """Return what is taken for granted where *model* was found in the words of *text*."""
    plain = re.sub(r"[^a-z0-9]", "", text.lower())
    is_named = any(own in plain for own in (_plain(model.name), _plain(_undated(model.name))))
    return () if is_named else (f"the shape of {model.name}",)


def find(name: str) -> Model:
    """
    Return the model that a table calls *name*.

    Raises
    ------
    Unpredictable
        If the catalogue has no such model.
    """
    known = _known(name)
    if known is None:
        raise Unpredictable(f"the catalogue has no model {name!r}" if name else "the row names no model")
    return known[0]


@functools.lru_cache(maxsize=1024)
def _known(name: str) -> tuple[Model, str] | None:
    """Return the model that *name* means, and the plain name that it was found under; None where nothing is called so."""
    if (numbers := opt(name)) is not None:
        return from_numbers(numbers), _plain(name)
    for written in _writings(name):
        plain = _plain(written)
        found = _models().get(plain)
        if found is None:  # a mixture of experts without its active parameters: Qwen3-235B is Qwen3-235B-A22B
            longer = [model for known, model in _models().items() if re.fullmatch(rf"{plain}a\d+b", known)] if plain else []
            found = longer[0] if len(longer) == 1 else None
        if found is not None and _is_of_size(found, name):
            return found, plain
    return _derived(name)


def _writings(name: str) -> tuple[str, str, str]:
    """Return *name* as it is; without a date; without the parameters, which some tables write behind it (``DeepSeek-V3-671B``)."""
    return name, _undated(name), _SIZE.sub(" ", _undated(name))


def _derived(name: str) -> tuple[Model, str] | None:
    """Return the model whose whole name stands in *name* beside that of who trained it further: ``Hermes-3-Llama-3.1-8B``."""
    words = _words(_undated(name))
    if _OTHER_SHAPES & set(words) or len(words) > _MOST_WORDS or billions(name) is None:
        return None
    parts = (words[first:last] for first in range(len(words)) for last in range(len(words), first + 1, -1))
    versioned = ("".join(part) for part in parts if len(part) > 2 or re.search(r"\d", part[0]))
    for part in sorted(versioned, key=len, reverse=True):
        found = _models().get(part)
        if found is not None and _is_of_size(found, name):
            return found, part
    return None


def described(numbers: Mapping[str, object]) -> Model:
    """
    Return the model that a table describes by its numbers.

    Raises
    ------
    Unpredictable
        If they are of no model.
    """
    try:
        return from_numbers(numbers)
    except InputError as why:
        raise Unpredictable(str(why)) from None


def find_in(text: str) -> Model:
    """Return the model whose name stands in *text* (``Llama 3.1 8B full finetune``): the longest of several."""
    plain = re.sub(r"[^a-z0-9]", "", text.lower())
    named = [name for name, model in _models().items() if name in plain and _is_of_size(model, text)]
    if not named:
        raise Unpredictable(f"no model of the catalogue is named in {text!r}")
    return _models()[max(named, key=len)]


def _is_of_size(model: Model, words: str) -> bool:
    """Whether *model* has about as many parameters as *words* say, if they do: ``Qwen2-57B`` is no Qwen2.5-7B."""
    size = billions(words)
    return size is None or _SAME_SIZE[0] <= model.parameters / 1e9 / size <= _SAME_SIZE[1]


def _plain(name: str) -> str:
    """Return what all ways of writing a name have in common: ``LLAMA3.1_8B`` is ``meta-llama/Llama-3.1-8B``."""
    joined = "".join(_words(name)).removeprefix("meta")
    return re.sub(r"(\d+)b(\d+)a?b?$", r"\1ba\2b", joined) if re.search(r"\db\d+a$", joined) else joined


def _words(name: str) -> list[str]:
    bare = re.sub(r"(?<=\d)p(?=\d)", ".", re.sub(r"\(.*?\)", "", name.lower()).strip().rpartition("/")[2])
    return [word for word in re.split(r"[^a-z0-9]+", bare) if word and word not in ENDINGS]


def _undated(name: str) -> str:
    """Return *name* without the month, or day, of a release: ``2407``, ``0528``, ``20240620``."""
    return re.sub(r"(?<![a-z0-9.])(?:2[3-6](?:0\d|1[0-2])|(?:0\d|1[0-2])[0-3]\d|20\d{6})(?![a-z0-9.])", " ", name, flags=re.IGNORECASE)


@functools.cache
def _models() -> Mapping[str, Model]:
    """Return models by plain name: those of the catalogue, then relatives, then names of the catalogue without their date."""
    written = {_plain(name): model for name, model in reversed(list(catalogue().items()))}
    undated = {_plain(_undated(name)): model for name, model in reversed(list(catalogue().items()))}
    found = {**undated, **dict(aliases({**undated, **written})), **written}
    for name, (numbers, _) in _FURTHER.items():
        found[name] = from_numbers({"name": name, **_GPT_OSS, **numbers})
    return found


_MACHINES = {
    "p4d": "a100 40gb", "p4de": "a100 80gb", "p5": "h100", "p5e": "h200", "p5en": "h200", "p3dn": "v100 32gb", "g5": "a10g", "g6": "l4",
    "g6e": "l40s", "a2-highgpu": "a100 40gb", "a2-ultragpu": "a100 80gb", "a3-highgpu": "h100", "a3-megagpu": "h100", "dgx-1": "v100 16gb",
    "dgx-2": "v100 32gb",
}  # fmt: skip
"""Cards of machines that are rented or sold under a name of their own (pages of AWS, Google Cloud and NVIDIA)."""


@functools.lru_cache(maxsize=1024)
def card(text: str) -> Card:
    """
    Return the card whose name stands in *text* (``DGX-H100``, ``2 nodes, 16 H20``, ``a100_sxm_comm_nccl``).

    The longest name wins. A name that several cards share is that with the most memory, on a board with NVLink; the text decides
    between memories (``80GB``) where it names one.

    Raises
    ------
    Unpredictable
        If no card of the catalogue is named.
    """
    one_card = re.sub(r"\b(?![2-5]0[5-9]0)\d{1,4} ?[x×*] ?(?=[a-z0-9])", " ", text.lower())  # 8xA100, but not 3090 x8
    one_card = re.sub(r"(?<=\d)[x×*]\d{1,4}\b", " ", re.sub(r"(?<![a-z0-9])(\d{2,3})g\b", r"\1gb", one_card))  # A100-40G, RTX4090x2
    one_card = re.sub(r"\b([a-z]{1,3}\d{1,4}[a-z]?|\d{4})s\b(?<!l40s)", r"\1", one_card)  # A100s, 4090s
    for machine, its in _MACHINES.items():
        one_card = re.sub(rf"\b{machine}(?![\w])", its, one_card)
    plain = re.sub(r"(?<=[a-z])(?=\d)|[^a-z0-9]", " ", one_card)
    plain = " " + re.sub(r"\s+", " ", plain) + " "
    best: list[Card] = []
    length = 0
    for one in cards():
        for alias in (one.slug, *one.aliases, *one.nvml_names):
            spaced = re.sub(r"(?<=[a-z])(?=\d)|[^a-z0-9]", " ", alias.lower())
            spaced = re.sub(r"\b(nvidia|tesla|geforce|hbm 3|hbm3)\b", " ", spaced)
            spaced = re.sub(r"\s+", " ", spaced).strip()
            if not spaced or f" {spaced} " not in plain:
                continue
            if len(spaced) > length:
                best, length = [one], len(spaced)
            elif len(spaced) == length and one not in best:
                best.append(one)
    if not best:
        raise Unpredictable(f"no card of the catalogue is named in {text!r}" if text.strip() else "the row names no card")
    stated = re.search(r"\b(\d{2,3}) ?gi?b\b", one_card)
    if stated is not None:
        alike = [one for one in cards() if one.chip == best[0].chip and abs(one.total_mib / 1024 - int(stated[1])) < 0.08 * int(stated[1])]
        best = alike or best
    return max(best, key=lambda one: (one.nvlink_links, one.total_mib))


def one_card(text: str) -> Card:
    """
    Return the card that *text* names, where it is one alone.

    Raises
    ------
    Unpredictable
        If no card of the catalogue is named, or several are: tables do not say which of them does what.
    """
    found: dict[str, None] = {}
    for part in re.split(r"[+,;/&|]| and | with |->", text.lower()):
        try:
            found[card(part).slug] = None
        except Unpredictable:
            continue
    if len({slug.partition("-")[0] for slug in found}) > 1:
        raise Unpredictable(f"cards of several kinds ({' and '.join(found)}) run one job, and the row does not say which does what")
    return card(text)


def sounds_like_experts(name: str) -> bool:
    """Whether the name of an unknown model is that of a mixture of experts (``30B-A3B``, ``8x7B``, ``MoE``)."""
    return re.search(r"\d+b-?a?\d+(\.\d+)?[ba]\b|\d+x\d+b|moe|deepseek.?v[23]|gpt-oss|kimi", name.lower()) is not None
