"""The constants of the cost model: complete, sourced, and sane."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from placement.constants.table import TIME_FACTOR, Constants, allowed, constants, is_of_links, sources
from placement.workloads.dataflow import Work
from topologies.cards import TORCH_OVERHEAD_MIB

NAMES = [field.name for field in dataclasses.fields(Constants)]

UNITS = {
    "_mib": "MiB",
    "_us": "us",
    "_us_per_gpu": "us per GPU",
    "_us_per_layer": "us per layer",
    "_efficiency": "share",
    "mfu_dense": "share of peak",
    "mfu_moe": "share of peak",
}


def test_the_file_has_each_constant_once_and_nothing_else() -> None:
    assert list(sources()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_constant_says_its_unit_and_where_it_comes_from(name: str) -> None:
    said = sources()[name]
    assert said.unit
    assert said.obtained in {"published", "derived", "fitted", "measured"}
    assert len(said.source) > 20


@pytest.mark.parametrize("name", NAMES)
def test_the_unit_in_the_name_is_the_unit_in_the_file(name: str) -> None:
    for ending, unit in UNITS.items():
        if name.endswith(ending):
            assert sources()[name].unit.startswith(unit)


@pytest.mark.parametrize("name", NAMES)
def test_constants_are_positive_and_shares_are_at_most_one(name: str) -> None:
    value = getattr(constants(), name)
    assert value > 0
    if sources()[name].unit.startswith("share"):
        assert value <= 1


@pytest.mark.parametrize("name", NAMES)
def test_no_value_of_another_unit_is_taken(name: str) -> None:
    """A number a thousand times the shipped one, or a thousandth, is a mistake of the unit; so is one five times off that."""
    may, value = allowed(name), getattr(constants(), name)
    assert may.has(value)
    for times in (1000, 200.1, 1 / 200.1, 1 / 1000, -1):
        assert not may.has(value * times)
    assert may.has(0) == may.or_zero


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        pytest.param("fp8_rate", 1, 4, id="8 bits are never slower than 16"),
        pytest.param("host_pinned_rounding", 1, 2, id="a byte takes a byte; sizes are rounded up to a power of two"),
        pytest.param("nf4_bytes_per_weight", 0.5, 1, id="four bits, and scales"),
        pytest.param("int4_bytes_per_weight", 0.5, 1, id="the same"),
        pytest.param("logit_bytes_per_token_and_vocab", 2, 64, id="logits have 16 bits at the least"),
        pytest.param("matmul_efficiency", 0.78 / 200, 1, id="a share"),
    ],
)
def test_bounds_in_nature_are_kept(name: str, least: float, most: float) -> None:
    may = allowed(name)
    assert (may.lowest, may.highest) == (least, most)
    assert may.has(least)
    assert not may.has(least * 0.999)
    assert not may.has(most * 1.001)


@pytest.mark.parametrize("field", dataclasses.fields(Constants), ids=lambda field: field.name)
def test_values_have_the_type_that_is_declared(field: dataclasses.Field[object]) -> None:
    value = getattr(constants(), field.name)
    assert isinstance(value, int) or field.type == "float"


def test_the_shipped_constants_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        constants().ring_efficiency = 1.0  # type: ignore[misc]


def test_what_torch_does_not_see_is_one_number() -> None:
    """`topologies` must not know of the constants; its catalogue shows what plans count with unless a user says otherwise."""
    assert constants().unseen_memory_mib == TORCH_OVERHEAD_MIB


def test_every_piece_of_work_that_takes_time_has_a_factor() -> None:
    factors = {name.removesuffix(TIME_FACTOR) for name in NAMES if name.endswith(TIME_FACTOR)}
    assert factors <= set(Work)
    assert {constants().time_factor(work) for work in factors} == {1}


MODEL = (
    *(f"memory.{name}" for name in ("activations", "engine_memory", "gpu_memory", "host_memory", "sending", "states")),
    *(f"timing.{name}" for name in ("collectives", "exchanges", "generation", "host_optimizer", "lengths", "passes", "stages", "syncing")),
    "checking.costs", "choices.batches", "choices.eight_bits", "choices.footprints", "demand", "machines.measured",
    "validation.relatives", "validation.setting",
)  # fmt: skip
"""The modules that compute memory and time."""

OF_LINKS = ("bandwidth", "graph", "link_rates", "links", "uplinks", "ways", "wiring")
"""The modules of `topologies` that say what links and groups carry."""

PARTS_OF_MACHINES = {
    18: "most NVLinks of any GPU; lanes and compute capabilities are such facts too",
    16: "lanes of a whole PCIe port",
    2000: "hops that a bounded search tries",
}
"""Numbers of `OF_LINKS` that are facts of machines, or bound a search."""

REFERENCE_SYSTEMS = {
    72: "GPUs of a rack NVL72",
    100: "Gb/s of a port (EDR)",
    200: "the same (HDR)",
    400: "the same (NDR)",
    800: "the same (XDR)",
    128: "width over layers, and width of a head",
    12: "12·layers·width², the parameters of a decoder",
    16: "TP sizes of a table's machine",
    10_000: "billions of parameters: no model is larger",
}
"""Numbers of the machines that published rows ran on, in `placement.validation.setting`."""

OPT = dict.fromkeys(
    (768, 12, 24, 2560, 4096, 5120, 40, 7168, 48, 56, 9216, 64, 72, 2048, 32, 50_272, 2050, 13),
    "shapes of OPT (Zhang et al., 2022, table 1)",
)
"""Shapes of models, in `placement.validation.relatives`."""

WORDS_OF_ARITHMETIC = {0, 0.5, 1, 2, 3, 4, 5, 6, 7, 8}
"""Halves, bytes of a number, passes and copies: every formula's docstring says which."""

LITERALS = {
    1e-6: "seconds in a microsecond",
    1e3: "nanoseconds in a microsecond",
    1e6: "microseconds in a second",
    1e9: "bytes in a gigabyte",
    1e12: "operations in a tera-operation",
    1e14: "a rate above that of any link, where a bisection begins",
    0.375: "Blom's plotting position (1958)",
    0.25: "the same",
    20: "1 << 20: bytes in a MiB",
    50: "1 << 50: MAX_TIME_US, what solvers add up",
    64: "entries of a cache",
    32: "TAIL_POINTS of the midpoint rule",
    1024: "MiB in a GiB, in a message",
    100: "per cent, in a rule",
    10: "from 10 GB/s on, a message has no decimals",
    12: "bytes of Adam's state beside 16-bit weights: master and two moments in fp32",
    18: "bytes per hidden unit of a layer's activations (Korthikanti et al. 2022, table 2)",
    9: "compute capability 9.0: Hopper",
    14: "tensors of a layer's adapters",
}
"""Numbers that may stand in the code of the model: definitions and published formulas, each with its reason."""


def literals(module: str) -> Iterator[tuple[int | float, int]]:
    """Yield the numbers in the code of a module, with their lines."""
    file = importlib.import_module(module).__file__
    assert file is not None
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node.value, node.lineno


@pytest.mark.parametrize("module", MODEL)
def test_every_number_of_the_model_is_in_the_data_file(module: str) -> None:
    """A number that is neither physics nor a definition belongs into constants.json, with its source; others into LITERALS."""
    known = LITERALS | {"validation.setting": REFERENCE_SYSTEMS, "validation.relatives": OPT}.get(module, {})
    stray = [(line, value) for value, line in literals(f"placement.{module}") if value not in WORDS_OF_ARITHMETIC and value not in known]
    assert stray == []


@pytest.mark.parametrize("module", OF_LINKS)
def test_every_number_of_links_is_in_their_data_file(module: str) -> None:
    """What a class of links carries, and what share of a peak is reached, is an entry of ``topologies/data/links.json``."""
    numbers = {value for value, _ in literals(f"topologies.{module}")}
    assert numbers <= WORDS_OF_ARITHMETIC | PARTS_OF_MACHINES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_constant_is_used(name: str) -> None:
    """A constant that no formula reads would let a user override nothing."""
    if is_of_links(name):
        return      # `tests/placement/test_link_constants.py`
    root = Path(importlib.import_module("placement").__file__ or "").parent
    files = [root / f"{module.replace('.', '/')}.py" for module in (*MODEL, "machines.machine")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert name.endswith(TIME_FACTOR) or f".{name}" in text
